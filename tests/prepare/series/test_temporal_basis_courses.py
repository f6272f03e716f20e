import numpy as np
import pytest

from plumbline.prepare.series.temporal_basis import curves, dictionary_courses, unknown_courses
from plumbline.prepare.series.trend import estimate_trend

WHEN, YEARS = np.linspace(0, 1, 120), 3.0


def histories(rng, change, curve, noise, gaps=0.0):
    """(N, T) of changes (N,) along a curve of the dictionary, with offset, annual term, noise and gaps."""
    count = len(change)
    annual = rng.uniform(0, 4, (count, 1)) * np.sin(2 * np.pi * YEARS * WHEN + rng.uniform(0, 6, (count, 1)))
    series = change[:, None] * curves(WHEN)[curve] + annual + rng.normal(0, 50, (count, 1))
    series += rng.normal(0, noise, series.shape)
    series[rng.random(series.shape) < gaps] = np.nan
    return series.astype(np.float32)


@pytest.mark.parametrize("curve", range(len(dictionary_courses())))
def test_a_movement_along_a_curve_has_the_coordinates_of_that_curve(curve):
    rng = np.random.default_rng(curve)
    change = rng.normal(0, 20, 30)
    found = estimate_trend(histories(rng, change, curve, 0.01, gaps=0.1), WHEN, YEARS, np.repeat(np.arange(5), 6))
    wanted = change[:, None] * dictionary_courses()[curve]
    # What the shapes do not hold of the steepest curves is taken by the annual term and the shapes that there are.
    np.testing.assert_allclose(found.course, wanted, atol=0.03 * np.abs(change).max())


def test_coordinates_are_as_well_known_as_they_are_said_to_be():
    rng = np.random.default_rng(0)
    change = rng.normal(0, 10, 900)
    series = histories(rng, change, 0, 2.0, gaps=0.2)
    series[rng.random(series.shape) < 0.02] += 28  # an unwrapping error now and then
    found = estimate_trend(series, WHEN, YEARS, np.repeat(np.arange(90), 10))
    off = found.course - change[:, None] * dictionary_courses()[0]
    scaled = (found.course_root @ off[..., None])[..., 0]
    # Bent shapes know little of slow noise, for which the errors of a line allow.
    assert scaled[:, 0].std() == pytest.approx(1, abs=0.25)
    assert ((scaled.std(0) > 0.6) & (scaled.std(0) < 1.15)).all()


def test_a_row_depends_on_its_own_history_only_and_few_values_tell_little():
    rng = np.random.default_rng(1)
    series = histories(rng, np.full(8, 10.0), 7, 0.5)
    series[3, 15:] = np.nan
    building = np.arange(8)
    found = estimate_trend(series, WHEN, YEARS, building)
    alone = estimate_trend(series[3:4], WHEN, YEARS, building[:1])
    np.testing.assert_allclose(found.course[3], alone.course[0], rtol=1e-4, atol=1e-3)
    least = np.linalg.svd(found.course_root)[1][:, -1]
    assert np.isfinite(found.course).all()
    assert least[3] < 0.1 * np.delete(least, 3).min()


def test_no_course_is_known_where_only_the_line_is_asked():
    series = histories(np.random.default_rng(2), np.full(6, 10.0), 0, 0.5)
    found = estimate_trend(series, WHEN, 0.6, np.zeros(6, int))
    for part, nothing in zip((found.course, found.course_root), unknown_courses(6), strict=True):
        np.testing.assert_array_equal(part, nothing)
