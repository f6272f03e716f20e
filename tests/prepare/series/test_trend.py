import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.prepare.series import trend
from plumbline.prepare.series.temporal_basis import curves
from plumbline.prepare.series.trend import Trend, estimate_trend
from tests.prepare.made import FEWER

YEARS = 2.5
WHEN = np.linspace(0, 1, 76)
CURVES = len(curves(WHEN))


def annual(when, amplitude, phase):
    return np.asarray(amplitude)[:, None] * np.sin(2 * np.pi * YEARS * when + np.asarray(phase)[:, None])


def noise_of(rng, shape, sd, rho):
    """AR(1) noise of standard deviation `sd`."""
    drawn = rng.normal(0, sd, shape)
    for t in range(1, shape[1]):
        drawn[:, t] = rho * drawn[:, t - 1] + np.sqrt(1 - rho**2) * drawn[:, t]
    return drawn


def made(rng, curve, buildings=60, size=6, sd=0.5, *, rho=0.0, gaps=0.15, amplitude=20.0):
    """Series that move along one dictionary curve, with an offset, an annual term and gaps."""
    count = buildings * size
    change = rng.normal(0, amplitude, count)
    series = change[:, None] * curves(WHEN)[curve] + annual(WHEN, rng.uniform(0, 4, count), rng.uniform(0, 6, count))
    series += rng.normal(0, 50, (count, 1)) + noise_of(rng, series.shape, sd, rho)
    series[rng.random(series.shape) < gaps] = np.nan
    return series.astype(np.float32), change, np.repeat(np.arange(buildings), size)


@pytest.mark.parametrize("curve", range(CURVES))
def test_every_curve_of_the_dictionary_is_recognised_and_measured(curve):
    series, change, building = made(np.random.default_rng(curve), curve)
    found = estimate_trend(series, WHEN, YEARS, building)
    assert (found.curve == curve).mean() > 0.95
    right = found.curve == curve
    assert np.abs(found.change - change)[right].max() < 6 * found.change_se[right].max()
    assert np.median(np.abs(found.change - change)) < 0.5


def test_a_line_stays_a_line():
    for rho, sd in ((0.0, 0.5), (0.0, 4.0), (0.5, 2.0)):
        series, _, building = made(np.random.default_rng(7), 0, buildings=200, sd=sd, rho=rho)
        assert (estimate_trend(series, WHEN, YEARS, building).curve == 0).mean() > 0.97


@pytest.mark.parametrize(("rho", "gaps"), [(0.0, 0.0), (0.0, 0.2), (0.3, 0.0), (0.6, 0.0), (0.3, 0.2)])
def test_standard_errors_are_honest(rho, gaps):
    series, change, building = made(np.random.default_rng(1), 0, buildings=300, sd=3.0, rho=rho, gaps=gaps)
    found = estimate_trend(series, WHEN, YEARS, building)
    scaled = (found.change - change) / found.change_se
    assert abs(np.mean(scaled)) < 0.1
    assert 0.85 < np.std(scaled) < 1.1


