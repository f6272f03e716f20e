"""Fit the interval of the steepest slope on held-out scenes, so that 90 % means 90 %."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plumbline.fields.model.slopes import FIGURES, Slopes, describe_slopes, gradient
from plumbline.fields.model.spread import Float
from plumbline.fields.train.quantiles import equal_shares, fit_quantile, held_out_shift

LEAST_MM_M = 1e-4
"""A slope that misses less is right."""


class Drawn(NamedTuple):
    """A component over the window of a scene."""

    samples: NDArray[np.float32]
    """(K, rows, columns) mm, their part beyond the Gaussian process whole."""
    process: NDArray[np.float32]
    """Mean of the Gaussian process, mm."""
    true: NDArray[np.float32]
    number: int
    """Of the scene."""
    cells: NDArray[np.intp]
    """(n,) that are drawn from it, counted row by row."""


class SlopeCells(NamedTuple):
    """m cells of a scene at which the slope is known."""

    number: int
    """Of the scene."""
    wanted: Float
    """(m,) logarithm of the half-width by which the interval would end at the true slope."""
    figures: Float
    """(3, m) see `describe_slopes`."""


def slope_cells(drawn: Drawn, gain: float, half_width: Float, told: NDArray[np.bool_], cell_m: float) -> SlopeCells:
    """Choose those of a scene's n cells that count; at the window's edge, slopes are to one side.

    Args:
        drawn: the component. gain: how much of its samples counts. half_width: (n,) mm, of the displacement's interval.
        told: (n,) near enough to a scatterer. cell_m: side of a cell.
    """
    samples = drawn.process + gain * (drawn.samples - drawn.process)
    half = np.ones(drawn.true.shape)
    half.ravel()[drawn.cells] = half_width
    figures = describe_slopes(samples, half, cell_m).reshape(len(FIGURES), -1)
    error = gradient(samples.mean(axis=0), cell_m) - gradient(drawn.true, cell_m)
    inner = np.zeros(half.shape, bool)
    inner[1:-1, 1:-1] = True
    cells = drawn.cells[told & inner.ravel()[drawn.cells]]
    wanted = np.log(np.maximum(np.abs(error.ravel()[cells]), LEAST_MM_M))
    return SlopeCells(drawn.number, wanted, figures[:, cells])


def fit_slopes(scenes: Sequence[SlopeCells], start: Slopes) -> Slopes:
    """Fit the interval to cells of scenes, which count alike; few scenes leave the weights of `start` little."""
    if not scenes:
        return start
    whole = np.concatenate([own.figures for own in scenes], axis=1)
    unit = np.maximum(whole.std(axis=1), 1e-3)
    centre = whole.mean(axis=1)
    known = np.array(start.weights)

    def fit(some: Sequence[SlopeCells]) -> Slopes:
        design = np.concatenate([(own.figures.T - centre) / unit for own in some])
        left = np.concatenate([own.wanted - known @ own.figures for own in some])
        shares = equal_shares([len(own.wanted) for own in some])
        base, moved = fit_quantile(design, left, shares, len(some))
        moved = moved / unit
        return Slopes(base=base - float(moved @ centre), weights=(known + moved).tolist())

    def left(own: SlopeCells, fitted: Slopes) -> Float:
        return np.asarray(own.wanted - np.log(fitted.half_width(own.figures)), float)

    found = fit(scenes)
    found.base += held_out_shift(scenes, [own.number for own in scenes], fit, left)
    return found
