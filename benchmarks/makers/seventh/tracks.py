"""What a satellite does: its epochs and its line of sight, invented or those of a real product."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.random import Generator

from benchmarks.makers.products import read_product
from benchmarks.makers.seventh.settings import INCIDENCE_DEG, Array, Kind
from plumbline.core.errors import InputError

HEADING_DEG = (-12.0, 192.0)
"""Of an ascending and a descending track, clockwise from north, give or take three."""


@dataclass(frozen=True)
class Track:
    """One track with E epochs."""

    dates: pd.DatetimeIndex
    incidence_deg: float
    """In the middle of the town."""
    heading_deg: float
    residuals: Array | None = None
    """(R, E) mm: series of a real product less their line and annual course."""

    def los(self, incidence_deg: float | Array) -> Array:
        """(..., 3) unit vectors east, north, up from the ground to the satellite."""
        heading, incidence = np.radians(self.heading_deg), np.radians(incidence_deg)
        sine = np.sin(incidence)
        return np.stack([-sine * np.cos(heading), sine * np.sin(heading), np.cos(incidence)], -1)


def draw_tracks(generator: Generator, kind: Kind) -> list[Track]:
    """An ascending and a descending track; for kinds whose epochs are invented."""
    assert kind.invented is not None
    tracks, every = [], kind.invented.revisit_days
    for heading in [middle + generator.uniform(-3, 3) for middle in HEADING_DEG]:
        first = pd.Timestamp(kind.invented.first_day) + pd.Timedelta(days=int(generator.integers(0, every)))
        dates = pd.date_range(first, periods=kind.invented.epochs, freq=f"{every}D")
        tracks.append(Track(dates, generator.uniform(*INCIDENCE_DEG[kind.band]), heading))
    return tracks


def read_track(path: Path, direction: str) -> Track:
    """A track with the epochs, the mean line of sight and the residuals of an EGMS L2b product, see `read_product`.

    Raises:
        InputError: as `read_product`, or no point of it has a value at every epoch.
    """
    table, epochs = read_product(path, direction)
    dates = pd.DatetimeIndex(pd.to_datetime(epochs, format="%Y%m%d"))
    series = table[epochs].to_numpy(float)
    series = series[np.isfinite(series).all(1)]
    if not series.size:
        raise InputError(f"--residuals: no point of {path} has a value at every epoch. Give another product.")
    years = (dates - dates[0]).days.to_numpy() / 365.25
    turn = 2 * np.pi * years
    design = np.stack([np.ones_like(years), years, np.sin(turn), np.cos(turn)], 1)
    residuals = series - (design @ np.linalg.lstsq(design, series.T, rcond=None)[0]).T
    return Track(dates, float(table["incidence_angle"].mean()), float(table["track_angle"].mean()), residuals)
