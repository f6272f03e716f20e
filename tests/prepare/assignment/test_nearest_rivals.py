"""Which points two buildings bid for, and what their places say."""

import numpy as np
import pytest
import shapely
from scipy.stats import norm

from plumbline.prepare.assignment.nearest import NEAR_M, assign_points, find_rivals

HOUSE, NEXT, FAR = shapely.box(0, 0, 10, 10), shapely.box(10, 0, 20, 10), shapely.box(60, 0, 70, 10)


def rivals(places, owner, footprints, buffer_m=2.0, aside=None):
    aside = np.zeros(len(footprints), bool) if aside is None else np.array(aside)
    places, houses = np.array(places, float), np.array(footprints, object)
    assigned = assign_points(*places.T, houses, buffer_m, aside)
    assert assigned.owner.tolist() == owner
    about = {"assigned": assigned, "usable": np.flatnonzero(assigned.owner >= 0), "footprints": houses, "aside": aside}
    return find_rivals(places, buffer_m=buffer_m, **about)


def test_a_point_near_the_wall_is_claimed_and_the_others_beside_it_tell_how_the_houses_move():
    found = rivals([(9, 5), (5, 5), (15, 5), (65, 5)], [0, 0, 1, 2], [HOUSE, NEXT, FAR])
    assert found.pair.tolist() == [[0, 1]]
    assert found.point.tolist() == [0, 1, 2]
    assert found.first.tolist() == [True, True, False]
    assert found.claimed.tolist() == [True, False, False]
    assert found.uncontested.tolist() == [False, True, True]


@pytest.mark.parametrize("x", [9.9, 9.0, 8.1])
def test_the_odds_of_a_place_are_those_of_a_normal_error_of_half_of_the_buffer(x):
    found = rivals([(x, 5), (15, 5)], [0, 1], [HOUSE, NEXT])
    expected = norm.logcdf((10 - x) / 1.0) - norm.logcdf((x - 10) / 1.0)
    assert found.odds[0] == pytest.approx(expected)
    mirrored = rivals([(5, 5), (20 - x, 5)], [0, 1], [HOUSE, NEXT])
    assert mirrored.odds[1] == pytest.approx(-expected)


def test_only_the_nearest_rival_claims_a_point():
    corner = shapely.box(0, 10.5, 10, 20)
    found = rivals([(9.9, 9.5), (15, 5), (5, 15)], [0, 1, 2], [HOUSE, NEXT, corner])
    assert found.pair.tolist() == [[0, 1]]
    assert found.claimed.tolist() == [True, False]


def test_what_is_not_judged_or_overlaps_claims_nothing():
    places, owner = [(9, 5), (15, 5)], [0, 1]
    assert not len(rivals(places, owner, [HOUSE, NEXT], aside=[False, True]).pair)
    assert not len(rivals(places, owner, [HOUSE, shapely.box(8, 0, 20, 10)]).pair)
    # A sliver is an inaccurate outline, and no part of the house.
    assert len(rivals(places, owner, [HOUSE, shapely.box(9.8, 0, 20, 10)]).pair) == 1


def test_what_is_far_from_the_other_house_says_nothing():
    hall = shapely.box(10, 0, 90, 10)
    found = rivals([(9, 5), (12, 5), (10 + NEAR_M - 0.1, 5), (10 + NEAR_M + 0.1, 5)], [0, 1, 1, 1], [HOUSE, hall])
    assert found.point.tolist() == [0, 1, 2]
