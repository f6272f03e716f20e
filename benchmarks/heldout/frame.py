"""The building compass: minimum rotated rectangle, axes turned by at most 45 degrees from east and north."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import shapely
from numpy.typing import NDArray

Array = NDArray[np.float64]
QUADRANTS = ("NE", "NW", "SW", "SE")
SIGNS = np.array([(1.0, 1.0), (-1.0, 1.0), (-1.0, -1.0), (1.0, -1.0)])
"""Of x and y in each of them."""


class Frame(NamedTuple):
    """One building's own axes."""

    centre: Array
    """(2,) easting, northing, m."""
    angle: float
    """Of the x axis, rad counter-clockwise from east."""
    side: Array
    """(2,) along x and y, m."""

    def to_own(self, east_north: Array) -> Array:
        """Positions (..., 2) on the map in the building's axes, m from the centre."""
        return self.turn(east_north - self.centre)

    def turn(self, east_north: Array) -> Array:
        """Vectors (..., 2) in the building's axes."""
        cos, sin = np.cos(self.angle), np.sin(self.angle)
        return np.asarray(east_north @ np.array([[cos, -sin], [sin, cos]]))


def frame_of(polygon: shapely.Polygon) -> Frame:
    """Of all rectangles with a side along an edge of the hull, the smallest (Freeman and Shapira 1975)."""
    corners = shapely.get_coordinates(polygon)
    origin = corners.mean(0)
    hull = shapely.get_coordinates(shapely.convex_hull(shapely.Polygon(corners - origin)))
    edge = np.diff(hull, axis=0)
    edge = edge[np.hypot(edge[:, 0], edge[:, 1]) > 1e-6]
    angle = np.arctan2(edge[:, 1], edge[:, 0])
    # Any direction and its normal give one rectangle; of the four, the one from -45 (excluded) to 45 degrees.
    angle = np.pi / 4 - np.mod(np.pi / 4 - angle, np.pi / 2)
    along = np.stack([np.cos(angle), np.sin(angle)], axis=1) @ hull.T
    across = np.stack([-np.sin(angle), np.cos(angle)], axis=1) @ hull.T
    best = int(np.argmin(np.ptp(along, axis=1) * np.ptp(across, axis=1)))
    span = np.array([along[best], across[best]])
    middle = (span.min(1) + span.max(1)) / 2
    cos, sin = np.cos(angle[best]), np.sin(angle[best])
    centre = origin + np.array([middle[0] * cos - middle[1] * sin, middle[0] * sin + middle[1] * cos])
    return Frame(centre, float(angle[best]), np.ptp(span, axis=1))
