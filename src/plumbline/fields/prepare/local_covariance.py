"""Let the covariance differ by place: where much moves, the process is livelier, and where points contradict, noisier.

A town stands still but for a few places, and one covariance for all of it would smooth these away. Amplitude, length
and noise are told at nodes by the likelihood of the observations nearest to each (local likelihood: Risser and Calder
2015, Regression-based covariance functions for nonstationary spatial modeling), with the covariance of the whole as
prior. The covariance of two places is that of Paciorek and Schervish (2006, Spatial modelling using a new class of
nonstationary covariance functions, equation 8).
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np
from scipy import ndimage
from scipy.spatial import cKDTree

from plumbline.fields.prepare.covariance import VAGUE_MM, Covariance, Float, Points, matern, noise_deviation
from plumbline.fields.prepare.grid import Grid

AMPLITUDES, LENGTHS, NOISES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0), (0.35, 0.7, 1.4), (1.0, 5.0)
"""Tried, as factors on the covariance of the whole."""
PRIOR = (0.8, 0.4, 0.5)
"""Standard deviations of their logarithms. Noise is another only with strong evidence, as where a patch of one track is
off: on real points, whose noise has heavy tails, small differences of it do harm."""
NEAREST, EVERY = 36, 3
"""Observations that tell a node, and which of the nearest: they reach farther if some are left out."""
STEP_M, STEP_CELLS = 60.0, 6.0
"""Between nodes, at least; and by the cells, so that a window has as many nodes with larger ones."""
BEYOND = 1e12
"""More than any sum of squares of values in their standard deviations."""
SMOOTH = 0.5
"""Steps: standard deviation of the Gaussian window over the nodes."""


class Factors(NamedTuple):
    """Factors (N,) on the covariance at N places."""

    amplitude: Float
    length: Float
    noise: Float


class Places(NamedTuple):
    """Logarithms of the factors at nodes."""

    left: float
    """Easting of the first column, m."""
    bottom: float
    """Northing of the first row, m; rows go north."""
    step: float
    """Between nodes, m."""
    logs: Float
    """(3, rows, columns), in the order of `Factors`."""

    def at(self, place: Float) -> Factors:
        """Return the factors at places (N, 2), m, interpolated."""
        row, column = (place[:, 1] - self.bottom) / self.step, (place[:, 0] - self.left) / self.step
        return Factors(
            *(np.exp(ndimage.map_coordinates(part, [row, column], order=1, mode="nearest")) for part in self.logs)
        )


def fit_places(points: Points, whole: Covariance, grid: Grid, margin_m: float) -> Places:
    """Tell the factors on a grid of nodes that covers `grid` and `margin_m` around it.

    Nodes lie at multiples of their distance, so that windows that overlap share them.

    Args:
        points: at least one. whole: covariance of the whole field. grid: see above. margin_m: see above.
    """
    step = max(STEP_M, STEP_CELLS * grid.cell_m)
    left, bottom = grid.left - margin_m, grid.top - grid.rows * grid.cell_m - margin_m
    right, top = grid.left + grid.columns * grid.cell_m + margin_m, grid.top + margin_m
    east, north = (
        np.arange(np.floor(low / step), np.ceil(high / step) + 1) * step for low, high in ((left, right), (bottom, top))
    )
    x, y = np.meshgrid(east, north)
    logs = _likely(points, whole, np.column_stack([x.ravel(), y.ravel()])).reshape(3, *x.shape)
    smooth = np.stack([ndimage.gaussian_filter(part, SMOOTH, mode="nearest") for part in logs])
    return Places(float(east[0]), float(north[0]), step, smooth)


def _likely(points: Points, whole: Covariance, nodes: Float) -> Float:
    """Return the posterior means (3, nodes) of the factors' logarithms."""
    many = min(NEAREST * EVERY, len(points.value))
    near = cKDTree(points.place).query(nodes, k=many)[1].reshape(len(nodes), -1)
    near = near[:, :: max(1, many // NEAREST)][:, :NEAREST]
    place, up, east = points.place[near], points.view[near, 0], points.view[near, 1]
    distance = np.sqrt(((place[:, :, None] - place[:, None]) ** 2).sum(axis=-1))
    both_up, both_east = (part[:, :, None] * part[:, None] for part in (up, east))
    fixed = VAGUE_MM**2 * (both_up + both_east) + points.air(distance, near)
    moving = whole.up_mm**2 * both_up + whole.east_mm**2 * both_east
    diagonal = np.arange(near.shape[1])
    noise = noise_deviation(points.error[near], whole) ** 2 + 1e-6
    tried = np.array(list(product(np.log(AMPLITUDES), np.log(LENGTHS), np.log(NOISES))))
    found = np.empty((len(tried), len(nodes)))
    # The values are a last row of the matrix, so that its root has the solution in the same place.
    joint = np.empty((len(nodes), len(diagonal) + 1, len(diagonal) + 1))
    joint[:, -1, :-1] = points.value[near]
    joint[:, -1, -1] = BEYOND
    for number, (amplitude, length, loud) in enumerate(tried):
        if loud == 0:  # the same for all noises
            apart = fixed + np.exp(2 * amplitude) * moving * matern(distance, np.exp(length) * whole.length_m)
        joint[:, :-1, :-1] = apart
        joint[:, diagonal, diagonal] += np.exp(2 * loud) * noise
        root = np.linalg.cholesky(joint)
        found[number] = -0.5 * (root[:, -1, :-1] ** 2).sum(axis=1) - np.log(root[:, diagonal, diagonal]).sum(axis=1)
    found -= 0.5 * ((tried / PRIOR) ** 2).sum(axis=1)[:, None]
    weight = np.exp(found - found.max(axis=0))
    return np.asarray(tried.T @ (weight / weight.sum(axis=0)), float)


def correlation(distance: Float, first: Float, second: Float) -> Float:
    """Return the correlation (N, M) of places with lengths, m, `first` (N,) and `second` (M,)."""
    square = (first[:, None] ** 2 + second[None, :] ** 2) / 2
    return np.asarray(first[:, None] * second[None, :] / square * matern(distance / np.sqrt(square), 1.0), float)
