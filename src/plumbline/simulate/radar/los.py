"""Directions on the ground of a side-looking radar that looks to the right of its flight."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def range_and_azimuth(heading_deg: float) -> NDArray[np.float64]:
    """Horizontal unit vectors (2, 2): row 0 ground range, away from the satellite; row 1 azimuth, along the flight."""
    heading = np.deg2rad(heading_deg)
    sin, cos = float(np.sin(heading)), float(np.cos(heading))
    return np.array([[cos, -sin], [sin, cos]])
