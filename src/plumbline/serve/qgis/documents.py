"""Write styles as QML and SLD."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

VERSION = "3.22.0-Białowieża"
"""Version of the oldest QGIS that reads these documents; newer ones convert them as they load
them."""
DOCTYPE = "<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'>\n"
MARK = "<!-- written by Plumbline -->\n"
"""Comment by which a file of Plumbline differs from one that QGIS has saved."""
POINT, POLYGON = "0", "2"
"""Codes of geometries in `layerGeometryType`."""


Condition = tuple[str, str, object]
"""Field, operator and value, see `expression`."""


class Entry(NamedTuple):
    """One line of a legend: conditions of its features, and their symbols."""

    label: str
    conditions: Sequence[Condition]
    """Conditions that all hold; for a graduated renderer, those of the lower and of the upper end,
    as texts."""
    symbol: ET.Element
    """Symbol for QGIS."""
    symbolizer: ET.Element
    """Symbolizer of SLD, for map servers."""


def node(
    tag: str, attributes: Mapping[str, str] = {}, *children: ET.Element, text: str | None = None
) -> ET.Element:
    """Make an element with its children."""
    element = ET.Element(tag, dict(attributes))
    element.extend(children)
    element.text = text
    return element


def rgba(colour: str, opacity: float = 1.0) -> str:
    """Write a colour as QGIS does: red, green, blue and alpha, each 0 to 255. `colour`: as
    `#ffffb2`."""
    parts = [int(colour[place : place + 2], 16) for place in (1, 3, 5)]
    return ",".join(map(str, [*parts, round(255 * opacity)]))


def simple_fill(
    colour: str,
    outline: str | None,
    style: str = "solid",
    opacity: float = 1.0,
    width_mm: float = 0.2,
) -> ET.Element:
    """Make a symbol layer for polygons.

    Args:
        colour, outline: as `#ffffb2`; None: no outline.
        style: of the brush: `solid`, `b_diagonal`, `diagonal_x`, and others of QGIS.
        opacity: of the filling. width_mm: of the outline.
    """
    return _layer(
        "SimpleFill",
        {
            "color": rgba(colour, opacity),
            "style": style,
            "outline_color": rgba(outline or colour),
            "outline_style": "solid" if outline else "no",
            "outline_width": f"{width_mm:g}",
            "outline_width_unit": "MM",
        },
    )


def marker(colour: str, outline: str, size_mm: float = 1.8) -> ET.Element:
    """Make a symbol layer for points: a disc."""
    return _layer(
        "SimpleMarker",
        {
            "name": "circle",
            "color": rgba(colour),
            "outline_color": rgba(outline),
            "outline_width": "0.1",
            "outline_width_unit": "MM",
            "size": f"{size_mm:g}",
            "size_unit": "MM",
        },
    )


def line(colour: str, width_mm: float = 0.8) -> ET.Element:
    """Make a symbol layer for lines."""
    return _layer(
        "SimpleLine",
        {
            "line_color": rgba(colour),
            "line_width": f"{width_mm:g}",
            "line_width_unit": "MM",
            "line_style": "solid",
        },
    )


def generated(expression: str, fill: ET.Element) -> ET.Element:
    """Make a symbol layer that draws the polygon of an expression with `fill`, above all
    other layers."""
    layer = _layer(
        "GeometryGenerator",
        {"SymbolType": "Fill", "geometryModifier": expression, "units": "MapUnit"},
    )
    layer.set("pass", "1")
    fill_symbol = symbol("fill", fill)
    fill_symbol.set("name", "@quadrant@0")
    layer.append(fill_symbol)
    return layer


def symbol(kind: str, *layers: ET.Element) -> ET.Element:
    """Make a symbol of layers, the lowest first. `kind`: `fill`, `line` or `marker`."""
    return node(
        "symbol", {"type": kind, "alpha": "1", "clip_to_extent": "1", "force_rhr": "0"}, *layers
    )


def area(
    label: str,
    conditions: Sequence[Condition],
    colour: str,
    outline: str,
    *,
    hatching: tuple[str, str] | None = None,
    opacity: float = 1.0,
) -> Entry:
    """Draw polygons in one colour, or with its lines: `hatching` is a brush of QGIS and a
    shape of SLD."""
    brush, filling = (
        ("solid", solid(colour))
        if hatching is None
        else (hatching[0], hatched(hatching[1], colour))
    )
    fill = simple_fill(colour, outline, brush, opacity)
    return Entry(label, conditions, symbol("fill", fill), polygon(filling, outline))


def rule_renderer(entries: Sequence[Entry]) -> ET.Element:
    """Draw each feature with the symbol of every entry with conditions that it meets."""
    lines = [
        node(
            "rule",
            {
                "key": _rule_key(n),
                "symbol": str(n),
                "label": e.label,
                "filter": expression(e.conditions),
            },
        )
        for n, e in enumerate(entries)
    ]
    return node(
        "renderer-v2",
        {"type": "RuleRenderer", "symbollevels": "0", "forceraster": "0", "enableorderby": "0"},
        node("rules", {"key": _rule_key(len(entries))}, *lines),
        _symbols([entry.symbol for entry in entries]),
    )


def graduated_renderer(field: str, entries: Sequence[Entry]) -> ET.Element:
    """Draw each feature with the symbol of the range around its value of `field`."""
    lines = []
    for n, entry in enumerate(entries):
        (_, _, lower), (_, _, upper) = entry.conditions
        ends = {"lower": str(lower), "upper": str(upper)}
        lines.append(
            node("range", {**ends, "symbol": str(n), "label": entry.label, "render": "true"})
        )
    return node(
        "renderer-v2",
        {
            "type": "graduatedSymbol",
            "attr": field,
            "graduatedMethod": "GraduatedColor",
            "symbollevels": "0",
            "forceraster": "0",
            "enableorderby": "0",
        },
        node("ranges", {}, *lines),
        _symbols([entry.symbol for entry in entries]),
    )


def vector_document(
    renderer: ET.Element,
    geometry: str | None,
    aliases: Mapping[str, str],
    title: str,
    map_tip: str | None = None,
) -> str:
    """Put the style of a layer of features together.

    Args:
        renderer: see `rule_renderer` and `graduated_renderer`.
        geometry: `POINT` or `POLYGON`; None: all of them.
        aliases: what each field is called in forms and tables, with its unit.
        title: expression that names a feature.
        map_tip: HTML with expressions between `[%` and `%]`; None: the title alone.
    """
    names = [
        node("alias", {"index": str(n), "field": field, "name": name})
        for n, (field, name) in enumerate(aliases.items())
    ]
    parts = [renderer, node("aliases", {}, *names), node("previewExpression", text=title)]
    parts += [node("mapTip", text=map_tip)] if map_tip else []
    # QGIS refuses a style with another type than the layer's.
    parts += [node("layerGeometryType", text=geometry)] if geometry else []
    return _document(*parts)


def raster_document(colours: Sequence[str], limit: float, unit: str) -> str:
    """Style the first band of a raster with a continuous ramp of colours from `-limit` to
    `limit`; `unit`: of both."""
    last = len(colours) - 1
    values = [limit * (2 * n - last) / last for n in range(len(colours))]
    items = [
        node(
            "item",
            {
                "value": f"{value:.6g}",
                "label": f"{value:.3g} {unit}",
                "color": colour,
                "alpha": "255",
            },
        )
        for value, colour in zip(values, colours, strict=True)
    ]
    ends = {"minimumValue": f"{-limit:.6g}", "maximumValue": f"{limit:.6g}"}
    ramp = {
        "colorRampType": "INTERPOLATED",
        "classificationMode": "1",
        "clip": "0",
        "labelPrecision": "4",
    }
    renderer = node(
        "rasterrenderer",
        {
            "type": "singlebandpseudocolor",
            "band": "1",
            "opacity": "1",
            "alphaBand": "-1",
            "nodataColor": "",
            "classificationMin": ends["minimumValue"],
            "classificationMax": ends["maximumValue"],
        },
        node("rasterTransparency"),
        node("minMaxOrigin", {}, node("limits", text="None"), node("extent", text="WholeRaster")),
        node("rastershader", {}, node("colorrampshader", {**ramp, **ends}, *items)),
    )
    pipe = node(
        "pipe",
        {},
        renderer,
        node("brightnesscontrast"),
        node("huesaturation"),
        node("rasterresampler"),
    )
    return _document(pipe, node("blendMode", text="0"))


def _document(*parts: ET.Element) -> str:
    root = node("qgis", {"version": VERSION, "styleCategories": "AllStyleCategories"}, *parts)
    ET.indent(root)
    return DOCTYPE + MARK + ET.tostring(root, encoding="unicode") + "\n"


def _layer(kind: str, options: Mapping[str, str]) -> ET.Element:
    values = [
        node("Option", {"name": name, "value": value, "type": "QString"})
        for name, value in options.items()
    ]
    attributes = {"class": kind, "enabled": "1", "locked": "0", "pass": "0"}
    return node("layer", attributes, node("Option", {"type": "Map"}, *values))


def _symbols(symbols: Sequence[ET.Element]) -> ET.Element:
    for n, symbol_node in enumerate(symbols):
        symbol_node.set("name", str(n))
    return node("symbols", {}, *symbols)


def _rule_key(number: int) -> str:
    return f"{{{number:08x}-0000-4000-8000-000000000000}}"


SPACES = {
    "xmlns": "http://www.opengis.net/sld",
    "xmlns:se": "http://www.opengis.net/se",
    "xmlns:ogc": "http://www.opengis.net/ogc",
    "version": "1.1.0",
}


OPERATORS = {
    "=": "PropertyIsEqualTo",
    ">=": "PropertyIsGreaterThanOrEqualTo",
    "<": "PropertyIsLessThan",
}
"""Operator of a condition -> its name in OGC's filters."""
DIMENSIONS = {
    "point": "coalesce(area($geometry), length($geometry), 0) = 0",
    "line": "length($geometry) > 0",
    "polygon": "area($geometry) > 0",
}
"""Kind of geometry, by its dimension -> condition of QGIS."""


