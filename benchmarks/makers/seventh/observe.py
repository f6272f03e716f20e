"""A town as one track's product tells it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.makers.seventh.scatterers import Scatterers
from benchmarks.makers.seventh.series import draw_course, draw_noise, spoil
from benchmarks.makers.seventh.settings import Array, Kind
from benchmarks.makers.seventh.structure import CAUSES
from benchmarks.makers.seventh.town import Town
from benchmarks.makers.seventh.tracks import Track

ALONG_ORBIT = 0.4
"""Standard deviation of positions along the orbit, as a share of that in range."""


@dataclass(frozen=True)
class Period:
    """The time from the first to the last epoch of all tracks, on which all movements have their courses."""

    first: pd.Timestamp
    last: pd.Timestamp
    seeds: NDArray[np.int64]
    """(B, CAUSES) of the courses, so that all tracks see the same."""

    def courses(self, dates: pd.DatetimeIndex, cause: int) -> Array:
        """(B, E) how much of one cause's movement has happened."""
        share = self.share(dates)
        return np.array([draw_course(np.random.default_rng(seed), share) for seed in self.seeds[:, cause]])

    def share(self, dates: pd.DatetimeIndex) -> Array:
        """(E,) of the time that has gone."""
        return np.asarray((dates - self.first).days / (self.last - self.first).days)


@dataclass(frozen=True)
class Product:
    """P scatterers of one track."""

    track: Track
    east_north: Array
    """(P, 2) as told, m."""
    height: Array
    incidence_deg: Array
    los: Array
    noise_mm: Array
    """(P,) standard deviation."""
    displacement: Array
    """(P, E) mm; NaN where there is none."""


def observe(
    generator: Generator, kind: Kind, town: Town, period: Period, scatterers: Scatterers, number: int, track: Track
) -> Product:
    """The product of the track with this number."""
    chosen = generator.permutation(np.flatnonzero(scatterers.track == number))
    owner, place = scatterers.owner[chosen], scatterers.east_north[chosen]
    # Incidence grows by half a degree across the town, away from the satellite.
    away = 1 if track.los(track.incidence_deg)[0] < 0 else -1
    incidence = track.incidence_deg + 0.5 * ((place[:, 0] - town.origin[0]) / town.side_m - 0.5) * away
    los = track.los(incidence)
    series = _movement(period, track, owner, (scatterers.movement[chosen] * los[:, None]).sum(-1))
    series += generator.uniform(-10, 10)  # the track's reference
    series += scatterers.strays_mm[chosen][:, None] * period.share(track.dates)
    if track.residuals is not None:
        noise = track.residuals[generator.integers(0, len(track.residuals), len(chosen))]
        size = np.sqrt(np.mean(noise**2, 1))
        series += noise
    else:
        noise, size = draw_noise(generator, kind, owner, len(town.structures), len(track.dates))
        series += noise
        spoil(generator, kind, series)

    position = np.array([one.position_m for one in town.structures])[owner]
    slant, along = generator.normal(0, position), generator.normal(0, ALONG_ORBIT * position)
    # Away from the satellite and up, or towards it and down: the range stays.
    look = los[:, :2] / np.hypot(los[:, 0], los[:, 1])[:, None]
    told = place - slant[:, None] * look + along[:, None] * np.stack([-look[:, 1], look[:, 0]], 1)
    height = scatterers.height[chosen] + slant * np.tan(np.radians(incidence))
    return Product(track, told, height, incidence, los, size, series)


def _movement(period: Period, track: Track, owner: NDArray[np.int64], towards: Array) -> Array:
    """(P, E) mm of movements towards the satellite (P, CAUSES + 1), m, the last of which is that of a summer."""
    series = np.zeros((len(owner), len(track.dates)))
    for cause in range(CAUSES):
        series += towards[:, cause, None] * period.courses(track.dates, cause)[owner]
    year = np.asarray(track.dates.day_of_year / 365.25)
    return 1e3 * series + 1e3 * towards[:, -1:] * np.sin(2 * np.pi * (year - 0.3))
