"""Read points from a table: columns of stated meaning become blocks of a checked track."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from plumbline.core.errors import InputError
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
from plumbline.sources.datum_errors import warn_of_datum_error
from plumbline.sources.files.csv_table import fail_at, stream_columns
from plumbline.sources.files.streams import CsvFile
from plumbline.sources.points.epochs import MIN_EPOCHS, average_same_days, same_day_notes
from plumbline.sources.points.missing import Missing, warn_of_rounding
from plumbline.sources.points.source import (
    HEIGHT_RANGE,
    MAX_DISPLACEMENT_MM,
    MAX_RMSE_MM,
    OUT_OF_ORDER,
    UNIT_TOLERANCE,
    Angles,
    PointSource,
    TableLayout,
    add_notes,
    describe_displacements,
    describe_outside,
)
from plumbline.sources.points.track import (
    NO_SIGHT,
    Track,
    drop_without_height,
    los_from_heading,
    point_name,
)

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]
"""Rows of points in a table, from 0."""
INCIDENCES, HEADINGS = (1.0, 89.0), (-360.0, 360.0)
TURN_RAD = 2 * np.pi


def open_table(
    product: CsvFile, header: list[str], layout: TableLayout, name: str, crs: str | None
) -> PointSource:
    """Open a table with known columns: a csv, a layer, or a Parquet file.

    A part of a file may be without points, a whole file not.

    Args:
        product: the table. header: names of its columns.
        layout: what its columns are.
        name: of the track.
        crs: projected CRS that is wanted; None: that of the file, or the UTM zone of its middle.

    Raises:
        InputError: a column is missing, there are too few epochs, or the points are outside
            of the CRS; what concerns rows, where reading gets to them.
    """
    source = str(product)
    missing = [column for column in layout.types if column not in header]
    if missing:
        shown = ", ".join(header)[:600]
        raise InputError(
            f"{source}: column {', '.join(missing[:8])} is missing; the header has {shown}.",
            key="csv.missing_column",
        )
    epochs = np.unique(np.array(list(layout.days.values()), "datetime64[D]"))
    if len(epochs) < MIN_EPOCHS:
        raise InputError(
            f"{source}: {len(epochs)} epochs found, at least {MIN_EPOCHS} are needed.",
            key="epochs.too_few",
        )
    codes = Missing(source, layout.missing)
    reader = _TableReader(product, header, layout, codes)
    plane = projection(
        source,
        layout.crs,
        crs,
        lambda: None if layout.is_true_to_ground else reader.extent(whole=crs is None),
    )
    days = sorted(layout.days, key=lambda column: layout.days[column])
    notes = same_day_notes(
        days, np.array([layout.days[column] for column in days], "datetime64[D]")
    )
    notes += [OUT_OF_ORDER] if days != list(layout.days) else []
    if layout.height is None:
        notes.append("it has no heights; all points are taken to be of one height")

    def blocks() -> Iterator[Track]:
        empty = product.is_whole
        for number, (rows, table) in enumerate(reader.read(layout.types)):
            empty = False
            if not number and not layout.cells:
                warn_of_rounding(
                    source, *reader.positions(rows, table), is_globe(source, layout.crs)
                )
            points = reader.track(rows, table, name=name, plane=plane, epochs=epochs, days=days)
            if not number and product.start == 0 and plane.transformer and len(points):
                x, y = map(float, np.nanmedian(reader.positions(rows, table), axis=1))
                warn_of_datum_error(source, [plane.transformer], (x, y), plane.crs)
            yield points
        if empty:
            raise InputError(
                f"{source}: it has a header, but no points. Download it again, or leave it out.",
                key="points.none",
            )
        codes.warn_of_codes()

    opened = PointSource(
        name, plane.crs, epochs, blocks, (), layout.origins, describe_displacements(layout.to_mm)
    )
    return add_notes(opened, source, notes)


@dataclass(frozen=True)
class _TableReader:
    product: CsvFile
    header: list[str]
    layout: TableLayout
    missing: Missing

    def refuse(self, row: np.intp, column: str, cell: str, wanted: str, *, key: str) -> NoReturn:
        """Refuse a row, from 0; as `fail_at`."""
        fail_at(self.product, int(row), column, cell, wanted, key=key)

    def read(self, types: Mapping[str, pa.DataType]) -> Iterator[tuple[Rows, pa.Table]]:
        """Yield blocks of points, and their rows (N,) in the table."""
        for first, table in stream_columns(self.product, self.header, types):
            skip = max(self.layout.skip - first, 0)
            if len(table) > skip:
                yield np.arange(first + skip, first + len(table)), table.slice(skip)

    def extent(self, whole: bool) -> Box | None:
        """Return the box of most points, of all blocks or of the first; None without points.

        All of the file is read only for the choice of a zone: one block shows how far metres are
        stretched.
        """
        source = str(self.product)
        globe = is_globe(source, self.layout.crs)
        places = []
        for rows, table in self.read(dict.fromkeys((self.layout.x, self.layout.y), pa.float64())):
            x, y = self.positions(rows, table)
            places.append((x, y))
            if not (whole and globe):
                break
        if not places:
            return None
        x, y = (np.concatenate(values) for values in zip(*places, strict=True))
        return typical_box(source, x, y) if globe else most_of(x, y, self.layout.crs)

    def positions(self, rows: Rows, table: pa.Table) -> tuple[Floats, Floats]:
        layout = self.layout
        if not is_globe(str(self.product), layout.crs):
            x = self.numbers(rows, table, layout.x, layout.x_range)
            return x, self.numbers(rows, table, layout.y, layout.y_range)
        swapped = " (or are latitude and longitude swapped?)"
        y = self.numbers(rows, table, layout.y, LATITUDES, swapped)
        return self.numbers(rows, table, layout.x, LONGITUDES), y

    def track(
        self,
        rows: Rows,
        table: pa.Table,
        *,
        name: str,
        plane: Projection,
        epochs: NDArray[np.datetime64],
        days: list[str],
    ) -> Track:
        layout = self.layout
        has_sight, count = self.has_sight(table), len(table)
        rows, table = (
            rows[has_sight],
            table if has_sight.all() else table.filter(pa.array(has_sight)),
        )
        easting, northing = plane(*self.positions(rows, table))
        if not (np.isfinite(easting) & np.isfinite(northing)).all():
            row = int(np.argmin(np.isfinite(easting) & np.isfinite(northing)))
            self.refuse(
                rows[row],
                f"{layout.x}, {layout.y}",
                "a place",
                f"one within {plane.crs} is needed",
                key="points.outside_crs",
            )
        coherence, rmse, height = layout.coherence, layout.rmse, layout.height
        to_mm = layout.rmse_to_mm
        rmses = (0.0, MAX_RMSE_MM / to_mm)
        track = Track(
            name=name,
            crs=plane.crs,
            epochs=epochs,
            point_id=self.identifiers(rows, table),
            easting=easting,
            northing=northing,
            height=np.zeros(len(table))
            if height is None
            else self.numbers_or_nan(rows, table, height, HEIGHT_RANGE),
            los=self.line_of_sight(rows, table),
            displacement=average_same_days(
                self.series(rows, table, days), np.sort([*layout.days.values()])
            ),
            coherence=None
            if coherence is None
            else self.numbers_or_nan(rows, table, coherence, (0, 1)).astype(np.float32),
            rmse=None
            if rmse is None
            else (self.numbers_or_nan(rows, table, rmse, rmses) * to_mm).astype(np.float32),
            dropped={} if has_sight.all() else {NO_SIGHT: count - len(table)},
        )
        return drop_without_height(track)

    def has_sight(self, table: pa.Table) -> NDArray[np.bool_]:
        """Return whether each point (N,) has a line of sight, and no stated code in one of
        its columns."""
        has_sight = np.ones(len(table), bool)
        for name in self.layout.sight if self.layout.missing else ():
            has_sight &= ~self.missing.stated(np.asarray(table[name].to_numpy(), float))
        return has_sight

    def numbers(
        self, rows: Rows, table: pa.Table, column: str, bounds: Range, hint: str = ""
    ) -> Floats:
        values = np.asarray(table[column].to_numpy(), float)
        is_within = (values >= bounds[0]) & (values <= bounds[1])  # false for NaN
        if not is_within.all():
            row = int(np.argmin(is_within))
            if not hint and column in self.layout.sight and not np.isnan(values[row]):
                self.refuse(
                    rows[row],
                    column,
                    *describe_outside(values[row], bounds),
                    key="points.out_of_range",
                )
            cell = "no value" if np.isnan(values[row]) else f"{values[row]:.10g}"
            self.refuse(
                rows[row],
                column,
                cell,
                f"a number from {bounds[0]:g} to {bounds[1]:g} is needed{hint}",
                key="points.out_of_range",
            )
        return values

    def numbers_or_nan(self, rows: Rows, table: pa.Table, column: str, bounds: Range) -> Floats:
        """Read numbers as `numbers` does, with NaN for missing values and their codes."""
        values = np.array(table[column].to_numpy(), float)
        self.missing.drop_in_column(values, column == self.layout.height)
        is_outside = (values < bounds[0]) | (values > bounds[1])
        if is_outside.any():
            row = int(np.argmax(is_outside))
            self.refuse(
                rows[row], column, *describe_outside(values[row], bounds), key="points.out_of_range"
            )
        return values

    def identifiers(self, rows: Rows, table: pa.Table) -> NDArray[np.object_]:
        column = self.layout.point_id
        if column is None:
            return np.array(
                [point_name(row) for row in (rows + 1 - self.layout.skip).tolist()], object
            )
        texts = pc.utf8_trim_whitespace(table[column].cast(pa.string()).fill_null(""))
        names = np.array(texts.to_numpy(), object)
        # One without a name is called by its row: no point is lost for its name.
        for place in np.flatnonzero(names == ""):
            names[place] = point_name(int(rows[place]) + 1)
        return names

    def line_of_sight(self, rows: Rows, table: pa.Table) -> Floats:
        los = self.layout.los
        if isinstance(los, Angles):
            incidence = self.angles(rows, table, los.incidence, INCIDENCES, los.to_degrees)
            heading = self.angles(rows, table, los.heading, HEADINGS, los.to_degrees)
            return los_from_heading(incidence, heading + (180.0 if los.look == "left" else 0.0))
        columns = [name for name in los if isinstance(name, str)]
        if not columns:
            return np.tile(np.asarray(los, float), (len(table), 1))
        vector = np.stack(
            [self.numbers(rows, table, name, (-1.001, 1.001)) for name in columns], axis=1
        )
        length = np.linalg.norm(vector, axis=1)
        is_bad = np.abs(length - 1) > UNIT_TOLERANCE
        if is_bad.any():
            row = int(np.argmax(is_bad))
            actual = f"a vector of length {length[row]:.3f}"
            self.refuse(
                rows[row],
                ", ".join(columns),
                actual,
                "a unit vector is needed",
                key="sight.not_a_unit_vector",
            )
        if (vector[:, 2] <= 0).any():
            row = int(np.argmax(vector[:, 2] <= 0))
            cell = f"{vector[row, 2]:g}"
            self.refuse(
                rows[row],
                columns[2],
                cell,
                "a vector from ground to satellite points up",
                key="sight.not_up",
            )
        return vector

    def angles(
        self, rows: Rows, table: pa.Table, angle: str | float, bounds: Range, to_degrees: float
    ) -> Floats:
        if not isinstance(angle, str):
            return np.full(len(table), angle)
        values = np.asarray(table[angle].to_numpy(), float)
        hint = ""
        if to_degrees == 1 and len(values) and (np.abs(values) <= TURN_RAD).all() and values.any():
            hint = " (in degrees; for radians state units: {angle: rad})"
            if (
                bounds == HEADINGS
            ):  # no satellite's flight is so near north; incidences in radians are out of bounds
                wanted = f"a direction of flight is needed{hint}"
                self.refuse(rows[0], angle, f"{values[0]:.10g}", wanted, key="sight.radians")
        low, high = (bound / to_degrees for bound in bounds)
        return self.numbers(rows, table, angle, (low, high), hint) * to_degrees

    def series(self, rows: Rows, table: pa.Table, days: list[str]) -> NDArray[np.float32]:
        values, start = np.empty((len(table), len(days)), np.float32), 0
        for batch in table.select(
            days
        ).to_batches():  # as they were parsed: small enough to be turned in the cache
            part = slice(start, start := start + len(batch))
            with np.errstate(over="ignore"):
                for index, column in enumerate(batch.columns):
                    values[part, index] = column.to_numpy(zero_copy_only=False)
        self.missing.drop(values)
        with np.errstate(over="ignore"):
            values *= np.float32(self.layout.to_mm)
        most, least = (
            float(end.reduce(values, axis=None, initial=0)) for end in (np.fmax, np.fmin)
        )
        if max(most, -least) > MAX_DISPLACEMENT_MM:
            row, index = (int(at) for at in np.argwhere(np.abs(values) > MAX_DISPLACEMENT_MM)[0])
            wanted = f"at most {MAX_DISPLACEMENT_MM:g} mm either way is possible"
            self.refuse(
                rows[row],
                days[index],
                f"{values[row, index]:g} mm",
                wanted,
                key="points.impossible_displacement",
            )
        return values
