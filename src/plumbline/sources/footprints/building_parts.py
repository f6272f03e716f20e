"""Pass over parts of buildings that lie in their outlines, and join those that are cut apart at 180 degrees.

Maps in three dimensions have outlines and parts. A point belongs to one footprint: the parts would get the points, and
the building none.
"""

from __future__ import annotations

import re
from pathlib import Path

import geopandas
import numpy as np
import pandas as pd
import shapely
from numpy.typing import NDArray

from plumbline.core.console import log
from plumbline.sources.crs import turn_in
from plumbline.sources.footprints.geometry import unlike_polygons
from plumbline.sources.footprints.ids import text_of
from plumbline.sources.footprints.selection import FeatureFilter, Objects
from plumbline.sources.globe import halves, joined

OSM_BUILDING, OSM_PART = "building", re.compile(r"building[:_]?p(a(rt?)?)?")
"""Columns of OpenStreetMap's keys: `building:part`, whose name formats change and cut."""
OVERTURE_KIND, OVERTURE_PART = "type", "building_part"
PARENT = re.compile(r"(parent|building)[_:]?id")
"""Column in which a part names its building, by the value of that one's column `id`."""
ID = "id"
NO = ("", "no", "0", "false", "none", "nan")
WITHIN, COVERED = 0.9, 0.5
"""Shares: of a footprint's area, from which it lies in another; of an outline's, from which others take its points."""


def is_part(frame: pd.DataFrame) -> NDArray[np.bool_]:
    """Return (F,) which features say that they are a part of a building: by OpenStreetMap's keys, or Overture's."""
    named = {str(name).casefold(): name for name in frame.columns}
    found = np.zeros(len(frame), bool)
    for name in (own for own in named if OSM_PART.fullmatch(own)):
        found |= _says_yes(frame[named[name]]) & (
            ~_says_yes(frame[named[OSM_BUILDING]]) if OSM_BUILDING in named else True
        )
    if OVERTURE_KIND in named:
        found |= np.asarray(frame[named[OVERTURE_KIND]].astype(str) == OVERTURE_PART)
    for name in (one for one in named if PARENT.fullmatch(one) and ID in named):
        (own, _), (parent, empty) = text_of(frame[named[ID]]), text_of(frame[named[name]])
        found |= ~empty & np.isin(parent, own) & (parent != own)
    return found


def parts_in_outlines(frame: pd.DataFrame, geometry: Objects, usable: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return (F,) which features are parts that lie in the outline of a building; others may be all that is drawn.

    Args:
        frame: the features. geometry: (F,) polygons where usable.
    """
    parts = is_part(frame) & usable
    outlines = np.flatnonzero(~parts & usable)
    if not parts.any() or not len(outlines):
        return np.zeros(len(frame), bool)
    middles = shapely.point_on_surface(shapely.make_valid(geometry[parts]))
    within, _ = shapely.STRtree(shapely.make_valid(geometry[outlines])).query(middles, predicate="intersects")
    found = np.zeros(len(frame), bool)
    found[np.flatnonzero(parts)[within]] = True
    return found


def warn_of_nested(sieve: FeatureFilter, geometry: Objects) -> int:
    """Warn of buildings (B,) that others in them cover, though nothing says that these are parts; return how many."""
    inner, outer = _nested(geometry)
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


def _nested(geometry: Objects) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return pairs of buildings (inner, outer): the first lies in the second, which is larger."""
    middles, area = shapely.point_on_surface(geometry), shapely.area(geometry)
    inner, outer = shapely.STRtree(geometry).query(middles, predicate="within")
    smaller = area[inner] < WITHIN * area[outer]
    inner, outer = inner[smaller], outer[smaller]
    lies = shapely.area(shapely.intersection(geometry[inner], geometry[outer])) >= WITHIN * area[inner]
    return inner[lies], outer[lies]


def _says_yes(values: pd.Series) -> NDArray[np.bool_]:
    return np.asarray(values.notna() & ~values.astype(str).str.strip().str.casefold().isin(NO))


def whole_at_180(
    path: Path, frame: geopandas.GeoDataFrame, geometry: Objects
) -> tuple[geopandas.GeoDataFrame, Objects]:
    """Return features and geometry (F,) with each building that was cut at 180 degrees as one polygon.

    RFC 7946 asks for the cut, as parts of one feature; some programs write two features.
    """
    turn = None if frame.crs is None else turn_in(frame.crs)
    west, _, east, _ = shapely.total_bounds(geometry)
    if turn is None or not east - west > turn / 2:  # as nearly always
        return frame, geometry
    usable = np.flatnonzero([reason is None for reason in unlike_polygons(geometry)])
    geometry = geometry.copy()
    geometry[usable] = joined(geometry[usable], turn)
    pairs = usable[halves(geometry[usable], turn)]
    for before, after in pairs:
        geometry[before] = shapely.multipolygons(shapely.get_parts(geometry[[before, after]]))
    geometry[pairs[:, 0]] = joined(geometry[pairs[:, 0]], turn)
    if len(pairs):
        log.info("%s: %d buildings cut at 180 degrees into two features are read as one each.", path, len(pairs))
    kept = np.setdiff1d(np.arange(len(frame)), pairs[:, 1])
    return frame.iloc[kept].reset_index(drop=True), geometry[kept]
