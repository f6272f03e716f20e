import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.params import Prepare
from plumbline.prepare.assignment.owners import collect_scatterers, find_owners
from plumbline.prepare.response.decompose import building_means, motion_table, solve_units, track_means
from tests.prepare.made import ASCENDING, DESCENDING, EPOCHS, ORIGIN, box, los_of, make_track, series

STEEPER = (-0.40, -0.09, 0.91)  # another ascending track
LOS = los_of(ASCENDING, DESCENDING, STEEPER)
UNITS = 1500


def decompose(unit, track, los, rate, se, common, units, tracks):
    """Up and east of units, with all of their points at once."""
    means = track_means(unit, track, los, rate=rate, rate_se=se, common_se=common, shape=(units, tracks))
    return solve_units(means)


def observe(rng, motion, tracks=2, points=6, sd=0.5, *, common=0.0, between=0.0, constants=(0, 0, 0)):
    """`decompose`'s arguments: every track has `points` points on every unit; `motion` (U, 3) east, north, up."""
    units = len(motion)
    unit = np.repeat(np.arange(units), points * tracks)
    track = np.tile(np.repeat(np.arange(tracks), points), units)
    se = rng.uniform(0.5, 1.5, len(unit)) * sd
    rate = (motion[unit] * LOS[track]).sum(1) + np.asarray(constants)[track]
    rate += rng.normal(0, np.hypot(se, between)) + (common * rng.normal(size=(units, tracks)))[unit, track]
    return unit, track, LOS[track], rate, np.maximum(se, 1e-3), np.full(len(unit), common), units, tracks


def motions(rng, units=UNITS, north=0.0):
    motion = rng.normal(0, 4, (units, 3))
    motion[:, 1] = north
    return motion


@given(seed=st.integers(0, 10_000), tracks=st.integers(2, 3), points=st.integers(1, 9), units=st.integers(1, 6))
def test_up_and_east_come_back_exactly_where_nothing_disturbs(seed, tracks, points, units):
    rng = np.random.default_rng(seed)
    motion = motions(rng, units)
    unit, track, *_ = observe(rng, motion, tracks, points)
    turned = LOS[:tracks] + rng.normal(0, 0.03, (units, tracks, 3))  # each unit is seen a little differently
    los = (turned / np.linalg.norm(turned, axis=2, keepdims=True))[unit, track]
    rate, se = (motion[unit] * los).sum(1), rng.uniform(0.1, 1, len(unit))
    order = rng.permutation(len(unit))
    found = decompose(unit[order], track[order], los[order], rate[order], se, 0 * se, units, tracks)
    np.testing.assert_allclose(found.up, motion[:, 2], atol=1e-8)
    np.testing.assert_allclose(found.east, motion[:, 0], atol=1e-8)
    assert (found.points == points * tracks).all()
    assert (found.tracks == tracks).all()


@pytest.mark.parametrize(
    ("points", "common", "between"),
    [(1, 0.0, 0.0), (2, 0.5, 0.0), (3, 0.4, 0.4), (6, 0.0, 0.0), (6, 0.6, 0.0), (6, 0.0, 1.0), (20, 0.3, 1.0)],
)
def test_standard_errors_cover_the_truth(points, common, between):
    rng = np.random.default_rng(points)
    motion = motions(rng)
    found = decompose(*observe(rng, motion, points=points, common=common, between=between))
    for value, error, truth in ((found.up, found.up_se, motion[:, 2]), (found.east, found.east_se, motion[:, 0])):
        covered = np.mean(np.abs(value - truth) < 1.96 * error)
        assert 0.93 < covered < 0.985
        assert np.std((value - truth) / error) > 0.78


def test_more_and_better_points_count_more():
    """Closed form: one point a track with errors s1, s2; the covariance is that of the 2 x 2 system."""
    unit, track = np.zeros(2, int), np.arange(2)
    errors, shared = np.array([0.3, 0.8]), np.array([0.4, 0.0])
    found = decompose(unit, track, LOS[:2], np.zeros(2), errors, shared, 1, 2)
    inverse = np.linalg.inv(LOS[:2][:, [0, 2]])
    covariance = inverse @ np.diag(errors**2 + shared**2) @ inverse.T
    np.testing.assert_allclose([found.east_se[0], found.up_se[0]], np.sqrt(np.diag(covariance)))


