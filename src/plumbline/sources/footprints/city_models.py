"""Read the ground surfaces of CityJSON and CityGML."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from xml.etree import ElementTree

import geopandas
import numpy as np
import pyproj
import shapely
from numpy.typing import NDArray

from plumbline.core.console import log, warn
from plumbline.core.errors import InputError
from plumbline.sources.files.streams import CsvFile
from plumbline.sources.footprints.area import Area, touching
from plumbline.sources.footprints.ends import Ends

MAX_BYTES = 2**30
"""Largest CityJSON that is read at once; one with a feature a line may be of any size."""
CITY_JSON = re.compile(r'\{[^{}]*"type"\s*:\s*"CityJSON"')
EPSG = re.compile(r"EPSG[:/]+(?:[\d.]*[:/]+)?(\d+)")
"""Number of EPSG in a URN or an address; in a list of a compound CRS, the first is horizontal."""
GERMAN = (
    (re.compile(r"ETRS89_UTM(\d\d)"), 25800),
    (re.compile(r"ETRS89_Lat-Lon()"), 4258),
    (re.compile(r"DE_DHDN_3GK(\d)"), 31464),
    (re.compile(r"DE_42-83_3GK(\d)"), 2394),
    (re.compile(r"DE_PD-83_3GK(\d)"), 3393),
    (re.compile(r"DE_RD-83_3GK(\d)"), 3394),
)
"""Names of CRSs of the German states (urn:adv:crs:…), and what to add to their zone for the
number of EPSG."""
DEPTH = {"MultiSurface": 0, "CompositeSurface": 0, "Solid": 1, "MultiSolid": 2, "CompositeSolid": 2}
"""Levels of lists around the surfaces of a geometry."""
BUILDING, PART = "Building", "BuildingPart"
GROUND = "GroundSurface"
SAMPLE = 1000
"""Number of features among which the first place is looked for."""
NEAR_DEG = 1.0
"""Largest distance of a place from the area of use of its CRS, degrees."""
Ring = NDArray[np.float64]
Face = list[Ring]
"""Rings (C, 3), the outer one first."""
BuildingGround = tuple[dict[str, Any], shapely.Geometry]
"""Attributes of a building, and its ground."""


def is_city_json(start: str) -> bool:
    """Return whether a file with this beginning is CityJSON, whole or a feature a line."""
    return bool(CITY_JSON.match(start)) or (
        start[:1] == "{" and '"CityJSON"' in start and '"CityObjects"' in start
    )


def read_city_json(ends: Ends, stated: str | None, area: Area | None) -> geopandas.GeoDataFrame:
    """Read the ground of each building, without heights; parts of a building belong to it.

    Args:
        ends: beginning and end of the file.
        stated: CRS, where the file has none.
        area: keeps only the buildings that reach into it.

    Raises:
        InputError: the file is too large to be read at once, or holds no building.
        ValueError, LookupError, TypeError: it is no CityJSON.
    """
    with ends.content.open() as stream:
        first = stream.readline(MAX_BYTES + 1)
        try:
            head = json.loads(first)
        except ValueError:
            first += stream.read(MAX_BYTES + 1 - len(first))
            head = None
        if len(first) > MAX_BYTES:
            raise InputError(
                f"{ends.content}: more than {MAX_BYTES:,} bytes of CityJSON, which are not read at "
                "once. Cut it into tiles, or write it with a feature a line (CityJSONSeq: `cjseq "
                "cat`).",
                key="city_model.too_large",
            )
        head = json.loads(first) if head is None else head
        lines = (
            json.loads(line)
            for line in iter(lambda: stream.readline(MAX_BYTES), b"")
            if line.strip()
        )
        models = ({**model, "transform": head.get("transform")} for model in lines)
        buildings = (building for model in (head, *models) for building in _buildings(model))
        metadata = head.get("metadata") or {}
        name = metadata.get("referenceSystem") or (metadata.get("crs") or {}).get("epsg")
        return make_frame(
            str(ends.content), buildings, None if name is None else f"{name}", stated, area
        )


def _buildings(model: Mapping[str, Any]) -> Iterator[BuildingGround]:
    objects: Mapping[str, Any] = model["CityObjects"]
    corners = np.array(model["vertices"], float).reshape(-1, 3)
    if move := model.get("transform"):
        corners = corners * np.array(move["scale"], float) + np.array(move["translate"], float)
    for name, city_object in objects.items():
        if city_object["type"] != BUILDING:
            continue
        parts = [objects[child] for child in city_object.get("children", ()) if child in objects]
        shapes = [
            shape
            for part in (city_object, *parts)
            if part["type"] in (BUILDING, PART)
            for shape in part.get("geometry", ())
        ]
        attributes = {
            key: value
            for key, value in (city_object.get("attributes") or {}).items()
            if key != "geometry"
        }
        yield {**attributes, "id": name}, _ground(shapes, corners)


def _ground(shapes: list[dict[str, Any]], corners: Ring) -> shapely.Geometry:
    """Return the ground surfaces of the finest level of detail that has them; else level 0;
    else all faces."""
    faces = [
        (float(shape.get("lod", 0)), face, kind)
        for shape in shapes
        if shape["type"] in DEPTH
        for face, kind in _faces(shape)
    ]
    for level in sorted({level for level, _, _ in faces}, reverse=True):
        ground = [
            _rings(face, corners) for lod, face, kind in faces if lod == level and kind == GROUND
        ]
        if ground:
            return flat(ground)
    outlines = [_rings(face, corners) for lod, face, _ in faces if lod < 1]
    return flat(outlines) if outlines else whole([_rings(face, corners) for _, face, _ in faces])


def _faces(shape: Mapping[str, Any]) -> Iterator[tuple[Any, str | None]]:
    """Return the surfaces of a geometry, each with its type."""
    semantics = shape.get("semantics") or {}
    kinds = [surface["type"] for surface in semantics.get("surfaces", ())]
    for face, number in _unnest(shape["boundaries"], semantics.get("values"), DEPTH[shape["type"]]):
        yield face, kinds[number] if isinstance(number, int) else None


def _unnest(boundaries: list[Any], values: Any, depth: int) -> Iterator[tuple[Any, Any]]:
    for index, boundary in enumerate(boundaries):
        value = values[index] if isinstance(values, list) and index < len(values) else None
        if depth:
            yield from _unnest(boundary, value, depth - 1)
        else:
            yield boundary, value


def _rings(face: list[list[int]], corners: Ring) -> Face:
    return [corners[ring] for ring in face]


def flat(faces: Iterable[Face]) -> shapely.Geometry:
    """Project faces (each rings of (C, 3)) to the plane, as one polygon or several; invalid
    ones stay unchanged."""
    drawn = np.array([shape for shape in map(_polygon, faces) if shape is not None], object)
    parts = shapely.force_2d(drawn)
    parts = parts[shapely.area(parts) > 0]
    if len(parts) and shapely.is_valid(parts).all():
        return shapely.union_all(parts)
    return shapely.multipolygons(parts)


def whole(faces: Iterable[Face]) -> shapely.Geometry:
    """Return all faces of a solid with their heights, from which the ground is found later."""
    return shapely.multipolygons([shape for shape in map(_polygon, faces) if shape is not None])


def _polygon(face: Face) -> shapely.Geometry | None:
    rings = [ring for ring in face if len(ring) >= 3]
    return shapely.Polygon(rings[0], rings[1:]) if rings else None


def make_frame(
    source: str,
    buildings: Iterable[BuildingGround],
    name: str | None,
    stated: str | None,
    area: Area | None,
) -> geopandas.GeoDataFrame:
    """Put buildings of a city model into a table, with easting or longitude first.

    Args:
        source: for messages.
        buildings: attributes and ground of each.
        name: CRS as the file writes it.
        stated: CRS that the user states, where the file has none that is known.
        area: keeps only the buildings that reach into it.

    Raises:
        InputError: there is no building.
    """
    rows, shapes = [], []
    for attributes, ground in buildings:
        rows.append(attributes)
        shapes.append(ground)
    if not rows:
        raise InputError(
            f"{source}: a city model without a building in it. Give the file that has the "
            "buildings.",
            key="city_model.no_building",
        )
    geometry = np.array(shapes, object)
    geometry, crs = locate(source, geometry, name, stated)
    frame = geopandas.GeoDataFrame(rows, geometry=geometry, crs=crs)
    bounds = area.bounds_in(crs) if area is not None else None
    return frame if bounds is None else frame[touching(geometry, bounds)]


def locate(
    source: str, geometry: NDArray[np.object_], name: str | None, stated: str | None
) -> tuple[NDArray[np.object_], pyproj.CRS | None]:
    """Return geometries (F,) with easting or longitude first, and their CRS, if it is known.

    Args:
        source: for messages. geometry: as the file has it.
        name: CRS as the file writes it. stated: CRS that the user states.
    """
    crs = known_crs(name) or (None if stated is None else pyproj.CRS(stated))
    if name is not None and crs is None:
        warn("%s: CRS %r found, which is not known.", source, name[:80], key="crs.unknown")
    geometry = remove_zone(source, geometry, crs)
    if crs is not None and _is_northing_first(crs, geometry, name or ""):
        geometry = transform_in_plane(geometry, lambda x, y: (y, x))
    return geometry, crs


def remove_zone(
    source: object, geometry: NDArray[np.object_], crs: pyproj.CRS | None
) -> NDArray[np.object_]:
    """Return geometries (F,) in UTM without the number of the zone before their eastings, as
    German agencies write it (32389000 for 389000 in zone 32)."""
    zone = re.fullmatch(r"(\d\d)[NS]", str(crs and crs.utm_zone))
    offset_m = 1e6 * int(zone[1]) if zone else np.inf
    corner = shapely.get_coordinates(geometry[:SAMPLE])[:1]
    # No northing of UTM is as large as the number of a zone of two digits.
    if not ((corner >= offset_m) & (corner < offset_m + 1e6)).any():
        return geometry
    log.info("%s: the number of the zone, %s, is taken off its eastings", source, zone and zone[1])
    return transform_in_plane(
        geometry, lambda x, y: (x - offset_m * (x >= offset_m), y - offset_m * (y >= offset_m))
    )


def transform_in_plane(
    geometry: NDArray[np.object_], transform: Callable[[Any, Any], tuple[Any, Any]]
) -> NDArray[np.object_]:
    """Transform geometries in the plane; heights, which mark solids, stay unchanged."""
    transformed, has_z = geometry.copy(), shapely.has_z(geometry)
    transformed[~has_z] = shapely.transform(geometry[~has_z], transform, interleaved=False)
    transformed[has_z] = shapely.transform(
        geometry[has_z],
        lambda x, y, z: (*transform(x, y), z),
        include_z=True,
        interleaved=False,
    )
    return transformed


def known_crs(name: str | None) -> pyproj.CRS | None:
    """Return the horizontal CRS for a name as city models write it; None if it is unknown."""
    numbers = [match[1] for match in [EPSG.search(name or "")] if match]
    numbers += [
        str(add + int(zone[1] or 0))
        for pattern, add in GERMAN
        if (zone := pattern.search(name or ""))
    ]
    numbers += [name] if name and name.isdigit() else []
    try:
        crs = pyproj.CRS.from_epsg(numbers[0]) if numbers else None
    except pyproj.exceptions.CRSError:
        return None
    return None if crs is None else crs.sub_crs_list[0] if crs.is_compound else crs.to_2d()


def _is_northing_first(crs: pyproj.CRS, geometry: NDArray[np.object_], name: str) -> bool:
    """Return whether northing or latitude comes first: by the place, else by a full name's CRS."""
    corners = shapely.get_coordinates(geometry)[:1]
    if not len(corners):
        return False
    is_in_area = [_is_in_area_of_use(crs, *corners[0]), _is_in_area_of_use(crs, *corners[0][::-1])]
    if is_in_area[0] != is_in_area[1]:
        return is_in_area[1]
    return crs.axis_info[0].direction.lower() == "north" and name.startswith(("urn:ogc", "http"))


