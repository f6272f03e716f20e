"""Days in the names of columns, however a program writes them."""

import geopandas
import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from plumbline.sources.points.epochs import average_same_days, check_pattern, find_days, same_day_notes
from tests.refusals import refuses
from tests.sources.make import text
from tests.sources.points.opening import open_points, read_points
from tests.sources.points.write_columns import described, rows
from tests.sources.points.write_points import DAYS

SATELLITES = st.dates(min_value=np.datetime64("1991-01-01").item(), max_value=np.datetime64("2099-12-31").item())


def write(tmp_path, content):
    (tmp_path / "c.csv").write_text(content, encoding="utf-8")
    return tmp_path / "c.csv"


def days(pattern, *names):
    return [str(day) for day in find_days("f", list(names), check_pattern("f", pattern)).values()]


@pytest.mark.parametrize(
    ("pattern", "name", "day"),
    [
        ("%Y-%m-%dT%H:%M:%S%z", "2019-01-04T05:34:11Z", "2019-01-04"),
        ("%Y-%m-%dT%H:%M:%S%z", "2019-01-04T23:34:11-0500", "2019-01-05"),
        ("%Y-%m-%dT%H:%M:%S.%f", "2019-01-04T05:34:11.000000000", "2019-01-04"),
        ("%Y-%m-%d %H:%M:%S", "2019-01-04 05:34:11", "2019-01-04"),
        ("D", "D20190104", "2019-01-04"),
        ("%Y%j", "2019004", "2019-01-04"),
        ("disp_%Y.%j", "disp_2019.004", "2019-01-04"),
        ("%Y{day0}", "2019003", "2019-01-04"),
        ("%Y{day0}", "2019000", "2019-01-01"),
        ("disp_%Y.{day0}", "disp_2020.365", "2020-12-31"),
        ("X{decimal_year}", "X2019.0082", "2019-01-04"),
        ("{days_since 2019-01-04}", "12", "2019-01-16"),
        ("{days_since 2019-01-04}", "-1", "2019-01-03"),
        ("{days_since 1899-12-30}", "43469", "2019-01-04"),
        ("{days_since 1858-11-17}", "58487", "2019-01-04"),
        ("T%d%b%y", "T04Jan19", "2019-01-04"),
        ("%d/%m/%Y", "3/1/2020", "2020-01-03"),
        ("%d%b%Y", "03JAN2020", "2020-01-03"),
        ("D%Y%m%d", "d20200103", "2020-01-03"),
        ("%Y%m%d", "2020113", None),
        ("%Y%m%d", "202001030", None),
        ("%Y{day0}", "D2019003", None),
        ("X{decimal_year}", "X_2019.1", None),
    ],
)
def test_a_day_is_read_as_its_pattern_writes_it(pattern, name, day):
    assert days(pattern, name) == ([day] if day else [])


@given(SATELLITES, st.sampled_from([365.0, 365.25, None]))
def test_a_decimal_year_of_four_places_is_the_day_whatever_the_length_of_its_year(day, length):
    first = day.replace(month=1, day=1)
    whole = length or (day.replace(month=12, day=31) - first).days + 1
    if (day - first).days < whole - 1:
        found = days("{decimal_year}", f"{day.year + (day - first).days / whole:.4f}")
        assert abs(np.datetime64(found[0]) - np.datetime64(day)) <= np.timedelta64(0 if length is None else 1)


@pytest.mark.parametrize(
    "pattern", ["{day0}", "%m{day0}", "{days_since 2019-02-30}", "{days_since}", "{year}", "%Y{decimal_year}"]
)
def test_a_word_that_says_no_day_is_refused(pattern):
    with refuses("epochs.no_day_in_pattern", "f: ", repr(pattern)):
        check_pattern("f", pattern)


@pytest.mark.parametrize(
    ("pattern", "name", "key"),
    [
        ("%Y{day0}", "2019365", "epochs.impossible_day"),
        ("{days_since 2019-01-04}", "99999999", "epochs.impossible_day"),
        ("{days_since 1858-11-17}", "12", "epochs.impossible_year"),
    ],
)
def test_a_day_that_cannot_be_is_refused(pattern, name, key):
    with refuses(key, name):
        days(pattern, name)


def test_epochs_of_one_day_are_averaged_and_it_is_said(tmp_path):
    first, second = f"D{DAYS[1]}", f"D{DAYS[1]}_b"
    cells = [{**row, second: f"{float(row[first]) + 0.2:g}"} for row in rows()]
    cells[2][second] = ""
    plain = read_points(write(tmp_path, text(rows())), {"*": described()})
    stamps = {name: f"{name[1:5]}-{name[5:7]}-{name[7:9]}T05:34:{'38' if '_' in name else '11'}Z" for name in cells[0]}
    cells = [{stamps[name] if name.startswith("D2") else name: cell for name, cell in row.items()} for row in cells]
    source = open_points(write(tmp_path, text(cells)), {"*": described(epochs="%Y-%m-%dT%H:%M:%S%z")})
    (track,) = source.blocks()
    wanted = plain.displacement.copy()
    wanted[[0, 1, 3, 4, 5], 1] -= 1  # half of 0.2 cm, away from the satellite
    np.testing.assert_allclose(track.displacement, wanted, atol=1e-5)
    assert track.epochs.tolist() == plain.epochs.tolist()
    said = "2016-04-07T05:34:11Z and 2016-04-07T05:34:38Z are of one day (bursts or passes), and are averaged"
    assert said in source.notes


@given(st.lists(st.integers(0, 4), min_size=2, max_size=9), st.integers(0, 2**31))
def test_an_average_is_that_of_what_there_is(numbers, seed):
    stamps = np.sort(np.datetime64("2019-01-01") + np.array(numbers))
    values = np.random.default_rng(seed).normal(size=(3, len(stamps))).astype(np.float32)
    values[0, 0] = np.nan
    found = average_same_days(values, stamps)
    for index, day in enumerate(np.unique(stamps)):
        same = values[:, stamps == day]
        known = np.isfinite(same).any(axis=1)
        np.testing.assert_allclose(found[known, index], np.nanmean(same[known], axis=1), rtol=1e-5, atol=1e-6)
        assert np.isnan(found[~known, index]).all()
    np.testing.assert_array_equal(average_same_days(values.T.copy(), stamps, axis=0).T, found)
    assert bool(same_day_notes([str(n) for n in range(len(stamps))], stamps)) == (len(np.unique(stamps)) < len(stamps))


@pytest.mark.filterwarnings("ignore:Column names longer", "ignore:Normalized/laundered")
def test_a_shapefile_that_lost_its_days_says_so(tmp_path):
    table = {"CODE": list("abc"), **{f"displ_{day}": [1.0, 2.0, 3.0] for day in DAYS}}
    points = shapely.points([[4.91, 52.34], [4.92, 52.34], [4.93, 52.34]])
    geopandas.GeoDataFrame(table, geometry=points, crs=4326).to_file(tmp_path / "t.shp")
    places = {"latitude": "geometry_latitude", "longitude": "geometry_longitude", "point_id": "CODE"}
    about = {"*": described(columns=places, epochs="displ_%Y%m%d")}
    for products, key in (({}, "points.unknown_format"), (about, "epochs.too_few")):
        with refuses(key, "t.shp", "A Shapefile cuts names"):
            read_points(tmp_path / "t.shp", products)
