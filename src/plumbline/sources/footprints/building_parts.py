"""Pass over parts of buildings that lie in their outlines, and join those that are cut apart at 180 degrees.

Maps in three dimensions have outlines and parts. A point belongs to one footprint: the parts would get the points, and
the building none.
"""

from __future__ import annotations

import itertools
import re

import numpy as np
import pandas as pd
import pyproj
import shapely
from numpy.typing import NDArray

from plumbline.core.console import log
from plumbline.sources.crs import turn_in
from plumbline.sources.footprints.geometry import unlike_polygons
from plumbline.sources.footprints.ids import SAME_M, text_of
from plumbline.sources.footprints.selection import FeatureFilter, Objects
from plumbline.sources.globe import joined

OSM_BUILDING, OSM_PART = re.compile("building"), re.compile(r"building[:_]?p(a(rt?)?)?")
"""Columns of OpenStreetMap's keys: `building:part`, whose name formats change and cut."""
KINDS = re.compile(r"type|kind|class|subtype|code|feature|feature_?type")
PART_KIND = re.compile(r"building[_: ]?part")
"""Columns that say what a feature is, and how they name a part: Overture, Tilezen, Protomaps, OpenHistoricalMap."""
COURTYARD_KIND = "courtyard"
"""Drawn as a polygon of its own, as Los Angeles County does; it is no building."""
PART_FLAG, WITH_PARTS = re.compile("is_building_part"), re.compile("has_parts|hide_3d")
"""Columns of yes and no: of OpenHistoricalMap; of a building that has parts (Overture, OpenMapTiles)."""
PARENT = re.compile(r"(parent|building|root)[_:]?id")
"""Column in which a part names its building, by the value of that one's column `id`."""
ID = re.compile("id")
Pairs = tuple[NDArray[np.intp], NDArray[np.intp]]
"""Rows of the first and of the second polygon of each pair."""
NO = ("", "no", "0", "false", "none", "nan")
WITHIN, COVERED = 0.9, 0.5
"""Shares: of a footprint's area, from which it lies in another; of an outline's, from which others take its points;
and of the smaller of two, from which they may be one building."""


def is_part(frame: pd.DataFrame) -> NDArray[np.bool_]:
    """Return (F,) which features say that they are a part of a building."""
    parts = (_says_yes(frame, OSM_PART) & ~_says_yes(frame, OSM_BUILDING)) | _says_yes(frame, PART_FLAG)
    for kind in _kinds(frame):
        parts |= np.asarray(kind.str.fullmatch(PART_KIND))
    for ids, parents in itertools.product(_columns(frame, ID), _columns(frame, PARENT)):
        (own, _), (parent, empty) = text_of(ids), text_of(parents)
        parts |= ~empty & np.isin(parent, own) & (parent != own)
    return parts