def _is_in_area_of_use(crs: pyproj.CRS, east: float, north: float) -> bool:
    """Return whether a place is in the area of use of its CRS."""
    area = crs.area_of_use
    if area is None:
        return True
    lon, lat = pyproj.Transformer.from_crs(crs, "EPSG:4326", always_xy=True).transform(east, north)
    if not np.isfinite([lon, lat]).all():
        return False
    inside = area.south - NEAR_DEG <= lat <= area.north + NEAR_DEG
    return bool(
        inside and (area.west > area.east or area.west - NEAR_DEG <= lon <= area.east + NEAR_DEG)
    )


CITY_GML = re.compile(r"http://www\.opengis\.net/citygml/|http://www\.citygml\.org/")
FLAT = ("lod0FootPrint", "lod0MultiSurface", "lod0RoofEdge")
"""Outlines of level of detail 0, the likelier ground first."""
ID = "{http://www.opengis.net/gml}id", "{http://www.opengis.net/gml/3.2}id"
HREF = "{http://www.w3.org/1999/xlink}href"
LOOKED_AT = 2**16
MAX_DEPTH = 64
"""Largest number of nested elements; a city model has about twenty."""
Element = ElementTree.Element


def is_city_gml(start: str) -> bool:
    """Return whether a file with this beginning is CityGML."""
    return start[:1] == "<" and "CityModel" in start and bool(CITY_GML.search(start))


