"""Fit the 90 % interval of the steepest slope on held-out scenes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plumbline.core.arrays import Float
from plumbline.fields.model.slopes import FIGURES, Slopes, describe_slopes, gradient
from plumbline.fields.train.quantiles import equal_shares, fit_quantile, held_out_shift

LEAST_MM_M = 1e-4
"""Smallest error of a slope that counts, mm/m."""


class Drawn(NamedTuple):
    """A component over the window of a scene."""

    samples: NDArray[np.float32]
    """(K, rows, columns) mm, before any gain on their difference from the Gaussian process."""
    process: NDArray[np.float32]
    """Mean of the Gaussian process, mm."""
    true: NDArray[np.float32]
    number: int
    """Index of the scene."""
    cells: NDArray[np.intp]
    """(n,) cells that are drawn from it, counted row by row."""


class SlopeCells(NamedTuple):
    """m cells of a scene at which the slope is known."""

    number: int
    """Index of the scene."""
    wanted: Float
    """(m,) logarithm of the half-width by which the interval would end at the true slope."""
    figures: Float
    """(3, m) see `describe_slopes`."""


def slope_cells(
    drawn: Drawn, gain: float, half_width: Float, is_near: NDArray[np.bool_], cell_m: float
) -> SlopeCells:
    """Return those of n cells of a scene that count: not at the edge, and near a scatterer.

    Args:
        drawn: the component. gain: weight of its samples' difference from the Gaussian process.
        half_width: (n,) mm, of the displacement's interval. is_near: (n,) whether a cell is near
            enough to a scatterer. cell_m: side of a cell.
    """
    samples = drawn.process + gain * (drawn.samples - drawn.process)
    half = np.ones(drawn.true.shape)
    half.ravel()[drawn.cells] = half_width
    figures = describe_slopes(samples, half, cell_m).reshape(len(FIGURES), -1)
    error = gradient(samples.mean(axis=0), cell_m) - gradient(drawn.true, cell_m)
    inner = np.zeros(half.shape, bool)
    inner[1:-1, 1:-1] = True
    cells = drawn.cells[is_near & inner.ravel()[drawn.cells]]
    wanted = np.log(np.maximum(np.abs(error.ravel()[cells]), LEAST_MM_M))
    return SlopeCells(drawn.number, wanted, figures[:, cells])


def fit_slopes(scenes: Sequence[SlopeCells], start: Slopes) -> Slopes:
    """Fit the interval to cells of scenes, which count alike; few scenes move `start` little."""
    if not scenes:
        return start
    figures = np.concatenate([scene.figures for scene in scenes], axis=1)
    unit = np.maximum(figures.std(axis=1), 1e-3)
    centre = figures.mean(axis=1)
    start_weights = np.array(start.weights)

    def fit(some: Sequence[SlopeCells]) -> Slopes:
        design = np.concatenate([(scene.figures.T - centre) / unit for scene in some])
        residuals = np.concatenate([scene.wanted - start_weights @ scene.figures for scene in some])
        shares = equal_shares([len(scene.wanted) for scene in some])
        base, weight_change = fit_quantile(design, residuals, shares, len(some))
        weight_change = weight_change / unit
        return Slopes(
            base=base - float(weight_change @ centre),
            weights=(start_weights + weight_change).tolist(),
        )

    def log_residuals(scene: SlopeCells, fitted: Slopes) -> Float:
        return np.asarray(scene.wanted - np.log(fitted.half_width(scene.figures)), float)

    slopes = fit(scenes)
    slopes.base += held_out_shift(scenes, [scene.number for scene in scenes], fit, log_residuals)
    return slopes
