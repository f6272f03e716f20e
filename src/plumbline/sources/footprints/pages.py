"""Warn of a server's answer that is one page of several, or was broken off, by its own counts."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from plumbline.core.console import warn
from plumbline.sources.footprints.source import parse_object

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
LOOKED_AT = 2**16
LIMIT = re.compile(r"[?&](?:maxFeatures|count)=(\d+)", re.IGNORECASE)
SIGNS = ("exceededTransferLimit", "remark", *MATCHED, *RETURNED, *NEXT)


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


def warn_of_request(path: Path, read: int) -> None:
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