def read_city_gml(ends: Ends, stated: str | None, area: Area | None) -> geopandas.GeoDataFrame:
    """Read the ground of each building, without heights; parts of a building belong to it.

    Args:
        ends: beginning and end of the file.
        stated: CRS, where the file has none.
        area: keeps only the buildings that reach into it.

    Raises:
        InputError: it holds no building, is no XML, defines entities, or names several CRSs.
    """
    crs_names: dict[str, None] = {}
    buildings = list(_gml_buildings(ends.content, crs_names))
    if len({str(known_crs(name) or name) for name in crs_names}) > 1:
        raise InputError(
            f"{ends.content}: CRSs {', '.join(list(crs_names)[:5])} found. Give one file for each "
            "CRS.",
            key="city_model.several_crss",
        )
    return make_frame(str(ends.content), buildings, next(iter(crs_names), None), stated, area)


def _gml_buildings(content: CsvFile, crs_names: dict[str, None]) -> Iterator[BuildingGround]:
    """Yield buildings; names of CRSs are added to `crs_names` on the way."""
    opened: list[Element] = []
    with content.open() as stream:
        if b"<!DOCTYPE" in stream.read(LOOKED_AT):
            raise InputError(
                f"{content}: a document type (DOCTYPE) found, which no city model has. Take it "
                "out.",
                key="gml.doctype",
            )
    with content.open() as stream:
        try:
            # Expat opens no other file, bounds what entities unpack to, and a file that
            # defines some was refused.
            for event, element in ElementTree.iterparse(stream, events=("start", "end")):  # noqa: S314
                if event == "start":
                    opened.append(element)
                    if "srsName" in element.attrib:
                        crs_names[element.attrib["srsName"]] = None
                    if len(opened) > MAX_DEPTH:
                        raise InputError(
                            f"{content}: elements are nested more than {MAX_DEPTH} deep. It is "
                            "no city model.",
                            key="gml.too_deep",
                        )
                    continue
                opened.pop()
                if _tag(element) == BUILDING:
                    yield _attributes(element), _gml_ground(element)
                if len(opened) <= 2:
                    element.clear()  # what has been read is forgotten
                    if opened:
                        opened[-1].remove(element)
        except ElementTree.ParseError as error:
            raise InputError(
                f"{content}: not readable as XML ({error}). Download it again.",
                key="gml.unreadable",
            ) from None


