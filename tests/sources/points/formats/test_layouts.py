"""Tables of published layouts are read natively: only what they do not say is asked for, at once."""

from dataclasses import replace

import geopandas
import numpy as np
import pandas as pd
import pytest
import shapely
import yaml
from pyproj import Transformer

from plumbline.params import FORMATS as NAMES
from plumbline.params import Product, load_ingest
from plumbline.sources.points.formats.layouts import LAYOUTS, find_column, is_layout
from plumbline.sources.points.recognise import FORMATS, recognise
from tests.refusals import refuses, warned
from tests.sources.make import rows as egms_rows
from tests.sources.make import text
from tests.sources.points.formats.write_layouts import FIXED, HEIGHTS, IDS, rows
from tests.sources.points.opening import product_parts, read_points
from tests.sources.points.write_points import ANGLES, DAYS, assert_track, expected

MM = {"units": {"displacement": "mm"}}
TOWARDS = {"positive": "towards"}
ASKED = {
    "depsi": ANGLES,
    "squeesar": ANGLES,
    "squeesar-up": {},
    "squeesar-east": {},
    "stamps-gis": ANGLES,
    "sarvey": ANGLES | TOWARDS,
    "sarproz": ANGLES | TOWARDS,
    "sarscape": ANGLES | TOWARDS | MM,
    "insar-norway": {},
}

COMPONENTS = {"squeesar-up": (0, 0, 1), "squeesar-east": (1, 0, 0)}


def write(tmp_path, content, name="t.csv"):
    (tmp_path / name).write_text(content, encoding="utf-8")
    return tmp_path / name


def layer(cells, path, places=("LON", "LAT"), z=0.0):
    """The cells as a layer, their places as points with a constant z, as MintPy's save_qgis writes them."""
    table = pd.DataFrame(cells)
    for name in table.columns:
        numbers = pd.to_numeric(table[name], errors="coerce")
        table[name] = numbers if numbers.notna().all() else table[name]
    points = geopandas.points_from_xy(table[places[0]], table[places[1]], np.full(len(table), z))
    geopandas.GeoDataFrame(table.drop(columns=list(places)), geometry=points, crs=4326).to_file(path)
    return path


def test_every_layout_is_a_format_that_params_can_name():
    assert set(FORMATS) == set(NAMES)
    assert {layout.name for layout in LAYOUTS} - {"pygmtsar"} == set(FIXED) == set(ASKED)


@pytest.mark.parametrize("name", [name for name in FIXED if name not in COMPONENTS])
def test_a_csv_of_a_published_layout_comes_back(tmp_path, monkeypatch, name):
    path = write(tmp_path, text(rows(name)))
    products = {"t.csv": Product.model_validate(ASKED[name])}
    assert recognise(path, products).format == name
    monkeypatch.setattr("plumbline.sources.points.read.PART_BYTES", 200)
    assert (len(product_parts(path, products)) > 1) == (name not in ("sarscape", "insar-norway"))  # points have names
    ids = [f"P000000{number}" for number in range(1, 7)] if name == "sarscape" else IDS
    track = read_points(path, products)
    wanted = expected(ids, HEIGHTS, "t")
    np.testing.assert_allclose(track.los, wanted.los, atol=1e-7)
    assert_track(track, wanted if name != "insar-norway" else replace(wanted, los=track.los))
    np.testing.assert_allclose(track.coherence, np.arange(6) / 10, atol=1e-7)


@pytest.mark.parametrize("name", COMPONENTS)
def test_a_decomposed_component_is_seen_along_itself(tmp_path, name):
    track = read_points(write(tmp_path, text(rows(name))))
    wanted = expected(IDS, [0.0] * 6, "t")
    assert_track(track, replace(wanted, los=np.tile(np.array(COMPONENTS[name], float), (6, 1))))
    both = [{**row, "VEL_V": "1", "VEL_E": "1"} for row in rows(name)]
    with refuses("points.unknown_format", "t.csv"):
        read_points(write(tmp_path, text(both)))


