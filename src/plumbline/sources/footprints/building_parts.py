"""Leave out parts within their buildings' outlines, and warn of buildings that overlap.

Maps in three dimensions have outlines and parts. A point belongs to one footprint: the
parts would get the points, and the building none.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import geopandas
import numpy as np
import pandas as pd
import shapely
from numpy.typing import NDArray

from plumbline.core.console import log, warn
from plumbline.sources.footprints.geometry import FeatureFilter, Objects
from plumbline.sources.footprints.ids import ID, SAME_M, text_of

OSM_BUILDING, OSM_PART = re.compile("building"), re.compile(r"building[:_]?p(a(rt?)?)?")
"""Columns of OpenStreetMap's keys: `building:part`, whose name formats change and cut."""
KINDS = re.compile(r"type|kind|class|subtype|code|feature|feature_?type")
PART_KIND = re.compile(r"building[_: ]?part")
"""Columns of the kind of a feature, and the kind of a part: Overture, Tilezen, Protomaps,
OpenHistoricalMap."""
COURTYARD_KIND = "courtyard"
"""Kind of a courtyard, which is no building: Los Angeles County draws it as a polygon."""
PART_FLAG, WITH_PARTS = re.compile("is_building_part"), re.compile("has_parts|hide_3d")
"""Columns of yes and no: of OpenHistoricalMap; of a building that has parts (Overture,
OpenMapTiles)."""
PARENT = re.compile(r"(parent|building|root)[_:]?id")
"""Column in which a part names its building, by the value of that one's column `id`."""
BUILDING_KEY = re.compile("id")
Pairs = tuple[NDArray[np.intp], NDArray[np.intp]]
"""Rows of the first and of the second polygon of each pair."""
NO = ("", "no", "0", "false", "none", "nan")
WITHIN, COVERED = 0.9, 0.5
"""Shares: of a footprint's area, from which it is within another; of an outline's, from which
others take its points; and of the smaller of two, from which they may be one building."""


def drop_parts(
    path: Path, frame: geopandas.GeoDataFrame, reasons: Objects
) -> tuple[geopandas.GeoDataFrame, Objects]:
    """Return the features without the parts in buildings.

    Args:
        path: for messages.
        frame: the features.
        reasons: (F,) see `take_polygons`; also returned without those of the parts.
    """
    usable = np.array([reason is None for reason in reasons], bool)
    parts = _parts_in_outlines(frame, frame.geometry.to_numpy(), usable)
    if not parts.any():
        return frame, reasons
    log.info(
        "%s: %d parts of buildings are passed over; their buildings are drawn, too.",
        path,
        parts.sum(),
    )
    buildings = frame[~parts].reset_index(drop=True)
    if ID in buildings and buildings[ID].isna().all():  # Overture: the parts name their building
        buildings = buildings.drop(columns=ID)
    return buildings, reasons[~parts]


def warn_of_overlap(sieve: FeatureFilter, geometry: Objects) -> tuple[int, int]:
    """Warn of buildings (B,) that others cover or overlap.

    Buildings that overlap by half or more, without one being within the other, may be one
    building that two sources have drawn.

    Returns:
        The numbers of buildings that others within them cover, though not marked as parts,
        and of those that overlap one before them.
    """
    first, second = _at_one_place(geometry)
    area = shapely.area(geometry)
    inner, outer = _nested(geometry, (first, second))
    covered = np.bincount(outer, area[inner], len(geometry)) >= COVERED * area
    if covered.any():
        warn(
            "%s: %d footprints are covered by %d others in them, which get their points: %s. A "
            "building that is drawn whole and in parts is not judged whole. Remove the parts, or "
            "the outlines.",
            sieve.path,
            covered.sum(),
            len(set(inner[covered[outer]].tolist())),
            sieve.name(covered),
            key="footprints.nested",
        )
    shared = shapely.area(shapely.intersection(geometry[first], geometry[second]))
    smaller, larger = np.minimum(area[first], area[second]), np.maximum(area[first], area[second])
    is_within = (shared >= WITHIN * smaller) & (smaller < WITHIN * larger)
    overlaps = (shared >= COVERED * smaller) & ~is_within
    overlaps &= ~shapely.equals_exact(
        geometry[first], geometry[second], tolerance=SAME_M, normalize=True
    )
    is_later = np.zeros(len(geometry), bool)
    is_later[np.maximum(first, second)[overlaps]] = True
    if is_later.any():
        warn(
            "%s: %d footprints overlap another one by half or more: %s. Of each two, one gets "
            "the points in both. If they are one building, of two sources perhaps, keep one of "
            "them.",
            sieve.path,
            is_later.sum(),
            sieve.name(is_later),
            key="footprints.overlapping",
        )
    return int(covered.sum()), int(is_later.sum())


