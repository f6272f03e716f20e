"""Pass over the parts of buildings that a file draws inside of their outlines, as maps in three dimensions do.

A point belongs to one footprint. Where parts lie in an outline they get the points, and the building gets none.
"""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import shapely
from numpy.typing import NDArray

from plumbline.core.console import log
from plumbline.sources.footprints.ids import text_of
from plumbline.sources.footprints.selection import FeatureFilter, Objects

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
