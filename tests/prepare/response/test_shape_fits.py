"""What scatterers tell of damage: known shapes come back, the evidence is exact, and noise is no damage."""

import numpy as np
import pytest
from scipy.special import logsumexp

from plumbline.core.strain import FAILURES
from plumbline.prepare.features.definition import quadrant_symmetry
from plumbline.prepare.response import shapes as shape_fits
from plumbline.prepare.response.rigid_body import rigid_design
from plumbline.prepare.response.shapes import (
    ALL,
    BOWL,
    CORNER,
    END,
    LIKELY_PERMILLE,
    LIKELY_TILT,
    LOG_PRIOR,
    MECHANISM,
    PLAIN,
    PULLS,
    STEP,
    WARY,
    WEAK_OFFSET,
    ShapeFits,
    accepted,
    fit_shapes,
    responses,
    strains_per_mm,
)
from plumbline.simulate.structure.failures import draw_failures, draw_hinges
from plumbline.simulate.structure.labels import strains
from tests.prepare.made import ASCENDING, DESCENDING, los_of

SIDE = np.array([[24.0, 18.0]])
PER_MM = strains_per_mm(SIDE)[0].max(1)
CORNERS = [number for number, shape in enumerate(ALL) if shape.mechanism == CORNER]


def number_of(mechanism: int, form: int = 0, towards=None, start=None, pull=0.0) -> int:
    """Of the first shape like this."""
    for number, shape in enumerate(ALL):
        same = (shape.mechanism, shape.form, shape.pull) == (mechanism, form, pull)
        if same and towards in (None, shape.towards) and start in (None, shape.start):
            return number
    raise LookupError


def corner(quadrant: int, form: int = 0, pull: float = 0.0) -> int:
    return number_of(CORNER, form, [(1, 1), (-1, 1), (-1, -1), (1, -1)][quadrant], pull=pull)


def scattered(rng, count=80):
    """Places, heights, LOS and tracks of scatterers on one building."""
    xy = rng.uniform(-0.5, 0.5, (1, count, 2)) * SIDE
    track = rng.integers(0, 2, (1, count))
    return xy, rng.uniform(0, 12, (1, count)), los_of(ASCENDING, DESCENDING)[track], track


def fit(xy, height, los, track, residual, *, error=0.5, side=SIDE) -> ShapeFits:
    every = np.ones(track.shape, bool)
    design = rigid_design(xy, height, los, track)
    side = np.broadcast_to(side, (len(xy), 2))
    return fit_shapes(xy, los, residual, error=np.full(track.shape, error), rigid=design, mask=every, side=side)


def observe(seeds, number, drop, count=80, noise=0.3, *, error=0.5) -> ShapeFits:
    """Fits of a building a seed, which do `drop` mm of a shape each."""
    buildings = []
    for seed, shape, size in zip(*np.broadcast_arrays(np.array(seeds), number, drop), strict=True):
        rng = np.random.default_rng(seed)
        xy, height, los, track = scattered(rng, count)
        moved = size * responses(xy, los, SIDE)[:, shape] + rng.normal(0, noise, (1, count))
        buildings.append((xy, height, los, track, moved))
    return fit(*map(np.concatenate, zip(*buildings, strict=True)), error=error)


SEEDS = range(10)


@pytest.mark.parametrize("drop", [-25.0, 12.0])
def test_a_known_corner_drop_comes_back(drop):
    for quadrant in range(4):
        fits = observe(SEEDS, corner(quadrant), drop)
        for name in ("best_gain", "corner_log_odds", "log_odds"):
            assert (getattr(fits, name).argmax(1) == quadrant).all(), name
        assert (fits.mechanism_gain.argmax(1) == CORNER).all()
        assert fits.corner_drop[:, quadrant].mean() == pytest.approx(drop, rel=0.06)
        severity = abs(drop) * PER_MM[corner(quadrant)]
        assert fits.best_severity[:, quadrant].mean() == pytest.approx(severity, rel=0.06)


@pytest.mark.parametrize("pull", PULLS)
@pytest.mark.parametrize("form", range(3))
def test_the_severity_of_a_corner_follows_its_shape_and_how_far_it_moves_away(form, pull):
    number = corner(2, form, pull)
    fits = observe(SEEDS, number, -2.0 / PER_MM[number])
    assert (fits.corner_log_odds.argmax(1) == 2).all()
    for name, place in (("corner_severity", 2), ("severity", 2), ("mechanism_severity", CORNER)):
        assert getattr(fits, name)[:, place].mean() == pytest.approx(2.0, rel=0.15), name


