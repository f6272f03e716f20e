from pathlib import Path

import numpy as np
import pytest
import yaml
from pyproj import Transformer

from plumbline.params import parse_params
from tests.refusals import refuses, warned
from tests.sources.make import text
from tests.sources.points.opening import product_parts, read_points
from tests.sources.points.write_columns import ABOUT, COLUMNS, IDS, described, rows
from tests.sources.points.write_points import assert_track, expected

HEIGHTS = [number + 0.5 for number in range(6)]
PARAMS = yaml.safe_load((Path(__file__).parents[3] / "params.yaml").read_text(encoding="utf-8"))


def write(tmp_path, content: str):
    (tmp_path / "c.txt").write_text(content, encoding="utf-8")
    return tmp_path / "c.txt"


def test_a_table_comes_back_by_its_description(tmp_path):
    track = read_points(write(tmp_path, text(rows())), {"*.txt": described()})
    assert_track(track, expected(IDS, HEIGHTS, "c"))
    np.testing.assert_allclose(track.coherence, np.arange(6) / 10, atol=1e-7)


def test_a_decimal_comma_is_read_stated_or_not_and_refused_where_a_point_is_stated(tmp_path):
    path = write(tmp_path, text(rows()).replace(",", ";").replace(".", ","))
    for stated in ({"separator": ";", "decimal": ","}, {"separator": ";"}, {}):
        assert_track(read_points(path, {"*": described(**stated)}), expected(IDS, HEIGHTS, "c"))
    with refuses("csv.not_a_number", "c.txt, line 2, column Lon", "'4,91100000'"):
        read_points(path, {"*": described(separator=";", decimal=".")})


def test_points_without_names_are_numbered_and_read_in_one_part(tmp_path, monkeypatch):
    about = described(columns={name: column for name, column in COLUMNS.items() if name != "point_id"})
    path = write(tmp_path, text(rows()))
    assert read_points(path, {"*": about}).point_id.tolist() == [f"P000000{number}" for number in range(1, 7)]
    monkeypatch.setattr("plumbline.sources.points.read.PART_BYTES", 100)
    assert product_parts(path, {"*": about}) == [(0, None)]
    assert len(product_parts(path, {"*": described()})) > 3


def test_an_empty_cell_of_a_vector_is_refused(tmp_path):
    table = [row | {"e": "0.6", "n": "0", "u": "0.8"} for row in rows()]
    table[2]["e"] = ""
    columns = COLUMNS | {"los_east": "e", "los_north": "n", "los_up": "u"}
    about = described(columns=columns, incidence_deg=None, heading_deg=None)
    with refuses("points.out_of_range", "c.txt, line 4, column e", "no value"):
        read_points(write(tmp_path, text(table)), {"*": about})


def test_errors_of_the_fit_come_in_mm_and_may_be_missing(tmp_path):
    table = [row | {"E": cell} for row, cell in zip(rows(), ["0.31", "", "nan", "1", "-9999", "0"], strict=True)]
    about = described(columns=COLUMNS | {"rmse": "E"})
    track = read_points(write(tmp_path, text(table)), {"*": about})
    np.testing.assert_allclose(track.rmse, [3.1, np.nan, np.nan, 10, np.nan, 0], rtol=1e-6)
    table[4]["E"] = "-1"
    with refuses("points.out_of_range", "line 6, column E: -1 "):
        read_points(write(tmp_path, text(table)), {"*": about})


