"""Footprints as tables write them: outlines as text or bytes in a column."""

import gzip
import json

import geopandas
import pyarrow as pa
import pyarrow.parquet as pq
import pyproj
import pytest
import shapely
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plumbline.core.errors import InputError
from plumbline.params import Footprints
from plumbline.sources.footprints.buildings import read_buildings
from plumbline.sources.footprints.tables import has_outlines
from tests.sources.make import squares

CRS = "EPSG:3035"
DEGREES = {"*": Footprints(crs="EPSG:4326")}


def in_degrees() -> geopandas.GeoDataFrame:
    return squares().to_crs("EPSG:4326")


def check(read):
    assert read["building_id"].tolist() == ["H0", "H1", "H2"]
    assert shapely.hausdorff_distance(read.geometry.to_numpy(), squares().geometry.to_numpy()).max() < 0.01


def text(frame, separator=",", name="geometry", outlines=None):
    outlines = outlines if outlines is not None else [shape.wkt for shape in frame.geometry]
    rows = [f'{one}{separator}"{outline}"' for one, outline in zip(frame["building_id"], outlines, strict=True)]
    return "\n".join([f"building_id{separator}{name}", *rows]) + "\n"


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("name", ["geometry", "WKT", "the_geom", "Umriss"])
def test_a_csv_of_outlines_is_read_where_its_crs_is_stated(tmp_path, separator, name):
    path = tmp_path / "f.csv"
    path.write_text("\ufeff" + text(in_degrees(), separator, name))
    check(read_buildings(path, CRS, stated=DEGREES))


def test_without_a_crs_it_is_asked_for(tmp_path):
    path = tmp_path / "f.csv"
    path.write_text(text(in_degrees()))
    with pytest.raises(InputError, match=r'no CRS.*\ningest: {footprints: {"f\.csv": {crs: "EPSG:4326"}}}$'):
        read_buildings(path, CRS)


def test_a_crs_that_nobody_knows_is_refused(tmp_path):
    path = tmp_path / "f.csv"
    path.write_text(text(in_degrees()))
    with pytest.raises(InputError, match=r"f\.csv: ingest\.footprints: crs 'WGS' is not known"):
        read_buildings(path, CRS, stated={"f*": Footprints(crs="WGS")})


def test_a_stated_crs_counts_only_where_the_file_states_none(tmp_path, caplog):
    path = tmp_path / "f.gpkg"
    squares().to_file(path)
    check(read_buildings(path, CRS, stated=DEGREES))
    assert "crs EPSG:4326 of ingest.footprints does not count" in caplog.text


@pytest.mark.parametrize("kind", ["ewkt", "ewkb"])
def test_outlines_of_postgis_have_their_crs_with_them(tmp_path, kind):
    frame = in_degrees()
    shapes = shapely.set_srid(frame.geometry.to_numpy(), 4326)
    outlines = [
        f"SRID=4326;{shape.wkt}" if kind == "ewkt" else shapely.to_wkb(shape, hex=True, include_srid=True)
        for shape in shapes
    ]
    path = tmp_path / "f.csv.gz"
    path.write_bytes(gzip.compress(text(frame, outlines=outlines).encode()))
    check(read_buildings(path, CRS))


def test_outlines_in_two_crss_are_refused(tmp_path):
    frame = in_degrees()
    outlines = [f"SRID={srid};{shape.wkt}" for srid, shape in zip((4326, 3035, 4326), frame.geometry, strict=True)]
    path = tmp_path / "f.csv"
    path.write_text(text(frame, outlines=outlines))
    with pytest.raises(InputError, match=r"f\.csv: column geometry: .*EPSG:3035.*one CRS"):
        read_buildings(path, CRS)


def test_a_row_without_a_readable_outline_is_left_out(tmp_path, caplog):
    outlines = [shape.wkt for shape in in_degrees().geometry]
    outlines[1] = "POLYGON ((1 2, 3"
    path = tmp_path / "f.csv"
    path.write_text(text(in_degrees(), outlines=outlines))
    assert read_buildings(path, CRS, stated=DEGREES)["building_id"].tolist() == ["H0", "H2"]
    assert "1 of 3 features left out" in caplog.text


def test_numbers_stay_the_text_they_were(tmp_path):
    path = tmp_path / "f.csv"
    path.write_text(text(in_degrees().assign(building_id=["007", "008", "1e3"])))
    assert read_buildings(path, CRS, stated=DEGREES)["building_id"].tolist() == ["007", "008", "1e3"]


@pytest.mark.parametrize("name", ["geometry", "geom", "wkb_geometry", "the_geom", "Form"])
def test_a_parquet_of_wkb_without_metadata_is_read_where_its_crs_is_stated(tmp_path, name):
    path = tmp_path / "f.parquet"
    frame = in_degrees()
    pq.write_table(
        pa.table({"building_id": frame["building_id"].to_list(), name: shapely.to_wkb(frame.geometry)}), path
    )
    check(read_buildings(path, CRS, stated=DEGREES))
    with pytest.raises(InputError, match=r"f\.parquet: .*no CRS"):
        read_buildings(path, CRS)


