"""The Gaussian process: against a direct solution of its equations, and on fields that were drawn from it."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from plumbline.fields.prepare import gaussian_process
from plumbline.fields.prepare.covariance import VAGUE_MM, Covariance, fit_covariance
from plumbline.fields.prepare.gaussian_process import estimate
from plumbline.fields.prepare.grid import Grid
from tests.fields.prepare.made import PLACE, make_observations

KNOWN = Covariance(12.0, 5.0, 120.0, 1.0, 0.5)
GRID = Grid(PLACE[0], PLACE[1] + 640, 10.0, 64, 64)


def matern(distance, length):
    scaled = np.sqrt(3) * distance / length
    return (1 + scaled) * np.exp(-scaled)


def drawn(rng, count, known=KNOWN, sides=(0, 1)):
    """Observations of fields of a known covariance, and the fields on the grid's cells by every fourth."""
    found = make_observations(rng, count, sides=sides)
    east, north = np.meshgrid(GRID.eastings[::4], GRID.northings[::4])
    place = np.vstack([found.east_north, np.column_stack([east.ravel(), north.ravel()])])
    lower = np.linalg.cholesky(matern(cdist(place, place), known.length_m) + 1e-8 * np.eye(len(place)))
    up, east = (
        size * (lower @ rng.standard_normal(len(place))) + level
        for size, level in ((known.up_mm, -8.0), (known.east_mm, 3.0))
    )
    noise = np.hypot(known.noise_scale * found.error, known.nugget_mm) * rng.standard_normal(count)
    change = found.los[:, 2] * up[:count] + found.los[:, 0] * east[:count] + noise
    return replace(found, change=change), np.stack([up[count:], east[count:]]).reshape(2, 16, 16)


def test_it_solves_the_equations_of_cokriging():
    rng = np.random.default_rng(0)
    found, _ = drawn(rng, 40)
    known = KNOWN._replace(noise_scale=1.3)
    found = replace(found, delay=np.where(found.track == 0, 2.0, 3.0), delay_m=np.where(found.track == 0, 90.0, 400.0))
    made = estimate(found, GRID, known, halo_m=100.0)
    cells = np.floor(found.east_north / 10)
    assert len(np.unique(np.column_stack([cells, found.track]), axis=0)) == 40  # none is gathered with another
    view = found.los[:, [2, 0]]
    sizes = np.array([known.up_mm, known.east_mm])
    correlation = matern(cdist(found.east_north, found.east_north), known.length_m)
    prior = sum(
        np.outer(view[:, k], view[:, k]) * (sizes[k] ** 2 * correlation + VAGUE_MM**2) for k in (0, 1)
    ) + np.diag((1.3 * found.error) ** 2 + known.nugget_mm**2)
    for track, size, length in ((0, 2.0, 90.0), (1, 3.0, 400.0)):
        own = found.track == track
        prior += np.outer(own, own) * size**2 * np.exp(-cdist(found.east_north, found.east_north) / length)
    for row, column in ((0, 0), (20, 36), (63, 63), (12, 48)):
        place = np.array([[GRID.eastings[column], GRID.northings[row]]])
        near = matern(cdist(place, found.east_north), known.length_m)[0]
        for k in (0, 1):
            towards = (sizes[k] ** 2 * near + VAGUE_MM**2) * view[:, k]
            assert made.mean[k, row, column] == pytest.approx(towards @ np.linalg.solve(prior, found.change), abs=1e-6)
            variance = sizes[k] ** 2 + VAGUE_MM**2 - towards @ np.linalg.solve(prior, towards)
            assert made.deviation[k, row, column] == pytest.approx(np.sqrt(variance), abs=1e-6)


def test_cells_between_are_between():
    found, _ = drawn(np.random.default_rng(1), 200)
    coarse = estimate(found, GRID, KNOWN)
    shifted = estimate(found, GRID.window(1, 1, 62, 62), KNOWN, halo_m=170.0)
    for one, other in zip(coarse, shifted, strict=True):  # solved on other cells, so interpolated where these are not
        assert np.sqrt(((one[:, 1:-1, 1:-1] - other) ** 2).mean()) < 0.2
        np.testing.assert_allclose(one[:, 1:-1, 1:-1], other, atol=1.5)


def test_without_points_it_is_the_prior():
    found, _ = drawn(np.random.default_rng(2), 30)
    far = Grid(PLACE[0] + 9000, PLACE[1], 10.0, 8, 8)
    made = estimate(found, far, KNOWN)
    assert not made.mean.any()
    np.testing.assert_allclose(made.deviation[0], np.hypot(KNOWN.up_mm, VAGUE_MM))
    np.testing.assert_allclose(made.deviation[1], np.hypot(KNOWN.east_mm, VAGUE_MM))


def test_it_recovers_fields_as_well_as_it_says():
    rng = np.random.default_rng(3)
    z, errors = [], []
    for _ in range(4):
        found, truth = drawn(rng, 400)
        made = estimate(found, GRID, KNOWN)
        error = made.mean[:, ::4, ::4] - truth
        errors.append(error)
        z.append(error / made.deviation[:, ::4, ::4])
    assert np.sqrt((np.stack(errors)[:, 0] ** 2).mean()) < 3
    assert np.stack(z).std() == pytest.approx(1, abs=0.15)


def test_many_observations_are_gathered_in_larger_cells(monkeypatch):
    found, truth = drawn(np.random.default_rng(4), 700)
    whole = estimate(found, GRID, KNOWN)
    monkeypatch.setattr(gaussian_process, "MOST", 300)
    fewer = estimate(found, GRID, KNOWN)
    errors = [np.sqrt(((made.mean[0, ::4, ::4] - truth[0]) ** 2).mean()) for made in (whole, fewer)]
    assert errors[0] < errors[1] < 2 * errors[0]


def test_the_covariance_is_found_from_what_it_made():
    known = Covariance(12.0, 6.0, 120.0, 1.5, 0.7)
    found, _ = drawn(np.random.default_rng(5), 700, known)
    told = fit_covariance(found, 10.0)
    assert told == fit_covariance(found, 10.0)
    assert told.up_mm == pytest.approx(12, rel=0.35)
    assert told.east_mm == pytest.approx(6, rel=0.45)
    assert told.length_m == pytest.approx(120, rel=0.35)
    assert np.hypot(told.noise_scale * 1.5, told.nugget_mm) == pytest.approx(np.hypot(1.5 * 1.5, 0.7), rel=0.25)


@pytest.mark.parametrize("count", [1, 2, 8])
def test_few_points_have_a_covariance_too(count):
    found, _ = drawn(np.random.default_rng(6), count)
    still = replace(found, change=np.zeros(count))
    for one in (found, still):
        told = fit_covariance(one, 10.0)
        assert np.isfinite(told).all()
        assert np.isfinite(estimate(one, GRID, told).mean).all()
    assert told.up_mm < 5  # of what does not move
