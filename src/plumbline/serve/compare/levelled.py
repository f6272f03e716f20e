"""Estimate from levels how buildings settled, tilted and bent over a period, with standard errors.

The plane through the points of a building gives settlement (at the middle of its footprint) and
tilt. Deviations from the plane are known at the points alone, so their spread counts as an error,
as for scatterers. The strain follows the definition of severity, with vertical movements alone, on
the triangles between the points.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import geopandas
import numpy as np
import shapely
from numpy.typing import NDArray
from scipy.interpolate import LinearNDInterpolator
from scipy.spatial import cKDTree
from scipy.special import ndtri, stdtrit

from plumbline.core.arrays import Array
from plumbline.core.compass import QUADRANTS, frames, join_quadrants
from plumbline.core.errors import InputError
from plumbline.prepare.assignment.owners import footprint_middle
from plumbline.prepare.response.whole_building import COUNTS, USUAL_SPREAD
from plumbline.simulate.structure.labels import Strains, strains
from plumbline.simulate.structure.layout import own_outlines
from plumbline.sources.levelling import Levelling

REACH_DAYS = 31
"""Largest time between the dates of a point and the ends of the period, and between the period and
the record of the radar, days."""
MIN_PLANE_POINTS, MIN_STRAIN_POINTS = 3, 4
"""Smallest numbers of points to which a plane is fitted, and from which a strain is estimated."""
MIN_SCATTER_M = 1.0
"""Smallest scatter of points about a line, m, with which a tilt across it is fitted."""
LEVEL_STEP_MM = 0.01
"""Step of a level by which the derivative of the strain is taken, mm."""


class LevelledPeriod(NamedTuple):
    """Two levelled days, and the change of each of P points between them."""

    begin: np.datetime64
    end: np.datetime64
    change: Array
    """(P,) mm, up; NaN where the point was not levelled near to both days."""
    std: Array
    """(P,) standard error of a change, mm."""


class House(NamedTuple):
    """Levelled motion of a building; NaN if it has too few points."""

    row: int
    """Row of the footprint."""
    points: int
    settlement: float
    """Movement of the middle of the footprint, or of the place `offset_m` from it, mm, up."""
    settlement_std: float
    offset_m: Array
    """(2,) east and north from the middle to the place of the settlement, m."""
    tilt: Array
    """(2,) rise towards the east and the north, mm/m."""
    covariance: Array
    """(2, 2) covariance of the tilt."""
    severity: float = np.nan
    """Strain of the levels by the definition of severity, permille."""
    severity_std: float = np.nan
    quadrant: str = ""
    accepted: str = ""
    spacing: float = np.nan
    """Mean distance from a point to the next, m: bends between two points are not seen."""


def common_period(
    levels: Levelling, first: np.datetime64, last: np.datetime64, std_mm: float
) -> LevelledPeriod:
    """Return the levelled days nearest to both ends of the radar's record, and the changes
    between them.

    Args:
        levels: of P points. first, last: epochs of the radar.
        std_mm: standard error of a height for which the file has none.

    Raises:
        InputError: no point was levelled twice within the record.
    """
    margin = np.timedelta64(REACH_DAYS, "D")
    is_inside = (levels.dates >= first - margin) & (levels.dates <= last + margin)
    has_height = np.isfinite(levels.height_mm) & is_inside
    is_repeated = has_height.sum(1) > 1
    if not is_repeated.any():
        raise InputError(
            f"{levels.path}: levelled from {levels.dates[0]} to {levels.dates[-1]}; no point "
            "twice within the "
            f"radar's record ({first} to {last}). Give levels or points of one period.",
            key="levelling.other_period",
        )
    day = levels.dates.astype(int)
    nearest = [
        np.where(has_height, np.abs(day - end.astype("datetime64[D]").astype(int)), 10**6).argmin(1)
        for end in (first, last)
    ]
    begin, end = (int(np.median(day[column[is_repeated]])) for column in nearest)
    is_levelled = is_repeated & (nearest[0] != nearest[1])
    for column, period_day in zip(nearest, (begin, end), strict=True):
        is_levelled &= np.abs(day[column] - period_day) <= REACH_DAYS
    rows = np.arange(len(is_levelled))
    errors = np.where(np.isfinite(levels.error_mm), levels.error_mm, std_mm)
    change = np.where(
        is_levelled, levels.height_mm[rows, nearest[1]] - levels.height_mm[rows, nearest[0]], np.nan
    )
    std = np.hypot(errors[rows, nearest[0]], errors[rows, nearest[1]])
    return LevelledPeriod(np.datetime64(begin, "D"), np.datetime64(end, "D"), change, std)


def fit_houses(
    period: LevelledPeriod, row: NDArray[np.intp], xy: Array, footprints: geopandas.GeoDataFrame
) -> list[House]:
    """Return the levelled motion of each building with points.

    Args:
        period: changes of P points. row: (P,) row of their footprint; -1: none.
        xy: (P, 2) m, in the CRS of `footprints`.
    """
    is_used = np.isfinite(period.change) & (row >= 0)
    shapes = footprints.geometry.to_numpy()
    rows = np.unique(row[is_used])
    members = [np.flatnonzero(is_used & (row == k)) for k in rows]
    middles = footprint_middle(shapes[rows]) if len(rows) else np.zeros((0, 2))
    houses = [
        fit_plane(int(k), xy[p] - middle, period.change[p], period.std[p])
        for k, p, middle in zip(rows, members, middles, strict=True)
    ]
    dense = [
        number
        for number, h in enumerate(houses)
        if h.points >= MIN_STRAIN_POINTS and np.isfinite(h.tilt).all()
    ]
    if dense:
        parts = [
            (xy[members[number]], period.change[members[number]], period.std[members[number]])
            for number in dense
        ]
        for number, strain_fields in zip(
            dense, estimate_strains(shapes[rows[dense]], parts), strict=True
        ):
            houses[number] = houses[number]._replace(**strain_fields)
    return houses


def fit_plane(row: int, xy: Array, change: Array, std: Array) -> House:
    """Fit the plane of a building, or the mean if its points do not determine a tilt.

    Args:
        row: of the building. xy: (n, 2) from the middle of its footprint, m. change, std: (n,) mm.
    """
    count = len(change)
    centred = np.nan_to_num(xy) - np.nan_to_num(xy).mean(0)
    scatter_m = np.linalg.svd(centred, compute_uv=False)[-1] / np.sqrt(max(count - 1, 1))
    has_tilt = bool(
        count >= MIN_PLANE_POINTS and np.isfinite(xy).all() and scatter_m >= MIN_SCATTER_M
    )
    design = np.column_stack([np.ones(count), xy]) if has_tilt else np.ones((count, 1))
    variance = std**2 + _spread(design, change, std) ** 2
    covariance = np.asarray(np.linalg.inv(design.T / variance @ design), float)
    solution = np.asarray(covariance @ (design.T / variance @ change), float)
    settlement, settlement_std = float(solution[0]), float(np.sqrt(covariance[0, 0]))
    if has_tilt:
        return House(
            row, count, settlement, settlement_std, np.zeros(2), solution[1:], covariance[1:, 1:]
        )
    offset_m = np.asarray(xy.mean(0) if np.isfinite(xy).all() else np.zeros(2), float)
    return House(
        row,
        count,
        settlement,
        settlement_std,
        offset_m,
        np.full(2, np.nan),
        np.full((2, 2), np.nan),
    )


def _spread(design: Array, change: Array, std: Array) -> float:
    """Return the standard deviation of a building's deviations from its plane, mm.

    The variance of few points is drawn towards `USUAL_SPREAD`, and widened by the quantile of
    Student's t.
    """
    n_free = len(change) - design.shape[1]
    residual = change - design @ np.linalg.lstsq(design, change, rcond=None)[0]
    excess = max(float((residual**2).sum()) - n_free * float((std**2).mean()), 0.0)
    variance = (excess + COUNTS * USUAL_SPREAD**2) / (n_free + COUNTS)
    return float(np.sqrt(variance) * stdtrit(n_free + COUNTS, 0.95) / ndtri(0.95))


def estimate_strains(
    shapes: NDArray[np.object_], parts: Sequence[tuple[Array, Array, Array]]
) -> list[dict[str, Any]]:
    """Return the fields of a `House` from `severity` on, for each of K buildings.

    Args:
        shapes: (K,) footprints.
        parts: for each building, its points (n, 2) in their CRS, and (n,) changes and errors, mm.
    """
    levelled = _strains(shapes, [(xy, change) for xy, change, _ in parts])
    variance = np.zeros(len(parts))
    # The strain is nearly linear in each level: its error is that of the sum.
    for point in range(max(len(change) for _, change, _ in parts)):
        numbers = [number for number, (_, change, _) in enumerate(parts) if point < len(change)]
        stepped = [
            (parts[k][0], parts[k][1] + LEVEL_STEP_MM * (np.arange(len(parts[k][1])) == point))
            for k in numbers
        ]
        slope = (
            _strains(shapes[numbers], stepped).severity_permille
            - levelled.severity_permille[numbers]
        ) / LEVEL_STEP_MM
        variance[numbers] += (slope * [parts[k][2][point] for k in numbers]) ** 2
    spacing = [float(cKDTree(xy).query(xy, 2)[0][:, 1].mean()) for xy, _, _ in parts]
    rows = zip(
        levelled.severity_permille,
        np.sqrt(variance),
        levelled.quadrant,
        levelled.accepted,
        spacing,
        strict=True,
    )
    return [
        {
            "severity": float(severity),
            "severity_std": float(std),
            "quadrant": QUADRANTS[int(code)],
            "accepted": join_quadrants(quadrants),
            "spacing": distance,
        }
        for severity, std, code, quadrants, distance in rows
    ]


def _strains(shapes: NDArray[np.object_], levels: Sequence[tuple[Array, Array]]) -> Strains:
    """Return the strains of levels, linear between points; only bays between points count."""
    frame = frames(shapes)
    hulls = [shapely.convex_hull(shapely.multipoints(xy)) for xy, _ in levels]
    covered = np.array(
        [shapely.intersection(*pair) for pair in zip(shapes, hulls, strict=True)], object
    )
    outline = own_outlines(covered, frame)
    places = [
        frame.to_building(np.full(len(xy), number), xy) for number, (xy, _) in enumerate(levels)
    ]
    surfaces = [
        LinearNDInterpolator(place, change)
        for place, (_, change) in zip(places, levels, strict=True)
    ]

    def fields(building: NDArray[np.intp], x: Array, y: Array) -> tuple[Array, Array, Array]:
        up, place = np.zeros_like(x), np.column_stack([x, y])
        for number in np.unique(building):
            mask = building == number
            up[mask] = _evaluate(surfaces[number], places[number], place[mask])
        return up, np.zeros_like(x), np.zeros_like(x)

    return strains(fields, frame.side, outline=outline)


def _evaluate(surface: LinearNDInterpolator, points: Array, places: Array) -> Array:
    """Return the surface (N,) at places (N, 2), or at the nearest place between the points."""
    up = np.asarray(surface(places), float)
    is_outside = np.isnan(up)
    if is_outside.any():
        hull = shapely.buffer(shapely.convex_hull(shapely.multipoints(points)), -1e-6)
        line = shapely.shortest_line(hull, shapely.points(places[is_outside]))
        up[is_outside] = surface(shapely.get_coordinates(shapely.get_point(line, 0)))
    return up
