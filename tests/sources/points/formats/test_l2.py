import numpy as np
import pytest

from plumbline.params import Product
from plumbline.sources.points.track import Track
from tests.refusals import refuses, warned, warning_keys
from tests.sources.make import EAST, EPOCHS, NEWER, NORTH, OLDER_L2A, rows, text
from tests.sources.points.opening import read_points

OLDER_L2B = [name for name in OLDER_L2A if name != "cluster_label"]


def read(tmp_path, content: str | bytes) -> Track:
    path = tmp_path / "t.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_points(path)


@pytest.mark.parametrize("header", [NEWER, OLDER_L2A, OLDER_L2B], ids=["newer", "older L2a", "older L2b"])
def test_both_generations_of_the_header_read_the_same(tmp_path, header):
    track = read(tmp_path, text(rows(3, header)))
    assert (track.name, track.crs) == ("t", "EPSG:3035")
    assert track.point_id.tolist() == ["1aX000", "1aX001", "1aX002"]
    assert track.epochs.astype(str).tolist() == ["2020-01-03", "2020-01-09", "2020-01-21", "2020-02-02"]
    np.testing.assert_array_equal(track.easting, EAST + np.array([0, 10, 20]))
    np.testing.assert_array_equal(track.northing, NORTH + np.array([0, 10, 20]))
    np.testing.assert_array_equal(track.height, [0.5, 1.5, 2.5])
    np.testing.assert_array_equal(track.los, [[0.594, -0.12, 0.795]] * 3)
    np.testing.assert_array_equal(track.displacement[2], np.array([2.0, -2.1, 2.2, -2.3], np.float32))
    assert track.displacement.dtype == np.float32
    np.testing.assert_array_equal(track.coherence, np.array([0.5, 0.55, 0.6], np.float32))


def test_points_of_one_pid_at_other_places_are_numbered_and_none_is_lost(tmp_path, caplog):
    cells = rows()
    cells[1]["pid"] = ""
    assert read(tmp_path, text(cells)).point_id[1] == "P0000002"
    moved = {**cells[2], "easting": f"{EAST + 99:.2f}"}
    track = read(tmp_path, text([*cells, moved, cells[2]]))
    assert track.point_id.tolist() == [f"P{number:07d}" for number in range(1, len(cells) + 2)]
    assert dict(track.dropped) == {"duplicate_id": 1}
    assert len(warned(caplog, "points.renumbered", "t.csv")) == 1


@pytest.mark.parametrize(
    ("column", "cell", "key", "places"),
    [
        ("easting", "", "points.out_of_range", ["no value", "500000 to 8.5e"]),
        ("temporal_coherence", "1.5", "points.out_of_range", ["1.5", "0 to 1"]),
        ("los_east", "0.1", "sight.not_a_unit_vector", ["los_east, los_north, los_up", "length 0.810"]),
        ("los_up", "-0.795", "sight.not_up", ["-0.795"]),
        (EPOCHS[1], "n.a.", "csv.not_a_number", ["'n.a.'"]),
        ("rmse_ts", "2021", "points.out_of_range", ["2021", "0 to 500"]),
        (EPOCHS[3], "-1e39", "points.impossible_displacement", ["-inf mm", "100000 mm"]),
    ],
)
def test_a_bad_cell_is_named_by_file_line_and_column(tmp_path, column, cell, key, places):
    cells = rows()
    cells[3][column] = cell
    with refuses(key, f"t.csv, line 5, column {column}", *places):
        read(tmp_path, text(cells))


@pytest.mark.parametrize(("height", "coherence"), [("", "nan"), ("-999", "-9999"), ("9999.0", "")])
def test_a_point_without_a_height_is_left_out_and_one_without_a_coherence_stays(tmp_path, caplog, height, coherence):
    cells = rows()
    cells[3]["height_ortho"], cells[1]["temporal_coherence"] = height, coherence
    track = read(tmp_path, text(cells))
    assert track.point_id.tolist() == [row["pid"] for row in cells if row is not cells[3]]
    assert np.isnan(track.coherence).tolist() == [number == 1 for number in range(len(track))]
    assert dict(track.dropped) == {"no_height": 1}
    assert warned(caplog, "points.left_out", "t.csv: 1 points", "height")
    with refuses("points.all_left_out", "t.csv", "height"):
        read(tmp_path, text([{**row, "height_ortho": ""} for row in cells]))


@pytest.mark.parametrize("name", ["{}_x", "D{}"])
def test_columns_that_look_like_days_and_are_not_read_are_said(tmp_path, caplog, name):
    """As two releases that were joined have them: a third of the epochs would be missing without a word."""
    content = text(rows(6))
    read(tmp_path, content)
    assert not warning_keys(caplog)
    read(tmp_path, content.replace(EPOCHS[1], name.format(EPOCHS[1])))
    assert warned(caplog, "epochs.unmatched_columns", "t.csv: 1 columns", "%Y%m%d", repr(name.format(EPOCHS[1])))


def test_missing_is_of_every_column_that_may_be_empty_and_the_refusal_names_it(tmp_path):
    """Height, coherence and root mean square error, each with a code of somebody's own."""
    cells = rows()
    for row, column in enumerate(("height_ortho", "temporal_coherence", "rmse_ts")):
        cells[row][column] = "-7777"
    path = tmp_path / "a.csv"
    path.write_text(text(cells))
    with refuses("points.out_of_range", "line 2, column height_ortho: -7777 ", "missing: [-7777]"):
        read_points(path)
    track = read_points(path, {"*": Product(missing=[-7777])})
    assert track.dropped["no_height"] == 1
    assert np.isnan(track.coherence).sum() == np.isnan(track.rmse).sum() == 1


def test_a_point_without_a_line_of_sight_is_left_out_where_its_code_is_stated(tmp_path, caplog):
    cells, path = rows(6), tmp_path / "a.csv"
    cells[1]["los_east"] = cells[4]["los_up"] = "-9999"
    path.write_text(text(cells))
    with refuses("points.out_of_range", "column los_east: -9999 ", "missing: [-9999]"):
        read_points(path)
    track = read_points(path, {"*": Product(missing=[-9999])})
    assert [name[-1] for name in track.point_id] == ["0", "2", "3", "5"]
    assert warned(caplog, "points.left_out", "a.csv: 2 points", "line of sight")
    cells[3]["los_north"] = "7"
    path.write_text(text(cells))
    with refuses("points.out_of_range", "line 5, column los_north: 7 "):
        read_points(path, {"*": Product(missing=[-9999])})


@pytest.mark.parametrize(
    ("missing", "key", "places"),
    [
        (["height_ortho"], "egms.no_heights", ["column height_ortho", "without height"]),
        (["los_up", "pid"], "csv.missing_column", ["column pid, los_up"]),
        (EPOCHS[1:], "epochs.too_few", ["1 epochs"]),
    ],
)
def test_columns_that_are_missing_are_named_with_what_to_do(tmp_path, missing, key, places):
    cells = rows()
    with refuses(key, "t.csv", *places):
        read(tmp_path, text(cells, [name for name in cells[0] if name not in missing]))
