"""Name buildings: by the file's ids, or by their place without one; find a building drawn twice."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import shapely
from numpy.typing import NDArray

from plumbline.core.console import log, warn
from plumbline.core.errors import InputError
from plumbline.sources.footprints.geometry import NAMED, FeatureFilter, Objects, name_features

MAX_WHOLE = 2.0**53
"""Number up to which a float holds each whole number; beyond it, neighbours share one float."""
ID = "building_id"
NAMES_OF_IDS = (
    "@id",
    "id",
    "osm_id",
    "uuid",
    "gml_id",
    "objectid",
    "full_plus_code",
    "ogc_fid",
    "fid",
)
"""Columns that files without `building_id` have for ids, the likelier first:
OpenStreetMap's, GeoJSON's (`read_vector` puts the ids of its features into `id`), those of
geographic information systems."""
SHAPEFILE_NAME = 10
"""Shapefiles cut the names of columns to so many characters: `building_i`."""
SAME_M = 0.01
"""Two drawings of one building have each corner within this distance, m."""


class Identified(NamedTuple):
    """Identifiers of the features of a file."""

    ids: Objects
    """(F,) text."""
    assigned: int
    """Number of buildings without an id in the file."""
    column: str | None
    """Column of the ids; None where all are assigned."""


def identify(
    path: Path, frame: pd.DataFrame, column: str | None, rows: NDArray[np.intp] | None = None
) -> Identified:
    """Identify the features (F,).

    They are those of `column`; where none is given, of `building_id` in any case of
    letters; else of the first of `NAMES_OF_IDS` that differs between all buildings. A
    building without an id is named after its row, `B0000001`, `B0000002`, …, with `_2` and
    so on behind where another has that name.

    Args:
        path: for messages.
        frame: the features.
        column: chosen by the user.
        rows: of the features that are buildings; the others need no id. All without.

    Raises:
        InputError: a `column` that was chosen is missing, an id holds a NUL, or ids are
            decimals too large to be distinguished.
    """
    rows = np.arange(len(frame)) if rows is None else rows
    name = _find_id_column(path, frame, column, rows)
    names = np.char.mod("B%07d", np.arange(1, len(frame) + 1)).astype(object)
    if name is None:
        log.info(
            "%s: no column %s, buildings are named B0000001, B0000002, … in the file's order.",
            path,
            ID,
        )
        return Identified(names, len(rows), None)
    if name != ID:
        log.info("%s: buildings are named by the column %s.", path, name)
    ids, empty = text_of(frame[name])
    _check_exact(path, frame[name], name, rows)
    ids[empty] = _unused(names[empty], set(ids[~empty]))
    cut = rows[["\0" in text for text in ids[rows]]]
    if len(cut):
        raise InputError(
            f"{path}: column {name}: {name_features(cut, ids)}: a NUL character found, at which "
            "GeoPackage and GeoJSON cut a text. Take it out.",
            key="ids.nul_character",
        )
    unnamed = rows[empty[rows]]
    if len(unnamed):
        warn(
            "%s: %s without a value in column %s, named so.",
            path,
            name_features(unnamed, ids),
            name,
            key="ids.empty",
        )
    return Identified(ids, len(unnamed), name)


def _find_id_column(
    path: Path, frame: pd.DataFrame, wanted: str | None, rows: NDArray[np.intp]
) -> str | None:
    """Find the name of the column of ids."""
    columns = [name for name in map(str, frame.columns) if name != "geometry"]
    name = ID if wanted is None else wanted
    if name in columns:
        return name
    spelled = [name.casefold(), name[:SHAPEFILE_NAME].casefold()]
    alike = sorted(
        (column for column in columns if column.casefold() in spelled),
        key=lambda column: spelled.index(column.casefold()),
    )
    if alike:
        return alike[0]
    if wanted is not None:
        raise InputError(
            f"{path}: column {wanted} is missing; it has {', '.join(columns)}. Name one of these.",
            key="ids.missing_column",
        )
    for candidate in (
        column for usual in NAMES_OF_IDS for column in columns if column.casefold() == usual
    ):
        ids, empty = text_of(frame[candidate].iloc[rows])
        if not empty.any() and len(set(ids)) == len(ids):
            return candidate
    return None


def drop_duplicates(sieve: FeatureFilter, geometry: Objects, column: str) -> NDArray[np.bool_]:
    """Return which buildings (B,) to keep: the first of those with the same id and outline,
    as joined tiles have.

    Raises:
        InputError: an id repeats with another outline; names file, column, ids and features.
    """
    series = pd.Series(sieve.remaining_ids)
    is_repeat = np.asarray(series.duplicated())
    if not is_repeat.any():
        return ~is_repeat
    first = np.asarray(series.drop_duplicates().index)[pd.factorize(series)[0][is_repeat]]
    is_other = np.zeros(len(series), bool)
    later, earlier = geometry[is_repeat], geometry[first]
    is_other[is_repeat] = ~(
        shapely.equals_exact(later, earlier, tolerance=SAME_M, normalize=True)
        | shapely.equals(later, earlier)
    )
    if is_other.any():
        ids = ", ".join(map(str, pd.unique(series[is_other])[:NAMED]))
        raise InputError(
            f"{sieve.path}: column {column} repeats {ids} ({sieve.name(is_other)}). Give each "
            "footprint an id of its own; only one drawn twice, alike, may repeat its id.",
            key="ids.repeated",
        )
    warn(
        "%s: %s drawn twice, alike, with one id; the first is kept.",
        sieve.path,
        sieve.name(is_repeat),
        key="footprints.repeated",
    )
    return ~is_repeat


def warn_of_drawn_twice(sieve: FeatureFilter, geometry: Objects) -> int:
    """Warn of buildings (B,) with the outline of an earlier one under another name: only
    one can get the points."""
    rounded = shapely.transform(geometry, lambda corners: np.round(corners / SAME_M) * SAME_M)
    series = pd.Series(shapely.to_wkb(shapely.normalize(rounded)))
    is_repeat = np.asarray(series.duplicated())
    if is_repeat.any():
        warn(
            "%s: %d footprints are drawn as one before them, under another name: %s. The first "
            "of each gets the points, the others are not judged. Remove them.",
            sieve.path,
            is_repeat.sum(),
            sieve.name(is_repeat),
            key="footprints.drawn_twice",
        )
    return int(is_repeat.sum())


def _check_exact(path: Path, values: pd.Series, column: str, rows: NDArray[np.intp]) -> None:
    """Refuse integers stored as floats too large for exact integers: several ids may have
    become one."""
    if not pd.api.types.is_float_dtype(values.dtype):
        return
    large = rows[np.asarray(values.abs() >= MAX_WHOLE)[rows]]
    if len(large):
        raise InputError(
            f"{path}: column {column}: feature {large[0] + 1}: {values.iloc[large[0]]:.17g} "
            f"found, a decimal number. From {MAX_WHOLE:.0f} on, decimals are not exact for whole "
            "numbers. Write the column as integers or as text, or name another by --id-column or "
            "ingest.footprints.",
            key="ids.inexact_number",
        )


def text_of(values: pd.Series) -> tuple[Objects, NDArray[np.bool_]]:
    """Return values as text, and which are empty."""
    missing = np.asarray(values.isna())
    if pd.api.types.is_float_dtype(values.dtype):
        numbers = values[~missing]
        if ((numbers % 1 == 0) & (numbers.abs() < MAX_WHOLE)).all():
            values = values.fillna(0).astype("int64")
    text = values.astype(str)
    return text.to_numpy(object).copy(), missing | np.asarray(text.str.strip() == "")


def _unused(names: Objects, used: set[str]) -> Objects:
    """Return unused names: with a number behind, if `used` has the name."""
    free = names.copy()
    for row in np.flatnonzero(np.isin(names, list(used))):
        free[row] = next(
            name for number in itertools.count(2) if (name := f"{names[row]}_{number}") not in used
        )
    return free
