"""Read what a text file states at its beginning and end: its kind, CRS, and a server's counts."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyproj

from plumbline.core.console import warn
from plumbline.core.errors import InputError
from plumbline.sources.files.streams import CsvFile

LOOKED_AT = 2**16
"""Bytes at the beginning and the end of a file in which `crs` is looked for."""
CHUNK_BYTES = 2**22
SEPARATOR = "\x1e\r\n \t"
"""Characters that may precede a feature: white space, and the separator of RFC 8142."""
CRS_MEMBER = re.compile(r'"crs"\s*:')
FEATURES = re.compile(r'"features"\s*:\s*\[')
AFTER_ARRAY = re.compile(r'\]\s*,\s*(?=")')
ROOT = re.compile(r"<(?:\w+:)?FeatureCollection\b([^>]*)>")
"""Root element of GML, with its attributes."""
ATTRIBUTE = re.compile(r"""([\w:]+)\s*=\s*["']([^"']*)["']""")
BROKEN_OFF = re.compile(r"<(?:\w+:)?truncatedResponse\b")
REMARK = re.compile(r"<remark>\s*([^<]*)")
ERROR = re.compile(r"error|timed out|timeout|out of memory", re.IGNORECASE)
MATCHED, RETURNED = (
    ("numberMatched", "totalFeatures", "matched"),
    ("numberReturned", "returned", "numberOfFeatures"),
)
"""Names of the counts of WFS and OGC API Features; GeoServer; STAC (in `context`); WFS 1.1."""
LEAST_LIMIT, LIMITS = 10, ("1", "2", "25", "5")
"""Smallest default limit of a server, and first digits of usual ones: 10, 200, 1,000, 2,500."""
WITH_PAGES = ("properties", "context", "links", "_links", "pagination")
"""Members in which servers put counts and links."""
NEXT = ("next", "@odata.nextLink", "@iot.nextLink")
REQUEST = "wfsrequest.txt"
"""GeoServer puts the request into its zip of Shapefiles; its preview of a layer asks for 50
features."""
LIMIT = re.compile(r"[?&](?:maxFeatures|count)=(\d+)", re.IGNORECASE)
SIGNS = ("exceededTransferLimit", "remark", *MATCHED, *RETURNED, *NEXT)


class Ends(NamedTuple):
    """Beginning and end of a file, as text."""

    start: str
    end: str
    content: CsvFile
    """The file with its bytes."""

    @property
    def is_collection(self) -> bool:
        """Return whether this is a GeoJSON feature collection."""
        return self.start[:1] == "{" and '"FeatureCollection"' in self.start + self.end

    @property
    def is_lines(self) -> bool:
        """Return whether each line is a feature (GeoJSONL, GeoJSON text sequences)."""
        first, _, further = self.start.lstrip(SEPARATOR).partition("\n")
        return (
            further.lstrip(SEPARATOR).startswith("{")
            and (parse_object(first) or {}).get("type") == "Feature"
        )

    @property
    def has_whole_outline(self) -> bool:
        """Return whether the last line of a table has no outline (WKT) that is left open."""
        last = self.end.rpartition("\n")[2]
        return "POLYGON" not in last.upper() or last.count("(") <= last.count(")")

    @property
    def has_whole_end(self) -> bool:
        """Return whether the last line is whole JSON, or too long to see its beginning."""
        before, _, last = self.end.rpartition("\n")
        return not before or parse_object(last.strip(SEPARATOR)) is not None

    @property
    def named_crs(self) -> Any:
        """Return the collection's own `crs` member; None without one.

        It is the collection's own, and not that of something within it, if what is before it or
        after it is all of an object's rest.
        """
        for match in CRS_MEMBER.finditer(self.start):
            if (
                parse_object(self.start[: match.start()].rstrip().removesuffix(",") + "}")
                is not None
            ):
                try:
                    return json.JSONDecoder().raw_decode(self.start[match.end() :].lstrip())[0]
                except ValueError:
                    return self.start[match.end() :][:80]
        tails = (
            parse_object("{" + self.end[match.start() :]) for match in CRS_MEMBER.finditer(self.end)
        )
        return next((members["crs"] for members in tails if members is not None), None)

    @property
    def assumes_crs(self) -> bool:
        """Return whether this is a GeoJSON without `crs`, for which GDAL assumes WGS 84."""
        return self.start.lstrip(SEPARATOR)[:1] == "{" and self.named_crs is None


def read_ends(content: CsvFile) -> Ends:
    """Read the beginning and the end of a file; a packed one is unpacked for that, which
    shows whether it was cut.

    Raises:
        InputError: it cannot be unpacked.
    """
    with content.open() as stream:
        first = last = stream.read(LOOKED_AT)
        if content.is_plain:
            stream.seek(max(content.path.stat().st_size - LOOKED_AT, 0))
            last = stream.read()
        while chunk := stream.read(CHUNK_BYTES):
            last = (last + chunk)[-LOOKED_AT:]
    start, end = first.decode("utf-8-sig", "replace"), last.decode("utf-8", "replace")
    return Ends(start.lstrip(), end.strip(), content)


def parse_object(text: str) -> dict[str, Any] | None:
    """Return the JSON object that a text is; None for another text."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


