import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import shapely
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plumbline.core.errors import InputError
from plumbline.params import Footprints, Ingest
from plumbline.sources.footprints.buildings import buildings_table, load_buildings, read_buildings
from tests.sources.make import EAST, NORTH, squares, unless_refused, zipped

CRS = "EPSG:3035"
pytestmark = pytest.mark.filterwarnings("ignore:Column names longer", "ignore:Normalized/laundered", "ignore:'crs' was")
SQUARE = [[13.15, 38.7], [13.1502, 38.7], [13.1502, 38.7001], [13.15, 38.7001], [13.15, 38.7]]
BOW_TIE = [[13.15, 38.7], [13.1502, 38.7001], [13.1502, 38.7], [13.15, 38.7001], [13.15, 38.7]]
LINE = [[13.15, 38.7], [13.1502, 38.7], [13.15, 38.7], [13.15, 38.7]]


def polygon(ring: list[list[float]]) -> dict[str, Any]:
    return {"type": "Polygon", "coordinates": [ring]}


def geojson(
    path: Path, geometries: list[dict[str, Any] | None], properties: list[dict[str, Any]] | None = None
) -> Path:
    properties = properties or [{"building_id": f"H{number}"} for number in range(len(geometries))]
    features = [
        {"type": "Feature", "properties": held, "geometry": geometry}
        for held, geometry in zip(properties, geometries, strict=True)
    ]
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return path


def save(buildings: geopandas.GeoDataFrame, path: Path) -> Path:
    if path.suffix == ".parquet":
        buildings.to_parquet(path)
    elif path.suffix == ".zip":
        folder = path.with_suffix("")
        folder.mkdir()
        buildings.to_file(folder / "footprints.shp")
        shutil.make_archive(str(folder), "zip", folder)
    else:
        buildings.to_file(path)
    return path


@pytest.mark.parametrize("name", ["f.geojson", "f.gpkg", "f.shp", "f.zip", "f.parquet", "f.fgb"])
def test_every_format_reads_the_same(tmp_path, name):
    buildings = squares()
    buildings["floors"] = [2, 3, 4]
    read = read_buildings(save(buildings.to_crs("EPSG:4326"), tmp_path / name), CRS).sort_values("building_id")
    assert read.crs == CRS
    assert read.attrs["source_crs"] == "EPSG:4326"
    assert read["building_id"].tolist() == ["H0", "H1", "H2"]
    assert read["floors"].tolist() == [2, 3, 4]
    np.testing.assert_allclose(read.geometry.area, buildings.geometry.area, rtol=1e-3)
    assert shapely.hausdorff_distance(read.geometry.to_numpy(), buildings.geometry.to_numpy()).max() < 0.01


def test_the_table_gives_back_what_was_written(tmp_path):
    path = save(squares(), tmp_path / "f.gpkg")
    buildings = read_buildings(path, CRS)
    buildings["note"] = ["a", None, "ü"]
    pq.write_table(buildings_table(buildings), tmp_path / "b.parquet")
    loaded = load_buildings(tmp_path / "b.parquet")
    assert loaded.crs == buildings.crs
    assert loaded.geometry.geom_equals(buildings.geometry).all()
    assert loaded["building_id"].tolist() == buildings["building_id"].tolist()
    assert loaded["note"].isna().tolist() == [False, True, False]


def test_rows_of_the_table_are_a_table_of_those_buildings(tmp_path):
    buildings = read_buildings(save(squares(), tmp_path / "f.gpkg"), CRS)
    pq.write_table(buildings_table(buildings).slice(1, 1), tmp_path / "b.parquet")
    loaded = load_buildings(tmp_path / "b.parquet")
    assert loaded["building_id"].tolist() == ["H1"]
    assert loaded.geometry.iloc[0].equals(buildings.geometry.iloc[1])
    assert loaded.total_bounds.tolist() == buildings.geometry.iloc[[1]].total_bounds.tolist()


def test_without_an_id_column_the_order_names_the_buildings(tmp_path):
    read = read_buildings(save(squares().drop(columns="building_id"), tmp_path / "f.geojson"), CRS)
    assert read["building_id"].tolist() == ["B0000001", "B0000002", "B0000003"]


def test_another_id_column_may_be_named(tmp_path):
    buildings = squares()
    buildings["osm"] = [7, 8, 9]
    path = save(buildings, tmp_path / "f.gpkg")
    read = read_buildings(path, CRS, id_column="osm")
    assert read["building_id"].tolist() == ["7", "8", "9"]
    assert read["osm"].tolist() == [7, 8, 9]
    with pytest.raises(InputError, match=r"f\.gpkg: column name is missing; it has building_id, osm"):
        read_buildings(path, CRS, id_column="name")