def _gml_ground(building: Element) -> shapely.Geometry:
    shapes = {
        element.get(key): element for element in building.iter() for key in ID if element.get(key)
    }
    ground = [
        face
        for side in building.iter()
        if _tag(side) == GROUND
        for face in _gml_faces(side, shapes)
    ]
    if ground:
        return flat(ground)
    for name in FLAT:
        outline = [
            face
            for side in building.iter()
            if _tag(side) == name
            for face in _gml_faces(side, shapes)
        ]
        if outline:
            return flat(outline)
    return whole(_gml_faces(building, {}))


def _gml_faces(surface: Element, shapes: dict[str | None, Element]) -> list[Face]:
    """Return an element's polygons, also those linked within the building."""
    polygons = [
        part
        for part in surface.iter()
        if _tag(part) in ("Polygon", "Triangle", "PolygonPatch", "Rectangle")
    ]
    for element in surface.iter():
        target = shapes.get((element.get(HREF) or "").removeprefix("#"))
        if target is not None and target is not surface:
            polygons += [inner for inner in target.iter() if _tag(inner) == "Polygon"]
    return [
        rings for polygon in polygons if (rings := [_ring(ring) for ring in _rings_of(polygon)])
    ]


def _rings_of(polygon: Element) -> list[Element]:
    """Return a polygon's rings, the outer one first."""
    rings = [
        (_tag(side), ring) for side in polygon for ring in side.iter() if _tag(ring) == "LinearRing"
    ]
    return [
        ring
        for name, ring in sorted(
            rings, key=lambda pair: pair[0] not in ("exterior", "outerBoundaryIs")
        )
    ]


def _ring(ring: Element) -> Ring:
    """Return the corners (C, 3) of a ring: a list of positions, single ones, or GML 2's
    coordinates."""
    texts = [part for part in ring.iter() if _tag(part) in ("posList", "pos", "coordinates")]
    numbers = np.array(
        [float(word) for part in texts for word in (part.text or "").replace(",", " ").split()]
    )
    first = texts[0] if texts else ring
    size = int(first.get("srsDimension") or 3)
    if _tag(first) == "pos":
        size = len(numbers) // len(texts)
    elif len(numbers) % size and not len(numbers) % 2:
        size = 2
    corners = numbers.reshape(-1, size)
    return corners if size == 3 else np.column_stack([corners[:, :2], np.zeros(len(corners))])


def _attributes(building: Element) -> dict[str, Any]:
    """Return a building's simple elements and generic attributes, as text, and its identifier."""
    attributes: dict[str, Any] = {}
    for child in building:
        texts = {_tag(element): element.text for element in child.iter() if element is not child}
        name = child.get("name") or (
            texts.get("name") if _tag(child) == "genericAttribute" else None
        )
        if name and "value" in texts:
            attributes[name] = texts["value"]
        elif not len(child) and (child.text or "").strip():
            attributes.setdefault(_tag(child), (child.text or "").strip())
    attributes.pop("geometry", None)
    return {
        **attributes,
        "gml_id": next((building.get(key) for key in ID if building.get(key)), None),
    }


def _tag(element: Element) -> str:
    return element.tag.rpartition("}")[2]
