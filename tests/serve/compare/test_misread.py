"""Misread heights are found, and damage is not taken for one."""

import numpy as np
import pytest

from plumbline.serve.compare.levelled import LevelledPeriod
from plumbline.serve.compare.misread import misread

DAYS = np.array(["2020-01-01", "2023-01-01"], "datetime64[D]")
RING = np.array([(0, 0), (5, 0), (10, 0), (10, 6), (10, 12), (5, 12), (0, 12), (0, 6)], float)


def found(changes, xy=RING, row=None):
    change = np.array(changes, float)
    period = LevelledPeriod(*DAYS, change, np.full(len(change), 0.4))
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


@pytest.mark.parametrize(
    ("change", "xy"),
    [
        (np.where(np.arange(8) == 0, -110.0, -5.0), RING),
        (np.where(np.arange(4) == 0, -110.0, -5.0), RING[::2]),
        (np.where(RING[:, 0] > 9, -400.0, -5.0), RING),
        (np.full(6, -5.0), np.column_stack([np.arange(6.0), np.zeros(6)])),
        (np.full(6, -5.0), np.full((6, 2), np.nan)),
    ],
    ids=["a corner of 8 points", "a corner of 4 points", "an end", "on one line", "without a place"],
)
def test_what_breaks_off_is_damage_and_no_place_is_no_fault(change, xy):
    assert not found(change, xy)
