"""Read EGMS products as Parquet: the columns of the csv, of any level and either generation
of the header."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from plumbline.core.errors import InputError
from plumbline.sources.files.opened import AnyFile, as_file
from plumbline.sources.files.streams import ColumnFile
from plumbline.sources.points.formats.egms import is_egms

START = b"PAR1"
BATCH_ROWS = 16_384
"""Number of rows read in one step."""
GEOMETRY = b"geo"
"""Key in the metadata of a GeoParquet file: footprints, most likely."""
FAULTS = (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError)
"""Errors that Arrow raises on a damaged file."""


@dataclass(frozen=True)
class ParquetTable(ColumnFile):
    """A Parquet file."""

    def columns(
        self, header: Sequence[str], types: Mapping[str, pa.DataType]
    ) -> Iterator[tuple[int, pa.Table]]:
        """Yield blocks of the columns named in `types`, each with the index of its first row.

        Args:
            header: as `checked_names` makes it of the file's names. types: the columns to read.

        Raises:
            InputError: the file is damaged, or a column is of another type.
        """
        first = 0
        try:
            file = _open_parquet(self.path)
            stored_names = dict(
                zip(header, file.schema_arrow.names, strict=True)
            )  # in the header without spaces around them
            stored_columns = [stored_names[name] for name in types]
            for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=stored_columns):
                batch.validate(full=True)  # a changed byte may be no text in UTF-8
                if batch.num_rows:
                    yield (
                        first,
                        _cast_batch(
                            self.path,
                            first,
                            batch.select(stored_columns).rename_columns(list(types)),
                            types,
                        ),
                    )
                    first += batch.num_rows
        except FAULTS as error:
            raise InputError(
                f"{self}: damaged after row {first} ({_first_line(error)}). Download it again.",
                key="parquet.damaged",
            ) from None


def is_parquet(start: bytes) -> bool:
    """Return whether a file with this beginning is Parquet, whole or not."""
    return start.startswith(START)


def is_point_table(file: AnyFile) -> bool:
    """Return whether a Parquet file is a product, and not one of footprints.

    Raises:
        InputError: it cannot be read.
    """
    schema = as_file(file).cached(_open_parquet).schema_arrow
    return is_egms(list(schema.names)) and GEOMETRY not in (schema.metadata or {})


def read_names(file: AnyFile) -> list[str]:
    """Read the names of the columns.

    Raises:
        InputError: the file is damaged.
    """
    return list(as_file(file).cached(_open_parquet).schema_arrow.names)


def _open_parquet(path: Path) -> pq.ParquetFile:
    try:
        # Which would keep all groups until the last is read.
        return pq.ParquetFile(path, pre_buffer=False)
    except FAULTS as error:
        raise InputError(
            f"{path}: not readable as Parquet ({_first_line(error)}). Download it again.",
            key="parquet.unreadable",
        ) from None


def _cast_batch(
    path: Path, first: int, batch: pa.RecordBatch, types: Mapping[str, pa.DataType]
) -> pa.Table:
    arrays = []
    for name, wanted in types.items():
        values = batch.column(name)
        is_text = pa.types.is_string(wanted)
        kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
        fits = pa.types.is_integer(kind) or (
            (pa.types.is_string(kind) or pa.types.is_large_string(kind))
            if is_text
            else pa.types.is_floating(kind)
        )
        if not fits:
            raise InputError(
                f"{path}, column {name}: {kind} found, {'text is' if is_text else 'numbers are'} "
                "needed.",
                key="parquet.column_type",
            )
        try:
            values = values.cast(wanted, safe=False)
            arrays.append(values.fill_null("") if is_text else values)
        except FAULTS as error:
            raise InputError(
                f"{path}, row {first + 1} and on, column {name}: {_first_line(error)}.",
                key="parquet.not_of_type",
            ) from None
    return pa.table(dict(zip(types, arrays, strict=True)))


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