def test_what_is_stated_of_a_file_counts_where_nothing_is_given(tmp_path):
    path = save(squares().assign(osm=[7, 8, 9], number=[4, 5, 6]), tmp_path / "f.gpkg")
    stated = {"F*": Footprints(id_column="no"), "f.*": Footprints(id_column="osm"), "*": Footprints(id_column="no")}
    assert read_buildings(path, CRS, stated=stated)["building_id"].tolist() == ["7", "8", "9"]
    assert read_buildings(path, CRS, "number", stated=stated)["building_id"].tolist() == ["4", "5", "6"]


def test_ids_in_the_index_of_a_geoparquet_are_ids(tmp_path):
    path = tmp_path / "f.parquet"
    squares().set_index("building_id").to_parquet(path)
    assert read_buildings(path, CRS)["building_id"].tolist() == ["H0", "H1", "H2"]
    squares().assign(parcel=[7, 8, 9], part=1).set_index(["parcel", "part"]).to_parquet(path)
    read = read_buildings(path, CRS, id_column="parcel")
    assert read["building_id"].tolist() == ["7", "8", "9"]
    assert read["part"].tolist() == [1, 1, 1]
    squares().set_index("building_id", drop=False).to_parquet(path)
    assert read_buildings(path, CRS)["building_id"].tolist() == ["H0", "H1", "H2"]


@pytest.mark.parametrize("name", ["f.geojson", "f.geojsonl", "f.geojson.gz"])
@pytest.mark.parametrize("time", ["", "T00:00:00"])
def test_ids_that_look_like_dates_stay_as_they_are_written(tmp_path, name, time):
    ids = [f"2024-01-0{number}{time}" for number in range(1, 4)]
    path = save(squares().assign(building_id=ids).to_crs("EPSG:4326"), tmp_path / name.removesuffix(".gz"))
    if name.endswith(".gz"):
        path = tmp_path / name
        path.write_bytes(gzip.compress((tmp_path / "f.geojson").read_bytes()))
    assert read_buildings(path, CRS)["building_id"].tolist() == ids


def test_an_id_that_an_output_would_cut_is_refused(tmp_path):
    squares().assign(building_id=["A", "B\0001", "B\0002"]).to_parquet(tmp_path / "f.parquet")
    with pytest.raises(InputError, match=r"f\.parquet: column building_id: feature 2 .*NUL"):
        read_buildings(tmp_path / "f.parquet", CRS)


def test_whole_numbers_that_a_format_made_floats_are_whole_again(tmp_path):
    buildings = squares()
    buildings["building_id"] = [1.0, 2.0, 3.0]
    assert read_buildings(save(buildings, tmp_path / "f.gpkg"), CRS)["building_id"].tolist() == ["1", "2", "3"]


@pytest.mark.parametrize("name", ["f.gpkg", "f.geojson", "f.fgb", "f.parquet", "f.geojsonl"])
def test_large_whole_numbers_stay_what_they_are_where_one_is_missing(tmp_path, name):
    """Pandas makes decimals of integers with a gap: from 2**53 on, 1e+16."""
    buildings = squares().to_crs("EPSG:4326")
    buildings["building_id"] = pd.array([2**53 + 1, None, 2**53 + 2], dtype="Int64")
    path = save(buildings, tmp_path / name)
    if name == "f.parquet":  # as other programs than pandas write it
        table = pq.read_table(path)
        pq.write_table(table.replace_schema_metadata({b"geo": table.schema.metadata[b"geo"]}), path)
    ids = read_buildings(path, CRS)["building_id"].tolist()
    assert {str(2**53 + 1), str(2**53 + 2)} < set(ids)
    assert len(ids) == 3


def test_large_ids_that_the_file_has_as_decimals_are_refused(tmp_path):
    path = save(squares().assign(building_id=[1.0, 2.0, 2.0**53 + 2]), tmp_path / "f.gpkg")
    with pytest.raises(InputError, match=r"f\.gpkg: column building_id: feature 3: 9007199254740994 found, a decimal"):
        read_buildings(path, CRS)


def with_ids(path: Path, ids: list[Any], **held: Any) -> Path:
    """A GeoJSON whose features have these ids of their own."""
    content = json.loads(geojson(path, [moved(number) for number in range(len(ids))], [held] * len(ids)).read_text())
    for feature, own in zip(content["features"], ids, strict=True):
        feature |= {} if own is None else {"id": own}
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize("ids", [["way/7", "way/9", "relation/7"], ["7", "9", "8"], [70, 90, 80]])
def test_the_ids_of_a_geojsons_features_name_the_buildings(tmp_path, ids, caplog):
    with caplog.at_level("INFO", "plumbline"):
        read = read_buildings(with_ids(tmp_path / "f.geojson", ids, floors=2), CRS)
    assert read["building_id"].tolist() == [str(own) for own in ids]
    assert "buildings are named by the column id" in caplog.text


