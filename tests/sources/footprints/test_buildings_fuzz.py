"""Footprints as nobody should write them: refused by the file's name, or read as valid polygons."""

import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from plumbline.sources.footprints.buildings import buildings_table, load_buildings, read_buildings
from tests.sources.footprints.drawn import CRS, SQUARE, save
from tests.sources.footprints.test_city_models import city_gml, city_json
from tests.sources.footprints.test_layers import PBF
from tests.sources.make import FEWER, squares, unless_refused

pytestmark = pytest.mark.filterwarnings("ignore")

place = st.tuples(st.integers(0, 5), st.integers(0, 5)).map(lambda at: [13.15 + at[0] * 1e-4, 38.7 + at[1] * 1e-4])
odd_number = st.sampled_from(
    [float("nan"), float("inf"), -float("inf"), 1e300, -1e300, 1e9, 0, -0.0, 181, -91, None, "13.15", True, [], {}]
)
position = st.one_of(place, place, place, st.lists(odd_number, max_size=4), odd_number)
open_ring = st.lists(place, min_size=3, max_size=6)
ring = st.one_of(
    open_ring.map(lambda corners: [*corners, corners[0]]),
    open_ring,
    st.lists(position, max_size=6),
    odd_number,
)
polygon = st.lists(ring, max_size=3)
geometry = st.one_of(
    st.just({"type": "Polygon", "coordinates": [SQUARE]}),
    polygon.map(lambda rings: {"type": "Polygon", "coordinates": rings}),
    st.lists(polygon, max_size=3).map(lambda parts: {"type": "MultiPolygon", "coordinates": parts}),
    place.map(lambda at: {"type": "Point", "coordinates": at}),
    open_ring.map(lambda line: {"type": "LineString", "coordinates": line}),
    st.sampled_from([None, {}, 5, "POLYGON EMPTY", {"type": "Polygon"}, {"type": "Polygon", "coordinates": None}]),
    st.just({"type": "Circle", "coordinates": [0, 0]}),
    st.just({"type": "GeometryCollection", "geometries": []}),
)
identifier = st.sampled_from(["a", "b", "c", "", " ", None, 1, 1.5, 2**70, True, [1], {"a": 1}, "ü\x00", "\ud83d"])
value = st.one_of(identifier, odd_number)
properties = st.one_of(
    st.fixed_dictionaries({"building_id": identifier}),
    st.fixed_dictionaries({"building_id": identifier}, optional={"height_m": value, "geometry": value, "fid": value}),
    st.sampled_from([None, {}, [], 5]),
)


def check(path: Path) -> None:
    """Read, refused by name or as what the rest of the pipeline may rely on; and that survives its own file."""
    read = unless_refused(lambda: read_buildings(path, CRS), path)
    if read is None:
        return
    assert len(read)
    assert read.crs == CRS
    assert read["building_id"].is_unique
    assert read["building_id"].map(type).eq(str).all()
    assert (read["building_id"].str.strip() != "").all()
    assert read.geom_type.isin(["Polygon", "MultiPolygon"]).all()
    assert read.is_valid.all()
    assert (read.area > 0.001).all()
    assert np.isfinite(read.total_bounds).all()
    assert set(read.attrs["repaired"]) <= set(read["building_id"])
    assert read.attrs["multipart"] == (shapely.get_num_geometries(read.geometry.to_numpy()) > 1).sum()
    table = path.with_name("table.parquet")
    pq.write_table(buildings_table(read), table)
    again = load_buildings(table)
    assert again["building_id"].tolist() == read["building_id"].tolist()
    assert again.geometry.geom_equals(read.geometry).all()


@FEWER
@given(
    features=st.lists(
        st.builds(lambda shape, held: {"type": "Feature", "properties": held, "geometry": shape}, geometry, properties),
        min_size=1,
        max_size=4,
    )
)
def test_features_of_any_content(tmp_path, features):
    path = tmp_path / "f.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    check(path)


def csv_of_outlines() -> bytes:
    wkt = squares().geometry.apply(lambda shape: f"SRID=3035;{shape.wkt}")
    return squares().assign(geometry=wkt).to_csv(index=False).encode()


def bare_parquet() -> bytes:
    stream = io.BytesIO()
    about = {b"ARROW:extension:name": b"geoarrow.wkb", b"ARROW:extension:metadata": b'{"crs": "EPSG:3035"}'}
    field = pa.field("geometry", pa.binary(), metadata=about)
    shapes = pa.array(shapely.to_wkb(squares().geometry.to_numpy()).tolist())
    pq.write_table(pa.table([shapes], schema=pa.schema([field])), stream)
    return stream.getvalue()


MADE = {
    "csv": csv_of_outlines,
    "bare.parquet": bare_parquet,
    "city.json": lambda: json.dumps(city_json()).encode(),
    "city.gml": lambda: city_gml().encode(),
    "osm.pbf": PBF.read_bytes,
}
"""Suffix -> what writes such a file."""


def whole_file(folder: Path, suffix: str) -> Path:
    """A small sound file, made once a folder."""
    path = folder / f"whole.{suffix}"
    if path.exists():
        return path
    buildings = squares()
    buildings["height_m"] = [3.0, None, 9.5]
    if suffix in MADE:
        path.write_bytes(MADE[suffix]())
        return path
    return save(buildings if suffix in ("parquet", "zip") else buildings.to_crs("EPSG:4326"), path)


@FEWER
@given(
    start=st.floats(0, 1, exclude_max=True),
    length=st.integers(0, 40),
    other=st.floats(0, 1, exclude_max=True),
    way=st.sampled_from(["cut", "drop", "repeat", "move", "zero", "flip"]),
)
@pytest.mark.parametrize("suffix", ["geojson", "gpkg", "parquet", "fgb", "zip", *MADE])
def test_bytes_cut_moved_repeated_and_changed(tmp_path, suffix, start, length, other, way):
    whole = whole_file(tmp_path, suffix).read_bytes()
    at, to = int(start * len(whole)), int(other * len(whole))
    piece = whole[at : at + length]
    rest = whole[:at] + whole[at + length :]
    changed = {
        "cut": whole[:at],
        "drop": rest,
        "repeat": whole[:to] + piece + whole[to:],
        "move": rest[:to] + piece + rest[to:],
        "zero": whole[:at] + bytes(len(piece)) + whole[at + length :],
        "flip": whole[:at] + bytes(byte ^ 0x5A for byte in piece) + whole[at + length :],
    }[way]
    path = tmp_path / f"damaged.{suffix}"
    path.write_bytes(changed)
    check(path)
