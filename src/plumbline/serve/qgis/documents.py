"""Write styles as QML and SLD."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from typing import NamedTuple

VERSION = "3.22.0-Białowieża"
"""The oldest QGIS that reads what is written here; newer ones convert it as they load it."""
DOCTYPE = "<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'>\n"
MARK = "<!-- written by Plumbline -->\n"
"""Tells our own file from one that QGIS has saved."""
POINT, POLYGON = "0", "2"
"""Codes of geometries in `layerGeometryType`."""


class Rule(NamedTuple):
    """One line of the legend of a rule-based renderer."""

    label: str
    condition: str
    """Expression of QGIS."""
    symbol: ET.Element


class Range(NamedTuple):
    """One class of a graduated renderer."""

    label: str
    lower: float
    upper: float
    symbol: ET.Element


def node(tag: str, attributes: Mapping[str, str] = {}, *children: ET.Element, text: str | None = None) -> ET.Element:
    """Make an element with its children."""
    made = ET.Element(tag, dict(attributes))
    made.extend(children)
    made.text = text
    return made


def rgba(colour: str, opacity: float = 1.0) -> str:
    """Write a colour as QGIS does: red, green, blue and alpha, each 0 to 255. `colour`: as `#ffffb2`."""
    parts = [int(colour[place : place + 2], 16) for place in (1, 3, 5)]
    return ",".join(map(str, [*parts, round(255 * opacity)]))


def simple_fill(
    colour: str, outline: str | None, style: str = "solid", opacity: float = 1.0, width_mm: float = 0.2
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
        {"line_color": rgba(colour), "line_width": f"{width_mm:g}", "line_width_unit": "MM", "line_style": "solid"},
    )


def generated(expression: str, fill: ET.Element) -> ET.Element:
    """Make a symbol layer that draws the polygon of an expression with `fill`, above all other layers."""
    made = _layer("GeometryGenerator", {"SymbolType": "Fill", "geometryModifier": expression, "units": "MapUnit"})
    made.set("pass", "1")
    part = symbol("fill", fill)
    part.set("name", "@quadrant@0")
    made.append(part)
    return made


def symbol(kind: str, *layers: ET.Element) -> ET.Element:
    """Make a symbol of layers, the lowest first. `kind`: `fill`, `line` or `marker`."""
    return node("symbol", {"type": kind, "alpha": "1", "clip_to_extent": "1", "force_rhr": "0"}, *layers)


def rule_renderer(rules: Sequence[Rule]) -> ET.Element:
    """Draw each feature with the symbols of all rules that it meets."""
    lines = [
        node("rule", {"key": _key(n), "symbol": str(n), "label": one.label, "filter": one.condition})
        for n, one in enumerate(rules)
    ]
    return node(
        "renderer-v2",
        {"type": "RuleRenderer", "symbollevels": "0", "forceraster": "0", "enableorderby": "0"},
        node("rules", {"key": _key(len(rules))}, *lines),
        _symbols([one.symbol for one in rules]),
    )


def graduated_renderer(field: str, ranges: Sequence[Range]) -> ET.Element:
    """Draw each feature with the symbol of the range around its value of `field`."""
    lines = [
        node(
            "range",
            {
                "lower": f"{one.lower:.6f}",
                "upper": f"{one.upper:.6f}",
                "symbol": str(n),
                "label": one.label,
                "render": "true",
            },
        )
        for n, one in enumerate(ranges)
    ]
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
        _symbols([one.symbol for one in ranges]),
    )


def vector_document(
    renderer: ET.Element, geometry: str | None, aliases: Mapping[str, str], title: str, map_tip: str | None = None
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
    """Style the first band of a raster with a continuous ramp of colours from `-limit` to `limit`; `unit`: of both."""
    last = len(colours) - 1
    values = [limit * (2 * n - last) / last for n in range(len(colours))]
    items = [
        node("item", {"value": f"{value:.6g}", "label": f"{value:.3g} {unit}", "color": colour, "alpha": "255"})
        for value, colour in zip(values, colours, strict=True)
    ]
    ends = {"minimumValue": f"{-limit:.6g}", "maximumValue": f"{limit:.6g}"}
    ramp = {"colorRampType": "INTERPOLATED", "classificationMode": "1", "clip": "0", "labelPrecision": "4"}
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
    pipe = node("pipe", {}, renderer, node("brightnesscontrast"), node("huesaturation"), node("rasterresampler"))
    return _document(pipe, node("blendMode", text="0"))


def _document(*parts: ET.Element) -> str:
    root = node("qgis", {"version": VERSION, "styleCategories": "AllStyleCategories"}, *parts)
    ET.indent(root)
    return DOCTYPE + MARK + ET.tostring(root, encoding="unicode") + "\n"


def _layer(kind: str, options: Mapping[str, str]) -> ET.Element:
    values = [node("Option", {"name": name, "value": value, "type": "QString"}) for name, value in options.items()]
    about = {"class": kind, "enabled": "1", "locked": "0", "pass": "0"}
    return node("layer", about, node("Option", {"type": "Map"}, *values))


def _symbols(symbols: Sequence[ET.Element]) -> ET.Element:
    for number, one in enumerate(symbols):
        one.set("name", str(number))
    return node("symbols", {}, *symbols)


def _key(number: int) -> str:
    return f"{{{number:08x}-0000-4000-8000-000000000000}}"


SPACES = {
    "xmlns": "http://www.opengis.net/sld",
    "xmlns:se": "http://www.opengis.net/se",
    "xmlns:ogc": "http://www.opengis.net/ogc",
    "version": "1.1.0",
}


def compared(operator: str, field: str, value: str) -> ET.Element:
    """Make a condition. `operator`: of OGC's filters, for example `PropertyIsEqualTo`."""
    return node(f"ogc:{operator}", {}, node("ogc:PropertyName", text=field), node("ogc:Literal", text=value))


