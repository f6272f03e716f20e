"""Which layer of a file with several holds the footprints."""

from __future__ import annotations

from pathlib import Path

import pyogrio

from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.sources.footprints.selection import NAMED

NAMES = ("building", "footprint")
"""What the name of a layer of footprints has in it."""
POLYGONAL = ("polygon", "surface", "tin")
ANY = ("unknown", "collection")
"""Kinds of geometry, as GDAL names them, that are or may be polygons."""


def choose_layer(path: Path, source: str, wanted: str | None = None) -> str | None:
    """The layer that the user wants; else the only one of polygons, or the only one of these that is named so.

    Args:
        path: for messages.
        source: what GDAL opens.
        wanted: name, in any case of letters if it is clear then.

    Raises:
        InputError: there is no such layer, or several that may be meant; the message names them.
    """
    kinds = {str(name): str(kind).lower() for name, kind in pyogrio.list_layers(source) if kind is not None}
    listed = ", ".join(f"{name} ({kind})" for name, kind in kinds.items()) or "none with a geometry"
    if wanted is not None:
        return _wanted(path, wanted, list(kinds), listed)
    if len(kinds) < 2:
        return next(iter(kinds), None)
    likely = [name for name, kind in kinds.items() if any(word in kind for word in POLYGONAL)]
    likely = likely or [name for name, kind in kinds.items() if any(word in kind for word in ANY)] or list(kinds)
    named = name_alike(likely)
    if len(likely) > 1 and len(named) != 1:
        raise InputError(
            f"{path}: layers {listed} found, and which holds the footprints cannot be told. Name it (`--layer`, or "
            "ingest.footprints in the parameters file), or give a file that has it alone."
        )
    chosen = (likely if len(likely) == 1 else named)[0]
    log.warning("%s: layers %s found; %s is read.", path, listed, chosen)
    return chosen


def name_alike(names: list[str]) -> list[str]:
    """Those that are named as footprints."""
    return [name for name in names if any(word in name.lower() for word in NAMES)]


def first_of(path: Path, members: list[str]) -> str:
    """Of the files in a zip the one that is named as footprints, else the first; said where there are several."""
    named = name_alike(members)
    chosen = named[0] if len(named) == 1 else members[0]
    if len(members) > 1:
        log.warning("%s: %s found in it, %s is read.", path, ", ".join(members[:NAMED]), chosen)
    return chosen


def _wanted(path: Path, wanted: str, names: list[str], listed: str) -> str:
    alike = [name for name in names if name.casefold() == wanted.casefold()]
    if wanted in names:
        return wanted
    if len(alike) != 1:
        raise InputError(f"{path}: no layer {wanted}; it has {listed}.")
    return alike[0]
