from pathlib import Path

import geopandas
import pandas as pd
import pytest

from plumbline.sources.city.labels import match_footprints, no_labels, read_labels
from tests.refusals import refuses, warned, warning_keys

HEADER = "building_id,severity_permille,quadrant\n"
GOOD = "a,0.5,NE\nb,0.49999,\nc,2.25,SW\nd,0,\n"


def write(tmp_path, content: str):
    path = tmp_path / "labels.csv"
    path.write_text(content)
    return path


def test_labels_are_read_in_any_order_of_columns(tmp_path):
    labels = read_labels(write(tmp_path, HEADER + GOOD))
    columns = ["building_id", "severity_permille", "quadrant", "accepted", "mechanism", "difficulty"]
    assert list(labels) == columns
    assert labels["severity_permille"].tolist() == [0.5, 0.49999, 2.25, 0.0]
    assert labels["quadrant"].tolist() == labels["accepted"].tolist() == ["NE", "", "SW", ""]
    turned = "quadrant,note,severity_permille,building_id\nNE,x,0.5,007\n"
    assert read_labels(write(tmp_path, turned)).values.tolist() == [["007", 0.5, "NE", "NE", -1, -1]]


ALL_COLUMNS = HEADER[:-1] + ",accepted,mechanism,difficulty\n"


def test_all_right_quadrants_mechanism_and_difficulty_are_read(tmp_path):
    """An empty cell: the quadrant alone, and unknown; below category 1 nothing but the difficulty is passed on."""
    rows = (
        "a,2,NE,NE|SE,end,easy\nb,1,SW,,,\nc,0.1,NW,NW|NE,bowl,hard\nd,9,NW, NW ,several,\n"
        "e,1,SE,NE|NW|SW|SE, step , medium \nf,0,,,none,\n"
    )
    labels = read_labels(write(tmp_path, ALL_COLUMNS + rows))
    assert labels["quadrant"].tolist() == ["NE", "SW", "", "NW", "SE", ""]
    assert labels["accepted"].tolist() == ["NE|SE", "SW", "", "NW", "NE|NW|SW|SE", ""]
    assert labels["mechanism"].tolist() == [1, -1, -1, 5, 2, -1]
    assert labels["difficulty"].tolist() == [0, -1, 2, -1, 1, -1]
    assert list(no_labels().columns) == list(labels.columns)
    for table in (no_labels(), labels):
        assert table["mechanism"].dtype == table["difficulty"].dtype == "int8"


@pytest.mark.parametrize(
    ("row", "key", "place"),
    [
        ("e,2,NE,NW|SW,end,", "labels.wrong_accepted_quadrants", "accepted: 'NW|SW'"),
        ("e,2,NE,NE|N,end,", "labels.wrong_accepted_quadrants", "accepted: 'NE|N'"),
        ("e,2,,NE|SE,end,", "labels.unknown_quadrant", "quadrant: ''"),
        ("e,2,NE,NE|SE,ends,", "labels.unknown_mechanism", "mechanism: 'ends'"),
        ("e,0.5,NE,NE,none,", "labels.unknown_mechanism", "mechanism: 'none'"),
        ("e,1,NE,,,Hard", "labels.unknown_difficulty", "difficulty: 'Hard'"),
    ],
)
def test_a_bad_cell_of_the_optional_columns_is_named_by_line(tmp_path, row, key, place):
    with refuses(key, f"labels.csv, line 3, column {place}"):
        read_labels(write(tmp_path, ALL_COLUMNS + "a,2,NE,NE|SE,end,easy\n" + row + "\n"))


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_last_line_without_end_is_read_with_a_warning(tmp_path, caplog, end):
    """The decimals of a last severity, or a second accepted quadrant, may be cut off without another sign."""
    assert len(read_labels(write(tmp_path, HEADER + GOOD + "e,3,NW" + end))) == 5
    assert bool(warned(caplog, "labels.no_line_end", "labels.csv", "5 are read", "building e")) == (not end)


