"""Footprints become the buildings table: ids, heights, features that are none, layers, packed files."""

import gzip
import json
import random
from typing import Any

import geopandas
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import shapely
import yaml

from plumbline.core.errors import InputError
from plumbline.params import Footprints, Ingest
from plumbline.sources.footprints.buildings import buildings_table, load_buildings, read_buildings
from tests.refusals import refuses, warned, warning_keys
from tests.sources.footprints.drawn import (
    CRS,
    SQUARE,
    assert_same_ground,
    contents,
    feature,
    geojson,
    in_degrees,
    moved,
    polygon,
    save,
)
from tests.sources.make import EAST, NORTH, squares, unless_refused, zipped

pytestmark = pytest.mark.filterwarnings("ignore:Column names longer", "ignore:Normalized/laundered", "ignore:'crs' was")
BOW_TIE = [[13.15, 38.7], [13.1502, 38.7001], [13.1502, 38.7], [13.15, 38.7001], [13.15, 38.7]]
LINE = [[13.15, 38.7], [13.1502, 38.7], [13.15, 38.7], [13.15, 38.7]]


@pytest.mark.parametrize("name", ["f.geojson", "f.gpkg", "f.shp", "f.zip", "f.parquet", "f.fgb", "o p.geojson.gz"])
def test_every_format_reads_the_same(tmp_path, name):
    read = read_buildings(save(in_degrees().assign(floors=[2, 3, 4]), tmp_path / name), CRS)
    read = read.sort_values("building_id")
    assert (read.crs, read.attrs["source_crs"]) == (CRS, "EPSG:4326")
    assert read["floors"].tolist() == [2, 3, 4]
    assert_same_ground(read)


def test_the_table_and_any_of_its_rows_give_back_what_was_written(tmp_path):
    buildings = read_buildings(save(squares(), tmp_path / "f.gpkg"), CRS).assign(note=["a", None, "ü"])
    for rows in (slice(0, 3), slice(1, 2)):
        table = buildings_table(buildings).slice(rows.start, rows.stop - rows.start)
        pq.write_table(table, tmp_path / "b.parquet")
        loaded, wanted = load_buildings(tmp_path / "b.parquet"), buildings.iloc[rows].reset_index(drop=True)
        assert loaded.crs == wanted.crs
        assert loaded.geometry.geom_equals(wanted.geometry).all()
        assert loaded["building_id"].tolist() == wanted["building_id"].tolist()
        assert loaded["note"].isna().tolist() == wanted["note"].isna().tolist()
        assert loaded.total_bounds.tolist() == wanted.total_bounds.tolist()


def test_what_is_stated_of_a_file_counts_where_nothing_is_given(tmp_path):
    path = save(squares().assign(osm=[7, 8, 9], number=[4, 5, 6]), tmp_path / "f.gpkg")
    stated = {"F*": Footprints(id_column="no"), "f.*": Footprints(id_column="osm"), "*": Footprints(id_column="no")}
    assert read_buildings(path, CRS, stated=stated)["building_id"].tolist() == ["7", "8", "9"]
    read = read_buildings(path, CRS, id_column="number", stated=stated)
    assert read["building_id"].tolist() == ["4", "5", "6"]
    assert read["osm"].tolist() == [7, 8, 9]


@pytest.mark.parametrize(("index", "column"), [(["building_id"], None), (["parcel", "part"], "parcel")])
def test_ids_in_the_index_of_a_geoparquet_are_ids(tmp_path, index, column):
    for drop in (True, False):
        squares().assign(parcel=["H0", "H1", "H2"], part=1).set_index(index, drop=drop).to_parquet(
            tmp_path / "f.parquet"
        )
        read = read_buildings(tmp_path / "f.parquet", CRS, id_column=column)
        assert read["building_id"].tolist() == ["H0", "H1", "H2"]
        assert read["part"].tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("name", "time"), [("f.geojson", ""), ("f.geojson", "T00:00:00"), ("f.geojsonl", ""), ("f.geojson.gz", "")]
)
def test_ids_that_look_like_dates_stay_as_they_are_written(tmp_path, name, time):
    ids = [f"2024-01-0{number}{time}" for number in range(1, 4)]
    path = save(in_degrees().assign(building_id=ids), tmp_path / name)
    assert read_buildings(path, CRS)["building_id"].tolist() == ids


