"""The building compass: minimum rotated rectangle, axes turned by at most 45 degrees from east and north."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import shapely
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Frame(NamedTuple):
    """One building's own axes."""

    centre: Array
    """(2,) easting, northing, m."""
    axes: Array
    """(2, 2) rows: unit vectors of x and y on the map."""
    side: Array
    """(2,) along x and y, m."""

    def to_own(self, east_north: Array) -> Array:
        """Positions (N, 2) on the map in the building's axes, m from the centre."""
        return np.asarray((east_north - self.centre) @ self.axes.T)

    def to_map(self, own: Array) -> Array:
        """Positions (N, 2) in the building's axes on the map."""
        return np.asarray(own @ self.axes + self.centre)


def frame_of(polygon: shapely.Polygon) -> Frame:
    """The x axis is the side whose direction is above -45 and at most 45 degrees from east."""
    corners = shapely.get_coordinates(shapely.minimum_rotated_rectangle(polygon))[:4]
    edge = corners[1] - corners[0]
    angle = np.degrees(np.arctan2(edge[1], edge[0]))
    angle = np.radians(angle - 90 * np.ceil((angle - 45) / 90 - 1e-9))
    axes = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    centre = corners.mean(0)
    return Frame(centre, axes, np.ptp((corners - centre) @ axes.T, axis=0))
