"""Find levelled points that cannot belong to their building: misread or mistyped heights."""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from plumbline.serve.compare.levelled import NARROW_M, Period
from plumbline.sources.levelling import Levelling

Array = NDArray[np.float64]
STEEPEST_MM_M = 50.0
"""A point is misread if it leaves the plane of the others and the next of them by more, for each metre to that one."""
ALONE_MM = 500.0
"""The same of a building with too few points, against the median of all."""
FEWEST_MEDIAN, FEWEST_ROBUST = 3, 5
"""Points of a building that can tell which of them is wrong: by their median, by a plane."""
MOST_PLANES = 20_000


class Misread(NamedTuple):
    """A point, how it changed, and how its building did there, mm."""

    point: int
    change: float
    expected: float

    def say(self, read: Levelling, period: Period) -> str:
        """Return the sentence that names point, change and the heights to check."""
        heights = read.height_mm[self.point][[self._near(read, day) for day in (period.begin, period.end)]]
        return (
            f"point {read.point[self.point]} changed by {self.change:,.1f} mm, the others by {self.expected:,.1f} mm: "
            f"its heights are {heights[0]:,.1f} and {heights[1]:,.1f} mm"
        )

    def _near(self, read: Levelling, day: np.datetime64) -> int:
        away = np.abs((read.dates - day).astype(float))
        return int(np.where(np.isfinite(read.height_mm[self.point]), away, np.inf).argmin())


def misread(period: Period, row: NDArray[np.intp], xy: Array) -> list[Misread]:
    """Return the points that do not fit the others of their building.

    Args:
        period: changes of P points. row: (P,) of their footprint; -1: none. xy: (P, 2) m; NaN where not known.
    """
    used = np.isfinite(period.change) & (row >= 0)
    of_all = float(np.median(period.change[used])) if used.sum() >= FEWEST_ROBUST else np.nan
    found = []
    for one in np.unique(row[used]):
        own = np.flatnonzero(used & (row == one))
        expected, wrong = _compared(xy[own], period.change[own], of_all)
        found += [Misread(int(own[i]), float(period.change[own[i]]), float(expected[i])) for i in np.flatnonzero(wrong)]
    return found


def _compared(xy: Array, change: Array, of_all: float) -> tuple[Array, NDArray[np.bool_]]:
    """Return what the others say of each of n points of a building, mm, and which points cannot be."""
    count = len(change)
    if count < FEWEST_MEDIAN or not np.isfinite(xy).all():
        return np.full(count, of_all), np.abs(change - of_all) > ALONE_MM
    distance, order = cKDTree(xy).query(xy, 2)
    expected = _plane(xy, change) if count >= FEWEST_ROBUST else np.full(count, np.median(change))
    away = change - expected
    # Where the next point moved as far, a part of the building did.
    alone = np.minimum(np.abs(away), np.abs(away - away[order[:, 1]]))
    return expected, alone > STEEPEST_MM_M * np.maximum(distance[:, 1], NARROW_M)


def _plane(xy: Array, change: Array) -> Array:
    """Return the plane (n,) through three of the points that most others are nearest to (Rousseeuw 1984)."""
    count = len(change)
    design = np.column_stack([np.ones(count), xy - xy.mean(0)])
    three = np.array(list(combinations(range(count), 3)))
    three = three[:: -(-len(three) // MOST_PLANES)]
    three = three[np.abs(np.linalg.det(design[three])) > NARROW_M]
    if not len(three):
        return np.full(count, np.median(change))
    planes = np.linalg.solve(design[three], change[three][..., None])[..., 0] @ design.T
    most = (count + 4) // 2
    away = np.sort(np.abs(planes - change), axis=1)[:, most - 1]
    return np.asarray(planes[away.argmin()])