@pytest.mark.parametrize("ids", [[7, 7, 8], [None, 70, 80], [0, 1, 2], ["a", "a", "b"], ["a", None, "b"], [None] * 3])
def test_ids_that_do_not_tell_the_features_apart_name_nobody(tmp_path, ids):
    read = read_buildings(with_ids(tmp_path / "f.geojson", ids, floors=2), CRS)
    assert read["building_id"].tolist() == ["B0000001", "B0000002", "B0000003"]


@pytest.mark.parametrize("name", ["f.gpkg", "f.geojson", "f.shp", "f.parquet"])
def test_a_building_id_in_other_letters_becomes_the_building_id(tmp_path, name):
    buildings = squares().rename(columns={"building_id": "BUILDING_I" if name == "f.shp" else "Building_ID"})
    read = read_buildings(save(buildings, tmp_path / name), CRS)
    assert read["building_id"].tolist() == ["H0", "H1", "H2"]
    if name != "f.shp":  # which cuts names
        assert [column.casefold() for column in read.columns].count("building_id") == 1


def test_a_multipolygon_of_one_part_is_a_polygon_of_several_stays_and_z_goes(tmp_path):
    second = [[x, y + 0.001] for x, y in SQUARE]
    path = geojson(
        tmp_path / "f.geojson",
        [
            {"type": "MultiPolygon", "coordinates": [[SQUARE]]},
            {"type": "MultiPolygon", "coordinates": [[SQUARE], [second]]},
            polygon([[x, y, 12.0] for x, y in SQUARE]),
        ],
    )
    read = read_buildings(path, CRS)
    assert read.geom_type.tolist() == ["Polygon", "MultiPolygon", "Polygon"]
    assert not read.has_z.any()


def test_a_repeated_vertex_is_fine(tmp_path):
    areas = read_buildings(geojson(tmp_path / "f.geojson", [polygon(SQUARE), polygon([SQUARE[0], *SQUARE])]), CRS).area
    assert areas[0] == pytest.approx(areas[1])


def test_a_property_of_the_name_of_the_geometry_does_not_get_in_the_way(tmp_path):
    path = geojson(tmp_path / "f.geojson", [polygon(SQUARE)], [{"building_id": "a", "geometry": "x", "geom": "y"}])
    read = unless_refused(lambda: read_buildings(path, CRS), path)
    assert read is None or read.geometry.iloc[0].geom_type == "Polygon"


def test_nested_properties_go_on_as_text(tmp_path):
    held = [{"building_id": "a", "tags": {"floor": 1}}, {"building_id": "b", "tags": {"floor": "low"}}]
    second = [[x, y + 0.001] for x, y in SQUARE]
    read = read_buildings(geojson(tmp_path / "f.geojson", [polygon(SQUARE), polygon(second)], held), CRS)
    pq.write_table(buildings_table(read), tmp_path / "b.parquet")
    assert load_buildings(tmp_path / "b.parquet")["tags"].map(json.loads).tolist() == [{"floor": 1}, {"floor": "low"}]


def test_heights_that_cannot_be_read_count_as_unknown_and_that_is_said(tmp_path, caplog):
    buildings = squares(6)
    buildings["height_m"] = ["12.5", None, "tall", "12,5", "-1", "inf"]
    with caplog.at_level("WARNING", "plumbline"):
        read = read_buildings(save(buildings, tmp_path / "f.gpkg"), CRS)
    np.testing.assert_array_equal(read["height_m"], [12.5, *[np.nan] * 5])
    assert read.attrs["heights_unknown"] == 4
    assert "f.gpkg: 4 values of height_m are no metres from 0 up and count as unknown: feature 3 (H2)" in caplog.text
    assert "the first is 'tall'" in caplog.text
    buildings["height_m"] = [12.5, -5.0, 1, 1, 1, 1]
    with caplog.at_level("WARNING", "plumbline"):
        read_buildings(save(buildings, tmp_path / "n.gpkg"), CRS)
    assert "the first is -5.0." in caplog.text


ABSENT = "without a geometry, or with a ring that is not closed or has fewer than three corners"
ODD: dict[str, tuple[dict[str, Any] | None, str]] = {
    "bow-tie": (polygon(BOW_TIE), "invalid, and which ground is the building cannot be told"),
    "line drawn as a polygon": (polygon(LINE), "without area"),
    "open ring": (polygon(SQUARE[:-1]), ABSENT),
    "two corners": (polygon(SQUARE[:2]), ABSENT),
    "null": (None, ABSENT),
    "empty": ({"type": "Polygon", "coordinates": []}, ABSENT),
    "point": ({"type": "Point", "coordinates": SQUARE[0]}, "Point and no polygon"),
    "points": ({"type": "MultiPoint", "coordinates": SQUARE}, "MultiPoint and no polygon"),
    "line": ({"type": "LineString", "coordinates": SQUARE}, "LineString and no polygon"),
    "collection": (
        {"type": "GeometryCollection", "geometries": [{"type": "Point", "coordinates": SQUARE[0]}]},
        "GeometryCollection without a polygon in it",
    ),
    "no number": (polygon([*SQUARE[:2], [float("nan"), 38.7], *SQUARE[2:]]), "with a coordinate that is no number"),
    "nowhere": (polygon([[x - 88.15, y - 38.7] for x, y in SQUARE]), "outside of what EPSG:32633, the points' CRS"),
    "smaller than a brick": (polygon([[13.0 + x * 1e-9, 38.0 + y * 1e-9] for x, y in SQUARE]), "without area"),
}