class Page(NamedTuple):
    """Counts, next page and fault that an answer states."""

    matched: int | None = None
    """Features that the server has."""
    returned: int | None = None
    """Features of this page."""
    has_more: bool = False
    """True if it names a next page, or states that a limit was exceeded."""
    fault: str | None = None
    """Reason for which the server broke off."""


def read_page(start: str, end: str) -> Page:
    """Read counts and fault from an answer's beginning and end (JSON, GML, OpenStreetMap's XML)."""
    if start[:1] == "<":
        return _read_page_of_xml(start, end)
    if start[:1] != "{" or not any(f'"{sign}"' in part for sign in SIGNS for part in (start, end)):
        return Page()
    members = list(_members({**_head(start), **_tail(end)}))
    names = {name for name, _ in members}
    # Django REST: beside these members, `count` is the number on all pages.
    counts = (*MATCHED, "count") if names & {"next", "previous"} else MATCHED
    remark = next(
        (str(text) for name, text in members if name == "remark" and ERROR.search(str(text))), None
    )
    has_more = any(
        (name == "exceededTransferLimit" and value is True) or _is_next(name, value)
        for name, value in members
    )
    return Page(_number(members, counts), _number(members, RETURNED), has_more, remark)


def check_statements(ends: Ends, crs: pyproj.CRS | None, n_features: int | None) -> None:
    """Check features against what their file states, and warn if the server has more.

    Args:
        ends: beginning and end of the file.
        crs: CRS of the features.
        n_features: number of the features; None if not all were looked at.

    Raises:
        InputError: the `crs` of a GeoJSON is not understood; the message quotes it.
    """
    if ends.is_collection and (stated := ends.named_crs) is not None:
        _check_named_crs(ends.content.path, stated, crs)
    warn_of_page(ends.content, read_page(ends.start, ends.end), n_features)
    if ends.content.member is not None and n_features is not None:
        _warn_of_request(ends.content.path, n_features)


def warn_of_page(source: object, page: Page, read: int | None) -> None:
    """Warn if a file is less than the server has.

    Args:
        source: names it. page: its counts and fault.
        read: features in it; None if not all were looked at.
    """
    # Pages that were joined keep the number of the first.
    n_features = max(
        (number for number in (page.returned, read) if number is not None), default=None
    )
    if page.fault is not None:
        warn(
            "%s: the server broke off (%s): features are missing. Ask for a smaller area, or "
            "allow more time.",
            source,
            " ".join(page.fault.split())[:120],
            key="page.broken_off",
        )
    elif page.matched is not None and n_features is not None and n_features < page.matched:
        warn(
            "%s: not complete: %d features of %d that the server has. Ask for the rest in pages "
            "(startIndex or offset) and join them, or download the whole file.",
            source,
            n_features,
            page.matched,
            key="page.incomplete",
        )
    elif page.matched is None and page.has_more:
        warn(
            "%s: a server's answer that is not complete: %s features, and more on the next page. "
            "Ask for the rest in pages and join them, or download the whole file.",
            source,
            "some" if n_features is None else n_features,
            key="page.has_next",
        )
    elif (
        page.matched is None
        and page.returned is not None
        and n_features is not None
        and n_features >= LEAST_LIMIT
        and str(n_features).rstrip("0") in LIMITS
    ):
        warn(
            "%s: a server's answer with exactly %d features, a usual limit, and without a total. "
            "Ask for the next page (startIndex or offset); if it is empty, this is all.",
            source,
            n_features,
            key="page.usual_limit",
        )