@pytest.mark.parametrize("stated", ['{"crs": "EPSG:4326"}', '{"crs": {"id": {"authority": "EPSG", "code": 4326}}}'])
def test_a_crs_of_geoarrow_counts(tmp_path, stated):
    about = json.loads(stated)
    if isinstance(about["crs"], dict):
        about["crs"] = pyproj.CRS("EPSG:4326").to_json_dict()
    frame = in_degrees()
    kind = {b"ARROW:extension:name": b"geoarrow.wkb", b"ARROW:extension:metadata": json.dumps(about).encode()}
    schema = pa.schema([pa.field("building_id", pa.string()), pa.field("geom", pa.binary(), metadata=kind)])
    path = tmp_path / "f.parquet"
    rows = [frame["building_id"].to_list(), shapely.to_wkb(frame.geometry).tolist()]
    pq.write_table(pa.table([pa.array(rows[0]), pa.array(rows[1])], schema=schema), path)
    check(read_buildings(path, CRS))


def test_of_a_parquet_with_centres_too_the_polygons_are_read(tmp_path):
    frame = in_degrees()
    columns = {
        "building_id": frame["building_id"].to_list(),
        "centre": shapely.to_wkb(shapely.centroid(frame.geometry.to_numpy())),
        "form": shapely.to_wkb(frame.geometry),
    }
    pq.write_table(pa.table(columns), tmp_path / "f.parquet")
    check(read_buildings(tmp_path / "f.parquet", CRS, stated=DEGREES))
    columns["roof"] = columns["form"]
    pq.write_table(pa.table(columns), tmp_path / "f.parquet")
    with pytest.raises(InputError, match=r"f\.parquet: columns form, roof all hold outlines"):
        read_buildings(tmp_path / "f.parquet", CRS, stated=DEGREES)


def test_a_parquet_without_outlines_is_refused(tmp_path):
    pq.write_table(pa.table({"a": [1, 2], "b": [b"\x00", b"\x01"]}), tmp_path / "f.parquet")
    with pytest.raises(InputError, match=r"f\.parquet: a table without geometry: its columns are a, b"):
        read_buildings(tmp_path / "f.parquet", CRS)


def test_overture_is_read_with_its_ids_and_nested_columns(tmp_path):
    frame = in_degrees().rename(columns={"building_id": "id"})
    frame["names"] = [{"primary": "a", "common": None}] * 3
    frame["sources"] = [[{"dataset": "OpenStreetMap", "record_id": "w1"}]] * 3
    frame["level"] = [1, None, 2]
    frame.to_parquet(tmp_path / "f.parquet", write_covering_bbox=True, schema_version="1.1.0")
    read = read_buildings(tmp_path / "f.parquet", CRS)
    check(read)
    assert read["names"].iloc[0] == '{"primary": "a", "common": null}'
    assert read["sources"].iloc[0] == '[{"dataset": "OpenStreetMap", "record_id": "w1"}]'


NAMES = st.text(st.characters(codec="utf-8", exclude_characters='"\r\n\0'), min_size=1, max_size=12)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(NAMES, min_size=3, max_size=3))
def test_texts_beside_the_outlines_stay_as_they_are(tmp_path, names):
    path = tmp_path / "f.csv"
    rows = [f'"{name}","{shape.wkt}"\n' for name, shape in zip(names, in_degrees().geometry, strict=True)]
    path.write_text("name,geometry\n" + "".join(rows), encoding="utf-8")
    assert read_buildings(path, CRS, stated=DEGREES)["name"].tolist() == names


def test_points_and_other_texts_are_no_outlines():
    assert not has_outlines("pid,easting,northing,20200101\n1,2,3,4\n")
    assert not has_outlines('{"type": "Polygon", "x": "POLYGON ((0 0"}')
    assert not has_outlines('id,geometry\n1,"POINT (1 2)"\n')
    assert has_outlines('id,geometry\n1,"MULTIPOLYGON Z (((1 2 3')


def test_a_folder_of_parts_is_one_table(tmp_path):
    for part, frame in (("a", in_degrees().iloc[:1]), ("b", in_degrees().iloc[1:])):
        (tmp_path / "theme=buildings" / part).mkdir(parents=True)
        frame.to_parquet(tmp_path / "theme=buildings" / part / "0.parquet")
    check(read_buildings(tmp_path / "theme=buildings", CRS))


def test_a_feather_is_read(tmp_path):
    in_degrees().to_feather(tmp_path / "f.feather")
    check(read_buildings(tmp_path / "f.feather", CRS))


def test_a_column_of_ids_alone_beside_the_outlines_is_not_needed(tmp_path):
    pq.write_table(pa.table({"geometry": shapely.to_wkb(in_degrees().geometry)}), tmp_path / "f.parquet")
    read = read_buildings(tmp_path / "f.parquet", CRS, stated=DEGREES)
    assert read["building_id"].tolist() == ["B0000001", "B0000002", "B0000003"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_may_end_as_any_computer_ends_them(tmp_path, end):
    (tmp_path / "f.csv").write_bytes(text(in_degrees()).replace("\n", end).encode())
    check(read_buildings(tmp_path / "f.csv", CRS, stated=DEGREES))
