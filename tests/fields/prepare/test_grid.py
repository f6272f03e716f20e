"""Grids and their cells: nothing is lost, nothing counts twice."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from plumbline.fields.prepare.grid import Grid, bin_observations, grid_over
from tests.fields.prepare.made import PLACE, make_observations

SEED, CELL = st.integers(0, 10_000), st.sampled_from([2.0, 7.5, 10.0, 40.0])


@given(SEED, st.integers(1, 60), CELL, st.floats(0.5, 100))
def test_a_grid_holds_its_points_and_margin(seed, count, cell, margin):
    place = make_observations(np.random.default_rng(seed), count).east_north
    grid = grid_over(place, cell, margin)
    row, column = grid.place(place)
    assert (grid.northings[0] + cell / 2, grid.eastings[0] - cell / 2) == (grid.top, grid.left)
    np.testing.assert_array_equal(np.abs(grid.northings[row] - place[:, 1]) <= cell / 2 + 1e-6, True)
    np.testing.assert_array_equal(np.abs(grid.eastings[column] - place[:, 0]) <= cell / 2 + 1e-6, True)
    edges = np.array([grid.left, grid.top - grid.rows * cell]), np.array([grid.left + grid.columns * cell, grid.top])
    assert (place.min(axis=0) - edges[0] >= margin - 1e-6).all()
    assert (edges[1] - place.max(axis=0) >= margin - 1e-6).all()
    assert (place.min(axis=0) - edges[0] < margin + cell + 1e-6).all()
    assert (edges[1] - place.max(axis=0) < margin + cell + 1e-6).all()


@given(st.integers(-9, 40), st.integers(-9, 40), st.integers(1, 20), st.integers(1, 20))
def test_a_window_has_the_cells_of_the_whole(row, column, rows, columns):
    grid = Grid(100.0, 900.0, 10.0, 50, 50)
    part = grid.window(row, column, rows, columns)
    place = np.column_stack([np.full(rows, part.eastings[0]), part.northings])
    np.testing.assert_array_equal(grid.place(place)[0], row + np.arange(rows))
    np.testing.assert_array_equal(grid.place(place)[1], column)


@given(SEED, st.floats(0, 100))
def test_near_is_the_distance_to_the_grid(seed, margin):
    grid = Grid(PLACE[0] + 200, PLACE[1] + 400, 10.0, 20, 20)
    place = make_observations(np.random.default_rng(seed), 50).east_north
    low, high = np.array([grid.left, grid.top - 200]), np.array([grid.left + 200, grid.top])
    beside = np.maximum(np.maximum(low - place, place - high), 0).max(axis=1)
    np.testing.assert_array_equal(grid.near(place, margin), beside <= margin)
    row, column = grid.place(place)
    inside = (row >= 0) & (row < 20) & (column >= 0) & (column < 20)
    np.testing.assert_array_equal(grid.near(place, 0), inside)


@given(SEED, st.integers(1, 200), CELL)
def test_cells_hold_counts_and_means_weighted_by_precision(seed, count, cell):
    found = make_observations(np.random.default_rng(seed), count)
    grid = grid_over(found.east_north, cell, 1.0)
    binned = bin_observations(found, grid)
    assert binned.count.sum() == count
    row, column = grid.place(found.east_north)
    for point in range(0, count, 17):
        same = (row == row[point]) & (column == column[point]) & (found.side == found.side[point])
        at = (found.side[point], row[point], column[point])
        weight = 1 / found.error[same] ** 2
        assert binned.count[at] == same.sum()
        np.testing.assert_allclose(binned.change[at], np.average(found.change[same], weights=weight))
        np.testing.assert_allclose(binned.error[at], weight.sum() ** -0.5)
        np.testing.assert_allclose(binned.los_east[at], found.los[point, 0])
        np.testing.assert_allclose(binned.los_up[at], found.los[point, 2])
    assert np.isnan(binned.change[binned.count == 0]).all()
    assert np.isnan(binned.error[binned.count == 0]).all()
    part = grid.window(1, 2, 3, 3)
    inside = part.near(found.east_north, 0)
    assert bin_observations(found, part).count.sum() == inside.sum()