def parts_in_outlines(frame: pd.DataFrame, geometry: Objects, usable: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return (F,) which features are parts that lie in the outline of a building; others may be all that is drawn.

    Courtyards that are drawn as polygons count as parts, wherever they lie.

    Args:
        frame: the features. geometry: (F,) polygons where usable.
    """
    is_passed_over = np.zeros(len(frame), bool)
    for kind in _kinds(frame):
        is_passed_over |= np.asarray(kind == COURTYARD_KIND)
    parts = is_part(frame) & usable & ~is_passed_over
    outlines = np.flatnonzero(~parts & ~is_passed_over & usable)
    with_parts = _says_yes(frame, WITH_PARTS)
    if not len(outlines):
        return np.zeros(len(frame), bool)
    if not (parts | with_parts).any():
        return is_passed_over
    whole = shapely.make_valid(geometry[outlines])
    if parts.any():
        middles = shapely.point_on_surface(shapely.make_valid(geometry[parts]))
        within, _ = shapely.STRtree(whole).query(middles, predicate="intersects")
        is_passed_over[np.flatnonzero(parts)[within]] = True
    if with_parts.any():
        inner, outer = _nested(whole, at_one_place(whole))
        is_passed_over[outlines[inner[with_parts[outlines[outer]]]]] = True
    return is_passed_over


def warn_of_nested(sieve: FeatureFilter, geometry: Objects, pairs: Pairs) -> int:
    """Warn of buildings (B,) that others in them cover, though nothing says that these are parts; return how many.

    Args:
        pairs: see `at_one_place`.
    """
    inner, outer = _nested(geometry, pairs)
    covered = np.bincount(outer, shapely.area(geometry[inner]), len(geometry)) >= COVERED * shapely.area(geometry)
    if covered.any():
        log.warning(
            "%s: %d footprints are covered by %d others in them, which get their points: %s. A building that is drawn "
            "whole and in parts is not judged whole. Remove the parts, or the outlines.",
            sieve.path,
            covered.sum(),
            len(set(inner[covered[outer]].tolist())),
            sieve.name(covered),
        )
    return int(covered.sum())


def warn_of_overlap(sieve: FeatureFilter, geometry: Objects, pairs: Pairs) -> int:
    """Warn of buildings (B,) that lie half or more over another, but not in it: one drawn by two sources, perhaps.

    Args:
        pairs: see `at_one_place`.

    Returns:
        How many lie over one before them.
    """
    one, other = pairs
    area = shapely.area(geometry)
    shared = shapely.area(shapely.intersection(geometry[one], geometry[other]))
    smaller, larger = np.minimum(area[one], area[other]), np.maximum(area[one], area[other])
    is_in = (shared >= WITHIN * smaller) & (smaller < WITHIN * larger)
    over = (shared >= COVERED * smaller) & ~is_in
    over &= ~shapely.equals_exact(geometry[one], geometry[other], tolerance=SAME_M, normalize=True)
    again = np.zeros(len(geometry), bool)
    again[np.maximum(one, other)[over]] = True
    if again.any():
        log.warning(
            "%s: %d footprints lie half or more over another one: %s. Of each two, one gets the points that lie in "
            "both. If they are one building, of two sources perhaps, keep one of them.",
            sieve.path,
            again.sum(),
            sieve.name(again),
        )
    return int(again.sum())


def _nested(geometry: Objects, pairs: Pairs) -> Pairs:
    """Return pairs of polygons (inner, outer): the first lies in the second, which is larger."""
    inner, outer = pairs
    area = shapely.area(geometry)
    smaller = area[inner] < WITHIN * area[outer]
    inner, outer = inner[smaller], outer[smaller]
    lies = shapely.area(shapely.intersection(geometry[inner], geometry[outer])) >= WITHIN * area[inner]
    return inner[lies], outer[lies]


def at_one_place(geometry: Objects) -> Pairs:
    """Return pairs of different polygons: a point of the first lies in the second."""
    one, other = shapely.STRtree(geometry).query(shapely.point_on_surface(geometry), predicate="within")
    return one[one != other], other[one != other]


def _kinds(frame: pd.DataFrame) -> list[pd.Series]:
    """Return the columns that say what a feature is, in small letters."""
    return [values.astype(str).str.casefold() for values in _columns(frame, KINDS)]


def _columns(frame: pd.DataFrame, name: re.Pattern[str]) -> list[pd.Series]:
    """Return the columns of a name, in any case of letters."""
    return [frame[column] for column in frame.columns if name.fullmatch(str(column).casefold())]


def _says_yes(frame: pd.DataFrame, name: re.Pattern[str]) -> NDArray[np.bool_]:
    """Return (F,) which features have a yes in a column of that name."""
    yes = np.zeros(len(frame), bool)
    for values in _columns(frame, name):
        yes |= np.asarray(values.notna() & ~values.astype(str).str.strip().str.casefold().isin(NO))
    return yes


def whole_at_180(crs: pyproj.CRS | None, geometry: Objects) -> Objects:
    """Return geometry (F,) with each building that was cut at 180 degrees as one polygon, as RFC 7946 asks for."""
    turn = None if crs is None else turn_in(crs)
    west, _, east, _ = shapely.total_bounds(geometry)
    if turn is None or not east - west > turn / 2:  # as nearly always
        return geometry
    usable = np.flatnonzero([reason is None for reason in unlike_polygons(geometry)])
    geometry = geometry.copy()
    geometry[usable] = joined(geometry[usable], turn)
    return geometry
