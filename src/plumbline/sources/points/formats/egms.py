"""Read EGMS L2 and L3 as csv."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import PurePosixPath
from typing import NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from plumbline import params
from plumbline.core.errors import InputError
from plumbline.sources.files.csv_table import fail_at, stream_columns
from plumbline.sources.files.streams import CsvFile
from plumbline.sources.points.epochs import FIRST_YEAR, LAST_YEAR, find_days, like_days, warn_of_unread
from plumbline.sources.points.missing import Missing, warn_of_rounding
from plumbline.sources.points.source import (
    HEIGHT_RANGE,
    MAX_DISPLACEMENT_MM,
    MIN_EPOCHS,
    OUT_OF_ORDER,
    UNIT_TOLERANCE,
    Fail,
    PointSource,
    TableLayout,
    noted,
    outside,
)
from plumbline.sources.points.table import open_csv_table
from plumbline.sources.points.track import NO_SIGHT, Track, drop_without_height, point_name

CRS = "EPSG:3035"
LOS = ("los_east", "los_north", "los_up")
REQUIRED = ("pid", "easting", "northing", *LOS)
HEIGHTS = ("height_ortho", "height")
"""Name of the height column: since the 2019-2023 release, and before."""
COHERENCE = "temporal_coherence"
CUT_LETTERS = 10
"""A Shapefile's columns have no longer names."""
RMSE = ("rmse_ts", "rmse")
"""Name of the root mean square error, mm: since the 2019-2023 release, and before."""
RANGES = {
    # Europe from the Azores to the Caucasus, Cyprus to Svalbard; degrees or another projection fall outside.
    "easting": (500_000.0, 8_500_000.0),
    "northing": (500_000.0, 7_500_000.0),
    "height": HEIGHT_RANGE,
    COHERENCE: (0.0, 1.0),
    "rmse_ts": (0.0, 10_000.0),
    "rmse": (0.0, 10_000.0),
}


def is_egms(header: list[str]) -> bool:
    """Return whether the names of columns are those of an EGMS product of L2 or L3, complete or not."""
    known = {"mp_type", "easting", "northing", "rmse", "rmse_ts", "mean_velocity", "track_angle", COHERENCE, *LOS}
    return len(known.intersection(header)) >= 3 and ("pid" in header or "mp_type" in header)


def whole_names(header: list[str]) -> list[str]:
    """Restore names in an EGMS product's header that a Shapefile has cut, for the columns that are read.

    Else `temporal_c` would be some other column, and points below `ingest.min_coherence` would pass.
    """
    cut = {name[:CUT_LETTERS]: name for name in (HEIGHTS[0], COHERENCE) if name not in header}
    return [cut.get(name, name) for name in header] if is_egms(header) else header


def open_egms(product: CsvFile, header: list[str], missing: Sequence[float | str] | None = None) -> PointSource:
    """Open an EGMS L2a or L2b product by its csv and header; the order of columns does not matter.

    Epochs are sorted. Empty cells of a series become NaN. Points come in blocks, repeated ones among them.

    Raises:
        InputError: a column is missing; what concerns rows, where reading gets to them: a cell is not what it has to
            be, and the message names the line in the file, the column and what stands there.
    """
    height = _check_header(product, header)
    days = _epochs(product, header)
    columns = L2Columns(height, tuple(name for name in (COHERENCE, *RMSE) if name in header), tuple(days))
    name, epochs = product.path.stem, np.array([f"{d[:4]}-{d[4:6]}-{d[6:]}" for d in days], "datetime64[D]")

    def blocks() -> Iterator[Track]:
        first, table = -1, None
        empty, codes = True, Missing(product, missing)
        for first, table in stream_columns(product, header, columns.types):
            block = make_track(name, epochs, columns, table, codes, _Fail(product, first))
            if empty:
                warn_of_rounding(product, block.easting, block.northing, degrees=False)
            empty = False
            yield block
        if empty and product.is_whole:
            raise InputError(f"{product}: it has a header, but no points. Download it again, or leave it out.")
        codes.tell()

    in_order = days == [column for column in header if _is_day(column)]
    taken = {
        "point_id": "pid",
        "x": "easting",
        "y": "northing",
        "height": height,
        **{"coherence" if name == COHERENCE else "rmse": name for name in columns.quality},
        "line of sight": ", ".join(LOS),
        "displacements": f"{len(days)} columns, {days[0]} to {days[-1]}",
    }
    return PointSource(name, CRS, epochs, blocks, () if in_order else (OUT_OF_ORDER,), taken)


@dataclass(frozen=True)
class L2Columns:
    """Columns of an L2 table to read."""

    height: str
    quality: tuple[str, ...]
    days: tuple[str, ...]

    @property
    def types(self) -> dict[str, pa.DataType]:
        """Name and type of every column read."""
        numbers = (self.height, *REQUIRED[1:], *self.quality)
        return {"pid": pa.string(), **dict.fromkeys(numbers, pa.float64()), **dict.fromkeys(self.days, pa.float32())}


