import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from plumbline.prepare.series.temporal_basis import (
    RIDGE,
    amplitudes,
    curves,
    fitted,
    make_basis,
    normal_matrices,
    residual_squares,
)

WHEN = np.linspace(0, 1, 60)


@given(seed=st.integers(0, 10_000), years=st.floats(1.2, 6), gaps=st.floats(0, 0.4))
@example(seed=1890, years=1.5, gaps=0.375)  # of a movement that is soon at rest, a row has hardly a value in time
def test_every_curve_is_fitted_as_least_squares_would_alone(seed, years, gaps):
    rng = np.random.default_rng(seed)
    weight = rng.uniform(0.1, 1, (3, 60)) * (rng.random((3, 60)) >= gaps)
    y = rng.normal(0, 10, (3, 60)) + 30 * WHEN
    basis = make_basis(WHEN, years)
    normal = normal_matrices(basis, weight)
    found = amplitudes(basis, normal, weight * y)
    square = residual_squares(normal, found, weight * y, y)
    for row in range(3):
        # The ridge that keeps short series solvable, as four more values that say 0 of each coefficient.
        ridge = np.sqrt(RIDGE * weight[row].sum()) * np.eye(4)
        for number, curve in enumerate(curves(WHEN)):
            plain = np.sqrt(weight[row])[:, None] * np.stack([*basis.columns[:3], curve], axis=1)
            design, value = np.vstack([plain, ridge]), np.r_[np.sqrt(weight[row]) * y[row], np.zeros(4)]
            expected, left, *_ = np.linalg.lstsq(design, value, rcond=None)
            assert found.amplitude[number, row] == pytest.approx(expected[3], rel=1e-6, abs=1e-6)
            assert square[number, row] == pytest.approx(left[0], rel=1e-6)
            variance = np.linalg.inv(design.T @ design)[3, 3]
            assert 1 / normal.curve_pivot[number, row] == pytest.approx(variance, rel=1e-6)
            whole = fitted(basis, normal, found, np.full(3, number))[row]
            np.testing.assert_allclose(whole, basis.columns[[0, 1, 2, 3 + number]].T @ expected, atol=1e-5)
            if np.linalg.cond(plain) < 10:  # and where the values tell the curve from an offset, it moves nothing
                bare = np.linalg.lstsq(plain, value[:60], rcond=None)[0]
                assert found.amplitude[number, row] == pytest.approx(bare[3], rel=1e-3, abs=0.02)
                np.testing.assert_allclose(whole, basis.columns[[0, 1, 2, 3 + number]].T @ bare, atol=0.05)


def test_a_series_of_few_values_has_an_answer():
    weight = np.zeros((1, 60))
    weight[0, :2] = 1
    basis = make_basis(WHEN, 3.0)
    normal = normal_matrices(basis, weight)
    found = amplitudes(basis, normal, weight * 5.0)
    assert np.isfinite(found.amplitude).all()
    assert (normal.curve_pivot > 0).all()
