"""Files that are no tables, told by how they begin."""

from __future__ import annotations

from pathlib import Path

FOREIGN = {
    b"II*\0": "GeoTIFF", b"MM\0*": "GeoTIFF", b"II+\0": "GeoTIFF", b"MM\0+": "GeoTIFF", b"CDF": "NetCDF file",
    b"MATLAB 5.0": "MATLAB file", b"%PDF": "PDF", b"Rar!": "rar archive", b"7z\xbc\xaf": "7z archive",
    b"BZh": "bzip2 archive", b"\xfd7zXZ": "xz archive", b"\xd0\xcf\x11\xe0": "workbook of Excel 97",
    b"\0\x01\0\0Standard": "database of Access", b"<?xml": "XML file (KML, GML)", b"<kml": "KML file",
    b"<!DOCTYPE": "web page", b"<!doctype": "web page", b"<html": "web page",
}  # fmt: skip
"""What a file begins with -> what it is."""
LONGEST = max(map(len, FOREIGN))
RASTERS = ("GeoTIFF", "NetCDF file")


def foreign(path: Path) -> str | None:
    """What a file is that no reader of points takes, and what to do about it; None for what may be a table."""
    with path.open("rb") as stream:
        start = stream.read(LONGEST + 3).removeprefix(b"\xef\xbb\xbf")
    kind = next((kind for begins, kind in FOREIGN.items() if start.startswith(begins)), None)
    if kind is None:
        return None
    article = "an" if kind.startswith("XML") else "a"
    if kind in RASTERS:
        return (
            f"{article} {kind}. Give points: a raster's cells as rows of a csv, with a column of displacements an epoch"
        )
    return f"{article} {kind}. Export its table as csv, or its layer of points as GeoPackage"
