"""The line of sight: the unit vector from ground to satellite, as east, north and up."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def from_heading(incidence_deg: ArrayLike, heading_deg: ArrayLike) -> NDArray[np.float64]:
    """Unit vectors (…, 3) of a satellite that looks to the right.

    Args:
        incidence_deg: angle t between the vertical and the line of sight, at the ground.
        heading_deg: direction of flight a, clockwise from north: `[-sin t cos a, sin t sin a, cos t]`.
    """
    t, a = np.radians(incidence_deg), np.radians(heading_deg)
    return np.stack(np.broadcast_arrays(-np.sin(t) * np.cos(a), np.sin(t) * np.sin(a), np.cos(t)), axis=-1)


def from_azimuth(incidence_deg: ArrayLike, azimuth_deg: ArrayLike) -> NDArray[np.float64]:
    """Unit vectors (…, 3) by MintPy's angles, whichever way the satellite looks.

    Args:
        incidence_deg: as in `from_heading`.
        azimuth_deg: direction b of the vector from ground to satellite, anti-clockwise from north:
            `[-sin t sin b, sin t cos b, cos t]` (MintPy, utils0.get_unit_vector4component_of_interest, enu2los).
    """
    t, b = np.radians(incidence_deg), np.radians(azimuth_deg)
    return np.stack(np.broadcast_arrays(-np.sin(t) * np.sin(b), np.sin(t) * np.cos(b), np.cos(t)), axis=-1)
