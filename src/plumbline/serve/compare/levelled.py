"""Say by levelling how buildings settled, tilted and bent over a period, with standard errors.

The plane through the points of a building gives settlement (at the middle of its footprint) and tilt. What the building
does beside a plane is known at the points alone: its spread counts as an error, as for scatterers. The strain is the
definition of severity on the triangles between the points, of the vertical alone.
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

from plumbline.core.compass import QUADRANTS, frames, join_quadrants
from plumbline.core.errors import InputError
from plumbline.prepare.assignment.owners import footprint_middle
from plumbline.prepare.response.whole_building import COUNTS, USUAL_SPREAD
from plumbline.simulate.structure.labels import Strains, strains
from plumbline.simulate.structure.layout import own_outlines
from plumbline.sources.levelling import Levelling

Array = NDArray[np.float64]
REACH_DAYS = 31
"""A point's own dates may be so far from the period's, and the period from the radar's record."""
FEWEST_PLANE, FEWEST_STRAIN = 3, 4
NARROW_M = 1.0
"""Points that scatter less than this about a line tell nothing across it."""
STEP_MM = 0.01
"""By which a level is changed to see what the strain makes of it."""


class Period(NamedTuple):
    """Two levelled days, and how each of P points changed between them."""

    begin: np.datetime64
    end: np.datetime64
    change: Array
    """(P,) mm, up; NaN where the point was not levelled near to both days."""
    std: Array
    """(P,) mm."""


class House(NamedTuple):
    """What levelling says of a building; NaN where its points do not tell."""

    row: int
    """Of the footprint."""
    points: int
    settlement: float
    """mm, up, of the middle of the footprint, or of `off` from it."""
    settlement_std: float
    off: Array
    """(2,) east and north from the middle to the place that the settlement is of, m."""
    tilt: Array
    """(2,) rise towards the east and the north, mm/m."""
    covariance: Array
    """(2, 2) of it."""
    severity: float = np.nan
    """permille, by the definition of severity on levels."""
    severity_std: float = np.nan
    quadrant: str = ""
    accepted: str = ""
    spacing: float = np.nan
    """Mean distance from a point to the next, m: what bends between two points is not seen."""


def common_period(read: Levelling, first: np.datetime64, last: np.datetime64, std_mm: float) -> Period:
    """Return the levelled days nearest to both ends of the radar's record, and the changes between them.

    Args:
        read: levels. first, last: epochs of the radar. std_mm: of a height without an error of its own.

    Raises:
        InputError: no point was levelled twice within the record.
    """
    reach = np.timedelta64(REACH_DAYS, "D")
    inside = (read.dates >= first - reach) & (read.dates <= last + reach)
    known = np.isfinite(read.height_mm) & inside
    twice = known.sum(1) > 1
    if not twice.any():
        raise InputError(
            f"{read.path}: levelled from {read.dates[0]} to {read.dates[-1]}; no point twice within the radar's record "
            f"({first} to {last}). Give levels or points of one period."
        )
    day = read.dates.astype(int)
    own = [
        np.where(known, np.abs(day - end.astype("datetime64[D]").astype(int)), 10**6).argmin(1) for end in (first, last)
    ]
    begin, end = (int(np.median(day[one[twice]])) for one in own)
    near = twice & (own[0] != own[1])
    for one, chosen in zip(own, (begin, end), strict=True):
        near &= np.abs(day[one] - chosen) <= REACH_DAYS
    each = np.arange(len(near))
    errors = np.where(np.isfinite(read.error_mm), read.error_mm, std_mm)
    change = np.where(near, read.height_mm[each, own[1]] - read.height_mm[each, own[0]], np.nan)
    std = np.hypot(errors[each, own[0]], errors[each, own[1]])
    return Period(np.datetime64(begin, "D"), np.datetime64(end, "D"), change, std)


def houses_of(period: Period, row: NDArray[np.intp], xy: Array, footprints: geopandas.GeoDataFrame) -> list[House]:
    """Return what the points say of each building that has any.

    Args:
        period: changes of P points. row: (P,) of their footprint; -1: none. xy: (P, 2) m, in the CRS of `footprints`.
    """
    used = np.isfinite(period.change) & (row >= 0)
    shapes = footprints.geometry.to_numpy()
    rows = np.unique(row[used])
    owned = [np.flatnonzero(used & (row == one)) for one in rows]
    middles = footprint_middle(shapes[rows]) if len(rows) else np.zeros((0, 2))
    found = [
        plane(int(one), xy[own] - middle, period.change[own], period.std[own])
        for one, own, middle in zip(rows, owned, middles, strict=True)
    ]
    bent = [number for number, one in enumerate(found) if one.points >= FEWEST_STRAIN and np.isfinite(one.tilt).all()]
    if bent:
        parts = [(xy[owned[number]], period.change[owned[number]], period.std[owned[number]]) for number in bent]
        for number, one in zip(bent, bending(shapes[rows[bent]], parts), strict=True):
            found[number] = found[number]._replace(**one)
    return found


