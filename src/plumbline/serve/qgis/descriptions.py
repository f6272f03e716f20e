"""Describe the layers of a GeoPackage and their columns inside of the file, as programs
that open it show them.

The table of the columns is that of the extension Schema of the OGC standard GeoPackage 1.3
(12-128r17, annex F.9).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from plumbline.serve.columns import ALIASES, DECLARED
from plumbline.serve.qgis.packed_histories import FID
from plumbline.serve.qgis.styles import (
    AREA_ALIASES,
    CAUSE_ALIASES,
    ROW,
    SCATTERER_ALIASES,
    UNJUDGED_ALIASES,
)
from plumbline.sources.city.causes import MOVING_AREAS

LAYERS = {
    "predictions": "Each building: is it damaged, how badly and where. Sort by p_damaged, and "
    "inspect from the top.",
    "not_judged": "Buildings that are not judged, and why. Not judged does not mean sound.",
    "courses": "Severity over time, permille, with its 90 % interval, of the buildings whose "
    "points tell it.",
    MOVING_AREAS: "Areas whose points move alike, against the rest of the track.",
    "causes": "What may have caused damage, and the share of damaged buildings near to it.",
}
"""Layer -> its description."""
SCATTERERS = (
    "Points on the buildings that have a severity, with the displacement towards the "
    "satellite at each epoch, mm."
)
"""Description of the layers `scatterers_TRACK`."""
DATA_COLUMNS = """
CREATE TABLE gpkg_data_columns (
    table_name TEXT NOT NULL,
    column_name TEXT NOT NULL,
    name TEXT,
    title TEXT,
    description TEXT,
    mime_type TEXT,
    constraint_name TEXT,
    CONSTRAINT pk_gdc PRIMARY KEY (table_name, column_name),
    CONSTRAINT gdc_tn UNIQUE (table_name, name)
)
"""
EXTENSIONS = """
CREATE TABLE IF NOT EXISTS gpkg_extensions (
    table_name TEXT,
    column_name TEXT,
    extension_name TEXT NOT NULL,
    definition TEXT NOT NULL,
    scope TEXT NOT NULL,
    CONSTRAINT ge_tce UNIQUE (table_name, column_name, extension_name)
)
"""
EXTENSION = (
    "INSERT INTO gpkg_extensions VALUES ('gpkg_data_columns', NULL, 'gpkg_schema', "
    "'http://www.geopackage.org/spec121/#extension_schema', 'read-write')"
)


def describe(path: Path) -> None:
    """Write what the layers of a GeoPackage of predictions and their columns mean into the file.

    Raises:
        sqlite3.Error: the disk refused.
    """
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(DATA_COLUMNS)
        database.execute(EXTENSIONS)
        database.execute(EXTENSION)
        for (layer,) in database.execute("SELECT table_name FROM gpkg_contents").fetchall():
            is_scatterers = layer.startswith("scatterers_")
            text = SCATTERERS if is_scatterers else LAYERS.get(layer, "")
            database.execute(
                "UPDATE gpkg_contents SET description = ? WHERE table_name = ?", (text, layer)
            )
            titles = SCATTERER_ALIASES if is_scatterers else _TITLES.get(layer, {})
            present = {row[1] for row in database.execute(f'PRAGMA table_info("{layer}")')}
            database.executemany(
                "INSERT INTO gpkg_data_columns VALUES (?, ?, ?, ?, ?, NULL, NULL)",
                [
                    (layer, column, title, title, _SENTENCES.get(column, title))
                    for column, title in titles.items()
                    if column in present and column not in (ROW, FID)
                ],
            )


_SENTENCES = {column.name: column.sentence for column in DECLARED}
_TITLES: Mapping[str, Mapping[str, str]] = {
    "predictions": ALIASES,
    "not_judged": UNJUDGED_ALIASES,
    "courses": {
        "building_id": "Building",
        "date": "Date",
        **{name: ALIASES[name] for name in ("severity_permille", "severity_low", "severity_high")},
    },
    MOVING_AREAS: AREA_ALIASES,
    "causes": CAUSE_ALIASES,
}
