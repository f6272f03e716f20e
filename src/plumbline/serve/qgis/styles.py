"""Put styles into GeoPackages."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import geopandas
import pandas as pd
import pyogrio

from plumbline.core.strain import CATEGORY_BOUNDS_PERMILLE
from plumbline.export.interface import SURE_DAMAGE
from plumbline.prepare.abstention import OK, UNSURE_WHERE
from plumbline.reporting.colours import (
    BROWN,
    CATEGORY_NAMES,
    DIVERGING,
    GREY,
    ORANGE,
    PROBABILITY_COLOURS,
    PROBABILITY_EDGES,
    PROBABILITY_NAMES,
    TEAL,
)
from plumbline.serve.columns import ALIASES, PERMILLE_DECIMALS
from plumbline.serve.qgis import documents as qgis
from plumbline.serve.qgis.documents import Condition, Entry, area, expression
from plumbline.serve.qgis.packed_histories import FID, PACKED, TRACK, add_view, pack

ROW = "fid"
"""Column that a GeoPackage adds by itself."""
PREDICTIONS_ALIASES = {ROW: "Row", **ALIASES}
"""Field of the predictions -> its name with its unit."""
NOT_JUDGED = {
    "insufficient_points": (
        "not judged: too little data",
        "its points are too few or too noisy, or it leans; or its size is out of range",
        "b_diagonal",
        "slash",
    ),
    "out_of_distribution": (
        "not judged: unlike training",
        "it, its points or their period are unlike anything the model was trained on",
        "diagonal_x",
        "x",
    ),
}
"""Status -> line of the legend, end of the sentence `Not judged: ...`, brush of QGIS, shape of
SLD."""
IS_DAMAGED = [("reason", "=", OK), ("p_damaged", ">=", SURE_DAMAGE)]
SHOWS_QUADRANT = expression(IS_DAMAGED)
"""Condition of QGIS, see `rules.shows_quadrant`."""
NAME = "replace(replace(\"building_id\", '&', '&amp;'), '<', '&lt;')"
"""Expression of QGIS: the building's name as HTML."""
STRAIN = (
    f"format_number(round({{0}}, {PERMILLE_DECIMALS}) - if(round({{0}}, {PERMILLE_DECIMALS}) IN "
    f"{CATEGORY_BOUNDS_PERMILLE} AND {{0}} < round({{0}}, {PERMILLE_DECIMALS}), "
    f"{10**-PERMILLE_DECIMALS}, 0), {PERMILLE_DECIMALS})"
)
"""Expression of QGIS: a strain as `columns.format_permille` writes it."""
QUADRANT_LABEL = "probably damaged: its quadrant"
UNSURE_LABEL = "not known where"
QUARTER = """
with_variable('box', oriented_bbox($geometry),
with_variable('angle', 90 - degrees(CASE
    WHEN distance(point_n(@box, 1), point_n(@box, 2)) >= distance(point_n(@box, 2), point_n(@box, 3))
    THEN azimuth(point_n(@box, 1), point_n(@box, 2)) ELSE azimuth(point_n(@box, 2), point_n(@box, 3)) END),
with_variable('turn', @angle - 90 * ceil((@angle - 45.000001) / 90),
with_variable('middle', centroid(@box),
with_variable('level', rotate(@box, @turn, @middle),
with_variable('quarter', rotate(bounds(make_line(@middle, make_point(
    if("quadrant" IN ('NE', 'SE'), x_max(@level), x_min(@level)),
    if("quadrant" IN ('NE', 'NW'), y_max(@level), y_min(@level))))), -@turn, @middle),
    if(coalesce(area(intersection(@quarter, $geometry)), 0) > 0, intersection(@quarter, $geometry), @quarter)))))))
""".strip()
"""Expression of QGIS: the part of a footprint that lies in its quadrant, as
`core.compass.frames` defines it: the smallest rectangle's axis turned by at most 45 degrees
from east (`turn`, counter-clockwise) is x."""
UNJUDGED_ALIASES = {
    **{name: PREDICTIONS_ALIASES[name] for name in (ROW, "building_id", "n_points", "reason")},
    "explanation": "Explanation",
}
"""Field of the buildings that are not judged -> its name."""
SCATTERER_ALIASES = {
    FID: "Row",
    "point_id": "Scatterer",
    "building_id": "Building",
    "track": "Track",
    "velocity": "Mean velocity towards the satellite (mm/yr)",
    "height": "Height (m)",
}
"""Field of the scatterers -> its name with its unit; those of the epochs come after."""
AREA_ALIASES = {
    ROW: "Row",
    "name": "Area",
    "track": "Track",
    "rate_mm_year": "Mean velocity towards the satellite, against the track's median (mm/yr)",
    "displacement_mm": "The same over the whole record (mm)",
    "points": "Points",
    "buildings": "Buildings that it touches",
    "quality": "Quality: 1, points move alike over time, to 3",
}
"""Field of the moving areas of points -> its name with its unit."""
FIELD_AREA_ALIASES = {
    ROW: "Row",
    "name": "Area",
    "direction": "Direction: up, east, or los (towards the satellite)",
    "rate_mm_year": "Mean velocity in that direction, against the field's median (mm/yr)",
    "displacement_mm": "The same over the whole record (mm)",
    "cells": "Cells",
    "points": "Points",
    "buildings": "Buildings that it touches",
}
"""Field of the moving areas of a field -> its name with its unit."""
CAUSE_ALIASES = {
    ROW: "Row",
    "name": "Possible cause",
    "reach_m": "Distance up to which it is looked at (m)",
    "reach_given": "Whether the file gives it; else it is estimated",
    "judged_buildings": "Judged buildings within it",
    "damage_rate": "Share of damaged buildings near to it (0-1)",
    "damage_rate_low": "Share, lower end of the 90 % interval (0-1)",
    "damage_rate_high": "Share, upper end of the 90 % interval (0-1)",
    "counts": "Whether it changes the share",
}
"""Field of the causes -> its name with its unit."""
EDGE = 1e6
"""Outer edge of the outermost classes of velocity, mm/yr: larger than any velocity."""