def test_outlier_epochs_hardly_move_the_change():
    rng = np.random.default_rng(3)
    series, change, building = made(rng, 0, sd=1.0, gaps=0.0)
    bad = rng.random(series.shape) < 0.04
    bad[:, : len(WHEN) // 2] = False  # all late: they would lift the end of a plain line
    spoilt = np.where(bad, series + 27.75, series).astype(np.float32)
    phase = 2 * np.pi * WHEN * YEARS
    design = np.stack([WHEN, np.ones_like(WHEN), np.sin(phase), np.cos(phase)], axis=1)
    plain = np.linalg.lstsq(design, spoilt.T.astype(float), rcond=None)[0][0]
    robust = estimate_trend(spoilt, WHEN, YEARS, building).change
    assert np.median(np.abs(robust - change)) < 0.4 * np.median(np.abs(plain - change))
    assert np.sqrt(np.mean((robust - change) ** 2)) < 1.0


def test_few_values_say_little_and_nothing_is_infinite():
    series, change, building = made(np.random.default_rng(4), 0, sd=1.0, gaps=0.0)
    sparse = series.copy()
    sparse[::6, 8:] = np.nan
    sparse[1::6, :-8] = np.nan
    found, full = (estimate_trend(part, WHEN, YEARS, building) for part in (sparse, series))
    assert np.isfinite(found.change).all()
    assert np.isfinite(found.change_se).all()
    few = np.isin(np.arange(len(series)) % 6, (0, 1))
    assert (found.change_se[few] > 5 * full.change_se[few]).mean() > 0.9
    inside = np.abs(found.change - change)[few] < 4 * found.change_se[few]
    assert inside.mean() > 0.9


@FEWER
@given(st.integers(0, 1000), st.integers(1, 40), st.lists(st.integers(1, 7), min_size=2, max_size=8))
def test_a_building_depends_on_itself_alone_wherever_the_chunks_are_cut(seed, chunk, sizes):
    rng = np.random.default_rng(seed)
    building = np.repeat(np.arange(len(sizes)) * 3, sizes)
    series = (rng.normal(0, 20, (len(building), 1)) * curves(WHEN)[seed % CURVES] + rng.normal(size=76)).astype("f4")
    series += rng.normal(0, 1, series.shape).astype("f4")
    whole = estimate_trend(series, WHEN, YEARS, building)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trend, "CHUNK", chunk)
        cut = estimate_trend(series, WHEN, YEARS, building)
    alone = [estimate_trend(series[building == b], WHEN, YEARS, building[building == b]) for b in np.unique(building)]
    for name in Trend._fields:
        np.testing.assert_allclose(getattr(cut, name), getattr(whole, name), atol=1e-8)
        together = np.concatenate([getattr(one, name) for one in alone])
        np.testing.assert_allclose(together, getattr(whole, name), atol=1e-8)


@pytest.mark.parametrize(("shared", "rho"), [(0.0, 0.0), (3.0, 0.0), (3.0, 0.5)])
def test_the_error_that_a_building_shares_is_stated(shared, rho):
    """The mean change of a building's points is off by what they share and a little by what they do not."""
    series, change, building = made(np.random.default_rng(6), 0, buildings=300, size=8, sd=2.0, gaps=0.1)
    series += noise_of(np.random.default_rng(7), (300, len(WHEN)), shared, rho).astype("f4")[building]
    found = estimate_trend(series, WHEN, YEARS, building)
    off = (found.line - change).reshape(300, 8).mean(1)
    stated = np.hypot(found.common_se.reshape(300, 8)[:, 0], np.sqrt((found.line_se**2).reshape(300, 8).mean(1) / 8))
    assert 0.8 < np.std(off / stated) < 1.2
    assert 0.9 < np.mean(np.abs(off) < 1.96 * stated) < 0.985


def test_too_few_points_for_a_common_series_count_as_one():
    series, _, building = made(np.random.default_rng(8), 0, size=2, sd=2.0, gaps=0.0)
    found = estimate_trend(series, WHEN, YEARS, building)
    each = (found.line_se**2).reshape(-1, 2).mean(1)
    np.testing.assert_allclose(found.common_se.reshape(-1, 2)[:, 0] ** 2 + each / 2, each)


@pytest.mark.parametrize(("epochs", "step"), [(8, 6), (11, 11), (22, 6), (30, 6)])
@pytest.mark.parametrize("rho", [0.0, 0.4])
def test_less_than_a_year_bends_no_curve(epochs, step, rho):
    """There the annual term takes the line along, so that any other curve would win."""
    building = np.repeat(np.arange(20), 20)
    noise = noise_of(np.random.default_rng(9), (400, epochs), 3.0, rho)
    found = estimate_trend(noise.astype("f4"), np.linspace(0, 1, epochs), epochs * step / 365.25, building)
    assert (found.curve == 0).all()
    assert np.std(found.change / found.change_se) < 1.3


def test_series_with_many_gaps_are_not_taken_for_broken_ones():
    series, change, building = made(np.random.default_rng(10), 0, buildings=150, size=12, sd=3.0, gaps=0.5)
    found = estimate_trend(series, WHEN, YEARS, building)
    assert 0.85 < np.std((found.change - change) / found.change_se) < 1.15
    assert np.quantile(found.change_se, 0.99) < 2 * np.median(found.change_se)
