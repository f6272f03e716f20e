"""Movements against their closed forms, sums over fine grids, and numerical derivatives."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.fields.simulate.ground import (
    TownBuildings,
    _draw_smooth,
    basin,
    bowl,
    buildings_apart,
    creep,
    draw_buildings,
    draw_movements,
    strip,
    trough,
)

DEPTH, WIDTH = st.floats(5, 80), st.floats(3, 50)
ANGLE, PEAK = st.floats(-np.pi, np.pi), st.floats(-100, 100)
FAR = 1e7


def at(*places):
    return np.array(places, float)


def line(angle, distance):
    """Places along the direction `angle` through the origin."""
    return np.outer(distance, [np.cos(angle), np.sin(angle)])


@given(ANGLE, DEPTH, WIDTH, PEAK)
def test_a_trough_has_pecks_volume_and_moves_towards_its_axis(angle, depth, width, peak):
    distance = np.linspace(-8 * width, 8 * width, 2001)
    centre = (FAR * np.cos(angle), FAR * np.sin(angle))  # the axis goes through the origin across `angle`
    moved = trough(line(angle, distance), centre, radius=FAR, depth=depth, width=width, settlement=peak)
    sunk = -moved[:, 2]
    np.testing.assert_allclose(sunk, peak * np.exp(-0.5 * (distance / width) ** 2), atol=1e-5 * abs(peak))
    assert np.trapezoid(sunk, distance) == pytest.approx(np.sqrt(2 * np.pi) * width * peak, rel=1e-5, abs=1e-9)
    sideways = moved[:, :2] @ [np.cos(angle), np.sin(angle)]
    np.testing.assert_allclose(sideways, -distance / depth * sunk, atol=1e-5 * abs(peak) * (1 + width / depth))
    np.testing.assert_allclose(moved[:, :2] @ [-np.sin(angle), np.cos(angle)], 0, atol=1e-6)


@given(st.floats(200, 2000), st.floats(-30, 30), ANGLE)
def test_a_curved_trough_is_alike_along_its_axis(radius, beside, angle):
    place = at([50, -20]) + (radius + beside) * at([1, 0], [np.cos(angle), np.sin(angle)])
    first, other = trough(place, (50.0, -20.0), radius=radius, depth=20.0, width=9.0, settlement=30.0)
    assert other[2] == pytest.approx(first[2], rel=1e-6)
    assert np.hypot(*other[:2]) == pytest.approx(abs(first[0]), rel=1e-6, abs=1e-9)
    assert first[0] * beside <= 1e-9  # on the axis itself, rounding decides


@given(DEPTH, WIDTH, PEAK)
def test_a_bowl_has_its_volume_and_moves_towards_its_centre(depth, width, peak):
    axis = np.linspace(-6 * width, 6 * width, 201)
    place = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    moved = bowl(place + np.array([3.0, -7.0]), (3.0, -7.0), depth=depth, width=width, settlement=peak)
    volume = -moved[:, 2].sum() * (axis[1] - axis[0]) ** 2
    assert volume == pytest.approx(2 * np.pi * width**2 * peak, rel=1e-6, abs=1e-9)
    np.testing.assert_allclose(moved[:, :2], place / depth * moved[:, 2:], atol=1e-9)


@given(ANGLE, st.floats(80, 400), PEAK)
def test_a_basin_over_a_huge_panel_reaches_its_settlement(angle, radius, peak):
    edge = at([10, 20]) + 9 * radius * at([np.cos(angle), np.sin(angle)])
    place, half = np.vstack([at([10, 20]), edge]), (9 * radius, 9 * radius)
    moved = basin(place, (10.0, 20.0), half=half, angle=angle, radius=radius, settlement=peak)
    np.testing.assert_allclose(moved[0], [0, 0, -peak], atol=1e-9)
    assert moved[1, 2] == pytest.approx(-peak / 2)


@given(ANGLE, st.floats(80, 400), st.floats(40, 300), st.floats(40, 300))
def test_a_basin_moves_sideways_by_its_slope(angle, radius, wide, high):
    moves = partial(basin, centre=(10.0, 20.0), half=(wide, high), angle=angle, radius=radius, settlement=50.0)
    place = np.random.default_rng(0).uniform(-300, 300, (30, 2))
    step = 0.01
    slope = np.column_stack(
        [(moves(place + move)[:, 2] - moves(place - move)[:, 2]) / (2 * step) for move in step * np.eye(2)]
    )
    np.testing.assert_allclose(moves(place)[:, :2], -0.4 * radius * slope, atol=1e-5)


@given(ANGLE)
def test_a_strip_moves_its_inside_and_nothing_else(angle):
    moved = (3.0, -4.0, -20.0)
    moves = partial(strip, point=(5.0, 6.0), direction=angle, wide=60.0, long=200.0, edge=10.0, moved=moved)
    along, across = at([np.cos(angle), np.sin(angle)]), at([-np.sin(angle), np.cos(angle)])
    start = at([5.0, 6.0])
    found = moves(
        np.vstack([start + 30 * across, start - 40 * across, start + 100 * across, start, start + 60 * across])
    )
    np.testing.assert_allclose(found[0], moved, rtol=1e-4)
    np.testing.assert_allclose(found[1:3], 0, atol=1e-4)
    np.testing.assert_allclose(found[3:], 0.5 * np.tile(moved, (2, 1)), rtol=1e-4)
    rise = moves(np.vstack([start - 5 * across, start + 5 * across]))[:, 2] / moved[2]
    assert rise[1] - rise[0] == pytest.approx(0.76, abs=0.003)
    ends = moves(start + 30 * across + np.outer([150, 199, -199, 500], along))[:, 2]
    np.testing.assert_allclose(ends[:3], moved[2], rtol=1e-4)
    assert abs(ends[3]) < 1e-4


@given(ANGLE)
def test_a_slope_moves_inside_its_ellipse(angle):
    long, short = at([np.cos(angle), np.sin(angle)]), at([-np.sin(angle), np.cos(angle)])
    place = at([1, 2]) + np.vstack([0 * long, 200 * long, 100 * short, 130 * short, 230 * long])
    found = creep(place, (1.0, 2.0), half=(200.0, 100.0), angle=angle, edge=8.0, moved=(6.0, 0.0, -3.0))
    np.testing.assert_allclose(found[:, 0], [6, 3, 3, 0, 0], atol=0.01)
    np.testing.assert_allclose(found[:, 2], -found[:, 0] / 2)


@given(ANGLE, st.floats(0.1, 30), st.floats(-1, 1))
def test_buildings_move_inside_their_walls_only(angle, settled, tilt):
    town = TownBuildings(at([0, 0], [100, 50]), at([10, 5], [8, 8]), np.array([angle, 0.3]))
    along, across = at([np.cos(angle), np.sin(angle)]), at([-np.sin(angle), np.cos(angle)])
    place = np.vstack([0 * along, 9.9 * along, 10.1 * along, 4.9 * across, 5.1 * across, [100, 50]])
    expected = [-settled, -settled + 9.9 * tilt, 0, -settled, 0, 0]
    found = buildings_apart(place, town, np.array([settled, 0.0]), at([tilt, 0], [0, 0]))
    np.testing.assert_allclose(found[:, 2], expected, atol=1e-9)
    assert not found[:, :2].any()
    np.testing.assert_allclose(town.local(0, place[1]), [9.9, 0], atol=1e-9)


def test_smooth_movements_have_a_matern_covariance():
    rng = np.random.default_rng(0)
    lags = np.array([0.0, 30.0, 90.0, 250.0])
    found, size = np.zeros(len(lags)), 0.0
    for _ in range(400):
        drawn = _draw_smooth(rng, 80.0, np.array([1.0, 0.0, 3.0]))
        assert drawn(at([5, 5])).shape == (1, 3)
        found += np.cos(np.outer(lags, drawn.keywords["waves"][:, 0])).mean(axis=1) / 400
        size += 0.5 * (drawn.keywords["weights"][:, 2] ** 2).sum() / 400
    scaled = np.sqrt(3) * lags / 80
    np.testing.assert_allclose(found, (1 + scaled) * np.exp(-scaled), atol=0.02)
    assert size == pytest.approx(9, rel=0.1)


@given(st.integers(0, 10_000), st.sampled_from([320.0, 960.0, 1280.0]))
def test_whatever_is_drawn_is_finite_and_of_its_size(seed, extent):
    rng = np.random.default_rng(seed)
    town = draw_buildings(rng, extent)
    assert len(town.angle) == len(town.centre) == len(town.half) > 0
    place = rng.uniform(-0.5, 0.5, (200, 2)) * extent
    moved = sum(movement(place) for movement in draw_movements(rng, extent, town))
    assert np.isfinite(moved).all()
    assert np.abs(moved).max() < 1000
