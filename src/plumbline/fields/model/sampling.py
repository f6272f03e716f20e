"""Sample fields by DDIM, and summarise them; needs no torch.

Samples alone vary too little: `spread` estimates how wide the interval of a place is.

Ho et al. 2020, Denoising diffusion probabilistic models; Song et al. 2021, Denoising
diffusion implicit models; Nichol and Dhariwal 2021 for the cosine schedule. The network
estimates the clean field (`prediction_type="sample"`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from plumbline.core.arrays import Float
from plumbline.core.errors import InputError
from plumbline.fields.model.spread import Spread, describe_places
from plumbline.fields.prepare.conditions import MAPS, MIRRORS, describe, mirrored, mirrored_field
from plumbline.fields.prepare.covariance import Covariance

Denoise = Callable[[Float, int], Float]
"""Function from a noisy field (B, F, H, W) and its step to the clean field."""
LARGEST_BETA = 0.999


def alphas_cumulative(schedule: str, train_steps: int) -> NDArray[np.float64]:
    """Return the share (train_steps,) of the field's variance that is left after each step,
    falling.

    Args:
        schedule: `linear` (Ho et al., section 4) or `squaredcos_cap_v2` (Nichol and
            Dhariwal, equation 17).
        train_steps: steps of the diffusion.
    """
    if schedule == "linear":
        beta = np.linspace(1e-4, 0.02, train_steps)
    else:
        edges = np.cos((np.arange(train_steps + 1) / train_steps + 0.008) / 1.008 * np.pi / 2) ** 2
        beta = np.minimum(1 - edges[1:] / edges[:-1], LARGEST_BETA)
    return np.asarray(np.cumprod(1 - beta), float)


def inference_steps(steps: int, train_steps: int) -> NDArray[np.int64]:
    """Return the diffusion steps (steps,) that restoring visits, the noisiest first
    (`timestep_spacing="trailing"`).

    Raises:
        InputError: more steps are wanted than there are.
    """
    if not 1 <= steps <= train_steps:
        raise InputError(
            f"--steps {steps}: 1 to {train_steps} needed, the steps that the model was trained "
            "for.",
            key="steps.out_of_range",
        )
    return np.round(np.arange(train_steps, 0, -train_steps / steps)).astype(np.int64)[:steps] - 1


def restore_steps(
    denoise: Denoise,
    noise: Float,
    alphas: NDArray[np.float64],
    *,
    steps: int,
    eta: float,
    fresh: Iterator[Float] | None = None,
) -> Float:
    """Remove the noise: one sample in each row (Song et al., equations 12 and 16).

    Args:
        denoise: the network. noise: (B, F, H, W) standard normal, to begin with.
        alphas: shares by `alphas_cumulative`. steps: number of them.
        eta: share of fresh noise at each step; 0: none.
        fresh: standard normal, shaped like `noise`.
    """
    field, visited = noise, inference_steps(steps, len(alphas))
    for number, step in enumerate(visited):
        alpha = alphas[step]
        next_alpha = alphas[visited[number + 1]] if number + 1 < len(visited) else 1.0
        clean = denoise(field, int(step))
        if next_alpha == 1.0:
            return clean
        predicted_noise = (field - np.sqrt(alpha) * clean) / np.sqrt(1 - alpha)
        sigma = eta * np.sqrt((1 - next_alpha) / (1 - alpha) * (1 - alpha / next_alpha))
        field = np.sqrt(next_alpha) * clean + np.sqrt(1 - next_alpha - sigma**2) * predicted_noise
        if sigma and fresh is not None:
            field = field + sigma * next(fresh)
        field = np.asarray(field, np.float32)
    return field


def draws(rng: np.random.Generator, shape: tuple[int, ...]) -> Iterator[NDArray[np.float32]]:
    """Yield standard normal fields without end."""
    while True:
        yield rng.standard_normal(shape, np.float32)


def opposite_draws(
    rng: np.random.Generator, shape: tuple[int, ...]
) -> Iterator[NDArray[np.float32]]:
    """Yield standard normal fields without end, the second half of the rows opposite to the first.

    What noise does to a sample then cancels to first order in the mean of both (antithetic
    variates, Hammersley and Morton 1956): eight samples are worth sixteen.
    """
    half = (-(-shape[0] // 2), *shape[1:])
    while True:
        noise = rng.standard_normal(half, np.float32)
        yield np.concatenate([noise, -noise])[: shape[0]]


COUNTS = [MAPS.index("count_west"), MAPS.index("count_east")]
LOS_EAST = [MAPS.index("los_east_west"), MAPS.index("los_east_east")]
BOTH, LINE = ("up", "east"), ("los",)


class DenoisingModel(Protocol):
    """A network, whatever runs it."""

    alphas: NDArray[np.float64]

    def denoise(
        self, noisy: Float, step: int, conditions: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Return the clean field (B, F, H, W)."""


