"""What a satellite sees: wavelength, times, noise, errors of position and how many scatterers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.random import Generator
from numpy.typing import NDArray

Range = tuple[float, float]
MISSED = 0.04
"""Share of epochs at which nothing was acquired."""


class Track(NamedTuple):
    """One orbit."""

    name: str
    heading: float
    """Degrees clockwise from north."""
    incidence: float
    """Degrees, in the middle of the town."""


@dataclass(frozen=True)
class Sensor:
    """A satellite."""

    wavelength_mm: float
    points: float
    """Median number on a building, both tracks together."""
    points_range: tuple[int, int]
    revisit_days: int
    years: float
    noise_mm: Range
    """An epoch; one value a scatterer."""
    common_mm: Range
    """The part that scatterers of a building share."""
    walk_mm: float
    """Random walk, after a year."""
    height_error: Range
    """Of scatterers: standard deviation, m, and that of the logarithm of a factor to it."""
    azimuth_m: float
    range_m: float
    """Standard deviations of positions along the orbit, and across it besides what errors of height do."""
    position_m: Range
    """Least and largest error of a position."""
    bias_m: float
    """Standard deviation of what moves a whole track across its orbit."""
    cell_m: Range
    """Resolution along and across the orbit: one scatterer in each cell."""
    tracks: tuple[Track, Track]


SENSORS = {
    "xband": Sensor(
        wavelength_mm=31.0,
        points=46,
        points_range=(20, 150),
        revisit_days=11,
        years=3.3,
        noise_mm=(1.0, 2.0),
        common_mm=(2.0, 4.0),
        walk_mm=0.5,
        height_error=(0.32, 0.45),
        azimuth_m=0.3,
        range_m=0.2,
        position_m=(0.2, 2.0),
        bias_m=0.3,
        cell_m=(1.0, 1.5),
        tracks=(Track("A", 350.3, 34.5), Track("D", 189.8, 37.8)),
    ),
    "sentinel": Sensor(
        wavelength_mm=55.5,
        points=12.24,
        points_range=(2, 20),
        revisit_days=6,
        years=4.0,
        noise_mm=(2.0, 5.0),
        common_mm=(2.0, 5.0),
        walk_mm=0.6,
        height_error=(1.1, 0.55),
        azimuth_m=0.7,
        range_m=0.6,
        position_m=(0.5, 10.0),
        bias_m=1.0,
        cell_m=(2.0, 5.0),
        tracks=(Track("A", 349.0, 38.6), Track("D", 190.9, 34.9)),
    ),
}
# Epochs and noise are those of the residuals.
SENSORS["sentinel_real"] = replace(SENSORS["sentinel"], tracks=(Track("A", 351.06, 38.97), Track("D", 191.42, 37.31)))


def draw_epochs(generator: Generator, sensor: Sensor, first: pd.Timestamp) -> list[pd.DatetimeIndex]:
    """The days of each track; every track has its first one."""
    planned = int(sensor.years * 365.25 / sensor.revisit_days)
    epochs = []
    for number in range(len(sensor.tracks)):
        behind = number * int(generator.integers(1, sensor.revisit_days))
        days = first + pd.to_timedelta(np.arange(planned) * sensor.revisit_days + behind, unit="D")
        acquired: NDArray[np.bool_] = generator.random(planned) > MISSED
        acquired[0] = True
        epochs.append(days[acquired])
    return epochs
