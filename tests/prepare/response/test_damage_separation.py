from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.prepare.response.damage_separation import separate
from plumbline.prepare.response.rigid_body import remove_rigid
from plumbline.prepare.series.temporal_basis import Courses, curves, unknown_courses
from plumbline.prepare.series.trend import estimate_trend
from tests.prepare.made import FEWER
from tests.prepare.response.test_rigid_body import arrange, rigid_motion, spread_out

WHEN, YEARS = np.linspace(0, 1, 90), 3.0
LINE, LATE = 0, 8
"""Places in the dictionary."""


class Scene(NamedTuple):
    """One building: what `separate` takes, and the damage that it should find but for rigid motion (1, P)."""

    given: tuple
    track: np.ndarray
    mask: np.ndarray
    rigid: object
    error: np.ndarray
    courses: Courses
    true: np.ndarray

    def found(self):
        of_points = {name: getattr(self, name) for name in ("track", "mask", "rigid", "error", "courses")}
        return separate(*self.given, **of_points)


def scene(seed, damage_curve, astray=0.0, noise=0.3, drop=40.0, *, tilt=(1.5, -2.0), count=40, tracks=2, **form):
    """A building that tilts steadily and whose corner drops along a curve, with positions wrong by `astray` m.

    `form` may have a `layout` of the scatterers. Half of the building sinks in place of the corner where that is a
    `wing`, and what each track shares wanders.
    """
    layout, wing = form.get("layout"), form.get("wing", False)
    rng = np.random.default_rng(seed)
    xy, height, los, track = arrange(rng, count, tracks)
    if layout:
        xy = spread_out(rng, layout, count, (20, 12))
    part = np.clip(2 * xy / (20, 12), 0, 1).prod(-1)
    if wing:
        part = np.clip(2 * (xy / (20, 12)).sum(-1) - 0.2, 0, 1)
    damage = -drop * part * los[..., 2]
    tilted = rigid_motion(
        xy + rng.normal(0, astray, xy.shape), height, los, -10, tilt, sideways=(0, 0), offset=(5, -5), track=track
    )
    series = tilted[0][:, None] * curves(WHEN)[LINE] + damage[0][:, None] * curves(WHEN)[damage_curve]
    if wing:
        series += np.cumsum(rng.normal(0, 0.6, (tracks, len(WHEN))), 1)[track[0]]
    series = (series + rng.normal(0, noise, series.shape)).astype(np.float32)
    change, error = np.zeros((2, 1, count))
    courses = Courses(*(part[None].copy() for part in unknown_courses(count)))
    for number in range(tracks):
        rows = np.flatnonzero(track[0] == number)
        trend = estimate_trend(series[rows], WHEN, YEARS, np.zeros(len(rows), int))
        change[0, rows], error[0, rows] = trend.change, trend.change_se
        courses.course[0, rows], courses.course_root[0, rows] = trend.course, trend.course_root
    mask = np.ones((1, count), bool)
    rigid = remove_rigid(xy, height, los, change=change, change_se=error, track=track, mask=mask)
    true = remove_rigid(xy, height, los, change=damage, change_se=np.ones_like(damage), track=track, mask=mask).residual
    return Scene((xy, height, los), track, mask, rigid, error, courses, true)


def rms(values):
    return float(np.sqrt(np.mean(np.square(values))))


def errors(scenes):
    """Of all scatterers: what the residual is off the truth, what the damage found is, and its stated errors."""
    found = [one.found() for one in scenes]
    off = [one.damage - scene.true for one, scene in zip(found, scenes, strict=True)]
    return (
        np.concatenate([(scene.rigid.residual - scene.true)[0] for scene in scenes]),
        np.concatenate([part[0] for part in off]),
        np.concatenate([one.error[0] for one in found]),
    )


def test_a_late_damage_is_told_from_a_steady_tilt_at_wrong_positions():
    before, after, _ = errors([scene(seed, LATE, astray=2.0) for seed in range(12)])
    assert rms(after) < 0.75 * rms(before)
    assert np.median(np.abs(after)) < 0.5 * np.median(np.abs(before))


