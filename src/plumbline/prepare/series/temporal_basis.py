"""The dictionary of curves in time, and least squares of many series on all of them at once.

Every curve goes with the same offset and annual term. The normal matrix of a series is therefore one block of these
three, which is taken apart once (L D L'), and one column a curve; all else is products of small arrays.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.floating[Any]]
SEASON = 3
"""Columns that all curves share: offset, sine and cosine of the year."""
LINE = 0
"""Place of the straight line in the dictionary."""
RIDGE = 1e-6
"""A curve that hardly varies over a row's epochs (few values) must not make the system singular."""


def curves(when: Float) -> Float:
    """Dictionary of normalised movements g with g(0) = 0 and g(1) = 1, sampled at `when` (T,): (K, T).

    The first is the line; then movements coming to rest, accelerating ones, and late onsets.
    """
    settling = [(1 - np.exp(-when / tau)) / (1 - np.exp(-1 / tau)) for tau in (0.08, 0.2, 0.45)]
    accelerating = [when**2, when**4]
    late = [np.clip((when - onset) / (1 - onset), 0, 1) for onset in (0.25, 0.5, 0.75)]
    return np.stack([when, *settling, *accelerating, *late])


class Basis(NamedTuple):
    """Samples of the columns: the season's three, then the K curves; and the products that normal matrices need."""

    columns: Float
    """(3 + K, T)"""
    products: Float
    """(T, 6 + 4 K): of the season's pairs; of each season's column with all curves; of each curve with itself."""

    @property
    def curves(self) -> int:
        """K."""
        return len(self.columns) - SEASON


def make_basis(when: Float, years: float) -> Basis:
    """Basis for epochs `when` (T,), a share of the observation period, which is `years` long."""
    annual = 2 * np.pi * when * years
    season, curve = np.stack([np.ones_like(when), np.sin(annual), np.cos(annual)]), curves(when)
    pairs = [season[i] * season[j] for i in range(SEASON) for j in range(i, SEASON)]
    cross = [season[i] * g for i in range(SEASON) for g in curve]
    return Basis(np.concatenate([season, curve]), np.ascontiguousarray(np.stack([*pairs, *cross, *curve**2]).T))


class Normal(NamedTuple):
    """Normal matrices of N series for each of K curves, taken apart."""

    pivot: Float
    """(3, N) D of the season's block."""
    below: Float
    """(3, N) L below its diagonal: rows 1 and 2 of column 0, row 2 of column 1."""
    cross: Float
    """(3, N, K) L^-1 times the season's products with each curve."""
    own: Float
    """(N, K) what each curve has of its own: the reciprocal of its amplitude's entry in the inverse."""


class Amplitudes(NamedTuple):
    """Least squares of N series on each of K curves."""

    season: Float
    """(3, N) L^-1 times the season's right-hand side."""
    amplitude: Float
    """(N, K)"""
    left: Float
    """(N, K) weighted sum of squares that the fit leaves."""


def normal_matrices(basis: Basis, weight: Float) -> Normal:
    """Of series whose values have the weights `weight` (N, T)."""
    count = basis.curves
    sums = weight @ basis.products
    pairs, cross = sums[:, :6].T, sums[:, 6 : 6 + SEASON * count].reshape(-1, SEASON, count).transpose(1, 0, 2)
    ridge = RIDGE * np.maximum(pairs[0], 1)
    first = pairs[0] + ridge
    below_1, below_2 = pairs[1] / first, pairs[2] / first
    second = pairs[3] + ridge - below_1 * pairs[1]
    below_3 = (pairs[4] - below_1 * pairs[2]) / second
    third = pairs[5] + ridge - below_2 * pairs[2] - below_3**2 * second
    pivot, below = np.stack([first, second, third]), np.stack([below_1, below_2, below_3])
    freed = _forward(below[..., None], cross)
    own = sums[:, 6 + SEASON * count :] + ridge[:, None] - (freed**2 / pivot[..., None]).sum(0)
    return Normal(pivot, below, freed, own)


def amplitudes(basis: Basis, normal: Normal, weighted: Float, y: Float) -> Amplitudes:
    """Solve for series `y` (N, T); `weighted` is the same times the weights that `normal` was made with."""
    right = weighted @ basis.columns.T
    season = _forward(normal.below, right[:, :SEASON].T)
    scaled = season / normal.pivot
    beyond = right[:, SEASON:] - (normal.cross * scaled[..., None]).sum(0)
    amplitude = beyond / normal.own
    level = np.einsum("nt,nt->n", weighted, y) - (season * scaled).sum(0)
    return Amplitudes(season, amplitude, np.maximum(level[:, None] - amplitude * beyond, 0))


def fitted(basis: Basis, normal: Normal, found: Amplitudes, chosen: NDArray[np.intp]) -> Float:
    """(N, T) the fit of each series by its curve `chosen` (N,), at all epochs, gaps included."""
    rows = np.arange(len(chosen))
    amplitude = found.amplitude[rows, chosen]
    low = (found.season - normal.cross[:, rows, chosen] * amplitude) / normal.pivot
    coefficients = np.zeros((len(chosen), len(basis.columns)))
    coefficients[:, 2] = low[2]
    coefficients[:, 1] = low[1] - normal.below[2] * low[2]
    coefficients[:, 0] = low[0] - normal.below[0] * coefficients[:, 1] - normal.below[1] * low[2]
    coefficients[rows, SEASON + chosen] = amplitude
    return np.asarray(coefficients @ basis.columns)


def _forward(below: Float, right: Float) -> Float:
    """L^-1 times `right` (3, ...)."""
    second = right[1] - below[0] * right[0]
    return np.stack([right[0], second, right[2] - below[1] * right[0] - below[2] * second])
