"""What a satellite sees: wavelength, revisit, noise and how many scatterers; ranges of section 4 of the design."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Array = NDArray[np.float64]
Range = tuple[float, float]


@dataclass(frozen=True)
class Sensor:
    """A satellite."""

    name: str
    wavelength_mm: float
    revisit_days: tuple[int, ...]
    """One of them a town."""
    years: Range
    points: float
    """Median number on a building of middle size, all tracks together."""
    points_range: tuple[int, int]
    noise_mm: Range
    """An epoch; one value a scatterer."""
    common_mm: Range
    """The part that scatterers of a building share."""
    position_m: Range
    """One value a building; half as much along the orbit."""
    correlated: Range
    """Share of the noise's variance that is correlated in time."""
    tracks: tuple[int, ...]
    """Number of them; one of these a town."""


SENSORS = {
    "xband": Sensor(
        "xband",
        wavelength_mm=31.0,
        revisit_days=(11,),
        years=(2.0, 3.0),
        points=46,
        points_range=(20, 150),
        noise_mm=(1.0, 2.0),
        common_mm=(2.0, 5.0),
        position_m=(0.2, 2.0),
        correlated=(0.3, 0.8),
        tracks=(1, 2),
    ),
    "sentinel": Sensor(
        "sentinel",
        wavelength_mm=55.5,
        revisit_days=(6, 12),
        years=(4.0, 5.0),
        points=13.5,
        points_range=(2, 20),
        noise_mm=(2.0, 5.0),
        common_mm=(2.0, 5.0),
        position_m=(0.5, 10.0),
        correlated=(0.05, 0.25),
        tracks=(2, 2, 2, 1),
    ),
}
SENSORS["sentinel_real"] = SENSORS["sentinel"]
SENSORS["sentinel_hard"] = replace(SENSORS["sentinel"], correlated=(0.2, 0.6))


@dataclass(frozen=True)
class View:
    """One track."""

    name: str
    heading: float
    """rad clockwise from north."""
    incidence: float
    """rad."""
    days: NDArray[np.int64]
    """(E,) since the first day of the town's period."""

    def los(self, incidence: Array) -> Array:
        """(N, 3) unit vectors east, north, up from ground to satellite for angles (N,), rad."""
        sine = np.sin(incidence)
        return np.column_stack([-sine * np.cos(self.heading), sine * np.sin(self.heading), np.cos(incidence)])


def draw_views(generator: Generator, sensor: Sensor) -> tuple[list[View], int]:
    """The tracks of a town, and the length of its period in days."""
    revisit = int(generator.choice(sensor.revisit_days))
    length = round(generator.uniform(*sensor.years) * 365.25)
    count = int(generator.choice(sensor.tracks))
    headings = generator.permutation([generator.uniform(347, 351), generator.uniform(190, 194)])[:count]
    views = []
    for number, heading in enumerate(headings):
        days = np.arange(number * revisit // 3, length + 1, revisit)
        gone = _gone(generator, len(days), generator.uniform(0.025, 0.1))
        name = f"{round(heading) % 360:03d}_{generator.integers(1000, 9999)}"
        views.append(View(name, np.radians(heading), np.radians(generator.uniform(29, 46)), days[~gone]))
    return views, length


def _gone(generator: Generator, epochs: int, share: float) -> NDArray[np.bool_]:
    """(epochs,) acquisitions that were never made: single ones and a pause; the first and last were."""
    gone = generator.random(epochs) < share / 2
    pause = max(1, round(share / 2 * epochs))
    start = generator.integers(1, epochs - pause)
    gone[start : start + pause] = True
    gone[[0, -1]] = False
    return np.asarray(gone)
