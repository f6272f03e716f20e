"""Simulate moving ground.

Lengths in m, displacements in mm; east, north and up positive. Peck (1969) and O'Reilly and New (1982) for troughs and
point sinks; Knothe (1957), Observations of surface movements under influence of mining, for basins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

from plumbline.simulate.random_numbers import log_uniform

Array = NDArray[np.float64]
KNOTHE_HORIZONTAL = 0.4
"""Horizontal displacement over slope, in radii of main influence (Awershin's B, Knothe and Budryk)."""


class Movement(Protocol):
    """Something that moves the ground."""

    def displacement(self, east_north: Array) -> Array:
        """Return east, north, up (N, 3) in mm at positions (N, 2)."""


@dataclass(frozen=True)
class Trough:
    """Settle over a tunnel with a straight or circular axis: `S = Smax exp(-d^2 / 2 i^2)`."""

    centre: tuple[float, float]
    """Of the arc, m."""
    radius: float
    """Of the arc, m; an axis of a kilometre is straight at 1e5."""
    depth: float
    """`z0`, m."""
    width: float
    """`i = K z0`, m."""
    settlement: float
    """`Smax`, mm."""

    def displacement(self, east_north: Array) -> Array:
        """Return the movement; the horizontal part is `(d / z0) S` towards the axis."""
        from_centre = east_north - np.array(self.centre)
        reach = np.maximum(np.hypot(*from_centre.T), 1e-6)
        distance = reach - self.radius
        sunk = self.settlement * np.exp(-0.5 * (distance / self.width) ** 2)
        sideways = -distance / self.depth * sunk
        return np.column_stack([from_centre / reach[:, None] * sideways[:, None], -sunk])


@dataclass(frozen=True)
class Bowl:
    """Settle over a point sink: a void, a leak, a well; `S = Smax exp(-r^2 / 2 i^2)`, towards the centre by `r / z0`.

    A negative settlement is a heave.
    """

    centre: tuple[float, float]
    depth: float
    width: float
    settlement: float

    def displacement(self, east_north: Array) -> Array:
        """See the class."""
        from_centre = east_north - np.array(self.centre)
        sunk = self.settlement * np.exp(-0.5 * (from_centre**2).sum(axis=1) / self.width**2)
        return np.column_stack([-from_centre / self.depth * sunk[:, None], -sunk])


@dataclass(frozen=True)
class Basin:
    """Settle over a rectangular mined panel by Knothe's influence function of radius `r`."""

    centre: tuple[float, float]
    half: tuple[float, float]
    """Half of the panel's sides, m."""
    angle: float
    """Of the panel's first side, rad counter-clockwise from east."""
    radius: float
    """Of main influence, m."""
    settlement: float
    """Over a panel that is large beside the radius, mm."""

    def displacement(self, east_north: Array) -> Array:
        """Return the movement; the horizontal part is `-0.4 r grad(S)` (Awershin)."""
        cos, sin = np.cos(self.angle), np.sin(self.angle)
        axes = np.array([[cos, sin], [-sin, cos]])
        local = (east_north - np.array(self.centre)) @ axes.T
        share, slope = zip(*(self._along(local[:, k], self.half[k]) for k in (0, 1)), strict=True)
        sunk = self.settlement * share[0] * share[1]
        gradient = self.settlement * np.column_stack([slope[0] * share[1], share[0] * slope[1]])
        return np.column_stack([KNOTHE_HORIZONTAL * self.radius * gradient @ axes, -sunk])

    def _along(self, x: Array, half: float) -> tuple[Array, Array]:
        """Return the influence of the panel along one side, 0 to 1, and its derivative, 1/m."""
        scale = np.sqrt(np.pi) / self.radius
        share = 0.5 * (erf(scale * (x + half)) - erf(scale * (x - half)))
        slope = (np.exp(-((scale * (x + half)) ** 2)) - np.exp(-((scale * (x - half)) ** 2))) / self.radius
        return share, slope


@dataclass(frozen=True)
class Strip:
    """Move a strip of ground: one side of a fault, or an embankment that settles under its own weight."""

    point: tuple[float, float]
    direction: float
    """Of the strike, rad counter-clockwise from east."""
    wide: float
    """Width of the strip, m; beyond the scene for a fault."""
    long: float
    """Half of its length, m, over which it dies out."""
    edge: float
    """Over which the step rises, m."""
    moved: tuple[float, float, float]
    """East, north, up, mm."""

    def displacement(self, east_north: Array) -> Array:
        """Return the movement: a smooth step at both sides, and a slow end along the strike."""
        cos, sin = np.cos(self.direction), np.sin(self.direction)
        offset = east_north - np.array(self.point)
        along, across = offset @ np.array([cos, sin]), offset @ np.array([-sin, cos])
        share = _step(across, self.edge) * _step(self.wide - across, self.edge)
        share = share * np.exp(-(np.maximum(np.abs(along) / self.long - 1, 0) ** 2) * 8)
        return np.asarray(share[:, None] * np.array(self.moved), float)


@dataclass(frozen=True)
class Slope:
    """Let an ellipse of a hillside creep downhill."""

    centre: tuple[float, float]
    half: tuple[float, float]
    angle: float
    edge: float
    """Over which the movement dies out at its rim, m."""
    moved: tuple[float, float, float]

    def displacement(self, east_north: Array) -> Array:
        """See the class."""
        cos, sin = np.cos(self.angle), np.sin(self.angle)
        local = (east_north - np.array(self.centre)) @ np.array([[cos, -sin], [sin, cos]])
        inside = (1 - np.hypot(*(local / np.array(self.half)).T)) * min(self.half)
        return np.asarray(_step(inside, self.edge)[:, None] * np.array(self.moved), float)


@dataclass(frozen=True)
class Buildings:
    """Move buildings apart from the ground: each settles and tilts inside its walls, and the ground beside it stays."""

    centre: Array
    """(B, 2)"""
    half: Array
    """(B, 2) half of the sides, m."""
    angle: Array
    """(B,) rad."""
    settled: Array
    """(B,) mm, down."""
    tilt: Array
    """(B, 2) of the up displacement along both sides, mm/m."""

    def displacement(self, east_north: Array) -> Array:
        """See the class; positions are looked up building by building, which are few."""
        up = np.zeros(len(east_north))
        for number in np.flatnonzero((self.settled != 0) | self.tilt.any(axis=1)).tolist():
            local = self.local(number, east_north)
            inside = (np.abs(local) <= self.half[number]).all(axis=1)
            up[inside] += -self.settled[number] + local[inside] @ self.tilt[number]
        return np.column_stack([np.zeros((len(up), 2)), up])

    def local(self, number: int, east_north: Array) -> Array:
        """Return positions (N, 2) in the frame of one building."""
        cos, sin = np.cos(self.angle[number]), np.sin(self.angle[number])
        return np.asarray((east_north - self.centre[number]) @ np.array([[cos, -sin], [sin, cos]]), float)


@dataclass(frozen=True)
class Smooth:
    """Move the ground by a Gaussian random field from random Fourier features (Rahimi and Recht 2007)."""

    waves: Array
    """(K, 2) rad/m."""
    phases: Array
    """(K,) rad."""
    weights: Array
    """(K, 3) mm."""

    def displacement(self, east_north: Array) -> Array:
        """See the class."""
        return np.asarray(np.cos(east_north @ self.waves.T + self.phases) @ self.weights, float)


def _step(x: Array, width: float) -> Array:
    """Step from 0 to 1 around 0; 76 % of it over `width`."""
    return np.asarray(0.5 * (1 + np.tanh(2 * x / width)), float)


QUIET_SHARE = 0.1
"""Of the scenes, in which nothing moves but the region."""
PEAK_MM = (3.0, 100.0)
KINDS = ("trough", "bowl", "basin", "strip", "slope", "smooth")
SHARES = (0.22, 0.22, 0.12, 0.2, 0.12, 0.12)
APART_SHARE = 0.4
"""Of the scenes, in which some buildings move apart from the ground."""
WAVES = 48


def draw_buildings(rng: np.random.Generator, extent: float) -> Buildings:
    """Draw a town of still rectangles on a turned grid with gaps, over `extent` m around the origin."""
    pitch, turn = rng.uniform(22, 55), rng.uniform(-np.pi, np.pi)
    count = int(1.5 * extent / pitch)
    row = (np.arange(count) - count / 2) * pitch
    centre = np.stack(np.meshgrid(row, row), axis=-1).reshape(-1, 2) + rng.normal(0, 0.1 * pitch, (count**2, 2))
    cos, sin = np.cos(turn), np.sin(turn)
    centre = centre @ np.array([[cos, sin], [-sin, cos]])
    town = Smooth(*_waves(rng, 180.0, np.ones(3)))
    built = town.displacement(centre)[:, 2] > rng.uniform(-1.2, 0.3)
    centre = centre[built & (np.abs(centre).max(axis=1) < extent / 2)]
    if not len(centre):
        centre = np.zeros((1, 2))
    half = np.minimum(rng.uniform(4, 20, (len(centre), 2)), 0.45 * pitch)
    still = np.zeros(len(centre))
    return Buildings(centre, half, turn + rng.normal(0, 0.05, len(centre)), still, np.zeros((len(centre), 2)))


def draw_movements(rng: np.random.Generator, extent: float, buildings: Buildings) -> list[Movement]:
    """Draw the movements in a scene of `extent` m around the origin; `buildings` may move apart from the ground."""
    found: list[Movement] = [_region(rng, extent)]
    if rng.random() < QUIET_SHARE:
        return found
    for kind in rng.choice(KINDS, size=int(rng.integers(1, 5)), p=SHARES):
        found.append(_draw(rng, str(kind), extent, float(log_uniform(rng, *PEAK_MM, 1)[0])))
    if rng.random() < APART_SHARE:
        found.append(_apart(rng, buildings))
    return found


def _draw(rng: np.random.Generator, kind: str, extent: float, peak: float) -> Movement:
    east, north = rng.uniform(-0.5, 0.5, 2) * extent
    angle = float(rng.uniform(-np.pi, np.pi))
    sign = -1.0 if rng.random() < 0.15 else 1.0
    if kind == "trough":
        depth = float(log_uniform(rng, 12, 80, 1)[0])
        radius = float(log_uniform(rng, 200, 1e4, 1)[0])
        centre = (east + radius * np.cos(angle), north + radius * np.sin(angle))
        return Trough(centre, radius, depth, float(rng.uniform(0.3, 0.6)) * depth, peak)
    if kind == "bowl":
        width = float(log_uniform(rng, 8, 160, 1)[0])
        return Bowl((east, north), width / float(rng.uniform(0.3, 0.7)), width, sign * peak)
    if kind == "basin":
        half = tuple(map(float, log_uniform(rng, 60, 500, 2)))
        return Basin((east, north), (half[0], half[1]), angle, float(log_uniform(rng, 80, 400, 1)[0]), sign * peak)
    if kind == "strip":
        fault = rng.random() < 0.5
        wide = 10 * extent if fault else float(log_uniform(rng, 12, 120, 1)[0])
        moved = _moved(rng, 0.6 * peak, 0.4 if fault else 0.15)
        long = float(log_uniform(rng, 100, 2000, 1)[0])
        return Strip((east, north), angle, wide, long, float(log_uniform(rng, 2, 25, 1)[0]), moved)
    if kind == "slope":
        half = tuple(map(float, log_uniform(rng, 40, 350, 2)))
        moved = _moved(rng, peak, 1.5)
        return Slope((east, north), (half[0], half[1]), angle, float(log_uniform(rng, 4, 60, 1)[0]), moved)
    scale = float(log_uniform(rng, 40, 400, 1)[0])
    return Smooth(*_waves(rng, scale, 0.4 * peak * np.array([0.4, 0.2, 1.0]) * rng.uniform(0.2, 1, 3)))


def _moved(rng: np.random.Generator, size: float, sideways: float) -> tuple[float, float, float]:
    """Draw east, north and up, mm: mostly down, and partly sideways."""
    where, flat = rng.uniform(-np.pi, np.pi), sideways * rng.random()
    whole = np.array([flat * np.cos(where), flat * np.sin(where), -1.0 if rng.random() < 0.8 else 1.0])
    east, north, up = size * whole / np.linalg.norm(whole)
    return float(east), float(north), float(up)


def _waves(rng: np.random.Generator, scale: float, deviation: Array) -> tuple[Array, Array, Array]:
    """Draw the waves of a field with a Matern-3/2 covariance of length `scale` m (t spectrum); see `Smooth`."""
    normal, chi = rng.normal(0, 1 / scale, (WAVES, 2)), rng.chisquare(3, WAVES)
    waves = np.sqrt(3 / chi)[:, None] * normal
    weights = rng.normal(0, np.sqrt(2 / WAVES), (WAVES, 3)) * deviation
    return waves, rng.uniform(-np.pi, np.pi, WAVES), weights


def _region(rng: np.random.Generator, extent: float) -> Smooth:
    """Draw a slow, wide movement of everything, up to some mm across the scene."""
    size = float(log_uniform(rng, 0.5, 12, 1)[0])
    return Smooth(*_waves(rng, rng.uniform(0.5, 2) * extent, size * np.array([0.5, 0.3, 1.0])))


def _apart(rng: np.random.Generator, buildings: Buildings) -> Buildings:
    count = len(buildings.angle)
    moving = rng.random(count) < log_uniform(rng, 0.02, 0.2, 1)[0]
    size = log_uniform(rng, 2, 30, count) * moving
    tilt = rng.normal(0, 0.3, (count, 2)) * (size / 10)[:, None]
    return Buildings(buildings.centre, buildings.half, buildings.angle, size, tilt)