class Hatching(NamedTuple):
    """Lines across a building."""

    brush: str
    """Brush of QGIS."""
    shape: str
    """Shape of SLD."""
    colour: str


class Style(NamedTuple):
    """Style of a layer."""

    qml: str
    """Style for QGIS."""
    sld: str
    """Style for map servers."""
    about: str
    """Description in one sentence."""


def predictions_style(layer: str) -> Style:
    """Style the predictions as the map: probabilities in colours, abstentions hatched,
    damaged quadrants black."""
    edges = (0, *PROBABILITY_EDGES, 2)  # no probability reaches 2
    entries = [
        area(label, [("p_damaged", ">=", low), ("p_damaged", "<", high)], colour, BROWN)
        for label, colour, (low, high) in zip(
            PROBABILITY_NAMES, PROBABILITY_COLOURS, pairwise(edges), strict=True
        )
    ]
    entries += [
        area(
            label,
            [("status", "=", status), ("burland_category", "empty", None)],
            GREY,
            GREY,
            hatching=(brush, shape),
        )
        for status, (label, _, brush, shape) in NOT_JUDGED.items()
    ]
    hatching = ("f_diagonal", "backslash")
    entries.append(
        area(UNSURE_LABEL, [("reason", "=", UNSURE_WHERE)], ORANGE, ORANGE, hatching=hatching)
    )
    quarter = qgis.generated(QUARTER, qgis.simple_fill("#000000", None, opacity=0.6))
    entries.append(
        Entry(QUADRANT_LABEL, IS_DAMAGED, qgis.symbol("fill", quarter), qgis.text("quadrant"))
    )
    about = "Probability of damage, abstentions and damaged quadrants"
    return _style(layer, entries, about, PREDICTIONS_ALIASES, '"building_id"', tip=map_tip())


def _style(
    layer: str,
    entries: Sequence[Entry],
    about: str,
    aliases: Mapping[str, str],
    title: str,
    *,
    geometry: str | None = qgis.POLYGON,
    tip: str | None = None,
    field: str | None = None,
) -> Style:
    """Put the style of a layer together. `field`: its ranges are the entries; the others:
    see `vector_document`."""
    renderer = (
        qgis.rule_renderer(entries) if field is None else qgis.graduated_renderer(field, entries)
    )
    qml = qgis.vector_document(renderer, geometry, aliases, title, tip)
    return Style(qml, qgis.document(layer, entries), about)


