"""Tables that could be taken for something else: what is in doubt is said, or refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.sources.points.epochs import like_days
from plumbline.sources.points.missing import CODES, Missing
from tests.refusals import refuses, warned
from tests.sources.make import rows as egms_rows
from tests.sources.make import text
from tests.sources.points import write_mintpy
from tests.sources.points.opening import read_points
from tests.sources.points.write_columns import described, rows


def write(tmp_path, content, name="c.csv"):
    (tmp_path / name).write_text(content, encoding="utf-8")
    return tmp_path / name


@given(st.dates(min_value=np.datetime64("1991-01-01").item(), max_value=np.datetime64("2099-01-01").item()))
def test_every_day_looks_like_one(day):
    written = [day.strftime(way) for way in ("%Y%m%d", "D%Y%m%d", "%d/%m/%Y", "%Y-%m-%d", "%d.%m.%y", "%d%b%Y")]
    assert like_days([*written, "pid", "height_ortho", "VEL", "120200103", "res_ 12"]) == written


def test_both_passes_in_one_file_are_refused(tmp_path):
    ascending, descending = egms_rows(), egms_rows()
    for number, row in enumerate(descending):
        row |= {"pid": f"d{number}", "los_east": str(-float(row["los_east"]))}
    path = write(tmp_path, text([*ascending, *descending]))
    with refuses("sight.two_sides", "c.csv", "los_east, los_north"):
        read_points(path)


def test_a_direction_that_turns_by_a_few_degrees_is_one_side(tmp_path):
    cells = egms_rows()
    for row, turn in zip(cells, np.radians(np.linspace(0, 6, len(cells))), strict=True):
        east, north = float(row["los_east"]), float(row["los_north"])
        row |= {
            "los_east": f"{east * np.cos(turn) - north * np.sin(turn):.5f}",
            "los_north": f"{east * np.sin(turn) + north * np.cos(turn):.5f}",
        }
    assert len(read_points(write(tmp_path, text(cells)))) == len(cells)


@pytest.mark.parametrize("code", ["-9999", "9999.0", "None", "#N/D"])
def test_codes_for_no_value_are_no_movement(tmp_path, code):
    for cells, column, about in ((egms_rows(), "20200109", {}), (rows(), "D20160407", {"*": described()})):
        before = read_points(write(tmp_path, text(cells)), about)
        changed = [{**row, column: code} if number == 2 else row for number, row in enumerate(cells)]
        track = read_points(write(tmp_path, text(changed)), about)
        missing = np.isnan(track.displacement)
        assert np.argwhere(missing).tolist() == [[2, 1]]
        assert np.array_equal(track.displacement[~missing], before.displacement[~missing])


@given(st.lists(st.floats(-9000, 9000), min_size=1, max_size=20), st.sampled_from(CODES), st.integers(0, 19))
def test_nothing_but_codes_becomes_missing(values, code, place):
    found = np.array(values)
    Missing("f", None).drop_in_column(found)
    assert found.tolist() == values
    found[place % len(found)] = -code
    Missing("f", None).drop_in_column(found)
    assert np.flatnonzero(np.isnan(found)).tolist() == [place % len(found)]


def test_of_a_format_whose_unit_is_fixed_nothing_is_to_be_stated(tmp_path, caplog):
    """What the warning advises is not refused."""
    cells = [row | {day: f"{float(row[day] or 0) / 1000:.6f}" for day in row if day.isdigit()} for row in egms_rows()]
    (tmp_path / "a.csv").write_text(text(cells))
    read_points(tmp_path / "a.csv")
    (message,) = warned(caplog, "points.unlikely_unit", "a.csv", "0.02 mm", "convert the file")
    assert "ingest.products" not in message


def test_the_unit_of_mintpy_is_that_of_its_attribute(tmp_path):
    stack = write_mintpy.Stack()
    metres = read_points(stack.write(tmp_path / "m"))
    stack.attrs["UNIT"] = "cm"
    np.testing.assert_allclose(read_points(stack.write(tmp_path / "cm")).displacement, metres.displacement / 100)
    stack.attrs["UNIT"] = "radian"
    path = stack.write(tmp_path / "radian")
    with refuses("stack.unknown_unit", path, "UNIT", "'radian'", "m, cm or mm"):
        read_points(path)
