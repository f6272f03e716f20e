from pathlib import Path

import geopandas
import pandas as pd
import pytest

from plumbline.core.errors import InputError
from plumbline.sources.city.labels import match_footprints, no_labels, read_labels

HEADER = "building_id,severity_permille,quadrant\n"
GOOD = "a,0.5,NE\nb,0.49999,\nc,2.25,SW\nd,0,\n"


def write(tmp_path, content: str):
    path = tmp_path / "labels.csv"
    path.write_text(content)
    return path


def test_labels_are_read_in_any_order_of_columns(tmp_path):
    labels = read_labels(write(tmp_path, HEADER + GOOD))
    assert labels.to_dict("list") == {
        "building_id": ["a", "b", "c", "d"],
        "severity_permille": [0.5, 0.49999, 2.25, 0.0],
        "quadrant": ["NE", "", "SW", ""],
        "accepted": ["NE", "", "SW", ""],
        "mechanism": [-1, -1, -1, -1],
        "difficulty": [-1, -1, -1, -1],
    }
    turned = "quadrant,note,severity_permille,building_id\nNE,x,0.5,007\n"
    assert read_labels(write(tmp_path, turned)).iloc[0].to_dict() == {
        "building_id": "007",
        "severity_permille": 0.5,
        "quadrant": "NE",
        "accepted": "NE",
        "mechanism": -1,
        "difficulty": -1,
    }


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
    ("row", "message"),
    [
        ("e,2,NE,NW|SW,end,", r"accepted: 'NW\|SW' found, quadrants with '\|' between them are needed, the one of"),
        ("e,2,NE,NE|N,end,", r"accepted: 'NE\|N' found"),
        ("e,2,NE,NE;SE,end,", "accepted: 'NE;SE' found"),
        ("e,2,,NE|SE,end,", "quadrant: '' found"),
        ("e,2,NE,NE|SE,ends,", "mechanism: 'ends' found, one of corner, end, step, bowl, bending, several is needed"),
        ("e,0.5,NE,NE,none,", "mechanism: 'none' found"),
        ("e,1,NE,,,Hard", "difficulty: 'Hard' found, one of easy, medium, hard is need"),
    ],
)
def test_a_bad_cell_of_the_optional_columns_is_named_by_line(tmp_path, row, message):
    with pytest.raises(InputError, match=rf"labels\.csv, line 3, column {message}"):
        read_labels(write(tmp_path, ALL_COLUMNS + "a,2,NE,NE|SE,end,easy\n" + row + "\n"))


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_last_line_without_end_is_read_with_a_warning(tmp_path, caplog, end):
    """The decimals of a last severity, or a second accepted quadrant, may be cut off without another sign."""
    assert len(read_labels(write(tmp_path, HEADER + GOOD + "e,3,NW" + end))) == 5
    warning = "labels.csv: its last line has no line end. If the file was cut off, labels are missing"
    assert (warning in caplog.text) == (not end)
    assert ("5 are read, the last of building e." in caplog.text) == (not end)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("e,0.6,", "line 6, column quadrant: '' found, one of NE, NW, SW, SE is needed; the cell may be empty where"),
        ("e,0.6,N", "line 6, column quadrant: 'N' found"),
        ("e,0.1,north", "line 6, column quadrant: 'north' found"),
        ("e,-1,NE", "line 6, column severity_permille: -1.0 found, a strain from 0 to 1000"),
        ("e,,NE", "line 6, column severity_permille: no value found"),
        ("e,inf,NE", "line 6, column severity_permille: inf found"),
        ("e,much,NE", "line 6, column severity_permille: 'much' found, a number is needed"),
        (",1,NE", "line 6, column building_id: '' found"),
        ("a,1,NE", "line 6, column building_id: 'a' found, each building may be labelled once"),
        ("e,1", "line 6: 2 cells found"),
    ],
)
def test_a_bad_label_is_named_by_file_line_and_column(tmp_path, row, message):
    with pytest.raises(InputError, match=rf"labels\.csv, {message}"):
        read_labels(write(tmp_path, HEADER + GOOD + row + "\n"))


def test_quadrants_without_any_damage_are_asked_about(tmp_path, caplog):
    read_labels(write(tmp_path, HEADER + "a,0.1,\nb,0.4,\n"))
    assert not caplog.text
    fractions = write(tmp_path, HEADER + "a,0.0001,\nb,0.0035,NE\n")
    read_labels(fractions)
    assert "of 1 buildings with a quadrant 1 have severities below 0.5 permille" in caplog.text
    assert "(the largest of all is 0.0035)" in caplog.text
    with pytest.raises(InputError, match=r"Are they in permille, .* leave the quadrants of undamaged buildings empty"):
        read_labels(fractions, few=True)


@pytest.mark.parametrize(("above", "asked"), [(1, True), (2, False)])
def test_percent_are_asked_about_although_the_worst_are_damage_in_permille_too(tmp_path, caplog, above, asked):
    rows = [f"b{number},{0.6 if number < above else 0.2},SW" for number in range(8)]
    labels = read_labels(write(tmp_path, HEADER + "\n".join(rows) + "\nc,0.01,\n"), few=True)
    assert ("Are they in permille" in caplog.text) == asked
    assert (labels["quadrant"] == "SW").sum() == above


def test_severities_of_another_unit_are_asked_about(tmp_path, caplog):
    read_labels(write(tmp_path, HEADER + GOOD))
    assert not caplog.text
    assert read_labels(write(tmp_path, HEADER + GOOD + "e,450,NE\n"))["severity_permille"].max() == 450
    assert "1 severities above 30 permille (the largest 450): category 4 begins at 3. Are they in permille?" in (
        caplog.text
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("building_id\na\n", "missing: severity_permille, quadrant; the header has building_id"),
        (HEADER, "no labels"),
        (None, "no such file"),
    ],
)
def test_files_that_are_no_labels_are_refused(tmp_path, content, message):
    path = tmp_path / "labels.csv" if content is None else write(tmp_path, content)
    with pytest.raises(InputError, match=message):
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
    with pytest.raises(InputError, match=rf"labels\.csv: not in footprints\.geojson: 1 of the labelled .*\('{name}'\)"):
        matched([name, "12"], ["12", "H1"])


@pytest.mark.parametrize(
    ("names", "there", "message"),
    [
        (
            ["b", "a "],
            [str(number) for number in range(9)],
            r"\('a ', 'b'\)\. Its buildings are called '0', '1', '2', '3', '4', …\. Mend",
        ),
        (["12", "12.0", "13"], ["12", "13"], r"labels\.csv: '12', '12\.0' are of one building of footprints\.geojson"),
    ],
)
def test_a_refusal_shows_what_the_files_call_the_buildings(names, there, message):
    with pytest.raises(InputError, match=message):
        matched(names, there)
