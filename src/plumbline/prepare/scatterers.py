"""The scatterers of buildings: all tracks together, in building frames, sorted by building."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Scatterers:
    """N scatterers, rows of the same building together, buildings ascending."""

    building: NDArray[np.intp]
    """(N,) index of the building."""
    track: NDArray[np.intp]
    """(N,) index of the track."""
    xy: Float
    """(N, 2) position in the building frame, m."""
    height: Float
    """(N,) m above the lowest scatterer of the building."""
    los: Float
    """(N, 3) unit vector from ground to satellite along x, along y and up."""
    change: Float
    """(N,) displacement from the first to the last epoch, mm along LOS; see `trend`."""
    change_se: Float
    """(N,) its standard error, mm: of what the scatterer does not share with its building."""
    velocity: Float
    """(N,) mean velocity along LOS, mm/yr."""
    velocity_se: Float
    """(N,) its standard error, mm/yr: of what the scatterer does not share with its building."""
    common_se: Float
    """(N,) standard error of what the velocities of the building's scatterers of that track share, mm/yr."""
    course: Float
    """(N, K) course in time, mm; NaN where it is not known; see `course.Courses`."""
    course_root: Float
    """(N, K, K) how well it is known, 1/mm."""

    def __len__(self) -> int:
        return len(self.building)

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_]) -> Self:
        """The rows `index`, in that order."""
        return replace(self, **{field.name: getattr(self, field.name)[index] for field in fields(self)})
