"""Read labels (severity, quadrants, mechanism, difficulty), and match them to footprints."""

from __future__ import annotations

import re
from collections import deque
from pathlib import Path

import geopandas
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from plumbline.core.compass import BETWEEN_QUADRANTS, QUADRANTS
from plumbline.core.console import warn
from plumbline.core.errors import InputError
from plumbline.core.strain import CATEGORY_BOUNDS_PERMILLE, DIFFICULTIES, MECHANISMS, category
from plumbline.sources.files.csv_lines import dialect, open_rows
from plumbline.sources.files.csv_table import fail_at, read_columns, read_header
from plumbline.sources.files.opened import find_csv
from plumbline.sources.files.streams import CsvFile

COLUMNS = {"building_id": pa.string(), "severity_permille": pa.float64(), "quadrant": pa.string()}
ACCEPTED, MECHANISM, DIFFICULTY = "accepted", "mechanism", "difficulty"
OPTIONAL = (ACCEPTED, MECHANISM, DIFFICULTY)
UNKNOWN = -1
"""Code of an unknown difficulty or mechanism."""
MAX_SEVERITY_PERMILLE = 1000.0
"""Largest severity that is read: a strain of 1."""
MOSTLY = 0.75
"""Share of the buildings with a quadrant; with more of them below category 1 the unit is in doubt.
In percent the worst are above it."""
USUAL_PERMILLE = 30.0
"""Largest usual severity, ten times the start of the worst category; a larger one may be of another
unit."""


def read_labels(path: Path, few: bool = False) -> pd.DataFrame:
    """Read `building_id, severity_permille, quadrant` and any `OPTIONAL` columns from a csv.

    Args:
        path: the file.
        few: it holds all that something is learned from: a unit in doubt is an error, not a
            warning.

    Returns:
        One row a building in the file's order: text, permille, one of NE, NW, SW, SE, or
        empty text below category 1, where the quadrant is undefined (one in the file is not
        passed on). `accepted` are all quadrants that are right answers, as `NE|NW`; without
        the column, or where its cell is empty, the quadrant alone. Of mechanism and
        difficulty the int8 code: its place in `MECHANISMS` and `DIFFICULTIES`, or `UNKNOWN`
        for an empty cell or without the column.

    Raises:
        InputError: a column is missing, an id is empty or repeats, a severity is no number
            from 0, a quadrant is missing, unknown or not among the accepted ones, or a
            mechanism or difficulty unknown; the message names the line. With `few`, also
            severities that are hardly in permille.
    """
    product, line = dialect(find_csv(path))
    header = read_header(product, line)
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        raise InputError(
            f"{product}, line 1: missing: {', '.join(missing)}; the header has "
            f"{', '.join(header)[:300]}.",
            key="labels.missing_column",
        )
    columns = COLUMNS | {name: pa.string() for name in OPTIONAL if name in header}
    table = read_columns(product, header, columns)
    if not len(table):
        raise InputError(f"{product}: it has a header, but no labels.", key="labels.none")
    if not _has_last_line_end(product):
        warn(
            "%s: its last line has no line end. If the file was cut off, labels are missing, or "
            "the last one is not whole: %d are read, the last of building %s. Compare, or "
            "download it again.",
            product,
            len(table),
            table["building_id"][-1],
            key="labels.no_line_end",
        )
    ids = _text_column(table, "building_id")
    severity = np.asarray(table["severity_permille"].to_numpy(), float)
    quadrant = _text_column(table, "quadrant", strip=True)
    accepted, mechanism_text, difficulty_text = (
        _text_column(table, name, strip=True) if name in header else np.full(len(ids), "", object)
        for name in OPTIONAL
    )
    mechanism, difficulty = (
        pd.Categorical(text, categories=names).codes.astype(np.int8)
        for text, names in ((mechanism_text, MECHANISMS), (difficulty_text, DIFFICULTIES))
    )
    damaged = category(severity) >= 1
    accepted = np.where(damaged & (accepted == ""), quadrant, accepted)
    checks = (
        ("labels.empty_id", "building_id", ids, ids == "", "an id is needed"),
        (
            "labels.repeated_id",
            "building_id",
            ids,
            np.asarray(pd.Series(ids).duplicated()),
            "each building may be labelled once",
        ),
        (
            "labels.impossible_severity",
            "severity_permille",
            severity,
            ~((severity >= 0) & (severity <= MAX_SEVERITY_PERMILLE)),
            f"a strain from 0 to {MAX_SEVERITY_PERMILLE:g} permille is needed",
        ),
        (
            "labels.unknown_quadrant",
            "quadrant",
            quadrant,
            ~np.isin(quadrant, (*QUADRANTS, "")) | (damaged & (quadrant == "")),
            f"one of {', '.join(QUADRANTS)} is needed; the cell may be empty where the severity "
            "is below "
            f"{CATEGORY_BOUNDS_PERMILLE[0]:g} permille",
        ),
        (
            "labels.wrong_accepted_quadrants",
            ACCEPTED,
            accepted,
            damaged
            & ~np.array([_includes(*pair) for pair in zip(accepted, quadrant, strict=True)], bool),
            f"quadrants with {BETWEEN_QUADRANTS!r} between them are needed, the one of the "
            "column quadrant among them",
        ),
        (
            "labels.unknown_mechanism",
            MECHANISM,
            mechanism_text,
            damaged & (mechanism == UNKNOWN) & (mechanism_text != ""),  # a sound building: none
            f"one of {', '.join(MECHANISMS)} is needed, or an empty cell where it is not known",
        ),
        (
            "labels.unknown_difficulty",
            DIFFICULTY,
            difficulty_text,
            (difficulty == UNKNOWN) & (difficulty_text != ""),
            f"one of {', '.join(DIFFICULTIES)} is needed, or an empty cell where it is not known",
        ),
    )
    for key, column, values, bad, wanted in checks:
        if bad.any():
            row = int(np.argmax(bad))
            fail_at(product, row, column, _format_cell(values[row]), wanted, key=key)
    _check_units(product, severity, quadrant, few)
    return pd.DataFrame(
        {
            "building_id": ids,
            "severity_permille": severity,
            "quadrant": np.where(damaged, quadrant, "").astype(object),
            ACCEPTED: np.where(damaged, accepted, "").astype(object),
            MECHANISM: np.where(damaged, mechanism, UNKNOWN).astype(np.int8),
            DIFFICULTY: difficulty,
        }
    )


