import numpy as np
import pytest

from plumbline.simulate.structure.failures import (
    PRODUCT,
    Hinges,
    draw_hinges,
    ramp,
    softplus,
)
from plumbline.simulate.structure.labels import strains
from plumbline.simulate.structure.layout import CORNERS


@pytest.fixture(scope="module")
def drawn() -> Hinges:
    rng = np.random.default_rng(5)
    return draw_hinges(rng, rng.uniform(6, 60, (300, 2)), np.ones((300, 4), bool))


def test_every_failing_corner_drops_by_a_millimetre(drawn):
    every = np.arange(300)
    corner = CORNERS[drawn.corner] * drawn.half
    np.testing.assert_allclose(drawn.up(every, corner[:, 0], corner[:, 1]), -1, atol=1e-12)


def test_the_opposite_corner_stays_and_the_drop_grows_towards_the_failing_one(drawn):
    every = np.arange(300)
    corner = CORNERS[drawn.corner] * drawn.half
    along = np.stack([drawn.up(every, *(share * corner).T) for share in np.linspace(-1, 1, 41)])
    assert np.abs(along[0]).max() < 0.02
    assert (np.diff(along, axis=0) <= 1e-12).all()


def test_a_missing_corner_never_fails():
    standing = np.tile([True, False, True, True], (400, 1))
    corners = draw_hinges(np.random.default_rng(7), np.full((400, 2), 20.0), standing).corner
    assert set(corners) == {0, 2, 3}


def test_a_sharp_ramp_is_linear_beyond_its_start():
    u = np.array([-0.5, 0.2, 0.6, 0.8, 1.0])
    full = softplus(np.array(0.8 / 1e-4))
    np.testing.assert_allclose(ramp(u, 0.2, 1e-4, 1.0, full), [0, 0, 0.5, 0.75, 1], atol=1e-4)
    np.testing.assert_allclose(ramp(u, 0.2, 1e-4, 2.0, full), [0, 0, 0.25, 0.5625, 1], atol=1e-4)


def single(family, **changes) -> Hinges:
    values = {
        "family": np.array([family]),
        "corner": np.array([0]),
        "half": np.array([[10.0, 10.0]]),
        "start": np.array([[0.0, 0.0]]),
        "softness": np.array([1e-3]),
        "power": np.array([[1.0, 1.0]]),
        "weight": np.array([0.5]),
        "opening": np.array([0.0]),
        "drop": np.array([-1.0]),
    }
    return Hinges(**(values | changes))


def strain_of(hinges: Hinges):
    return strains(hinges.field, 2 * hinges.half)


def test_product_of_two_sharp_ramps_in_closed_form():
    """`-u v` in one quarter: tilt 1/16 a half side; steepest on the far edge: (1 - 1/8) / 10 m, half of it strain."""
    strain = strain_of(single(PRODUCT))
    assert strain.severity_permille[0] == pytest.approx((0.1 - 0.1 / 8) / 2, rel=0.01)
    assert strain.quadrant[0] == 0


def test_an_opening_strains_more_than_the_drop_alone():
    """Away along the diagonal by o times the drop u v: eps_l = o g / sqrt(2), beta = 7 g / 8, both at the edge."""
    closed, open_ = (strain_of(single(PRODUCT, opening=np.array([o]))).severity_permille[0] for o in (0.0, 0.3))
    beta, eps_l = 0.1 - 0.1 / 8, 0.3 * 0.1 / np.sqrt(2)
    assert closed == pytest.approx(beta / 2, rel=0.01)
    assert open_ == pytest.approx(eps_l / 2 + np.hypot(eps_l, beta) / 2, rel=0.01)


@pytest.mark.parametrize(("corner", "east", "north"), [(0, 1, 1), (1, -1, 1), (2, -1, -1), (3, 1, -1)])
def test_a_corner_that_opens_moves_away_from_its_own_building(corner, east, north):
    hinges = single(PRODUCT, corner=np.array([corner]), half=np.array([[10.0, 6.0]]), opening=np.array([0.2]))
    moved = hinges.field(np.zeros(1, int), np.array([10.0 * east]), np.array([6.0 * north]))
    outwards = 0.2 / np.sqrt(2)
    np.testing.assert_allclose(np.ravel(moved), [-1, outwards * east, outwards * north])


def test_half_of_the_failures_open_by_up_to_the_drop_itself():
    """By a third of it at most, and seldom, networks took what cities had for less strain than it was (decision 36)."""
    opening = draw_hinges(np.random.default_rng(9), np.full((2000, 2), 15.0), np.ones((2000, 4), bool)).opening
    assert (opening > 0).mean() == pytest.approx(0.5, abs=0.04)
    assert 0.98 < opening.max() <= 1.0
    assert opening[opening > 0].mean() == pytest.approx(0.5, abs=0.04)
