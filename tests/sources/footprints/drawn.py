"""Files of footprints for the tests of their readers."""

import gzip
import json
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import geopandas
import shapely

from tests.sources.make import squares, zipped

CRS = "EPSG:3035"
SQUARE = [[13.15, 38.7], [13.1502, 38.7], [13.1502, 38.7001], [13.15, 38.7001], [13.15, 38.7]]
"""A ring in degrees."""


def polygon(ring: list[list[float]]) -> dict[str, Any]:
    return {"type": "Polygon", "coordinates": [ring]}


def moved(number: int) -> dict[str, Any]:
    """One of several squares in a row."""
    return polygon([[x, y + 0.001 * number] for x, y in SQUARE])


def feature(shape: dict[str, Any] | None, properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Feature", "properties": properties, "geometry": shape}


def geojson(
    path: Path,
    shapes: Iterable[dict[str, Any] | None],
    properties: Sequence[dict[str, Any]] | None = None,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> Path:
    """Write a collection; `before` and `after` are its members around the features."""
    shapes = list(shapes)
    properties = properties or [{"building_id": f"H{number}"} for number in range(len(shapes))]
    features = [feature(*pair) for pair in zip(shapes, properties, strict=True)]
    members = {"type": "FeatureCollection", **(before or {}), "features": features, **(after or {})}
    path.write_text(json.dumps(members))
    return path


def save(frame: geopandas.GeoDataFrame, path: Path) -> Path:
    """Write a table in the format that the name says: also packed, with a feature a line, or as WKT in a csv."""
    suffix = path.name.split(".", 1)[1]
    if suffix.endswith(".gz"):
        plain = save(frame, path.with_suffix(""))
        path.write_bytes(gzip.compress(plain.read_bytes()))
        plain.unlink()
    elif suffix == "zip":
        folder = path.with_suffix("")
        folder.mkdir()
        frame.to_file(folder / "footprints.shp")
        zipped(path, contents(folder))
        shutil.rmtree(folder)
    elif suffix == "csv":
        frame.to_wkt().to_csv(path, index=False)
    elif suffix == "covering.parquet":
        frame.to_parquet(path, write_covering_bbox=True, schema_version="1.1.0")
    elif suffix in ("parquet", "feather"):
        getattr(frame, f"to_{suffix}")(path)
    else:
        frame.to_file(path, **({"driver": "GeoJSONSeq"} if suffix == "geojsonl" else {}))
    return path


def contents(folder: Path, inside: str = "") -> dict[str, bytes]:
    """The files of a folder, as members of a zip."""
    return {f"{inside}{path.name}": path.read_bytes() for path in folder.iterdir()}


def in_degrees(count: int = 3) -> geopandas.GeoDataFrame:
    return squares(count).to_crs("EPSG:4326")


def assert_same_ground(read: geopandas.GeoDataFrame, wanted: Any = None, within_m: float = 0.01) -> None:
    """`wanted` are shapes or a table; without, `squares`, whose ids are also compared."""
    if wanted is None:
        wanted = squares()
        assert read["building_id"].tolist() == wanted["building_id"].tolist()
    shapes = wanted.geometry.to_numpy() if isinstance(wanted, geopandas.GeoDataFrame) else wanted
    assert shapely.hausdorff_distance(read.geometry.to_numpy(), shapes).max() < within_m


def osm_xml(
    nodes: Iterable[tuple[int, float, float]],
    ways: Iterable[tuple[int, list[int], dict[str, str]]],
    relations: str = "",
) -> str:
    """Write OpenStreetMap's XML: numbers, latitudes and longitudes of nodes; numbers, nodes and tags of ways."""
    drawn = [f'<node id="{number}" lat="{lat}" lon="{lon}"/>' for number, lat, lon in nodes]
    for number, refs, tags in ways:
        inner = [f'<nd ref="{ref}"/>' for ref in refs] + [f'<tag k="{key}" v="{tags[key]}"/>' for key in tags]
        drawn.append(f'<way id="{number}">{"".join(inner)}</way>')
    begin = '<?xml version="1.0" encoding="UTF-8"?>\n<osm version="0.6" generator="Overpass API"><note>x</note>\n'
    return f"{begin}{''.join(drawn)}{relations}</osm>"