def moved(number: int) -> dict[str, Any]:
    return polygon([[x, y + 0.001 * number] for x, y in SQUARE])


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("place", [0, 2])
def test_a_feature_that_is_no_footprint_is_left_out_and_named(tmp_path, caplog, kind, place):
    shape, why = ODD[kind]
    shapes: list[dict[str, Any] | None] = [moved(number) for number in range(3)]
    shapes[place] = shape
    with caplog.at_level("WARNING", "plumbline"):
        read = read_buildings(geojson(tmp_path / "f.geojson", shapes), "EPSG:32633")
    assert read["building_id"].tolist() == [f"H{number}" for number in range(3) if number != place]
    assert read.index.tolist() == [0, 1]
    assert read.attrs["left_out"] == [f"H{place}"]
    (said,) = [record.getMessage() for record in caplog.records if "left out" in record.getMessage()]
    assert "f.geojson: 1 of 3 features left out" in said
    assert why in said
    assert f"(feature {place + 1} (H{place}))" in said


def test_all_that_is_left_out_is_one_warning_that_counts_the_kinds(tmp_path, caplog):
    point, line = ODD["point"][0], ODD["line"][0]
    shapes = [point, moved(1), None, *[point] * 6, polygon(BOW_TIE), line, moved(2)]
    with caplog.at_level("WARNING", "plumbline"):
        read = read_buildings(geojson(tmp_path / "f.geojson", shapes), CRS)
    assert read["building_id"].tolist() == ["H1", "H11"]
    (said,) = [record.getMessage() for record in caplog.records]
    assert "10 of 12 features left out" in said
    named = "feature 1 (H0), feature 4 (H3), feature 5 (H4), feature 6 (H5), feature 7 (H6) and 2 more"
    assert f"7 Point and no polygon ({named})" in said
    assert "1 LineString and no polygon (feature 11 (H10))" in said
    assert f"1 {ABSENT} (feature 3 (H2))" in said
    assert "1 invalid, and which ground is the building cannot be told (feature 10 (H9))" in said


@pytest.mark.parametrize("kind", ODD)
def test_a_file_of_nothing_else_is_refused_with_the_kinds(tmp_path, kind):
    shape, why = ODD[kind]
    with pytest.raises(InputError, match=rf"f\.geojson: (.|\n)*{why}"):
        read_buildings(geojson(tmp_path / "f.geojson", [shape, shape]), "EPSG:32633")


@pytest.mark.parametrize("kind", ["nowhere", "smaller than a brick"])
def test_where_most_are_not_of_this_place_or_size_the_file_is_refused(tmp_path, kind):
    shape, why = ODD[kind]
    with pytest.raises(InputError, match=rf"feature 1 \(H0\), feature 3 \(H2\) {why}.* Are the"):
        read_buildings(geojson(tmp_path / "f.geojson", [shape, moved(1), shape]), "EPSG:32633")


def test_of_a_collection_the_polygons_are_taken(tmp_path):
    door = {"type": "Point", "coordinates": SQUARE[0]}
    both = {"type": "MultiPolygon", "coordinates": [[moved(1)["coordinates"][0]], [moved(2)["coordinates"][0]]]}
    shapes = [
        {"type": "GeometryCollection", "geometries": [door, moved(0)]},
        {"type": "GeometryCollection", "geometries": [{"type": "GeometryCollection", "geometries": [both, door]}]},
    ]
    read = read_buildings(geojson(tmp_path / "f.geojson", shapes), CRS)
    assert read.geom_type.tolist() == ["Polygon", "MultiPolygon"]
    assert read.area[1] == pytest.approx(2 * read.area[0], rel=1e-3)
    assert read.attrs["left_out"] == []


