import pytest

from plumbline.core.errors import InputError
from plumbline.params import Product
from plumbline.sources.points.read import read_points
from tests.sources.make import text
from tests.sources.points.formats.write_layouts import IDS
from tests.sources.points.formats.write_layouts import rows as layout_rows
from tests.sources.points.write_points import ANGLES, DAYS, assert_track, expected

PRODUCTS = {"*.csv": Product(**ANGLES)}


def rows():
    return layout_rows("depsi")


def write(tmp_path, content: str):
    (tmp_path / "d.csv").write_text(content, encoding="utf-8")
    return tmp_path / "d.csv"


def test_heights_and_coherence_may_be_absent_and_it_is_said(tmp_path, caplog):
    path = write(tmp_path, text(rows(), [name for name in rows()[0] if name not in ("pnt_height", "pnt_enscoh")]))
    with caplog.at_level("INFO", "plumbline"):
        track = read_points(path, PRODUCTS)
    assert_track(track, expected(IDS, [0.0] * 6, "d"))
    assert track.coherence is None
    assert "has no heights; all points are taken to be of one height" in caplog.text


def test_a_file_of_another_place_than_the_city_is_refused(tmp_path):
    path = write(tmp_path, text(rows()))
    with pytest.raises(InputError, match=r"longitude 4\.911, latitude 52\.345, outside of EPSG:32648"):
        read_points(path, PRODUCTS, crs="EPSG:32648")


def test_latitude_and_longitude_in_each_other_s_columns_are_seen_where_the_city_is_known(tmp_path):
    cells = [row | {"pnt_lat": row["pnt_lon"], "pnt_lon": row["pnt_lat"]} for row in rows()]
    with pytest.raises(InputError, match=r"outside of EPSG:28992.*Are latitude and longitude swapped\?"):
        read_points(write(tmp_path, text(cells)), PRODUCTS, crs="EPSG:28992")


def test_days_written_otherwise_are_said_and_amplitudes_are_not(tmp_path, caplog):
    content = text(rows()).replace(f"d_{DAYS[1]}", f"d_{DAYS[1]}T0534")
    track = read_points(write(tmp_path, content), PRODUCTS)
    assert len(track.epochs) == len(DAYS) - 1
    assert (
        f"1 columns look like days, but are not named as d_%Y%m%d and are left out: 'd_{DAYS[1]}T0534'" in caplog.text
    )
