"""The Gaussian process: against a direct solution of its equations, and on fields that were drawn from it."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from plumbline.fields.prepare import gaussian_process
from plumbline.fields.prepare.covariance import VAGUE_MM, Covariance, _likelihood_loss, fit_covariance, gather
from plumbline.fields.prepare.gaussian_process import ROUNDS, SUSPECT, estimate
from plumbline.fields.prepare.grid import Grid
from plumbline.fields.prepare.local_covariance import correlation, fit_places
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
    off = np.where(np.arange(40) == 7, 200.0, 0.0)  # one that all others contradict
    found = replace(
        found,
        change=found.change + off,
        delay=np.where(found.track == 0, 2.0, 3.0),
        delay_m=np.where(found.track == 0, 90.0, 400.0),
    )
    made = estimate(found, GRID, known, halo_m=100.0)
    cells = np.floor(found.east_north / 10)
    assert len(np.unique(np.column_stack([cells, found.track]), axis=0)) == 40  # none is gathered with another
    view, place = found.los[:, [2, 0]], found.east_north
    places = fit_places(gather(found, 10.0), known, GRID, 100.0)
    own = places.at(place)
    sizes = [size * own.amplitude * view[:, k] for k, size in enumerate((known.up_mm, known.east_mm))]
    shared = lambda a, b: correlation(cdist(a[0], b[0]), a[1].length * 120, b[1].length * 120)  # noqa: E731
    here = (place, own)
    prior = shared(here, here) * sum(np.outer(size, size) for size in sizes) + VAGUE_MM**2 * view @ view.T
    for track, size, length in ((0, 2.0, 90.0), (1, 3.0, 400.0)):
        of = found.track == track
        prior += np.outer(of, of) * size**2 * np.exp(-cdist(place, place) / length)
    first = noise = own.noise**2 * ((1.3 * found.error) ** 2 + known.nugget_mm**2)
    for _ in range(ROUNDS):
        inverse = np.linalg.inv(prior + np.diag(noise))
        noise = noise * np.maximum(1, (inverse @ found.change) ** 2 / np.diag(inverse) / SUSPECT**2)
    assert (noise > 1.5 * first).sum() in range(1, 10)
    whole = prior + np.diag(noise)
    for row, column in ((0, 0), (20, 36), (63, 63), (12, 48)):
        at = np.array([[GRID.eastings[column], GRID.northings[row]]])
        there = places.at(at)
        near = (shared((at, there), here) * there.amplitude * own.amplitude)[0]
        for k, size in enumerate((known.up_mm, known.east_mm)):
            towards = (size**2 * near + VAGUE_MM**2) * view[:, k]
            assert made.mean[k, row, column] == pytest.approx(towards @ np.linalg.solve(whole, found.change), abs=1e-6)
            variance = (size * there.amplitude[0]) ** 2 + VAGUE_MM**2 - towards @ np.linalg.solve(whole, towards)
            assert made.deviation[k, row, column] == pytest.approx(np.sqrt(variance), abs=1e-6)


def test_cells_between_are_between():
    found, _ = drawn(np.random.default_rng(1), 200)
    coarse = estimate(found, GRID, KNOWN)
    shifted = estimate(found, GRID.window(1, 1, 62, 62), KNOWN, halo_m=170.0)
    for one, other in zip(coarse, shifted, strict=True):  # solved on other cells, so interpolated where these are not
        assert np.sqrt(((one[:, 1:-1, 1:-1] - other) ** 2).mean()) < 0.2
        np.testing.assert_allclose(one[:, 1:-1, 1:-1], other, atol=2.5)


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
    for _ in range(2):
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
    monkeypatch.setattr(gaussian_process, "MAX_OBSERVATIONS", 300)
    fewer = estimate(found, GRID, KNOWN)
    errors = [np.sqrt(((made.mean[0, ::4, ::4] - truth[0]) ** 2).mean()) for made in (whole, fewer)]
    assert errors[0] < errors[1] < 2 * errors[0]


def test_the_covariance_is_found_from_what_it_made():
    known = Covariance(12.0, 6.0, 120.0, 1.5, 0.7)
    found, _ = drawn(np.random.default_rng(5), 500, known)
    told = fit_covariance(found, 10.0)
    assert told == fit_covariance(found, 10.0)
    assert told.up_mm == pytest.approx(12, rel=0.35)
    assert told.east_mm == pytest.approx(6, rel=0.45)
    assert told.length_m == pytest.approx(120, rel=0.35)
    assert np.hypot(told.noise_scale * 1.5, told.nugget_mm) == pytest.approx(np.hypot(1.5 * 1.5, 0.7), rel=0.25)


def test_the_likelihood_s_slopes_are_those_of_its_values():
    rng = np.random.default_rng(7)
    found, _ = drawn(rng, 60)
    loss = _likelihood_loss(gather(replace(found, delay=np.full(60, 2.0)), 10.0))
    logs = np.log(np.array(KNOWN[:5]))
    told = [
        (loss(Covariance(*np.exp(logs + step)))[0] - loss(Covariance(*np.exp(logs - step)))[0]) / 2e-5
        for step in 1e-5 * np.eye(5)
    ]
    np.testing.assert_allclose(loss(KNOWN)[1], told, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("count", [1, 2, 8])
def test_few_points_have_a_covariance_too(count):
    found, _ = drawn(np.random.default_rng(6), count)
    still = replace(found, change=np.zeros(count))
    for one in (found, still):
        told = fit_covariance(one, 10.0)
        assert np.isfinite(told).all()
        assert np.isfinite(estimate(one, GRID, told).mean).all()
    assert told.up_mm < 5  # of what does not move
