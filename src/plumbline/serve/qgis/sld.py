"""Build SLD 1.1 (OGC Styled Layer Descriptor), which map servers read, from filters and symbols."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence

from plumbline.serve.qgis.qml import node

SPACES = {
    "xmlns": "http://www.opengis.net/sld",
    "xmlns:se": "http://www.opengis.net/se",
    "xmlns:ogc": "http://www.opengis.net/ogc",
    "version": "1.1.0",
}


def compared(operator: str, field: str, value: str) -> ET.Element:
    """Make a condition. `operator`: of OGC's filters, for example `PropertyIsEqualTo`."""
    return node(f"ogc:{operator}", {}, node("ogc:PropertyName", text=field), node("ogc:Literal", text=value))


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