def map_tip() -> str:
    """Write the HTML that QGIS shows of a building under the pointer, as
    `map.content.description` has it."""
    names = ", ".join(f"'{name}'" for name in CATEGORY_NAMES)
    reasons = " ".join(
        f"WHEN \"status\" = '{status}' THEN '{texts[1]}'" for status, texts in NOT_JUDGED.items()
    )
    severity, low, high = (
        STRAIN.format(f'"severity_{part}"') for part in ("permille", "low", "high")
    )
    parts = (
        "'Damaged with ' || CASE WHEN \"p_damaged\" < 0.01 THEN '&lt; 1' WHEN \"p_damaged\" > "
        "0.99 THEN '&gt; 99' "
        "ELSE format_number(100 * \"p_damaged\", 0) END || ' %<br>'",
        f"'Category ' || \"burland_category\" || ', ' || array_get(array({names}), "
        "\"burland_category\") || '<br>'",
        f"'Severity ' || {severity} || ' permille (90 % interval ' || {low} || ' to ' || {high} "
        "|| ')<br>'",
        f"if({SHOWS_QUADRANT}, 'Quadrant ' || replace(\"quadrants\", '|', ' or ') || '<br>', '')",
        "'Fails like: ' || \"mechanism\" || '<br>'",
        f"CASE WHEN \"reason\" = '{UNSURE_WHERE}' THEN 'Where is not known<br>' WHEN \"status\" "
        f"<> '{OK}' THEN 'Not judged: ' || CASE {reasons} END || '<br>' END",
    )
    lines = "".join(f"[% coalesce({part}, '') %]" for part in parts)
    return (
        f'<div style="max-width: 280px"><b>[% {NAME} %]</b><br>{lines}[% "n_points" %] points</div>'
    )


def unjudged_style(layer: str, groups: Mapping[str, tuple[Sequence[str], Hatching]]) -> Style:
    """Style the buildings that are not judged: one hatching for each group of reasons.

    Args:
        layer: its name.
        groups: line of the legend -> its values of `reason`, and their hatching.
    """
    entries = [
        area(
            label,
            [("reason", "in", reasons)],
            lines.colour,
            lines.colour,
            hatching=(lines.brush, lines.shape),
        )
        for label, (reasons, lines) in groups.items()
    ]
    tip = (
        f'<div style="max-width: 280px"><b>[% {NAME} %]</b><br>[% "explanation" %]<br>[% '
        '"n_points" %] points</div>'
    )
    return _style(
        layer, entries, "Why buildings are not judged", UNJUDGED_ALIASES, '"building_id"', tip=tip
    )


def scatterers_style(layer: str, limit: float, epochs: Sequence[str]) -> Style:
    """Style scatterers by velocity, from purple (away from the satellite) to green (towards it).

    Args:
        layer: its name.
        limit: velocity of the outermost classes, mm/yr.
        epochs: columns of displacement, as `D20200103`.
    """
    entries = [
        Entry(
            label, ends, qgis.symbol("marker", qgis.marker(colour, GREY)), qgis.point(colour, GREY)
        )
        for colour, label, ends in _velocity_classes("velocity", limit)
    ]
    days = {name: f"Displacement {name[1:5]}-{name[5:7]}-{name[7:]} (mm)" for name in epochs}
    about, aliases = "Mean velocity towards the satellite", {**SCATTERER_ALIASES, **days}
    return _style(
        layer, entries, about, aliases, '"point_id"', geometry=qgis.POINT, field="velocity"
    )


def areas_style(layer: str, limit: float, aliases: Mapping[str, str] = AREA_ALIASES) -> Style:
    """Style moving areas by rate, as scatterers by velocity.

    Args:
        layer: its name. limit: rate of the outermost classes, mm/yr. aliases: names of the fields.
    """
    entries = [
        area(label, ends, colour, GREY, opacity=0.6)
        for colour, label, ends in _velocity_classes("rate_mm_year", limit)
    ]
    column = next(name for name in aliases if name in ("track", "direction"))
    title = f'"name" || \' \' || "{column}"'
    return _style(
        layer, entries, "Moving areas: rate against the rest", aliases, title, field="rate_mm_year"
    )


def causes_style(layer: str) -> Style:
    """Style causes by whether they count, be they points, lines or polygons."""
    entries = []
    for counts, colour, label in (
        (True, TEAL, "more damage near to it"),
        (False, GREY, "changes nothing"),
    ):
        fill = qgis.simple_fill(colour, colour, opacity=0.3, width_mm=0.6)
        symbols_by_kind = {
            "point": (
                qgis.symbol("marker", qgis.marker(colour, colour, 3)),
                qgis.point(colour, colour, 10),
            ),
            "line": (qgis.symbol("line", qgis.line(colour)), qgis.stroke(colour)),
            "polygon": (
                qgis.symbol("fill", fill),
                qgis.polygon(qgis.hatched("slash", colour), colour, 2),
            ),
        }
        entries += [
            Entry(
                f"{label}, {kind}",
                [("counts", "is", counts), ("geom", "dimension", kind)],
                *symbols,
            )
            for kind, symbols in symbols_by_kind.items()
        ]
    return _style(
        layer, entries, "What may have caused damage", CAUSE_ALIASES, '"name"', geometry=None
    )


