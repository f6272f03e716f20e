import numpy as np
import pytest

from plumbline.core.errors import InputError
from plumbline.params import Product
from plumbline.sources.points.read import read_points
from tests.sources.make import text
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


def test_points_of_one_place_are_all_kept(tmp_path):
    cells = rows()
    track = read_points(write(tmp_path, text([*cells, cells[-1]])), PRODUCTS)
    assert len(track) == 7
    np.testing.assert_array_equal(track.displacement[5], track.displacement[6])
    assert len(set(track.point_id)) == 7


@pytest.mark.parametrize(
    ("index", "cell", "message"),
    [
        (2, "1.5", r"line 2, column export_res_ 3: 1\.5 found, the first row must be StaMPS's metadata"),
        (4, "", r"line 2, column export_res_ 5: no value found, a day number of MATLAB"),
        (4, "736000.5", r"line 2, column export_res_ 5: 736000\.5 found, a day number"),
        (4, "20160327", r"line 2, column export_res_ 5: 20160327 found, a day number"),
    ],
)
def test_metadata_that_is_none_is_named(tmp_path, index, cell, message):
    cells = rows()
    cells[0][HEADER[index]] = cell
    cells[0][HEADER[3]] = "736050"
    with pytest.raises(InputError, match=rf"s\.csv[,:] {message}"):
        read_points(write(tmp_path, text(cells)), PRODUCTS)


def test_metadata_alone_and_angles_unstated_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"s\.csv: it holds no points"):
        read_points(write(tmp_path, text(rows()[:1])), PRODUCTS)
    with pytest.raises(InputError, match="does not say from where the satellite looked"):
        read_points(write(tmp_path, text(rows())))


def test_columns_without_a_gap_are_needed(tmp_path):
    path = write(tmp_path, text(rows(), [name for name in HEADER if name != HEADER[4]]))
    with pytest.raises(InputError, match=r"s\.csv: unknown format"):
        read_points(path, PRODUCTS)
    with pytest.raises(InputError, match=r"s\.csv: not of format stamps"):
        read_points(path, PRODUCTS, format="stamps")


def test_the_day_numbers_are_one_less_than_matlab_s(tmp_path):
    # MATLAB: datenum(2016, 3, 27) = 736416, and the export script writes 736415.
    assert rows()[0][HEADER[3]] == "736415"
    assert str(read_points(write(tmp_path, text(rows())), PRODUCTS).epochs[0]).replace("-", "") == DAYS[0]
