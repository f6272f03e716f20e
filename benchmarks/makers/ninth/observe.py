"""Observe a town on one track, and write it as an EGMS L2b product."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.makers.ninth.scatterers import Scatterers, draw_scatterers
from benchmarks.makers.ninth.series import draw_gaps, draw_noise
from benchmarks.makers.ninth.settings import FIRST_DAY, HEADING_DEG, Array, Band, log_uniform
from benchmarks.makers.ninth.structure import CAUSES, Structure

MISSED = 0.04
"""Share of epochs that a whole track lacks."""
ALONG_ORBIT = 0.3
"""Most part of a position error that is not across the orbit."""
GROUND_M = 40.0
"""Above the sea."""
DRIFT_MM, OFFSET_MM = 1.0, 5.0
"""Most that a track's reference moves a year, and is off."""


@dataclass(frozen=True)
class Track:
    """One orbit with its epochs."""

    name: str
    heading_deg: float
    incidence_deg: float
    days: NDArray[np.int64]
    """(E,) since `FIRST_DAY`."""

    @property
    def towards(self) -> Array:
        """Return (2,) unit vector to the satellite, east and north: it looks to the right."""
        heading = np.radians(self.heading_deg)
        return np.array([-np.cos(heading), np.sin(heading)])

    @property
    def los(self) -> Array:
        """Return (3,) unit vector to the satellite, east, north and up."""
        incidence = np.radians(self.incidence_deg)
        return np.array([*np.sin(incidence) * self.towards, np.cos(incidence)])

    @property
    def dates(self) -> pd.DatetimeIndex:
        """Return the epochs."""
        return pd.Timestamp(FIRST_DAY) + pd.to_timedelta(self.days, unit="D")


def draw_tracks(generator: Generator, band: Band, years: float | None = None) -> list[Track]:
    """Draw an ascending and a descending track over the same time, of so many `years` where they are given."""
    every = int(generator.choice(band.revisit_days))
    drawn = generator.uniform(*band.years)
    count = int((years or drawn) * 365.25 / every)
    tracks = []
    for name, heading in HEADING_DEG.items():
        days = np.arange(count) * every + int(generator.integers(every))
        taken = generator.random(count) >= MISSED
        taken[[0, -1]] = True
        turned, incidence = generator.uniform(-2.5, 2.5), generator.uniform(*band.incidence_deg)
        tracks.append(Track(name, round(heading + turned, 2), round(incidence, 2), days[taken]))
    return tracks


def observe(
    generator: Generator,
    band: Band,
    structures: list[Structure],
    counts: NDArray[np.int64],
    track: Track,
    period: tuple[int, int],
) -> pd.DataFrame:
    """Return the product of one track, with the columns of an EGMS L2b file.

    Args:
        generator: of everything drawn.
        band: the satellite.
        structures: the town.
        counts: (B,) scatterers of each building.
        track: it.
        period: first and last day of all tracks, on which courses begin and end.
    """
    seen = draw_scatterers(generator, structures, counts, track.towards)
    noise, size = draw_noise(generator, band, seen.owner, track.days)
    series = _moved(structures, seen, track, period) + noise
    years = (track.days - period[0]) / 365.25
    series += generator.uniform(-OFFSET_MM, OFFSET_MM) + generator.uniform(-DRIFT_MM, DRIFT_MM) * years
    series[draw_gaps(generator, *series.shape)] = np.nan

    points = len(seen.owner)
    error = log_uniform(generator, band.position_m, points) * generator.choice([-1.0, 1.0], points)
    part = generator.uniform(-ALONG_ORBIT, ALONG_ORBIT, points)
    across, along = error * np.sqrt(1 - part**2), error * part
    left = np.array([-track.towards[1], track.towards[0]])
    place = seen.east_north + across[:, None] * track.towards + along[:, None] * left
    # The range stays: what is taken for higher is put farther from the satellite's side.
    height = GROUND_M + seen.height - across * np.tan(np.radians(track.incidence_deg))
    phase = 4 * np.pi / band.wavelength_mm * size
    columns = {
        "pid": [f"{track.name}{number:08d}" for number in range(points)],
        "mp_type": 0,
        "easting": place[:, 0].round(2),
        "northing": place[:, 1].round(2),
        "height": height.round(1),
        "rmse": size.round(1),
        "temporal_coherence": np.clip(np.exp(-(phase**2) / 2) + generator.normal(0, 0.03, points), 0.2, 0.99).round(2),
        "incidence_angle": track.incidence_deg,
        "track_angle": track.heading_deg,
        **{
            name: round(float(part), 4)
            for name, part in zip(("los_east", "los_north", "los_up"), track.los, strict=True)
        },
    }
    table = pd.DataFrame(columns).join(pd.DataFrame(series.round(1), columns=track.dates.strftime("%Y%m%d")))
    return table.iloc[generator.permutation(points)]


def _moved(structures: list[Structure], seen: Scatterers, track: Track, period: tuple[int, int]) -> Array:
    """Return movements (P, E) towards the satellite without noise, mm."""
    share = (track.days - period[0]) / (period[1] - period[0])
    whole, summer = 1e3 * seen.causes @ track.los, 1e3 * seen.summer @ track.los
    moved = np.zeros((len(seen.owner), len(share)))
    for cause in range(CAUSES):
        course = np.array([one.courses[cause].at(share) for one in structures])
        moved += whole[:, cause, None] * course[seen.owner]
    year = track.dates.day_of_year.to_numpy() / 365.25
    warmest = np.array([one.thermal[1] for one in structures])[:, None]
    return np.asarray(moved + summer[:, None] * np.cos(2 * np.pi * (year - warmest))[seen.owner])