def _check_named_crs(path: Path, stated: Any, read: pyproj.CRS | None) -> None:
    """Refuse the `crs` of a GeoJSON if it differs from `read`, the CRS that GDAL reads."""
    properties = (
        stated.get("properties")
        if isinstance(stated, dict) and stated.get("type") == "name"
        else None
    )
    try:
        named = pyproj.CRS.from_user_input(
            str(properties["name"]) if isinstance(properties, dict) else ""
        )
    except (KeyError, pyproj.exceptions.CRSError):
        named = None
    if named is None or read is None or named.is_projected != read.is_projected:
        raise InputError(
            f"{path}: crs {json.dumps(stated)[:120]} found, which is not known. Give it a name "
            "such as "
            '{"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::3035"}}, or remove '
            "it where the "
            "coordinates are degrees of longitude and latitude (WGS 84).",
            key="geojson.unknown_crs",
        )


def _warn_of_request(path: Path, read: int) -> None:
    """Warn if a zip of GeoServer has as many features (`read`) as its request allowed."""
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.endswith(REQUEST)]
        limit = (
            LIMIT.search(archive.read(names[0])[:LOOKED_AT].decode("utf-8", "replace"))
            if names
            else None
        )
    if limit and read >= int(limit[1]):
        warn(
            "%s: %d features, the most that the request in its %s allows (%s): others may be "
            "missing. Leave that out.",
            path,
            read,
            REQUEST,
            limit[0][1:],
            key="page.request_limit",
        )


def _read_page_of_xml(start: str, end: str) -> Page:
    root = ROOT.search(start)
    attributes = dict(ATTRIBUTE.findall(root[1])) if root else {}
    numbers = list(attributes.items())
    remark = REMARK.search(end) if "<osm" in start else None
    fault = remark[1] if remark and ERROR.search(remark[1]) else None
    fault = "truncatedResponse" if BROKEN_OFF.search(end) else fault
    return Page(
        _number(numbers, MATCHED), _number(numbers, RETURNED), bool(attributes.get("next")), fault
    )


def _head(start: str) -> dict[str, Any]:
    """Return the collection's members before its features."""
    features = FEATURES.search(start)
    return {} if features is None else parse_object(f"{start[: features.end()]}]}}") or {}


def _tail(end: str) -> dict[str, Any]:
    """Return the collection's members after its features: only the rest of the outermost
    object is JSON."""
    objects = (parse_object("{" + end[match.end() :]) for match in AFTER_ARRAY.finditer(end))
    return next((members for members in objects if members), {})


def _members(collection: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield name and value of the collection's own members, and of those that describe pages."""
    for name, value in collection.items():
        yield name, value
        if name in WITH_PAGES:
            for inner in value if isinstance(value, list) else [value]:
                yield from inner.items() if isinstance(inner, dict) else ()
                if isinstance(inner, dict) and inner.get("rel") == "next":
                    yield "next", inner.get("href")


def _number(members: list[tuple[str, Any]], names: tuple[str, ...]) -> int | None:
    """Return the number under the first of the names that has one: some servers write `unknown`."""
    numbers = {name: int(value) for name, value in members if str(value).isdigit()}
    return next((numbers[name] for name in names if name in numbers), None)


def _is_next(name: str, value: Any) -> bool:
    address = value.get("href") if isinstance(value, dict) else value
    return name in NEXT and isinstance(address, str) and bool(address)
