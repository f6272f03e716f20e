import numpy as np
import pytest

from plumbline.prepare.features.sequences import only
from plumbline.train.fit.checkpoints import checkpoint_score

QUADRANT = np.array([0, 1, 2, 3] * 25)
SEVERITY = np.linspace(0.5, 6, 100)


def score(probability, severity, quadrant_true, severity_true):
    """Where one quadrant of each building is right."""
    return checkpoint_score(probability, severity, only(quadrant_true), severity_true)


def answers(quadrant):
    return np.eye(4)[quadrant] * 0.7 + 0.075


ALIKE = 1 + 0.21 * np.tile([-0.5, 0.5], 50)
"""Severities that are far more alike than those of any city."""
BLIND, MEDIAN = np.zeros(100, int), np.full(100, np.median(SEVERITY))


@pytest.mark.parametrize(
    ("quadrant", "severity", "true", "accuracy", "wanted"),
    [
        (QUADRANT, SEVERITY, SEVERITY, 1.0, 1.0),
        (BLIND, MEDIAN, SEVERITY, 0.25, -0.75),
        (QUADRANT, MEDIAN, SEVERITY, 1.0, 0.0),
        (BLIND, SEVERITY, SEVERITY, 0.25, 0.25),
        (QUADRANT, ALIKE + 0.03, ALIKE, 1.0, 1 - 0.03 / 0.105),
        (QUADRANT, np.ones(100), np.ones(100), 1.0, 1.0),  # no division by zero, and epochs are told apart
        (QUADRANT, np.full(100, 1.01), np.ones(100), 1.0, 1 - 0.01 / 0.05),
        (QUADRANT, np.full(100, 1.4), np.ones(100), 1.0, 1 - 0.4 / 0.05),
    ],
    ids=["perfect", "blind", "quadrants only", "severity only", "alike", "equal", "equal, near", "equal, far"],
)
def test_a_score_holds_both_tasks_against_blind_answers(quadrant, severity, true, accuracy, wanted):
    found = score(answers(quadrant), severity, QUADRANT, true)
    assert found.quadrant_accuracy == accuracy
    assert found.severity_mae == pytest.approx(np.abs(severity - true).mean())  # permille
    assert found.score == pytest.approx(wanted)


def test_undefined_quadrants_do_not_count():
    partly = np.where(SEVERITY < 3, -1, QUADRANT)
    wrong = np.where(partly < 0, (QUADRANT + 1) % 4, QUADRANT)
    assert score(answers(wrong), SEVERITY, partly, SEVERITY).quadrant_accuracy == 1.0
    assert score(answers(wrong), SEVERITY, np.full(100, -1), SEVERITY).quadrant_accuracy == 0.0


def test_any_quadrant_that_is_right_counts_as_right():
    accepted = only(QUADRANT) | only((QUADRANT + 1) % 4)
    found = [checkpoint_score(answers((QUADRANT + n) % 4), SEVERITY, accepted, SEVERITY) for n in range(4)]
    assert [one.quadrant_accuracy for one in found] == [1.0, 1.0, 0.0, 0.0]
