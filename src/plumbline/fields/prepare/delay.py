"""Tell how much turbulent air delays the points of a track, from what their series share at single epochs.

The delay is alike at neighbouring points and new within days (Hanssen 2001, section 4.7); where products are filtered
in time, some of it lasts. Its part in a change looks like movement of the ground, but is that of one track; the
Gaussian process has to know its size.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize
from scipy.spatial.distance import pdist

Float = NDArray[np.floating[Any]]
MOST_POINTS = 400
EDGES_M = (10.0, 20.0, 40.0, 70.0, 110.0, 160.0, 230.0, 320.0, 450.0, 640.0, 900.0)
LEAST_PAIRS = 30
LENGTHS_M = (30.0, 500.0)
"""A longer reach is a sill that no pair of points has seen; about half of the largest distance."""
CLIP = 5.0
"""Robust deviations of an epoch."""
CALM = 1.5
"""Times the median roughness, up to which a point counts: the others say little of what all share."""
LEAST_SHARED = 0.05
"""Of a point's own variance; less is chance."""
NO_LENGTH_M = 300.0
"""Where there is no delay, any will do."""
LATER, MOST_KEPT = (2, 3, 4), 0.8
"""Epochs between which memory is told, and the most."""


class Delay(NamedTuple):
    """Exponential covariance of the delay at an epoch."""

    deviation_mm: float
    length_m: float
    memory: float
    """Correlation from one epoch to the next; products are often filtered in time."""


NONE = Delay(0.0, NO_LENGTH_M, 0.0)


def estimate_delay(left: Float, place: Float) -> Delay:
    """Fit the variograms of the differences between epochs (Cressie 1993, section 2.4).

    Differences, since a movement that the courses have missed goes on over many epochs. Those of successive epochs tell
    size and length, those of later ones how much of a delay is kept.

    Args:
        left: (N, T) mm, what the fitted courses leave of each series; NaN where missing. place: (N, 2) m.
    """
    rng = np.random.default_rng(0)
    rows = np.arange(len(left)) if len(left) <= MOST_POINTS else rng.choice(len(left), MOST_POINTS, replace=False)
    left, place = left[rows], place[rows]
    first = _variogram(left, place, 1)
    if first is None:
        return NONE
    low, high = np.log(LENGTHS_M)
    best = optimize.minimize_scalar(lambda x: first.fit(np.exp(x))[0], bounds=(low, high), method="bounded").x
    length = float(np.exp(best))
    own, shared = first.fit(length)[1]
    if shared * (1 - np.exp(-first.lag[-1] / length)) < LEAST_SHARED * own:
        return NONE
    later = {apart: _variogram(left, place, apart) for apart in LATER}
    memory = _memory({apart: one.fit(length)[1][1] / shared for apart, one in later.items() if one is not None})
    return Delay(float(np.sqrt(shared / (1 - memory))), length, memory)


class _Variogram(NamedTuple):
    """Half of the mean square of differences (M,), mm^2, at M distances `lag`, m, from `pairs` of points."""

    lag: Float
    gamma: Float
    pairs: Float

    def fit(self, length_m: float) -> tuple[float, Float]:
        """Return the misfit, and the parts (2,) that each point has for itself and that neighbours share."""
        weight = np.sqrt(self.pairs) / self.gamma
        shape = np.column_stack([np.ones_like(self.lag), 1 - np.exp(-self.lag / length_m)])
        found, norm = optimize.nnls(shape * weight[:, None], self.gamma * weight)
        return float(norm), np.asarray(found, float)


def _variogram(left: Float, place: Float, apart: int) -> _Variogram | None:
    """Return the variogram of the differences of epochs `apart` from each other; None if the pairs are too few."""
    steps = (left[:, apart:] - left[:, :-apart]) / np.sqrt(2)
    steps = steps[:, np.isfinite(steps).any(axis=0)]
    enough = np.isfinite(steps).sum(axis=1) > steps.shape[1] / 2
    steps, place = steps[enough], place[enough]
    if len(steps) < LEAST_PAIRS:
        return None
    middle = np.nanmedian(steps, axis=0)
    scale = 1.4826 * np.nanmedian(np.abs(steps - middle), axis=0) + 1e-6
    steps = np.nan_to_num(np.clip(steps - middle, -CLIP * scale, CLIP * scale))
    rough = np.sqrt((steps**2).mean(axis=1))
    calm = rough <= CALM * np.median(rough)
    steps, distance = steps[calm], pdist(place[calm])
    half_square = pdist(steps, "sqeuclidean") / (2 * steps.shape[1])
    number = np.digitize(distance, EDGES_M)
    count = np.bincount(number, minlength=len(EDGES_M) + 1)
    known = np.flatnonzero(count >= LEAST_PAIRS)
    if len(known) < 4:
        return None
    gamma, lag = (np.bincount(number, part, len(count))[known] / count[known] for part in (half_square, distance))
    return _Variogram(lag, gamma, count[known].astype(float))


def _memory(ratios: dict[int, float]) -> float:
    """Return the correlation between epochs by the shared variance of later differences in units of that of the first.

    What is kept by r from each epoch to the next differs by (1 - r^k) / (1 - r) after k of them.
    """
    if not ratios:
        return 0.0
    tried = np.linspace(0, MOST_KEPT, 81)
    away = [np.log((1 - tried**k) / (1 - tried)) - np.log(max(ratio, 0.1)) for k, ratio in ratios.items()]
    return float(tried[np.square(away).sum(axis=0).argmin()])
