"""Draw the movements of a scene's ground, and its buildings."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from plumbline.simulate.random_numbers import log_uniform
from plumbline.simulate.restoration.movements import Basin, Bowl, Buildings, Movement, Slope, Smooth, Strip, Trough

Array = NDArray[np.float64]
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