@pytest.mark.parametrize("name", [name for name, asked in ASKED.items() if asked])
def test_all_that_is_missing_is_asked_in_one_message_that_can_be_filled_in(tmp_path, name):
    path = write(tmp_path, text(rows(name)))
    with refuses("products.unstated", path) as said:
        read_points(path)
    offered = "ingest:" + str(said.value).split("ingest:")[-1]
    assert yaml.safe_load(offered)["ingest"]["products"]["t.csv"].keys() == ASKED[name].keys()
    filled = offered.replace("30.0", "37.0").replace("350.0", "349.0").replace("UNIT", "mm").replace("SIGN", "towards")
    (tmp_path / "mine.yaml").write_text(filled)
    stated = {"*": Product.model_validate(ASKED[name])}
    assert_track(read_points(path, load_ingest(tmp_path / "mine.yaml").products), read_points(path, stated))


@pytest.mark.parametrize("suffix", ["shp", "gpkg"])
def test_the_attribute_counts_before_the_height_of_the_geometry(tmp_path, suffix):
    path = layer(rows("squeesar"), tmp_path / f"t.{suffix}")
    track = read_points(path, {"*": Product(**ANGLES)})
    assert_track(track, expected(IDS, HEIGHTS, "t"))


def test_capital_letters_of_a_database_s_export_do_not_matter(tmp_path):
    cells = [{name if name[1:].isdigit() else name.title(): row[name] for name in row} for row in rows("squeesar")]
    track = read_points(write(tmp_path, text(cells)), {"*": Product(**ANGLES)})
    assert_track(track, expected(IDS, HEIGHTS, "t"))


def test_of_coordinates_in_metres_the_crs_is_asked_with_the_rest(tmp_path):
    to_plane = Transformer.from_crs(4326, 32631, always_xy=True)
    cells = []
    for row in rows("squeesar"):
        x, y = to_plane.transform(float(row.pop("LON")), float(row.pop("LAT")))
        cells.append({**row, "X": f"{x:.6f}", "Y": f"{y:.6f}"})
    path = write(tmp_path, text(cells))
    with refuses("products.unstated", path, "heading_deg: 350.0, crs: EPSG:NUMBER"):
        read_points(path)
    track = read_points(path, {"*": Product(**ANGLES, crs="EPSG:32631")})
    np.testing.assert_allclose(track.easting, expected(IDS, HEIGHTS, "t").easting, atol=1e-5)


@pytest.mark.parametrize(
    ("gone", "key", "place"),
    [(("LAT", "LON"), "points.no_place", "lon and lat"), (("D2",), "epochs.too_few", "named as D%Y")],
)
def test_a_table_without_places_and_one_without_epochs_say_what_to_export(tmp_path, gone, key, place):
    cells = rows("squeesar")
    path = write(tmp_path, text(cells, [name for name in cells[0] if not name.startswith(gone)]))
    with refuses(key, path, place):
        read_points(path, {"*": Product(**ANGLES)})


@pytest.mark.parametrize("pattern", ["%Y%m%d", "%d-%b-%Y", "%Y-%m-%d", "%y/%m/%d"])
def test_sarproz_s_days_may_be_written_in_several_ways(tmp_path, pattern):
    ways = {day: pd.Timestamp(day).strftime(pattern) for day in DAYS}
    cells = [{ways.get(name, name): cell for name, cell in row.items()} for row in rows("sarproz")]
    track = read_points(write(tmp_path, text(cells)), {"*": Product.model_validate(ASKED["sarproz"])})
    assert_track(track, expected(IDS, HEIGHTS, "t"))


@pytest.mark.parametrize("pid", ["pid", "Point ID"])
def test_degrees_with_egms_s_names_are_those_of_norway_and_metres_are_egms_s(tmp_path, pid):
    cells = [{pid if name == "Point ID" else name: cell for name, cell in row.items()} for row in rows("insar-norway")]
    assert recognise(write(tmp_path, text(cells))).format == "insar-norway"
    cells = [{**row, "latitude": "52", "longitude": "5", "mean_velocity": "0"} for row in egms_rows()]
    assert recognise(write(tmp_path, text(cells))).format == "egms"