def test_what_moves_as_the_tilt_does_stays_as_it_was():
    """Nothing tells a steady damage from a steady tilt: then it is left."""
    scenes = [scene(seed, LINE, noise=0.01) for seed in range(8)]
    found = [one.found() for one in scenes]
    residual = np.concatenate([one.rigid.residual[0] for one in scenes])
    damage = np.concatenate([one.damage[0] for one in found])
    assert (damage * residual).sum() / (residual**2).sum() == pytest.approx(1, abs=0.03)
    assert rms(damage - residual) < 0.06 * rms(residual)


@pytest.mark.parametrize(
    ("drop", "tilt", "astray"), [(120, (1, -2), 0.4), (200, (0.5, -0.5), 0.4), (120, (1.5, -2), 2)]
)
def test_a_large_steady_damage_is_not_taken_for_wrong_positions(drop, tilt, astray):
    """Half of a building that sinks by 200 mm: positions would have to be wrong by tens of metres."""
    kept = []
    for seed in range(8):
        one = scene(seed, LINE, astray, noise=0.4, drop=drop, tilt=tilt, count=60, wing=True)
        residual = one.rigid.residual
        kept.append((one.found().damage * residual).sum() / (residual**2).sum())
    assert min(kept) > 0.83


@pytest.mark.parametrize(("curve", "astray", "most"), [(LINE, 0.0, 1.1), (LATE, 0.0, 1.2), (LATE, 2.0, 2.0)])
def test_stated_errors_hold(curve, astray, most):
    _, after, error = errors([scene(seed, curve, astray, noise=1.0, count=16) for seed in range(20)])
    assert rms(after / error) < most


def test_without_a_tilt_wrong_positions_leave_nothing():
    before, after, error = errors([scene(seed, LINE, tilt=(0, 0), noise=1.0) for seed in range(10)])
    assert rms(after - before) < 0.5 * rms(error)


@FEWER
@given(st.integers(0, 1000), st.integers(0, 9))
def test_neither_order_nor_padding_nor_neighbours_matter(seed, more):
    one, other = scene(seed, LATE, astray=1.0, count=12), scene(seed + 1, LINE, count=12)
    rng = np.random.default_rng(seed)
    order = np.r_[rng.permutation(12), rng.integers(0, 12, more)]  # padding repeats rows
    mask = (np.arange(12 + more) < 12)[None]

    def padded(part):
        return part[:, order]

    both = [np.concatenate([padded(a), padded(b)]) for a, b in zip(one.given, other.given, strict=True)]
    of_points = {"track": np.concatenate([padded(one.track), padded(other.track)]), "mask": np.repeat(mask, 2, 0)}
    rigid = remove_rigid(*both, change=np.zeros((2, 12 + more)), change_se=np.zeros((2, 12 + more)), **of_points)
    residual, weight = (np.concatenate([padded(s.rigid[i]) for s in (one, other)]) for i in (0, 1))
    rigid = rigid._replace(residual=residual, weight=weight, spread=np.r_[one.rigid.spread, other.rigid.spread])
    error = np.concatenate([padded(one.error), padded(other.error)])
    parts = zip(one.courses, other.courses, strict=True)
    courses = Courses(*(np.concatenate([padded(a), padded(b)]) for a, b in parts))
    found = separate(*both, **of_points, rigid=rigid, error=error, courses=courses)
    for number, alone in enumerate((one.found(), other.found())):
        np.testing.assert_allclose(found.damage[number, :12], alone.damage[0, order[:12]], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(found.error[number, :12], alone.error[0, order[:12]], rtol=1e-5, atol=1e-5)
    assert not found.damage[:, 12:].any()


@pytest.mark.parametrize("layout", ["line", "cluster", "twice", "point"])
@pytest.mark.parametrize(("count", "tracks"), [(1, 1), (2, 1), (9, 2)])
def test_any_arrangement_has_an_answer(layout, count, tracks):
    for tilt in ((0, 0), (5, -5)):
        found = scene(0, LATE, tilt=tilt, count=count, tracks=tracks, layout=layout, noise=0.0).found()
        assert np.isfinite(found.damage).all()
        assert (found.error > 0).all()


def test_without_histories_nothing_changes():
    one = scene(4, LATE, astray=1.0)
    one.courses.course[0, 5] = np.nan  # of one scatterer only
    found = one.found()
    np.testing.assert_array_equal(found.damage, one.rigid.residual)
    np.testing.assert_array_equal(found.error, one.error)