def _velocity_classes(field: str, limit: float) -> Iterator[tuple[str, str, list[Condition]]]:
    """Yield colour, label and ends of each class of a velocity, mm/yr; the outermost begin
    at `limit`."""
    edges = [limit * (2 * n / len(DIVERGING) - 1) for n in range(len(DIVERGING) + 1)]
    edges[0], edges[-1] = -EDGE, EDGE
    for colour, (low, high) in zip(DIVERGING, pairwise(edges), strict=True):
        label = f"{low:.1f} to {high:.1f} mm/yr"
        label = (
            f"below {high:.1f} mm/yr"
            if low == -EDGE
            else f"{low:.1f} mm/yr or more"
            if high == EDGE
            else label
        )
        yield colour, label, [(field, ">=", f"{low:.6f}"), (field, "<", f"{high:.6f}")]


def field_style(limit: float) -> str:
    """Style the first band of a restored field, as QML: purple is down, green is up.
    `limit`: mm, of the outermost."""
    return qgis.raster_document(DIVERGING, limit, "mm")


STYLES = "layer_styles"
"""Table where QGIS keeps the styles that are saved with a GeoPackage."""
STYLE_NAME = "Plumbline"
"""Name of the styles."""
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
"""Statement that makes the table as QGIS does, so that QGIS saves further styles there."""
CONTENTS = (
    "INSERT INTO gpkg_contents (table_name, data_type, identifier, description, last_change, "
    "srs_id) VALUES (?, 'attributes', ?, '', ?, 0)"
)
# S608: STYLES is a constant.
INSERT_STYLE = (
    f"INSERT INTO {STYLES} "  # noqa: S608
    "(f_table_catalog, f_table_schema, f_table_name, f_geometry_column, styleName, styleQML, "
    "styleSLD, useAsDefault, description, owner, ui, update_time) "
    "VALUES ('', '', ?, ?, ?, ?, ?, 1, ?, '', NULL, ?)"
)


class Layer(NamedTuple):
    """A further layer, written in pieces."""

    name: str
    pieces: Iterable[geopandas.GeoDataFrame | pd.DataFrame]
    """Pieces, at least one, all with the same columns; each is made when the one before is
    written."""
    style: Style | None
    """Style of the layer; None: a table without places."""
    geometry_type: str | None = "Point"
    """Type of the geometries; None: that of the only piece."""
    epochs: Sequence[str] = ()
    """Columns of displacement, mm, that are packed, in a layer of scatterers."""


def add_layers(path: Path, layers: Sequence[Layer]) -> dict[str, Style]:
    """Append layers to the GeoPackage `path`; return the style of each.

    Raises:
        pyogrio.errors.DataSourceError, pyogrio.errors.DataLayerError, sqlite3.Error: the disk
            refused.
    """
    for layer in layers:
        name = layer.name + PACKED if layer.epochs else layer.name
        track = ""
        for piece in layer.pieces:
            kind = layer.geometry_type
            rows = piece
            if layer.epochs:
                track, rows = piece[TRACK].iloc[0], pack(piece, layer.epochs)
            pyogrio.write_dataframe(
                rows, path, layer=name, driver="GPKG", geometry_type=kind, append=True
            )
        if layer.epochs:
            add_view(path, layer.name, track, layer.epochs)
    return {layer.name: layer.style for layer in layers if layer.style is not None}


def add_styles(path: Path, styles: Mapping[str, Style]) -> None:
    """Make each style the default of its layer in the GeoPackage `path`, which has no styles yet.

    Raises:
        sqlite3.Error: the disk refused.
    """
    with closing(sqlite3.connect(path)) as database, database:
        # The time of the layers, so that GDAL's OGR_CURRENT_DATE holds for the styles, too.
        (changed,) = database.execute("SELECT max(last_change) FROM gpkg_contents").fetchone()
        geometry = dict(
            database.execute("SELECT table_name, column_name FROM gpkg_geometry_columns")
        )
        database.execute(TABLE)
        database.execute(CONTENTS, (STYLES, STYLES, changed))
        database.executemany(
            INSERT_STYLE,
            [
                (layer, geometry[layer], STYLE_NAME, style.qml, style.sld, style.about, changed)
                for layer, style in styles.items()
            ],
        )
