"""Draw samples of a field over a window, given its raw maps: what calibration, the gates and users all call."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from plumbline.model.restoration.diffusion import draws, restore_steps
from plumbline.model.restoration.spread import Spread
from plumbline.prepare.restoration.conditions import MAPS, describe

Float = NDArray[np.floating[Any]]
WEST, EAST = 0, 1
COUNTS = [MAPS.index("count_west"), MAPS.index("count_east")]
LOS = [[MAPS.index(f"los_{part}_{side}") for part in ("up", "east")] for side in ("west", "east")]


class Denoiser(Protocol):
    """A network, whatever runs it."""

    alphas: NDArray[np.float64]

    def denoise(self, noisy: Float, step: int, conditions: NDArray[np.float32]) -> NDArray[np.float32]:
        """(B, F, H, W) the clean field."""


class Samples(NamedTuple):
    """K samples of up and east over a window."""

    field_mm: Float
    """(K, 2, rows, columns)"""
    process_mm: NDArray[np.float32]
    """(2, rows, columns) standard deviation of the Gaussian process."""
    process_mean_mm: NDArray[np.float32]
    """(2, rows, columns) its mean."""

    def weighted(self, spread: Spread) -> Samples:
        """The samples with as much of what they say beyond the Gaussian process as counts."""
        gain = np.array([spread.components[name].gain for name in ("up", "east")], np.float32)[:, None, None]
        return self._replace(field_mm=self.process_mean_mm + gain * (self.field_mm - self.process_mean_mm))


class Restored(NamedTuple):
    """A component over a window: arrays (rows, columns), mm."""

    mean: Float
    deviation: Float
    half_width: Float


def draw_samples(
    model: Denoiser, maps: NDArray[np.float32], steps: int, samples: int, eta: float, rng: np.random.Generator
) -> Samples:
    """Samples of the field over the window of raw maps (len(MAPS), rows, columns)."""
    told = describe(maps)
    shape = (samples, 2, *maps.shape[1:])
    fresh = draws(rng, shape)
    clean = restore_steps(
        lambda field, step: model.denoise(field, step, told.channels), next(fresh), model.alphas, steps, eta, fresh
    )
    return Samples(told.mean + told.scale[:, None, None] * clean, maps[2:4], told.mean)


def component(found: Samples, name: str, view: tuple[float, float] = (1.0, 0.0)) -> tuple[Float, Float]:
    """(K, rows, columns) samples of a component and (rows, columns) the Gaussian process's standard deviation.

    Args:
        found: of the window. name: of `spread.COMPONENTS`. view: `los_up`, `los_east`, for `los`.
    """
    if name != "los":
        which = 0 if name == "up" else 1
        return found.field_mm[:, which], found.process_mm[which]
    up, east = view
    # One direction leaves up and east apart unknown, and the samples' mean with them: along the line of sight the
    # process's own is nearer (docs/benchmarks/2026-11-26-fields.md). The samples tell the scatter.
    samples = up * found.field_mm[:, 0] + east * found.field_mm[:, 1]
    mean = up * found.process_mean_mm[0] + east * found.process_mean_mm[1]
    return (
        samples - samples.mean(axis=0) + mean,
        np.hypot(up * found.process_mm[0], east * found.process_mm[1]),
    )


def summarise(samples: Float, process: Float, name: str, spread: Spread, distance_m: Float) -> Restored:
    """Mean, standard deviation and half of the interval of a component."""
    deviation = spread.deviation(name, samples.std(axis=0, ddof=1), process)
    return Restored(samples.mean(axis=0), deviation, spread.half_width(name, deviation, distance_m))


def distances(counts: Float, cell_m: float) -> Float:
    """(rows, columns) to the nearest cell with a scatterer, m; infinite where there is none at all."""
    seen = counts > 0
    if not seen.any():
        return np.full(seen.shape, np.inf)
    return np.asarray(cell_m * ndimage.distance_transform_edt(~seen), float)


def mean_view(maps: NDArray[np.float32], side: int) -> tuple[float, float]:
    """Mean `los_up` and `los_east` of the scatterers of one side in raw maps."""
    weight = maps[COUNTS[side]]
    up, east = (float((weight * maps[k]).sum() / max(weight.sum(), 1e-9)) for k in LOS[side])
    return up, east
