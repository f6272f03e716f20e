"""Read EGMS products as Parquet: the columns of the csv, of any level and either generation of the header."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pyarrow.parquet as pq

from plumbline import params
from plumbline.core.errors import InputError
from plumbline.sources.files.opened import AnyFile, OpenedFile, as_file
from plumbline.sources.files.streams import CsvFile
from plumbline.sources.points.formats.egms import egms_layout, is_egms
from plumbline.sources.points.source import PointSource, noted
from plumbline.sources.points.table import open_table

START = b"PAR1"
ROWS = 16_384
"""Read at a time."""
MAX_GROUP_BYTES = 4 * 2**30
"""Largest row group, unpacked; a real one of a million points and 300 epochs has 1.2 GB."""
GEOMETRY = b"geo"
"""Key in the metadata of a GeoParquet file: footprints, most likely."""
FAULTS = (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError)
"""What Arrow raises on a damaged file."""
Groups = tuple[int, int | None]
"""Row groups of a part of a file: from the first on, to before the second; None: to the end."""
WHOLE: Groups = (0, None)


def is_parquet(start: bytes) -> bool:
    """Return whether a file with this beginning is Parquet, whole or not."""
    return start.startswith(START)


def is_point_table(file: AnyFile) -> bool:
    """Return whether a Parquet file is a product, and not one of footprints.

    Raises:
        InputError: it cannot be read.
    """
    schema = as_file(file).kept(_open).schema_arrow
    return is_egms(list(schema.names)) and GEOMETRY not in (schema.metadata or {})


def read_names(file: AnyFile) -> list[str]:
    """Read the names of the columns.

    Raises:
        InputError: the file is damaged.
    """
    return list(as_file(file).kept(_open).schema_arrow.names)


def group_parts(file: AnyFile, part_bytes: int) -> list[Groups]:
    """Group the file's row groups into runs of about `part_bytes` each, unpacked, or of a single group.

    Raises:
        InputError: the file is damaged.
    """
    cuts, size = [0], 0
    metadata = as_file(file).kept(_open).metadata
    for index in range(metadata.num_row_groups):
        own = metadata.row_group(index).total_byte_size
        if index > cuts[-1] and size + own > part_bytes:
            cuts.append(index)
            size = 0
        size += own
    return list(zip(cuts, [*cuts[1:], None], strict=True))


def open_parquet(opened: OpenedFile, about: params.Product, crs: str | None, groups: Groups = WHOLE) -> PointSource:
    """Open an EGMS product in Parquet, or a part of one.

    Args:
        opened: the file. about: what is stated of it. crs: projected CRS that is wanted; None: that of the file.
        groups: row groups to read, see `group_parts`.

    Raises:
        InputError: the file is damaged, is no EGMS product, lacks a column, or has one of another type; what concerns
            rows, where reading gets to them.
    """
    path = opened.path
    product, header = CsvFile(path), read_names(opened)
    _check_size(path, opened.kept(_open))
    if len(set(header)) < len(header):
        raise InputError(
            f"{path}: column {next(n for n in header if header.count(n) > 1)!r} stands there more than once."
        )
    if not is_egms(header):
        raise InputError(
            f"{path}: a Parquet file, but not of an EGMS product; its columns are {', '.join(header)[:300]}. Write it "
            "as csv and describe its columns (docs/formats.md)."
        )
    layout, notes = egms_layout(product, header, about)
    source = open_table(
        str(path),
        header,
        layout,
        about.track or path.stem,
        crs,
        rows=lambda types: _rows(opened, types, groups),
        fail_row=_Fail(path),
        is_whole=groups == WHOLE,
    )
    return noted(source, path, notes)


def _open(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path, pre_buffer=False)  # which would keep all groups until the last is read
    except FAULTS as error:
        raise InputError(f"{path}: not readable as Parquet ({_first_line(error)}). Download it again.") from None


def _check_size(path: Path, file: pq.ParquetFile) -> None:
    groups = range(file.metadata.num_row_groups)
    largest = max((file.metadata.row_group(index).total_byte_size for index in groups), default=0)
    if largest > MAX_GROUP_BYTES:
        raise InputError(
            f"{path}: a row group of {largest:,} bytes, at most {MAX_GROUP_BYTES:,} are read. "
            "Write it with smaller ones."
        )


def _rows(opened: OpenedFile, types: Mapping[str, pa.DataType], groups: Groups) -> Iterator[tuple[int, pa.Table]]:
    # A file of its own: Arrow's cannot be read in several threads, as parts of a product are.
    path, file = opened.path, _open(opened.path)
    first = sum(file.metadata.row_group(index).num_rows for index in range(groups[0]))
    wanted = list(range(file.metadata.num_row_groups))[slice(*groups)]
    if not wanted:
        return
    batches = file.iter_batches(batch_size=ROWS, row_groups=wanted, columns=list(types))
    while True:
        try:
            batch = next(batches, None)
            if batch is not None:
                batch.validate(full=True)  # a changed byte may be no text in UTF-8
        except FAULTS as error:
            raise InputError(f"{path}: damaged after row {first} ({_first_line(error)}). Download it again.") from None
        if batch is None:
            return
        if batch.num_rows:
            yield first, _cast(path, first, batch, types)
            first += batch.num_rows


def _cast(path: Path, first: int, batch: pa.RecordBatch, types: Mapping[str, pa.DataType]) -> pa.Table:
    arrays = []
    for name, wanted in types.items():
        values = batch.column(name)
        is_text = pa.types.is_string(wanted)
        kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
        fits = pa.types.is_integer(kind) or (
            (pa.types.is_string(kind) or pa.types.is_large_string(kind)) if is_text else pa.types.is_floating(kind)
        )
        if not fits:
            raise InputError(f"{path}, column {name}: {kind} found, {'text is' if is_text else 'numbers are'} needed.")
        try:
            values = values.cast(wanted, safe=False)
            arrays.append(values.fill_null("") if is_text else values)
        except FAULTS as error:
            raise InputError(f"{path}, row {first + 1} and on, column {name}: {_first_line(error)}.") from None
    return pa.table(dict(zip(types, arrays, strict=True)))


class _Fail:
    """Refuses a row by its number, from 1."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, row: int, column: str, found: object, wanted: str) -> NoReturn:
        raise InputError(f"{self._path}, row {row + 1}, column {column}: {found} found, {wanted}.")


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
