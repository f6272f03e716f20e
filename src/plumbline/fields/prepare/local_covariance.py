"""Fit a covariance that differs by place: larger where much moves, noisier where points contradict.

Most of a town does not move, and one covariance for all of it would smooth the few places that do.
Amplitude, length and noise are fitted at nodes to the observations nearest to each (local
likelihood: Risser and Calder 2015, Regression-based covariance functions for nonstationary spatial
modeling), with the covariance of the whole as prior. The covariance of two places is that of
Paciorek and Schervish (2006, Spatial modelling using a new class of nonstationary covariance
functions, equation 8).
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np
from scipy import ndimage
from scipy.spatial import cKDTree

from plumbline.core.arrays import Float
from plumbline.fields.prepare.covariance import (
    VAGUE_MM,
    Covariance,
    Points,
    matern,
    noise_deviation,
)
from plumbline.fields.prepare.grid import Grid

AMPLITUDES, LENGTHS, NOISES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0), (0.35, 0.7, 1.4), (1.0, 5.0)
"""Values that are compared, as factors on the covariance of the whole."""
PRIOR = (0.8, 0.4, 0.5)
"""Standard deviations of their logarithms. Noise differs only with strong evidence, as in a patch
of one track that is off. Real noise has heavy tails, where small differences do harm."""
NODE_OBSERVATIONS, NODE_STRIDE = 36, 3
"""Number of observations of a node, and the step at which they are taken from the nearest ones."""
STEP_M, STEP_CELLS = 60.0, 6.0
"""Smallest distance between nodes, and the same in cells, for windows of large cells."""
CORNER = 1e12
"""Diagonal of the row of values: more than any sum of squares of values in standard deviations."""
SMOOTH = 0.5
"""Standard deviation, in steps, of the Gaussian window over the nodes."""


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
    """Distance between nodes, m."""
    logs: Float
    """(3, rows, columns), in the order of `Factors`."""

    def at(self, place: Float) -> Factors:
        """Return the factors at places (N, 2), m, interpolated."""
        row, column = (place[:, 1] - self.bottom) / self.step, (place[:, 0] - self.left) / self.step
        return Factors(
            *(
                np.exp(ndimage.map_coordinates(part, [row, column], order=1, mode="nearest"))
                for part in self.logs
            )
        )


def fit_places(points: Points, whole: Covariance, grid: Grid, margin_m: float) -> Places:
    """Fit the factors on a grid of nodes that covers `grid` and `margin_m` around it.

    Coordinates of nodes are multiples of their distance, so that overlapping windows share them.

    Args:
        points: at least one. whole: covariance of the whole field. grid, margin_m: covered area.
    """
    step = max(STEP_M, STEP_CELLS * grid.cell_m)
    west_m, south_m = grid.left - margin_m, grid.top - grid.rows * grid.cell_m - margin_m
    east_m, north_m = grid.left + grid.columns * grid.cell_m + margin_m, grid.top + margin_m
    east, north = (
        np.arange(np.floor(low / step), np.ceil(high / step) + 1) * step
        for low, high in ((west_m, east_m), (south_m, north_m))
    )
    x, y = np.meshgrid(east, north)
    logs = _posterior_means(points, whole, np.column_stack([x.ravel(), y.ravel()])).reshape(
        3, *x.shape
    )
    smooth = np.stack([ndimage.gaussian_filter(part, SMOOTH, mode="nearest") for part in logs])
    return Places(float(east[0]), float(north[0]), step, smooth)


def _posterior_means(points: Points, whole: Covariance, nodes: Float) -> Float:
    """Return the posterior means (3, nodes) of the factors' logarithms."""
    count = min(NODE_OBSERVATIONS * NODE_STRIDE, len(points.value))
    near = cKDTree(points.place).query(nodes, k=count)[1].reshape(len(nodes), -1)
    near = near[:, :: max(1, count // NODE_OBSERVATIONS)][:, :NODE_OBSERVATIONS]
    place, up, east = points.place[near], points.view[near, 0], points.view[near, 1]
    distance = np.sqrt(((place[:, :, None] - place[:, None]) ** 2).sum(axis=-1))
    both_up, both_east = (part[:, :, None] * part[:, None] for part in (up, east))
    fixed = VAGUE_MM**2 * (both_up + both_east) + points.air(distance, near)
    moving = whole.up_mm**2 * both_up + whole.east_mm**2 * both_east
    diagonal = np.arange(near.shape[1])
    noise = noise_deviation(points.error[near], whole) ** 2 + 1e-6
    candidates = np.array(list(product(np.log(AMPLITUDES), np.log(LENGTHS), np.log(NOISES))))
    moving_by_length = {
        log_length: moving * matern(distance, np.exp(log_length) * whole.length_m)
        for log_length in np.log(LENGTHS)
    }
    log_posterior = np.empty((len(candidates), len(nodes)))
    # The values are the last row of the matrix: in its Cholesky root, that row is whitened.
    joint = np.empty((len(nodes), len(diagonal) + 1, len(diagonal) + 1))
    joint[:, -1, :-1] = points.value[near]
    joint[:, -1, -1] = CORNER
    for number, (log_amplitude, log_length, log_noise) in enumerate(candidates):
        if log_noise == 0:  # the same for all noises
            covariance = fixed + np.exp(2 * log_amplitude) * moving_by_length[log_length]
        joint[:, :-1, :-1] = covariance
        joint[:, diagonal, diagonal] += np.exp(2 * log_noise) * noise
        root = np.linalg.cholesky(joint)
        log_posterior[number] = -0.5 * (root[:, -1, :-1] ** 2).sum(axis=1) - np.log(
            root[:, diagonal, diagonal]
        ).sum(axis=1)
    log_posterior -= 0.5 * ((candidates / PRIOR) ** 2).sum(axis=1)[:, None]
    weight = np.exp(log_posterior - log_posterior.max(axis=0))
    return np.asarray(candidates.T @ (weight / weight.sum(axis=0)), float)


def correlation(distance: Float, first: Float, second: Float) -> Float:
    """Return the correlation (N, M) of places with lengths, m, `first` (N,) and `second` (M,)."""
    square = (first[:, None] ** 2 + second[None, :] ** 2) / 2
    return np.asarray(
        first[:, None] * second[None, :] / square * matern(distance / np.sqrt(square), 1.0), float
    )