@dataclass(frozen=True)
class _Fail:
    product: CsvFile
    first: int

    def __call__(self, row: int, column: str, found: object, wanted: str) -> NoReturn:
        fail_at(self.product, self.first + row, column, found, wanted)


def make_track(
    name: str, epochs: NDArray[np.datetime64], columns: L2Columns, table: pa.Table, missing: Missing, fail: _Fail
) -> Track:
    """Make a track of the points of an L2 table, with every cell checked.

    Raises:
        InputError: by `fail`, for the first cell that is not what it has to be.
    """
    easting = _numbers(table, "easting", RANGES["easting"], fail)
    northing = _numbers(table, "northing", RANGES["northing"], fail)
    coherence = rmse = None
    for column in columns.quality:  # a point of which it is not known is no worse than a product without any
        values = _known(table, column, RANGES[column], missing, fail).astype(np.float32)
        coherence, rmse = (values, rmse) if column == COHERENCE else (coherence, values)
    los, seen = _lines_of_sight(table, missing, fail)
    track = Track(
        name=name,
        crs=CRS,
        epochs=epochs,
        point_id=_identifiers(table, fail.first),
        easting=easting,
        northing=northing,
        height=_known(table, columns.height, RANGES["height"], missing, fail),
        los=los,
        displacement=_series(table, columns.days, missing, fail),
        coherence=coherence,
        rmse=rmse,
    )
    return drop_without_height(track if seen.all() else track.keep(seen, NO_SIGHT))


def _check_header(product: CsvFile, header: list[str]) -> str:
    missing = [name for name in REQUIRED if name not in header]
    height = next((name for name in HEIGHTS if name in header), None)
    if height is None:
        missing.append(" or ".join(HEIGHTS))
    if missing or height is None:
        shown = ", ".join(name for name in header if not _is_day(name))
        raise InputError(
            f"{product}, line 1: column {', '.join(missing)} is missing; the header has {shown[:600] or 'none'}. "
            "An EGMS L2a or L2b product is needed."
        )
    return height


def _is_day(name: str) -> bool:
    return re.fullmatch(r"[0-9]{8}", name) is not None


def _epochs(product: CsvFile, header: list[str]) -> list[str]:
    """Return the names of the columns YYYYMMDD, ascending."""
    days = sorted(name for name in header if _is_day(name))
    for name in days:
        try:
            year = date(int(name[:4]), int(name[4:6]), int(name[6:])).year
        except ValueError:
            year = 0
        if not FIRST_YEAR <= year <= LAST_YEAR:
            raise InputError(f"{product}, line 1: column {name} is no date YYYYMMDD.")
    others = [name for name in header if not _is_day(name)]
    if len(days) < MIN_EPOCHS:
        shown = ", ".join(map(repr, like_days(others)[:3]))
        advice = f" {shown} look like days: name them so, or describe the file's columns." if shown else ""
        raise InputError(
            f"{product}, line 1: {len(days)} columns named by a date YYYYMMDD found, the displacements of at least "
            f"{MIN_EPOCHS} epochs are needed.{advice}"
        )
    warn_of_unread(str(product), others, "YYYYMMDD")
    return days


def _numbers(table: pa.Table, column: str, bounds: tuple[float, float], fail: Fail) -> NDArray[np.float64]:
    values = np.asarray(table[column].to_numpy(), float)
    within = (values >= bounds[0]) & (values <= bounds[1])  # false for NaN
    if not within.all():
        row = int(np.argmin(within))
        if column in LOS and not np.isnan(values[row]):
            fail(row, column, *outside(values[row], bounds))
        fail(row, column, "no value" if np.isnan(values[row]) else f"{values[row]:.10g}", _wanted(bounds))
    return values


def _known(
    table: pa.Table, column: str, bounds: tuple[float, float], missing: Missing, fail: Fail
) -> NDArray[np.float64]:
    """Read numbers as `_numbers` does, with NaN for missing values and their codes."""
    values = np.array(table[column].to_numpy(), float)
    missing.drop_in_column(values, column in HEIGHTS)
    bad = (values < bounds[0]) | (values > bounds[1])
    if bad.any():
        row = int(np.argmax(bad))
        fail(row, column, *outside(values[row], bounds))
    return values


def _wanted(bounds: tuple[float, float]) -> str:
    return f"a number from {bounds[0]:g} to {bounds[1]:g} is needed"


def _identifiers(table: pa.Table, first: int) -> NDArray[np.object_]:
    names = np.asarray(table["pid"].to_pylist(), object)
    for row in np.flatnonzero(names == ""):  # no point is lost for its name: it is called by its row
        names[row] = point_name(first + int(row) + 1)
    return names


