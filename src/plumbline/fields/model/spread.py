"""Estimate the width of the interval of a cell by figures of the place; needs no torch.

The standard deviation of the Gaussian process is multiplied with a factor: the exponential
of a weighted sum of a few figures of the place (`describe_places`). Training fits the
weights on scenes held back by regression on the quantile that intervals reach to (Koenker
and Bassett 1978). So 90 % of the intervals contain the truth where little moves and where
much does, beside points and between them, and where the points contradict the process.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from scipy import ndimage

from plumbline.core.arrays import Float
from plumbline.core.errors import OtherVersion
from plumbline.core.files import read_json
from plumbline.fields.model.slopes import Slopes
from plumbline.fields.prepare.conditions import MAPS
from plumbline.fields.prepare.covariance import Covariance

COMPONENTS = ("up", "east", "los")
COVERAGE = 0.9
SPREAD = "spread.json"
"""File of the spread in a folder of a model."""
LEAST_MM = 0.05
PLACES = (
    "distance",
    "scatter",
    "slope",
    "misfit",
    "misfit_whole",
    "error",
    "coherent",
    "points",
    "contrast",
    "offset",
    "known",
    "length",
    "noise",
    "delay",
)
"""Figures of a place, see `describe_places`; all are logarithms, and but for `length`
without a unit."""
NEAR, AROUND = 3.0, 8.0
"""Standard deviations, in cells, of the Gaussian windows in which residuals are averaged."""
MOST_SQUARED = 100.0
"""Largest square of a residual in standard errors: one wrong point does not dominate."""
LEAST_SCATTER = 0.01
"""Scatter added before the logarithm, as a share of the process's deviation."""
FARTHEST_M = 100.0
"""Distance to points up to which a cell counts in the figures of the whole window."""


def describe_places(
    maps: Float, component: int, scatter: Float, distance_m: Float, covariance: Covariance
) -> Float:
    """Return the figures `PLACES` (F, rows, columns) of each cell of a window.

    Args:
        maps: (len(MAPS), rows, columns) raw. component: 0 for up or the line of sight, 1 for east.
        scatter: (rows, columns) mm, standard deviation of the samples.
        distance_m: (rows, columns), to the nearest scatterer. covariance: fitted to the process.

    `distance`: to the nearest scatterer. All others are relative to the process's
    deviation: `scatter` of the samples; `slope` of the mean; standard `error` of the
    points; `offset` of the mean from that of the window; `contrast`, the
    movement of the window. `misfit`: squares of the points' residuals in their standard
        errors, `misfit_whole` in the
    entire window. `coherent`: residuals that neighbours share. `points`: their number. Of
    the fitted covariance: `known`, the process's deviation before the points are known; its
    `length`; `noise`, the factor on standard errors; `delay`, the standard error that
    neighbours share.
    """
    named = dict(zip(MAPS, np.asarray(maps, float), strict=True))
    mean, deviation = (
        np.asarray(maps[component], float),
        np.maximum(np.asarray(maps[2 + component], float), LEAST_MM),
    )
    cells, square, weight, error, shared = (np.zeros(mean.shape) for _ in range(5))
    for side in ("west", "east"):
        has_points = named[f"count_{side}"] > 0
        residual_mm = np.where(
            has_points,
            named[f"change_{side}"]
            - named[f"los_up_{side}"] * named["mean_up"]
            - named[f"los_east_{side}"] * named["mean_east"],
            0,
        )
        error_mm = np.where(has_points, named[f"error_{side}"], 1.0)
        precision = np.where(has_points, 1 / error_mm**2, 0)
        cells += has_points
        square += np.minimum((residual_mm / error_mm) ** 2, MOST_SQUARED)
        error += np.where(has_points, np.log(error_mm), 0)
        weight += precision
        # The square of the residuals' sum in a window, in units of what independent errors
        # would give.
        variance = _smooth(precision, NEAR / np.sqrt(2)) / (4 * np.pi * NEAR**2)
        shared += np.where(
            variance > 0,
            _smooth(precision * residual_mm, NEAR) ** 2 / np.maximum(variance, 1e-12),
            0,
        )
    total = max(float(cells.sum()), 1.0)
    near = _smooth(cells, AROUND) * 2 * np.pi * AROUND**2
    prior = 3.0  # weight, in points, of the window's mean in the mean around a cell

    def around(values: Float) -> Float:
        weighted_sum = _smooth(values, AROUND) * 2 * np.pi * AROUND**2
        return np.asarray((weighted_sum + prior * values.sum() / total) / (near + prior), float)

    is_near = (
        distance_m <= FARTHEST_M if (distance_m <= FARTHEST_M).any() else np.ones(mean.shape, bool)
    )
    slope = np.hypot(*np.gradient(mean)) if min(mean.shape) > 1 else np.zeros(mean.shape)
    contrast = mean[is_near].std() / np.sqrt((deviation[is_near] ** 2).mean())
    figures = (
        np.log1p(np.minimum(distance_m, 2 * FARTHEST_M) / 10),
        np.log(LEAST_SCATTER + scatter / deviation),
        np.log(0.05 + _smooth(slope, 2.0) / deviation),
        np.log(0.05 + around(square)),
        np.full(mean.shape, np.log(0.05 + square.sum() / total)),
        around(error) - np.log(deviation),
        np.log(0.1 + shared),
        np.log1p(near),
        np.full(mean.shape, np.log(0.1 + contrast)),
        np.log(0.1 + np.abs(mean - mean[is_near].mean()) / deviation),
        np.log(max((covariance.up_mm, covariance.east_mm)[component], LEAST_MM) / deviation),
        np.full(mean.shape, np.log(covariance.length_m / 100)),
        np.full(mean.shape, np.log(covariance.noise_scale)),
        np.log(0.05 + covariance.delay_mm / deviation),
    )
    return np.stack(figures)


