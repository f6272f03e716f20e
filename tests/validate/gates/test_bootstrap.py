"""The bootstrap: against formulas where there are some, and against the figures of the test split themselves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.params.validate import HIGHER_IS_BETTER, OF_BUILDINGS, OF_QUADRANTS
from plumbline.validate.gates.bootstrap import (
    CELLS,
    RESAMPLES,
    MetricPair,
    of_buildings,
    of_quadrants,
    resampled_drops,
    resamples,
    upper_bound,
)
from plumbline.validate.metrics import JudgedAnswers, accuracy_figures


def answers(count, seed, noise=0.3):
    """Truth of `count` buildings, some without a quadrant, and answers that are near it."""
    rng = np.random.default_rng(seed)
    severity = rng.uniform(0, 4, count)
    quadrant = np.where(severity < 0.5, -1, rng.integers(0, 4, count))
    said = severity + noise * rng.standard_normal(count)
    likely = np.where(np.arange(4) == quadrant[:, None], 1.5, 0) + rng.standard_normal((count, 4))
    probability = np.exp(likely) / np.exp(likely).sum(1, keepdims=True)
    width = rng.uniform(0.1, 1.5, count)
    accepted = (quadrant[:, None] == np.arange(4)) | (rng.random((count, 4)) < 0.3) & (quadrant >= 0)[:, None]
    judged = JudgedAnswers(probability, said, said - width, said + width, rng.uniform(0.2, 1, count), accepted=accepted)
    return judged, quadrant.astype(np.int64), severity


def drops(metric, own, other, quadrant, severity):
    return resampled_drops([MetricPair(metric, "a", "b")], {"a": own, "b": other}, quadrant, severity)[metric, "a", "b"]


def test_resamples_draw_as_many_as_there_are_and_the_same_again():
    count = CELLS // 1500  # more than one portion
    found = np.concatenate(list(resamples(count)))
    assert found.shape == (RESAMPLES, count)
    assert (found.sum(1) == count).all()
    assert found.mean() == 1
    assert found.var() == pytest.approx(1 - 1 / count, rel=0.01)  # multinomial
    np.testing.assert_array_equal(found, np.concatenate(list(resamples(count))))


@pytest.mark.parametrize("metric", OF_BUILDINGS)
@given(st.integers(0, 2**32 - 1), st.integers(2, 60))
def test_every_metric_of_a_resample_is_the_figure_of_its_buildings(metric, seed, count):
    said, quadrant, severity = answers(count, seed)
    inside = quadrant >= 0 if metric in OF_QUADRANTS else np.ones(count, dtype=bool)
    if not inside.any():
        return
    part = said.select(inside)
    drawn = np.random.default_rng(seed + 1).integers(0, inside.sum(), inside.sum())
    weights = np.stack([np.bincount(drawn, minlength=inside.sum()), np.ones(inside.sum())]).astype(float)
    functions = of_quadrants(part, quadrant[inside]) if metric in OF_QUADRANTS else of_buildings(part, severity[inside])
    for value, places in zip(functions[metric](weights), (np.sort(drawn), np.arange(inside.sum())), strict=True):
        chosen = part.select(places)
        expected = accuracy_figures(chosen, quadrant[inside][places], severity[inside][places])
        assert value == pytest.approx(expected.get(metric, np.nan), abs=1e-9, nan_ok=True)


def test_the_bound_of_a_mean_is_that_of_the_normal_distribution():
    """With many buildings, the mean of the differences and 1.645 of its standard errors (central limit theorem)."""
    own, quadrant, severity = answers(3000, 1, noise=0.5)
    other = answers(3000, 1, noise=0.3)[0]
    difference = np.abs(own.severity - severity) - np.abs(other.severity - severity)
    error = difference.std() / np.sqrt(3000)
    found = drops("severity_mae", own, other, quadrant, severity)
    assert found.mean() == pytest.approx(difference.mean(), abs=0.1 * error)
    assert found.std() == pytest.approx(error, rel=0.06)
    assert upper_bound(found, 0.95) == pytest.approx(difference.mean() + 1.645 * error, abs=0.15 * error)


def test_pairing_takes_out_what_is_hard_for_both():
    """The same great error and a small one of its own: unpaired, the great one would hide the small one."""
    rng = np.random.default_rng(0)
    severity = rng.uniform(1, 4, 800)
    hard, unknown = 2 * np.abs(rng.standard_normal(800)), np.full(800, np.nan)
    own = JudgedAnswers(np.full((800, 4), 0.25), severity + hard + 0.02, unknown, unknown)
    other = own._replace(severity=severity + hard)
    found = drops("severity_mae", own, other, np.zeros(800, dtype=int), severity)
    np.testing.assert_allclose(found, 0.02)
    assert hard.std() / np.sqrt(800) > 0.02


@pytest.mark.parametrize("metric", OF_BUILDINGS)
def test_a_drop_is_above_0_where_the_artifact_is_worse(metric):
    own, quadrant, severity = answers(400, 4)
    figures = [accuracy_figures(one, quadrant, severity)[metric] for one in (own, answers(400, 5)[0])]
    found = drops(metric, own, answers(400, 5)[0], quadrant, severity)
    gain = figures[0] - figures[1]
    assert found.mean() == pytest.approx(-gain if HIGHER_IS_BETTER[metric] else gain, abs=0.02 + 0.1 * abs(gain))


@pytest.mark.slow
def test_a_model_that_is_worse_by_the_margin_passes_at_most_as_often_as_the_confidence_says():
    """The error that counts: 200 test splits on which the artifact is worse by just the margin."""
    margin, passed, rng = 0.05, 0, np.random.default_rng(7)
    for _ in range(200):
        right = rng.random(300) < 0.8
        own = right & (rng.random(300) > 2 * margin) | ~right & (rng.random(300) < (2 * margin * 0.8 - margin) / 0.2)
        true = np.zeros(300, dtype=int)
        unknown = np.full(300, 1.0)
        a, b = (
            JudgedAnswers(np.where(np.arange(4) == (~r)[:, None], 0.7, 0.1), unknown, unknown, unknown)
            for r in (own, right)
        )
        passed += upper_bound(drops("quadrant_accuracy", a, b, true, unknown), 0.95) <= margin
    assert passed / 200 == pytest.approx(0.05, abs=0.04)


@pytest.mark.parametrize("broken", [np.nan, np.inf])
@pytest.mark.parametrize("who", ["a", "b"])
@pytest.mark.parametrize(("metric", "place"), [("severity_mae", 1), ("quadrant_accuracy", 0), ("interval_width", 3)])
def test_one_answer_that_is_no_number_leaves_no_drop(metric, place, who, broken):
    own, quadrant, severity = answers(60, 6)
    values = np.array(own[place])
    values[np.flatnonzero(quadrant >= 0)[5]] = broken
    everyone = {"a": own, "b": own, who: own._replace(**{JudgedAnswers._fields[place]: values})}
    assert resampled_drops([MetricPair(metric, "a", "b")], everyone, quadrant, severity) == {}


def test_nobody_and_nothing_leave_no_drop():
    own, _, severity = answers(60, 6)
    pairs = [MetricPair("quadrant_accuracy", "a", "b"), MetricPair("severity_mae", "a", "gone")]
    assert resampled_drops(pairs, {"a": own, "b": own}, np.full(60, -1), severity) == {}


def test_a_resample_without_a_figure_counts_as_the_worst():
    values = np.r_[np.zeros(95), np.full(5, np.nan)]
    assert upper_bound(values, 0.9) == 0
    assert upper_bound(values, 0.99) == np.inf
