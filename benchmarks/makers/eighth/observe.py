"""A city's movement as a satellite's product tells it."""

from __future__ import annotations

import string
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.makers.eighth.courses import course, passing_course
from benchmarks.makers.eighth.noise import draw_gaps, invented
from benchmarks.makers.eighth.points import City, Points, draw_points
from benchmarks.makers.eighth.residuals import Borrowed
from benchmarks.makers.eighth.sensors import Sensor, Track

Array = NDArray[np.float64]
GROUND_M = 30.0
"""Height of the town above the sea."""
STEEPER = 4e-5
"""Degrees by which the incidence grows a metre away from the satellite."""
LEAST_MM = 1e-4
"""A trough that moves a scatterer by less is none."""


@dataclass(frozen=True)
class Look:
    """Where a track's satellite is, from P scatterers."""

    towards: Array
    """(2,) unit vector east and north."""
    incidence: Array
    """(P,) rad"""
    los: Array
    """(P, 3) unit vectors east, north, up."""

    def along(self, up: Array, sideways: Array) -> Array:
        """(P,) of a movement up (P,) and east and north (P, 2)."""
        return np.asarray((sideways * self.los[:, :2]).sum(1) + up * self.los[:, 2])


def observe(
    generator: Generator,
    sensor: Sensor,
    number: int,
    epochs: pd.DatetimeIndex,
    city: City,
    counts: NDArray[np.int64],
    borrowed: Borrowed | None,
) -> pd.DataFrame:
    """The product of a track, with the columns of an EGMS L2b file.

    Args:
        generator: of everything drawn here. sensor: see `Sensor`. number: of the track. epochs: its days.
        city: what it sees. counts: (B,) scatterers of each building.
        borrowed: where noise comes from; None: it is invented.
    """
    track = sensor.tracks[number]
    heading = np.radians(track.heading)
    towards = np.array([-np.cos(heading), np.sin(heading)])  # the satellite looks to the right
    points = draw_points(generator, sensor, city, counts, towards)
    look = _look(track, points, towards, city.town.middle)
    days = (epochs - city.first).days.to_numpy()
    centre = np.array([structure.frame.centre for structure in city.structures])[points.owner]
    offset = points.east_north - centre
    moved = _moved(city, points, look, offset, epochs)
    if borrowed:
        noise = borrowed.noise(number, points.owner, offset)
    else:
        noise = invented(generator, sensor, points.owner, len(city.structures), days)
    # Every track has a reference of its own: a constant, and what is left of its orbit.
    series = moved + noise + generator.uniform(-3, 3) + generator.uniform(-1, 1) * days / 365.25
    if not borrowed:
        series[draw_gaps(generator, *series.shape)] = np.nan
    told, higher = _misplaced(generator, sensor, points, look)
    noise = noise - noise.mean(1, keepdims=True)
    letters = np.array(list(string.ascii_letters + string.digits))
    names = letters[generator.integers(0, len(letters), (len(noise), 10))]
    columns = {
        "pid": ["".join(name) for name in names],
        "mp_type": 0,
        "easting": told[:, 0].round(2),
        "northing": told[:, 1].round(2),
        "height": (points.height + GROUND_M + higher).round(1),
        "rmse": np.sqrt((noise**2).mean(1)).round(1),
        "temporal_coherence": abs(np.exp(4j * np.pi * noise / sensor.wavelength_mm).mean(1)).round(2),
        "incidence_angle": np.degrees(look.incidence).round(2),
        "track_angle": track.heading,
        **{name: look.los[:, axis].round(3) for axis, name in enumerate(("los_east", "los_north", "los_up"))},
    }
    table = pd.DataFrame(columns).join(pd.DataFrame(series.round(1), columns=epochs.strftime("%Y%m%d")))
    return table.iloc[generator.permutation(len(table))]


def _look(track: Track, points: Points, towards: Array, middle: Array) -> Look:
    """Where the satellite of a track is: a little lower, the farther away it is."""
    incidence = np.radians(track.incidence + (points.east_north - middle) @ -towards * STEEPER)
    return Look(towards, incidence, np.column_stack([np.sin(incidence)[:, None] * towards, np.cos(incidence)]))


def _moved(city: City, points: Points, look: Look, offset: Array, epochs: pd.DatetimeIndex) -> Array:
    """(P, E) mm towards the satellite, without noise, of scatterers at (P, 2) m from their buildings' centres."""
    days = (epochs - city.first).days.to_numpy()
    share = days / (city.last - city.first).days
    year = epochs.year.to_numpy() + (epochs.day_of_year.to_numpy() - 1) / 365.25
    failing, rigid, passing = (
        np.array([structure.courses[part] for structure in city.structures])[points.owner] for part in range(3)
    )
    whole = [1e3 * look.along(points.up[:, part], points.sideways[:, part]) for part in range(3)]
    trough = np.where(abs(whole[2]) > LEAST_MM, whole[2], 0)
    moved = whole[0][:, None] * course(failing, share) + whole[1][:, None] * course(rigid, share)
    moved += trough[:, None] * passing_course(passing, share)
    expansion, swing, warmest = np.array([structure.thermal for structure in city.structures])[points.owner].T
    warmer = swing[:, None] * np.cos(2 * np.pi * (year - warmest[:, None]))
    heated = 1e3 * expansion * look.along(points.height, offset)
    heated[points.clutter] *= 0.1
    return np.asarray(moved + heated[:, None] * warmer)


def _misplaced(generator: Generator, sensor: Sensor, points: Points, look: Look) -> tuple[Array, Array]:
    """(P, 2) positions as told, and (P,) errors of height, m: what seems higher seems nearer to the satellite."""
    count = len(points.owner)
    scale, spread = sensor.height_error
    higher = generator.normal(0, 1, count) * scale * np.exp(generator.normal(0, spread, count))
    along = generator.normal(0, sensor.azimuth_m, count)
    across = -higher / np.tan(look.incidence) + generator.normal(0, sensor.range_m, count)
    off = np.hypot(along, across)
    factor = np.clip(off, *sensor.position_m) / np.maximum(off, 1e-9)
    across = across * factor + generator.normal(0, sensor.bias_m)
    left = np.array([-look.towards[1], look.towards[0]])
    told = points.east_north + across[:, None] * look.towards + (along * factor)[:, None] * left
    return told, higher * np.minimum(factor, 1)
