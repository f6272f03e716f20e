"""Say how wide the interval of a cell is, by what stands there; needs no torch.

The standard deviation of the Gaussian process is multiplied with a factor: the exponential of a weighted sum of a few
figures of the place (`describe_places`). Training fits the weights on scenes held back by regression on the quantile
that intervals reach to (Koenker and Bassett 1978), so that 90 % hold where little moves and where much does, beside
points and between them, and where the points contradict the process.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from scipy import ndimage

from plumbline.core.errors import OtherVersion
from plumbline.core.files import read_json
from plumbline.fields.model.slopes import Slopes
from plumbline.fields.prepare.conditions import MAPS
from plumbline.fields.prepare.covariance import Covariance

Float = NDArray[np.floating[Any]]
COMPONENTS = ("up", "east", "los")
COVERAGE = 0.9
FILE = "spread.json"
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
"""Figures of a place, see `describe_places`; all are logarithms, and but for `length` without a unit."""
NEAR, AROUND = 3.0, 8.0
"""Cells: standard deviations of the Gaussian windows in which residuals are averaged."""
MOST_SQUARED = 100.0
"""Of a residual in its standard errors: one wrong point does not say more."""
LEAST_SCATTER = 0.01
"""Of the samples, as a share of the process's deviation."""
FARTHEST_M = 100.0
"""What lies farther from points does not count in the figures of the whole window."""


def describe_places(maps: Float, which: int, scatter: Float, distance_m: Float, covariance: Covariance) -> Float:
    """Return the figures `PLACES` (F, rows, columns) of each cell of a window.

    Args:
        maps: (len(MAPS), rows, columns) raw. which: 0 up or the line of sight, 1 east.
        scatter: (rows, columns) mm, standard deviation of the samples. distance_m: to the nearest scatterer.
        covariance: of the process.

    `distance`: to the nearest scatterer. All others are relative to the process's deviation: `scatter` of the samples;
    `slope` of the mean; standard `error` of the points; `offset` of the mean from that of the window; `contrast`, the
    movement of the window. `misfit`: squares of the points' residuals in their standard errors, `misfit_whole` in the
    entire window. `coherent`: residuals that neighbours share. `points`: their number. Of the fitted covariance:
    `known`, the process's deviation before the points are known; its `length`; `noise`, the factor on standard errors;
    `delay`, the standard error that neighbours share.
    """
    named = dict(zip(MAPS, np.asarray(maps, float), strict=True))
    mean, deviation = np.asarray(maps[which], float), np.maximum(np.asarray(maps[2 + which], float), LEAST_MM)
    cells, square, weight, error, shared = (np.zeros(mean.shape) for _ in range(5))
    for side in ("west", "east"):
        seen = named[f"count_{side}"] > 0
        left = np.where(
            seen,
            named[f"change_{side}"]
            - named[f"los_up_{side}"] * named["mean_up"]
            - named[f"los_east_{side}"] * named["mean_east"],
            0,
        )
        own = np.where(seen, named[f"error_{side}"], 1.0)
        precision = np.where(seen, 1 / own**2, 0)
        cells += seen
        square += np.minimum((left / own) ** 2, MOST_SQUARED)
        error += np.where(seen, np.log(own), 0)
        weight += precision
        # The square of the residuals' sum in a window, in units of what independent errors would give.
        variance = _smooth(precision, NEAR / np.sqrt(2)) / (4 * np.pi * NEAR**2)
        shared += np.where(variance > 0, _smooth(precision * left, NEAR) ** 2 / np.maximum(variance, 1e-12), 0)
    total = max(float(cells.sum()), 1.0)
    near = _smooth(cells, AROUND) * 2 * np.pi * AROUND**2
    prior = 3.0  # points of the whole window that stand for a place without any

    def around(values: Float) -> Float:
        own = _smooth(values, AROUND) * 2 * np.pi * AROUND**2
        return np.asarray((own + prior * values.sum() / total) / (near + prior), float)

    told = distance_m <= FARTHEST_M if (distance_m <= FARTHEST_M).any() else np.ones(mean.shape, bool)
    steep = np.hypot(*np.gradient(mean)) if min(mean.shape) > 1 else np.zeros(mean.shape)
    contrast = mean[told].std() / np.sqrt((deviation[told] ** 2).mean())
    found = (
        np.log1p(np.minimum(distance_m, 2 * FARTHEST_M) / 10),
        np.log(LEAST_SCATTER + scatter / deviation),
        np.log(0.05 + _smooth(steep, 2.0) / deviation),
        np.log(0.05 + around(square)),
        np.full(mean.shape, np.log(0.05 + square.sum() / total)),
        around(error) - np.log(deviation),
        np.log(0.1 + shared),
        np.log1p(near),
        np.full(mean.shape, np.log(0.1 + contrast)),
        np.log(0.1 + np.abs(mean - mean[told].mean()) / deviation),
        np.log(max((covariance.up_mm, covariance.east_mm)[which], LEAST_MM) / deviation),
        np.full(mean.shape, np.log(covariance.length_m / 100)),
        np.full(mean.shape, np.log(covariance.noise_scale)),
        np.log(0.05 + covariance.delay_mm / deviation),
    )
    return np.stack(found)


