"""What a file of points is, told once by `formats.recognise` and handed to whoever reads it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from plumbline import params
from plumbline.sources.files.archive import CsvFile


@dataclass(frozen=True)
class ProductFile:
    """A file of points that has been recognised.

    It goes to other processes, so it holds no open file. A file that is replaced after it was recognised is read as it
    was written before.
    """

    path: Path
    about: params.Product
    """What `ingest.products` says of it."""
    kind: Literal["hdf5", "parquet", "layer", "csv"]
    format: str
    """Key of `formats.FORMATS`."""
    csv: CsvFile | None
    """How to read it as a csv; None of HDF5 and Parquet."""
    header: tuple[str, ...]
    """Names of its columns; none of HDF5."""
