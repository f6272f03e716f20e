"""Make footprints valid polygons: flatten solids, and repair invalid outlines if their
ground is certain; leave out other features, and log why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyproj
import shapely
from numpy.typing import NDArray

from plumbline.core.arrays import Float
from plumbline.core.console import warn
from plumbline.core.errors import InputError
from plumbline.sources.crs import turn_in
from plumbline.sources.files.opened import for_command
from plumbline.sources.globe import joined

NAMED = 5
"""Largest number of features or files that a message names."""
MAX_DOUBT_M2 = 0.1
"""Largest ground in doubt, m², of a certain repair: far below the accuracy of footprints."""
MAX_DOUBT_SHARE = 0.01
"""Largest ground in doubt of a certain repair as a share of the building's area, for small ones."""
MAX_LIKELY_SHARE = 0.1
"""Largest share of a building's area in doubt with which it is repaired, and not left out."""
MIN_PART_M2 = 0.01
"""Smallest part that is kept, m²; a smaller one is what a crossing or a spike leaves behind."""
Objects = NDArray[np.object_]


@dataclass
class FeatureFilter:
    """Features of a file; a bad one is left out, so that the others can be used."""

    path: Path
    ids: Objects
    """(F,) of all features."""
    row: NDArray[np.intp]
    """(B,) rows of those that go on, counted from 0 in the file's order."""
    reasons: dict[str, list[int]] = field(default_factory=dict)
    """Reason for leaving out -> rows of the features."""

    @property
    def remaining_ids(self) -> Objects:
        """Ids (B,) of the features that go on."""
        return self.ids[self.row]

    @property
    def out(self) -> NDArray[np.intp]:
        """Rows of the features left out, ascending."""
        return np.array(sorted(row for rows in self.reasons.values() for row in rows), np.intp)

    def leave_out(self, reasons: Objects, advice: str) -> NDArray[np.bool_]:
        """Leave out the features with a reason (B,) other than None; return which (B,) go on.

        Raises:
            InputError: none is left; the message ends with the advice.
        """
        keep = np.array([reason is None for reason in reasons], bool)
        for row, reason in zip(self.row[~keep].tolist(), reasons[~keep], strict=True):
            self.reasons.setdefault(reason, []).append(row)
        self.row = self.row[keep]
        if not len(self.row):
            raise InputError(
                f"{self.path}: no footprint in it: {self._format_reasons()}. {advice}",
                key="footprints.all_left_out",
            )
        return keep

    def name(self, bad: NDArray[np.bool_]) -> str:
        """Name the bad ones of the features that go on, as `name_features` does."""
        return name_features(self.row[bad], self.ids)

    def log_left_out(self) -> None:
        """Log one warning about all features left out, if any."""
        if self.reasons:
            warn(
                "%s: %d of %d features left out, no row is written for them: %s.",
                self.path,
                len(self.out),
                len(self.out) + len(self.row),
                self._format_reasons(),
                key="footprints.left_out",
            )

    def _format_reasons(self) -> str:
        return "; ".join(
            f"{len(rows)} {reason} ({name_features(rows, self.ids)})"
            for reason, rows in self.reasons.items()
        )


def name_features(rows: Sequence[int] | NDArray[np.intp], ids: Objects) -> str:
    """Name features as `feature 3 (B7), feature 9 (B2) and 4 more`: rows, counted from 1,
    with their ids (F,)."""
    named = [f"feature {row + 1} ({ids[row]})" for row in rows[:NAMED]]
    return ", ".join(named) + (f" and {len(rows) - NAMED} more" if len(rows) > NAMED else "")


def _assign_reason(is_bad: NDArray[np.bool_], reason: str) -> Objects:
    """Return the reason for the bad features (B,), and None for the others."""
    return np.where(is_bad, np.array(reason, object), np.array(None, object))


class Repaired(NamedTuple):
    """Repaired polygons, and the doubtful ground in each, m2."""

    geometry: NDArray[np.object_]
    doubt_m2: Float

    @property
    def certain(self) -> NDArray[np.bool_]:
        """(B,) whether `geometry` is a valid polygon of the same ground, whatever the rule."""
        max_doubt_m2 = np.minimum(MAX_DOUBT_M2, MAX_DOUBT_SHARE * shapely.area(self.geometry))
        return np.asarray(self.likely & (self.doubt_m2 <= max_doubt_m2))

    @property
    def likely(self) -> NDArray[np.bool_]:
        """(B,) whether `geometry` is a valid polygon of the same ground, but for a small part."""
        area = shapely.area(self.geometry)
        is_doubt_small = self.doubt_m2 <= MAX_LIKELY_SHARE * area
        return np.asarray(is_doubt_small & (area > MIN_PART_M2) & shapely.is_valid(self.geometry))