def _smooth(values: Float, cells: float) -> Float:
    return np.asarray(ndimage.gaussian_filter(values, cells, mode="constant"), float)


class Scale(BaseModel):
    """Factor on the process's deviation by place; components differ in `Component.base` alone."""

    model_config = ConfigDict(extra="forbid")
    places: list[str] = list(PLACES)
    low: list[float]
    """Smallest value of each figure in calibration, to which figures are clipped."""
    high: list[float]
    centre: list[float]
    unit: list[float]
    weights: list[float]
    bends: list[float]
    """Change of each weight above the figure's centre."""

    @model_validator(mode="after")
    def _one_of_each(self) -> Scale:
        if tuple(self.places) != PLACES:
            raise ValueError(f"made for other figures of a place than {', '.join(PLACES)}")
        parts = (self.low, self.high, self.centre, self.unit, self.weights, self.bends)
        if any(len(part) != len(PLACES) for part in parts):
            raise ValueError(f"{len(PLACES)} numbers of each kind needed")
        if not all(unit > 0 for unit in self.unit):
            raise ValueError("units above 0 needed")
        return self

    def standard(self, places: Float) -> Float:
        """Return figures (2 F, ...) in units of their spread in calibration, and their
        parts above 0.

        Weights apply to the first half, and bends to the second.
        """
        low, high, centre, unit = (
            np.array(part).reshape(-1, *[1] * (places.ndim - 1))
            for part in (self.low, self.high, self.centre, self.unit)
        )
        scaled = (np.clip(places, low, high) - centre) / unit
        return np.concatenate([scaled, np.maximum(scaled, 0)])

    def logarithm(self, places: Float) -> Float:
        """Return the logarithm of the factor, without the component's `base`."""
        return np.asarray(
            np.tensordot(np.array(self.weights + self.bends), self.standard(places), 1), float
        )


class Component(BaseModel):
    """Spread of a component: up or east seen from two directions, the line of sight from one."""

    model_config = ConfigDict(extra="forbid")
    gain: float = Field(default=1.0, ge=0, le=1.5)
    """Weight of the samples' difference from the Gaussian process."""
    base: float
    """Constant in the logarithm of the factor."""
    reach: float = Field(gt=0)
    """Standard deviations from the mean to the ends of the interval."""


class Spread(BaseModel):
    """`spread.json`."""

    model_config = ConfigDict(extra="forbid")
    scale: Scale
    components: dict[str, Component]
    farthest_m: float = Field(gt=0)
    """Largest distance from a scatterer with a field; beyond, errors are too large."""
    slopes: Slopes

    def half_width(self, component: str, process: Float, places: Float) -> Float:
        """Return half of the 90 % interval, mm.

        Args:
            component: one of `COMPONENTS`. process: (...) mm, deviation of the Gaussian process.
            places: (F, ...) figures of the same cells.
        """
        factor = np.exp(self.components[component].base + self.scale.logarithm(places))
        return np.asarray(np.hypot(factor * process, LEAST_MM), float)

    def deviation(self, component: str, half_width: Float) -> Float:
        """Return the standard deviation, mm, that belongs to half of an interval."""
        return np.asarray(half_width / self.components[component].reach, float)


def read_spread(path: Path) -> Spread:
    """Read the spread of a trained model.

    Raises:
        InputError: the file is missing or no JSON.
        OtherVersion: it was written by another version.
    """
    try:
        spread = Spread.model_validate(read_json(path))
    except ValidationError as error:
        raise OtherVersion(
            f"{path}: not readable as a spread ({error.errors()[0]['msg']}). Get one of this "
            "version.",
            key="spread.other_version",
        ) from None
    if set(spread.components) != set(COMPONENTS):
        raise OtherVersion(
            f"{path}: components {', '.join(COMPONENTS)} needed. Get one of this version.",
            key="spread.other_components",
        )
    return spread
