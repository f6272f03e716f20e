"""Select the layer of a file that holds the footprints, and its usable features; log why
others are left out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import pandas as pd
import pyogrio

from plumbline.core.console import warn
from plumbline.core.errors import InputError
from plumbline.sources.footprints.geometry import NAMED

NAMES = ("building", "footprint", "pand", "gebaeude", "gebäude", "batiment", "bâtiment", "edific")
"""Words in the names of layers of footprints."""
POLYGONAL = ("polygon", "surface", "tin")
ANY = ("unknown", "collection")
"""Kinds of geometry, as GDAL names them, that are or may be polygons."""


KML = (".kml", ".kmz")
"""Suffixes of KML, of which the layers are the folders of one drawing."""
NUMBER = re.compile(r"((?<!\d)(?:19|20)\d\d(?:(?:0[1-9]|1[0-2])(?:[0-3]\d)?)?(?!\d))|\d+")
"""Number of a tile; or (group 1) a year or day, which distinguishes editions."""


def are_parts(names: Sequence[str]) -> bool:
    """Return whether several names differ in their numbers alone, as those of tiles do."""
    return (
        len(names) > 1
        and len({NUMBER.sub(lambda match: match[1] or "#", name).casefold() for name in names}) == 1
    )


def choose_layers(path: Path, source: str, wanted: str | None = None) -> list[str | None]:
    """Choose the wanted layer; else the only one of polygons, or the only one of these with
    a name like footprints.

    All layers of polygons are chosen if they are the folders of a KML, or numbered parts.

    Args:
        path: for messages.
        source: what GDAL opens.
        wanted: name, in any case of letters if it is clear then.

    Raises:
        InputError: there is no such layer, or several that may be meant; the message names them.
    """
    kinds = {
        str(name): str(kind).lower()
        for name, kind in pyogrio.list_layers(source)
        if kind is not None
    }
    listed = ", ".join(f"{name} ({kind})" for name, kind in kinds.items()) or "none with a geometry"
    if wanted is not None:
        alike = (
            [wanted]
            if wanted in kinds
            else [name for name in kinds if name.casefold() == wanted.casefold()]
        )
        if len(alike) != 1:
            raise InputError(f"{path}: no layer {wanted}; it has {listed}.", key="layer.missing")
        return [*alike]
    if len(kinds) < 2:
        return [next(iter(kinds), None)]
    likely = [name for name, kind in kinds.items() if any(word in kind for word in POLYGONAL)]
    likely = (
        likely
        or [name for name, kind in kinds.items() if any(word in kind for word in ANY)]
        or list(kinds)
    )
    named = name_alike(likely)
    if len(likely) > 1 and len(named) != 1:
        if PurePosixPath(source).suffix.lower() in KML or are_parts(likely):
            warn(
                "%s: layers %s found; all are read. `--layer` names one to read alone.",
                path,
                listed,
                key="layer.all_read",
            )
            return [*sorted(likely)]
        raise InputError(
            f"{path}: layers {listed} found, and any may hold the footprints. Name one "
            "(`--layer`, or ingest.footprints in the parameters file), or give a file with one "
            "layer.",
            key="layer.ambiguous",
        )
    chosen = (likely if len(likely) == 1 else named)[0]
    warn("%s: layers %s found; %s is read.", path, listed, chosen, key="layer.chosen")
    return [chosen]


def name_alike(names: list[str]) -> list[str]:
    """Return the names that look like footprints."""
    return [name for name in names if any(word in name.lower() for word in NAMES)]


def choose_member(path: Path, members: list[str]) -> str:
    """Return the file in a zip that is named as footprints, else the first; log a choice
    among several."""
    named = name_alike(members)
    chosen = named[0] if len(named) == 1 else members[0]
    if len(members) > 1:
        warn(
            "%s: %s found in it, %s is read.",
            path,
            ", ".join(members[:NAMED]),
            chosen,
            key="archive.member_chosen",
        )
    return chosen


OSM_LAYER = "multipolygons"
"""Layer into which GDAL puts closed ways and relations of OpenStreetMap."""
OSM_BUILDINGS = "building IS NOT NULL AND building <> 'no'"
OSM_FILE = re.compile(r"(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<osm[\s>]", re.DOTALL)
OSM_START, OSM_START_WITHIN = "OSMHeader", 64


def is_openstreetmap(start: str) -> bool:
    """Return whether a file with this beginning is OpenStreetMap's own, as XML or PBF."""
    return bool(OSM_FILE.match(start)) or OSM_START in start[:OSM_START_WITHIN]


def name_openstreetmap(frame: pd.DataFrame) -> pd.DataFrame:
    """Write ids to `@id` as OpenStreetMap does (way/12, relation/7): a way and a relation
    may share a number."""
    way = "way/" + frame["osm_way_id"].astype(str)
    frame.insert(
        0, "@id", way.where(frame["osm_way_id"].notna(), "relation/" + frame["osm_id"].astype(str))
    )
    return frame
