"""Draw the satellites over a city: bands, tracks, viewing geometry and dates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plumbline.core.arrays import Array
from plumbline.sources.points.epochs import DAYS_A_YEAR
from plumbline.sources.points.track import los_from_heading


def range_and_azimuth(heading_deg: float) -> NDArray[np.float64]:
    """Return horizontal unit vectors (2, 2): ground range, away from the satellite;
    azimuth, along the flight."""
    heading = np.deg2rad(heading_deg)
    sin, cos = float(np.sin(heading)), float(np.cos(heading))
    return np.array([[cos, -sin], [sin, cos]])


INCIDENCE_PER_M = 4.5e-5
"""Change of the incidence angle with ground range, degrees a metre."""


@dataclass(frozen=True)
class RadarBand:
    """Properties of a radar band; pairs are lower and upper ends of a range."""

    wavelength_mm: float
    revisit_days: tuple[int, ...]
    incidence_deg: tuple[float, float]
    heading_deg: tuple[float, float]
    """h of an ascending pass, clockwise from north; a descending pass flies at 180 - h."""
    noise_mm: tuple[float, float]
    position_m: tuple[float, float]
    """Standard deviation of the position in ground range."""
    height_m: tuple[float, float]
    """Standard deviation of the height's independent error."""
    pixel_m: tuple[float, float]
    """Spacing in azimuth and in slant range."""
    points: tuple[int, int]
    """Fewest and most points of a building, all tracks together."""


BANDS = {
    "C": RadarBand(
        55.5, (6, 12), (30, 46), (-14, -8), (2, 5), (0.5, 10), (1, 3), (13.9, 2.33), (2, 20)
    ),
    "X": RadarBand(
        31.0, (11,), (22, 45), (-12, -8), (1, 2), (0.2, 2), (0.3, 1), (1.9, 0.91), (20, 150)
    ),
}
"""Bands of Sentinel-1, interferometric wide swath (C), and of TerraSAR-X, stripmap (X)."""


@dataclass(frozen=True)
class Acquisition:
    """One track over a city."""

    track: int
    burst: int
    ascending: bool
    heading_deg: float
    """Direction of flight, clockwise from north."""
    track_angle: float
    """Direction of flight as products write it: some in -180 to 180, some in 0 to 360."""
    incidence_deg: float
    """Incidence angle at the city's centre."""
    first_day: int
    """Day of the first epoch of the regular grid, from the city's start."""
    revisit_days: int
    kept: NDArray[np.bool_]
    """(E,) which regular epochs the product has."""

    @property
    def days(self) -> Array:
        """(T,) days of the product's epochs, from the city's start."""
        return np.asarray(self.first_day + self.revisit_days * np.flatnonzero(self.kept), float)

    def incidence(self, east_north: Array) -> Array:
        """Return incidence angles (N,), degrees, at local positions (N, 2); they grow with
        ground range."""
        return np.asarray(
            self.incidence_deg
            + INCIDENCE_PER_M * (east_north @ range_and_azimuth(self.heading_deg)[0]),
            float,
        )

    def los(self, east_north: Array) -> Array:
        """Return unit vectors (N, 3) from ground to satellite at local positions (N, 2)."""
        return los_from_heading(self.incidence(east_north), self.heading_deg)

    @property
    def swath(self) -> int:
        """Number of the sub-swath, 1 to 3, by incidence."""
        return 1 + int(self.incidence_deg > 35.5) + int(self.incidence_deg > 41)


def draw_acquisitions(
    rng: np.random.Generator,
    band: RadarBand,
    slot: int,
    years: float,
    revisit_days: int | None = None,
) -> list[Acquisition]:
    """Draw an ascending and a descending track.

    Args:
        rng: the generator to draw from.
        band: the satellite's band.
        slot: number of the city; no two cities of fewer than 87 share a track number.
        years: length of the observation.
        revisit_days: between regular epochs; one of the band's, unless given.
    """
    drawn = int(rng.choice(band.revisit_days))
    revisit = revisit_days or drawn
    wrapped = bool(rng.random() < 0.5)
    tracks = []
    for ascending in (True, False):
        heading = float(rng.uniform(*band.heading_deg))
        if not ascending:
            heading = 180 - heading
        first_day = int(rng.integers(0, revisit))
        epochs = int((years * DAYS_A_YEAR - first_day) // revisit) + 1
        tracks.append(
            Acquisition(
                track=1 + (2 * slot + (0 if ascending else 1)) % 175,
                burst=int(rng.integers(100, 900)),
                ascending=ascending,
                heading_deg=heading,
                track_angle=heading % 360 if wrapped else heading,
                incidence_deg=float(rng.uniform(*band.incidence_deg)),
                first_day=first_day,
                revisit_days=revisit,
                kept=draw_kept(rng, epochs),
            )
        )
    return tracks


def draw_kept(rng: np.random.Generator, epochs: int) -> NDArray[np.bool_]:
    """Draw the epochs to keep: 5 to 20 % are dropped, some singly and some in a row; the
    first and last stay."""
    is_delivered = np.ones(epochs, bool)
    missing = min(round(float(rng.uniform(0.05, 0.2)) * epochs), epochs - 2)
    in_a_row = int(rng.integers(0, missing // 2 + 1))
    start = int(rng.integers(1, epochs - in_a_row))
    is_delivered[start : start + in_a_row] = False
    inner = np.flatnonzero(is_delivered[1:-1]) + 1
    is_delivered[rng.choice(inner, missing - in_a_row, replace=False)] = False
    return is_delivered
