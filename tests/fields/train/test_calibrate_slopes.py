"""Intervals of slopes: they hold on other scenes, where the ground is calm and where it moves."""

import numpy as np
import pytest
from scipy import ndimage

from plumbline.fields.model.slopes import FIGURES, Slopes
from plumbline.fields.train.calibrate_slopes import Drawn, fit_slopes, slope_cells

CELL_M = 10.0
START = Slopes(base=0.0, weights=[0.0] * len(FIGURES))
SIDE = 24
GAIN = 0.8


def smooth(rng, *shape):
    return ndimage.gaussian_filter(rng.standard_normal(shape), [*[0] * (len(shape) - 2), 2, 2], mode="wrap") * 7


def made(rng, count, wider=1.0):
    """Cells of scenes, calm or lively, in which samples scatter a third as much as they err."""
    found = []
    for number in range(count):
        moves = np.exp(rng.normal(0, 1))
        true = moves * smooth(rng, SIDE, SIDE)
        process = true + 0.6 * moves * smooth(rng, SIDE, SIDE)
        mean = true + wider * 0.3 * moves * smooth(rng, SIDE, SIDE)
        weighted = mean + 0.1 * moves * smooth(rng, 8, SIDE, SIDE)
        samples = process + (weighted - process) / GAIN
        cells = rng.permutation(SIDE * SIDE)[:200]
        told = rng.random(200) < 0.9
        drawn = Drawn(samples, process, true, number, cells)
        half = np.full(200, 0.5 * moves)
        found.append(((moves, slope_cells(drawn, GAIN, half, told, CELL_M)), told, drawn))
    return found


def held(slopes, own):
    return np.exp(own.wanted) <= slopes.half_width(own.figures)


def test_nine_of_ten_slopes_are_held_in_calm_scenes_and_lively_ones():
    rng = np.random.default_rng(0)
    slopes = fit_slopes([own for (_, own), *_ in made(rng, 60)], START)
    shares = {False: [], True: []}
    for (moves, own), *_ in made(rng, 60):
        shares[moves > 1].append(held(slopes, own).mean())
    for share in shares.values():
        assert np.mean(share) == pytest.approx(0.9, abs=0.035)


def test_few_scenes_move_the_level_of_what_they_start_from():
    rng = np.random.default_rng(1)
    start = fit_slopes([own for (_, own), *_ in made(rng, 60)], START)
    led = fit_slopes([own for (_, own), *_ in made(rng, 6, wider=3.0)], start)
    new = [own for (_, own), *_ in made(rng, 60, wider=3.0)]
    assert np.mean([held(start, own).mean() for own in new]) < 0.6
    assert np.mean([held(led, own).mean() for own in new]) == pytest.approx(0.9, abs=0.05)
    assert fit_slopes([], start) is start


def test_cells_that_are_not_told_or_at_the_edge_do_not_count():
    (((_, own), told, drawn),) = made(np.random.default_rng(2), 1)
    row, column = np.divmod(drawn.cells, SIDE)
    inner = (np.minimum(row, column) > 0) & (np.maximum(row, column) < SIDE - 1)
    assert own.number == 0
    assert own.figures.shape == (len(FIGURES), (inner & told).sum())
    # A slope that is known exactly needs no interval, whatever its figures are.
    exact = drawn._replace(samples=np.repeat(drawn.true[None], 3, axis=0), process=drawn.true)
    known = slope_cells(exact, GAIN, np.ones(200), told, CELL_M)
    assert np.exp(known.wanted).max() == pytest.approx(1e-4)
    np.testing.assert_array_equal(known.figures[1], 0.0)
