"""Lay out a city's buildings: footprints in rows, rows in districts, every district with its own street grid.

A city is drawn in parts of whole districts: a plan needs nothing of the others, and the town says where it goes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import shapely
from numpy.typing import NDArray

from plumbline.core.compass import Frames, frames
from plumbline.simulate.random_numbers import log_uniform
from plumbline.simulate.structure.footprints import CORNERS, draw_outlines

Array = NDArray[np.float64]
DISTRICT_BUILDINGS = 60
STREET_M = 15.0
ATTACHED_SHARE, JOINT_M = 0.25, 0.05
"""Share of buildings that stand wall to wall with the next of their row; and the joint between them, m."""


@dataclass(frozen=True)
class CityLayout:
    """B buildings in local metres, the city's centre at 0, 0."""

    polygon: NDArray[np.object_]
    """(B,) shapely polygons."""
    height: Array
    """(B,) m above the ground."""
    ground: Array
    """(B,) elevation of the ground, m."""
    frames: Frames
    standing: NDArray[np.bool_]
    """(B, 4) corners of the frame, in the order of `compass.QUADRANTS`, that the footprint really has."""
    extent: float
    """Side of the square that holds the city, m."""


@dataclass(frozen=True)
class DistrictPlan:
    """B buildings in their districts, which have no place in the city yet."""

    side: Array
    """(B, 2) m."""
    centre: Array
    """(B, 2) m from the middle of the district."""
    turn: Array
    """(B,) rad, against the district's streets."""
    district: NDArray[np.intp]
    """(B,) number of the district, from 0."""
    radius: float
    """Of the largest circle around a district, m."""


@dataclass(frozen=True)
class Town:
    """The grid on which the districts of a city stand, row by row, and the ground under it."""

    buildings: int
    cell: float
    """Side of a district's square, m."""
    elevation: float
    """Of the ground at 0, 0, m."""
    slope: tuple[float, float]
    """Of the ground, towards east and north."""

    @property
    def columns(self) -> int:
        """Districts a row."""
        return int(np.ceil(np.sqrt(-(-self.buildings // DISTRICT_BUILDINGS))))

    @property
    def extent(self) -> float:
        """Side of the square that holds the city, m."""
        return self.cell * self.columns

    def middle(self, district: NDArray[np.intp]) -> Array:
        """Return the middles (D, 2) of the districts, m."""
        row, column = np.divmod(district, self.columns)
        return np.asarray(self.cell * (np.stack([column, row], axis=1) - (self.columns - 1) / 2), float)


def draw_plan(rng: np.random.Generator, count: int) -> DistrictPlan:
    """Draw `count` buildings with sides of 6 to 60 m, and pack them into districts of `DISTRICT_BUILDINGS`."""
    side = _draw_sides(rng, count)
    centre, turn = np.zeros((count, 2)), rng.normal(0, 0.03, count)
    gap = 1 + rng.exponential(5, count)
    attached = rng.random(count) < ATTACHED_SHARE
    turn[attached], gap[attached] = 0, JOINT_M
    box = np.abs(np.cos(turn))[:, None] * side + np.abs(np.sin(turn))[:, None] * side[:, ::-1]
    district = np.arange(count) // DISTRICT_BUILDINGS
    members = [np.flatnonzero(district == number) for number in range(int(district[-1]) + 1)]
    radius = max(_pack(rng, centre, member, box, gap[member]) for member in members)
    return DistrictPlan(side, centre, turn, district, radius)


def draw_town(rng: np.random.Generator, buildings: int, radius: float) -> Town:
    """Draw a town for districts of at most `radius` m from their middle to their furthest corner."""
    east, north = rng.uniform(-0.01, 0.01, 2)
    return Town(buildings, 2 * radius + STREET_M, float(rng.uniform(5, 300)), (float(east), float(north)))


def draw_layout(rng: np.random.Generator, plan: DistrictPlan, town: Town, first_district: int = 0) -> CityLayout:
    """Set a plan into a town from a district on: buildings at any orientation, 3 to 40 m high."""
    count = len(plan.side)
    angle = rng.uniform(0, np.pi / 2, int(plan.district[-1]) + 1)[plan.district]
    cos, sin = np.cos(angle), np.sin(angle)
    east, north = plan.centre.T
    centre = np.stack([east * cos - north * sin, east * sin + north * cos], axis=1)
    centre += town.middle(first_district + plan.district)
    turn = plan.turn + angle
    cos, sin = np.cos(turn), np.sin(turn)
    outlines = []
    for i, outline in enumerate(draw_outlines(rng, plan.side)):
        rotation = np.array([[cos[i], sin[i]], [-sin[i], cos[i]]])
        outlines.append(shapely.Polygon(outline @ rotation + centre[i]))
    polygon = np.array(outlines, dtype=object)
    frame = frames(polygon)
    return CityLayout(
        polygon=polygon,
        height=np.asarray(np.round(log_uniform(rng, 3, 40, count), 1), float),
        ground=town.elevation + frame.centre @ np.array(town.slope) + rng.normal(0, 0.3, count),
        frames=frame,
        standing=standing_corners(polygon, frame),
        extent=town.extent,
    )


def _draw_sides(rng: np.random.Generator, count: int) -> Array:
    """Draw sides (B, 2), m: the longer log-uniform from 7 to 60, the ratio log-uniform up to 3.5."""
    longer = log_uniform(rng, 7, 60, count)
    shorter = np.maximum(longer / log_uniform(rng, 1, 3.5, count), 6)
    side = np.stack([longer, shorter], axis=1)
    turned = rng.random(count) < 0.5
    side[turned] = side[turned, ::-1]
    return side


def _pack(rng: np.random.Generator, centre: Array, member: NDArray[np.intp], box: Array, gap: Array) -> float:
    """Set the centres of one district's buildings about 0, 0; return the radius of the circle around them."""
    width = float(np.sqrt(((box[member, 0] + gap) * (box[member, 1] + 10)).sum()))
    x = y = depth = 0.0
    for building, space in zip(member, gap, strict=True):
        if x > 0 and x + box[building, 0] > width:
            # Rows stand back to back over a yard, or face each other over a street.
            x, y, depth = 0.0, y + depth + float(rng.choice([5.0, STREET_M])), 0.0
        centre[building] = x + box[building, 0] / 2, y + box[building, 1] / 2
        x += float(box[building, 0] + space)
        depth = max(depth, float(box[building, 1]))
    low = (centre[member] - box[member] / 2).min(axis=0)
    high = (centre[member] + box[member] / 2).max(axis=0)
    centre[member] -= (low + high) / 2
    return float(np.hypot(*(high - low)) / 2)


def standing_corners(polygon: NDArray[np.object_], frame: Frames) -> NDArray[np.bool_]:
    """Return (B, 4) whether the polygon holds the point at four fifths of the way to each corner of its frame."""
    cos, sin = np.cos(frame.angle)[:, None], np.sin(frame.angle)[:, None]
    x, y = 0.4 * frame.side[:, :1] * CORNERS[:, 0], 0.4 * frame.side[:, 1:] * CORNERS[:, 1]
    east, north = frame.centre[:, :1] + x * cos - y * sin, frame.centre[:, 1:] + x * sin + y * cos
    return np.asarray(shapely.contains_xy(polygon[:, None], east, north), bool)
