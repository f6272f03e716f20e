import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from plumbline.prepare.audit.distributions import (
    ColumnValues,
    bin_edges,
    bin_shares,
    compare,
    kolmogorov_smirnov,
    shift,
)
from plumbline.prepare.audit.reference import describe_columns, read_columns

COLUMN = (
    st.lists(st.floats(-100, 100) | st.integers(0, 3).map(float), min_size=1, max_size=60).map(sorted).map(np.array)
)


def test_the_index_of_two_normal_distributions_tends_to_the_square_of_their_distance():
    """Jeffreys' divergence of N(0, 1) and N(d, 1) is d^2; tenths lose a little of it."""
    rng = np.random.default_rng(0)
    one, other = np.sort(rng.normal(0, 1, 200_000)), np.sort(rng.normal(0.3, 1, 200_000))
    found = shift(one, other, 200_000, 200_000)
    assert 0.9 * 0.09 < found.psi < 0.09
    assert found.wasserstein_sd == pytest.approx(0.3, abs=0.01)
    assert found.ks == pytest.approx(2 * stats.norm.cdf(0.15) - 1, abs=0.01)


@given(COLUMN, COLUMN)
def test_kolmogorov_smirnov_is_scipys(one, other):
    assert kolmogorov_smirnov(one, other) == pytest.approx(stats.ks_2samp(one, other).statistic)


@given(COLUMN, COLUMN)
def test_every_value_is_in_one_bin_and_the_reference_in_none_of_the_outer_ones(one, other):
    edges = bin_edges(one)
    assert (np.diff(edges) > 0).all()
    shares = bin_shares(other, edges)
    assert shares.sum() == pytest.approx(1)
    assert (shares > 0).all()
    empty = 0.5 / (len(one) + 0.5 * (len(edges) + 1))
    assert bin_shares(one, edges)[[0, -1]] == pytest.approx([empty, empty])


@given(COLUMN, st.randoms())
def test_a_column_has_not_moved_from_itself(column, random):
    again = np.sort(np.array(random.sample(column.tolist(), len(column))))
    found = shift(column, again, len(column), len(column))
    assert (found.psi, found.ks) == (0, 0)
    assert found.wasserstein_sd in (0, None)


@pytest.mark.parametrize(("n", "m"), [(400, 40), (2000, 300)])
def test_the_index_by_chance_is_beyond_its_bound_about_as_rarely_as_it_says(n, m):
    """Of 300 pairs without drift, at most 1 % (here: a few) are beyond; so the bound is neither idle nor absent."""
    rng = np.random.default_rng(n)
    found = [shift(np.sort(rng.normal(size=n)), np.sort(rng.normal(size=m)), n, m) for _ in range(300)]
    ratio = np.array([one.psi / one.psi_chance for one in found])
    assert (ratio > 1).mean() <= 0.02
    assert np.quantile(ratio, 0.99) > 0.6


def test_stored_quantiles_stand_for_their_data():
    rng = np.random.default_rng(2)

    def columns(count, mean, most):
        normal, whole = rng.normal(mean, 1, count), rng.integers(1, most, count).astype(float)
        return ColumnValues(count, {"t.a": np.sort(normal), "t.b": np.sort(whole)})

    whole, now = columns(5000, 0.0, 4), columns(3000, 0.5, 3)
    kept = read_columns(json.loads(json.dumps(describe_columns(whole))))
    for key, exact in compare(whole, now).items():
        found = compare(kept, now)[key]
        assert found.ks == pytest.approx(exact.ks, abs=0.0051)
        assert found.wasserstein_sd == pytest.approx(exact.wasserstein_sd, abs=0.02)
        assert found.psi == pytest.approx(exact.psi, rel=0.25)