@pytest.mark.parametrize("mechanism", [END, STEP, BOWL])
def test_every_shape_is_told_by_its_mechanism_its_quadrants_and_its_strain(mechanism):
    """Ends and joints that open, and bowls; each by 2 permille."""
    numbers = np.flatnonzero(mechanism == MECHANISM)
    found = observe(numbers, numbers, -2.0 / PER_MM[numbers], count=400)
    assert (found.mechanism_gain.argmax(1) == mechanism).all()
    for number, severity, odds in zip(numbers, found.mechanism_severity[:, mechanism], found.log_odds, strict=True):
        # What opens looks, along most lines of sight, much like what only drops: both count.
        assert severity == pytest.approx(2.0, rel=0.4 if ALL[number].pull else 0.25), ALL[number]
        right = accepted(strains_per_mm(SIDE)[0, number])
        assert np.exp(odds)[right].sum() > 0.7, ALL[number]
        assert right[odds.argmax()], ALL[number]


@pytest.mark.parametrize("which", [(True, False, False), (False, False, True), (True, True, True)], ids=str)
def test_a_mirrored_building_has_mirrored_evidence(which):
    """Every third shape, on a building of its own: as `augment` turns what was prepared."""
    rng, numbers = np.random.default_rng(6), np.arange(0, len(ALL), 3)
    mirror_x, mirror_y, swap = which
    sign, turn = np.where([mirror_x, mirror_y], -1, 1), [1, 0] if swap else [0, 1]
    parts = [scattered(rng, 40) for _ in numbers]
    xy, height, los, track = (np.concatenate(part) for part in zip(*parts, strict=True))
    side = np.broadcast_to([[14.0, 10.0]], (len(numbers), 2))
    xy = xy * side[:, None] / SIDE
    residual = -8 * responses(xy, los, side)[np.arange(len(numbers)), numbers]
    residual = residual + rng.normal(0, 0.5, residual.shape)
    one = fit(xy, height, los, track, residual, side=side)
    moved = np.concatenate([(los[..., :2] * sign)[..., turn], los[..., 2:]], axis=-1)
    other = fit((xy * sign)[..., turn], height, moved, track, residual, side=side[:, turn])
    place = quadrant_symmetry(*which)
    for name in ShapeFits._fields:
        found, wanted = getattr(other, name), getattr(one, name)
        found = found[:, place] if found.shape[1] == 4 else found
        np.testing.assert_allclose(found, wanted, atol=1e-5, rtol=1e-6, err_msg=name)


PLACES, TIMES = 60, 50


def gaussian(xy, height, los, track, values, *, variance) -> dict[str, np.ndarray]:
    """The evidence where all is normal: then values have a covariance, and need no fit."""
    on_track = track[:, None] == [0, 1]
    rigid = np.column_stack([los[:, 2:] * xy - los[:, :2] * height[:, None], on_track])
    undamaged = np.eye(len(xy)) * variance + rigid * np.repeat([LIKELY_TILT, WEAK_OFFSET], 2) ** 2 @ rigid.T
    plain = np.linalg.solve(undamaged, values)
    nothing = -(np.linalg.slogdet(undamaged)[1] + values @ plain) / 2
    by_quadrant = strains_per_mm(SIDE)[0]
    evidence, drop = np.empty((2, len(ALL)))
    for number, response in enumerate(responses(xy[None], los[None], SIDE)[0]):
        likely = (LIKELY_PERMILLE / PER_MM[number]) ** 2
        covariance = undamaged + likely * np.outer(response, response)
        told = np.linalg.solve(covariance, values)
        evidence[number] = -(np.linalg.slogdet(covariance)[1] + values @ told) / 2 - nothing + LOG_PRIOR[number]
        drop[number] = abs(likely * response @ told)
    share, severity = np.exp(evidence - logsumexp(evidence)), drop * PER_MM
    right = accepted(by_quadrant)
    part = right / right.sum(1, keepdims=True)
    most = evidence + np.log(np.maximum(by_quadrant, 1e-9) / PER_MM[:, None]).T  # (4, S)
    wary = np.exp(evidence / WARY - logsumexp(evidence / WARY))
    of_corner, of = evidence[CORNERS].reshape(4, -1), [number == MECHANISM for number in range(5)]
    weight = np.exp(of_corner - logsumexp(of_corner, axis=1, keepdims=True))
    return {
        "corner_log_odds": logsumexp(of_corner, axis=1) - logsumexp(of_corner),
        "corner_severity": (weight * severity[CORNERS].reshape(4, -1)).sum(1),
        "best_gain": np.array([most[quadrant, PLAIN][right[PLAIN, quadrant]].max() for quadrant in range(4)]),
        "log_odds": np.log(share @ part),
        "wary_log_odds": np.log(wary @ part),
        **{
            f"{name}_log_odds": np.log(np.maximum(share[of[number]] @ part[of[number]] / share[of[number]].sum(), 1e-6))
            for number, name in enumerate(FAILURES)
            if number != CORNER
        },
        "severity": (share * drop) @ by_quadrant,
        "mechanism_gain": np.array([logsumexp(evidence[own]) for own in of]),
        "mechanism_severity": np.array([share[own] @ severity[own] / share[own].sum() for own in of]),
    }