def test_a_polygon_with_little_ground_in_doubt_is_drawn_anew_and_that_is_said(tmp_path, caplog):
    wing = [(0, 0), (20, 0), (9, 22), (11, 22)]  # its sides cross 20 m up: 200 m2 and a wing of 2
    drawn = squares(2)
    drawn.loc[1, "geometry"] = shapely.Polygon([(EAST + 100 + x, NORTH + y) for x, y in wing])
    with caplog.at_level("WARNING", "plumbline"):
        read = read_buildings(save(drawn, tmp_path / "f.gpkg"), CRS)
    assert read.is_valid.all()
    assert read.area[1] == pytest.approx(200, rel=0.02)
    assert read.attrs["repaired"] == ["H1"]
    assert "1 invalid footprints drawn anew, with up to 2.0 m² of ground in doubt: feature 2 (H1)" in caplog.text


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
    drawn = geopandas.GeoDataFrame(
        {"building_id": ["a", "b"]}, geometry=[solid(EAST, NORTH), shapely.box(0, 0, 9, 9)], crs="EPSG:3035"
    )
    drawn.loc[1, "geometry"] = shapely.force_3d(shapely.box(EAST + 40, NORTH, EAST + 49, NORTH + 9), 30.0)
    with caplog.at_level("WARNING", "plumbline"):
        read = read_buildings(save(drawn, tmp_path / "f.gpkg"), CRS)
    assert read.geom_type.tolist() == ["Polygon", "Polygon"]
    np.testing.assert_allclose(read.area, [100, 81])
    assert not read.has_z.any()
    assert "f.gpkg: 1 drawn as solids (feature 1 (a)): the ground below their faces is taken" in caplog.text


def gml(path: Path, kind: str, member: str) -> Path:
    faces = "".join(
        f"<gml:{member}><gml:Polygon><gml:exterior><gml:LinearRing><gml:posList srsDimension='3'>"
        + " ".join(f"{x} {y} {z}" for x, y, z in shapely.get_coordinates(face, include_z=True))
        + f"</gml:posList></gml:LinearRing></gml:exterior></gml:Polygon></gml:{member}>"
        for face in shapely.get_parts(solid(EAST, NORTH))
    )
    geometry = f"<gml:{kind} srsName='EPSG:3035'>{faces}</gml:{kind}>"
    if kind == "CompositeSurface":
        geometry = f"<gml:Solid srsName='EPSG:3035'><gml:exterior>{geometry}</gml:exterior></gml:Solid>"
    path.write_text(
        "<?xml version='1.0'?><ogr:FeatureCollection xmlns:ogr='http://ogr.maptools.org/' "
        "xmlns:gml='http://www.opengis.net/gml/3.2'><ogr:featureMember><ogr:house gml:id='h.1'>"
        f"<ogr:geom>{geometry}</ogr:geom><ogr:floors>2</ogr:floors></ogr:house></ogr:featureMember>"
        "</ogr:FeatureCollection>"
    )
    return path


@pytest.mark.parametrize(("kind", "member"), [("MultiSurface", "surfaceMember"), ("CompositeSurface", "surfaceMember")])
@pytest.mark.parametrize("name", ["f.gml", "o p.gml"])
def test_a_solid_of_gml_is_the_ground_below_it(tmp_path, kind, member, name):
    read = read_buildings(gml(tmp_path / name, kind, member), CRS)
    assert read.area.tolist() == [100.0]
    assert read["floors"].tolist() == [2]


def test_a_solid_keeps_its_heights_on_the_way_to_another_crs(tmp_path):
    drawn = geopandas.GeoDataFrame({"building_id": ["a"]}, geometry=[solid(500_000, 5_700_000)], crs="EPSG:25832")
    assert read_buildings(save(drawn, tmp_path / "f.gpkg"), CRS).area.tolist() == pytest.approx([100], rel=1e-3)


def test_an_arc_becomes_a_line_of_many_corners(tmp_path):
    ring = (
        "<gml:Curve><gml:segments><gml:Arc><gml:posList>{} {} {} {} {} {}</gml:posList></gml:Arc>"
        "<gml:LineStringSegment><gml:posList>{} {} {} {}</gml:posList></gml:LineStringSegment></gml:segments>"
        "</gml:Curve>"
    ).format(*[EAST, NORTH, EAST + 10, NORTH + 10, EAST + 20, NORTH, EAST + 20, NORTH, EAST, NORTH])
    (tmp_path / "f.gml").write_text(
        "<?xml version='1.0'?><ogr:FeatureCollection xmlns:ogr='http://ogr.maptools.org/' "
        "xmlns:gml='http://www.opengis.net/gml/3.2'><ogr:featureMember><ogr:house gml:id='h.1'><ogr:geom>"
        f"<gml:Polygon srsName='EPSG:3035'><gml:exterior><gml:Ring><gml:curveMember>{ring}</gml:curveMember></gml:Ring>"
        "</gml:exterior></gml:Polygon></ogr:geom></ogr:house></ogr:featureMember></ogr:FeatureCollection>"
    )
    assert read_buildings(tmp_path / "f.gml", CRS).area.tolist() == pytest.approx([50 * np.pi], rel=0.01)


