"""What is said of the motion of a whole building."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from plumbline.serve.report.drawings import BuildingPoints
from plumbline.serve.report.words import whole_facts
from tests.serve.map.town import track

WEST = track(3)
TRACKS = [WEST, replace(WEST, los=WEST.los * [-1, 1, 1])]
SEEN = BuildingPoints(np.array([0, 0, 1]), np.array([0, 1, 0]), np.zeros((3, 2)), np.zeros(3), np.full(3, np.inf))


def facts(**about):
    usual = {"n_points": 9, "settlement_mm": -12.0, "settlement_std_mm": 2.0, "settlement_rate_mm_year": -3.0}
    against = {"against_neighbours_mm": -4.0, "against_neighbours_std_mm": 2.0}
    tilt = {"tilt_mm_m": 1.0, "tilt_std_mm_m": 0.2, "tilt_towards": 90.0}
    one = SimpleNamespace(**{**usual, **against, **tilt, "settlement_direction": "vertical", **about})
    return {fact.name: fact for fact in whole_facts(one, SEEN, TRACKS)}


def test_a_settlement_that_both_sides_contradict_is_not_known_for_that_and_the_tilt_stays():
    found = facts(settlement_mm=np.nan, settlement_direction=None)
    assert "contradict" in found["Settlement"].means
    assert found["Tilt"].value.startswith("1.0 ±")
    assert "Three points" in facts(settlement_mm=np.nan, n_points=2)["Settlement, tilt"].means
