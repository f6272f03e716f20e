"""Define the building compass: the frame in which north-east is the north-east corner of
*this* house."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray

QUADRANTS = ("NE", "NW", "SW", "SE")
"""Names of the quadrants, in the order of the label codes 0 to 3 (counter-clockwise from x, y >
0)."""
BETWEEN_QUADRANTS = "|"


@dataclass(frozen=True)
class Frames:
    """Frames of B buildings; angles in rad counter-clockwise from east, lengths in m."""

    centre: NDArray[np.float64]
    """(B, 2) easting and northing of the rectangle's centre."""
    angle: NDArray[np.float64]
    """(B,) direction of the x axis, in (-pi/4, pi/4]."""
    side: NDArray[np.float64]
    """(B, 2) side along x and along y."""

    def to_building(
        self, index: NDArray[np.intp], east_north: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Transform map coordinates (N, 2) into the frames of buildings `index` (N,): x and
        y in m from the centre."""
        return self.rotate(index, east_north - self.centre[index])

    def rotate(
        self, index: NDArray[np.intp], east_north: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Rotate vectors (N, 2) from east and north to their components along x and y."""
        cos, sin = np.cos(self.angle[index]), np.sin(self.angle[index])
        east, north = east_north[:, 0], east_north[:, 1]
        return np.stack([east * cos + north * sin, north * cos - east * sin], axis=1)


def frames(polygons: NDArray[np.object_]) -> Frames:
    """Return the frames of shapely polygons (B,) in a projected CRS, from their minimum
    rotated rectangles.

    The x axis is the rectangle's axis turned by at most 45 degrees from east; at exactly 45
    degrees, the one turned counter-clockwise. A polygon without extent in one direction
    gets a side of 0.
    """
    # Near the origin: far from it, millimetres are lost in the squares of coordinates of
    # thousands of kilometres.
    origin = np.column_stack(
        [shapely.get_x(shapely.centroid(polygons)), shapely.get_y(shapely.centroid(polygons))]
    )
    coordinates, owner = shapely.get_coordinates(polygons, return_index=True)
    near = shapely.set_coordinates(polygons.copy(), coordinates - origin[owner])
    corner = _corners(shapely.minimum_rotated_rectangle(near))
    edges = np.diff(corner[:, :3], axis=1)
    length = np.hypot(edges[..., 0], edges[..., 1])
    # The direction of the longer edge is the better conditioned one; the other axis is
    # square to it.
    first = length[:, 0] >= length[:, 1]
    reference = np.where(first[:, None], edges[:, 0], edges[:, 1])
    turned = np.arctan2(reference[:, 1], reference[:, 0])
    folded = turned - np.round(turned / (np.pi / 2)) * (np.pi / 2)
    # Exactly 45 degrees: counter-clockwise.
    folded += np.where(folded <= -np.pi / 4 + 1e-9, np.pi / 2, 0)
    along_x = np.abs(np.cos(turned - folded)) > 0.5
    longer, shorter = length.max(axis=1), length.min(axis=1)
    side = np.where(
        along_x[:, None], np.stack([longer, shorter], axis=1), np.stack([shorter, longer], axis=1)
    )
    return Frames((corner[:, 0] + corner[:, 2]) / 2 + origin, folded, side)


def _corners(rectangles: NDArray[np.object_]) -> NDArray[np.float64]:
    """Return (B, 4, 2) corners in order; a line (no width) gives each end twice, a point
    gives itself four times."""
    coordinates, owner = shapely.get_coordinates(rectangles, return_index=True)
    count = np.bincount(owner, minlength=len(rectangles))
    first = np.cumsum(count) - count
    whole = (count == 5)[:, None]
    place = np.where(whole, np.arange(4), (count - 1)[:, None] * np.array([0, 1, 1, 0]))
    return np.asarray(coordinates[first[:, None] + place], float)


def quadrant_code(x: NDArray[np.floating[Any]], y: NDArray[np.floating[Any]]) -> NDArray[np.int64]:
    """Return the index into `QUADRANTS` of positions in the building frame; the axes count
    as east and north."""
    east, north = x >= 0, y >= 0
    return np.select([east & north, ~east & north, ~east & ~north], [0, 1, 2], default=3)


def join_quadrants(these: Iterable[object]) -> str:
    """Join the names of the quadrants that are true among four, as `NE|NW`."""
    return BETWEEN_QUADRANTS.join(name for name, true in zip(QUADRANTS, these, strict=True) if true)


def of_likeliest(probability: NDArray[Any], values: NDArray[Any]) -> NDArray[Any]:
    """Return (B,) the entry of (B, 4) `values` at the most probable quadrant of (B, 4)
    `probability`."""
    return np.take_along_axis(
        np.asarray(values), np.asarray(probability).argmax(axis=1)[:, None], axis=1
    )[:, 0]
