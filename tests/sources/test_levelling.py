"""Levelled heights in the tables that surveyors write: the same numbers come out of each."""

from pathlib import Path

import numpy as np
import pytest

from plumbline.sources.levelling import read_levelling
from tests.refusals import refuses, warned

CASES = Path(__file__).parents[1] / "fixtures" / "cases"
LONG = """point,easting,northing,date,height_m
A,100.0,200.0,2020-01-10,10.0000
A,100.0,200.0,2023-06-30,9.9950
B,110.0,200.0,2020-01-10,11.0000
B,110.0,200.0,2023-06-30,10.9925
"""
SAME = {
    "total station": LONG.replace("height_m", "Z (m)").replace("easting", "E [m]").replace("northing", "N [m]"),
    "decimal comma": LONG.replace(",", ";").replace(".", ","),
    "wide": "Bolt\tX\tY\t10.01.2020\t30.06.2023\nA\t100.0\t200.0\t0\t-5\nB\t110.0\t200.0\t0\t-7.5\n",
    "wide, named": "id,x,y,settlement_20200110_mm,settlement_20230630_mm\nA,100,200,0,5\nB,110,200,0,7.5\n",
    "metres by the changes": LONG.replace("height_m", "height"),
    "times, comments": "# datum: BM7\n" + LONG.replace("-10,", "-10 09:30:00,").replace("-30,", "-30 16:00,"),
    "settlement, down is positive": (
        "point,lon,lat,epoch,settlement [mm]\nA,23.7,38,10/01/2020,0\nA,23.7,38,30/06/2023,5\n"
        "B,23.7001,38,10/01/2020,0\nB,23.7001,38,30/06/2023,7.5\n"
    ),
    "settlement, down is negative": (
        "point,building_id,date,settlement_mm\nA,7,20200110,0\nA,7,20230630,-5\nB,7,20200110,0\nB,7,20230630,-7.5\n"
    ),
}


DAYS = ("2019-01-10", "2020-07-01", "2023-07-10")


def wide(heads, *rows):
    """A wide table with a row a bolt, and a column for each of the first dates; values as they are given."""
    header = ["point", "building_id", *(f"{day}{head}" for day, head in zip(DAYS, heads, strict=False))]
    lines = [header, *((name, 7, *row) for name, row in zip("ABCDE", rows, strict=False))]
    return "\n".join(",".join(map(str, line)) for line in lines)


def read(tmp_path, text, missing=()):
    path = tmp_path / "levels.csv"
    path.write_text(text, encoding="utf-8")
    return read_levelling(path, missing)


@pytest.mark.parametrize("text", [LONG, *SAME.values()], ids=["long", *SAME])
def test_every_way_to_write_them_gives_the_same_changes(tmp_path, text):
    found = read(tmp_path, text)
    assert found.point.tolist() == ["A", "B"]
    assert found.dates.astype(str).tolist() == ["2020-01-10", "2023-06-30"]
    np.testing.assert_allclose(np.diff(found.height_mm)[:, 0], [-5.0, -7.5])


def test_places_buildings_errors_and_gaps_are_kept(tmp_path):
    found = read(
        tmp_path, LONG.replace("height_m", "height_m,error_mm").replace("\n", ",0.2\n").replace("mm,0.2", "mm")
    )
    assert found.place.tolist() == [[100, 200], [110, 200]]
    assert found.error_mm[0, 0] == 0.2
    assert not found.is_degrees
    assert read(tmp_path, SAME["settlement, down is positive"]).is_degrees
    assert read(tmp_path, SAME["settlement, down is negative"]).building.tolist() == ["7", "7"]
    gaps = read(tmp_path, SAME["wide"].replace("-7.5", ""))
    assert np.isnan(gaps.height_mm[1, 1])