def _lines_of_sight(table: pa.Table, missing: Missing, fail: Fail) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the lines of sight (N, 3), and which points have one; that of others, with a stated code, points up."""
    seen = np.ones(len(table), bool)
    for name in LOS if missing.has_stated else ():
        seen &= ~missing.stated(np.asarray(table[name].to_numpy(), float))
    if seen.all():
        return _line_of_sight(table, fail), seen
    rows, los = np.flatnonzero(seen), np.tile(DIRECTIONS["up"], (len(table), 1))
    los[seen] = _line_of_sight(table.filter(pa.array(seen)), lambda row, *about: fail(int(rows[row]), *about))
    return los, seen


def _line_of_sight(table: pa.Table, fail: Fail) -> NDArray[np.float64]:
    los = np.stack([_numbers(table, name, (-1.001, 1.001), fail) for name in LOS], axis=1)
    length = np.linalg.norm(los, axis=1)
    bad = np.abs(length - 1) > UNIT_TOLERANCE
    if bad.any():
        row = int(np.argmax(bad))
        fail(row, ", ".join(LOS), f"a vector of length {length[row]:.3f}", "a unit vector is needed")
    down = los[:, 2] <= 0
    if down.any():
        row = int(np.argmax(down))
        fail(row, LOS[2], f"{los[row, 2]:g}", "a vector from ground to satellite points up")
    return los


def _series(table: pa.Table, days: tuple[str, ...], missing: Missing, fail: Fail) -> NDArray[np.float32]:
    displacement = np.empty((len(table), len(days)), np.float32)
    first = 0
    for batch in table.select(days).to_batches():  # as they were parsed: small enough to be turned within the cache
        rows = slice(first, first := first + len(batch))
        for index, column in enumerate(batch.columns):
            displacement[rows, index] = column.to_numpy(zero_copy_only=False)
    missing.drop(displacement)
    # In one go over all epochs, and only then by column; NaN, a missing value, is passed over.
    highest, lowest = (float(most.reduce(displacement, axis=None, initial=0)) for most in (np.fmax, np.fmin))
    if max(highest, -lowest) > MAX_DISPLACEMENT_MM:
        bad = np.abs(displacement) > MAX_DISPLACEMENT_MM
        index = int(np.argmax(bad.any(axis=0)))
        row = int(np.argmax(bad[:, index]))
        wanted = f"at most {MAX_DISPLACEMENT_MM:g} mm either way is possible: check the unit, mm is needed"
        fail(row, days[index], f"{displacement[row, index]:g}", wanted)
    return displacement


DIRECTIONS = {"up": (0.0, 0.0, 1.0), "east": (1.0, 0.0, 0.0)}
LETTERS = {"U": "up", "E": "east"}
CELLS = "an EGMS L3 product: its points are means over cells of 100 m"


def is_ortho(header: list[str]) -> bool:
    """Return whether the columns are those of an EGMS product without any line of sight."""
    return is_egms(header) and not {*LOS, COHERENCE, "incidence_angle", "mp_type"}.intersection(header)


def open_ortho(product: CsvFile, header: list[str], about: params.Product, crs: str | None) -> PointSource:
    """Open an L3 product as a track with a line of sight that points up, or east.

    Raises:
        InputError: a column is missing or a day impossible, or nothing says which component it is; what concerns rows,
            where reading gets to them.
    """
    component, notes = find_component(product, about)
    layout = replace(ortho_layout(product, header, component), missing=about.missing)
    return noted(open_csv_table(product, header, layout, about.track or product.path.stem, crs), product, notes)


def ortho_layout(product: CsvFile, header: list[str], component: str) -> TableLayout:
    """Return the layout of the columns.

    Raises:
        InputError: a column named by eight digits is no day.
    """
    days = find_days(str(product), header, "%Y%m%d")
    warn_of_unread(str(product), [name for name in header if name not in days], "YYYYMMDD")
    return TableLayout(
        days=days,
        x="easting",
        y="northing",
        crs=CRS,
        to_mm=1.0,
        los=DIRECTIONS[component],
        point_id="pid",
        height=next((name for name in HEIGHTS if name in header), HEIGHTS[0]),
        rmse=next((name for name in RMSE if name in header), None),
        x_range=RANGES["easting"],
        y_range=RANGES["northing"],
        cells=True,
    )


def find_component(product: CsvFile, about: params.Product) -> tuple[str, tuple[str, ...]]:
    """Return `up` or `east`, as stated or by the letter in the csv's or the file's name, and notes on the choice.

    Raises:
        InputError: neither says it, or the two names contradict each other.
    """
    if about.component is not None:
        return about.component, (CELLS,)
    names = [product.path.stem, *([PurePosixPath(product.member).stem] if product.member else [])]
    said = {LETTERS[part] for name in names for part in re.split(r"[_\-. ]", name) if part in LETTERS}
    if len(said) != 1:
        found = "both E and U stand" if said else "neither E nor U stands"
        raise InputError(
            f"{product}: an EGMS L3 product, whose columns do not say whether it is up or east, and {found} in its "
            f"name. Write these lines into {params.PARAMS_FILE}:\n"
            f"ingest:\n  products:\n    {product.path.name!r}: {{component: up}}  # or east"
        )
    (component,) = said
    return component, (CELLS, f"by its name, the motion is {component}")