def _parts_in_outlines(
    frame: pd.DataFrame, geometry: Objects, usable: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return (F,) which features are parts within the outline of a building.

    A part outside of all outlines stays, since nothing else may be drawn of its building.
    Courtyards that are drawn as polygons count as parts everywhere.

    Args:
        frame: the features. geometry: (F,) polygons where usable.
    """
    is_passed_over = np.zeros(len(frame), bool)
    for kind in _kind_columns(frame):
        is_passed_over |= np.asarray(kind == COURTYARD_KIND)
    with_parts = _has_yes(frame, WITH_PARTS)
    parts = _is_part(frame) & usable & ~is_passed_over
    outlines = np.flatnonzero(~parts & ~is_passed_over & usable)
    if not len(outlines):
        return np.zeros(len(frame), bool)
    if not (parts | with_parts).any():
        return is_passed_over
    valid = shapely.make_valid(geometry[outlines])
    if parts.any():
        points = shapely.point_on_surface(shapely.make_valid(geometry[parts]))
        within, _ = shapely.STRtree(valid).query(points, predicate="intersects")
        is_passed_over[np.flatnonzero(parts)[within]] = True
    if with_parts.any():
        inner, outer = _nested(valid, _at_one_place(valid))
        is_passed_over[outlines[inner[with_parts[outlines[outer]]]]] = True
    return is_passed_over


def _is_part(frame: pd.DataFrame) -> NDArray[np.bool_]:
    """Return (F,) which features are a part of a building, by their own columns."""
    parts = (_has_yes(frame, OSM_PART) & ~_has_yes(frame, OSM_BUILDING)) | _has_yes(
        frame, PART_FLAG
    )
    for kind in _kind_columns(frame):
        parts |= np.asarray(kind.str.fullmatch(PART_KIND))
    for ids, parents in itertools.product(
        _columns_named(frame, BUILDING_KEY), _columns_named(frame, PARENT)
    ):
        (feature_id, _), (parent_id, is_empty) = text_of(ids), text_of(parents)
        parts |= ~is_empty & np.isin(parent_id, feature_id) & (parent_id != feature_id)
    return parts


def _nested(geometry: Objects, pairs: Pairs) -> Pairs:
    """Return pairs of polygons (inner, outer): the first is within the second, which is larger."""
    inner, outer = pairs
    area = shapely.area(geometry)
    smaller = area[inner] < WITHIN * area[outer]
    inner, outer = inner[smaller], outer[smaller]
    is_within = (
        shapely.area(shapely.intersection(geometry[inner], geometry[outer])) >= WITHIN * area[inner]
    )
    return inner[is_within], outer[is_within]


def _at_one_place(geometry: Objects) -> Pairs:
    """Return pairs of different polygons in which the second contains a point of the first."""
    first, second = shapely.STRtree(geometry).query(
        shapely.point_on_surface(geometry), predicate="within"
    )
    return first[first != second], second[first != second]


def _kind_columns(frame: pd.DataFrame) -> list[pd.Series]:
    """Return the columns of the kind of a feature, in small letters."""
    return [values.astype(str).str.casefold() for values in _columns_named(frame, KINDS)]


def _columns_named(frame: pd.DataFrame, name: re.Pattern[str]) -> list[pd.Series]:
    """Return the columns of a name, in any case of letters."""
    return [frame[column] for column in frame.columns if name.fullmatch(str(column).casefold())]


def _has_yes(frame: pd.DataFrame, name: re.Pattern[str]) -> NDArray[np.bool_]:
    """Return (F,) which features have a yes in a column of that name."""
    yes = np.zeros(len(frame), bool)
    for values in _columns_named(frame, name):
        yes |= np.asarray(values.notna() & ~values.astype(str).str.strip().str.casefold().isin(NO))
    return yes
