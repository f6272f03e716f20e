"""What buildings do until the end of the observation: a failure, rigid motion, a tunnel's trough; and their labels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import shapely
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.makers.eighth.courses import draw_courses
from benchmarks.makers.eighth.failure import Hinge, Sag, draw_failure, draw_sag
from benchmarks.makers.eighth.frame import Frame, frame_of
from benchmarks.makers.eighth.labels import Label, lay_bays
from benchmarks.makers.eighth.town import Town
from benchmarks.makers.eighth.tunnels import ELSEWHERE, Tunnel, find_trough, passing

Array = NDArray[np.float64]
DAMAGED = 0.8
TARGET_PERMILLE = (0.1, 6.0)
SETTLED, SETTLEMENT_MM = 0.6, (100, 10)
"""Share of buildings that settle by up to the first; the others by up to the second."""
LEANING, TILT = 0.6, (5e-5, 5e-3)
"""Share of buildings that lean, and slopes of theirs."""
DEFLECTION, STRAIN = (0.1, 1), (0.01, 0.2)
"""Shares of the ground's in a trough that a building takes."""
EXPANSION, SWING_K = (5e-6, 1.2e-5), (8, 12)
"""An a kelvin, and half of the annual range of temperature."""
WARMEST, WARMEST_SPREAD = 0.56, 0.03
"""Share of the year, and its standard deviation over buildings."""


class Part(Protocol):
    """One cause of movement."""

    def move(self, xy: Array) -> tuple[Array, Array]:
        """(N,) up and (N, 2) along x and y, m, at positions (N, 2) in the building's axes, at the ground."""


@dataclass(frozen=True)
class Rigid:
    """A building settles and leans as a whole, or stands still."""

    up: float = 0.0
    """m"""
    slope: Array = field(default_factory=lambda: np.zeros(2))
    """(2,) of the vertical movement along x and y."""

    def move(self, xy: Array) -> tuple[Array, Array]:
        """As of `Part`."""
        return self.up + xy @ self.slope, np.zeros_like(xy)


@dataclass(frozen=True)
class Structure:
    """One building."""

    frame: Frame
    failure: Hinge | Sag | None
    parts: tuple[Part, Part, Part]
    """Failure, rigid motion, trough."""
    slopes: Array
    """(3, 2) along x and y, of the plane of each part's vertical movement: so high points go sideways."""
    courses: tuple[Array, Array, Array]
    """(4,) and (4,) of the first two parts, see `courses.course`; (2,) of the trough, see `courses.passing_course`."""
    thermal: Array
    """(3,) expansion a kelvin, half of the annual range of temperature, warmest time as a share of the year."""
    label: Label

    def move(self, xy: Array, height: Array) -> tuple[Array, Array]:
        """(N, 3) up and (N, 3, 2) east and north, m, of each part, at a height (N,) above the ground, m."""
        ups, sideways = [], []
        for part, slope in zip(self.parts, self.slopes, strict=True):
            up, along = part.move(xy)
            ups.append(up)
            sideways.append((along - height[:, None] * slope) @ self.frame.axes)
        return np.stack(ups, axis=1), np.stack(sideways, axis=1)


def draw_structures(generator: Generator, town: Town, tunnels: list[Tunnel]) -> list[Structure]:
    """Structures of a town."""
    count = len(town.footprint)
    damaged = generator.random(count) < DAMAGED
    target = _log_uniform(generator, TARGET_PERMILLE, count)
    much = generator.random(count) < SETTLED
    most, least = (generator.uniform(0, bound, count) for bound in SETTLEMENT_MM)
    settlement = np.where(much, most, least) * 1e-3
    lean = _log_uniform(generator, TILT, count) * (generator.random(count) < LEANING)
    towards = generator.uniform(0, 2 * np.pi, count)
    tilt = np.column_stack([lean * np.cos(towards), lean * np.sin(towards)])
    deflection, strain = generator.uniform(*DEFLECTION, count), _log_uniform(generator, STRAIN, count)
    thermal = np.column_stack(
        [
            generator.uniform(*EXPANSION, count),
            generator.uniform(*SWING_K, count),
            generator.normal(WARMEST, WARMEST_SPREAD, count),
        ]
    )
    failing = draw_courses(generator, count)
    alike = generator.random(count) < 0.5
    moving = np.where(alike[:, None], failing, draw_courses(generator, count))
    structures = []
    for number, footprint in enumerate(town.footprint):
        frame = frame_of(footprint)
        own = shapely.transform(footprint, frame.to_own)
        bays = lay_bays(own, frame)
        failure: Hinge | Sag | None = None
        if damaged[number]:
            failure = draw_failure(generator, own, frame, bays, target[number])
        elif generator.random() < 0.5:
            failure = draw_sag(generator, frame, bays)
        trough = find_trough(tunnels, frame, bays, deflection[number], strain[number])
        still = Rigid()
        parts = failure or still, Rigid(-settlement[number], tilt[number] @ frame.axes.T), trough or still
        ups, sideways = zip(*(part.move(bays.place) for part in parts), strict=True)
        courses = failing[number], moving[number], passing(tunnels, frame.centre) if trough else ELSEWHERE
        label = bays.label(sum(ups), sum(sideways))
        slopes = np.array([bays.plane(up)[1:] for up in ups])
        structures.append(Structure(frame, failure, parts, slopes, courses, thermal[number], label))
    return structures


def _log_uniform(generator: Generator, bounds: tuple[float, float], count: int) -> Array:
    low, high = np.log(bounds)
    return np.asarray(np.exp(generator.uniform(low, high, count)))