@pytest.mark.parametrize(
    ("row", "key", "place"),
    [
        ("e,0.6,", "labels.unknown_quadrant", ", column quadrant: ''"),
        ("e,0.1,north", "labels.unknown_quadrant", ", column quadrant: 'north'"),
        ("e,-1,NE", "labels.impossible_severity", ", column severity_permille: -1.0"),
        ("e,inf,NE", "labels.impossible_severity", ", column severity_permille: inf"),
        ("e,,NE", "labels.impossible_severity", ", column severity_permille: no value"),
        ("e,much,NE", "csv.not_a_number", ", column severity_permille: 'much'"),
        (",1,NE", "labels.empty_id", ", column building_id: ''"),
        ("a,1,NE", "labels.repeated_id", ", column building_id: 'a'"),
        ("e,1", "csv.cell_count", ": 2 cells"),
    ],
)
def test_a_bad_label_is_named_by_file_line_and_column(tmp_path, row, key, place):
    with refuses(key, f"labels.csv, line 6{place}"):
        read_labels(write(tmp_path, HEADER + GOOD + row + "\n"))


def test_quadrants_without_any_damage_are_asked_about(tmp_path, caplog):
    read_labels(write(tmp_path, HEADER + "a,0.1,\nb,0.4,\n"))
    assert not warning_keys(caplog)
    fractions = write(tmp_path, HEADER + "a,0.0001,\nb,0.0035,NE\n")
    read_labels(fractions)
    assert warned(caplog, "labels.small_severity", "of 1 buildings", "0.5 permille", "0.0035")
    with refuses("labels.small_severity", "labels.csv", "0.0035"):
        read_labels(fractions, few=True)


@pytest.mark.parametrize(("above", "asked"), [(1, True), (2, False)])
def test_percent_are_asked_about_although_the_worst_are_damage_in_permille_too(tmp_path, caplog, above, asked):
    rows = [f"b{number},{0.6 if number < above else 0.2},SW" for number in range(8)]
    labels = read_labels(write(tmp_path, HEADER + "\n".join(rows) + "\nc,0.01,\n"), few=True)
    assert bool(warned(caplog, "labels.small_severity")) == asked
    assert (labels["quadrant"] == "SW").sum() == above


def test_severities_of_another_unit_are_asked_about(tmp_path, caplog):
    read_labels(write(tmp_path, HEADER + GOOD))
    assert not warning_keys(caplog)
    assert read_labels(write(tmp_path, HEADER + GOOD + "e,450,NE\n"))["severity_permille"].max() == 450
    assert warned(caplog, "labels.large_severity", "1 severities above 30 permille", "450")


@pytest.mark.parametrize(
    ("content", "key", "place"),
    [
        ("building_id\na\n", "labels.missing_column", ", line 1: missing: severity_permille, quadrant"),
        (HEADER, "labels.none", ""),
        (None, "file.missing", ""),
    ],
)
def test_files_that_are_no_labels_are_refused(tmp_path, content, key, place):
    path = tmp_path / "labels.csv" if content is None else write(tmp_path, content)
    with refuses(key, f"labels.csv{place}"):
        read_labels(path)


FILES = Path("labels.csv"), Path("footprints.geojson")


def matched(names: list[str], there: list[str]) -> list[str]:
    labels = pd.DataFrame({"building_id": names, "severity_permille": 1.0})
    footprints = geopandas.GeoDataFrame(
        {"building_id": there}, geometry=geopandas.points_from_xy(*[range(len(there))] * 2)
    )
    return match_footprints(labels, footprints, *FILES)["building_id"].tolist()


def test_blanks_and_decimals_of_whole_numbers_are_overlooked_where_only_so_there_is_a_building():
    assert matched(["12.0", " H1 ", "-3.00", " 7.0"], ["7", "-3", "H1", "12"]) == ["12", "H1", "-3", "7"]
    assert matched(["12.0", " H1"], ["12", "12.0", "H1", " H1"]) == ["12.0", " H1"]


@pytest.mark.parametrize("name", ["0012", "12.5", "h1", "1 2", "12.0.0", ""])
def test_nothing_else_is(name):
    with refuses("labels.unknown_building", *FILES, f"1 of the labelled buildings ('{name}')"):
        matched([name, "12"], ["12", "H1"])


@pytest.mark.parametrize(
    ("names", "there", "key", "places"),
    [
        (["b", "a "], list("012345678"), "labels.unknown_building", ["('a ', 'b')", "'0', '1', '2', '3', '4', …"]),
        (["12", "12.0", "13"], ["12", "13"], "labels.repeated_building", ["'12', '12.0'"]),
    ],
)
def test_a_refusal_shows_what_the_files_call_the_buildings(names, there, key, places):
    with refuses(key, *FILES, *places):
        matched(names, there)