def _has_last_line_end(product: CsvFile) -> bool:
    with open_rows(product) as stream:
        return deque(stream, maxlen=1)[-1].endswith((b"\n", b"\r"))


def _includes(accepted: str, quadrant: str) -> bool:
    names = accepted.split(BETWEEN_QUADRANTS)
    return quadrant in names and set(names) <= set(QUADRANTS)


def _format_cell(value: object) -> object:
    if isinstance(value, str):
        return repr(value)
    return "no value" if isinstance(value, float) and np.isnan(value) else value


def _check_units(
    product: CsvFile, severity: NDArray[np.float64], quadrant: NDArray[np.object_], few: bool
) -> None:
    large = severity > USUAL_PERMILLE
    if large.any():
        warn(
            "%s: %d severities above %g permille (the largest %g): category 4 begins at %g. Are "
            "they in permille?",
            product,
            large.sum(),
            USUAL_PERMILLE,
            severity.max(),
            CATEGORY_BOUNDS_PERMILLE[-1],
            key="labels.large_severity",
        )
    # A city may have no damage. Strains in m/m are 1000 times too small, in percent 10 times.
    visible_permille = CATEGORY_BOUNDS_PERMILLE[0]
    has_quadrant, is_small = quadrant != "", (quadrant != "") & (severity < visible_permille)
    if is_small.sum() > MOSTLY * has_quadrant.sum():
        message = (
            f"{product}: of {has_quadrant.sum()} buildings with a quadrant {is_small.sum()} have "
            "severities below "
            f"{visible_permille:g} "
            f"permille, where category 1 begins (the largest of all is {severity.max():g}). Are "
            "they in permille, and "
            "not in m/m or percent? "
        )
        if few and severity.max() < visible_permille:
            raise InputError(
                f"{message}If they are, leave the quadrants of undamaged buildings empty.",
                key="labels.small_severity",
            )
        warn("%sThose quadrants are not used.", message, key="labels.small_severity")


def no_labels() -> pd.DataFrame:
    """Return an empty table of labels; columns and types as of `read_labels`."""
    columns = {
        "building_id": object,
        "severity_permille": float,
        "quadrant": object,
        ACCEPTED: object,
    }
    return pd.DataFrame(columns=[*columns, MECHANISM, DIFFICULTY]).astype(
        {**columns, MECHANISM: np.int8, DIFFICULTY: np.int8}
    )


def _text_column(table: pa.Table, column: str, strip: bool = False) -> NDArray[np.object_]:
    values = pc.utf8_trim_whitespace(table[column]) if strip else table[column]
    return np.asarray(values.to_pandas().to_numpy(object), object)


SHOWN = 5
"""Identifiers in a message, at most."""
_WHOLE = re.compile(r"([+-]?\d+)\.0+")


def match_footprints(
    labels: pd.DataFrame,
    footprints: geopandas.GeoDataFrame,
    labels_file: Path,
    footprints_file: Path,
) -> pd.DataFrame:
    """Match labels to footprints: return the labels with the identifiers of the footprints.

    Blanks around an identifier, and 12.0 for 12, are corrected if only then a building has
    that identifier. Spreadsheets and tables with an empty cell write both.

    Args:
        labels: see `read_labels`.
        footprints: see `read_buildings`.
        labels_file, footprints_file: for messages.

    Raises:
        InputError: a label is of a building that is not there, or two are of one.
    """
    building_ids = {*footprints["building_id"], *footprints.attrs.get("left_out", ())}
    ids = [
        name if name in building_ids else _match_id(name, building_ids)
        for name in labels["building_id"]
    ]
    unknown = sorted(name for name in ids if name not in building_ids)
    if unknown:
        raise InputError(
            f"{labels_file}: not in {footprints_file}: {len(unknown)} of the labelled buildings "
            f"({_format_ids(unknown)}). Its buildings are called "
            f"{_format_ids(footprints['building_id'].tolist())}. Correct the labels, or name the "
            "column of the footprints that identifies a building (docs/formats.md). "
            "Labels and footprints must be of one city.",
            key="labels.unknown_building",
        )
    matched = labels.assign(building_id=pd.Series(ids, index=labels.index, dtype=object))
    twice = matched["building_id"].duplicated(keep=False).to_numpy()
    if twice.any():
        raise InputError(
            f"{labels_file}: {_format_ids(labels['building_id'][twice].tolist())} are of one "
            f"building of {footprints_file}; each may be labelled once.",
            key="labels.repeated_building",
        )
    return matched


def _match_id(name: str, building_ids: set[str]) -> str:
    bare = name.strip()
    whole = _WHOLE.fullmatch(bare)
    return next(
        (text for text in (bare, whole[1] if whole else bare) if text in building_ids), name
    )


def _format_ids(names: list[str]) -> str:
    return ", ".join(map(repr, names[:SHOWN])) + (", …" if len(names) > SHOWN else "")
