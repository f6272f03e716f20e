"""Turn the scatter of samples into a calibrated spread: how far the field may be off, and where it is unknown.

Samples alone vary too little. The spread is made of theirs and of the Gaussian process's own, in shares that training
fits on scenes held back, and the ends of the 90 % interval stand at a number of standard deviations that depends on the
distance to the nearest scatterer.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from plumbline.core.errors import InputError
from plumbline.core.files import read_json

Float = NDArray[np.floating[Any]]
COMPONENTS = ("up", "east", "los")
COVERAGE = 0.9
FILE = "spread.json"
LEAST_MM = 0.05


class Component(BaseModel):
    """Spread of one component: up or east if two directions see the place, the line of sight if one does."""

    model_config = ConfigDict(extra="forbid")
    gain: float = Field(default=1.0, ge=0, le=1.5)
    """How much of what the samples say beyond the Gaussian process counts."""
    samples: float = Field(ge=0)
    """What the samples' standard deviation is multiplied with."""
    process: float = Field(ge=0)
    """What the Gaussian process's standard deviation is multiplied with; both add up in squares."""
    reach: list[float]
    """Standard deviations from the mean to the ends of the interval, in each bin of distance."""


class Spread(BaseModel):
    """`spread.json`."""

    model_config = ConfigDict(extra="forbid")
    distance_m: list[float]
    """Upper ends of the bins of distance to the nearest scatterer; the last bin has none."""
    components: dict[str, Component]
    farthest_m: float = Field(gt=0)
    """Distance from which on a field is not told: beyond it, it misses more of the movement than it knows."""

    def deviation(self, component: str, samples: Float, process: Float) -> Float:
        """Return the standard deviation, mm, in the shape of `samples` and `process`."""
        own = self.components[component]
        return np.asarray(np.sqrt((own.samples * samples) ** 2 + (own.process * process) ** 2 + LEAST_MM**2), float)

    def half_width(self, component: str, deviation: Float, distance_m: Float) -> Float:
        """Return half of the 90 % interval, mm."""
        number = np.searchsorted(np.array(self.distance_m), distance_m)
        return np.asarray(deviation * np.array(self.components[component].reach)[number], float)


def read_spread(path: Path) -> Spread:
    """Read the spread of a trained model.

    Raises:
        InputError: the file is missing or damaged.
    """
    try:
        found = Spread.model_validate(read_json(path))
    except ValidationError as error:
        raise InputError(f"{path}: not readable as a spread ({error.errors()[0]['msg']}). Get it again.") from None
    bins = len(found.distance_m) + 1
    if set(found.components) != set(COMPONENTS) or any(len(c.reach) != bins for c in found.components.values()):
        raise InputError(f"{path}: {', '.join(COMPONENTS)} with {bins} bins each needed. Get it again.")
    return found
