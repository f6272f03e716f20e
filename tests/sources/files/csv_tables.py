"""A csv of a name and a number, as small as a test wants it."""

from pathlib import Path

import pyarrow as pa

from plumbline.sources.files.csv_table import read_columns, read_header
from plumbline.sources.files.streams import CsvFile

TYPES = {"name": pa.string(), "x": pa.float64()}


def product(tmp_path: Path, content: str | bytes) -> CsvFile:
    path = tmp_path / "t.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return CsvFile(path)


def read(tmp_path: Path, content: str | bytes) -> dict[str, list[object]]:
    source = product(tmp_path, content)
    return read_columns(source, read_header(source), TYPES).to_pydict()
