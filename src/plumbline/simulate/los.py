"""Line of sight of a side-looking radar that looks to the right of its flight."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def los_vector(incidence_deg: ArrayLike, heading_deg: ArrayLike) -> NDArray[np.float64]:
    """Unit vectors (..., 3) from ground to satellite: east, north, up.

    Args:
        incidence_deg: angle between the line of sight and the vertical at the point.
        heading_deg: direction of flight, clockwise from north.
    """
    incidence, heading = np.broadcast_arrays(np.deg2rad(incidence_deg), np.deg2rad(heading_deg))
    sin = np.sin(incidence)
    return np.stack([-sin * np.cos(heading), sin * np.sin(heading), np.cos(incidence)], axis=-1)


def range_and_azimuth(heading_deg: float) -> NDArray[np.float64]:
    """Horizontal unit vectors (2, 2): row 0 ground range, away from the satellite; row 1 azimuth, along the flight."""
    heading = np.deg2rad(heading_deg)
    sin, cos = float(np.sin(heading)), float(np.cos(heading))
    return np.array([[cos, -sin], [sin, cos]])
