"""Read points from a table: columns of stated meaning become blocks of a checked track."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.sources.checks.values import drop_codes, drop_height_codes, warn_of_rounding
from plumbline.sources.crs import (
    LATITUDES,
    LONGITUDES,
    Box,
    Projection,
    Range,
    is_globe,
    most_of,
    projection,
    typical_box,
)
from plumbline.sources.files.archive import BUFFER_BYTES, CsvFile
from plumbline.sources.files.csv_table import fail_at, stream_columns
from plumbline.sources.points.epochs import average_same_days, same_day_notes
from plumbline.sources.points.reader_base import (
    HEIGHT_RANGE,
    MAX_DISPLACEMENT_MM,
    MIN_EPOCHS,
    OUT_OF_ORDER,
    UNIT_TOLERANCE,
    Angles,
    Fail,
    PointSource,
    TableLayout,
)
from plumbline.sources.track import Track, drop_without_height, los_from_heading

Floats = NDArray[np.float64]
INCIDENCES, HEADINGS = (1.0, 89.0), (-360.0, 360.0)
Rows = Callable[[Mapping[str, pa.DataType]], Iterator[tuple[int, pa.Table]]]
"""Gives some columns of a file, block by block, with the index of the block's first row."""


def open_csv_table(product: CsvFile, header: list[str], layout: TableLayout, name: str, crs: str | None) -> PointSource:
    """Open a csv whose columns are known.

    Args:
        product: the csv. header: its `read_header`.
        layout: what its columns are.
        name: of the track.
        crs: projected CRS that is wanted; None: that of the file, or the UTM zone of its middle.

    Raises:
        InputError: a column is missing, there are too few epochs, or the points lie outside of the CRS; what concerns
            rows, where reading gets to them.
    """
    if not layout.fixed_decimals and product.end is None:
        _check_line_end(product)
    return open_table(
        str(product),
        header,
        layout,
        name,
        crs,
        rows=lambda types: stream_columns(product, header, types, check_end=layout.fixed_decimals),
        fail_row=lambda row, column, found, wanted: fail_at(product, row, column, found, wanted),
        is_whole=product.is_whole,
    )


def open_table(
    source: str,
    header: list[str],
    layout: TableLayout,
    name: str,
    crs: str | None,
    rows: Rows,
    fail_row: Fail,
    is_whole: bool = True,
) -> PointSource:
    """As `open_csv_table`, for any file that gives `rows`; `fail_row` refuses one of them, counted from 0.

    A part of a file may be without points, a whole file (`is_whole`) not.
    """
    missing = [column for column in layout.types if column not in header]
    if missing:
        shown = ", ".join(header)[:600]
        raise InputError(f"{source}: column {', '.join(missing[:8])} is missing; the header has {shown}.")
    epochs = np.unique(np.array(list(layout.days.values()), "datetime64[D]"))
    if len(epochs) < MIN_EPOCHS:
        raise InputError(f"{source}: {len(epochs)} epochs found, at least {MIN_EPOCHS} are needed.")
    reader = _Reader(source, layout, rows, fail_row, is_whole)
    plane = projection(source, layout.crs, crs, lambda: reader.extent(whole=crs is None))
    days = sorted(layout.days, key=lambda column: layout.days[column])
    notes = same_day_notes(days, np.array([layout.days[column] for column in days], "datetime64[D]"))
    notes += [OUT_OF_ORDER] if days != list(layout.days) else []
    if layout.height is None:
        notes.append("it has no heights; all points are taken to be of one height")
    for note in notes:
        log.info("%s: %s.", source, note)

    def blocks() -> Iterator[Track]:
        empty = is_whole
        for number, (first, table) in enumerate(reader.read(layout.types)):
            empty = False
            if not number and not layout.cells:
                warn_of_rounding(source, *reader.positions(first, table), is_globe(source, layout.crs))
            yield reader.track(name, plane, epochs, days, first, table)
        if empty:
            raise InputError(f"{source}: it has a header, but no points. Download it again, or leave it out.")

    return PointSource(name, plane.crs, epochs, blocks, tuple(notes))