@pytest.mark.parametrize(
    ("number", "drop"),
    [
        (corner(0), -60.0),
        (corner(1, 1, 0.4), -40.0),
        (corner(3, 0, 0.9), 30.0),
        (number_of(END, towards=(0, -1), start=0.45, pull=0.5), -30.0),
        (number_of(STEP, towards=(1, 0), start=0.3), -8.0),
        (number_of(BOWL, 1, towards=(0.8, 0.0)), -25.0),
    ],
)
def test_the_evidence_is_exact_where_everything_is_normal(number, drop):
    """Student's t of small residuals is a normal distribution with 4/5 of the variance, and Laplace's approximation has
    no error there. Many scatterers at one place, each with a large error, are one with a small error."""
    xy, height, los, track = (part[0] for part in scattered(np.random.default_rng(number), PLACES))
    left = los[:, 2] * (xy @ [4.0, -2.0]) - height * (los[:, :2] @ [4.0, -2.0])  # tilts as large as are thought likely
    values = drop * responses(xy[None], los[None], SIDE)[0, number] + left
    error = 150.0
    many = [np.repeat(part, TIMES, axis=0)[None] for part in (xy, height, los, track, values)]
    found = fit(*many, error=error)
    for name, wanted in gaussian(xy, height, los, track, values, variance=0.8 * error**2 / TIMES).items():
        np.testing.assert_allclose(getattr(found, name)[0], wanted, atol=0.03, err_msg=name)


def keep(monkeypatch, *numbers):
    """Nothing but these shapes."""
    prior = np.full(len(ALL), -1e9)
    prior[list(numbers)] = LOG_PRIOR[list(numbers)]
    monkeypatch.setattr(shape_fits, "LOG_PRIOR", prior)


def test_a_guess_of_what_moves_sideways_is_no_answer_of_the_engineers(monkeypatch):
    number = corner(1, 1, 0.9)
    found = observe([4], number, -20.0)
    keep(monkeypatch, *PLAIN)
    alone = observe([4], number, -20.0)
    for name in ("corner_drop", "best_gain", "best_severity"):
        np.testing.assert_allclose(getattr(found, name), getattr(alone, name), rtol=1e-9, err_msg=name)


def test_all_ways_count_the_same_where_a_corner_explains_nothing():
    """Beside what a thousand exact scatterers tell of one corner, the probability of another is 0 to a computer."""
    found = observe([5], corner(0), -60.0, count=1000, noise=0.1, error=0.1)
    assert np.isfinite(np.concatenate([part.ravel() for part in found])).all()
    assert found.corner_severity[0, 0] == pytest.approx(60 * PER_MM[corner(0)], rel=0.01)
    assert np.exp(found.log_odds[0, 1:]).max() < 1e-5


def test_stated_errors_that_are_all_too_small_are_not_believed():
    """What scatterers really err by counts: however little they state, no more certain of a shape."""
    one, other = (observe(range(5), corner(2), -12.0, noise=3.0, error=error) for error in (0.05, 1.0))
    np.testing.assert_allclose(one.best_gain, other.best_gain, rtol=0.05, atol=0.25)
    np.testing.assert_allclose(one.log_odds, other.log_odds, atol=0.4)