def repair_polygons(geometry: NDArray[np.object_]) -> Repaired:
    """Repair invalid polygons (B,), in m and with finite coordinates.

    The doubt is the area that a ring encloses more than once or against its own sense, that is in
    two parts or two holes at once, or in a hole outside of its shell.
    """
    drawn, doubt_m2 = zip(*map(_redraw, geometry), strict=True)
    return Repaired(np.array(drawn, object), np.array(doubt_m2, float))


def _redraw(polygon: shapely.Geometry) -> tuple[shapely.Geometry, float]:
    parts, doubt = [], 0.0
    try:
        for part in shapely.get_parts(polygon):
            (shell, *holes), unclear = zip(*map(_fill, shapely.get_rings(part)), strict=True)
            ground = shapely.difference(shell, shapely.union_all(holes)) if holes else shell
            # Area of holes that the shell does not lose: outside of it, or in two holes at once.
            cut_out = float(np.sum(shapely.area(holes))) - (
                shapely.area(shell) - shapely.area(ground)
            )
            doubt += sum(unclear) + cut_out
            parts.append(ground)
        whole = shapely.union_all(parts)
    except shapely.errors.GEOSException:
        return shapely.Polygon(), np.inf
    doubt += float(np.sum(shapely.area(parts))) - shapely.area(whole)
    return _without_remains(whole), doubt


def _fill(ring: shapely.Geometry) -> tuple[shapely.Geometry, float]:
    """Return the ground that a ring encloses once in its main sense, and the area that it
    encloses otherwise."""
    filled = shapely.polygons(ring)
    if shapely.is_valid(filled):
        return filled, 0.0
    lines = shapely.get_parts(shapely.union_all(shapely.linestrings(shapely.get_coordinates(ring))))
    faces = shapely.get_parts(shapely.polygonize(lines))
    if not len(faces):
        return shapely.Polygon(), 0.0
    corners = shapely.get_coordinates(ring)
    area, turns = (
        shapely.area(faces),
        _turns(corners, shapely.get_coordinates(shapely.point_on_surface(faces))),
    )
    # The signed area does not depend on faces: a difference shows that lines were not cut properly.
    lost = abs(float(turns @ area) - _signed_area(corners))
    sense = 1 if turns @ area >= 0 else -1
    unclear = float(area[(turns != 0) & (turns != sense)].sum())
    return shapely.union_all(faces[turns == sense]), unclear + lost


def _turns(corners: Float, points: Float) -> NDArray[np.int64]:
    """Return (P,) how often a ring of corners (C, 2) goes round points (P, 2),
    counter-clockwise positive.

    Upward crossings of the ray to the east count 1, downward ones -1 (Sunday 2001, "winding
    number inclusion").
    """
    start, end = corners[None, :-1], corners[None, 1:]
    at = points[:, None]
    along, to = end - start, at - start
    # Positive for a point to the left of the edge.
    cross = along[..., 0] * to[..., 1] - to[..., 0] * along[..., 1]
    up = (start[..., 1] <= at[..., 1]) & (end[..., 1] > at[..., 1]) & (cross > 0)
    down = (start[..., 1] > at[..., 1]) & (end[..., 1] <= at[..., 1]) & (cross < 0)
    return np.asarray(up.sum(1) - down.sum(1), np.int64)


def _signed_area(corners: Float) -> float:
    x, y = (corners - corners[0]).T
    return float(np.sum(x[:-1] * y[1:] - x[1:] * y[:-1]) / 2)


def _without_remains(ground: shapely.Geometry) -> shapely.Geometry:
    """Remove lines, points and tiny parts; return the rest as a polygon or multipolygon."""
    parts = shapely.get_parts(ground)
    parts = parts[(shapely.get_dimensions(parts) == 2) & (shapely.area(parts) > MIN_PART_M2)]
    return parts[0] if len(parts) == 1 else shapely.multipolygons(parts)


WALL_M = 0.1
"""Smallest height of a face above a line of the ground that is a wall."""


