import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from plumbline.prepare.response.rigid_body import PRIOR_SD, local_motion
from tests.prepare.made import ASCENDING, DESCENDING, los_of

UP, X, Y, EAST = range(4)


def observe(xy, los, up, east=0.0, variance=0.04, *, mask=None):
    """Local motion of one building (1, P) whose scatterers move by `up` and `east`, mm; x is east."""
    los = np.broadcast_to(los, (*xy.shape[:2], 3))
    residual = up * los[..., 2] + east * los[..., 0]
    mask = np.ones(xy.shape[:2], bool) if mask is None else mask
    return local_motion(
        xy, los, east=los[..., 0], residual=residual, variance=np.full(residual.shape, variance), mask=mask
    )


def lattice(side=12.0, step=1.5):
    along = np.arange(-side / 2, side / 2 + 0.1, step)
    return np.stack(np.meshgrid(along, along), axis=-1).reshape(1, -1, 2)


@given(st.floats(-10, 10), st.floats(-1.5, 1.5), st.floats(-1.5, 1.5))
def test_a_linear_vertical_field_is_found_where_there_are_points(level, gradient_x, gradient_y):
    xy = lattice()
    up = level + gradient_x * xy[..., 0] + gradient_y * xy[..., 1]
    los = los_of(ASCENDING, DESCENDING)[np.arange(xy.shape[1]) % 2]
    estimate, error = observe(xy, los, up)
    np.testing.assert_allclose(estimate[..., UP], up, atol=0.1)
    np.testing.assert_allclose(estimate[..., X], gradient_x, atol=0.04)
    np.testing.assert_allclose(estimate[..., Y], gradient_y, atol=0.04)
    np.testing.assert_allclose(estimate[..., EAST], 0, atol=0.1)
    assert error.max() < 0.5


@given(st.floats(-4, 4), st.floats(-8, 8))
def test_two_tracks_tell_east_from_up_and_one_does_not(east, up):
    xy = lattice()
    los = los_of(ASCENDING, DESCENDING)
    both = observe(xy, los[np.arange(xy.shape[1]) % 2], up, east)
    np.testing.assert_allclose(both.estimate[..., EAST], east, atol=0.1)
    np.testing.assert_allclose(both.estimate[..., UP], up, atol=0.1)
    assert both.standard_error[..., EAST].max() < 0.3
    one = observe(xy, los[0], up, east)
    # One equation for two unknowns: the prior decides, and the error says so.
    assert one.standard_error[..., EAST].min() > 0.95 * PRIOR_SD[EAST]
    seen = one.estimate[..., UP] * los[0, 2] + one.estimate[..., EAST] * los[0, 0]
    np.testing.assert_allclose(seen, up * los[0, 2] + east * los[0, 0], atol=0.05)


def test_a_lone_scatterer_answers_with_the_prior():
    """Scalar closed form: prior variance times response over prior plus noise."""
    estimate, error = observe(np.zeros((1, 1, 2)), np.array([0.0, 0.0, 1.0]), np.array([[10.0]]), variance=4.0)
    np.testing.assert_allclose(estimate[0, 0], [10 * PRIOR_SD[UP] ** 2 / (PRIOR_SD[UP] ** 2 + 4), 0, 0, 0], atol=1e-12)
    np.testing.assert_allclose(error[0, 0, UP], np.sqrt(1 / (1 / PRIOR_SD[UP] ** 2 + 1 / 4)))
    np.testing.assert_allclose(error[0, 0, 1:], PRIOR_SD[1:])


def test_errors_are_honest_for_draws_from_the_prior():
    rng = np.random.default_rng(0)
    scaled = []
    for _ in range(300):
        xy = rng.uniform(-3, 3, (1, 12, 2))
        truth = rng.normal(0, PRIOR_SD)
        los = los_of(ASCENDING, DESCENDING)[rng.integers(0, 2, 12)][None]
        apart = xy - xy[:, :1]
        moved = truth[UP] + truth[X] * apart[..., 0] + truth[Y] * apart[..., 1]
        residual = moved * los[..., 2] + truth[EAST] * los[..., 0] + rng.normal(0, 1, (1, 12))
        about = {"residual": residual, "variance": np.ones((1, 12)), "mask": np.ones((1, 12), bool)}
        estimate, error = local_motion(xy, los, east=los[..., 0], **about)
        scaled.append((estimate[0, 0] - truth) / error[0, 0])
    # Neighbours count less with distance, so the errors are on the safe side.
    assert (np.std(scaled, axis=0) < 1.15).all()
    assert (np.std(scaled, axis=0) > 0.5).all()
