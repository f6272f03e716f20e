"""Footprints as tables write them: outlines as text or bytes in a column."""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pyproj
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from plumbline.params import Footprints
from plumbline.sources.footprints.buildings import read_buildings
from tests.refusals import refuses, warned, warning_keys
from tests.sources.footprints.drawn import CRS, assert_same_ground, in_degrees, save
from tests.sources.make import FEWER, squares

DEGREES = {"*": Footprints(crs="EPSG:4326")}


def text(frame, separator=",", name="geometry", outlines=None):
    outlines = outlines if outlines is not None else [shape.wkt for shape in frame.geometry]
    rows = [f'{one}{separator}"{outline}"' for one, outline in zip(frame["building_id"], outlines, strict=True)]
    return "\n".join([f"building_id{separator}{name}", *rows]) + "\n"


@pytest.fixture
def path(tmp_path):
    """A csv of outlines without a CRS."""
    (tmp_path / "f.csv").write_text(text(in_degrees()))
    return tmp_path / "f.csv"


@pytest.mark.parametrize(
    ("separator", "name", "end"),
    [(",", "geometry", "\n"), (";", "WKT", "\r\n"), ("\t", "the_geom", "\r"), ("|", "Umriss", "\n")],
)
def test_a_csv_of_outlines_is_read_where_its_crs_is_stated(path, separator, name, end):
    path.write_bytes(f"\ufeff{text(in_degrees(), separator, name)}".replace("\n", end).encode())
    assert_same_ground(read_buildings(path, CRS, stated=DEGREES))


def test_without_a_crs_it_is_asked_for_and_has_to_be_one(path):
    with refuses("footprints.no_crs", '\ningest: {footprints: {"f.csv": {crs: "EPSG:4326"}}}'):
        read_buildings(path, CRS)
    with refuses("crs.unknown", "f.csv: ingest.footprints", "'WGS'"):
        read_buildings(path, CRS, stated={"f*": Footprints(crs="WGS")})


def test_a_stated_crs_counts_only_where_the_file_states_none(tmp_path, caplog):
    assert_same_ground(read_buildings(save(squares(), tmp_path / "f.gpkg"), CRS, stated=DEGREES))
    assert warned(caplog, "footprints.unused_crs", "f.gpkg", "EPSG:4326", "ingest.footprints")


@pytest.mark.parametrize("kind", ["ewkt", "ewkb"])
def test_outlines_of_postgis_have_their_crs_with_them(tmp_path, kind):
    shapes = shapely.set_srid(in_degrees().geometry.to_numpy(), 4326)
    write = shapely.to_wkb if kind == "ewkb" else lambda shape, **_: f"SRID=4326;{shape.wkt}"
    outlines = [write(shape, hex=True, include_srid=True) for shape in shapes]
    path = tmp_path / "f.csv.gz"
    path.write_bytes(gzip.compress(text(in_degrees(), outlines=outlines).encode()))
    assert_same_ground(read_buildings(path, CRS))


def test_outlines_in_two_crss_are_refused(path):
    pairs = zip((4326, 3035, 4326), in_degrees().geometry, strict=True)
    path.write_text(text(in_degrees(), outlines=[f"SRID={srid};{shape.wkt}" for srid, shape in pairs]))
    with refuses("footprints.several_crss", "f.csv: column geometry", "EPSG:3035"):
        read_buildings(path, CRS)


def test_a_row_without_a_readable_outline_is_left_out(path, caplog):
    outlines = [shape.wkt for shape in in_degrees().geometry]
    path.write_text(text(in_degrees(), outlines=[outlines[0], "POLYGON ((1 2, 3", outlines[2]]))
    assert read_buildings(path, CRS, stated=DEGREES)["building_id"].tolist() == ["H0", "H2"]
    assert warned(caplog, "footprints.left_out", "f.csv: 1 of 3")