def test_from_one_side_up_alone_under_the_assumption_that_east_is_zero():
    motion = np.array([[2.0, 0.0, -5.0], [0.0, 0.0, 3.0], [1.0, 0.0, 1.0]])
    unit, track = np.array([0, 1, 1]), np.array([0, 0, 2])  # the second from two tracks of the same side; none third
    rate = (motion[unit] * LOS[track]).sum(1)
    found = decompose(unit, track, LOS[track], rate, np.full(3, 0.5), np.zeros(3), 3, 3)
    np.testing.assert_allclose(found.up[:2], [-5 + 2 * LOS[0, 0] / LOS[0, 2], 3])
    assert found.up_se[0] == pytest.approx(0.5 / LOS[0, 2])
    assert np.isnan(found.east).all()
    assert np.isinf(found.east_se).all()
    assert np.isnan(found.up[2])
    assert np.isinf(found.up_se[2])
    assert found.tracks.tolist() == [1, 2, 0]


@given(st.floats(-20, 20))
def test_a_northward_motion_shifts_the_answers_by_what_is_stated(north):
    rng = np.random.default_rng(0)
    motion = motions(rng, 5, north)
    unit, track = np.repeat(np.arange(5), 2), np.tile(np.arange(2), 5)
    rate = (motion[unit] * LOS[track]).sum(1)
    found = decompose(unit, track, LOS[track], rate, np.full(10, 0.5), np.zeros(10), 5, 2)
    (a_east, a_north, a_up), (d_east, d_north, d_up) = LOS[:2]
    determinant = a_up * d_east - d_up * a_east
    up_per_north = (a_north * d_east - d_north * a_east) / determinant
    east_per_north = (a_up * d_north - d_up * a_north) / determinant
    np.testing.assert_allclose(found.up - motion[:, 2], up_per_north * north, atol=1e-9)
    np.testing.assert_allclose(found.east - motion[:, 0], east_per_north * north, atol=1e-9)


def test_outliers_hardly_move_the_answer():
    rng = np.random.default_rng(1)
    motion = motions(rng)
    clean = observe(rng, motion, points=10)
    spoilt = list(clean)
    spoilt[3] = clean[3] + 15 * (np.arange(len(clean[3])) % 10 == 0)
    before, after = decompose(*clean), decompose(*spoilt)
    for name in ("up", "east"):
        shift = np.abs(getattr(after, name) - getattr(before, name))
        assert np.mean(shift < getattr(after, f"{name}_se")) > 0.95
        assert np.median(shift / getattr(after, f"{name}_se")) < 0.5


@given(st.lists(st.floats(-30, 30), min_size=3, max_size=3), st.integers(0, 1000))
def test_of_three_tracks_constants_one_combination_is_found(constants, seed):
    rng = np.random.default_rng(seed)
    motion = motions(rng, 40)
    unit, track = np.repeat(np.arange(40), 3), np.tile(np.arange(3), 40)
    rate = (motion[unit] * LOS[track]).sum(1) + np.asarray(constants)[track]
    found = decompose(unit, track, LOS[track], rate, np.full(120, 0.5), np.zeros(120), 40, 3)
    # What is left of the constants is a motion common to all units, east and up, and that is all that is wrong.
    left = np.linalg.lstsq(LOS[:, [0, 2]], np.asarray(constants) - found.offset, rcond=None)[0]
    np.testing.assert_allclose(LOS[:, [0, 2]] @ left, np.asarray(constants) - found.offset, atol=1e-3)
    np.testing.assert_allclose(found.east - motion[:, 0], left[0], atol=1e-3)
    np.testing.assert_allclose(found.up - motion[:, 2], left[1], atol=1e-3)
    # And of all constants that the data allow, these are the smallest.
    np.testing.assert_allclose(LOS[:, [0, 2]].T @ found.offset, 0, atol=1e-9)


def test_the_constants_of_two_tracks_are_no_matter_of_data():
    rng = np.random.default_rng(3)
    unit, track, los, rate, *rest = observe(rng, motions(rng, 50))
    found = decompose(unit, track, los, rate, *rest)
    shifted = decompose(unit, track, los, rate + np.array([7.0, -4.0])[track], *rest)
    np.testing.assert_array_equal(found.offset, 0)
    np.testing.assert_array_equal(shifted.offset, 0)
    common = np.linalg.solve(LOS[:2][:, [0, 2]], [7.0, -4.0])
    np.testing.assert_allclose(shifted.east - found.east, common[0], atol=1e-9)
    np.testing.assert_allclose(shifted.up - found.up, common[1], atol=1e-9)


def test_some_units_that_contradict_the_rest_do_not_decide_the_constants():
    rng = np.random.default_rng(4)
    arguments = list(observe(rng, motions(rng, 200), tracks=3, sd=0.2))
    honest = decompose(*arguments).offset
    arguments[3] = arguments[3] + 20 * ((arguments[0] < 20) & (arguments[1] == 2))
    np.testing.assert_allclose(decompose(*arguments).offset, honest, atol=0.2)


