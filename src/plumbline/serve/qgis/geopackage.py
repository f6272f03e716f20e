"""Add further layers, and styles that QGIS loads automatically, to a GeoPackage."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import geopandas
import pyogrio

from plumbline.serve.qgis.styles import Style

STYLES = "layer_styles"
"""Table where QGIS keeps the styles that are saved with a GeoPackage."""
STYLE_NAME = "Plumbline"
"""Of the styles."""
TABLE = f"""
CREATE TABLE {STYLES} (
    id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    f_table_catalog TEXT(256),
    f_table_schema TEXT(256),
    f_table_name TEXT(256),
    f_geometry_column TEXT(256),
    styleName TEXT(30),
    styleQML TEXT,
    styleSLD TEXT,
    useAsDefault BOOLEAN,
    description TEXT,
    owner TEXT(30),
    ui TEXT(30),
    update_time DATETIME DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
)
"""
"""As QGIS makes it, so that it saves further styles there."""
CONTENTS = (
    "INSERT INTO gpkg_contents (table_name, data_type, identifier, description, last_change, srs_id) "
    "VALUES (?, 'attributes', ?, '', ?, 0)"
)
INSERT_STYLE = (
    f"INSERT INTO {STYLES} (f_table_catalog, f_table_schema, f_table_name, f_geometry_column, styleName, styleQML, "  # noqa: S608 (a constant)
    "styleSLD, useAsDefault, description, owner, ui, update_time) VALUES ('', '', ?, ?, ?, ?, ?, 1, ?, '', NULL, ?)"
)


class Layer(NamedTuple):
    """A further layer, written in pieces."""

    name: str
    pieces: Iterable[geopandas.GeoDataFrame]
    """At least one, all with the same columns; each is made when the one before is written."""
    style: Style
    geometry_type: str | None = "Point"
    """None: that of the only piece."""


def add_layers(path: Path, layers: Sequence[Layer]) -> dict[str, Style]:
    """Append layers to the GeoPackage `path`; return the style of each.

    Raises:
        pyogrio.errors.DataSourceError, pyogrio.errors.DataLayerError: the disk refused.
    """
    for layer in layers:
        for piece in layer.pieces:
            kind = layer.geometry_type
            pyogrio.write_dataframe(piece, path, layer=layer.name, driver="GPKG", geometry_type=kind, append=True)
    return {layer.name: layer.style for layer in layers}


def add_styles(path: Path, styles: Mapping[str, Style]) -> None:
    """Make each style the default of its layer in the GeoPackage `path`, which has no styles yet.

    Raises:
        sqlite3.Error: the disk refused.
    """
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    with closing(sqlite3.connect(path)) as database, database:
        geometry = dict(database.execute("SELECT table_name, column_name FROM gpkg_geometry_columns"))
        database.execute(TABLE)
        database.execute(CONTENTS, (STYLES, STYLES, now))
        database.executemany(
            INSERT_STYLE,
            [
                (layer, geometry[layer], STYLE_NAME, style.qml, style.sld, style.about, now)
                for layer, style in styles.items()
            ],
        )
