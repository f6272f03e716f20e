"""Every figure against one worked out by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.heldout.scores import chance_calibration_error
from plumbline.params.validate import HIGHER_IS_BETTER
from plumbline.validate.metrics import (
    JudgedAnswers,
    accuracy_at,
    accuracy_by_coverage,
    accuracy_figures,
    confidence_bins,
    expected_calibration_error,
    macro_f1,
)


def certain(codes, confidence=1.0):
    """(B, 4) probabilities of `confidence` for the given quadrants, the rest spread evenly."""
    rest = (1 - confidence) / 3
    return np.where(np.arange(4) == np.asarray(codes)[:, None], confidence, rest)


def judged(codes, severity, low=None, high=None):
    unknown = np.full(len(codes), np.nan)
    return JudgedAnswers(
        certain(codes),
        np.asarray(severity, float),
        unknown if low is None else np.asarray(low, float),
        unknown if high is None else np.asarray(high, float),
    )


def test_severity_figures_by_hand():
    truth = np.array([1.0, 2.0, 3.0, 4.0])
    figures = accuracy_figures(judged([0] * 4, [1.5, 2.0, 2.0, 4.5]), np.zeros(4, dtype=int), truth)
    assert figures["severity_mae"] == pytest.approx((0.5 + 0 + 1 + 0.5) / 4)
    # Squared errors 0.25, 0, 1, 0.25; squared distances from the mean of 2.5: 2.25, 0.25, 0.25, 2.25.
    assert figures["severity_r2"] == pytest.approx(1 - 1.5 / 5)
    # Categories of the truth 2, 3, 4, 4; of what was said 3, 3, 3, 4.
    assert figures["category_accuracy"] == pytest.approx(2 / 4)


def test_coverage_counts_the_ends_of_the_interval():
    truth = np.array([1.0, 1.0, 1.0, 1.0])
    said = judged([0] * 4, [1.0] * 4, low=[1.0, 0.5, 1.1, 0.0], high=[2.0, 1.0, 2.0, 0.9])
    figures = accuracy_figures(said, np.zeros(4, dtype=int), truth)
    assert figures["interval_coverage"] == pytest.approx(2 / 4)
    assert figures["interval_width"] == pytest.approx((1.0 + 0.5 + 0.9 + 0.9) / 4)


def test_quadrants_below_category_1_are_left_out():
    truth = np.array([0, 1, -1, -1])
    figures = accuracy_figures(judged([0, 0, 2, 3], [1.0] * 4), truth, np.array([1.0, 1.0, 0.1, 0.2]))
    assert figures["buildings"] == 4
    assert figures["buildings_with_quadrant"] == 2
    assert figures["quadrant_accuracy"] == pytest.approx(1 / 2)


def test_macro_f1_by_hand():
    true = np.array([0, 0, 0, 1, 1, 2])
    said = np.array([0, 0, 1, 1, 2, 2])
    # NE: precision 1, recall 2/3; NW: 1/2, 1/2; SW: 1/2, 1; SE is neither seen nor said.
    assert macro_f1(said, true) == pytest.approx((4 / 5 + 1 / 2 + 2 / 3) / 3)
    assert macro_f1(np.array([0, 3]), np.array([0, 0])) == pytest.approx((2 / 3 + 0) / 2)  # SE was only said


def test_what_cannot_be_told_is_left_out():
    none = accuracy_figures(judged([], []), np.zeros(0, dtype=int), np.zeros(0))
    assert none == {"buildings": 0}
    alike = accuracy_figures(judged([0, 0], [1.0, 1.0]), np.array([-1, -1]), np.array([1.0, 1.0]))
    assert set(alike) == {"buildings", "buildings_with_quadrant", "severity_mae", "category_accuracy"}


def test_missed_are_the_severe_that_are_called_sound():
    """From 1.5 permille on; what is said below 0.5 is sound."""
    truth, said = np.array([1.5, 2.0, 3.0, 1.49, 0.1]), [0.49, 0.5, 0.0, 0.0, 0.1]
    assert accuracy_figures(judged([0] * 5, said), np.zeros(5, dtype=int), truth)["missed_share"] == pytest.approx(
        2 / 3
    )
    assert "missed_share" not in accuracy_figures(judged([0] * 2, said[:2]), np.zeros(2, dtype=int), truth[3:])
    broken = judged([0] * 5, [np.nan, *said[1:]])
    assert "missed_share" not in accuracy_figures(broken, np.zeros(5, dtype=int), truth)


def test_any_quadrant_that_is_accepted_is_right():
    """Of an end on the east: NE and SE; a third building is worst in SW alone, and one has no quadrant."""
    accepted = np.array([[1, 0, 0, 1], [1, 0, 0, 1], [0, 0, 1, 0], [0, 0, 0, 0]], bool)
    true, confidence = np.array([3, 3, 2, -1]), np.array([0.9, 0.8, 0.6, 0.2])
    said = judged([0, 1, 2, 2], [1.0] * 4)._replace(accepted=accepted, confidence=confidence)
    figures = accuracy_figures(said, true, np.array([1.0, 1.0, 1.0, 0.1]))
    assert figures["quadrant_accuracy"] == pytest.approx(2 / 3)
    # As said NE, NW, SW, and true NE, SE, SW: of four quadrants two have everything, two nothing.
    assert figures["quadrant_macro_f1"] == pytest.approx(2 / 4)
    assert figures["expected_calibration_error"] == pytest.approx((0.1 + 0.8 + 0.4) / 3)
    assert said.truth(true).tolist() == [0, 3, 2, -1]
    assert said._replace(accepted=None).truth(true).tolist() == true.tolist()
    np.testing.assert_array_equal(said.quadrant_confidence, confidence)
    np.testing.assert_array_equal(said._replace(confidence=None).quadrant_confidence, 1.0)


def damage(p, damaged, share):
    """The calibration errors of probabilities of damage, in percent of damaged buildings."""
    severity = np.where(damaged, 1.0, 0.1)
    said = judged([0] * len(p), severity)._replace(p_damaged=np.asarray(p, float), share=share)
    figures = accuracy_figures(said, np.full(len(p), -1), severity)
    names = {rate: f"damage_calibration_{rate}" for rate in (2, 10, 50)}
    return {rate: figures[name] for rate, name in names.items() if name in figures}


def test_the_calibration_of_damage_by_hand():
    """Probabilities at 50 %: 0.8 of two damaged and a sound one, 0.2 of a sound one."""
    found = damage([0.8, 0.8, 0.8, 0.2], [True, True, False, False], 0.5)
    assert found[50] == pytest.approx(abs(0.25 * 0.2 + 0.25 * 0.2 - 0.25 * 0.8) + 0.25 * 0.2)
    # In a city with 2 %: 4 to 1 are 4 to 49, and 1 to 4 are 1 to 196; a damaged building counts 0.01, a sound one 0.49.
    high, low = 4 / 53, 1 / 197
    assert found[2] == pytest.approx(abs(2 * 0.01 * (1 - high) - 0.49 * high) + 0.49 * low)


def test_without_both_kinds_or_without_numbers_nothing_is_known_of_the_calibration_of_damage():
    assert damage([0.2, 0.9], [True, True], 0.8) == damage([0.2, 0.9], [False, False], 0.8) == {}
    assert damage([0.2, np.nan], [True, False], 0.8) == {}
    assert "damage_calibration_2" not in accuracy_figures(judged([0], [1.0]), np.array([0]), np.array([1.0]))


def test_true_probabilities_are_calibrated_at_any_rate_and_those_of_another_rate_at_none():
    rng = np.random.default_rng(0)
    damaged = rng.random(20_000) < 0.8
    sign = rng.normal(2.0 * damaged, 1)
    odds = np.exp(2 * sign - 2) * 4
    true = damage(odds / (1 + odds), damaged, 0.8)
    assert max(true.values()) < 0.02
    other = damage(16 * odds / (1 + 16 * odds), damaged, 0.8)
    assert min(other.values()) > 0.1


@pytest.mark.parametrize(
    ("part", "value", "names"),
    [
        ("low", np.nan, {"interval_coverage", "interval_width"}),
        ("high", np.inf, {"interval_coverage", "interval_width"}),
        # Of the highest category, for numpy: a gate on that slice would be passed by a broken model.
        ("severity", np.nan, {"category_accuracy", "missed_share"}),
        # The largest of NaNs is the first, which would read as NE.
        ("probability", np.nan, {"quadrant_accuracy", "expected_calibration_error", "quadrant_macro_f1"}),
    ],
)
def test_one_answer_that_is_no_number_takes_the_figure_away(part, value, names):
    truth = np.full(3, 4.0)
    said = judged([0] * 3, [4.0] * 3, [0.0] * 3, [5.0] * 3)
    assert names <= set(accuracy_figures(said, np.zeros(3, dtype=int), truth))
    getattr(said, part)[1] = value
    assert not names & set(accuracy_figures(said, np.zeros(3, dtype=int), truth))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("severity", [0.0, 0.1, 0.3, 0.6, 1.1])
@pytest.mark.parametrize("count", [1, 7, 10, 333])
def test_equal_severities_have_nothing_to_explain(count, severity, dtype):
    """As those of a category where labels are categories; their mean in 32 bits may be another number."""
    said = judged([0] * count, np.full(count, severity + 0.05))
    assert "severity_r2" not in accuracy_figures(said, np.full(count, -1), np.full(count, severity, dtype))


def test_every_figure_of_accuracy_may_be_named_by_a_gate():
    said = judged([0, 1, 1], [1.0, 2.0, 0.1], low=[0.0] * 3, high=[3.0] * 3)
    said = said._replace(p_damaged=np.array([0.9, 0.8, 0.1]), share=0.8)
    figures = accuracy_figures(said, np.array([0, 1, -1]), np.array([1.0, 2.5, 0.2]))
    assert set(figures) - set(HIGHER_IS_BETTER) == {"buildings", "buildings_with_quadrant"}
    assert {"missed_share", "damage_calibration_2", "damage_calibration_10", "damage_calibration_50"} < set(figures)


CONFIDENCE = np.array([0.7] * 6 + [0.9] * 4)
RIGHT = np.array([1, 1, 1, 0, 0, 0, 1, 1, 1, 1], dtype=bool)
PAIRS = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=80)


def test_expected_calibration_error_by_hand():
    assert expected_calibration_error(CONFIDENCE, RIGHT) == pytest.approx(0.6 * 0.2 + 0.4 * 0.1)
    rows = confidence_bins(CONFIDENCE, RIGHT)
    assert [row["share"] for row in rows] == [0.6, 0.4]
    assert [row["accuracy"] for row in rows] == [0.5, 1.0]
    assert [row["confidence"] for row in rows] == pytest.approx([0.7, 0.9])
    assert expected_calibration_error(np.ones(2), np.array([True, False])) == pytest.approx(0.5)


@pytest.mark.parametrize("count", [300, 3000])
def test_true_confidence_errs_by_chance_as_foretold(count):
    rng = np.random.default_rng(count)
    confidence = rng.uniform(0.25, 1, count)
    found = [expected_calibration_error(confidence, rng.random(count) < confidence) for _ in range(100)]
    assert chance_calibration_error(confidence) == pytest.approx(np.mean(found), rel=0.05)


def test_confidence_that_is_no_number_is_in_no_bin():
    (row,) = confidence_bins(np.array([0.5, np.nan]), np.array([True, False]))
    assert row == {"confidence": 0.5, "accuracy": 1.0, "share": 1.0}


def test_accuracy_among_the_most_confident():
    assert accuracy_at(CONFIDENCE, RIGHT, 0.4) == 1
    assert accuracy_at(CONFIDENCE, RIGHT, 0.7) == pytest.approx(7 / 7)
    assert accuracy_at(CONFIDENCE, RIGHT, 1.0) == pytest.approx(7 / 10)
    assert np.isnan(accuracy_at(CONFIDENCE[:0], RIGHT[:0], 0.7))
    assert accuracy_by_coverage(CONFIDENCE[:0], RIGHT[:0]) == []


@given(PAIRS, st.integers(1, 60))
def test_the_curve_agrees_with_each_of_its_shares(answers, steps):
    confidence, right = np.array([a for a, _ in answers]), np.array([b for _, b in answers])
    rows = accuracy_by_coverage(confidence, right, steps)
    assert 1 <= len(rows) <= steps
    assert rows[-1]["coverage"] == 1
    for row in rows:
        assert row["accuracy"] == pytest.approx(accuracy_at(confidence, right, row["coverage"]))
        assert (confidence >= row["confidence"]).mean() >= row["coverage"] - 1e-9


@given(PAIRS)
def test_bins_share_out_all_answers(answers):
    rows = confidence_bins(np.array([a for a, _ in answers]), np.array([b for _, b in answers]))
    assert sum(row["share"] for row in rows) == pytest.approx(1)
