"""Recognise a file by the patterns of `ingest.products` and `ingest.footprints`, and by its first bytes."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from plumbline import params

FOREIGN = {
    b"II*\0": "GeoTIFF",
    b"MM\0*": "GeoTIFF",
    b"II+\0": "GeoTIFF",
    b"MM\0+": "GeoTIFF",
    b"CDF": "NetCDF file",
    b"MATLAB 5.0": "MATLAB file",
    b"%PDF": "PDF",
    b"Rar!": "rar archive",
    b"7z\xbc\xaf": "7z archive",
    b"BZh": "bzip2 archive",
    b"\xfd7zXZ": "xz archive",
    b"\xd0\xcf\x11\xe0": "workbook of Excel 97",
    b"\0\x01\0\0Standard": "database of Access",
    b"<?xml": "XML file (KML, GML)",
    b"<kml": "KML file",
    b"<!DOCTYPE": "web page",
    b"<!doctype": "web page",
    b"<html": "web page",
}
"""What a file begins with -> what it is."""
START_BYTES = 64
"""Read of a file to tell what it is: more than any of its readers looks at, a byte order mark before it included."""
RASTERS = ("GeoTIFF", "NetCDF file")


def first_bytes(path: Path) -> bytes:
    """Return the first bytes of a file; empty if it cannot be read, which the csv reader then reports."""
    try:
        with path.open("rb", buffering=0) as stream:
            return stream.read(START_BYTES)
    except OSError:
        return b""


def describe_foreign(start: bytes) -> str | None:
    """Name the type of a file that is not a table of points, with advice; None for a possible table.

    Args:
        start: its `first_bytes`.
    """
    start = start.removeprefix(b"\xef\xbb\xbf")
    kind = next((kind for begins, kind in FOREIGN.items() if start.startswith(begins)), None)
    if kind is None:
        return None
    article = "an" if kind.startswith("XML") else "a"
    if kind in RASTERS:
        return (
            f"{article} {kind}. Give points: a raster's cells as rows of a csv, with a column of displacements an epoch"
        )
    return f"{article} {kind}. Export its table as csv, or its layer of points as GeoPackage"


def fits(path: Path, pattern: str) -> bool:
    """Return whether a pattern fits a file: its name, and as many of its folders as the pattern has.

    `ts.csv` and `*.csv` fit `asc/ts.csv` and `desc/ts.csv`, `asc/*.csv` the first of them alone. A name that is the
    pattern fits, whatever is in it: `a[1].csv` is not only `a1.csv`.
    """
    parts = path.absolute().parts
    tail = "/".join(parts[-1 - pattern.lstrip("/").count("/") :])
    pattern = pattern.lstrip("/")
    return tail == pattern or fnmatchcase(tail, pattern)


def product_params(path: Path, products: Mapping[str, params.Product]) -> params.Product:
    """Return the settings of the first pattern in `products` that fits the file, or else empty settings."""
    return next((about for pattern, about in products.items() if fits(path, pattern)), params.Product())
