"""Draw the outlines of invented buildings, and find the label's bays that lie on a footprint.

Outlines are rectangles, wings in the shape of an L, a U or a T, and rectangles with a corner drawn in. On a footprint
that is not its rectangle, bays and the plane that is taken off follow its own outline.
"""

from __future__ import annotations

import numpy as np
import shapely
from numpy.typing import NDArray

from plumbline.core.compass import Frames

Array = NDArray[np.float64]
Index = NDArray[np.intp]
CORNERS = np.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]])
"""Signs of x and y of the corners, in the order of `compass.QUADRANTS`."""
RECTANGLE, L, U, T, DRAWN_IN = range(5)
SHAPE_SHARES = (0.62, 0.14, 0.06, 0.06, 0.12)
LEAST_WINGED_M = 10.0
"""Shorter side from which a building may be a U or a T; shorter ones are rectangles."""
CLEARLY = 1.02
"""The outline's own rectangle has less than any turned one's area by this factor. With two of about equal area the
building's frame would hang on the last digit of its coordinates."""


def draw_outlines(rng: np.random.Generator, side: Array) -> list[Array]:
    """Draw corners (n, 2) of B outlines about the middle of their rectangles, m; sides (B, 2), m, are along x and y."""
    count = len(side)
    shape = rng.choice(len(SHAPE_SHARES), count, p=SHAPE_SHARES)
    shape[(side.min(axis=1) < LEAST_WINGED_M) & np.isin(shape, (U, T))] = RECTANGLE
    cut, drawn_in = rng.uniform(0.25, 0.55, side.shape), rng.uniform(0, 0.18, side.shape)
    corner, place, across = rng.integers(0, 4, count), rng.random(count), rng.integers(0, 2, count)
    outlines = []
    for i in range(count):
        outline = CORNERS * side[i] / 2
        if shape[i] == L:
            outline = _without(side[i], [(CORNERS[corner[i]] * side[i] * (0.5 - cut[i]), outline[corner[i]])])
        elif shape[i] in (U, T):
            notches = _notches(side[i], cut[i], place[i], CORNERS[corner[i]], int(across[i]), bool(shape[i] == U))
            winged = _without(side[i], notches)
            outline = winged if _own_rectangle(winged) else outline
        elif shape[i] == DRAWN_IN:
            # Three corners of the rectangle stay, so that it remains the smallest one around the outline.
            outline[corner[i]] *= 1 - drawn_in[i]
        outlines.append(outline)
    return outlines


def _notches(side: Array, cut: Array, place: float, sign: Array, axis: int, court: bool) -> list[tuple[Array, Array]]:
    """Draw boxes, by two opposite corners, to cut out on one side: a court, or all but the stem of a T."""
    width = cut[axis] * side[axis]
    low = -side[axis] / 2 + (0.2 + place * (0.6 - cut[axis])) * side[axis]
    outer = sign[1 - axis] * side[1 - axis] / 2
    inner = outer - sign[1 - axis] * cut[1 - axis] * side[1 - axis]
    spans = [(low, low + width)] if court else [(-side[axis] / 2, low), (low + width, side[axis] / 2)]
    ends = [(np.array([first, inner]), np.array([last, outer])) for first, last in spans]
    return [(first[::-1], last[::-1]) if axis else (first, last) for first, last in ends]


def _without(side: Array, notches: list[tuple[Array, Array]]) -> Array:
    """Return the rectangle without the boxes."""
    boxes = [shapely.box(*np.minimum(*ends), *np.maximum(*ends)) for ends in notches]
    left = shapely.difference(shapely.box(*(-side / 2), *(side / 2)), shapely.union_all(boxes))
    return np.asarray(shapely.get_coordinates(left)[:-1], float)


def _own_rectangle(outline: Array) -> bool:
    """Return whether the rectangle along x and y is clearly smaller than those along the outline's other edges."""
    hull = shapely.get_coordinates(shapely.convex_hull(shapely.multipoints(outline)))
    edges = np.diff(hull, axis=0)
    angle = np.arctan2(edges[:, 1], edges[:, 0])
    other = angle[np.abs(np.sin(2 * angle)) > 1e-6]
    turned = np.stack([np.cos(other), np.sin(other), -np.sin(other), np.cos(other)], axis=1).reshape(-1, 2, 2)
    area = np.ptp(hull @ turned.transpose(0, 2, 1), axis=1).prod(axis=1)
    return bool((area > CLEARLY * np.ptp(hull, axis=0).prod()).all())


FILLED = 0.999
"""A footprint with this share of its rectangle's area is the rectangle."""
EDGE_M = 0.01
"""A place so near outside of the outline is on it: turning a footprint into its own frame rounds."""


def own_outlines(polygon: NDArray[np.object_], frame: Frames) -> NDArray[np.object_]:
    """Return the footprints (B,) in their buildings' frames, m; None if the footprint is its rectangle."""
    result = np.full(len(polygon), None, dtype=object)
    other = np.flatnonzero(shapely.area(polygon) < FILLED * frame.side.prod(axis=1))
    if len(other):
        coordinates, owner = shapely.get_coordinates(polygon[other], return_index=True)
        own = shapely.set_coordinates(polygon[other].copy(), frame.to_building(other[owner], coordinates))
        result[other] = shapely.buffer(own, EDGE_M, join_style="mitre")
        shapely.prepare(result[other])
    return result


def inside(outline: NDArray[np.object_], building: Index, x: Array, y: Array) -> NDArray[np.bool_]:
    """Return (M,) whether places (M,) in the frames of the buildings `building` (M,) are on their outline (B,)."""
    return np.asarray(shapely.intersects_xy(outline[building], x, y), bool)


def tilts_over(up: Array, building: Index, at: Array, count: int) -> Array:
    """Return tilts (count, 2), mm/m, of least-squares planes through values (M,) on equal cells at (2, M) of buildings.

    The axes are not each other's normals over an L, so the plane's three coefficients are solved together.
    """
    columns = np.stack([np.ones_like(up), *at])
    normal = np.empty((count, 3, 3))
    right = np.empty((count, 3))
    for i in range(3):
        right[:, i] = np.bincount(building, columns[i] * up, count)
        for j in range(i, 3):
            normal[:, i, j] = normal[:, j, i] = np.bincount(building, columns[i] * columns[j], count)
    # Cells all on one line tell no tilt across it: the least solution has none.
    return np.asarray((np.linalg.pinv(normal, hermitian=True) @ right[..., None])[:, 1:, 0], float)