def _flatten_solids(geometry: Objects) -> tuple[Objects, NDArray[np.bool_]]:
    """Return polygons (B,), m, without heights, solids as the ground below their faces; and
    which (B,) had a wall.

    Seen from above, walls are lines and the roof is over the floor. That is no valid
    polygon, and yet it is clear which ground is the building.
    """
    flat = shapely.force_2d(geometry)
    solid = np.zeros(len(geometry), bool)
    tall = np.flatnonzero(shapely.has_z(geometry) & (shapely.get_num_geometries(geometry) > 1))
    for row in tall:
        faces = shapely.get_parts(geometry[row])
        faces = faces[~shapely.is_empty(faces)]
        ground = shapely.force_2d(faces)
        lying = shapely.area(ground) > MIN_PART_M2
        if any(
            np.ptp(shapely.get_coordinates(face, include_z=True)[:, 2]) > WALL_M
            for face in faces[~lying]
        ):
            solid[row] = True
            flat[row] = _without_remains(
                shapely.union_all(ground[lying & shapely.is_valid(ground)])
            )
    return flat, solid


MIN_AREA_M2 = 0.01
"""A smaller polygon is no building, but a line or a point drawn as one."""
FARTHEST_M = 1e8
"""No projection of the Earth has coordinates beyond; its girth is 4e7 m."""
ABSENT = "without a geometry, or with a ring that is not closed or has fewer than three corners"
NO_NUMBER = "with a coordinate that is no number (NaN or infinite)"
IN_DOUBT = "invalid, with the building's ground in doubt"
FLAT = f"without area (below {MIN_AREA_M2} m²)"
POLYGONAL = (shapely.GeometryType.POLYGON, shapely.GeometryType.MULTIPOLYGON)


def take_polygons(geometry: Objects, crs: pyproj.CRS | None = None) -> tuple[Objects, Objects]:
    """Return the polygons of features (F,), and why a feature is none; None for a good one.

    Polygons are taken out of collections at any depth: some buildings include their entrances.
    A building that was cut at 180 degrees, as RFC 7946 asks for, becomes one polygon.

    Args:
        geometry: of any type.
        crs: CRS in which buildings may be cut at 180 degrees.
    """
    extracted = geometry.copy()
    for row in np.flatnonzero(
        shapely.get_type_id(geometry) == shapely.GeometryType.GEOMETRYCOLLECTION
    ):
        polygons = _polygons(geometry[row])
        if polygons:
            extracted[row] = polygons[0] if len(polygons) == 1 else shapely.multipolygons(polygons)
    reasons = _unlike_polygons(extracted)
    turn = None if crs is None else turn_in(crs)
    if turn is not None:
        is_polygon = reasons == None  # noqa: E711
        extracted[is_polygon] = joined(extracted[is_polygon], turn)
    return extracted, reasons


def _polygons(shape: shapely.Geometry) -> list[shapely.Geometry]:
    parts = (
        shapely.get_parts(shape)
        if shape.geom_type in ("MultiPolygon", "GeometryCollection")
        else []
    )
    inner = [polygon for part in parts for polygon in _polygons(part)]
    return [shape] if shape.geom_type == "Polygon" and not shape.is_empty else inner


def _unlike_polygons(geometry: Objects) -> Objects:
    """Return (B,) why a feature is not a polygon with finite coordinates; None for a good one."""
    kind = shapely.get_type_id(geometry)
    absent = shapely.is_missing(geometry) | shapely.is_empty(geometry)
    reasons = _assign_reason(absent, ABSENT)
    for row in np.flatnonzero(~absent & ~np.isin(kind, POLYGONAL)):
        name = geometry[row].geom_type
        reasons[row] = (
            f"{name} without a polygon in it"
            if name == "GeometryCollection"
            else f"{name} and no polygon"
        )
    return np.where((reasons == None) & _beyond(geometry, np.inf), NO_NUMBER, reasons)  # noqa: E711


def _unwrap(geometry: Objects) -> Objects:
    """Unwrap multipolygons of one part to polygons; several parts are one building and
    stay. Empty parts go."""
    parts, owner = shapely.get_parts(geometry, return_index=True)
    parts, owner = parts[~shapely.is_empty(parts)], owner[~shapely.is_empty(parts)]
    is_only = np.bincount(owner, minlength=len(geometry))[owner] == 1
    unwrapped = geometry.copy()
    unwrapped[owner[is_only]] = parts[is_only]
    rows, index = np.unique(owner[~is_only], return_inverse=True)
    unwrapped[rows] = shapely.multipolygons(parts[~is_only], indices=index)
    return unwrapped


def _without_empty_holes(geometry: Objects) -> Objects:
    """Remove holes without corners from polygons (B,), as GeoJSON can have: GEOS 3.14
    crashes when it compares one."""
    parts, owner = shapely.get_parts(geometry, return_index=True)
    rings, part = shapely.get_rings(parts, return_index=True)
    filled = geometry.copy()
    for row in np.unique(owner[part[shapely.is_empty(rings)]]):
        drawn = [
            shapely.Polygon(shell, [hole for hole in holes if not hole.is_empty])
            for shell, *holes in map(shapely.get_rings, parts[owner == row])
        ]
        filled[row] = drawn[0] if len(drawn) == 1 else shapely.multipolygons(drawn)
    return filled


