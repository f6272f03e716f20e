import pytest

from plumbline.params import Product
from tests.refusals import refuses
from tests.sources.make import text
from tests.sources.points.opening import read_points
from tests.sources.points.write_points import ANGLES, DAYS, assert_track, expected
from tests.sources.points.write_stamps import HEADER, IDS, rows

PRODUCTS = {"*": Product(**ANGLES)}


def write(tmp_path, content: str):
    (tmp_path / "s.csv").write_text(content, encoding="utf-8")
    return tmp_path / "s.csv"


def test_a_file_comes_back_without_its_row_of_metadata(tmp_path):
    track = read_points(write(tmp_path, text(rows())), PRODUCTS)
    assert_track(track, expected(IDS, [0.0] * 6, "s"))
    assert track.coherence is None


def test_columns_are_told_by_their_numbers_wherever_they_stand_whatever_the_matrix_is_called(tmp_path):
    content = text(rows(), HEADER[::-1]).replace("export_res_", "ts_")
    assert_track(read_points(write(tmp_path, content), PRODUCTS), expected(IDS, [0.0] * 6, "s"))


@pytest.mark.parametrize(
    ("index", "cell", "key"),
    [
        (2, "1.5", "stamps.no_metadata"),
        (4, "", "stamps.not_a_day"),
        (4, "736000.5", "stamps.not_a_day"),
        (4, "20160327", "stamps.not_a_day"),
    ],
)
def test_metadata_that_is_none_is_named(tmp_path, index, cell, key):
    cells = rows()
    cells[0][HEADER[index]] = cell
    cells[0][HEADER[3]] = "736050"
    with refuses(key, f"s.csv, line 2, column export_res_ {index + 1}: {cell or 'no value'} "):
        read_points(write(tmp_path, text(cells)), PRODUCTS)


def test_metadata_alone_and_angles_unstated_are_refused(tmp_path):
    with refuses("points.none", "s.csv"):
        read_points(write(tmp_path, text(rows()[:1])), PRODUCTS)
    with refuses("products.unstated", "s.csv", "incidence_deg", "heading_deg"):
        read_points(write(tmp_path, text(rows())))


def test_columns_without_a_gap_are_needed(tmp_path):
    path = write(tmp_path, text(rows(), [name for name in HEADER if name != HEADER[4]]))
    with refuses("points.unknown_format", path):
        read_points(path, PRODUCTS)
    with refuses("products.other_format", path, "stamps"):
        read_points(path, PRODUCTS, format="stamps")


def test_the_day_numbers_are_one_less_than_matlab_s(tmp_path):
    # MATLAB: datenum(2016, 3, 27) = 736416, and the export script writes 736415.
    assert rows()[0][HEADER[3]] == "736415"
    assert str(read_points(write(tmp_path, text(rows())), PRODUCTS).epochs[0]).replace("-", "") == DAYS[0]
