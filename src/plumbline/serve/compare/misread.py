"""Find levelled points that cannot belong to their building: misread or mistyped heights."""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from plumbline.core.arrays import Array
from plumbline.serve.compare.levelled import MIN_SCATTER_M, LevelledPeriod
from plumbline.sources.levelling import Levelling

MAX_SLOPE_MM_M = 50.0
"""Largest deviation of a point that is not misread, from the plane of the others and from that of
its neighbour, mm per metre to this neighbour."""
MAX_OFFSET_MM = 500.0
"""Largest deviation in a building with too few points, from the median of all points, mm."""
MIN_MEDIAN_POINTS, MIN_ROBUST_POINTS = 3, 5
"""Smallest numbers of points of a building among which misread ones are found: by their median, by
a plane."""
MAX_PLANES = 20_000
"""Largest number of triples of points through which planes are tried."""


class MisreadPoint(NamedTuple):
    """A misread point, its change, and the change expected from the other points, mm."""

    point: int
    change: float
    expected: float

    def format_sentence(self, levels: Levelling, period: LevelledPeriod) -> str:
        """Return the sentence that names point, change and the heights to check."""
        heights = levels.height_mm[self.point][
            [self._nearest_date(levels, day) for day in (period.begin, period.end)]
        ]
        return (
            f"point {levels.point[self.point]} changed by {self.change:,.1f} mm, the others by "
            f"{self.expected:,.1f} mm: its heights are {heights[0]:,.1f} and {heights[1]:,.1f} mm"
        )

    def _nearest_date(self, levels: Levelling, day: np.datetime64) -> int:
        days_apart = np.abs((levels.dates - day).astype(float))
        return int(np.where(np.isfinite(levels.height_mm[self.point]), days_apart, np.inf).argmin())


def misread(period: LevelledPeriod, row: NDArray[np.intp], xy: Array) -> list[MisreadPoint]:
    """Return the points that do not fit the others of their building.

    Args:
        period: changes of P points. row: (P,) row of their footprint; -1: none.
        xy: (P, 2) m; NaN where not known.
    """
    is_used = np.isfinite(period.change) & (row >= 0)
    city_median = (
        float(np.median(period.change[is_used])) if is_used.sum() >= MIN_ROBUST_POINTS else np.nan
    )
    points = []
    for building in np.unique(row[is_used]):
        members = np.flatnonzero(is_used & (row == building))
        expected, is_misread = _check_building(xy[members], period.change[members], city_median)
        points += [
            MisreadPoint(int(members[i]), float(period.change[members[i]]), float(expected[i]))
            for i in np.flatnonzero(is_misread)
        ]
    return points


def _check_building(
    xy: Array, change: Array, city_median: float
) -> tuple[Array, NDArray[np.bool_]]:
    """Return the expected changes (n,) of a building's points, mm, and which points are misread."""
    count = len(change)
    if count < MIN_MEDIAN_POINTS or not np.isfinite(xy).all():
        return np.full(count, city_median), np.abs(change - city_median) > MAX_OFFSET_MM
    distance, neighbour = cKDTree(xy).query(xy, 2)
    expected = (
        _fit_robust_plane(xy, change)
        if count >= MIN_ROBUST_POINTS
        else np.full(count, np.median(change))
    )
    residual = change - expected
    # If the neighbour deviates as far, a part of the building moved: this is damage, not a
    # misreading.
    lone_residual = np.minimum(np.abs(residual), np.abs(residual - residual[neighbour[:, 1]]))
    return expected, lone_residual > MAX_SLOPE_MM_M * np.maximum(distance[:, 1], MIN_SCATTER_M)


def _fit_robust_plane(xy: Array, change: Array) -> Array:
    """Return the changes (n,) on the plane through three points that fits most of the others.

    Least median of squares (Rousseeuw 1984).
    """
    count = len(change)
    design = np.column_stack([np.ones(count), xy - xy.mean(0)])
    triples = np.array(list(combinations(range(count), 3)))
    triples = triples[:: -(-len(triples) // MAX_PLANES)]
    triples = triples[np.abs(np.linalg.det(design[triples])) > MIN_SCATTER_M]
    if not len(triples):
        return np.full(count, np.median(change))
    planes = np.linalg.solve(design[triples], change[triples][..., None])[..., 0] @ design.T
    majority = (count + 4) // 2
    distance = np.sort(np.abs(planes - change), axis=1)[:, majority - 1]
    return np.asarray(planes[distance.argmin()])
