"""Lay out a town of streets, buildings and open ground; draw buildings that move apart from the ground."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from benchmarks.makers.fields.settings import CELL_M, CELLS, PEAK_MM, SIDE_M, Array, log_uniform
from benchmarks.makers.fields.subsidence import Drawn

PITCH_M, STREET_EVERY = (32.0, 38.0), 4
"""Between lots; and after how many lots there is a street."""
SIDE_RANGE_M = (8.0, 30.0)
BUILT = (0.55, 0.85)
"""Share of the lots in town that have a building."""
OPEN, OPEN_M = (0.15, 0.4), 110.0
"""Share of the scene that is open ground: parks, fields, water; and over how many metres it changes."""
MOVING = (3, 14)
TILT_MM_M, SHIFT = 3.0, 0.4
"""Most tilt of a moving building, and most sideways movement by its settlement."""
CLOSE = 0.5
"""Share of the scenes with moving buildings in which they are neighbours."""


@dataclass(frozen=True)
class Town:
    """B buildings, streets, and where the ground is open. All in m from the scene's south-west corner."""

    centre: Array
    """(B, 2)"""
    half: Array
    """(B, 2) of the sides, along and across `angle`."""
    height: Array
    """(B,)"""
    angle: float
    """Of all lots, rad counter-clockwise from east."""
    streets: Array
    """(S, 2) places along the streets' middle, a metre apart."""
    open_cells: NDArray[np.bool_]
    """(CELLS, CELLS), first row south."""

    @property
    def axes(self) -> Array:
        """Return (2, 2) unit vectors along and across, as rows."""
        cos, sin = np.cos(self.angle), np.sin(self.angle)
        return np.array([[cos, sin], [-sin, cos]])

    def is_open(self, place: Array) -> NDArray[np.bool_]:
        """Return whether places (N, 2) are on open ground."""
        column, row = np.clip(place // CELL_M, 0, CELLS - 1).astype(int).T
        return np.asarray(self.open_cells[row, column])


@dataclass(frozen=True)
class MovingBuildings:
    """Rigid buildings that settle, tilt and shift beside what the ground under them does.

    Movements are those at the ground: what a tilt does to a roof is left out, because a map has one value a place.
    """

    town: Town
    which: NDArray[np.intp]
    """(M,) numbers of buildings."""
    settles: Array
    """(M,) mm at the centre."""
    tilt: Array
    """(M, 2) mm/m along and across."""
    shift: Array
    """(M, 2) mm east and north."""

    def __call__(self, place: Array) -> Array:
        """Return movements (N, 3) east, north and up, mm; 0 beside the buildings."""
        moved = np.zeros((len(place), 3))
        for number, settles, tilt, shift in zip(self.which, self.settles, self.tilt, self.shift, strict=True):
            own = (place - self.town.centre[number]) @ self.town.axes.T
            inside = (np.abs(own) <= self.town.half[number]).all(1)
            moved[inside] = np.column_stack([np.tile(shift, (inside.sum(), 1)), own[inside] @ tilt - settles])
        return moved


def draw_town(generator: Generator) -> Town:
    """Draw a town whose lots stand in rows, turned as a whole."""
    pitch, angle = generator.uniform(*PITCH_M), generator.uniform(-np.pi / 4, np.pi / 4)
    cos, sin = np.cos(angle), np.sin(angle)
    axes = np.array([[cos, sin], [-sin, cos]])
    smooth = gaussian_filter(generator.standard_normal((CELLS, CELLS)), OPEN_M / CELL_M / 2, mode="reflect")
    open_cells = smooth < np.quantile(smooth, generator.uniform(*OPEN))
    reach = int(SIDE_M / pitch) + 2
    index = np.arange(-reach, reach + 1)
    lot = np.stack(np.meshgrid(index, index), -1).reshape(-1, 2)
    centre = lot * pitch @ axes + SIDE_M / 2
    half = generator.uniform(*SIDE_RANGE_M, (len(lot), 2)) / 2
    centre = centre + (generator.uniform(-1, 1, lot.shape) * (pitch / 2 - half).clip(0)) @ axes
    height = np.exp(generator.normal(np.log(10), 0.4, len(lot))).clip(3, 40)
    along = np.arange(-SIDE_M, SIDE_M)
    offset = pitch * STREET_EVERY * np.arange(-reach, reach + 1)
    grid = np.stack(np.meshgrid(along, offset), -1).reshape(-1, 2)
    streets = np.concatenate([grid, grid[:, ::-1]]) @ axes + SIDE_M / 2
    town = Town(centre, half, height, angle, streets[_in_scene(streets)], open_cells)
    kept = (lot % STREET_EVERY != 0).all(1) & _in_scene(centre) & ~town.is_open(centre)
    kept &= generator.random(len(lot)) < generator.uniform(*BUILT)
    return Town(centre[kept], half[kept], height[kept], angle, town.streets, open_cells)


def draw_moving_buildings(generator: Generator, town: Town) -> Drawn:
    """Draw some buildings, neighbours or scattered, that move each for itself."""
    count = int(generator.integers(MOVING[0], MOVING[1] + 1))
    first = town.centre[generator.integers(len(town.centre))]
    order = np.argsort(np.hypot(*(town.centre - first).T))
    candidates = order[: 3 * count] if generator.random() < CLOSE else order
    which = generator.choice(candidates, min(count, len(candidates)), replace=False)
    peak = log_uniform(generator, PEAK_MM)
    settles = peak * generator.uniform(0.3, 1, len(which))
    settles[0] = peak
    most = np.minimum(TILT_MM_M, 0.7 * settles / town.half[which].sum(1))[:, None]
    tilt = generator.uniform(-1, 1, (len(which), 2)) * most
    shift = generator.uniform(-SHIFT, SHIFT, (len(which), 2)) * settles[:, None]
    form = MovingBuildings(town, which, settles, tilt, shift)
    return form, {"centres_m": town.centre[which].tolist(), "settlements_mm": settles.tolist(), "peak_mm": peak}


def _in_scene(place: Array) -> NDArray[np.bool_]:
    return np.asarray(((place > 0) & (place < SIDE_M)).all(1))
