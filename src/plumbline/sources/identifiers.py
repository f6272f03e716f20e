"""What buildings are called: the file's ids, names for those without one, and the same building drawn twice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import shapely
from numpy.typing import NDArray

from plumbline.console import log
from plumbline.errors import InputError
from plumbline.sources.polygons import NAMED, Objects, name_features

ID = "building_id"
SHAPEFILE_NAME = 10
"""Shapefiles cut the names of columns to so many characters: `building_i`."""
MAX_WHOLE = 2.0**53
"""Formats with no nullable integers make ids floats: whole numbers up to here are written back as such."""
SAME_M = 0.01
"""Two drawings of one building have each corner within this distance, m."""


def identify(path: Path, frame: pd.DataFrame, column: str) -> tuple[Objects, int]:
    """Ids (B,) as text, and how many of them are assigned.

    A building without an id is named after its place in the file, `B0000001`, `B0000002`, …, with `_2` and so on
    behind where another has that name.

    Raises:
        InputError: a `column` other than `building_id` is missing.
    """
    if column not in frame.columns and column[:SHAPEFILE_NAME] in frame.columns:
        column = column[:SHAPEFILE_NAME]
    names = np.char.mod("B%07d", np.arange(1, len(frame) + 1)).astype(object)
    if column not in frame.columns:
        if column != ID:
            raise InputError(f"{path}: column {column} is missing; it has {', '.join(map(str, frame.columns))}.")
        log.info("%s: no column %s, buildings are named B0000001, B0000002, … in the file's order.", path, ID)
        return names, len(names)
    ids, empty = _text(frame[column])
    if empty.any():
        ids[empty] = _unused(names[empty], set(ids[~empty]))
        log.warning("%s: %s without a value in column %s, named so.", path, name_features(empty, ids), column)
    return ids, int(empty.sum())


def drop_duplicates(path: Path, geometry: Objects, ids: Objects, column: str) -> NDArray[np.bool_]:
    """Which buildings (B,) to keep: of those with one id and one outline, as where tiles were put together, the first.

    Raises:
        InputError: an id repeats with another outline; names file, column, ids and features.
    """
    series = pd.Series(ids)
    again = np.asarray(series.duplicated())
    if not again.any():
        return ~again
    first = np.asarray(series.drop_duplicates().index)[pd.factorize(series)[0][again]]
    other = np.zeros(len(ids), bool)
    other[again] = ~_alike(geometry[again], geometry[first])
    if other.any():
        named = ", ".join(map(str, pd.unique(series[other])[:NAMED]))
        raise InputError(
            f"{path}: column {column} repeats {named} ({name_features(other)}). Each id may stand there once; only a "
            "footprint drawn twice, alike, may be there twice."
        )
    log.warning("%s: %s drawn twice, alike, with one id; the first is kept.", path, name_features(again, ids))
    return ~again


def _text(values: pd.Series) -> tuple[Objects, NDArray[np.bool_]]:
    """Values as text, and which are empty."""
    missing = np.asarray(values.isna())
    if pd.api.types.is_float_dtype(values.dtype):
        known = values[~missing]
        if ((known % 1 == 0) & (known.abs() < MAX_WHOLE)).all():
            values = values.fillna(0).astype("int64")
    text = values.astype(str)
    return text.to_numpy(object).copy(), missing | np.asarray(text.str.strip() == "")


def _unused(names: Objects, taken: set[str]) -> Objects:
    """Names that nobody has: with a number behind where `taken` holds one."""
    free = names.copy()
    for row in np.flatnonzero(np.isin(names, list(taken))):
        number = 2
        while f"{names[row]}_{number}" in taken:
            number += 1
        free[row] = f"{names[row]}_{number}"
    return free


def _alike(one: Objects, other: Objects) -> NDArray[np.bool_]:
    return np.asarray(
        shapely.equals_exact(one, other, tolerance=SAME_M, normalize=True) | shapely.equals(one, other), bool
    )