@pytest.mark.parametrize("name", ["f.gpkg", "f.geojson", "f.fgb", "f.parquet", "f.geojsonl"])
def test_large_whole_numbers_stay_what_they_are_where_one_is_missing(tmp_path, name):
    """Pandas makes decimals of integers with a gap: from 2**53 on, 1e+16."""
    path = save(in_degrees().assign(building_id=pd.array([2**53 + 1, None, 2**53 + 2], dtype="Int64")), tmp_path / name)
    if name == "f.parquet":  # as other programs than pandas write it
        table = pq.read_table(path)
        pq.write_table(table.replace_schema_metadata({b"geo": table.schema.metadata[b"geo"]}), path)
    ids = read_buildings(path, CRS)["building_id"].tolist()
    assert {str(2**53 + 1), str(2**53 + 2)} < set(ids)
    assert len(ids) == 3


ASSIGNED = ["B0000001", "B0000002", "B0000003"]


@pytest.mark.parametrize(
    ("ids", "names"),
    [
        (["way/7", "way/9", "relation/7"], ["way/7", "way/9", "relation/7"]),
        ([70, 90, 80], ["70", "90", "80"]),
        ([7, 7, 8], ASSIGNED),
        ([None, 70, 80], ASSIGNED),
        ([0, 1, 2], ASSIGNED),
        (["a", None, "b"], ASSIGNED),
        ([None] * 3, ASSIGNED),
    ],
    ids=str,
)
def test_the_ids_of_a_geojsons_features_name_the_buildings_if_they_tell_them_apart(tmp_path, ids, names):
    features = [feature(moved(number), {"floors": 2}) for number in range(3)]
    features = [one if own is None else {**one, "id": own} for one, own in zip(features, ids, strict=True)]
    (tmp_path / "f.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    assert read_buildings(tmp_path / "f.geojson", CRS)["building_id"].tolist() == names


def test_a_multipolygon_of_one_part_is_a_polygon_of_several_stays_and_z_goes(tmp_path):
    parts = [moved(0)["coordinates"], moved(1)["coordinates"]]
    shapes = [{"type": "MultiPolygon", "coordinates": parts[:count]} for count in (1, 2)]
    read = read_buildings(geojson(tmp_path / "f.geojson", [*shapes, polygon([[x, y, 12.0] for x, y in SQUARE])]), CRS)
    assert read.geom_type.tolist() == ["Polygon", "MultiPolygon", "Polygon"]
    assert not read.has_z.any()


def test_properties_may_be_nested_or_have_the_name_of_the_geometry(tmp_path):
    tags = [{"floor": 1}, {"floor": "low"}]
    properties = [{"building_id": f"{number}", "tags": held} for number, held in enumerate(tags)]
    read = read_buildings(geojson(tmp_path / "f.geojson", [moved(0), moved(1)], properties), CRS)
    pq.write_table(buildings_table(read), tmp_path / "b.parquet")
    assert load_buildings(tmp_path / "b.parquet")["tags"].map(json.loads).tolist() == tags
    path = geojson(tmp_path / "f.geojson", [polygon(SQUARE)], [{"building_id": "a", "geometry": "x", "geom": "y"}])
    named_so = unless_refused(lambda: read_buildings(path, CRS), path)
    assert named_so is None or named_so.geometry.iloc[0].geom_type == "Polygon"


@pytest.mark.parametrize(
    ("heights", "read", "unknown", "places"),
    [
        (["12.5", None, "tall", "12,5", "-1", "inf"], [12.5, *[np.nan] * 5], 4, ("feature 3 ", "'tall'")),
        ([12.5, -5.0, 1, 1, 1, 1], [12.5, np.nan, 1, 1, 1, 1], 1, ("feature 2 ", "-5.0")),
    ],
)
def test_heights_that_cannot_be_read_count_as_unknown_with_a_warning(tmp_path, caplog, heights, read, unknown, places):
    buildings = read_buildings(save(squares(6).assign(height_m=heights), tmp_path / "f.gpkg"), CRS)
    np.testing.assert_array_equal(buildings["height_m"], read)
    assert warned(caplog, "footprints.unknown_height", f"f.gpkg: {unknown} values", *places)
    assert buildings.attrs["heights_unknown"] == unknown


ABSENT = "without a geometry, or with a ring that is not closed or has fewer than three corners"
ODD: dict[str, tuple[dict[str, Any] | None, str]] = {
    "bow-tie": (polygon(BOW_TIE), "ground in doubt"),
    "line drawn as a polygon": (polygon(LINE), "without area"),
    "open ring": (polygon(SQUARE[:-1]), ABSENT),
    "null": (None, ABSENT),
    "empty": ({"type": "Polygon", "coordinates": []}, ABSENT),
    "point": ({"type": "Point", "coordinates": SQUARE[0]}, "Point and no polygon"),
    "line": ({"type": "LineString", "coordinates": SQUARE}, "LineString and no polygon"),
    "collection": (
        {"type": "GeometryCollection", "geometries": [{"type": "Point", "coordinates": SQUARE[0]}]},
        "GeometryCollection without a polygon in it",
    ),
    "no number": (polygon([*SQUARE[:2], [float("nan"), 38.7], *SQUARE[2:]]), "with a coordinate that is no number"),
    "nowhere": (polygon([[x - 88.15, y - 38.7] for x, y in SQUARE]), "outside of what EPSG:32633, the points' CRS"),
    "smaller than a brick": (polygon([[13.0 + x * 1e-9, 38.0 + y * 1e-9] for x, y in SQUARE]), "without area"),
}


@pytest.mark.parametrize("kind", ODD)
def test_a_feature_that_is_no_footprint_is_left_out_and_named(tmp_path, caplog, kind):
    """A file of nothing else is refused with the same words."""
    shape, why = ODD[kind]
    shapes = [moved(0), shape, moved(2)]
    read = read_buildings(geojson(tmp_path / "f.geojson", shapes), "EPSG:32633")
    assert read["building_id"].tolist() == ["H0", "H2"]
    assert read.index.tolist() == [0, 1]
    assert read.attrs["left_out"] == ["H1"]
    assert warned(caplog, "footprints.left_out", "f.geojson: 1 of 3", why, "(feature 2 (H1))")
    with pytest.raises(InputError, match=rf"f\.geojson: (.|\n)*{why}"):
        read_buildings(geojson(tmp_path / "f.geojson", [shape, shape]), "EPSG:32633")


def test_all_that_is_left_out_is_one_warning_that_counts_the_kinds(tmp_path, caplog):
    point, line = ODD["point"][0], ODD["line"][0]
    shapes = [point, moved(1), None, *[point] * 6, polygon(BOW_TIE), line, moved(2)]
    read = read_buildings(geojson(tmp_path / "f.geojson", shapes), CRS)
    assert read["building_id"].tolist() == ["H1", "H11"]
    named = "(feature 1 (H0), feature 4 (H3), feature 5 (H4), feature 6 (H5), feature 7 (H6) and 2 more)"
    places = (named, "LineString and no polygon (feature 11 (H10))", "(feature 3 (H2))", "doubt (feature 10 (H9))")
    assert warned(caplog, "footprints.left_out", "10 of 12", *places)
    assert len(warning_keys(caplog)) == 1


@pytest.mark.parametrize(
    ("kind", "key"), [("nowhere", "footprints.outside_crs"), ("smaller than a brick", "footprints.no_area")]
)
def test_where_most_are_not_of_this_place_or_size_the_file_is_refused(tmp_path, kind, key):
    shape, why = ODD[kind]
    with refuses(key, "f.geojson: feature 1 (H0), feature 3 (H2) ", why):
        read_buildings(geojson(tmp_path / "f.geojson", [shape, moved(1), shape]), "EPSG:32633")


def test_of_a_collection_the_polygons_are_taken(tmp_path):
    door = {"type": "Point", "coordinates": SQUARE[0]}
    both = {"type": "MultiPolygon", "coordinates": [moved(1)["coordinates"], moved(2)["coordinates"]]}
    inner = {"type": "GeometryCollection", "geometries": [both, door]}
    shapes = [{"type": "GeometryCollection", "geometries": held} for held in ([door, moved(0)], [inner])]
    read = read_buildings(geojson(tmp_path / "f.geojson", shapes), CRS)
    assert read.geom_type.tolist() == ["Polygon", "MultiPolygon"]
    assert read.area[1] == pytest.approx(2 * read.area[0], rel=1e-3)
    assert read.attrs["left_out"] == []


def test_a_polygon_with_little_ground_in_doubt_is_drawn_anew_with_a_warning(tmp_path, caplog):
    wing = [(0, 0), (20, 0), (9, 22), (11, 22)]  # its sides cross 20 m up: 200 m2 and a wing of 2
    drawn = squares(2)
    drawn.loc[1, "geometry"] = shapely.Polygon([(EAST + 100 + x, NORTH + y) for x, y in wing])
    read = read_buildings(save(drawn, tmp_path / "f.gpkg"), CRS)
    assert read.is_valid.all()
    assert read.area[1] == pytest.approx(200, rel=0.02)
    assert read.attrs["repaired"] == ["H1"]
    assert warned(caplog, "footprints.doubtful_repair", "2.0 m²", "feature 2 (H1)")


def solid(x: float, y: float, side: float = 10.0, height: float = 6.0) -> shapely.Geometry:
    """A house as a box of six faces."""
    at = [(x, y), (x + side, y), (x + side, y + side), (x, y + side)]
    walls = [
        [(*one, 0), (*other, 0), (*other, height), (*one, height)]
        for one, other in zip(at, [*at[1:], at[0]], strict=True)
    ]
    lying = [[(*corner, z) for corner in at] for z in (0, height)]
    return shapely.MultiPolygon([shapely.Polygon(face) for face in [*lying, *walls]])


def test_of_a_solid_the_ground_below_it_is_the_footprint(tmp_path, caplog):
    flat = shapely.force_3d(shapely.box(EAST + 40, NORTH, EAST + 49, NORTH + 9), 30.0)
    drawn = geopandas.GeoDataFrame({"building_id": ["a", "b"]}, geometry=[solid(EAST, NORTH), flat], crs=CRS)
    read = read_buildings(save(drawn, tmp_path / "f.gpkg"), CRS)
    assert read.geom_type.tolist() == ["Polygon", "Polygon"]
    np.testing.assert_allclose(read.area, [100, 81])
    assert not read.has_z.any()
    assert warned(caplog, "footprints.solids", "f.gpkg: 1 ", "feature 1 (a)")
    away = geopandas.GeoDataFrame({"building_id": ["a"]}, geometry=[solid(500_000, 5_700_000)], crs="EPSG:25832")
    assert read_buildings(save(away, tmp_path / "g.gpkg"), CRS).area.tolist() == pytest.approx([100], rel=1e-3)


@pytest.mark.parametrize("kind", ["MultiSurface", "CompositeSurface"])
def test_a_solid_of_gml_is_the_ground_below_it(tmp_path, kind):
    faces = "".join(
        "<gml:surfaceMember><gml:Polygon><gml:exterior><gml:LinearRing><gml:posList srsDimension='3'>"
        + " ".join(f"{x} {y} {z}" for x, y, z in shapely.get_coordinates(face, include_z=True))
        + "</gml:posList></gml:LinearRing></gml:exterior></gml:Polygon></gml:surfaceMember>"
        for face in shapely.get_parts(solid(EAST, NORTH))
    )
    geometry = f"<gml:{kind} srsName='EPSG:3035'>{faces}</gml:{kind}>"
    if kind == "CompositeSurface":
        geometry = f"<gml:Solid srsName='EPSG:3035'><gml:exterior>{geometry}</gml:exterior></gml:Solid>"
    (tmp_path / "o p.gml").write_text(
        "<?xml version='1.0'?><ogr:FeatureCollection xmlns:ogr='http://ogr.maptools.org/' "
        "xmlns:gml='http://www.opengis.net/gml/3.2'><ogr:featureMember><ogr:house gml:id='h.1'>"
        f"<ogr:geom>{geometry}</ogr:geom><ogr:floors>2</ogr:floors></ogr:house></ogr:featureMember>"
        "</ogr:FeatureCollection>"
    )
    read = read_buildings(tmp_path / "o p.gml", CRS)
    assert read.area.tolist() == [100.0]
    assert read["floors"].tolist() == [2]


def test_a_file_with_the_latitude_first_is_refused_with_that_advice(tmp_path):
    turned = polygon([[y, 180 - x] for x, y in SQUARE])
    with refuses("crs.not_degrees", "f.geojson", "write the longitude before"):
        read_buildings(geojson(tmp_path / "f.geojson", [turned]), CRS)


@pytest.mark.parametrize("parts", [1, 2])
def test_holes_without_a_corner_are_none(tmp_path, parts):
    """Compared with another one, such a polygon ended the process, not the run (GEOS 3.14)."""
    hole = [[13.15005, 38.70002], [13.15015, 38.70002], [13.15015, 38.70008], [13.15005, 38.70002]]
    rings = [[SQUARE, [], hole], [[[x + 0.001, y] for x, y in SQUARE]]][:parts]
    shape = {"type": "MultiPolygon", "coordinates": rings}
    whole = {"type": "MultiPolygon", "coordinates": [[ring for ring in part if ring] for part in rings]}
    plain = read_buildings(geojson(tmp_path / "plain.geojson", [whole], [{"building_id": "a"}]), CRS)
    read = read_buildings(geojson(tmp_path / "f.geojson", [shape, shape], [{"building_id": "a"}] * 2), CRS)
    assert read.geometry.iloc[0].equals(plain.geometry.iloc[0])
    assert (read.attrs["duplicates_dropped"], read.attrs["with_holes"]) == (1, 1)
    assert not any(ring.is_empty for ring in shapely.get_rings(read.geometry.to_numpy()))


def test_outlines_drawn_twice_under_other_names_are_counted(tmp_path, caplog):
    shapes = [moved(0), moved(1), moved(0), moved(0)]
    read = read_buildings(geojson(tmp_path / "f.geojson", shapes, [{"use": "house"} for _ in shapes]), CRS)
    assert (len(read), read.attrs["drawn_twice"]) == (4, 2)
    assert warned(caplog, "footprints.drawn_twice", "f.geojson: 2 ", "feature 3 (B0000003), feature 4")


@pytest.mark.filterwarnings("ignore:Field")
@pytest.mark.parametrize(("folder", "name"), [("", "F.ZIP"), ("a/b/", "f.zip")])
def test_a_zip_may_have_folders_and_capitals(tmp_path, folder, name):
    (tmp_path / "shape").mkdir()
    squares().to_file(tmp_path / "shape" / "f.shp")
    members = {**contents(tmp_path / "shape", folder), "__MACOSX/._f.shp": "x", "README.txt": "about"}
    assert len(read_buildings(zipped(tmp_path / name, members), CRS)) == 3


def test_of_several_files_in_a_zip_one_is_read_with_a_warning(tmp_path, caplog):
    for counts in ({"b": 2, "a": 3}, {"my_footprints": 1}):
        for name, count in counts.items():
            squares(count).to_file(tmp_path / f"{name}.geojson")
        zipped(tmp_path / "f.zip", {path.name: path.read_bytes() for path in tmp_path.glob("*.geojson")})
        assert len(read_buildings(tmp_path / "f.zip", CRS)) == list(counts.values())[-1]
    assert warned(caplog, "archive.member_chosen", "f.zip", "b.geojson", "a.geojson is read")


MOON = json.dumps(
    {"type": "FeatureCollection", "crs": {"type": "name", "properties": {"name": "moon"}}, "features": []}
)


@pytest.mark.parametrize(
    ("members", "key", "place"),
    [
        ({"../f.geojson": "{}"}, "archive.outside_path", "'../f.geojson'"),
        ({"inner.zip": b"PK"}, "archive.no_footprints", "inner.zip"),
        ({"f.shp": b""}, "footprints.unreadable", "Download"),
        ({"f.geojson": b""}, "footprints.unreadable", "Download"),
        ({"f.geojson": MOON.replace("[]", json.dumps([feature(moved(0), {})]))}, "geojson.unknown_crs", "moon"),
    ],
    ids=["outside", "zip in a zip", "empty shp", "empty geojson", "crs"],
)
def test_a_zip_that_is_not_safe_or_has_no_footprints_is_refused(tmp_path, members, key, place):
    with refuses(key, "f.zip", place):
        read_buildings(zipped(tmp_path / "f.zip", members), CRS)


@pytest.mark.parametrize(
    ("packed", "key"),
    [
        (gzip.compress(MOON.encode())[:-9], "archive.damaged"),
        (gzip.compress(b" " * 50_000_000), "archive.too_large"),
        (gzip.compress(MOON.encode()), "geojson.unknown_crs"),
    ],
    ids=["cut", "far larger", "crs"],
)
def test_a_gzip_that_is_not_whole_or_not_safe_is_refused(tmp_path, packed, key):
    (tmp_path / "o p.geojson.gz").write_bytes(packed)
    with refuses(key, "o p.geojson.gz"):
        read_buildings(tmp_path / "o p.geojson.gz", CRS)


@pytest.mark.parametrize("name", ["f.geojson.gz", "f.csv.gz"])
def test_a_gzip_of_padded_texts_is_read(tmp_path, name):
    """More than 200 times its packed size."""
    note = random.Random(0).randbytes(4000).hex() + " " * 1_600_000
    path = save(squares().assign(note=note) if "csv" in name else in_degrees().assign(note=note), tmp_path / name)
    assert_same_ground(read_buildings(path, CRS, stated={"*.csv.gz": Footprints(crs=CRS)}))


@pytest.mark.parametrize(
    ("name", "separator"), [("f.csv", ""), ("f.csv.gz", ""), ("f.geojsonl", "\x1e"), ("f.json.gz", "")]
)
def test_a_feature_a_line_is_read_whatever_the_name_says(tmp_path, name, separator):
    lines = [f"{separator}{json.dumps(feature(moved(number), {'height': -1}))}\n" for number in range(3)]
    text = "".join(lines).encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    read = read_buildings(tmp_path / name, CRS)
    assert (len(read), read.attrs["source_crs"]) == (3, "EPSG:4326")


@pytest.mark.parametrize(
    ("name", "crs", "example", "why"),
    [
        *((name, CRS, "EPSG:32633", "cannot be degrees") for name in ("f.gpkg", "f.shp", "f.parquet")),
        ("f.gpkg", "EPSG:4326", "EPSG:4326", "look like degrees"),
    ],
)
def test_footprints_without_crs_are_refused_with_the_line_that_states_it(tmp_path, name, crs, example, why):
    path = save(squares().to_crs(crs).set_crs(None, allow_override=True), tmp_path / name)
    with refuses("footprints.no_crs", name, why, "--params my.yaml") as refused:
        read_buildings(path, CRS)
    message, _, line = str(refused.value).partition("\n")
    stated = Ingest.model_validate(yaml.safe_load(line)["ingest"]).footprints
    assert stated[name].crs == example
    assert ("an example" in message) == (example == "EPSG:32633")
    assert (".prj" in message) == (path.suffix == ".shp")
    assert len(read_buildings(path, CRS, stated={name: Footprints(crs=crs)})) == len(squares())


def test_what_was_found_and_done_is_counted_and_warned_of(tmp_path, caplog):
    x, y = EAST, NORTH
    spike = shapely.Polygon([(x, y), (x + 9, y), (x + 14, y), (x + 9, y), (x + 9, y + 9), (x, y + 9)])
    ring = shapely.box(x + 20, y, x + 40, y + 20) - shapely.box(x + 25, y + 5, x + 30, y + 10)
    pair = shapely.MultiPolygon([shapely.box(x + 50, y, x + 60, y + 9), shapely.box(x + 70, y, x + 80, y + 9)])
    drawn = geopandas.GeoDataFrame({"building_id": ["s", None, "p", "p"]}, geometry=[spike, ring, pair, pair], crs=CRS)
    read = read_buildings(save(drawn, tmp_path / "f.gpkg"), CRS)
    one, none = ("assigned_ids", "duplicates_dropped", "multipart", "with_holes"), ("drawn_twice", "covered")
    counts = dict.fromkeys(one, 1) | dict.fromkeys((*none, "overlapping", "heights_unknown"), 0)
    assert read.attrs == {"source_crs": "EPSG:3035", "repaired": ["s"], "left_out": [], **counts}
    assert read["building_id"].tolist() == ["s", "B0000002", "p"]
    assert read.index.tolist() == [0, 1, 2]
    np.testing.assert_allclose(read.area, [81, 375, 180], atol=1e-6)
    assert warned(caplog, "footprints.repaired", "feature 1 (s)")
    assert warned(caplog, "ids.empty", "feature 2 (B0000002)")
    assert warned(caplog, "footprints.repeated", "feature 4 (p)")


@pytest.mark.parametrize("name", ["f.geojson", "f.gpkg", "f.shp", "f.zip", "f.parquet"])
def test_files_that_are_not_vectors_are_refused(tmp_path, name):
    path = tmp_path / name
    unreadable = "archive.not_a_zip" if name == "f.zip" else "footprints.unreadable"
    for content, key in ((None, "file.missing"), (b"", "file.empty"), (b"not a vector at all" * 30, unreadable)):
        if content is not None:
            path.write_bytes(content)
        with refuses(key, name):
            read_buildings(path, CRS)


def test_a_table_without_geometry_is_refused(tmp_path):
    (tmp_path / "f.csv").write_text("building_id,x\na,1\n")
    with refuses("footprints.no_geometry", "f.csv", "--points"):
        read_buildings(tmp_path / "f.csv", CRS)


POINTS = squares(4).set_geometry(squares(4).centroid)
LAYERS: dict[str, tuple[dict[str, geopandas.GeoDataFrame], str | None, int | str]] = {
    "the only polygons": ({"trees": POINTS, "sheds": squares(2)}, None, 2),
    "named so": ({"landuse": squares(3), "osm_Buildings": squares(2)}, None, 2),
    "chosen": ({"landuse": squares(3), "osm_Buildings": squares(2)}, "landuse", 3),
    "other letters": ({"landuse": squares(3), "osm_Buildings": squares(2)}, "OSM_buildings", 2),
    "no such one": ({"houses": squares(3), "sheds": squares(2)}, "roads", "layer.missing"),
    "two named so": ({"building": squares(2), "building_part": squares(3)}, None, "layer.ambiguous"),
    "none named so": ({"houses": squares(2), "sheds": squares(3)}, None, "layer.ambiguous"),
}
"""Layers, the one that the user names, and how many buildings are read, or why none."""


@pytest.mark.parametrize("key", LAYERS)
def test_of_several_layers_the_one_of_footprints_is_read_or_asked_for(tmp_path, caplog, key):
    layers, wanted, outcome = LAYERS[key]
    for name, frame in layers.items():
        frame.to_file(tmp_path / "f.gpkg", layer=name)
    if isinstance(outcome, str):
        with refuses(outcome, "f.gpkg", wanted or "`--layer`", *(f"{name} (polygon)" for name in layers)):
            read_buildings(tmp_path / "f.gpkg", CRS, layer=wanted)
        return
    assert len(read_buildings(tmp_path / "f.gpkg", CRS, layer=wanted)) == outcome
    assert bool(warned(caplog, "layer.chosen", "f.gpkg")) == (wanted is None)


@pytest.mark.parametrize("name", ["f.parquet", "f.geojson"])
def test_a_file_without_layers_has_none_to_choose(tmp_path, name):
    with refuses("layer.missing", name, "no layer x"):
        read_buildings(save(squares(), tmp_path / name), CRS, layer="x")


def test_files_that_are_no_buildings_table_are_refused(tmp_path):
    path = tmp_path / "b.parquet"
    with refuses("file.missing", "b.parquet"):
        load_buildings(path)
    path.write_text("no")
    with refuses("buildings_table.unreadable", "b.parquet"):
        load_buildings(path)
    squares().drop(columns="building_id").to_parquet(path)
    with refuses("buildings_table.missing_column", "b.parquet", "building_id"):
        load_buildings(path)