def plane(row: int, xy: Array, change: Array, std: Array) -> House:
    """Fit the plane of a building, or the mean where its points do not tell a tilt.

    Args:
        row: of the building. xy: (n, 2) from the middle of its footprint, m. change, std: (n,) mm.
    """
    count = len(change)
    away = np.nan_to_num(xy) - np.nan_to_num(xy).mean(0)
    wide = np.isfinite(xy).all() and np.linalg.svd(away, compute_uv=False)[-1] >= NARROW_M * np.sqrt(max(count - 1, 1))
    tilts = bool(count >= FEWEST_PLANE and wide)
    design = np.column_stack([np.ones(count), xy]) if tilts else np.ones((count, 1))
    variance = std**2 + _spread(design, change, std) ** 2
    covariance = np.asarray(np.linalg.inv(design.T / variance @ design), float)
    solution = np.asarray(covariance @ (design.T / variance @ change), float)
    settled, error = float(solution[0]), float(np.sqrt(covariance[0, 0]))
    if tilts:
        return House(row, count, settled, error, np.zeros(2), solution[1:], covariance[1:, 1:])
    off = np.asarray(xy.mean(0) if np.isfinite(xy).all() else np.zeros(2), float)
    return House(row, count, settled, error, off, np.full(2, np.nan), np.full((2, 2), np.nan))


def _spread(design: Array, change: Array, std: Array) -> float:
    """Return the standard deviation of what a building does beside its plane, mm; few points tell little of it."""
    freedom = len(change) - design.shape[1]
    residual = change - design @ np.linalg.lstsq(design, change, rcond=None)[0]
    beyond = max(float((residual**2).sum()) - freedom * float((std**2).mean()), 0.0)
    variance = (beyond + COUNTS * USUAL_SPREAD**2) / (freedom + COUNTS)
    return float(np.sqrt(variance) * stdtrit(freedom + COUNTS, 0.95) / ndtri(0.95))


def bending(shapes: NDArray[np.object_], parts: Sequence[tuple[Array, Array, Array]]) -> list[dict[str, Any]]:
    """Return the fields of a `House` from `severity` on, of K buildings.

    Args:
        shapes: (K,) footprints. parts: of each its points (n, 2) in their CRS, and (n,) changes and errors, mm.
    """
    found = _strains(shapes, [(xy, change) for xy, change, _ in parts])
    variance = np.zeros(len(parts))
    # The strain is nearly linear in each level: its error is that of the sum.
    for point in range(max(len(change) for _, change, _ in parts)):
        has = [number for number, (_, change, _) in enumerate(parts) if point < len(change)]
        moved = [(parts[k][0], parts[k][1] + STEP_MM * (np.arange(len(parts[k][1])) == point)) for k in has]
        slope = (_strains(shapes[has], moved).severity_permille - found.severity_permille[has]) / STEP_MM
        variance[has] += (slope * [parts[k][2][point] for k in has]) ** 2
    spacing = [float(cKDTree(xy).query(xy, 2)[0][:, 1].mean()) for xy, _, _ in parts]
    which = zip(found.severity_permille, np.sqrt(variance), found.quadrant, found.accepted, spacing, strict=True)
    return [
        {
            "severity": float(one),
            "severity_std": float(std),
            "quadrant": QUADRANTS[int(code)],
            "accepted": join_quadrants(own),
            "spacing": apart,
        }
        for one, std, code, own, apart in which
    ]


def _strains(shapes: NDArray[np.object_], levels: Sequence[tuple[Array, Array]]) -> Strains:
    """Return the strains of levels, linear between points; only bays between points count."""
    frame = frames(shapes)
    between = [shapely.convex_hull(shapely.multipoints(xy)) for xy, _ in levels]
    known = np.array([shapely.intersection(*pair) for pair in zip(shapes, between, strict=True)], object)
    outline = own_outlines(known, frame)
    own = [frame.to_building(np.full(len(xy), number), xy) for number, (xy, _) in enumerate(levels)]
    surfaces = [LinearNDInterpolator(at, change) for at, (_, change) in zip(own, levels, strict=True)]

    def fields(building: NDArray[np.intp], x: Array, y: Array) -> tuple[Array, Array, Array]:
        up, at = np.zeros_like(x), np.column_stack([x, y])
        for number in np.unique(building):
            mine = building == number
            up[mine] = _at(surfaces[number], own[number], at[mine])
        return up, np.zeros_like(x), np.zeros_like(x)

    return strains(fields, frame.side, outline=outline)


def _at(surface: LinearNDInterpolator, points: Array, at: Array) -> Array:
    """Return the surface (N,) at places (N, 2); places outside are taken to the nearest one between the points."""
    up = np.asarray(surface(at), float)
    lost = np.isnan(up)
    if lost.any():
        hull = shapely.buffer(shapely.convex_hull(shapely.multipoints(points)), -1e-6)
        line = shapely.shortest_line(hull, shapely.points(at[lost]))
        up[lost] = surface(shapely.get_coordinates(shapely.get_point(line, 0)))
    return up
