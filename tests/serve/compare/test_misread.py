"""Misread heights are found, and damage is not taken for one."""

from pathlib import Path

import numpy as np
import pytest

from plumbline.serve.compare.levelled import Period
from plumbline.serve.compare.misread import misread
from plumbline.sources.levelling import Levelling

DAYS = np.array(["2020-01-01", "2023-01-01"], "datetime64[D]")
RING = np.array([(0, 0), (5, 0), (10, 0), (10, 6), (10, 12), (5, 12), (0, 12), (0, 6)], float)


def found(changes, xy=RING, row=None):
    change = np.array(changes, float)
    period = Period(*DAYS, change, np.full(len(change), 0.4))
    return misread(period, np.zeros(len(change), int) if row is None else np.array(row), xy)


def tilted(mm_m=8.0):
    return -5 + mm_m * RING[:, 0]


@pytest.mark.parametrize("wrong", range(8))
def test_the_wrong_one_of_a_tilted_building_is_named_with_what_the_others_say(wrong):
    change = tilted()
    change[wrong] -= 400.0
    (one,) = found(change)
    assert one.point == wrong
    assert one.expected == pytest.approx(tilted()[wrong])


def test_two_wrong_ones_do_not_hide_each_other():
    change = tilted()
    change[[0, 3]] += (36_000.0, -900.0)
    assert [one.point for one in found(change)] == [0, 3]


def test_of_three_points_the_median_tells():
    assert [one.point for one in found([-5.0, -36_000.0, -4.0], RING[[0, 2, 4]])] == [1]


def test_one_point_of_a_building_is_held_against_all():
    row = [0, 0, 0, 0, 0, 0, 0, 1]
    assert [one.point for one in found([-5.0] * 7 + [900.0], RING, row)] == [7]
    assert not found([900.0], RING[:1])


@pytest.mark.parametrize("count", [4, 8])
def test_a_corner_that_breaks_off_is_damage(count):
    corner = RING if count == 8 else RING[::2]
    assert not found(np.where(np.arange(count) == 0, -110.0, -5.0), corner)


def test_points_on_one_line_or_without_a_place_are_taken():
    assert not found([-5.0] * 6, np.column_stack([np.arange(6.0), np.zeros(6)]))
    assert not found([-5.0] * 6, np.full((6, 2), np.nan))


def test_the_message_has_both_heights():
    change = np.array([-5.0, -35_900.0, -5.0])
    heights = np.column_stack([np.full(3, 40_000.0), 40_000 + change])
    nothing = np.full((3, 2), np.nan)
    read = Levelling(
        Path("l.csv"), np.array(["A", "B", "C"], object), np.array([""] * 3), RING[:3], DAYS, heights, nothing
    )
    (one,) = found(change, RING[[0, 2, 4]])
    said = one.say(read, Period(*DAYS, change, change))
    assert said == "point B changed by -35,900.0 mm, the others by -5.0 mm: its heights are 40,000.0 and 4,100.0 mm"


def test_an_end_that_falls_with_several_points_is_damage():
    assert not found(np.where(RING[:, 0] > 9, -400.0, -5.0))
