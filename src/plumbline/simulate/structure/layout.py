"""Place footprints in a town.

Outlines are rectangles, wings in the shape of an L, a U or a T, and rectangles with a
corner drawn in. On a footprint that is not its rectangle, bays and the plane that is taken
off follow its own outline.

A city is drawn in parts of whole districts: a plan needs nothing of the others, and the town has
its place.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import shapely
from numpy.typing import NDArray

from plumbline.core.arrays import Array, Index
from plumbline.core.compass import Frames, frames
from plumbline.simulate.random_numbers import log_uniform

CORNERS = np.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]])
"""Signs of x and y of the corners, in the order of `compass.QUADRANTS`."""
RECTANGLE, L, U, T, DRAWN_IN = range(5)
SHAPE_SHARES = (0.62, 0.14, 0.06, 0.06, 0.12)
LEAST_WINGED_M = 10.0
"""Smallest shorter side of a U or a T; smaller buildings are rectangles."""
CLEARLY = 1.02
"""Smallest factor between the areas of any turned rectangle and of the outline's own. With two of
about equal area the building's frame would depend on the last digit of its coordinates."""


def draw_outlines(rng: np.random.Generator, side: Array) -> list[Array]:
    """Draw corners (n, 2) of B outlines about the middle of their rectangles, m; sides (B,
    2), m, are along x and y."""
    count = len(side)
    shape = rng.choice(len(SHAPE_SHARES), count, p=SHAPE_SHARES)
    shape[(side.min(axis=1) < LEAST_WINGED_M) & np.isin(shape, (U, T))] = RECTANGLE
    cut, drawn_in = rng.uniform(0.25, 0.55, side.shape), rng.uniform(0, 0.18, side.shape)
    corner, place, across = rng.integers(0, 4, count), rng.random(count), rng.integers(0, 2, count)
    outlines = []
    for i in range(count):
        outline = CORNERS * side[i] / 2
        if shape[i] == L:
            outline = _cut_out(
                side[i], [(CORNERS[corner[i]] * side[i] * (0.5 - cut[i]), outline[corner[i]])]
            )
        elif shape[i] in (U, T):
            notches = _notches(
                side[i],
                cut[i],
                place=place[i],
                sign=CORNERS[corner[i]],
                axis=int(across[i]),
                court=bool(shape[i] == U),
            )
            winged = _cut_out(side[i], notches)
            outline = winged if _is_smallest_rectangle(winged) else outline
        elif shape[i] == DRAWN_IN:
            # Three corners of the rectangle stay, so that it remains the smallest one around
            # the outline.
            outline[corner[i]] *= 1 - drawn_in[i]
        outlines.append(outline)
    return outlines


def _notches(
    side: Array, cut: Array, *, place: float, sign: Array, axis: int, court: bool
) -> list[tuple[Array, Array]]:
    """Draw boxes, by two opposite corners, to cut out on one side: a court, or all but the
    stem of a T."""
    width = cut[axis] * side[axis]
    low = -side[axis] / 2 + (0.2 + place * (0.6 - cut[axis])) * side[axis]
    outer = sign[1 - axis] * side[1 - axis] / 2
    inner = outer - sign[1 - axis] * cut[1 - axis] * side[1 - axis]
    spans = (
        [(low, low + width)] if court else [(-side[axis] / 2, low), (low + width, side[axis] / 2)]
    )
    ends = [(np.array([first, inner]), np.array([last, outer])) for first, last in spans]
    return [(first[::-1], last[::-1]) if axis else (first, last) for first, last in ends]


def _cut_out(side: Array, notches: list[tuple[Array, Array]]) -> Array:
    """Return the rectangle without the boxes."""
    boxes = [shapely.box(*np.minimum(*ends), *np.maximum(*ends)) for ends in notches]
    outline = shapely.difference(shapely.box(*(-side / 2), *(side / 2)), shapely.union_all(boxes))
    return np.asarray(shapely.get_coordinates(outline)[:-1], float)


def _is_smallest_rectangle(outline: Array) -> bool:
    """Return whether the rectangle along x and y is clearly smaller than those along the
    outline's other edges."""
    hull = shapely.get_coordinates(shapely.convex_hull(shapely.multipoints(outline)))
    edges = np.diff(hull, axis=0)
    angle = np.arctan2(edges[:, 1], edges[:, 0])
    angle = angle[np.abs(np.sin(2 * angle)) > 1e-6]  # not along x or y
    turned = np.stack(
        [np.cos(angle), np.sin(angle), -np.sin(angle), np.cos(angle)], axis=1
    ).reshape(-1, 2, 2)
    area = np.ptp(hull @ turned.transpose(0, 2, 1), axis=1).prod(axis=1)
    return bool((area > CLEARLY * np.ptp(hull, axis=0).prod()).all())


FILLED = 0.999
"""Share of its rectangle's area from which a footprint is the rectangle."""
EDGE_M = 0.01
"""Distance outside of the outline that counts as on it: turning a footprint rounds."""


