"""Describe a whole invented city: its place, its satellites, its seed and its parts."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

from plumbline.params.simulate import Mechanisms
from plumbline.simulate.radar.acquisition import BANDS, Acquisition
from plumbline.simulate.radar.egms_writer import EgmsProduct
from plumbline.simulate.radar.series import Reference
from plumbline.simulate.random_numbers import generators
from plumbline.simulate.structure.layout import DISTRICT_BUILDINGS, Town, draw_plan
from plumbline.simulate.structure.tunnels import Tunnel

PART_DISTRICTS = 16
PART_BUILDINGS = PART_DISTRICTS * DISTRICT_BUILDINGS


@dataclass(frozen=True)
class Site:
    """Data that the parts of a city share."""

    name: str
    entropy: tuple[int, ...]
    """Seed of the city."""
    band: str
    tracks: tuple[Acquisition, Acquisition]
    references: tuple[Reference, Reference]
    start: np.datetime64
    """First day of the observation."""
    velocity: tuple[float, float, float]
    """Velocity of the region: east, north, up, mm a year."""
    town: Town
    tunnels: tuple[Tunnel, ...]
    place: tuple[float, float]
    """Easting and northing of the city's centre in EPSG:3035, m."""
    damaged: float
    mechanisms: Mechanisms
    movement: str
    """Kind of movement, as `City.movement`."""

    @property
    def parts(self) -> int:
        """Number of parts."""
        return part_count(self.town.buildings)

    @property
    def start_day(self) -> float:
        """Day of the year on which the observation starts."""
        return float((self.start - self.start.astype("datetime64[Y]")).astype(int))

    @property
    def length_days(self) -> float:
        """Length of the observation, to the last epoch of any track."""
        return max(float(acquisition.days[-1]) for acquisition in self.tracks)

    def product(self, number: int) -> EgmsProduct:
        """Return the product of track `number`, named as the service does."""
        acquisition = self.tracks[number]
        dates = np.asarray(self.start + acquisition.days.astype(int))
        first, last = dates[[0, -1]].astype("datetime64[Y]").astype(str)
        velocity = float(acquisition.los(np.zeros((1, 2)))[0] @ np.array(self.velocity))
        name = (
            f"EGMS_L2b_{acquisition.track:03d}_{acquisition.burst:04d}_IW"
            f"{acquisition.swath}_VV_{first}_{last}_1.csv"
        )
        return EgmsProduct(name, dates, BANDS[self.band].wavelength_mm, velocity)


def part_count(buildings: int) -> int:
    """Return the number of parts of a city."""
    return -(-buildings // PART_BUILDINGS)


def part_radius(entropy: tuple[int, ...], buildings: int, number: int) -> float:
    """Return the radius of the largest district of part `number`, m, from its plan alone."""
    count = min(PART_BUILDINGS, buildings - number * PART_BUILDINGS)
    return draw_plan(generators(entropy, number)[0], count).radius


PLACES = (
    (3973000.0, 3263000.0),
    (4321000.0, 3210000.0),
    (3761000.0, 2889000.0),
    (4530000.0, 2090000.0),
    (3665000.0, 2065000.0),
    (4641000.0, 2951000.0),
    (3161000.0, 2031000.0),
    (4437000.0, 2780000.0),
    (3923000.0, 2534000.0),
    (5070000.0, 3285000.0),
    (4483000.0, 3629000.0),
    (4792000.0, 2807000.0),
)
"""Centres of cities in EPSG:3035, m: round numbers, nobody's real buildings."""
PLACES_APART_M = 40_000.0

NAMED_SLOTS = 240
"""Number of slots behind those of `PLACES`, for cities with a slot by name."""


def slot_of_name(name: str) -> int:
    """Return the slot of a city by its name alone, so that a further city changes no other slot."""
    return len(PLACES) + zlib.crc32(name.encode()) % NAMED_SLOTS


def place(slot: int) -> tuple[float, float]:
    """Return easting and northing of a city's centre, m; cities of one slot (names may
    share it) share it."""
    ring, number = divmod(slot, len(PLACES))
    easting, northing = PLACES[number]
    return easting + ring * PLACES_APART_M, northing