@pytest.mark.parametrize(
    ("changes", "key", "place"),
    [
        ({"units": None}, "columns.fact_missing", "units"),
        ({"units": {"displacement": "inch"}}, "params.bad_value", "units.displacement: 'inch'"),
        ({"units": {}}, "params.missing_key", "units.displacement"),
        ({"positive": None}, "columns.fact_missing", "positive"),
        ({"epochs": None}, "columns.fact_missing", "epochs"),
        ({"columns": COLUMNS | {"colour": "C"}}, "params.bad_value", "colour"),
        ({"columns": COLUMNS | {"height": "Lat"}}, "columns.used_twice", ""),
        ({"columns": {"latitude": "Lat"}}, "columns.no_coordinates", ""),
        ({"columns": COLUMNS | {"easting": "E", "northing": "N"}}, "columns.no_coordinates", ""),
        ({"columns": {"easting": "E", "northing": "N"}}, "columns.no_crs", "crs"),
        ({"incidence_deg": None}, "sight.not_given_once", "incidence_deg"),
        ({"columns": COLUMNS | {"incidence": "I"}}, "sight.not_given_once", ""),
        ({"columns": COLUMNS | {"incidence": "I"}, "incidence_deg": None}, "columns.no_angle_unit", "units.angle"),
        (
            {"columns": COLUMNS | {"los_up": "U"}, "incidence_deg": None, "heading_deg": None},
            "sight.not_given_once",
            "",
        ),
        ({"incidence_deg": 95}, "incidence.out_of_range", "95"),
        ({"incidence_deg": 0.672}, "incidence.out_of_range", "radians?"),  # as degrees, they would look straight down
        ({"decimal": ",", "separator": ","}, "columns.separator_is_decimal", ""),
        ({"columns": None, "format": "columns"}, "columns.missing", ""),
        ({"columns": None, "heading_deg": None}, "sight.half_given", ""),
        ({"format": "egsm"}, "params.bad_value", "format: 'egsm'"),
    ],
)
def test_a_description_that_leaves_something_to_guess_is_refused(changes, key, place):
    about = {name: value for name, value in (ABOUT | changes).items() if value is not None}
    with refuses(key, "*.txt", place):
        parse_params(PARAMS | {"ingest": {"products": {"*.txt": about}}})


@pytest.mark.parametrize(
    ("changes", "key", "places"),
    [
        ({"columns": COLUMNS | {"height": "h"}}, "csv.missing_column", ["column h ", "CODE, Lat"]),
        ({"epochs": "X%Y%m%d"}, "epochs.too_few", ["0 epochs", "X%Y%m%d", "'D20160327', 'D20160407'"]),
        ({"separator": ";"}, "csv.missing_separator", ["line 1", "';'", "'CODE,Lat"]),
        ({"crs": "EPSG:32631"}, "products.other_crs_kind", ["EPSG:32631", "latitude and longitude"]),
        ({"crs": "here"}, "crs.unknown", ["'here'"]),
        ({"epochs": "%Y%m"}, "epochs.no_day_in_pattern", ["epochs: '%Y%m'"]),
        ({"epochs": "%y%m%d%%%"}, "epochs.no_day_in_pattern", ["epochs: '%y%m%d%%%'"]),
        ({"crs": "EPSG:4978"}, "crs.not_metric", ["EPSG:4978"]),
    ],
)
def test_a_description_that_does_not_fit_the_file_is_refused(tmp_path, changes, key, places):
    with refuses(key, "c.txt", *places):
        read_points(write(tmp_path, text(rows())), {"*": described(**changes)})


@pytest.mark.parametrize(
    ("cell", "separator", "decimal"),
    [("1.001", ";", ","), ("1.001,5", ";", ","), ("1,001", "\t", "."), ("1,001.5", "\t", "."), ('"0,5"', ",", ".")],
)
def test_thousands_that_stand_apart_are_never_taken_for_decimals(tmp_path, cell, separator, decimal):
    """A height of 1001 m that is read as 1.001 m among others of 998 m moves its points and says nothing."""
    cells = rows()
    lines = [separator.join(row.values()).replace(".", decimal) for row in cells]
    lines[2] = lines[2].replace(f"{separator}2{decimal}5{separator}", f"{separator}{cell}{separator}", 1)
    assert cell in lines[2]
    path = write(tmp_path, "\n".join([separator.join(cells[0]), *lines]) + "\n")
    with refuses("csv.not_a_number", "c.txt, line 4, column H", cell.strip('"')) as caught:
        read_points(path, {"*": described()})
    assert ("state decimal: ','" in str(caught.value)) == (cell == "1,001")


