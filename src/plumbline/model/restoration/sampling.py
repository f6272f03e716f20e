"""Draw samples of a field over a window from its raw maps, for calibration, the gates and users."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from plumbline.model.restoration.diffusion import draws, restore_steps
from plumbline.model.restoration.spread import Spread
from plumbline.prepare.restoration.conditions import MAPS, MIRRORS, describe, mirrored, mirrored_field

Float = NDArray[np.floating[Any]]
COUNTS = [MAPS.index("count_west"), MAPS.index("count_east")]
LOS_EAST = [MAPS.index("los_east_west"), MAPS.index("los_east_east")]
BOTH, LINE = ("up", "east"), ("los",)


class Denoiser(Protocol):
    """A network, whatever runs it."""

    alphas: NDArray[np.float64]

    def denoise(self, noisy: Float, step: int, conditions: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the clean field (B, F, H, W)."""


class Samples(NamedTuple):
    """K samples of a window's field."""

    names: tuple[str, ...]
    """Components that it tells: up and east, or the line of sight, which then stands in up's place."""
    field_mm: Float
    """(K, 2, rows, columns)"""
    process_mm: NDArray[np.float32]
    """(2, rows, columns) standard deviation of the Gaussian process."""
    process_mean_mm: NDArray[np.float32]
    """(2, rows, columns) its mean."""

    def weighted(self, spread: Spread) -> Samples:
        """Scale the samples' difference from the Gaussian process by the calibrated gain of each component."""
        gains = [spread.components[name].gain for name in self.names]
        gain = np.array([*gains, 1.0][:2], np.float32)[:, None, None]
        return self._replace(field_mm=self.process_mean_mm + gain * (self.field_mm - self.process_mean_mm))

    def of(self, name: str) -> tuple[Float, Float]:
        """Return a component's samples (K, rows, columns) and the Gaussian process's deviation (rows, columns)."""
        which = self.names.index(name)
        return self.field_mm[:, which], self.process_mm[which]


class Restored(NamedTuple):
    """A component over a window: arrays (rows, columns), mm."""

    mean: Float
    deviation: Float
    half_width: Float


def told_by(maps: NDArray[np.float32]) -> tuple[str, ...]:
    """Return the components that a scene's raw maps show; the frame of `Observations.along_line` lacks east."""
    return BOTH if any(bool(maps[k].any()) for k in LOS_EAST) else LINE


def told_distances(maps: NDArray[np.float32], names: tuple[str, ...], cell_m: float) -> Float:
    """Return the distance (rows, columns), m, to the nearest scatterer; for `BOTH`, the larger of the two sides."""
    sides = [distances(maps[k], cell_m) for k in COUNTS]
    return np.maximum(*sides) if names == BOTH else np.minimum(*sides)


def draw_samples(
    model: Denoiser,
    maps: NDArray[np.float32],
    names: tuple[str, ...],
    steps: int,
    samples: int,
    eta: float,
    rng: np.random.Generator,
) -> Samples:
    """Draw samples of the field over a window, in turn from each of its mirror images.

    What the network makes of an image and of its mirror image differs by the network's own error, which this evens out.

    Args:
        model: network. maps: (len(MAPS), rows, columns) raw. names: `BOTH`, or `LINE` where the maps are in the frame
            of `Observations.along_line`. steps, samples, eta: of restoring. rng: gives the noise.
    """
    parts = []
    for mirror in range(min(MIRRORS, samples)):
        told = describe(mirrored(maps, mirror))
        shape = (len(range(mirror, samples, MIRRORS)), 2, *maps.shape[1:])
        fresh = draws(rng, shape)
        denoise = partial(model.denoise, conditions=told.channels)
        clean = restore_steps(denoise, next(fresh), model.alphas, steps, eta, fresh)
        field = told.mean + told.scale[:, None, None] * clean
        parts.append(mirrored_field(field.astype(np.float32), mirror))
    return Samples(names, np.concatenate(parts), maps[2:4], maps[:2])


def summarise(found: Samples, name: str, spread: Spread, distance_m: Float) -> Restored:
    """Summarise a component: mean, standard deviation and half of the interval."""
    samples, process = found.of(name)
    deviation = spread.deviation(name, samples.std(axis=0, ddof=1), process)
    return Restored(samples.mean(axis=0), deviation, spread.half_width(name, deviation, distance_m))


def distances(counts: Float, cell_m: float) -> Float:
    """Return the distance (rows, columns), m, to the nearest cell with a scatterer; infinite without any."""
    seen = counts > 0
    if not seen.any():
        return np.full(seen.shape, np.inf)
    return np.asarray(cell_m * ndimage.distance_transform_edt(~seen), float)
