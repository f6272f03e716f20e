"""Store the displacements of a layer of a GeoPackage as whole tenths of a millimetre.

SQLite takes nine bytes for a fraction, and two or three for such a number. They are in a table
that the file does not list. Programs open a view of it with the displacements in mm.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import pandas as pd

STEPS_PER_MM = 10
"""Number of steps in which a millimetre is stored."""
FID = "OGC_FID"
"""Name of the column that numbers the rows of a view, by which GDAL recognises it."""
GEOMETRY = "geom"
PACKED, STEPS = "_packed", "_steps"
"""Ends of the name of the table behind a view, and of those of its columns."""
TRACK = "track"
"""Column that has one value in a layer, and is stored once."""

Frame = TypeVar("Frame", bound=pd.DataFrame)


def pack(piece: Frame, epochs: Sequence[str]) -> Frame:
    """Return rows of a layer as they are stored: without the track, in steps. `epochs`: columns
    of displacement, mm."""
    steps = (piece[list(epochs)] * STEPS_PER_MM).round().astype("Int32").add_suffix(STEPS)
    packed: Frame = piece.drop(columns=[TRACK, *epochs]).join(steps)
    return packed


def add_view(path: Path, layer: str, track: str, epochs: Sequence[str]) -> None:
    """Put a layer into the place of the table `layer` + `PACKED`, which has packed rows.

    A view has the types of the columns that it names, and only newer SQLite knows that of an
    expression. So the table computes the displacements, in columns that take no space.

    Raises:
        sqlite3.Error: the disk refused.
    """
    table = layer + PACKED
    with closing(sqlite3.connect(path)) as database, database:
        columns = [row[1] for row in database.execute(f'PRAGMA table_info("{table}")')]
        unchanged = [f'"{name}"' for name in columns if not name.endswith(STEPS)]
        _add_displacements(database, table, epochs)
        constant = track.replace("'", "''")
        fields = [
            f'{unchanged[0]} AS "{FID}"',
            *unchanged[1:4],
            f"'{constant}' AS \"{TRACK}\"",
            *unchanged[4:],
            *(f'"{day}"' for day in epochs),
        ]
        # S608: `layer` has letters, digits and `_` only; columns are those of the table.
        database.execute(f'CREATE VIEW "{layer}" AS SELECT {", ".join(fields)} FROM "{table}"')  # noqa: S608
        database.execute(
            f'ALTER TABLE "rtree_{table}_{GEOMETRY}" RENAME TO "rtree_{layer}_{GEOMETRY}"'
        )
        for listing in ("gpkg_contents", "gpkg_geometry_columns", "gpkg_ogr_contents"):
            database.execute(
                f"UPDATE {listing} SET table_name = ? WHERE table_name = ?",  # noqa: S608
                (layer, table),
            )
        database.execute(
            "UPDATE gpkg_extensions SET table_name = ? WHERE table_name = ?", (layer, table)
        )
        database.execute(
            "UPDATE gpkg_contents SET identifier = table_name WHERE table_name = ?", (layer,)
        )


def _add_displacements(database: sqlite3.Connection, table: str, epochs: Sequence[str]) -> None:
    """Add the displacements, mm, to a table, as columns that are computed.

    Adding them one by one takes a time that grows with the square of their number.
    """
    (statement,) = database.execute(
        "SELECT sql FROM sqlite_master WHERE name = ?", (table,)
    ).fetchone()
    computed = ", ".join(
        f'"{day}" FLOAT AS ("{day}{STEPS}" / {STEPS_PER_MM:.1f})' for day in epochs
    )
    database.execute("PRAGMA writable_schema = ON")
    database.execute(
        "UPDATE sqlite_master SET sql = ? WHERE name = ?",
        (f"{statement.rstrip().removesuffix(')')}, {computed})", table),
    )
    database.execute("PRAGMA writable_schema = RESET")
