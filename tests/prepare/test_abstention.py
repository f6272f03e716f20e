import numpy as np
import pytest
import shapely

from plumbline.core.compass import frames
from plumbline.params import Prepare
from plumbline.prepare.abstention import (
    JUDGED,
    MIN_SPREAD_M,
    MIN_SPREAD_SHARE,
    REASONS,
    STRAY_FROM,
    leave_out,
    outsized,
    spread,
)

LIMITS = Prepare(min_points=5, min_side_m=2.0, max_side_m=300.0)
GRID = np.array([[x, y] for x in (-4.0, 0.0, 4.0) for y in (-3.0, 3.0)])


def verdict(points, side=(10.0, 8.0), **limits):
    """Name of the rule that leaves out one building, or None."""
    points = np.asarray(points, float).reshape(-1, 2)
    found = leave_out(np.array([side]), np.zeros(len(points), int), points, LIMITS.model_copy(update=limits))
    return None if found.code[0] == JUDGED else list(REASONS)[found.code[0] - 1]


@pytest.mark.parametrize(
    ("points", "side", "reason"),
    [
        (GRID, (10, 8), None),
        (GRID * 0.1, (1, 1), "too_small"),
        (GRID, (20, 1.9), "too_small"),
        (GRID, (2, 2), None),
        (GRID * 40, (500, 400), "too_large"),
        (GRID, (12, 301), "too_large"),
        (GRID, (300, 12), None),
        ([], (10, 8), "no_points"),
        (GRID[:4], (10, 8), "few_points"),
        (np.zeros((6, 2)), (10, 8), "degenerate_points"),
        (np.column_stack([np.arange(8), np.arange(8)]), (10, 8), "degenerate_points"),
        ([], (1, 1), "too_small"),
    ],
)
def test_each_rule_names_its_buildings_and_the_first_that_holds_counts(points, side, reason):
    assert verdict(points, side) == reason


@pytest.mark.parametrize(("jitter", "reason"), [(0.0, "degenerate_points"), (0.04, "degenerate_points"), (0.4, None)])
def test_three_places_are_a_plane_however_many_points_they_have(jitter, reason):
    """Pixels of several tracks: whatever they do looks like a tilt."""
    away = np.random.default_rng(3).uniform(-jitter, jitter, (30, 2))
    assert verdict(np.tile([[-4.0, -3.0], [4.0, -3.0], [0.0, 3.0]], (10, 1)) + away) == reason
    assert verdict(np.tile([[-4.0, -3.0], [4.0, -3.0], [0.0, 3.0], [4.0, 3.0]], (2, 1))) is None


def test_limits_come_from_params():
    assert verdict(GRID, (1, 1), min_side_m=0.0) is None
    assert verdict(GRID * 40, (500, 400), max_side_m=1000.0) is None
    assert verdict(GRID[:4], min_points=4) is None
    assert verdict(GRID, min_points=7) == "few_points"


@pytest.mark.parametrize("side", [4.0, 20.0])
@pytest.mark.parametrize(("share", "reason"), [(0.9, "degenerate_points"), (1.1, None)])
def test_points_are_on_a_line_up_to_a_distance_that_grows_with_the_building(side, share, reason):
    # Alternating about a line, all are as far from it as their root mean square.
    off = share * max(MIN_SPREAD_M, MIN_SPREAD_SHARE * side)
    along = np.repeat(np.linspace(-side, side, 40), 2)
    points = np.column_stack([along, np.tile([off, -off], 40)])
    assert verdict(points, (2 * side, side)) == reason


def test_one_stray_point_makes_no_area_of_a_line_and_two_do():
    line = np.column_stack([np.linspace(-5, 5, 9), np.zeros(9)])
    assert verdict(np.r_[line, [[0, 3]]]) == "degenerate_points"
    assert verdict(np.r_[line, [[0, 3], [1, -3]]]) is None
    assert verdict(np.r_[np.zeros((6, 2)), [[3, 3]]]) == "degenerate_points"
    # With few points each one counts: without one, three are often on a line by chance.
    assert verdict(np.r_[line[: STRAY_FROM - 2], [[0, 3]]]) is None


def test_the_spread_is_the_second_singular_value_without_the_point_that_matters_most():
    rng = np.random.default_rng(1)
    count = rng.integers(0, 12, 50)
    building = np.repeat(np.arange(50), count)
    points = rng.normal(0, 5, (len(building), 2)) + np.array([4e6, 3e6])
    found = spread(building, points, 50)

    def by_definition(some):
        values = np.linalg.svd(some - some.mean(0), compute_uv=False) if len(some) > 1 else [0, 0]
        return values[1] / np.sqrt(len(some)) if len(some) > 1 else 0.0

    for number in range(50):
        some = points[building == number] - [4e6, 3e6]
        tried = [np.delete(some, row, 0) for row in range(len(some))] if len(some) >= STRAY_FROM else [some]
        assert found[number] == pytest.approx(min(map(by_definition, tried)), abs=1e-6)


def test_every_building_is_counted_once_and_the_counts_are_put_in_words():
    side = np.array([[10, 8], [1, 1], [10, 8], [400, 9], [10, 8]])
    building = np.repeat([0, 1, 4], 6)
    found = leave_out(side, building, np.r_[GRID, GRID, np.zeros((6, 2))], LIMITS)
    assert found.judged.tolist() == [0]
    assert found.counts == {"too_small": 1, "too_large": 1, "no_points": 1, "few_points": 0, "degenerate_points": 1}
    assert sum(found.counts.values()) + len(found.judged) == len(side)
    assert "1 too_small (the shorter side is below prepare.min_side_m" in str(found)
    assert "few_points" not in str(found)


def test_a_city_without_buildings_or_points_has_none_left_out_or_all():
    none = leave_out(np.zeros((0, 2)), np.zeros(0, int), np.zeros((0, 2)), LIMITS)
    assert (len(none.code), sum(none.counts.values())) == (0, 0)
    empty = leave_out(np.full((3, 2), 9.0), np.zeros(0, int), np.zeros((0, 2)), LIMITS)
    assert empty.counts["no_points"] == 3


def test_what_bounds_and_area_show_at_once_is_what_the_rectangle_shows():
    rng = np.random.default_rng(0)
    sides = np.exp(rng.uniform(np.log(1), np.log(600), (400, 2)))
    sides[::4] = rng.choice([1.99, 2.01, 299.0, 301.0], (100, 2))
    houses = [
        shapely.affinity.rotate(shapely.box(0, 0, *side), angle)
        for side, angle in zip(sides, rng.uniform(0, 90, 400), strict=True)
    ]
    twice = shapely.Polygon([(0, 0), (9, 0), (9, 1.9), (0, 1.9)] * 3)
    footprints = np.array([*houses, twice], object)
    side = frames(footprints).side
    expected = (side.min(1) < LIMITS.min_side_m) | (side.max(1) > LIMITS.max_side_m)
    assert 50 < expected.sum() < 350
    assert outsized(footprints, LIMITS).tolist() == expected.tolist()
