"""What fails in a city: in shares, one or two at once, and by strains whose logarithm is uniform."""

import numpy as np
import pytest
from pydantic import ValidationError

from plumbline.core.strain import MECHANISMS
from plumbline.params.simulate import Mechanisms
from plumbline.simulate.structure.failures import (
    NONE,
    SEVERAL,
    TARGET_PERMILLE,
    LocalFailures,
    draw_local_failures,
)
from plumbline.simulate.structure.labels import strains

COUNT = 600
SIDE = np.random.default_rng(1).uniform(7, 30, (COUNT, 2))
STANDING = np.ones((COUNT, 4), bool)
EVERY = np.arange(COUNT)


def drawn(damaged=1.0, seed=0, **shares) -> LocalFailures:
    """Failures of a town of rectangles; `shares` alone, if any."""
    section = {name: shares.get(name, 0.0) for name in (*MECHANISMS[:5], "twice")} if shares else {}
    return draw_local_failures(np.random.default_rng(seed), SIDE, STANDING, damaged, Mechanisms(**section))


@pytest.fixture(scope="module")
def town() -> LocalFailures:
    return drawn(0.8)


def strain_of(failure) -> np.ndarray:
    return strains(failure.field, SIDE).severity_permille


def test_failures_are_in_the_shares_that_params_name():
    found = drawn(corner=2.0, end=1.0, step=0.0, bowl=0.0, bending=1.0).mechanism
    share = np.bincount(found[found != NONE], minlength=6) / (found != NONE).sum()
    np.testing.assert_allclose(share, [0.5, 0.25, 0, 0, 0.25, 0], atol=0.04)


@pytest.mark.parametrize("shares", [dict.fromkeys(MECHANISMS[:5], 0), {"bowl": -0.1}, {"twice": 1.5}, {"sinkhole": 1}])
def test_shares_that_are_none_are_refused(shares):
    with pytest.raises(ValidationError, match=r"damaged: 0|bowl|twice|sinkhole"):
        Mechanisms(**shares)


def test_the_undamaged_share_has_no_drop_and_does_not_move(town):
    sound = ~town.failing
    assert sound.mean() == pytest.approx(0.2, abs=0.07)  # and a few which would have to drop too far
    assert (town.mechanism == NONE)[sound].all()
    assert not town.first.drop[sound].any()
    assert not town.second.drop[sound].any()
    assert not town.strains.by_quadrant[sound].any()
    still = np.flatnonzero(sound)
    assert not np.any(town.field(still, *(SIDE[still] * 0.3).T))
    assert town.first.drop[~sound].all()


def test_two_fail_at_once_in_their_share_and_are_called_several():
    found = drawn(corner=1, end=1, step=1, bowl=1, bending=1, twice=0.4)
    twice = found.second.drop != 0
    np.testing.assert_array_equal(found.mechanism == SEVERAL, twice)
    assert twice.sum() / found.failing.sum() == pytest.approx(0.4, abs=0.08)
    assert not drawn(corner=1, bowl=1).second.drop.any()


def test_each_by_itself_strains_by_the_target_and_the_second_by_half_of_it_at_least(town):
    first, second = strain_of(town.first), strain_of(town.second)
    failed, twice = town.failing, town.mechanism == SEVERAL
    assert (first[failed] >= TARGET_PERMILLE[0] * 0.999).all()
    assert (first <= TARGET_PERMILLE[1] * 1.001).all()
    share = second[twice] / first[twice]
    assert (share > 0.499).all()
    assert (share < 1.001).all()
    assert share.mean() == pytest.approx(0.75, abs=0.04)


def test_the_logarithm_of_the_strain_is_uniform():
    """Of corners: of bowls beside the building the worst would drop too far, and are left out."""
    found = drawn(corner=1.0)
    low, high = np.log(TARGET_PERMILLE)
    place = np.sort((np.log(found.strains.severity_permille[found.failing]) - low) / (high - low))
    assert len(place) > 0.97 * COUNT
    assert np.abs(place - np.linspace(0, 1, len(place))).max() < 1.63 / np.sqrt(len(place))  # Kolmogorov, 1 in 100


def test_the_label_is_that_of_both_together(town):
    whole = strains(town.field, SIDE)
    np.testing.assert_allclose(town.strains.severity_permille, whole.severity_permille, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(town.strains.by_quadrant, whole.by_quadrant, rtol=1e-9, atol=1e-12)
    assert whole.accepted[EVERY, town.strains.quadrant][town.failing].all()  # of several as bad, rounding says which
    parts = [np.stack(part.field(EVERY, *(SIDE * 0.2).T)) for part in (town.first, town.second)]
    np.testing.assert_allclose(np.stack(town.field(EVERY, *(SIDE * 0.2).T)), sum(parts), atol=1e-12)


def test_a_corner_that_fails_is_the_quadrant_of_the_label():
    found = drawn(corner=1.0)
    failed = found.failing
    np.testing.assert_array_equal(found.strains.quadrant[failed], found.first.corner.corner[failed])


def test_strains_grow_with_the_drop(town):
    factor = np.random.default_rng(2).uniform(0, 3, COUNT)
    np.testing.assert_allclose(strain_of(town.first.scaled(factor)), factor * strain_of(town.first), atol=1e-9)
    scaled = town.strains.scaled(factor)
    np.testing.assert_array_equal(scaled.accepted[factor > 0], town.strains.accepted[factor > 0])