class Samples(NamedTuple):
    """K samples of a window's field."""

    names: tuple[str, ...]
    """Components: up and east, or the line of sight alone, which then has the index of up."""
    field_mm: Float
    """(K, 2, rows, columns)"""
    maps: NDArray[np.float32]
    """(len(MAPS), rows, columns) raw maps, the conditions of the samples."""

    def weighted(self, spread: Spread) -> Samples:
        """Scale the samples' difference from the Gaussian process by the calibrated gain of
        each component."""
        gains = [spread.components[name].gain for name in self.names]
        gain = np.array([*gains, 1.0][:2], np.float32)[:, None, None]
        process_mm = self.maps[:2]
        return self._replace(field_mm=process_mm + gain * (self.field_mm - process_mm))

    def of(self, name: str) -> tuple[Float, Float]:
        """Return a component's samples (K, rows, columns) and the Gaussian process's
        deviation (rows, columns)."""
        which = self.names.index(name)
        return self.field_mm[:, which], self.maps[2 + which]


class Restored(NamedTuple):
    """A component over a window: arrays (rows, columns), mm."""

    mean: Float
    deviation: Float
    half_width: Float


def seen_components(maps: NDArray[np.float32]) -> tuple[str, ...]:
    """Return the components that a scene's raw maps show; the frame of
    `Observations.along_line` lacks east."""
    return BOTH if any(bool(maps[k].any()) for k in LOS_EAST) else LINE


def component_distances(maps: NDArray[np.float32], names: tuple[str, ...], cell_m: float) -> Float:
    """Return the distance (rows, columns), m, to the nearest scatterer; for `BOTH`, the
    larger of the two sides."""
    sides = [distances(maps[k], cell_m) for k in COUNTS]
    return np.maximum(*sides) if names == BOTH else np.minimum(*sides)


def draw_samples(
    model: DenoisingModel,
    maps: NDArray[np.float32],
    names: tuple[str, ...],
    *,
    steps: int,
    samples: int,
    eta: float,
    rng: np.random.Generator,
) -> Samples:
    """Draw samples of the field over a window, in turn from each of its mirror images, and
    in opposite pairs.

    The network's answers to an image and to its mirror image differ by the network's error, which
    the mean over both reduces.

    Args:
        model: network. maps: (len(MAPS), rows, columns) raw.
        names: `BOTH`, or `LINE` where the maps are in the frame of `Observations.along_line`.
        steps, samples, eta: as in `Restoring`. rng: generator of the noise.
    """
    parts = []
    for mirror in range(min(MIRRORS, samples)):
        conditions = describe(mirrored(maps, mirror))
        shape = (len(range(mirror, samples, MIRRORS)), 2, *maps.shape[1:])
        fresh = opposite_draws(rng, shape)
        denoise = partial(model.denoise, conditions=conditions.channels)
        clean = restore_steps(denoise, next(fresh), model.alphas, steps=steps, eta=eta, fresh=fresh)
        field = conditions.mean + conditions.scale[:, None, None] * clean
        parts.append(mirrored_field(field.astype(np.float32), mirror))
    return Samples(names, np.concatenate(parts), maps)


def summarise(
    samples: Samples, name: str, spread: Spread, distance_m: Float, covariance: Covariance
) -> Restored:
    """Summarise a component of weighted samples: mean, standard deviation and half of the interval.

    Args:
        samples: weighted samples. name: component. spread: calibrated spread. distance_m: (rows,
            columns), to the nearest scatterer. covariance: fitted to the process in `samples.maps`.
    """
    fields_mm, process = samples.of(name)
    scatter = fields_mm.std(axis=0, ddof=1)
    places = describe_places(
        samples.maps, samples.names.index(name), scatter, distance_m, covariance
    )
    half = spread.half_width(name, process, places)
    return Restored(fields_mm.mean(axis=0), spread.deviation(name, half), half)


def distances(counts: Float, cell_m: float) -> Float:
    """Return the distance (rows, columns), m, to the nearest cell with a scatterer;
    infinite without any."""
    has_scatterer = counts > 0
    if not has_scatterer.any():
        return np.full(has_scatterer.shape, np.inf)
    return np.asarray(cell_m * ndimage.distance_transform_edt(~has_scatterer), float)
