"""Put the map document and the built web page together: one HTML file that loads nothing
from elsewhere."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from plumbline.core.errors import InputError
from plumbline.core.source_code import MAP_PAGE, PAGE_FILES, PYTHON_PACKAGE
from plumbline.reporting.page import icon
from plumbline.serve.judgement import CityPredictions
from plumbline.serve.map.document import MAX_POINTS, as_json, make_document
from plumbline.serve.predictions import write_text
from plumbline.sources.points.track import Track

__all__ = ["MAX_POINTS", "check_basemap", "check_page", "page_html", "write_map"]

BUILT = PYTHON_PACKAGE / MAP_PAGE
"""Folder of the script and the style sheet of the page."""
SCRIPT, STYLE = PAGE_FILES


def check_page() -> None:
    """Refuse to draw a map without the built page, before anything long is computed.

    Raises:
        InputError: the page was not built.
    """
    missing = [name for name in (SCRIPT, STYLE) if not (BUILT / name).is_file()]
    if missing:
        raise InputError(
            f"{BUILT / missing[0]}: the map's page is not built. Run `make web` in Plumbline's "
            "folder (and install "
            "Plumbline again, if it is not installed from there), or leave out the map.",
            key="map.page_not_built",
        )


def check_basemap(address: str) -> None:
    """Refuse an address that gives no tiles.

    Raises:
        InputError: it is no web address, or lacks a placeholder.
    """
    if not _host(address) or not all(name in address for name in ("{z}", "{x}", "{y}")):
        raise InputError(
            f"--basemap {address}: is no address of tiles. It has {{z}}, {{x}} and {{y}}, as "
            "https://tiles.example.org/{z}/{x}/{y}.png.",
            key="basemap.not_tiles",
        )


def write_map(
    judged: CityPredictions,
    tracks: Sequence[Track],
    path: Path,
    title: str,
    *,
    every: int = 1,
    basemap: str | None = None,
    owners: Sequence[NDArray[np.intp]] | None = None,
) -> None:
    """Write the predictions and their points into one HTML file that, without a base map,
    works without a network.

    Args:
        judged, tracks, title, every, owners: see `make_document`.
        path: the `.html` to write, atomically.
        basemap: address of tiles, see `check_basemap`; None: no base map.

    Raises:
        InputError: the page was not built, or the file cannot be written.
    """
    check_page()
    document = make_document(judged, tracks, title, every, owners)
    if basemap is not None:
        document["basemap"] = basemap
    write_text(page_html(document), path)


def is_built() -> bool:
    """Return whether the web page was built."""
    return all((BUILT / name).is_file() for name in (SCRIPT, STYLE))


def page_html(document: Mapping[str, Any] | None = None, basemap: str | None = None) -> str:
    """Return the page as one HTML text: with its document, or as the page of the service without.

    The page of the service may ask the server it came from, and nobody else; the one with a
    document asks nobody, except for the host of its `basemap`, if it has one.

    Args:
        document: see `make_document`.
        basemap: address of the base map in documents that the service will give.

    Raises:
        InputError: the page was not built.
    """
    check_page()
    # A text such as `</script` or `<!--` in a script would end it, or change how the rest is read.
    script = re.sub(
        r"</(?=script)", r"<\\/", (BUILT / SCRIPT).read_text(encoding="utf-8"), flags=re.IGNORECASE
    )
    style = (BUILT / STYLE).read_text(encoding="utf-8")
    title = "Plumbline" if document is None else str(document.get("title", "Plumbline"))
    data = (
        f'<script type="application/gzip" id="document">{packed(document)}</script>\n'
        if document is not None
        else ""
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" '
        f'content="{html.escape(_write_policy(script, document, basemap))}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<link rel="icon" href="{icon()}">\n'  # else a browser asks the server for one
        f"<title>{html.escape(title)}</title>\n<style>{style}</style></head>\n"
        f'<body><div id="app"></div>\n<noscript>This map needs JavaScript.</noscript>\n{data}'
        f"<script>{script}</script>\n</body></html>\n"
    )


def packed(document: Mapping[str, Any]) -> str:
    """Compress the document to base64 of gzip: a fifth of the size, and safe inside a tag."""
    return base64.b64encode(gzip.compress(as_json(document).encode(), 6, mtime=0)).decode()


def _write_policy(script: str, document: Mapping[str, Any] | None, basemap: str | None) -> str:
    """Write the Content Security Policy: only this script and MapLibre's worker, without
    network access."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    origin = " 'self'" if document is None else ""
    host = _host(document.get("basemap") if document is not None else basemap)
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; worker-src "
        f"blob:; child-src blob:; img-src data: blob:{origin}{host}; connect-src data: "
        f"blob:{origin}{host}; form-action 'none'; base-uri 'none'"
    )


def _host(address: object) -> str:
    """Return the host of a base map for the policy; an empty text for anything but a web
    address."""
    if not isinstance(address, str):
        return ""
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not re.fullmatch(r"[\w.:\[\]-]+", parts.netloc):
        return ""
    return f" {parts.scheme}://{parts.netloc}"
