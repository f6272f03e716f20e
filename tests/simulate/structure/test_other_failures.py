import numpy as np
import pytest

from plumbline.simulate.structure.failures import BENDING, BOWL, END, STEP, Failures
from plumbline.simulate.structure.labels import strains

SIDE = np.array([[20.0, 12.0]])


def one(kind: int, **changes: float | tuple[float, float]) -> Failures:
    """A failure of a building of 20 by 12 m, by 1 mm downwards; eastwards where it has a direction."""
    values = {"at": (0.0, 0.0), "direction": (1.0, 0.0), "width": 1.0, "reach": 10.0, "power": 1.0, "pull": 0.0}
    values |= {"drop": -1.0} | changes
    return Failures(np.array([kind]), **{name: np.array([value]) for name, value in values.items()})


def strain_of(failure: Failures, side: np.ndarray = SIDE):
    return strains(failure.field, side)


def test_a_step_in_closed_form():
    """A jump of 1 mm in the middle tilts a side of L by 1.5 / L: beta = 1/4 - 1.5/20, half of it strain."""
    found = strain_of(one(STEP, width=0.3))
    assert found.severity_permille[0] == pytest.approx((1 / 4 - 1.5 / 20) / 2, rel=0.01)
    assert found.accepted.all()  # the joint runs through the middle, from end to end


def test_an_end_in_closed_form_and_both_of_its_quadrants_are_right():
    """A sharp hinge in the middle: slope 1/10 beyond it, the plane has half of that."""
    found = strain_of(one(END, width=0.02))
    assert found.severity_permille[0] == pytest.approx((1 / 10 - 1 / 20) / 2, rel=0.02)
    west = strain_of(one(END, width=0.02, at=(3.0, 0.0), reach=7.0))
    np.testing.assert_array_equal(west.accepted[0], [True, False, False, True])


def test_a_bowl_of_knothe_in_closed_form():
    """A wide building under a narrow bowl: no plane to speak of; the chord over a bay from the middle outwards."""
    side = np.array([[40.0, 40.0]])
    found = strain_of(one(BOWL, width=6.0, at=(5.0, 5.0)), side)
    sigma, bay = 2.0, 4.0
    middle = np.linspace(0, 6, 601)
    chord = (np.exp(-0.5 * (middle / sigma) ** 2) - np.exp(-0.5 * ((middle + bay) / sigma) ** 2)) / bay
    assert found.severity_permille[0] == pytest.approx(chord.max() / 2, rel=0.03)
    assert found.quadrant[0] == 0


def test_a_bowl_draws_inwards_and_its_edge_is_where_it_should_be():
    for power, edge in ((1.0, np.exp(-4.5)), (2.0, 0.0)):
        up, along_x, along_y = one(BOWL, width=5.0, power=power, pull=0.4).field(
            np.zeros(3, int), np.array([5.0, 2.0, 0.0]), np.zeros(3)
        )
        assert up[0] == pytest.approx(-edge, abs=1e-12)
        assert up[2] == pytest.approx(-1)
        assert along_x[1] < 0
        assert along_x[2] == along_y[1] == 0


def test_bending_over_a_trough_in_closed_form():
    """Sagging over the axis: the plane is level, the chord over a bay steepest about the inflection."""
    found = strain_of(one(BENDING, width=5.0))
    start = np.linspace(0, 6, 601)
    chord = (np.exp(-0.5 * (start / 5) ** 2) - np.exp(-0.5 * ((start + 4) / 5) ** 2)) / 4
    assert found.severity_permille[0] == pytest.approx(chord.max() / 2, rel=0.02)
