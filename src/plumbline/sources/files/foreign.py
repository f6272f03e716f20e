"""Recognise files without points or footprints, and advise what to do with them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from plumbline.core.errors import InputError

ZIP_START = b"PK\x03\x04"
ZIP_STARTS = (ZIP_START, b"PK\x05\x06", b"PK\x07\x08")
"""First bytes of a zip, also of an empty one and of one in volumes. `PK` alone may begin a column's
name: PK_UID."""
GZIP_START = b"\x1f\x8b"
TAR, TAR_SIGN = "tar archive", slice(257, 262)
UNPACK = "Unpack it, and give the files in it"
TEXT_STARTS = (b"<", b"[", b"{", b"http", b"AC10", b"version ")
"""First bytes of texts that may be a server's answer or a document."""


def is_tar(start: bytes) -> bool:
    """Return whether bytes are the beginning of a tar archive."""
    return start[TAR_SIGN] == b"ustar"


FOREIGN = {
    b"II*\0": "GeoTIFF",
    b"MM\0*": "GeoTIFF",
    b"II+\0": "GeoTIFF",
    b"MM\0+": "GeoTIFF",
    b"CDF": "NetCDF file",
    b"MATLAB ": "MATLAB file",
    b"%PDF": "PDF",
    b"\x89PNG": "picture (PNG)",
    b"\xff\xd8\xff": "picture (JPEG)",
    b"\x93NUMPY": "NumPy file",
    b"Rar!": "rar archive",
    b"7z\xbc\xaf": "7z archive",
    b"\x28\xb5\x2f\xfd": "zstd archive",
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
"""First bytes of a file -> its type."""
RASTERS = ("GeoTIFF", "NetCDF file")
CELLS = "Give points: a raster's cells as rows of a csv, with a column of displacements an epoch"


def describe_foreign(start: bytes) -> str | None:
    """Name the type of a file that is not a table of points, with advice; None for a
    possible table.

    Args:
        start: its first bytes.
    """
    kind = kind_of(start.removeprefix(b"\xef\xbb\xbf"))
    if kind is None:
        return None
    if kind.endswith("archive"):
        return f"{kind}. {UNPACK}"
    if kind.endswith(RASTERS):
        return f"{kind}. {CELLS}"
    return f"{kind}. Export its table as csv, or its layer of points as GeoPackage"


def kind_of(start: bytes) -> str | None:
    """Name the type of a file with this beginning, as `a GeoTIFF`; None for one that is not
    listed."""
    kind = (
        TAR
        if is_tar(start)
        else next((name for begins, name in FOREIGN.items() if start.startswith(begins)), None)
    )
    return None if kind is None else f"{'an' if kind.startswith('XML') else 'a'} {kind}"


OF_TILES = (
    "map tiles, which cut and simplify buildings. Give the data that the tiles were made from."
)
NO_DATA = {
    re.compile(r'<OGR(?:VRT|WFS|OAPIF|CSW)DataSource|"gdal_streamed_alg"'): (
        "it holds no footprints, but points at other files or servers, which are not opened from "
        "within a file. Give the file that it points at."
    ),
    re.compile(r"\A[^\0]{1,100}\0[\s\S]{100,260}ustar"): f"a {TAR}. {UNPACK}.",
    re.compile(
        r'"osm3s"\s*:|\A\{[^{}\[\]]*"generator"\s*:\s*"Overpass|\A\{\s*"elements"\s*:\s*\['
    ): (
        "an answer of Overpass as its own JSON, not as GeoJSON. Export it as GeoJSON "
        "(overpass-turbo: Export; or `osmtogeojson IN > OUT.geojson`), or ask for `[out:xml]` with "
        "`(._;>;); out body;`."
    ),
    re.compile(
        r'\A(?![\s\S]*"features"\s*:)\{\s*"(?:errors?|detail|message|status|statusCode|'
        r'exceptions?)"\s*:|<Error>\s*<Code>'
    ): (
        "a server's error message instead of data; open it in an editor to read it. Ask the "
        "server anew."
    ),
    re.compile(r'\A\[\s*\{[^\[\]]*?"type"\s*:\s*"Feature"'): (
        "features in a list of their own, not in a collection. Put one around it: "
        """`jq '{type: "FeatureCollection", features: .}' IN > OUT.geojson`."""
    ),
    re.compile(
        r"\A\[\s*\{"
    ): "rows of a server as plain JSON. Ask it for GeoJSON (its address ends in .geojson there).",
    re.compile(
        r"\Ahttps?://\S+\s*(?:\Z|\n)"
    ): "a list of addresses, not the files there. Download the files that it names.",
    re.compile(
        r"\AAC10\d\d"
    ): "a drawing of AutoCAD (DWG). Export its closed outlines as GeoPackage or Shapefile.",
    re.compile(r"<(?:\w+:)?(?:WFS|WMS|WMTS)_(?:MS_)?Capabilities"): (
        "a server's list of its layers, not one of them. Ask for a layer (GetFeature)."
    ),
    re.compile(
        r"<qgis[\s>]|<!DOCTYPE qgis"
    ): "a project or style of QGIS, which holds no data. Give the layer's own file.",
    re.compile(r"<NetworkLink\b(?![\s\S]*<Placemark\b)"): (
        "a KML that only links to others, and holds no data. Ask the server for the layer itself."
    ),
    re.compile(r"<(?:\w+:)?(?:Service)?ExceptionReport"): (
        "a server's error message instead of data; open it in an editor to read it. Ask the "
        "server anew."
    ),
    re.compile(r"\A\s*(?:<!doctype html|<html)", re.IGNORECASE): (
        "a web page instead of data, such as one that asks to log in. Download the file itself."
    ),
    re.compile(
        r"\Aversion https://git-lfs"
    ): "a pointer of Git LFS instead of the file. Run `git lfs pull`.",
    re.compile(r"\APMTiles"): OF_TILES,
    re.compile(
        r"\A(?:\ufffd\ufffd)?\0?[{<\[]\0"
    ): "text in UTF-16, as PowerShell writes it. Save it as UTF-8.",
}
"""Pattern in the start of a file without data -> what it is, and what to do."""


def what_else(start: str) -> str | None:
    """Return what a file without data is by its beginning, and what to do; None for another."""
    return next((advice for sign, advice in NO_DATA.items() if sign.search(start)), None)


def check_zip(path: Path, start: bytes) -> None:
    """Refuse a file that is named .zip and begins otherwise: a server's answer often.

    Raises:
        InputError: it is none; the message has what it is instead, if that is recognised.
    """
    if path.suffix.lower() == ".zip" and not start.startswith((*ZIP_STARTS, GZIP_START)):
        advice = what_else(start.decode("utf-8", "replace"))
        raise InputError(
            f"{path}: named .zip, but its content is not a "
            f"zip{f': {advice}' if advice else '. Download it again.'}",
            key="archive.not_a_zip",
        )


def check_foreign(path: Path, start: bytes, formats: str) -> None:
    """Refuse a file that by its first bytes is no table of points.

    Args:
        path: the file. start: its first bytes. formats: sentence on those that are read.

    Raises:
        InputError: it is a server's answer, a document, a raster or an archive.
    """
    check_zip(path, start)
    if start.lstrip().startswith(TEXT_STARTS) and (
        advice := what_else(start.decode("utf-8-sig", "replace"))
    ):
        raise InputError(f"{path}: {advice}", key="file.foreign")
    if (foreign := describe_foreign(start)) is not None:
        raise InputError(
            f"{path}: {foreign}." if foreign.endswith(UNPACK) else f"{path}: {foreign}. {formats}.",
            key="file.foreign",
        )


UNFINISHED = (".crdownload", ".part", ".partial", ".download", ".opdownload", ".aria2")
"""Suffixes of files that a browser or another program has not finished to download."""


def check_finished(path: Path) -> None:
    """Refuse an unfinished download.

    Raises:
        InputError: its name is that of one.
    """
    if path.suffix.lower() in UNFINISHED and PurePosixPath(path.stem).suffix:
        raise InputError(
            f"{path}: by its name, an unfinished download. Wait for its end, or download it again.",
            key="file.unfinished",
        )


SPREADSHEET = "[Content_Types].xml"
"""Name of a member of every file of Excel, which is a zip."""
ARCHIVES = {
    SPREADSHEET: "It is a spreadsheet: save it as csv.",
    "mimetype": "It is a document of LibreOffice: save its table as csv.",
    ".qgs": "It is a project of QGIS, which holds no data: give the layer's own file.",
    ".kml": "It draws points on the globe, without their columns: give the table that it was "
    "made from.",
    ".zip": "Unpack it and give what is packed in it.",
    ".gz": "Unpack it and give what is packed in it.",
}
"""Name or suffix of a member of a zip -> what the zip is, or what to do; the first counts."""


def describe_archive(members: Sequence[str]) -> str:
    """Return advice about a zip by the names of its members; empty for other zips."""
    names = {key for name in members for key in (name, PurePosixPath(name).suffix.lower())}
    return next((advice for sign, advice in ARCHIVES.items() if sign in names), "")