@pytest.mark.parametrize("name", ["geometry", "the_geom", "Form"])
def test_a_parquet_of_wkb_without_metadata_is_read_where_its_crs_is_stated(tmp_path, name):
    path, frame = tmp_path / "f.parquet", in_degrees()
    shapes = shapely.to_wkb(frame.geometry)
    pq.write_table(pa.table({"building_id": frame["building_id"].to_list(), name: shapes}), path)
    assert_same_ground(read_buildings(path, CRS, stated=DEGREES))
    with refuses("footprints.no_crs", "f.parquet"):
        read_buildings(path, CRS)
    pq.write_table(pa.table({name: shapes}), path)
    assert read_buildings(path, CRS, stated=DEGREES)["building_id"].tolist() == ["B0000001", "B0000002", "B0000003"]


@pytest.mark.parametrize("crs", ["EPSG:4326", pyproj.CRS("EPSG:4326").to_json_dict()], ids=["name", "PROJJSON"])
def test_a_crs_of_geoarrow_counts_and_another_that_is_stated_does_not(tmp_path, caplog, crs):
    frame, path = in_degrees(), tmp_path / "f.parquet"
    about = {"ARROW:extension:name": "geoarrow.wkb", "ARROW:extension:metadata": json.dumps({"crs": crs})}
    schema = pa.schema([pa.field("building_id", pa.string()), pa.field("geom", pa.binary(), metadata=about)])
    columns = {"building_id": frame["building_id"].to_list(), "geom": shapely.to_wkb(frame.geometry).to_list()}
    pq.write_table(pa.table(columns, schema=schema), path)
    assert_same_ground(read_buildings(path, CRS))
    assert not warning_keys(caplog)
    assert_same_ground(read_buildings(path, CRS, stated={"*": Footprints(crs="EPSG:25832")}))
    assert warned(caplog, "footprints.unused_crs", "f.parquet", "EPSG:25832", "WGS 84")


def test_of_a_parquet_with_centres_too_the_polygons_are_read(tmp_path):
    frame = in_degrees()
    centre = shapely.to_wkb(shapely.centroid(frame.geometry.to_numpy()))
    columns = {"building_id": frame["building_id"].to_list(), "centre": centre, "form": shapely.to_wkb(frame.geometry)}
    pq.write_table(pa.table(columns), tmp_path / "f.parquet")
    assert_same_ground(read_buildings(tmp_path / "f.parquet", CRS, stated=DEGREES))


@pytest.mark.parametrize(
    ("columns", "key", "place"),
    [(("form", "roof"), "footprints.several_geometries", "form, roof"), ((), "footprints.no_geometry", "a, b")],
)
def test_a_parquet_without_one_column_of_outlines_is_refused(tmp_path, columns, key, place):
    other = {"a": [1, 2, 3], "b": [b"\x00", b"\x01", b""]}
    outlines = {name: shapely.to_wkb(in_degrees().geometry) for name in columns}
    pq.write_table(pa.table(other | outlines), tmp_path / "f.parquet")
    with refuses(key, "f.parquet", place):
        read_buildings(tmp_path / "f.parquet", CRS, stated=DEGREES)


def test_overture_is_read_with_its_ids_and_nested_columns(tmp_path):
    frame = in_degrees().rename(columns={"building_id": "id"})
    frame["names"] = [{"primary": "a", "common": None}] * 3
    frame["sources"] = [[{"dataset": "OpenStreetMap", "record_id": "w1"}]] * 3
    frame["level"] = [1, None, 2]
    read = read_buildings(save(frame, tmp_path / "f.covering.parquet"), CRS)
    assert_same_ground(read)
    assert read["names"].iloc[0] == '{"primary": "a", "common": null}'
    assert read["sources"].iloc[0] == '[{"dataset": "OpenStreetMap", "record_id": "w1"}]'


NAMES = st.text(st.characters(codec="utf-8", exclude_characters='"\r\n\0'), min_size=1, max_size=12)


@FEWER
@given(names=st.lists(NAMES | st.sampled_from(["007", "1e3"]), min_size=3, max_size=3))
def test_texts_and_numbers_beside_the_outlines_stay_as_they_are(tmp_path, names):
    path = tmp_path / "f.csv"
    rows = [f'"{name}","{shape.wkt}"\n' for name, shape in zip(names, in_degrees().geometry, strict=True)]
    path.write_text("name,geometry\n" + "".join(rows), encoding="utf-8")
    assert read_buildings(path, CRS, stated=DEGREES)["name"].tolist() == names