def _check_line_end(product: CsvFile) -> None:
    """Refuse a file that may end within a cell: cut, 0.00225 still is a number."""
    last = b""
    with product.open() as stream:
        if product.is_cuttable:
            stream.seek(-1, io.SEEK_END)
        while data := stream.read(BUFFER_BYTES):
            last = data[-1:]
    if last not in (b"\n", b"\r"):
        raise InputError(
            f"{product}: the last line has no line end, its last cell may be cut off. Download or export the file "
            "again; if it is whole, add a line break at its end."
        )


@dataclass(frozen=True)
class _Reader:
    source: str
    layout: TableLayout
    rows: Rows
    fail_row: Fail
    is_whole: bool

    def read(self, types: Mapping[str, pa.DataType]) -> Iterator[tuple[int, pa.Table]]:
        for first, table in self.rows(types):
            skip = max(self.layout.skip - first, 0)
            if len(table) > skip:
                yield first + skip, table.slice(skip)

    def extent(self, whole: bool) -> Box | None:
        """Where most points lie, of all or of the first block's; None without points.

        Only for a zone all of the file is read once more: how far metres are stretched, a block shows.
        """
        globe = is_globe(self.source, self.layout.crs)
        places = []
        for first, table in self.read(dict.fromkeys((self.layout.x, self.layout.y), pa.float64())):
            x, y = self.positions(first, table)
            places.append((x, y))
            if not (whole and globe):
                break
        if not places:
            return None
        x, y = (np.concatenate(values) for values in zip(*places, strict=True))
        return typical_box(self.source, x, y) if globe else most_of(x, y)

    def positions(self, first: int, table: pa.Table) -> tuple[Floats, Floats]:
        layout = self.layout
        if not is_globe(self.source, layout.crs):
            return self.numbers(first, table, layout.x, layout.x_range), self.numbers(
                first, table, layout.y, layout.y_range
            )
        swapped = " (or are latitude and longitude swapped?)"
        y = self.numbers(first, table, layout.y, LATITUDES, swapped)
        return self.numbers(first, table, layout.x, LONGITUDES), y

    def track(
        self, name: str, plane: Projection, epochs: NDArray[np.datetime64], days: list[str], first: int, table: pa.Table
    ) -> Track:
        layout = self.layout
        easting, northing = plane(*self.positions(first, table))
        if not (np.isfinite(easting) & np.isfinite(northing)).all():
            row = int(np.argmin(np.isfinite(easting) & np.isfinite(northing)))
            self.fail_row(first + row, f"{layout.x}, {layout.y}", "a place", f"one within {plane.crs} is needed")
        coherence, rmse, height = layout.coherence, layout.rmse, layout.height
        track = Track(
            name=name,
            crs=plane.crs,
            epochs=epochs,
            point_id=self.identifiers(first, table),
            easting=easting,
            northing=northing,
            height=np.zeros(len(table)) if height is None else self.known(first, table, height, HEIGHT_RANGE),
            los=self.line_of_sight(first, table),
            displacement=average_same_days(self.series(first, table, days), np.sort([*layout.days.values()])),
            coherence=None if coherence is None else self.known(first, table, coherence, (0, 1)).astype(np.float32),
            rmse=None if rmse is None else self.errors(first, table, rmse),
        )
        return drop_without_height(track)

    def numbers(self, first: int, table: pa.Table, column: str, bounds: Range, hint: str = "") -> Floats:
        values = np.asarray(table[column].to_numpy(), float)
        within = (values >= bounds[0]) & (values <= bounds[1])  # false for NaN
        if not within.all():
            row = int(np.argmin(within))
            found = "no value" if np.isnan(values[row]) else f"{values[row]:.10g}"
            self.fail_row(first + row, column, found, f"a number from {bounds[0]:g} to {bounds[1]:g} is needed{hint}")
        return values

    def known(self, first: int, table: pa.Table, column: str, bounds: Range) -> Floats:
        """As `numbers`, with NaN where there is no value, or what programs write in its place."""
        values = np.array(table[column].to_numpy(), float)
        drop = drop_height_codes if column == self.layout.height else drop_codes
        drop(values)
        bad = (values < bounds[0]) | (values > bounds[1])
        if bad.any():
            row = int(np.argmax(bad))
            wanted = f"a number from {bounds[0]:g} to {bounds[1]:g} is needed"
            self.fail_row(first + row, column, f"{values[row]:.10g}", wanted)
        return values

    def errors(self, first: int, table: pa.Table, column: str) -> NDArray[np.float32]:
        """Root mean square errors in mm; where there is none, NaN."""
        values = np.array(table[column].to_numpy(), float)
        drop_codes(values)
        with np.errstate(over="ignore"):
            values *= self.layout.rmse_to_mm
        bad = (values < 0) | (values > MAX_DISPLACEMENT_MM)
        if bad.any():
            row = int(np.argmax(bad))
            self.fail_row(first + row, column, f"{values[row]:.6g} mm", f"0 to {MAX_DISPLACEMENT_MM:g} mm is possible")
        return values.astype(np.float32)

    def identifiers(self, first: int, table: pa.Table) -> NDArray[np.object_]:
        column = self.layout.point_id
        if column is None:
            start = first - self.layout.skip + 1
            return np.array([f"P{number:07d}" for number in range(start, start + len(table))], object)
        names = np.array([str(name or "").strip() for name in table[column].to_pylist()], object)
        if not all(names):
            self.fail_row(first + int(np.argmax(names == "")), column, "no value", "an identifier is needed")
        return names

    def line_of_sight(self, first: int, table: pa.Table) -> Floats:
        given = self.layout.los
        if isinstance(given, Angles):
            angles = [
                self.numbers(first, table, angle, bounds) if isinstance(angle, str) else np.full(len(table), angle)
                for angle, bounds in ((given.incidence, INCIDENCES), (given.heading, HEADINGS))
            ]
            return los_from_heading(*angles)
        columns = [name for name in given if isinstance(name, str)]
        if not columns:
            return np.tile(np.asarray(given, float), (len(table), 1))
        vector = np.stack([self.numbers(first, table, name, (-1.001, 1.001)) for name in columns], axis=1)
        length = np.linalg.norm(vector, axis=1)
        bad = np.abs(length - 1) > UNIT_TOLERANCE
        if bad.any():
            row = int(np.argmax(bad))
            found = f"a vector of length {length[row]:.3f}"
            self.fail_row(first + row, ", ".join(columns), found, "a unit vector is needed")
        if (vector[:, 2] <= 0).any():
            row = int(np.argmax(vector[:, 2] <= 0))
            found = f"{vector[row, 2]:g}"
            self.fail_row(first + row, columns[2], found, "a vector from ground to satellite points up")
        return vector

    def series(self, first: int, table: pa.Table, days: list[str]) -> NDArray[np.float32]:
        displacement = np.empty((len(table), len(days)), np.float32)
        for index, column in enumerate(days):
            with np.errstate(over="ignore"):
                values = np.array(table[column].to_numpy(), float)
                drop_codes(values)
                values *= self.layout.to_mm
            bad = np.abs(values) > MAX_DISPLACEMENT_MM  # false for NaN, which is a missing value
            if bad.any():
                row = int(np.argmax(bad))
                wanted = f"at most {MAX_DISPLACEMENT_MM:g} mm either way is possible"
                self.fail_row(first + row, column, f"{values[row]:g} mm", wanted)
            displacement[:, index] = values
        return displacement
