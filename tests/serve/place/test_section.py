"""What lies along a line: points within reach, buildings that it crosses, a field; as a table and a picture."""

from xml.etree import ElementTree

import geopandas
import numpy as np
import pandas as pd
import pytest
import rasterio
import shapely
from rasterio.transform import from_origin

from plumbline.serve.place.section import cross_section, cut, draw_section, read_line
from plumbline.serve.predictions import write_predictions
from tests.refusals import refuses
from tests.serve.place.test_moving_areas import PLACE, SUNK, YEARS, track
from tests.serve.test_predictions import predictions

CRS = "EPSG:25832"
EAST, NORTH = 500_000, 5_000_000
LINE = shapely.LineString([(EAST + 0, NORTH + 205), (EAST + 400, NORTH + 205)])


@pytest.fixture
def judged():
    table = predictions(["a", "b"], ["ok", "out_of_distribution"])
    boxes = [shapely.box(EAST + x, NORTH + 195, EAST + x + 10, NORTH + 215) for x in (180, 300)]
    return table.set_geometry(geopandas.GeoSeries(boxes, crs=CRS))


@pytest.fixture
def field(tmp_path):
    """10 m cells whose value is the distance east of the line's beginning."""
    values = np.tile(np.arange(5.0, 405.0, 10.0), (10, 1)).astype(np.float32)
    grid = {"crs": CRS, "transform": from_origin(EAST, NORTH + 255, 10, 10), "nodata": float("nan")}
    path = tmp_path / "field.tif"
    with rasterio.open(path, "w", driver="GTiff", height=10, width=40, count=2, dtype="float32", **grid) as target:
        target.write(np.stack([values, np.full_like(values, 2.0)]))
        for number, name in enumerate(("up_mm", "up_std_mm"), 1):
            target.set_band_description(number, name)
    return path


def test_points_have_their_place_along_and_across_the_line():
    found = cross_section(LINE, [track(-9.0 * SUNK, noise_mm=0.0)], 6)
    near = np.flatnonzero((np.abs(PLACE[:, 1] - 205) <= 6) & (PLACE[:, 0] <= 400))
    np.testing.assert_allclose(found["along_m"], PLACE[near, 0])
    np.testing.assert_allclose(found["across_m"], PLACE[near, 1] - 205)  # left of a line to the east is north
    np.testing.assert_allclose(found["rate_mm_year"], -9.0 * SUNK[near], atol=1e-4)
    np.testing.assert_allclose(found["displacement_mm"], -9.0 * SUNK[near] * YEARS[-1], atol=1e-3)


def test_buildings_and_the_field_stand_where_the_line_crosses_them(judged, field):
    found = cross_section(LINE, [track(0.0 * SUNK)], 6, judged, field)
    crossed = found[found["kind"] == "building"]
    assert crossed[["name", "along_m", "along_end_m"]].to_numpy().tolist() == [["a", 180, 190], ["b", 300, 310]]
    assert crossed["severity_permille"].isna().tolist() == [False, True]
    read = found[found["kind"] == "field"]
    np.testing.assert_allclose(read["displacement_mm"], read["along_m"], atol=5.01)
    assert set(read["std_mm"]) == {2.0}
    drawing = ElementTree.fromstring(draw_section(found, LINE, "a < b"))
    titles = [one.text for one in drawing.iter("{http://www.w3.org/2000/svg}title")]
    assert titles[0].startswith("a ")
    assert titles[1] == "b not judged"
    assert len(list(drawing.iter("{http://www.w3.org/2000/svg}circle"))) == (found["kind"] == "point").sum() + 1


def test_a_line_is_read_from_coordinates_or_a_file(tmp_path):
    typed = read_line("9.0,45.15 9.003,45.15", CRS)
    path = tmp_path / "line.geojson"
    geopandas.GeoDataFrame(geometry=[typed], crs=CRS).to_crs("EPSG:4326").to_file(path)
    assert read_line(str(path), CRS).equals_exact(typed, 0.01)
    assert typed.length == pytest.approx(236, abs=1)


@pytest.mark.parametrize(
    ("given", "key"),
    [
        *((text, "line.not_coordinates") for text in ("nowhere.geojson", "9.0,45.1", "9.0,145.1 9,46")),
        ("9.0,45.1 9.0,45.1", "line.in_pieces"),
    ],
)
def test_what_is_no_line_is_refused(given, key):
    with refuses(key, f"--line {given}"):
        read_line(given, CRS)


def test_a_line_elsewhere_and_wrong_outputs_are_refused(tmp_path, judged):
    with refuses("line.no_point", "6 m", "--within"):
        cross_section(shapely.transform(LINE, lambda at: at + 5000), [track(0.0 * SUNK)], 6)
    with refuses("output.other_format", "a.xlsx", ".csv"):
        cut("1,1 2,2", [], tmp_path / "a.xlsx", within_m=5)
    write_predictions(judged, tmp_path / "p.csv")
    with refuses("predictions.no_crs", "p.csv"):
        cut("1,1 2,2", [], tmp_path / "a.csv", predictions=tmp_path / "p.csv", within_m=5)


def test_a_table_and_a_picture_are_written(tmp_path, city):
    west, south, east, north = geopandas.read_file(city.footprints).to_crs("EPSG:4326").total_bounds
    line = f"{west},{south} {east},{north}"
    found = cut(line, city.products(), tmp_path / "s.csv", picture=tmp_path / "s.svg", within_m=50)
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "s.csv", dtype={"name": str}), found, check_dtype=False)
    ElementTree.parse(tmp_path / "s.svg")
