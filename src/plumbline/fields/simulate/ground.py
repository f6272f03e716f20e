"""Simulate moving ground.

Lengths in m, displacements in mm; east, north and up positive. Peck (1969) and O'Reilly and
New (1982) for troughs and point sinks; Knothe (1957), Observations of surface movements
under influence of mining, for basins.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import erf

from plumbline.core.arrays import Array
from plumbline.simulate.random_numbers import log_uniform

KNOTHE_HORIZONTAL = 0.4
"""Horizontal displacement over slope, in radii of main influence (Awershin's B, Knothe and
Budryk)."""
Movement = Callable[[Array], Array]
"""Function from positions (N, 2), m, to displacements (N, 3), mm."""


def trough(
    east_north: Array,
    centre: tuple[float, float],
    *,
    radius: float,
    depth: float,
    width: float,
    settlement: float,
) -> Array:
    """Settle over a tunnel with a straight or circular axis: `S = Smax exp(-d^2 / 2 i^2)`;
    sideways `(d / z0) S`.

    Args:
        east_north: (N, 2). centre, radius: of the arc, m; an axis of a kilometre is
            straight at 1e5.
        depth: `z0`, m. width: `i = K z0`, m. settlement: `Smax`, mm.
    """
    from_centre = east_north - np.array(centre)
    reach = np.maximum(np.hypot(*from_centre.T), 1e-6)
    distance = reach - radius
    sunk = settlement * np.exp(-0.5 * (distance / width) ** 2)
    sideways = -distance / depth * sunk
    return np.column_stack([from_centre / reach[:, None] * sideways[:, None], -sunk])


def bowl(
    east_north: Array, centre: tuple[float, float], *, depth: float, width: float, settlement: float
) -> Array:
    """Settle over a point sink: a void, a leak, a well; `S = Smax exp(-r^2 / 2 i^2)`,
    towards the centre by `r / z0`.

    A negative settlement is a heave.
    """
    from_centre = east_north - np.array(centre)
    sunk = settlement * np.exp(-0.5 * (from_centre**2).sum(axis=1) / width**2)
    return np.column_stack([-from_centre / depth * sunk[:, None], -sunk])


def basin(
    east_north: Array,
    centre: tuple[float, float],
    *,
    half: tuple[float, float],
    angle: float,
    radius: float,
    settlement: float,
) -> Array:
    """Settle over a rectangular mined panel by Knothe's influence function; sideways `-0.4
    r grad(S)` (Awershin).

    Args:
        east_north: (N, 2). centre: of the panel. half: of its sides, m. angle: of its first
            side, rad counter-clockwise from east. radius: of main influence, m. settlement:
            over a panel that is large beside the radius, mm.
    """
    cos, sin = np.cos(angle), np.sin(angle)
    axes = np.array([[cos, sin], [-sin, cos]])
    local = (east_north - np.array(centre)) @ axes.T
    share, slope = zip(*(_influence(local[:, k], half[k], radius) for k in (0, 1)), strict=True)
    sunk = settlement * share[0] * share[1]
    gradient = settlement * np.column_stack([slope[0] * share[1], share[0] * slope[1]])
    return np.column_stack([KNOTHE_HORIZONTAL * radius * gradient @ axes, -sunk])


def _influence(x: Array, half: float, radius: float) -> tuple[Array, Array]:
    """Return the influence of a panel along one side, 0 to 1, and its derivative, 1/m."""
    scale = np.sqrt(np.pi) / radius
    share = 0.5 * (erf(scale * (x + half)) - erf(scale * (x - half)))
    slope = (np.exp(-((scale * (x + half)) ** 2)) - np.exp(-((scale * (x - half)) ** 2))) / radius
    return share, slope


def strip(
    east_north: Array,
    point: tuple[float, float],
    *,
    direction: float,
    wide: float,
    long: float,
    edge: float,
    moved: tuple[float, float, float],
) -> Array:
    """Move a strip of ground: one side of a fault, or an embankment that settles under its
    own weight.

    Args:
        east_north: (N, 2). point: at its side. direction: of the strike, rad
            counter-clockwise from east. wide: width, m; beyond the scene for a fault. long:
            half of its length, m, over which it dies out. edge: over which the step at both
            sides rises, m. moved: east, north, up, mm.
    """
    cos, sin = np.cos(direction), np.sin(direction)
    offset = east_north - np.array(point)
    along, across = offset @ np.array([cos, sin]), offset @ np.array([-sin, cos])
    share = _step(across, edge) * _step(wide - across, edge)
    share = share * np.exp(-(np.maximum(np.abs(along) / long - 1, 0) ** 2) * 8)
    return np.asarray(share[:, None] * np.array(moved), float)


def creep(
    east_north: Array,
    centre: tuple[float, float],
    *,
    half: tuple[float, float],
    angle: float,
    edge: float,
    moved: tuple[float, float, float],
) -> Array:
    """Move an ellipse of a hillside downhill; at its rim, the movement dies out over `edge` m."""
    cos, sin = np.cos(angle), np.sin(angle)
    local = (east_north - np.array(centre)) @ np.array([[cos, -sin], [sin, cos]])
    inside = (1 - np.hypot(*(local / np.array(half)).T)) * min(half)
    return np.asarray(_step(inside, edge)[:, None] * np.array(moved), float)


def smooth(east_north: Array, waves: Array, phases: Array, weights: Array) -> Array:
    """Move the ground by a Gaussian random field from random Fourier features (Rahimi and
    Recht 2007).

    Args:
        east_north: (N, 2). waves: (K, 2) rad/m. phases: (K,) rad. weights: (K, 3) mm.
    """
    return np.asarray(np.cos(east_north @ waves.T + phases) @ weights, float)


class TownBuildings(NamedTuple):
    """Rectangles in a town."""

    centre: Array
    """(B, 2)"""
    half: Array
    """(B, 2) half of the sides, m."""
    angle: Array
    """(B,) rad."""

    def local(self, number: int, east_north: Array) -> Array:
        """Return positions (N, 2) in the frame of one building."""
        cos, sin = np.cos(self.angle[number]), np.sin(self.angle[number])
        return np.asarray(
            (east_north - self.centre[number]) @ np.array([[cos, -sin], [sin, cos]]), float
        )


def buildings_apart(
    east_north: Array, buildings: TownBuildings, settled: Array, tilt: Array
) -> Array:
    """Settle and tilt buildings inside their walls, without the ground around them.

    Args:
        east_north: (N, 2), looked up building by building, which are few. buildings: B of
            them. settled: (B,) mm, down.
        tilt: (B, 2) of the up displacement along both sides, mm/m.
    """
    up = np.zeros(len(east_north))
    for number in np.flatnonzero((settled != 0) | tilt.any(axis=1)).tolist():
        local = buildings.local(number, east_north)
        inside = (np.abs(local) <= buildings.half[number]).all(axis=1)
        up[inside] += -settled[number] + local[inside] @ tilt[number]
    return np.column_stack([np.zeros((len(up), 2)), up])


def _step(x: Array, width: float) -> Array:
    """Step from 0 to 1 around 0; 76 % of it over `width`."""
    return np.asarray(0.5 * (1 + np.tanh(2 * x / width)), float)


QUIET_SHARE = 0.1
"""Share of the scenes in which nothing moves but the region."""
PEAK_MM = (3.0, 100.0)
KINDS = ("trough", "bowl", "basin", "strip", "slope", "smooth")
SHARES = (0.22, 0.22, 0.12, 0.2, 0.12, 0.12)
APART_SHARE = 0.4
"""Share of the scenes in which some buildings move apart from the ground."""
WAVES = 48


def draw_buildings(rng: np.random.Generator, extent: float) -> TownBuildings:
    """Draw a town of rectangles on a turned grid with gaps, over `extent` m around the origin."""
    pitch, turn = rng.uniform(22, 55), rng.uniform(-np.pi, np.pi)
    count = int(1.5 * extent / pitch)
    row = (np.arange(count) - count / 2) * pitch
    centre = np.stack(np.meshgrid(row, row), axis=-1).reshape(-1, 2) + rng.normal(
        0, 0.1 * pitch, (count**2, 2)
    )
    cos, sin = np.cos(turn), np.sin(turn)
    centre = centre @ np.array([[cos, sin], [-sin, cos]])
    built = _draw_smooth(rng, 180.0, np.ones(3))(centre)[:, 2] > rng.uniform(-1.2, 0.3)
    centre = centre[built & (np.abs(centre).max(axis=1) < extent / 2)]
    if not len(centre):
        centre = np.zeros((1, 2))
    half = np.minimum(rng.uniform(4, 20, (len(centre), 2)), 0.45 * pitch)
    return TownBuildings(centre, half, turn + rng.normal(0, 0.05, len(centre)))


def draw_movements(
    rng: np.random.Generator, extent: float, buildings: TownBuildings
) -> list[Movement]:
    """Draw the movements in a scene of `extent` m around the origin; `buildings` may move
    apart from the ground."""
    movements: list[Movement] = [_draw_region(rng, extent)]
    if rng.random() < QUIET_SHARE:
        return movements
    movements += [
        _draw_movement(rng, str(kind), extent, float(log_uniform(rng, *PEAK_MM, 1)[0]))
        for kind in rng.choice(KINDS, size=int(rng.integers(1, 5)), p=SHARES)
    ]
    if rng.random() < APART_SHARE:
        movements.append(_draw_apart(rng, buildings))
    return movements


def _draw_movement(rng: np.random.Generator, kind: str, extent: float, peak: float) -> Movement:
    east, north = rng.uniform(-0.5, 0.5, 2) * extent
    angle = float(rng.uniform(-np.pi, np.pi))
    sign = -1.0 if rng.random() < 0.15 else 1.0
    centre = (east, north)
    if kind == "trough":
        depth = float(log_uniform(rng, 12, 80, 1)[0])
        radius = float(log_uniform(rng, 200, 1e4, 1)[0])
        centre = (east + radius * np.cos(angle), north + radius * np.sin(angle))
        width = float(rng.uniform(0.3, 0.6)) * depth
        return partial(
            trough, centre=centre, radius=radius, depth=depth, width=width, settlement=peak
        )
    if kind == "bowl":
        width = float(log_uniform(rng, 8, 160, 1)[0])
        depth = width / float(rng.uniform(0.3, 0.7))
        return partial(bowl, centre=centre, depth=depth, width=width, settlement=sign * peak)
    if kind == "basin":
        long, wide = map(float, log_uniform(rng, 60, 500, 2))
        radius = float(log_uniform(rng, 80, 400, 1)[0])
        return partial(
            basin,
            centre=centre,
            half=(long, wide),
            angle=angle,
            radius=radius,
            settlement=sign * peak,
        )
    if kind == "strip":
        fault = rng.random() < 0.5
        wide = 10 * extent if fault else float(log_uniform(rng, 12, 120, 1)[0])
        displacement = _draw_displacement(rng, 0.6 * peak, 0.4 if fault else 0.15)
        long = float(log_uniform(rng, 100, 2000, 1)[0])
        edge = float(log_uniform(rng, 2, 25, 1)[0])
        return partial(
            strip,
            point=centre,
            direction=angle,
            wide=wide,
            long=long,
            edge=edge,
            moved=displacement,
        )
    if kind == "slope":
        long, wide = map(float, log_uniform(rng, 40, 350, 2))
        displacement = _draw_displacement(rng, peak, 1.5)
        edge = float(log_uniform(rng, 4, 60, 1)[0])
        return partial(
            creep, centre=centre, half=(long, wide), angle=angle, edge=edge, moved=displacement
        )
    scale = float(log_uniform(rng, 40, 400, 1)[0])
    return _draw_smooth(rng, scale, 0.4 * peak * np.array([0.4, 0.2, 1.0]) * rng.uniform(0.2, 1, 3))


def _draw_displacement(
    rng: np.random.Generator, size: float, sideways: float
) -> tuple[float, float, float]:
    """Draw east, north and up, mm: mostly down, and partly sideways."""
    azimuth, horizontal = rng.uniform(-np.pi, np.pi), sideways * rng.random()
    direction = np.array(
        [
            horizontal * np.cos(azimuth),
            horizontal * np.sin(azimuth),
            -1.0 if rng.random() < 0.8 else 1.0,
        ]
    )
    east, north, up = size * direction / np.linalg.norm(direction)
    return float(east), float(north), float(up)


def _draw_smooth(rng: np.random.Generator, scale: float, deviation: Array) -> Movement:
    """Draw a field with a Matern-3/2 covariance of length `scale` m (t spectrum)."""
    normal, chi = rng.normal(0, 1 / scale, (WAVES, 2)), rng.chisquare(3, WAVES)
    waves = np.sqrt(3 / chi)[:, None] * normal
    weights = rng.normal(0, np.sqrt(2 / WAVES), (WAVES, 3)) * deviation
    return partial(smooth, waves=waves, phases=rng.uniform(-np.pi, np.pi, WAVES), weights=weights)


def _draw_region(rng: np.random.Generator, extent: float) -> Movement:
    """Draw a slow, wide movement of everything, up to some mm across the scene."""
    size = float(log_uniform(rng, 0.5, 12, 1)[0])
    return _draw_smooth(rng, rng.uniform(0.5, 2) * extent, size * np.array([0.5, 0.3, 1.0]))


def _draw_apart(rng: np.random.Generator, buildings: TownBuildings) -> Movement:
    count = len(buildings.angle)
    moving = rng.random(count) < log_uniform(rng, 0.02, 0.2, 1)[0]
    size = log_uniform(rng, 2, 30, count) * moving
    tilt = rng.normal(0, 0.3, (count, 2)) * (size / 10)[:, None]
    return partial(buildings_apart, buildings=buildings, settled=size, tilt=tilt)