@pytest.mark.parametrize("number", [corner(1), number_of(END, towards=(0, 1), start=0.45), number_of(BOWL, 1)])
def test_a_tenth_of_outliers_changes_neither_where_nor_how_much(number):
    rng = np.random.default_rng(0)
    parts = [scattered(rng, 100) for _ in range(5)]
    xy, height, los, track = (np.concatenate(part) for part in zip(*parts, strict=True))
    residual = -2.0 / PER_MM[number] * responses(xy, los, SIDE)[..., number, :] + rng.normal(0, 0.5, (5, 100))
    spoilt = residual + 28 * rng.choice([-1, 1], (5, 100)) * (rng.random((5, 100)) < 0.1)
    clean, found = fit(xy, height, los, track, residual), fit(xy, height, los, track, spoilt)
    for fits in (clean, found):
        assert (fits.mechanism_gain.argmax(1) == ALL[number].mechanism).all()
    np.testing.assert_allclose(found.severity.max(1), clean.severity.max(1), rtol=0.1)


def test_without_damage_nothing_is_gained():
    fits = observe(range(40), 0, 0.0, noise=0.5)
    assert np.median(fits.best_severity.max(1)) < 1  # of a bowl that no scatterer is on
    assert np.median(fits.severity.max(1)) < 0.3
    assert np.mean(fits.best_gain.max(1)) < 6  # the best of more than a hundred
    # Weighed by how probable it was before looking, damage is hardly ever sooner than none.
    assert np.mean(logsumexp(fits.mechanism_gain, axis=1) > 0) < 0.15


def test_few_points_near_the_middle_do_not_tell_of_metres():
    rng = np.random.default_rng(0)
    xy = rng.uniform(-0.05, 0.05, (200, 5, 2)) * SIDE
    count = xy.shape[:2]
    los = np.broadcast_to(los_of(ASCENDING), (*count, 3))
    found = fit(xy, np.zeros(count), los, np.zeros(count, int), rng.normal(0, 3, count), error=3.0)
    assert found.corner_severity.max() < 2
    assert found.severity.max() < 3


COUNT = 60


@pytest.mark.parametrize(
    ("name", "named", "placed", "least"), [("corner", 0.8, 0.9, 1.4), ("end", 0.7, 0.8, 1.3), ("bowl", 0.55, 0.7, 0.8)]
)
def test_what_the_simulation_lets_fail_is_told_by_the_nearest_shape(name, named, placed, least):
    """The simulation's failures are others than the shapes: softer hinges, oblique ones, any place and width. Of 2
    permille, what no shape has is missing, most in bowls of a few metres."""
    rng = np.random.default_rng(11)
    side = np.broadcast_to(SIDE, (COUNT, 2))
    kind = np.full(COUNT, FAILURES.index(name))
    failure = draw_hinges(rng, side, np.ones((COUNT, 4), bool)) if name == "corner" else draw_failures(rng, kind, side)
    label = strains(failure.field, side)
    seen = label.severity_permille > 0.02  # a bowl with its middle beside the building hardly strains it
    factor = np.where(seen, 2.0 / np.maximum(label.severity_permille, 0.02), 0.0)
    parts = [scattered(rng, 80) for _ in range(COUNT)]
    xy, height, los, track = (np.concatenate(part) for part in zip(*parts, strict=True))
    row = np.repeat(np.arange(COUNT), 80)
    moved = np.stack(failure.field(row, *xy.reshape(-1, 2).T), axis=-1).reshape(COUNT, 80, 3)[..., [1, 2, 0]]
    residual = (moved * los).sum(-1) * factor[:, None] + rng.normal(0, 0.3, (COUNT, 80))
    found = fit(xy, height, los, track, residual, side=side)
    right = np.take_along_axis(label.accepted, found.log_odds.argmax(1)[:, None], axis=1)[:, 0]
    assert seen.mean() > 0.5
    assert (found.mechanism_gain.argmax(1) == kind)[seen].mean() > named
    assert right[seen].mean() > placed
    assert least < np.median(found.severity.max(1)[seen]) < 2.4