@pytest.mark.parametrize("code", ["EPSG:2278", "EPSG:2222", "EPSG:3857", "EPSG:4647"])
def test_points_in_feet_and_in_web_mercator_come_in_metres_of_utm(tmp_path, code):
    """US survey feet, international feet, metres that are none on the ground, and eastings with their zone in front."""
    zone = "EPSG:32632" if code == "EPSG:4647" else "EPSG:32615"
    to_file = Transformer.from_crs(zone, code, always_xy=True)
    x, y = to_file.transform(271_000 + np.arange(6) * 10.0, np.full(6, 3_290_000.0))
    cells = [row | {"Lon": f"{x[at]:.4f}", "Lat": f"{y[at]:.4f}"} for at, row in enumerate(rows())]
    columns = {name: column for name, column in COLUMNS.items() if name not in ("latitude", "longitude")}
    about = described(columns=columns | {"easting": "Lon", "northing": "Lat"}, crs=code)
    track = read_points(write(tmp_path, text(cells)), {"*": about}, crs=zone if code == "EPSG:4647" else None)
    assert track.crs == zone
    np.testing.assert_allclose(track.easting, 271_000 + np.arange(6) * 10.0, atol=2e-3)
    np.testing.assert_allclose(track.northing, 3_290_000, atol=2e-3)


@pytest.mark.parametrize(
    ("code", "x", "y"),
    [("EPSG:25832", 32_690_000, 5_340_000), ("EPSG:4647", 690_000, 5_340_000), ("EPSG:3857", 30_000_000, 6_000_000)],
)
def test_a_place_beyond_half_the_earth_from_the_middle_of_its_crs_is_refused(tmp_path, code, x, y):
    columns = {name: column for name, column in COLUMNS.items() if name not in ("latitude", "longitude")}
    about = described(columns=columns | {"easting": "Lon", "northing": "Lat"}, crs=code)
    cells = [row | {"Lon": f"{x}", "Lat": f"{y}"} for row in rows()]
    with refuses("points.out_of_range", f"c.txt, line 2, column Lon: {x} "):
        read_points(write(tmp_path, text(cells)), {"*": about})


def test_a_stated_code_in_a_column_of_angles_leaves_its_points_out(tmp_path, caplog):
    cells = [row | {"INC": "-77" if number in (1, 4) else "38"} for number, row in enumerate(rows())]
    columns, units = COLUMNS | {"incidence": "INC"}, {"displacement": "cm", "angle": "deg"}
    about = described(columns=columns, incidence_deg=None, units=units, missing=[-77, -78])
    track = read_points(write(tmp_path, text(cells)), {"*": about})
    assert track.point_id.tolist() == [IDS[number] for number in (0, 2, 3, 5)]
    assert warned(caplog, "points.left_out", "c.txt: 2 points", "line of sight")
    assert track.los[:, 2] == pytest.approx(np.cos(np.radians(38)))
    cells[3]["INC"] = "99"
    with refuses("points.out_of_range", "line 5, column INC: 99 ", "1 to 89"):
        read_points(write(tmp_path, text(cells)), {"*": about})
    cells = [row | {"INC": "-77"} for row in rows()]
    with refuses("points.all_left_out", "c.txt", "line of sight"):
        read_points(write(tmp_path, text(cells)), {"*": about})


def test_points_in_a_datum_known_to_metres_are_warned_of(tmp_path, caplog):
    table = [row | {"Lat": f"52.60{number}", "Lon": "-1.3"} for number, row in enumerate(rows())]
    table[0] |= {"Lat": "51.5", "Lon": "3"}  # in the sea, where no grid is
    read_points(write(tmp_path, text(table)), {"*": described(crs="EPSG:4277")})
    assert len(warned(caplog, "crs.approximate_datum", "c.txt", "OSGB36", "uk_os_OSTN15")) == 1
