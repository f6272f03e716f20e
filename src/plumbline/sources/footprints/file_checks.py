"""The CRS that a GeoJSON names. GDAL takes a name it does not know for WGS 84, without a word."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import IO, Any, NamedTuple

import pyproj

from plumbline.core.errors import InputError
from plumbline.sources.files.archive import Product

LOOKED_AT = 2**16
"""`crs` stands before the features, or after them: in the first or last so many bytes."""
CHUNK_BYTES = 2**22
SEPARATOR = "\x1e\r\n \t"
"""What may stand before a feature: white space, and the separator of RFC 8142."""
CRS_MEMBER = re.compile(r'"crs"\s*:')


class Ends(NamedTuple):
    """How a file begins and how it ends, as text."""

    start: str
    end: str

    @property
    def is_collection(self) -> bool:
        """Whether this is a GeoJSON feature collection."""
        return self.start[:1] == "{" and '"FeatureCollection"' in self.start + self.end

    @property
    def is_lines(self) -> bool:
        """Whether each line is a feature of its own (GeoJSONL, GeoJSON text sequences)."""
        first, _, rest = self.start.lstrip(SEPARATOR).partition("\n")
        if not rest.lstrip(SEPARATOR).startswith("{"):
            return False
        try:
            feature = json.loads(first)
        except ValueError:
            return False
        return isinstance(feature, dict) and feature.get("type") == "Feature"


def read_ends(path: Path, member: str | None = None) -> Ends:
    """The beginning and the end of a file, or of a member of a zip.

    Raises:
        InputError: the member cannot be unpacked.
    """
    with Product(path, member).open() as stream:
        if member is not None:
            return ends_of(stream)
        first = stream.read(LOOKED_AT)
        stream.seek(max(path.stat().st_size - LOOKED_AT, 0))
        return _ends(first, stream.read())


def ends_of(stream: IO[bytes] | io.RawIOBase) -> Ends:
    """The beginning and the end of a stream that can only be read forwards."""
    first = b""
    while len(first) < LOOKED_AT and (chunk := stream.read(LOOKED_AT - len(first))):
        first += chunk
    last = first
    while chunk := stream.read(CHUNK_BYTES):
        last = (last + chunk)[-LOOKED_AT:]
    return _ends(first, last)


def _ends(first: bytes, last: bytes) -> Ends:
    return Ends(first.decode("utf-8-sig", "replace").lstrip(), last.decode("utf-8", "replace").strip())


def check_named_crs(path: Path, ends: Ends, taken: pyproj.CRS | None) -> None:
    """Refuse a GeoJSON whose `crs` is not the one it was `taken` for.

    Raises:
        InputError: the `crs` is not understood; the message has what stands there.
    """
    found = _named_crs(ends)
    if found is None:
        return
    name = _name(found)
    try:
        named = None if name is None else pyproj.CRS.from_user_input(name)
    except pyproj.exceptions.CRSError:
        named = None
    if named is None or taken is None or named.is_projected != taken.is_projected:
        raise InputError(
            f"{path}: crs {json.dumps(found)[:120]} found, which is not known. Give it a name such as "
            '{"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::3035"}}, or remove it where the '
            "coordinates are degrees of longitude and latitude (WGS 84)."
        )


def _named_crs(ends: Ends) -> Any:
    """What stands as the collection's own `crs`; None where there is none.

    It is the collection's own, and not that of something within it, if what is before it or after it is all of an
    object's rest.
    """
    for match in CRS_MEMBER.finditer(ends.start):
        if _is_json(ends.start[: match.start()].rstrip().removesuffix(",") + "}"):
            try:
                return json.JSONDecoder().raw_decode(ends.start[match.end() :].lstrip())[0]
            except ValueError:
                return ends.start[match.end() :][:80]
    for match in CRS_MEMBER.finditer(ends.end):
        if _is_json("{" + ends.end[match.start() :]):
            return json.loads("{" + ends.end[match.start() :])["crs"]
    return None


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _name(crs: Any) -> str | None:
    properties = crs.get("properties") if isinstance(crs, dict) and crs.get("type") == "name" else None
    name = properties.get("name") if isinstance(properties, dict) else None
    return name if isinstance(name, str) and name else None