def expression(conditions: Sequence[Condition]) -> str:
    """Write conditions as an expression of QGIS.

    Operators: those of `OPERATORS`; `in` several values; `empty`; `is` true or false;
    `dimension`, of `DIMENSIONS`.
    """
    return " AND ".join(_expression(*condition) for condition in conditions)


def _expression(field: str, operator: str, value: Any) -> str:
    match operator:
        case "in":
            return f'"{field}" IN ({", ".join(map(repr, value))})'
        case "empty":
            return f'"{field}" IS NULL'
        case "is":
            return f'"{field}"' if value else f'NOT "{field}"'
        case "dimension":
            return DIMENSIONS[value]
    return f'"{field}" {operator} {value!r}'


def _filter(field: str, operator: str, value: Any) -> ET.Element:
    """Write a condition as a filter of OGC, see `expression`."""
    name = node("ogc:PropertyName", text=field)
    match operator:
        case "in":
            parts = [_filter(field, "=", v) for v in value]
            return node("ogc:Or", {}, *parts) if len(parts) > 1 else parts[0]
        case "empty":
            return node("ogc:PropertyIsNull", {}, name)
        case "is":
            return _filter(field, "=", str(value).lower())
        case "dimension":
            function, dimension = (
                node("ogc:Function", {"name": "dimension"}, name),
                list(DIMENSIONS).index(value),
            )
            return node(
                "ogc:PropertyIsEqualTo", {}, function, node("ogc:Literal", text=str(dimension))
            )
    return node(f"ogc:{OPERATORS[operator]}", {}, name, node("ogc:Literal", text=str(value)))