@pytest.mark.parametrize(
    ("geometries", "message"),
    [
        ([polygon([[x * 1e5, y * 1e5] for x, y in SQUARE])], "cannot be degrees of longitude and latitude"),
        (
            [polygon([[y, 180 - x] for x, y in SQUARE])],
            "cannot be degrees .*, unless the latitude stands first: write the longitude before it",
        ),
        ([], "holds no footprints|not readable as a file of footprints|without geometry"),
    ],
)
def test_files_that_cannot_be_footprints_as_a_whole_are_refused(tmp_path, geometries, message):
    with pytest.raises(InputError, match=rf"f\.geojson: (.|\n)*({message})"):
        read_buildings(geojson(tmp_path / "f.geojson", geometries), CRS)


def test_longitudes_may_be_counted_from_0_to_360(tmp_path):
    rings = [[[x - 135.5 + turn, y] for x, y in SQUARE] for turn in (0, 360)]
    usual, round_ = (
        read_buildings(geojson(tmp_path / f"{number}.geojson", [polygon(ring)]), "EPSG:32610")
        for number, ring in enumerate(rings)
    )
    np.testing.assert_allclose(usual.total_bounds, round_.total_bounds, atol=1e-3)


@pytest.mark.parametrize("parts", [1, 2])
def test_holes_without_a_corner_are_none(tmp_path, parts):
    """Compared with another one, such a polygon ended the process, not the run (GEOS 3.14)."""
    hole = [[13.15005, 38.70002], [13.15015, 38.70002], [13.15015, 38.70008], [13.15005, 38.70002]]
    told = [[SQUARE, [], hole], [[[x + 0.001, y] for x, y in SQUARE]]][:parts]
    shape = {"type": "MultiPolygon", "coordinates": told}
    path = geojson(tmp_path / "f.geojson", [shape, shape], [{"building_id": "a"}] * 2)
    whole = {"type": "MultiPolygon", "coordinates": [[ring for ring in rings if ring] for rings in told]}
    plain = geojson(tmp_path / "plain.geojson", [whole], [{"building_id": "a"}])
    read = read_buildings(path, CRS)
    assert read.geometry.iloc[0].equals(read_buildings(plain, CRS).geometry.iloc[0])
    assert (read.attrs["duplicates_dropped"], read.attrs["with_holes"]) == (1, 1)
    assert not any(ring.is_empty for ring in shapely.get_rings(read.geometry.to_numpy()))


def test_outlines_drawn_twice_under_other_names_are_counted(tmp_path, caplog):
    shapes = [moved(0), moved(1), moved(0), moved(0)]
    path = geojson(tmp_path / "f.geojson", shapes, [{"use": "house"} for _ in shapes])
    with caplog.at_level("WARNING", "plumbline"):
        read = read_buildings(path, CRS)
    assert len(read) == 4
    assert read.attrs["drawn_twice"] == 2
    assert (
        "2 footprints are drawn as one before them, under another name: feature 3 (B0000003), feature 4" in caplog.text
    )


@pytest.mark.filterwarnings("ignore:Field")
@pytest.mark.parametrize(("folder", "name"), [("", "F.ZIP"), ("a/b/", "f.zip")])
def test_a_zip_may_have_folders_and_capitals(tmp_path, folder, name):
    (tmp_path / "shape").mkdir()
    squares().to_file(tmp_path / "shape" / "f.shp")
    members = {folder + path.name: path.read_bytes() for path in (tmp_path / "shape").iterdir()}
    zipped(tmp_path / name, {**members, "__MACOSX/._f.shp": "x", "README.txt": "about"})
    assert len(read_buildings(tmp_path / name, CRS)) == 3


def test_of_several_files_in_a_zip_one_is_read_and_said(tmp_path, caplog):
    for name, count in (("b.geojson", 2), ("a.geojson", 3)):
        squares(count).to_file(tmp_path / name)
    zipped(tmp_path / "f.zip", {path.name: path.read_bytes() for path in tmp_path.glob("*.geojson")})
    with caplog.at_level("WARNING", "plumbline"):
        assert len(read_buildings(tmp_path / "f.zip", CRS)) == 3
    assert "a.geojson, b.geojson found in it, a.geojson is read" in caplog.text
    squares(1).to_file(tmp_path / "my_footprints.geojson")
    zipped(tmp_path / "f.zip", {path.name: path.read_bytes() for path in tmp_path.glob("*.geojson")})
    assert len(read_buildings(tmp_path / "f.zip", CRS)) == 1


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"../f.geojson": "{}"}, r"member '\.\./f\.geojson' points outside"),
        ({"C:/f.geojson": "{}"}, "points outside"),
        ({"f.geojson": b"0" * 5_000_000}, r"member f\.geojson unpacks to 5,000,000 bytes"),
        ({"inner.zip": b"PK"}, "no file of footprints"),
        ({"f.shp": b""}, "not readable as a file of footprints"),
        ({"f.geojson": b""}, "not readable as a file of footprints"),
    ],
)
def test_a_zip_that_is_not_safe_or_has_no_footprints_is_refused(tmp_path, members, message):
    with pytest.raises(InputError, match=rf"f\.zip: .*{message}"):
        read_buildings(zipped(tmp_path / "f.zip", members), CRS)


