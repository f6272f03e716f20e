"""Estimate the turbulent delay of a track from the parts of its series that are shared at an epoch.

The delay is alike at neighbouring points and new within days (Hanssen 2001, section 4.7);
where products are filtered in time, some of it lasts. Its part in a change looks like
movement of the ground, but is in one track alone, so the Gaussian process needs its size.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import optimize
from scipy.spatial.distance import pdist

from plumbline.core.arrays import Float

MOST_POINTS = 400
EDGES_M = (10.0, 20.0, 40.0, 70.0, 110.0, 160.0, 230.0, 320.0, 450.0, 640.0, 900.0)
LEAST_PAIRS = 30
LENGTHS_M = (30.0, 500.0)
"""Smallest and largest length: a longer one has its sill beyond the distances of `EDGES_M`."""
CLIP = 5.0
"""Robust deviations of an epoch to which differences are clipped."""
MAX_ROUGHNESS = 1.5
"""Largest roughness of a point that counts, in medians: rougher ones hardly show a shared delay."""
LEAST_SHARED = 0.05
"""Smallest shared variance, as a share of the variance that points do not share; less is chance."""
NO_LENGTH_M = 300.0
"""Length that is written where there is no delay; it has no effect."""
MEMORY_EPOCHS, MAX_MEMORY = (2, 3, 4), 0.8
"""Distances in epochs from which memory is estimated, and its largest value."""


class Delay(NamedTuple):
    """Exponential covariance of the delay at an epoch."""

    deviation_mm: float
    length_m: float
    memory: float
    """Correlation from one epoch to the next; products are often filtered in time."""


NONE = Delay(0.0, NO_LENGTH_M, 0.0)


def estimate_delay(residuals: Float, place: Float) -> Delay:
    """Fit the variograms of the differences between epochs (Cressie 1993, section 2.4).

    Differences, since a movement that the courses have missed goes on over many epochs. Those of
    successive epochs determine size and length, those of later ones the memory of a delay.

    Args:
        residuals: (N, T) mm, of each series from the fitted courses; NaN where missing.
        place: (N, 2) m.
    """
    rng = np.random.default_rng(0)
    rows = (
        np.arange(len(residuals))
        if len(residuals) <= MOST_POINTS
        else rng.choice(len(residuals), MOST_POINTS, replace=False)
    )
    residuals, place = residuals[rows], place[rows]
    first = _bin_variogram(residuals, place, 1)
    if first is None:
        return NONE
    low, high = np.log(LENGTHS_M)
    best = optimize.minimize_scalar(
        lambda x: first.fit(np.exp(x))[0], bounds=(low, high), method="bounded"
    ).x
    length = float(np.exp(best))
    nugget, sill = first.fit(length)[1]
    if sill * (1 - np.exp(-first.lag[-1] / length)) < LEAST_SHARED * nugget:
        return NONE
    later = {apart: _bin_variogram(residuals, place, apart) for apart in MEMORY_EPOCHS}
    memory = _fit_memory(
        {
            apart: variogram.fit(length)[1][1] / sill
            for apart, variogram in later.items()
            if variogram is not None
        }
    )
    return Delay(float(np.sqrt(sill / (1 - memory))), length, memory)


class _Variogram(NamedTuple):
    """Half of the mean square of differences (M,), mm^2, at M distances `lag`, m, from
    `pairs` of points."""

    lag: Float
    gamma: Float
    pairs: Float

    def fit(self, length_m: float) -> tuple[float, Float]:
        """Return the misfit, and the variances (2,) of nugget (of single points) and sill."""
        weight = np.sqrt(self.pairs) / self.gamma
        shape = np.column_stack([np.ones_like(self.lag), 1 - np.exp(-self.lag / length_m)])
        variances, norm = optimize.nnls(shape * weight[:, None], self.gamma * weight)
        return float(norm), np.asarray(variances, float)


def _bin_variogram(residuals: Float, place: Float, apart: int) -> _Variogram | None:
    """Return the variogram of the differences of epochs `apart` from each other; None if
    the pairs are too few."""
    steps = (residuals[:, apart:] - residuals[:, :-apart]) / np.sqrt(2)
    steps = steps[:, np.isfinite(steps).any(axis=0)]
    enough = np.isfinite(steps).sum(axis=1) > steps.shape[1] / 2
    steps, place = steps[enough], place[enough]
    if len(steps) < LEAST_PAIRS:
        return None
    middle = np.nanmedian(steps, axis=0)
    scale = 1.4826 * np.nanmedian(np.abs(steps - middle), axis=0) + 1e-6
    steps = np.nan_to_num(np.clip(steps - middle, -CLIP * scale, CLIP * scale))
    rough = np.sqrt((steps**2).mean(axis=1))
    calm = rough <= MAX_ROUGHNESS * np.median(rough)
    steps, distance = steps[calm], pdist(place[calm])
    half_square = pdist(steps, "sqeuclidean") / (2 * steps.shape[1])
    number = np.digitize(distance, EDGES_M)
    count = np.bincount(number, minlength=len(EDGES_M) + 1)
    full_bins = np.flatnonzero(count >= LEAST_PAIRS)
    if len(full_bins) < 4:
        return None
    gamma, lag = (
        np.bincount(number, part, len(count))[full_bins] / count[full_bins]
        for part in (half_square, distance)
    )
    return _Variogram(lag, gamma, count[full_bins].astype(float))


def _fit_memory(ratios: dict[int, float]) -> float:
    """Return the correlation between epochs, from sills of later differences over the first's.

    A delay with correlation r from epoch to epoch is autoregressive. The variance of its
    differences over k epochs is (1 - r^k) / (1 - r) times that over one.
    """
    if not ratios:
        return 0.0
    candidates = np.linspace(0, MAX_MEMORY, 81)
    misfits = [
        np.log((1 - candidates**k) / (1 - candidates)) - np.log(max(ratio, 0.1))
        for k, ratio in ratios.items()
    ]
    return float(candidates[np.square(misfits).sum(axis=0).argmin()])