@pytest.mark.parametrize(
    ("text", "key", "places"),
    [
        (LONG.replace("height_m", "velocity"), "levelling.missing_column", ["line 1", "velocity"]),
        (LONG.replace("easting", "row"), "levelling.no_place", ["line 1", "easting"]),
        (LONG.replace("9.9950", "9.99.50"), "csv.not_a_number", ["line 3, column height_m", "'9.99.50'"]),
        (LONG.replace("B,110.0,200.0,2020-01", "B,110.0,200.0,2020-13"), "levelling.not_a_day", ["line 4", "'2020-13"]),
        (LONG.replace("B,110.0,200.0,2023", "B,110.0,205.0,2023"), "levelling.other_place", ["line 5, column easting"]),
        (LONG.replace("2023-06-30", "2020-01-10"), "levelling.repeated_value", ["line 3", "'A'", "2020-01-10"]),
        (LONG.replace("2020-01-10", "01/02/2020").replace("2023-06-30", "3/4/2023"), "levelling.ambiguous_days", []),
        (SAME["wide"].replace("-7.5", "0.1").replace("-5", "0.6"), "levelling.unclear_unit", ["height_m"]),
        (SAME["wide, named"].replace("7.5", "-7.5"), "levelling.unclear_sign", ["50%", "displacement_mm"]),
        (LONG.splitlines()[0] + "\n", "levelling.none", []),
        (LONG.replace("height_m", "height_mm"), "levelling.unlikely_unit", ["height_mm, read as mm", "0.005 mm"]),
        (SAME["wide"].replace("20\t", "20 [m]\t").replace("23\n", "23 [m]\n"), "levelling.unlikely_unit", ["in mm?"]),
    ],
)
def test_what_is_not_clear_is_refused_with_what_to_write(tmp_path, text, key, places):
    with refuses(key, "levels.csv", *places):
        read(tmp_path, text)


def test_points_may_be_numbered_anew_at_each_building(tmp_path):
    rows = [f"1,{house},{day},{high}" for house in (7, 8) for day, high in (("2020-01-10", 10.0), ("2023-06-30", 9.99))]
    found = read(tmp_path, "\n".join(["Bolzen,Gebäude,date,height_m", *rows]))
    assert found.building.tolist() == ["7", "8"]
    np.testing.assert_allclose(np.diff(found.height_mm), -10)


def test_one_mistyped_height_says_nothing_of_the_unit(tmp_path):
    assert read(tmp_path, LONG.replace("9.9950", "0.9950")).height_mm[0, 1] == pytest.approx(995)
    rows = [f"P{n};7;{46 + n};{46 + n - 0.004 - n / 1e4:.4f}" for n in range(20)]
    rows[3] = "P3;7;49;94.0000"  # without a unit in the header
    found = read(tmp_path, "\n".join(["point;building_id;2020-01-10;2023-06-30", *rows]))
    assert np.diff(found.height_mm)[:3, 0] == pytest.approx([-4.0, -4.1, -4.2])


def test_an_unusual_unit_is_warned_of(tmp_path, caplog):
    caplog.set_level("INFO", "plumbline")
    read(tmp_path, SAME["wide, named"].replace(",5\n", ",500\n").replace(",7.5\n", ",750\n"))
    assert warned(caplog, "levelling.unlikely_unit", "read as mm")
    assert "values in mm (column 'settlement_20200110_mm')" in caplog.text


def change_of(path, missing=()):
    heights = read_levelling(path, missing).height_mm
    return heights[:, -1] - heights[:, 0]


@pytest.mark.parametrize(
    ("file", "places"),
    [
        ("levels-datum-column/datum.csv", ()),
        ("levels-datum-column/survey.csv", ()),
        ("levels-initial-then-change/height_and_change.csv", ()),
        ("levels-words/words.csv", ("destroyed", "n.m.")),
    ],
)
def test_tables_of_surveyors_give_the_changes_of_the_clean_one(file, places):
    """A column of the vertical datum, heights beside changes, and words that are stated to be no value."""
    changes, clean = change_of(CASES / file, places), change_of(CASES / "levels-words" / "clean.csv")
    has_value = np.isfinite(changes)
    assert has_value.sum() >= len(clean) - 2
    np.testing.assert_allclose(changes[has_value], clean[has_value], atol=0.1)


