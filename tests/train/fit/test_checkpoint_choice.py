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


def test_perfect_answers_score_1():
    assert score(answers(QUADRANT), SEVERITY, QUADRANT, SEVERITY) == (1.0, 0.0, 1.0)


def test_blind_answers_score_minus_three_quarters():
    blind = score(answers(np.zeros(100, int)), np.full(100, np.median(SEVERITY)), QUADRANT, SEVERITY)
    assert blind.score == pytest.approx(-0.75)
    assert blind.quadrant_accuracy == 0.25


def test_neither_task_wins_alone():
    quadrants_only = score(answers(QUADRANT), np.full(100, np.median(SEVERITY)), QUADRANT, SEVERITY)
    severity_only = score(answers(np.zeros(100, int)), SEVERITY, QUADRANT, SEVERITY)
    assert quadrants_only.score == pytest.approx(0)
    assert severity_only.score == pytest.approx(0.25)


def test_undefined_quadrants_do_not_count():
    partly = np.where(SEVERITY < 3, -1, QUADRANT)
    wrong = np.where(partly < 0, (QUADRANT + 1) % 4, QUADRANT)
    assert score(answers(wrong), SEVERITY, partly, SEVERITY).quadrant_accuracy == 1.0
    assert score(answers(wrong), SEVERITY, np.full(100, -1), SEVERITY).quadrant_accuracy == 0.0


def test_the_error_is_in_permille():
    assert score(answers(QUADRANT), SEVERITY + 0.4, QUADRANT, SEVERITY).severity_mae == pytest.approx(0.4)


def test_a_split_of_equal_severities_is_no_division_by_zero():
    assert score(answers(QUADRANT), np.ones(100), QUADRANT, np.ones(100)).score == 1.0


@pytest.mark.parametrize("count", [1, 100])
def test_a_split_of_equal_severities_still_tells_epochs_apart(count):
    true, quadrant = np.ones(count), QUADRANT[:count]
    found = [score(answers(quadrant), true + off, quadrant, true).score for off in (0.0, 0.01, 0.4)]
    assert found == pytest.approx([1.0, 1 - 0.01 / 0.05, 1 - 0.4 / 0.05])


def test_what_a_constant_answer_errs_by_in_a_split_of_any_size_is_not_changed():
    alike = 1 + 0.21 * np.tile([-0.5, 0.5], 50)  # far more alike than any city
    found = score(answers(QUADRANT), alike + 0.03, QUADRANT, alike)
    assert found.score == pytest.approx(1 - 0.03 / 0.105)


def test_any_quadrant_that_is_right_counts_as_right():
    accepted = only(QUADRANT) | only((QUADRANT + 1) % 4)
    found = [checkpoint_score(answers((QUADRANT + n) % 4), SEVERITY, accepted, SEVERITY) for n in range(4)]
    assert [one.quadrant_accuracy for one in found] == [1.0, 1.0, 0.0, 0.0]