@pytest.mark.filterwarnings("ignore:Column names longer", "ignore:Normalized/laundered")
def test_names_that_a_shapefile_has_cut_are_the_same_columns(tmp_path):
    path = layer(rows("insar-norway"), tmp_path / "t.shp", ("longitude", "latitude"))
    track = read_points(path)
    assert (track.point_id.tolist(), track.height.tolist()) == (IDS, HEIGHTS)
    np.testing.assert_allclose(track.coherence, np.arange(6) / 10, atol=1e-7)
    path = layer(rows("sarvey"), tmp_path / "u.shp", ("lon", "lat"))
    track = read_points(path, {"*": Product.model_validate(ASKED["sarvey"])})
    assert_track(track, expected(IDS, HEIGHTS, "u"))
    assert find_column(["temporal_c", "x"], ["temporal_coherence"]) == "temporal_c"
    assert find_column(["temporal"], ["temporal_coherence"]) is None


def test_a_geojson_of_nothing_but_days_is_pygmtsar_s(tmp_path):
    days = [f"{day[:4]}-{day[4:6]}-{day[6:]}" for day in DAYS]
    wanted = expected([f"P000000{number}" for number in range(1, 7)], [0.0] * 6, "t")
    degrees = Transformer.from_crs(32631, 4326, always_xy=True).transform(wanted.easting, wanted.northing)
    frame = geopandas.GeoDataFrame(
        dict(zip(days, wanted.displacement.T, strict=True)), geometry=shapely.points(*degrees), crs=4326
    )
    frame.to_file(tmp_path / "t.geojson", COORDINATE_PRECISION=12)
    with refuses("products.unstated", "heading_deg: 350.0, units: {displacement: UNIT}, positive: SIGN}"):
        read_points(tmp_path / "t.geojson")
    track = read_points(tmp_path / "t.geojson", {"*": Product(**ANGLES, **MM, **TOWARDS)})
    np.testing.assert_allclose(track.displacement, wanted.displacement)
    np.testing.assert_allclose(track.easting, wanted.easting, atol=1e-3)


def test_days_that_are_none_make_no_layout():
    places = ["geometry_longitude", "geometry_latitude"]
    (layout,) = [layout for layout in LAYOUTS if layout.only_days]
    assert is_layout(layout, [*places, "2019-01-04", "2019-01-16"])
    for others in ([], ["2019-01-04"], ["2019-01-04", "2019-13-16"], ["2019-01-04", "2019-01-16", "VEL"]):
        assert not is_layout(layout, [*places, *others])


def test_heights_and_coherence_may_be_absent_and_it_is_said(tmp_path, caplog):
    cells = rows("depsi")
    path = write(tmp_path, text(cells, [name for name in cells[0] if name not in ("pnt_height", "pnt_enscoh")]))
    with caplog.at_level("INFO", "plumbline"):
        track = read_points(path, {"*": Product(**ANGLES)})
    assert_track(track, expected(IDS, [0.0] * 6, "t"))
    assert track.coherence is None
    assert "has no heights; all points are taken to be of one height" in caplog.text


def test_a_file_of_another_place_than_the_city_is_refused_and_exchanged_coordinates_are_seen(tmp_path):
    path = write(tmp_path, text(rows("depsi")))
    with refuses("crs.outside", path, "longitude 4.911, latitude 52.345", "EPSG:32648"):
        read_points(path, {"*": Product(**ANGLES)}, crs="EPSG:32648")
    cells = [row | {"pnt_lat": row["pnt_lon"], "pnt_lon": row["pnt_lat"]} for row in rows("depsi")]
    with refuses("crs.outside", path, "EPSG:28992", "swapped?"):
        read_points(write(tmp_path, text(cells)), {"*": Product(**ANGLES)}, crs="EPSG:28992")


def test_days_written_otherwise_are_said_and_amplitudes_are_not(tmp_path, caplog):
    content = text(rows("depsi")).replace(f"d_{DAYS[1]}", f"d_{DAYS[1]}T0534")
    assert len(read_points(write(tmp_path, content), {"*": Product(**ANGLES)}).epochs) == len(DAYS) - 1
    assert warned(caplog, "epochs.unmatched_columns", "t.csv: 1 columns", "d_%Y%m%d", f"'d_{DAYS[1]}T0534'")