@pytest.mark.parametrize(
    ("text", "key", "places"),
    [
        (CASES / "levels-rezeroed/rezero.csv", "levelling.new_zero", ["2021-06-15"]),
        (CASES / "levels-rezeroed/rezero_both.csv", "levelling.new_zero", ["2021-06-16"]),
        (CASES / "levels-initial-then-change/mixed_units.csv", "levelling.mixed_values", ["2019-01-10"]),
        (CASES / "levels-initial-then-change/mixed_nounit.csv", "levelling.mixed_values", ["2019-01-10"]),
        (
            wide((" H [m]", " dH [mm]", " dH [mm]"), (41.2, -1, -2), (42.2, -1, -4), (43.2, -1, -6)),
            "levelling.mixed_values",
            ["line 1", "2019-01-10 H [m]"],
        ),
        (
            wide((" [m]", " [mm]", ""), (0, -1, -2), (0, -1, -4), (0, -1, -6)),
            "levelling.mixed_values",
            ["line 1", "2023-07-10"],
        ),
        (
            "point,building_id,date,height_m,datum\nA,7,2020-01-10,1.0,NN\nA,7,2023-06-30,1.0,NHN\n",
            "levelling.several_datums",
            ["line 3", "'NHN'"],
        ),
    ],
)
def test_another_zero_kind_or_datum_in_the_middle_is_refused(tmp_path, text, key, places):
    path = text if isinstance(text, Path) else tmp_path / "levels.csv"
    if path != text:
        path.write_text(text, encoding="utf-8")
    with refuses(key, path.name, *places):
        read_levelling(path)


@pytest.mark.parametrize(
    ("heads", "rows", "changes"),
    [
        ((" [m]", " [cm]", " [mm]"), [(0, -1, -25), (0, -0.2, -4), (0, -0.3, -6)], [-25, -4, -6]),
        (("", "", ""), [(0, -21, -22), (0, -18, -19), (0, -30, -33)], [-22, -19, -33]),
        (("", "", ""), [(-3, -5, -9), (-2, -4, -7), (-3, -6, -10)], [-6, -5, -7]),
        (("", "", ""), [(-1.0, -5.0, -5.4), (-0.8, -4.1, -4.4), (-1.2, -6.0, -6.5)], [-4.4, -3.6, -5.3]),
        (("", "", ""), [(-5.0, 0.5, 0.4), (-4.0, 0.3, 0.2), (-6.0, 0.4, 0.3)], [5.4, 4.2, 6.3]),
        (("", ""), [(-30, -4), (-25, -3), (-40, -5)], [26, 22, 35]),
        ((" [mm]",) * 3, [(0, 0, -2), (0, 0, -3), (0, 0, -5)], [-2, -3, -5]),
        ((" [mm]",) * 3, [(0, -1, 0), (0, -1, 0), (0, 0, 0)], [0, 0, 0]),
        ((" [mm]",) * 3, [(0, -4, ""), (0, -6, ""), ("", "", 0), ("", "", 0)], [np.nan] * 4),
        (("", "", ""), [(41210, 41208, 41201), (42210, 42206, 42200), (43210, 43208, 43203)], [-9, -10, -7]),
    ],
    ids=[
        "a unit for each",
        "most at first",
        "an older zero",
        "most after an older zero",
        "small heave",
        "heave at two dates",
        "nothing at first",
        "rounded to mm",
        "a house levelled later",
        "heights in mm",
    ],
)
def test_usual_tables_are_not_taken_for_others(tmp_path, heads, rows, changes):
    np.testing.assert_allclose(np.diff(read(tmp_path, wide(heads, *rows)).height_mm[:, [0, -1]])[:, 0], changes)


def test_numbers_stated_as_missing_are_no_heights(tmp_path):
    """A number is compared by value: neither its digits nor its text decide."""
    text = wide((" [mm]",) * 3, (0, -9999.0, -4), (0, "n.m.", -9999999), (0, -3, -5))
    heights = read(tmp_path, text, (-9999, "n.m.", -9999999)).height_mm
    np.testing.assert_array_equal(heights, [[0, np.nan, -4], [0, np.nan, np.nan], [0, -3, -5]])


def test_an_empty_cell_is_no_other_vertical_datum(tmp_path):
    rows = (
        f"A,7,{day},{height},{datum}"
        for day, height, datum in zip(DAYS, (41, 40.99, 40.98), ("", "NN", ""), strict=True)
    )
    assert read(tmp_path, "\n".join(["point,building_id,date,height_m,height_system", *rows])).height_mm.shape == (1, 3)
