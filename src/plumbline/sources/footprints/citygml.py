"""Read the ground surfaces of buildings from CityGML 1 to 3, a building at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import geopandas
import numpy as np
import shapely

from plumbline.core.errors import InputError
from plumbline.sources.files.archive import CsvFile
from plumbline.sources.footprints.area import Area
from plumbline.sources.footprints.cityjson import BUILDING, GROUND, Face, Named, Ring, flat, known_crs, placed, whole

CITY_GML = re.compile(r"http://www\.opengis\.net/citygml/|http://www\.citygml\.org/")
FLAT = ("lod0FootPrint", "lod0MultiSurface", "lod0RoofEdge")
"""Outlines of level of detail 0, the likelier ground first."""
ID = "{http://www.opengis.net/gml}id", "{http://www.opengis.net/gml/3.2}id"
HREF = "{http://www.w3.org/1999/xlink}href"
LOOKED_AT = 2**16
MANY = 64
"""Elements open at once; a city model has about twenty."""
Element = ElementTree.Element


def is_city_gml(start: str) -> bool:
    """Return whether a file with this beginning is CityGML."""
    return start[:1] == "<" and "CityModel" in start and bool(CITY_GML.search(start))


def read_city_gml(content: CsvFile, stated: str | None, area: Area | None) -> geopandas.GeoDataFrame:
    """Read the ground of each building, without heights; parts of a building belong to it.

    Args:
        content: the file.
        stated: CRS, where the file has none.
        area: keeps only the buildings that reach into it.

    Raises:
        InputError: it holds no building, is no XML, defines entities, or names several CRSs.
    """
    named: dict[str, None] = {}
    found = list(_gml_buildings(content, named))
    if len({str(known_crs(name) or name) for name in named}) > 1:
        raise InputError(f"{content}: CRSs {', '.join(list(named)[:5])} found. Give one file for each CRS.")
    return placed(str(content), found, next(iter(named), None), stated, area)


def _gml_buildings(content: CsvFile, named: dict[str, None]) -> Iterator[Named]:
    """Yield buildings; names of CRSs are added to `named` on the way."""
    opened: list[Element] = []
    with content.open() as stream:
        if b"<!DOCTYPE" in stream.read(LOOKED_AT):
            raise InputError(f"{content}: a document type (DOCTYPE) found, which no city model has. Take it out.")
    with content.open() as stream:
        try:
            # Expat opens no other file, bounds what entities unpack to, and a file that defines some was refused.
            for event, element in ElementTree.iterparse(stream, events=("start", "end")):  # noqa: S314
                if event == "start":
                    opened.append(element)
                    if "srsName" in element.attrib:
                        named[element.attrib["srsName"]] = None
                    if len(opened) > MANY:
                        raise InputError(f"{content}: elements are nested more than {MANY} deep. It is no city model.")
                    continue
                opened.pop()
                if _name(element) == BUILDING:
                    yield _attributes(element), _gml_ground(element)
                if len(opened) <= 2:
                    element.clear()  # what has been read is forgotten
                    if opened:
                        opened[-1].remove(element)
        except ElementTree.ParseError as error:
            raise InputError(f"{content}: not readable as XML ({error}). Download it again.") from None


def _gml_ground(building: Element) -> shapely.Geometry:
    shapes = {one.get(key): one for one in building.iter() for key in ID if one.get(key)}
    ground = [face for one in building.iter() if _name(one) == GROUND for face in _gml_faces(one, shapes)]
    if ground:
        return flat(ground)
    for name in FLAT:
        outline = [face for one in building.iter() if _name(one) == name for face in _gml_faces(one, shapes)]
        if outline:
            return flat(outline)
    return whole(_gml_faces(building, {}))


def _gml_faces(surface: Element, shapes: dict[str | None, Element]) -> list[Face]:
    """Return an element's polygons, also those linked within the building."""
    polygons = [one for one in surface.iter() if _name(one) in ("Polygon", "Triangle", "PolygonPatch", "Rectangle")]
    for one in surface.iter():
        target = shapes.get((one.get(HREF) or "").removeprefix("#"))
        if target is not None and target is not surface:
            polygons += [inner for inner in target.iter() if _name(inner) == "Polygon"]
    return [rings for polygon in polygons if (rings := [_ring(ring) for ring in _rings_of(polygon)])]


def _rings_of(polygon: Element) -> list[Element]:
    """Return a polygon's rings, the outer one first."""
    rings = [(_name(side), ring) for side in polygon for ring in side.iter() if _name(ring) == "LinearRing"]
    return [ring for name, ring in sorted(rings, key=lambda one: one[0] not in ("exterior", "outerBoundaryIs"))]


def _ring(ring: Element) -> Ring:
    """Return the corners (C, 3) of a ring: a list of positions, single ones, or GML 2's coordinates."""
    texts = [one for one in ring.iter() if _name(one) in ("posList", "pos", "coordinates")]
    numbers = np.array([float(word) for one in texts for word in (one.text or "").replace(",", " ").split()])
    first = texts[0] if texts else ring
    size = int(first.get("srsDimension") or 3)
    if _name(first) == "pos":
        size = len(numbers) // len(texts)
    elif len(numbers) % size and not len(numbers) % 2:
        size = 2
    corners = numbers.reshape(-1, size)
    return corners if size == 3 else np.column_stack([corners[:, :2], np.zeros(len(corners))])


def _attributes(building: Element) -> dict[str, Any]:
    """Return a building's simple elements and generic attributes, as text, and its identifier."""
    found: dict[str, Any] = {}
    for one in building:
        held = {_name(value): value.text for value in one.iter() if value is not one}
        name = one.get("name") or (held.get("name") if _name(one) == "genericAttribute" else None)
        if name and "value" in held:
            found[name] = held["value"]
        elif not len(one) and (one.text or "").strip():
            found.setdefault(_name(one), (one.text or "").strip())
    found.pop("geometry", None)
    return {**found, "gml_id": next((building.get(key) for key in ID if building.get(key)), None)}


def _name(element: Element) -> str:
    return element.tag.rpartition("}")[2]