def polygon(fill: ET.Element, outline: str, width_px: float = 0.7) -> ET.Element:
    """Make a symbol for polygons. `fill`: see `solid` and `hatched`. `outline`: as `#ffffb2`."""
    return node("se:PolygonSymbolizer", {}, fill, _stroke(outline, width_px))


def stroke(colour: str, width_px: float = 2.5) -> ET.Element:
    """Make a symbol for lines."""
    return node("se:LineSymbolizer", {}, _stroke(colour, width_px))


def solid(colour: str) -> ET.Element:
    """Make a filling of one colour."""
    return node("se:Fill", {}, _parameter("fill", colour))


def hatched(shape: str, colour: str) -> ET.Element:
    """Make a filling of lines. `shape`: `slash`, `backslash`, `horline` or `x`."""
    mark = node("se:Mark", {}, node("se:WellKnownName", text=shape), _stroke(colour, 0.7))
    size = node("se:Size", text="6")
    return node("se:Fill", {}, node("se:GraphicFill", {}, node("se:Graphic", {}, mark, size)))


def point(colour: str, outline: str, size_px: float = 6.0) -> ET.Element:
    """Make a symbol for points: a disc."""
    mark = node(
        "se:Mark", {}, node("se:WellKnownName", text="circle"), solid(colour), _stroke(outline, 0.3)
    )
    return node(
        "se:PointSymbolizer", {}, node("se:Graphic", {}, mark, node("se:Size", text=f"{size_px:g}"))
    )


def text(field: str, colour: str = "#000000") -> ET.Element:
    """Make a symbol that writes the value of a field."""
    label = node("se:Label", {}, node("ogc:PropertyName", text=field))
    font = node("se:Font", {}, _parameter("font-size", "11"))
    return node("se:TextSymbolizer", {}, label, font, solid(colour))


def document(layer: str, entries: Sequence[Entry]) -> str:
    """Put the style of a layer for map servers together."""
    rules = []
    for entry in entries:
        description = node("se:Description", {}, node("se:Title", text=entry.label))
        filters = [_filter(*condition) for condition in entry.conditions]
        condition = node("ogc:And", {}, *filters) if len(filters) > 1 else filters[0]
        rules.append(
            node(
                "se:Rule",
                {},
                node("se:Name", text=entry.label),
                description,
                node("ogc:Filter", {}, condition),
                entry.symbolizer,
            )
        )
    style = node(
        "UserStyle", {}, node("se:Name", text=layer), node("se:FeatureTypeStyle", {}, *rules)
    )
    root = node(
        "StyledLayerDescriptor", SPACES, node("NamedLayer", {}, node("se:Name", text=layer), style)
    )
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _stroke(colour: str, width_px: float) -> ET.Element:
    return node(
        "se:Stroke", {}, _parameter("stroke", colour), _parameter("stroke-width", f"{width_px:g}")
    )


def _parameter(name: str, value: str) -> ET.Element:
    return node("se:SvgParameter", {"name": name}, text=value)
