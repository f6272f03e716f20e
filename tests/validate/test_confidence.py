"""Calibration and the curve of coverage, against what was worked out by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.heldout.scores import chance_calibration_error
from plumbline.validate.metrics import accuracy_at, accuracy_by_coverage, confidence_bins, expected_calibration_error

CONFIDENCE = np.array([0.7] * 6 + [0.9] * 4)
RIGHT = np.array([1, 1, 1, 0, 0, 0, 1, 1, 1, 1], dtype=bool)
ANSWERS = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=80)


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


@given(ANSWERS, st.integers(1, 60))
def test_the_curve_agrees_with_each_of_its_shares(answers, steps):
    confidence, right = np.array([a for a, _ in answers]), np.array([b for _, b in answers])
    rows = accuracy_by_coverage(confidence, right, steps)
    assert 1 <= len(rows) <= steps
    assert rows[-1]["coverage"] == 1
    for row in rows:
        assert row["accuracy"] == pytest.approx(accuracy_at(confidence, right, row["coverage"]))
        assert (confidence >= row["confidence"]).mean() >= row["coverage"] - 1e-9


@given(ANSWERS)
def test_bins_share_out_all_answers(answers):
    rows = confidence_bins(np.array([a for a, _ in answers]), np.array([b for _, b in answers]))
    assert sum(row["share"] for row in rows) == pytest.approx(1)