def own_outlines(polygon: NDArray[np.object_], frame: Frames) -> NDArray[np.object_]:
    """Return the footprints (B,) in their buildings' frames, m; None if the footprint is
    its rectangle."""
    outlines = np.full(len(polygon), None, dtype=object)
    rows = np.flatnonzero(shapely.area(polygon) < FILLED * frame.side.prod(axis=1))
    if len(rows):
        coordinates, owner = shapely.get_coordinates(polygon[rows], return_index=True)
        turned = shapely.set_coordinates(
            polygon[rows].copy(), frame.to_building(rows[owner], coordinates)
        )
        outlines[rows] = shapely.buffer(turned, EDGE_M, join_style="mitre")
        shapely.prepare(outlines[rows])
    return outlines


def inside(outline: NDArray[np.object_], building: Index, x: Array, y: Array) -> NDArray[np.bool_]:
    """Return (M,) whether places (M,) in the frames of the buildings `building` (M,) are on
    their outline (B,)."""
    return np.asarray(shapely.intersects_xy(outline[building], x, y), bool)


def tilts_over(up: Array, building: Index, at: Array, count: int) -> Array:
    """Return tilts (count, 2), mm/m, of least-squares planes through values (M,) on equal
    cells at (2, M) of buildings.

    The axes are not each other's normals over an L, so the plane's three coefficients are
    solved together.
    """
    columns = np.stack([np.ones_like(up), *at])
    normal = np.empty((count, 3, 3))
    right = np.empty((count, 3))
    for i in range(3):
        right[:, i] = np.bincount(building, columns[i] * up, count)
        for j in range(i, 3):
            normal[:, i, j] = normal[:, j, i] = np.bincount(
                building, columns[i] * columns[j], count
            )
    # Cells on one line give no tilt across it, only rounding: the minimum-norm solution has none.
    inverse = np.linalg.pinv(normal, rcond=1e-9, hermitian=True)
    return np.asarray((inverse @ right[..., None])[:, 1:, 0], float)


DISTRICT_BUILDINGS = 60
STREET_M = 15.0
ATTACHED_SHARE, JOINT_M = 0.25, 0.05
"""Share of buildings that are wall to wall with the next of their row; and the joint, m."""


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
    """(B, 4) corners of the frame, in the order of `compass.QUADRANTS`, that the footprint
    really has."""
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
    """Radius of the largest circle around a district, m."""


@dataclass(frozen=True)
class Town:
    """The grid of the districts of a city, row by row, and the ground under it."""

    buildings: int
    cell: float
    """Side of a district's square, m."""
    elevation: float
    """Elevation of the ground at 0, 0, m."""
    slope: tuple[float, float]
    """Slope of the ground towards east and north."""

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
        return np.asarray(
            self.cell * (np.stack([column, row], axis=1) - (self.columns - 1) / 2), float
        )


def draw_plan(rng: np.random.Generator, count: int) -> DistrictPlan:
    """Draw `count` buildings with sides of 6 to 60 m, and pack them into districts of
    `DISTRICT_BUILDINGS`."""
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
    """Draw a town for districts of at most `radius` m from their middle to their furthest
    corner."""
    east, north = rng.uniform(-0.01, 0.01, 2)
    return Town(
        buildings, 2 * radius + STREET_M, float(rng.uniform(5, 300)), (float(east), float(north))
    )


def draw_layout(
    rng: np.random.Generator, plan: DistrictPlan, town: Town, first_district: int = 0
) -> CityLayout:
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
    """Draw sides (B, 2), m: the longer log-uniform from 7 to 60, the ratio log-uniform up to
    3.5."""
    longer = log_uniform(rng, 7, 60, count)
    shorter = np.maximum(longer / log_uniform(rng, 1, 3.5, count), 6)
    side = np.stack([longer, shorter], axis=1)
    turned = rng.random(count) < 0.5
    side[turned] = side[turned, ::-1]
    return side


def _pack(
    rng: np.random.Generator, centre: Array, member: NDArray[np.intp], box: Array, gap: Array
) -> float:
    """Set the centres of one district's buildings about 0, 0; return the radius of the
    circle around them."""
    width = float(np.sqrt(((box[member, 0] + gap) * (box[member, 1] + 10)).sum()))
    x = y = depth = 0.0
    for building, space in zip(member, gap, strict=True):
        if x > 0 and x + box[building, 0] > width:
            # Rows are back to back over a yard, or face each other over a street.
            x, y, depth = 0.0, y + depth + float(rng.choice([5.0, STREET_M])), 0.0
        centre[building] = x + box[building, 0] / 2, y + box[building, 1] / 2
        x += float(box[building, 0] + space)
        depth = max(depth, float(box[building, 1]))
    low = (centre[member] - box[member] / 2).min(axis=0)
    high = (centre[member] + box[member] / 2).max(axis=0)
    centre[member] -= (low + high) / 2
    return float(np.hypot(*(high - low)) / 2)


def standing_corners(polygon: NDArray[np.object_], frame: Frames) -> NDArray[np.bool_]:
    """Return (B, 4) whether the polygon holds the point at four fifths of the way to each
    corner of its frame."""
    cos, sin = np.cos(frame.angle)[:, None], np.sin(frame.angle)[:, None]
    x, y = 0.4 * frame.side[:, :1] * CORNERS[:, 0], 0.4 * frame.side[:, 1:] * CORNERS[:, 1]
    east, north = frame.centre[:, :1] + x * cos - y * sin, frame.centre[:, 1:] + x * sin + y * cos
    return np.asarray(shapely.contains_xy(polygon[:, None], east, north), bool)
