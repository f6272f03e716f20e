"""The gates: each bound from both sides, and closed wherever there is no figure."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.errors import InputError
from plumbline.params import Gate
from plumbline.validate.gates import check_rules, evaluate, failed_rules
from plumbline.validate.metrics import HIGHER_IS_BETTER

TABLE = {
    "all": {
        "int8": {"severity_mae": 0.30, "quadrant_accuracy": 0.90},
        "float32": {"severity_mae": 0.28, "quadrant_accuracy": 0.92},
        "baseline": {"severity_mae": 0.40, "quadrant_accuracy": 0.85},
        "champion": {"severity_mae": 0.29, "quadrant_accuracy": 0.91},
    },
    "city:small": {"int8": {"buildings": 3.0}, "float32": {"buildings": 3.0}},
}


def rule(**changed):
    return Gate.model_validate({"metric": "severity_mae", "artifact": "int8", **changed})


def one(**changed):
    """The result of a single rule."""
    gate = evaluate([rule(**changed)], TABLE)
    (result,) = gate["rules"]
    assert gate["verdict"] == ("pass" if result["passed"] else "fail")
    return result


ACCURACY = {"metric": "quadrant_accuracy"}


@pytest.mark.parametrize(
    ("settings", "bound", "passed"),
    [
        ({"max": 0.31}, 0.31, True),
        ({"max": 0.30}, 0.30, True),
        ({"max": 0.29}, 0.29, False),
        ({"min": 0.29}, 0.29, True),
        ({"min": 0.31}, 0.31, False),
        ({"max": 0.0}, 0.0, False),
        # Lower is better: a margin allows more, a negative one demands less.
        ({"max_drop_vs": "float32", "margin": 0.03}, 0.31, True),
        ({"max_drop_vs": "float32", "margin": 0.01}, 0.29, False),
        ({"max_drop_vs": "float32"}, 0.28, False),
        ({"max_drop_vs": "baseline"}, 0.40, True),
        ({"max_drop_vs": "baseline", "margin": -0.05}, 0.35, True),
        ({"max_drop_vs": "baseline", "margin": -0.15}, 0.25, False),
        ({"max_drop_vs": "champion", "margin": 0.02}, 0.31, True),
        ({"max_drop_vs": "champion"}, 0.29, False),
        # Higher is better: a margin allows less, a negative one demands more.
        ({**ACCURACY, "max_drop_vs": "float32", "margin": 0.03}, 0.89, True),
        ({**ACCURACY, "max_drop_vs": "float32", "margin": 0.01}, 0.91, False),
        ({**ACCURACY, "max_drop_vs": "baseline", "margin": -0.04}, 0.89, True),
        ({**ACCURACY, "max_drop_vs": "baseline", "margin": -0.06}, 0.91, False),
        ({**ACCURACY, "min": 0.9}, 0.9, True),
        ({**ACCURACY, "min": 0.91}, 0.91, False),
    ],
    ids=str,
)
def test_a_bound_is_met_or_not(settings, bound, passed):
    result = one(**settings)
    assert result["bound"] == pytest.approx(bound)
    assert result["passed"] is passed


@pytest.mark.parametrize(
    "settings",
    [
        {"metric": "severity_r2", "min": -10.0},
        {"metric": "severity_r2", "max_drop_vs": "baseline", "margin": 10.0},
        {"slice": "city:small", "max": 10.0},
        {"slice": "city:gone", "max": 10.0},
        {"artifact": "pruned", "max": 10.0},
        {"slice": "city:small", "max_drop_vs": "float32", "margin": 10.0},
    ],
    ids=["metric", "metric of both", "slice too small", "slice unknown", "artifact", "both too small"],
)
def test_no_figure_no_pass(settings):
    result = one(**settings)
    assert result["passed"] is False
    assert result["value"] is None
    assert "no figure found" in result["text"]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, None])
@pytest.mark.parametrize("bound", [{"min": -1e9}, {"max": 1e9}], ids=["min", "max"])
def test_a_figure_that_is_no_number_is_none(value, bound):
    gate = evaluate([rule(**bound)], {"all": {"int8": {"severity_mae": value}}})
    assert gate["verdict"] == "fail"


@pytest.mark.parametrize("value", [math.nan, math.inf, None])
def test_a_reference_that_is_no_number_refuses_too(value):
    table = {"all": {"int8": {"severity_mae": 0.1}, "champion": {"severity_mae": value}}}
    gate = evaluate([rule(max_drop_vs="champion", margin=5.0)], table)
    assert gate["verdict"] == "fail"
    assert "at most no figure" in gate["rules"][0]["text"]


def test_no_rules_no_pass():
    assert evaluate([], TABLE) == {"verdict": "fail", "rules": []}


def test_one_failed_rule_is_enough_and_is_the_one_named():
    gate = evaluate([rule(max=1.0), rule(max=0.1), rule(min=0.0)], TABLE)
    assert gate["verdict"] == "fail"
    (said,) = failed_rules(gate)
    assert said == "severity_mae of int8 on all: 0.3 found, at most 0.1 (max) needed"


def test_a_comparison_names_what_it_compares_with():
    text = one(max_drop_vs="baseline", margin=-0.15)["text"]
    assert "at most 0.25 (baseline 0.4 with margin -0.15) needed" in text


def test_an_unknown_metric_is_refused_by_name_and_place():
    with pytest.raises(InputError, match=r"validate\.gates\.1\.metric: 'severity_mea' found; one of .*severity_mae"):
        check_rules([rule(max=1.0), rule(metric="severity_mea", max=1.0)])
    check_rules([rule(metric=name, max=1.0) for name in HIGHER_IS_BETTER])


@given(
    st.sampled_from(sorted(HIGHER_IS_BETTER)), st.floats(-10, 10), st.floats(-10, 10), st.floats(-5, 5),
)  # fmt: skip
def test_a_worse_figure_never_passes_where_a_better_one_fails(metric, value, reference, margin):
    better = value + 0.5 if HIGHER_IS_BETTER[metric] else value - 0.5

    def passed(figure):
        table = {"all": {"int8": {metric: figure}, "baseline": {metric: reference}}}
        return evaluate([rule(metric=metric, max_drop_vs="baseline", margin=margin)], table)["verdict"] == "pass"

    assert passed(better) or not passed(value)
