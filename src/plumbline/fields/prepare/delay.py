"""Tell how much turbulent air delays the points of a track, from what their series share at single epochs.

The delay is independent from one epoch to the next and alike at neighbouring points (Hanssen 2001, section 4.7). Its
part in a change looks like movement of the ground, but is that of one track; the Gaussian process has to know its size.
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
LENGTHS_M = (30.0, 3000.0)
CLIP = 5.0
"""Robust deviations of an epoch."""
CALM = 1.5
"""Times the median roughness, up to which a point counts: the others say little of what all share."""
LEAST_SHARED = 0.05
"""Of a point's own variance; less is chance."""
NO_LENGTH_M = 300.0
"""Where there is no delay, any will do."""


class Delay(NamedTuple):
    """Exponential covariance of the delay at an epoch."""

    deviation_mm: float
    length_m: float


def estimate_delay(left: Float, place: Float) -> Delay:
    """Fit the variogram of the differences between successive epochs (Cressie 1993, section 2.4).

    Differences, since a movement that the courses have missed goes on over many epochs.

    Args:
        left: (N, T) mm, what the fitted courses leave of each series; NaN where missing. place: (N, 2) m.
    """
    rng = np.random.default_rng(0)
    rows = np.arange(len(left)) if len(left) <= MOST_POINTS else rng.choice(len(left), MOST_POINTS, replace=False)
    steps = np.diff(left[rows], axis=1) / np.sqrt(2)
    rows = rows[np.isfinite(steps).sum(axis=1) > steps.shape[1] / 2]
    steps = np.diff(left[rows], axis=1) / np.sqrt(2)
    if len(rows) < LEAST_PAIRS:
        return Delay(0.0, NO_LENGTH_M)
    middle = np.nanmedian(steps, axis=0)
    scale = 1.4826 * np.nanmedian(np.abs(steps - middle), axis=0) + 1e-6
    steps = np.nan_to_num(np.clip(steps - middle, -CLIP * scale, CLIP * scale))
    rough = np.sqrt((steps**2).mean(axis=1))
    calm = rough <= CALM * np.median(rough)
    steps, distance = steps[calm], pdist(place[rows][calm])
    half_square = pdist(steps, "sqeuclidean") / (2 * steps.shape[1])
    number = np.digitize(distance, EDGES_M)
    count = np.bincount(number, minlength=len(EDGES_M) + 1)
    known = np.flatnonzero(count >= LEAST_PAIRS)
    if len(known) < 4:
        return Delay(0.0, NO_LENGTH_M)
    gamma = (np.bincount(number, half_square, len(count)) / np.maximum(count, 1))[known]
    lag = (np.bincount(number, distance, len(count)) / np.maximum(count, 1))[known]
    weight = np.sqrt(count[known]) / gamma

    def misfit(log_length: float) -> tuple[float, Float]:
        shape = np.column_stack([np.ones_like(lag), 1 - np.exp(-lag / np.exp(log_length))])
        found, norm = optimize.nnls(shape * weight[:, None], gamma * weight)
        return float(norm), np.asarray(found, float)

    low, high = np.log(LENGTHS_M)
    best = optimize.minimize_scalar(lambda x: misfit(x)[0], bounds=(low, high), method="bounded").x
    own, shared = misfit(best)[1]
    if shared * (1 - np.exp(-lag[-1] / np.exp(best))) < LEAST_SHARED * own:
        return Delay(0.0, NO_LENGTH_M)
    return Delay(float(np.sqrt(shared)), float(np.exp(best)))
