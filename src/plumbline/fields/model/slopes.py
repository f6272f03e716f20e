"""Steepest slope of a field, and half of its interval; needs no torch.

The half-width is a product of powers of three figures of a cell, all known once its samples
are drawn. Their exponents are fitted on scenes held back, by regression on the quantile
(Koenker and Bassett 1978), as those of `spread` are.
"""

from __future__ import annotations

import numpy as np
from pydantic import BaseModel, ConfigDict, model_validator
from scipy import ndimage

from plumbline.core.arrays import Float

FIGURES = ("scatter", "width", "steepness")
"""Figures that `describe_slopes` returns; all are logarithms."""
LEAST_MM_M = 0.002
"""Slope added before the logarithm, mm/m: less than any map shows."""
AROUND_CELLS = 2.0
"""Standard deviation of the Gaussian window in which squared slopes are averaged."""


def gradient(field: Float, cell_m: float) -> Float:
    """Return the steepest slope, mm/m; NaN spreads to neighbours."""
    along, across = np.gradient(field, cell_m)
    return np.asarray(np.hypot(along, across), float)


def describe_slopes(samples: Float, half_width: Float, cell_m: float) -> Float:
    """Return the figures `FIGURES` (3, rows, columns) of each cell of a window.

    Args:
        samples: (K, rows, columns) mm, weighted. half_width: (rows, columns) mm, of the
            displacement's interval.
        cell_m: side of a cell.

    `scatter`: standard deviation of the samples' slope, as a vector. `width`: of the displacement's
    interval, which depends on the points' noise and distance; the scatter does not. `steepness`:
    slope of the mean around the cell. Where the ground is steep, the edges that a field smooths are
    steep, too.
    """
    fields_mm = np.asarray(samples, float)
    sides = np.gradient(fields_mm, cell_m, axis=(1, 2))
    scatter = np.sqrt(sum(side.var(axis=0, ddof=1) for side in sides))
    steep = gradient(fields_mm.mean(axis=0), cell_m) ** 2
    around = np.sqrt(np.maximum(ndimage.gaussian_filter(steep, AROUND_CELLS, mode="nearest"), 0))
    return np.stack([np.log(LEAST_MM_M + scatter), np.log(half_width), np.log(LEAST_MM_M + around)])


class Slopes(BaseModel):
    """Fitted half-width of the 90 % interval of the steepest slope: of up, or of the line of
    sight."""

    model_config = ConfigDict(extra="forbid")
    figures: list[str] = list(FIGURES)
    base: float
    weights: list[float]

    @model_validator(mode="after")
    def _one_of_each(self) -> Slopes:
        if tuple(self.figures) != FIGURES or len(self.weights) != len(FIGURES):
            raise ValueError(f"one weight needed for each of {', '.join(FIGURES)}")
        return self

    def half_width(self, figures: Float) -> Float:
        """Return half of the interval (...), mm/m, of figures (3, ...)."""
        return np.asarray(
            np.exp(self.base + np.tensordot(np.array(self.weights), figures, 1)), float
        )