def _smooth(values: Float, cells: float) -> Float:
    return np.asarray(ndimage.gaussian_filter(values, cells, mode="constant"), float)


class Scale(BaseModel):
    """The factor on the process's deviation, by place; the same for all components but for their `Component.base`."""

    model_config = ConfigDict(extra="forbid")
    places: list[str] = list(PLACES)
    low: list[float]
    """Least of each figure in calibration; what lies beyond counts as this, so that nothing is extrapolated."""
    high: list[float]
    centre: list[float]
    unit: list[float]
    weights: list[float]
    bends: list[float]
    """What is added to each weight above the figure's centre."""

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
        """Return figures (2 F, ...) in units of their spread in calibration, and again what is above their centre."""
        low, high, centre, unit = (
            np.array(part).reshape(-1, *[1] * (places.ndim - 1))
            for part in (self.low, self.high, self.centre, self.unit)
        )
        own = (np.clip(places, low, high) - centre) / unit
        return np.concatenate([own, np.maximum(own, 0)])

    def logarithm(self, places: Float) -> Float:
        """Return the logarithm of the factor, without the component's `base`."""
        return np.asarray(np.tensordot(np.array(self.weights + self.bends), self.standard(places), 1), float)


class Component(BaseModel):
    """Spread of one component: up or east if two directions see the place, the line of sight if one does."""

    model_config = ConfigDict(extra="forbid")
    gain: float = Field(default=1.0, ge=0, le=1.5)
    """How much of what the samples say beyond the Gaussian process counts."""
    base: float
    """Added to the logarithm of the factor."""
    reach: float = Field(gt=0)
    """Standard deviations from the mean to the ends of the interval."""


class Spread(BaseModel):
    """`spread.json`."""

    model_config = ConfigDict(extra="forbid")
    scale: Scale
    components: dict[str, Component]
    farthest_m: float = Field(gt=0)
    """Distance from which on a field is not told: beyond it, it misses more of the movement than it knows."""
    slopes: Slopes

    def half_width(self, component: str, process: Float, places: Float) -> Float:
        """Return half of the 90 % interval, mm.

        Args:
            component: of `COMPONENTS`. process: (...) mm, deviation of the Gaussian process.
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
        OtherVersion: it is none of this version.
    """
    try:
        found = Spread.model_validate(read_json(path))
    except ValidationError as error:
        raise OtherVersion(
            f"{path}: not readable as a spread ({error.errors()[0]['msg']}). Get one of this version."
        ) from None
    if set(found.components) != set(COMPONENTS):
        raise OtherVersion(f"{path}: {', '.join(COMPONENTS)} needed. Get one of this version.")
    return found