def test_a_geojson_in_a_zip_with_a_crs_that_is_not_known_is_refused(tmp_path):
    squares().to_crs("EPSG:4326").to_file(tmp_path / "f.geojson")
    content = json.loads((tmp_path / "f.geojson").read_text())
    content["crs"] = {"type": "name", "properties": {"name": "moon"}}
    with pytest.raises(InputError, match=r"f\.zip: crs .*moon.* found"):
        read_buildings(zipped(tmp_path / "f.zip", {"f.geojson": json.dumps(content)}), CRS)


def test_a_gzip_is_read_as_what_is_in_it(tmp_path):
    path = save(squares().to_crs("EPSG:4326"), tmp_path / "f.geojson")
    packed = tmp_path / "o p.geojson.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read_buildings(packed, CRS)["building_id"].tolist() == ["H0", "H1", "H2"]
    packed.write_bytes(gzip.compress(path.read_bytes())[:-9])
    with pytest.raises(InputError, match=r"o p\.geojson\.gz: the gzip file is damaged or cut off"):
        read_buildings(packed, CRS)
    content = json.loads(path.read_text())
    content["crs"] = {"type": "name", "properties": {"name": "moon"}}
    packed.write_bytes(gzip.compress(json.dumps(content).encode()))
    with pytest.raises(InputError, match=r"crs .*moon.* found"):
        read_buildings(packed, CRS)


@pytest.mark.parametrize("name", ["f.csv", "f.csv.gz", "f.geojsonl", "f.json.gz"])
@pytest.mark.parametrize("separator", ["", "\x1e"])
def test_a_feature_a_line_is_read_whatever_the_name_says(tmp_path, name, separator):
    features = [{"type": "Feature", "properties": {"height": -1}, "geometry": moved(number)} for number in range(3)]
    text = "".join(f"{separator}{json.dumps(feature)}\n" for feature in features).encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    read = read_buildings(tmp_path / name, CRS)
    assert len(read) == 3
    assert read.attrs["source_crs"] == "EPSG:4326"


def test_a_gzip_that_unpacks_to_far_more_than_footprints_do_is_refused(tmp_path):
    path = tmp_path / "f.geojson.gz"
    path.write_bytes(gzip.compress(b" " * 50_000_000))
    with pytest.raises(InputError, match=r"f\.geojson\.gz: it unpacks to far more than its size"):
        read_buildings(path, CRS)


@pytest.mark.parametrize("name", ["f.gpkg", "f.shp", "f.parquet"])
def test_footprints_without_crs_are_refused(tmp_path, name):
    path = tmp_path / name
    for crs, example, told in (
        (CRS, "EPSG:32633", "cannot be degrees"),
        ("EPSG:4326", "EPSG:4326", "look like degrees"),
    ):
        with pytest.raises(InputError, match=f"{name}: the footprints have no CRS") as refused:
            read_buildings(save(squares().to_crs(crs).set_crs(None, allow_override=True), path), CRS)
        said, _, line = str(refused.value).partition("\n")
        stated = Ingest.model_validate(yaml.safe_load(line)["ingest"]).footprints
        assert stated[name].crs == example
        assert told in said
        assert "--params my.yaml" in said
        assert ("an example" in said) == (example == "EPSG:32633")
        assert (".prj" in said) == (path.suffix == ".shp")
    assert len(read_buildings(path, CRS, stated=stated)) == len(squares())


def test_what_was_found_and_done_is_said_and_counted(tmp_path, caplog):
    x, y = EAST, NORTH
    spike = shapely.Polygon([(x, y), (x + 9, y), (x + 14, y), (x + 9, y), (x + 9, y + 9), (x, y + 9)])
    ring = shapely.box(x + 20, y, x + 40, y + 20) - shapely.box(x + 25, y + 5, x + 30, y + 10)
    pair = shapely.MultiPolygon([shapely.box(x + 50, y, x + 60, y + 9), shapely.box(x + 70, y, x + 80, y + 9)])
    drawn = geopandas.GeoDataFrame(
        {"building_id": ["s", None, "p", "p"]}, geometry=[spike, ring, pair, pair], crs="EPSG:3035"
    )
    with caplog.at_level("WARNING", "plumbline"):
        read = read_buildings(save(drawn, tmp_path / "f.gpkg"), CRS)
    assert read.attrs == {
        "source_crs": "EPSG:3035",
        "repaired": ["s"],
        "left_out": [],
        "assigned_ids": 1,
        "duplicates_dropped": 1,
        "drawn_twice": 0,
        "covered": 0,
        "overlapping": 0,
        "heights_unknown": 0,
        "multipart": 1,
        "with_holes": 1,
    }
    assert read["building_id"].tolist() == ["s", "B0000002", "p"]
    assert read.index.tolist() == [0, 1, 2]
    np.testing.assert_allclose(read.area, [81, 375, 180], atol=1e-6)
    assert "feature 1 (s) invalid" in caplog.text
    assert "feature 2 (B0000002) without a value in column building_id" in caplog.text
    assert "feature 4 (p) drawn twice" in caplog.text
    pq.write_table(buildings_table(read), tmp_path / "b.parquet")
    assert load_buildings(tmp_path / "b.parquet").area.tolist() == read.area.tolist()


