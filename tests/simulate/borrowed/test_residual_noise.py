import numpy as np
import pytest

from plumbline.prepare.series.trend import estimate_trend
from plumbline.simulate.borrowed.track import LEAST_EPOCHS, Smooth, TrackNoise, long_correlation, smooth_design

BUILDINGS, EACH = 150, 6
BUILDING = np.repeat(np.arange(BUILDINGS), EACH)


@pytest.fixture(scope="module")
def years():
    """Unevenly spaced, as Sentinel-1's after the loss of one of its satellites."""
    steps = np.random.default_rng(0).choice([6, 12, 24], 160, p=[0.4, 0.5, 0.1])
    return np.r_[0, np.cumsum(steps)] / 365.25


@pytest.fixture(scope="module")
def smooth(years):
    return Smooth(years)


def drawn(rng, smooth, rho, common, sigma, *, long=0.0):
    root = np.linalg.cholesky(smooth.correlation(rho, long))
    shared, own = (rng.standard_normal((count, len(root))) @ root.T for count in (BUILDINGS, len(BUILDING)))
    return sigma[:, None] * (np.sqrt(common) * shared[BUILDING] + np.sqrt(1 - common) * own)


@pytest.mark.parametrize(
    ("rho", "common", "long"), [(0.0, 0.0, 0.0), (0.4, 0.5, 0.0), (0.7, 0.2, 0.0), (0.2, 0.2, 0.4)]
)
def test_the_law_of_known_noise_is_found_and_what_was_lost_comes_back(smooth, years, rho, common, long):
    rng = np.random.default_rng(1)
    sigma = rng.uniform(2, 5, len(BUILDING))
    noise = drawn(rng, smooth, rho, common, sigma, long=long)
    residual = smooth.residual(noise)
    law = smooth.law(residual, BUILDING)
    assert law.rho == pytest.approx(rho, abs=0.051)
    assert law.long == pytest.approx(long, abs=0.1)
    assert law.common == pytest.approx(common, abs=0.04)
    assert np.mean(smooth.sigma(residual, law) / sigma) == pytest.approx(1, abs=0.03)

    shared = rng.standard_normal((BUILDINGS, smooth.design.shape[1]))[BUILDING]
    again = residual + smooth.lost(rng, smooth.sigma(residual, law), shared, law)
    assert again.var() == pytest.approx(noise.var(), rel=0.05)
    spectrum, expected = (np.abs(np.fft.rfft(n, axis=1)) ** 2 for n in (again, noise))
    for low, high in ((1, 8), (8, 30), (30, 80)):
        assert spectrum[:, low:high].mean() == pytest.approx(expected[:, low:high].mean(), rel=0.12)
    # What a trend would be wrong by: hardly at all on the residual alone, as much as before with what was lost.
    line = np.linalg.pinv(np.stack([np.ones_like(years), years / years[-1]], axis=1))[1]
    assert (residual @ line).var() < 0.05 * (noise @ line).var()
    assert (again @ line).var() == pytest.approx((noise @ line).var(), rel=0.35)
    within = [np.diff(n @ line)[BUILDING[1:] == BUILDING[:-1]].var() for n in (again, noise)]
    assert within[0] == pytest.approx(within[1], rel=0.2)


@pytest.mark.parametrize("course", ["steady", "late onset", "coming to rest", "accelerating"])
def test_real_motion_is_not_in_the_residual(smooth, years, course):
    """40 mm and a season, under noise: what is left of it is a fiftieth, as the next stage measures movement."""
    rng, when = np.random.default_rng(2), years / years[-1]
    noise = drawn(rng, smooth, 0.4, 0.3, np.full(len(BUILDING), 3.0))
    shape = {
        "steady": when,
        "late onset": np.clip((when - 0.6) / 0.4, 0, 1),
        "coming to rest": 1 - np.exp(-when / 0.2),
        "accelerating": when**3,
    }[course]
    motion = 40 * shape + 5 * np.cos(2 * np.pi * years)
    left = smooth.residual(noise + motion) - smooth.residual(noise)
    assert np.sqrt((left**2).mean()) < 1.0
    found, before = (
        estimate_trend(smooth.residual(series).astype(np.float32), when, float(years[-1]), BUILDING).change
        for series in (noise + motion, noise)
    )
    assert abs(np.median(found - before)) < 0.8


def test_an_unwrapping_jump_stays_in_the_residual(smooth, years):
    rng = np.random.default_rng(3)
    noise = drawn(rng, smooth, 0.3, 0.0, np.full(len(BUILDING), 2.0))
    jump = 27.7 * (np.arange(len(years)) == 80)
    left = smooth.residual(noise + jump)[:, 80] - smooth.residual(noise)[:, 80]
    np.testing.assert_allclose(np.median(left), 27.7, rtol=0.03)


def test_gaps_stay_and_change_nothing_else(smooth):
    rng = np.random.default_rng(4)
    whole = drawn(rng, smooth, 0.4, 0.0, np.full(len(BUILDING), 3.0))
    holed = np.where(rng.random(whole.shape) < 0.05, np.nan, whole)
    residual = smooth.residual(holed)
    np.testing.assert_array_equal(np.isnan(residual), np.isnan(holed))
    difference = (residual - smooth.residual(whole))[np.isfinite(residual)]
    assert np.sqrt((difference**2).mean()) < 0.5
    law, sigma = smooth.law(residual, BUILDING), smooth.sigma(residual, smooth.law(residual, BUILDING))
    assert law.rho == pytest.approx(0.4, abs=0.05)
    assert sigma.mean() == pytest.approx(3.0, rel=0.05)


def test_a_history_without_values_is_survived(smooth):
    series = np.full((3, len(smooth.design)), np.nan)
    series[0] = 1.0
    residual = smooth.residual(series)
    sigma = smooth.sigma(residual, smooth.law(residual, np.array([0, 0, -1])))
    assert np.isfinite(sigma).all()
    assert (sigma > 0).all()


@pytest.mark.parametrize(("epochs", "days"), [(LEAST_EPOCHS, 11), (40, 6), (120, 6), (400, 6)])
def test_the_motion_never_takes_more_terms_than_the_epochs_bear(epochs, days):
    design = smooth_design(np.arange(epochs) * days / 365.25)
    assert 2 <= design.shape[1] <= epochs / 6
    assert np.linalg.matrix_rank(design) == design.shape[1]


def test_a_long_memory_makes_a_line_more_uncertain_and_white_noise_as_its_formula_says():
    smooth = Smooth(np.arange(120) * 12 / 365.25)
    white, short, long = (
        smooth.line_variance(TrackNoise(rho, share, 0.0, 1.0)) for rho, share in ((0, 0), (0.3, 0), (0.3, 0.3))
    )
    assert white == pytest.approx(12 / 120, rel=0.02)
    assert white < short < long


def test_a_long_memory_is_level_at_first_and_gone_at_last():
    correlation = long_correlation(np.array([0.0, 1.0, 10.0, 100.0, 1000.0]))
    assert correlation[0] == pytest.approx(1)
    assert (np.diff(correlation) < 0).all()
    assert correlation[1] > 0.9
    assert correlation[-1] < 0.001