def between(field: str, low: str, high: str) -> ET.Element:
    """Make the condition that a field is `low` or more, and below `high`."""
    least = compared("PropertyIsGreaterThanOrEqualTo", field, low)
    return both(least, compared("PropertyIsLessThan", field, high))


def is_null(field: str) -> ET.Element:
    """Make the condition that a field is empty."""
    return node("ogc:PropertyIsNull", {}, node("ogc:PropertyName", text=field))


def has_dimension(number: int) -> ET.Element:
    """Make the condition that a geometry is a point (0), a line (1) or a polygon (2)."""
    of = node("ogc:Function", {"name": "dimension"}, node("ogc:PropertyName", text="geom"))
    return node("ogc:PropertyIsEqualTo", {}, of, node("ogc:Literal", text=str(number)))


def both(one: ET.Element, other: ET.Element) -> ET.Element:
    """Combine two conditions by `And`."""
    return node("ogc:And", {}, one, other)


def either(conditions: Sequence[ET.Element]) -> ET.Element:
    """Combine conditions by `Or`; a single one stays as it is."""
    return node("ogc:Or", {}, *conditions) if len(conditions) > 1 else conditions[0]


def polygon(fill: ET.Element, outline: str, width_px: float = 0.7) -> ET.Element:
    """Make a symbol for polygons. `fill`: see `solid` and `hatched`. `outline`: as `#ffffb2`."""
    line = node("se:Stroke", {}, _value("stroke", outline), _value("stroke-width", f"{width_px:g}"))
    return node("se:PolygonSymbolizer", {}, fill, line)


def stroke(colour: str, width_px: float = 2.5) -> ET.Element:
    """Make a symbol for lines."""
    line = node("se:Stroke", {}, _value("stroke", colour), _value("stroke-width", f"{width_px:g}"))
    return node("se:LineSymbolizer", {}, line)


def solid(colour: str) -> ET.Element:
    """Make a filling of one colour."""
    return node("se:Fill", {}, _value("fill", colour))


def hatched(shape: str, colour: str) -> ET.Element:
    """Make a filling of lines. `shape`: `slash`, `backslash`, `horline` or `x`."""
    mark = node("se:Mark", {}, node("se:WellKnownName", text=shape))
    mark.append(node("se:Stroke", {}, _value("stroke", colour), _value("stroke-width", "0.7")))
    size = node("se:Size", text="6")
    return node("se:Fill", {}, node("se:GraphicFill", {}, node("se:Graphic", {}, mark, size)))


def point(colour: str, outline: str, size_px: float = 6.0) -> ET.Element:
    """Make a symbol for points: a disc."""
    line = node("se:Stroke", {}, _value("stroke", outline), _value("stroke-width", "0.3"))
    mark = node("se:Mark", {}, node("se:WellKnownName", text="circle"), solid(colour), line)
    return node("se:PointSymbolizer", {}, node("se:Graphic", {}, mark, node("se:Size", text=f"{size_px:g}")))


def text(field: str, colour: str = "#000000") -> ET.Element:
    """Make a symbol that writes the value of a field."""
    label = node("se:Label", {}, node("ogc:PropertyName", text=field))
    font = node("se:Font", {}, _value("font-size", "11"))
    return node("se:TextSymbolizer", {}, label, font, solid(colour))


def rule(label: str, condition: ET.Element, symbol: ET.Element) -> ET.Element:
    """Make one line of the legend."""
    about = node("se:Description", {}, node("se:Title", text=label))
    return node("se:Rule", {}, node("se:Name", text=label), about, node("ogc:Filter", {}, condition), symbol)


def document(layer: str, rules: Sequence[ET.Element]) -> str:
    """Put the style of a layer together."""
    style = node("UserStyle", {}, node("se:Name", text=layer), node("se:FeatureTypeStyle", {}, *rules))
    root = node("StyledLayerDescriptor", SPACES, node("NamedLayer", {}, node("se:Name", text=layer), style))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _value(name: str, value: str) -> ET.Element:
    return node("se:SvgParameter", {"name": name}, text=value)