def _leave_out_hidden(sieve: FeatureFilter, geometry: Objects, crs: str) -> Objects:
    """Return the polygons projected to `crs` that are within its range; leave out the others.

    Raises:
        InputError: most are outside: the file is of another place, or swaps its coordinates.
    """
    reason = f"outside of what {crs}, the points' CRS, can show"
    outside = _beyond(geometry, FARTHEST_M)
    advice = (
        "Are they of the same place, with the easting (longitude) before the northing (latitude)?"
    )
    if 2 * outside.sum() > len(outside):
        raise InputError(
            f"{sieve.path}: {sieve.name(outside)} {reason}. {advice}", key="footprints.outside_crs"
        )
    return geometry[sieve.leave_out(_assign_reason(outside, reason), advice)]


def make_valid(
    sieve: FeatureFilter, geometry: Objects, crs: str
) -> tuple[Objects, NDArray[np.bool_]]:
    """Make polygons projected to `crs`, m, valid and without heights; also return which of
    those that go on (B,) were repaired.

    The building may be on either side of a ring that crosses itself: such features are left out,
    unless the ground in doubt is a small part.

    Raises:
        InputError: none is left, most have no area, or most are outside of the CRS.
    """
    geometry, solid = _flatten_solids(_leave_out_hidden(sieve, geometry, crs))
    if solid.any():
        warn(
            "%s: %d drawn as solids (%s): the ground below their faces is taken.",
            sieve.path,
            solid.sum(),
            sieve.name(solid),
            key="footprints.solids",
        )
    geometry = _without_empty_holes(_unwrap(geometry))
    invalid = ~shapely.is_valid(geometry)
    doubtful, lost, flat = (np.zeros(len(geometry), bool) for _ in range(3))
    if invalid.any():
        reason = shapely.is_valid_reason(geometry[int(np.argmax(invalid))])
        repaired = repair_polygons(geometry[invalid])
        doubtful[invalid] = ~repaired.certain & repaired.likely
        lost[invalid] = ~repaired.certain & ~repaired.likely
        if (is_certain := invalid & ~doubtful & ~lost).any():
            warn(
                "%s: %s invalid (the first: %s), repaired; the ground they cover stays the same.",
                sieve.path,
                sieve.name(is_certain),
                shapely.is_valid_reason(geometry[int(np.argmax(is_certain))]),
                key="footprints.repaired",
            )
        if doubtful.any():
            warn(
                "%s: %d invalid footprints drawn anew, with up to %.1f m² of ground in doubt: "
                "%s. Look at them.",
                sieve.path,
                doubtful.sum(),
                repaired.doubt_m2[doubtful[invalid]].max(),
                sieve.name(doubtful),
                key="footprints.doubtful_repair",
            )
        geometry[invalid & ~lost] = repaired.geometry[~lost[invalid]]
        where = f"The first fault: {reason} (m in {crs})."
        flat[invalid] = (shapely.area(repaired.geometry) < MIN_AREA_M2) & (
            repaired.doubt_m2 < MIN_AREA_M2
        )
    flat |= ~invalid & (shapely.area(geometry) < MIN_AREA_M2)
    if 2 * flat.sum() > len(flat):
        raise InputError(
            f"{sieve.path}: {sieve.name(flat)} {FLAT}. Are their coordinates those of the CRS "
            "that the file states, or are they degrees?",
            key="footprints.no_area",
        )
    reasons = _assign_reason(lost, IN_DOUBT)
    reasons[flat] = FLAT
    command = f"`ogr2ogr -makevalid OUT.gpkg {for_command(sieve.path)}`"
    advice = f"Repair them (QGIS: Fix geometries; {command}) and look at the result."
    keep = sieve.leave_out(reasons, f"{where} {advice}" if invalid.any() else advice)
    return geometry[keep], (invalid | solid)[keep]


def _beyond(geometry: Objects, farthest: float) -> NDArray[np.bool_]:
    """Return (B,) which have a coordinate that is NaN, or at least `farthest` from zero."""
    corners, owner = shapely.get_coordinates(geometry, return_index=True)
    bad = np.zeros(len(geometry), bool)
    bad[owner[~(np.abs(corners) < farthest).all(axis=1)]] = True
    return bad