@pytest.mark.parametrize("name", ["f.geojson", "f.gpkg", "f.shp", "f.zip", "f.parquet"])
def test_files_that_are_not_vectors_are_refused(tmp_path, name):
    path = tmp_path / name
    with pytest.raises(InputError, match=f"{name}: no such file"):
        read_buildings(path, CRS)
    path.touch()
    with pytest.raises(InputError, match=f"{name}: the file is empty"):
        read_buildings(path, CRS)
    path.write_bytes(b"not a vector at all" * 30)
    with pytest.raises(
        InputError, match=f"{name}: (not readable as a file of footprints|named .zip, but its content is not)"
    ):
        read_buildings(path, CRS)


def test_a_table_without_geometry_is_refused(tmp_path):
    (tmp_path / "f.csv").write_text("building_id,x\na,1\n")
    with pytest.raises(InputError, match="without geometry"):
        read_buildings(tmp_path / "f.csv", CRS)


def layered(path: Path, **layers: geopandas.GeoDataFrame) -> Path:
    for name, frame in layers.items():
        frame.to_file(path, layer=name)
    return path


def test_of_several_layers_the_only_one_of_polygons_is_read(tmp_path, caplog):
    points = squares(4).set_geometry(squares(4).centroid)
    with caplog.at_level("WARNING", "plumbline"):
        assert len(read_buildings(layered(tmp_path / "f.gpkg", trees=points, sheds=squares(2)), CRS)) == 2
    assert "f.gpkg: layers trees (point), sheds (polygon) found; sheds is read" in caplog.text


def test_of_several_layers_of_polygons_the_one_named_so_is_read_or_the_one_asked_for(tmp_path):
    path = layered(tmp_path / "f.gpkg", landuse=squares(3), osm_Buildings=squares(2))
    assert len(read_buildings(path, CRS)) == 2
    assert len(read_buildings(path, CRS, layer="landuse")) == 3
    assert len(read_buildings(path, CRS, layer="OSM_buildings")) == 2
    with pytest.raises(InputError, match=r"f\.gpkg: no layer roads; it has landuse \(polygon\), osm_Buildings"):
        read_buildings(path, CRS, layer="roads")


def test_where_the_layer_cannot_be_told_it_is_asked_for(tmp_path):
    path = layered(tmp_path / "f.gpkg", building=squares(2), building_part=squares(3))
    with pytest.raises(InputError, match=r"layers building \(polygon\), building_part \(polygon\) found.*`--layer`"):
        read_buildings(path, CRS)
    path = layered(tmp_path / "g.gpkg", houses=squares(2), sheds=squares(3))
    with pytest.raises(InputError, match=r"houses .*sheds"):
        read_buildings(path, CRS)


def test_a_file_without_layers_has_none_to_choose(tmp_path):
    with pytest.raises(InputError, match=r"no layer x; a GeoParquet has no layers"):
        read_buildings(save(squares(), tmp_path / "f.parquet"), CRS, layer="x")
    with pytest.raises(InputError, match=r"no layer x; it has"):
        read_buildings(save(squares(), tmp_path / "f.geojson"), CRS, layer="x")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(position=st.floats(0, 1, exclude_max=True), junk=st.binary(max_size=6), cut=st.booleans())
@pytest.mark.parametrize("suffix", ["geojson", "gpkg", "parquet", "fgb"])
def test_damaged_files_are_refused_or_read(tmp_path, suffix, position, junk, cut):
    whole = tmp_path / f"whole.{suffix}"
    if not whole.exists():
        save(squares().to_crs("EPSG:4326"), whole)
    content = whole.read_bytes()
    at = int(position * len(content))
    path = tmp_path / f"damaged.{suffix}"
    path.write_bytes(content[:at] + junk + (b"" if cut else content[at + len(junk) :]))
    read = unless_refused(lambda: read_buildings(path, CRS), path)
    if read is not None:
        assert read.is_valid.all()
        assert np.isfinite(read.total_bounds).all()


def test_files_that_are_no_buildings_table_are_refused(tmp_path):
    path = tmp_path / "b.parquet"
    with pytest.raises(InputError, match="no such file"):
        load_buildings(path)
    path.write_text("no")
    with pytest.raises(InputError, match="not a buildings table"):
        load_buildings(path)
    squares().drop(columns="building_id").to_parquet(path)
    with pytest.raises(InputError, match="building_id or the CRS is missing"):
        load_buildings(path)