def test_units_in_parts_are_the_units_together():
    """Tiles: their means put one after the other are solved like the city at once."""
    rng = np.random.default_rng(5)
    unit, track, los, rate, se, common, units, tracks = observe(rng, motions(rng, 30), tracks=3, constants=(3, 0, -2))
    whole = decompose(unit, track, los, rate, se, common, units, tracks)
    parts = []
    for low, high in ((0, 11), (11, 30)):
        own = (unit >= low) & (unit < high)
        rates = {"rate": rate[own], "rate_se": se[own], "common_se": common[own]}
        parts.append(track_means(unit[own] - low, track[own], los[own], **rates, shape=(high - low, tracks)))
    joined = solve_units(type(parts[0])(*(np.concatenate(part) for part in zip(*parts, strict=True))))
    for name, one, other in zip(whole._fields, whole, joined, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-12, err_msg=name)


TURNS = (0, 30, -44, 20)
MOTION = np.array([[3.0, 0, -6.0], [-2.0, 0, 1.0], [0.5, 0, 4.0], [1.0, 0, -3.0]])
"""East, north, up of the four buildings, mm/yr."""
YEARS = float((EPOCHS[-1] - EPOCHS[0]) / np.timedelta64(1, "D")) / 365.25


def town(sides=((0, 1), (0, 1), (0,), ()), common=0.0, seed=0):
    """Four turned houses, seen by the tracks of `sides`, that move as `MOTION` says: (scatterers, frame)."""
    rng = np.random.default_rng(seed)
    footprints = np.array([box(20, 12, (60 * i, 0), turn) for i, turn in enumerate(TURNS)], object)
    tracks = []
    for number, los in enumerate(los_of(ASCENDING, DESCENDING)):
        position = [ORIGIN + np.array([60 * i, 0]) + rng.uniform(-4, 4, (8, 2)) for i in range(4) if number in sides[i]]
        moved = np.concatenate([np.full(8, MOTION[i] @ los * YEARS) for i in range(4) if number in sides[i]])
        histories = series(moved, rng, noise=1.0)
        shared = common * rng.normal(size=(len(position), len(EPOCHS)))
        histories += np.repeat(shared, 8, axis=0)
        tracks.append(make_track(f"t{number}", np.concatenate(position), np.zeros(len(moved)), los, histories))
    return collect_scatterers(tracks, footprints, find_owners(tracks, footprints, Prepare(buffer_m=1.0)).of)


def table(*args, **kwargs):
    ids = np.array([f"b{i}" for i in range(4)], object)
    return motion_table(ids, building_means(*town(*args, **kwargs), tracks=2)).set_index("building_id")


def test_each_building_moves_as_it_was_made_to():
    found = table()
    both = found.loc[["b0", "b1"]]
    np.testing.assert_allclose(both["up_mm_yr"], MOTION[:2, 2], atol=4 * both["up_se_mm_yr"].max())
    np.testing.assert_allclose(both["east_mm_yr"], MOTION[:2, 0], atol=4 * both["east_se_mm_yr"].max())
    assert both["up_se_mm_yr"].max() < 0.3
    assert found["sides"].tolist() == ["both", "both", "one", "none"]
    assert found["tracks"].tolist() == [2, 2, 1, 0]
    assert found["points"].tolist() == [16, 16, 8, 0]


def test_what_cannot_be_told_is_empty_and_up_then_holds_the_part_of_east():
    found = table()
    assert found.loc[["b2", "b3"], ["east_mm_yr", "east_se_mm_yr"]].isna().all(axis=None)
    assert found.loc["b3", ["up_mm_yr", "up_se_mm_yr"]].isna().all()
    los = los_of(ASCENDING)[0]
    expected = MOTION[2, 2] + MOTION[2, 0] * los[0] / los[2]
    assert found.loc["b2", "up_mm_yr"] == pytest.approx(expected, abs=4 * found.loc["b2", "up_se_mm_yr"])


@pytest.mark.parametrize("common", [0.0, 2.0])
def test_standard_errors_hold_what_all_points_of_a_building_share(common):
    scaled = []
    for seed in range(25):
        found = table(((0, 1), (0, 1), (0, 1), (0, 1)), common=common, seed=seed)
        scaled.append((found["up_mm_yr"] - MOTION[:, 2]) / found["up_se_mm_yr"])
        scaled.append((found["east_mm_yr"] - MOTION[:, 0]) / found["east_se_mm_yr"])
    assert 0.92 < np.mean(np.abs(scaled) < 1.96) < 0.99
