"""The gates: each bound from both sides, and closed wherever there is no figure."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.core.errors import InputError
from plumbline.params import Gate, Gates, parse_params
from plumbline.params.validate import HIGHER_IS_BETTER, OF_BUILDINGS
from plumbline.validate.gates.bootstrap import MetricPair
from plumbline.validate.gates.rules import evaluate as judge
from plumbline.validate.gates.verdict import FORMAT, check_format, failed_rules
from tests.refusals import refuses
from tests.tiny import PARAMS

TABLE = {
    "all": {
        "int8": {"severity_mae": 0.30, "quadrant_accuracy": 0.90},
        "float32": {"severity_mae": 0.28, "quadrant_accuracy": 0.92},
        "baseline": {"severity_mae": 0.40, "quadrant_accuracy": 0.85},
        "champion": {"severity_mae": 0.29, "quadrant_accuracy": 0.91},
    },
    "city:small": {"int8": {"buildings": 3.0}, "float32": {"buildings": 3.0}},
}


def certain(rules, table):
    """Drops of the figures in `table` that are the same in every resample."""
    drops = {}
    for part, row in table.items():
        pairs = {MetricPair(r.metric, r.artifact, r.max_drop_vs) for r in rules if r.max_drop_vs}
        for pair in pairs:
            own, other = (row.get(who, {}).get(pair.metric) for who in (pair.artifact, pair.reference))
            if own is not None and other is not None:
                drop = other - own if HIGHER_IS_BETTER[pair.metric] else own - other
                drops.setdefault(part, {})[pair] = np.full(20, drop)
    return drops


def evaluate(rules, table, drops=None, **settings):
    """The verdict with these drops in resamples, or with certain ones."""
    drops = certain(rules, table) if drops is None else drops
    return judge(rules, table, drops, Gates(rules=rules or [rule(max=0)], **settings))


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
        ({"max": 0.30}, 0.30, True),
        ({"max": 0.29}, 0.29, False),
        ({"min": 0.31}, 0.31, False),
        # Lower is better: a margin allows more, a negative one demands less.
        ({"max_drop_vs": "float32", "margin": 0.03}, 0.31, True),
        ({"max_drop_vs": "float32", "margin": 0.01}, 0.29, False),
        ({"max_drop_vs": "float32"}, 0.28, False),
        ({"max_drop_vs": "baseline", "margin": -0.05}, 0.35, True),
        ({"max_drop_vs": "baseline", "margin": -0.15}, 0.25, False),
        ({"max_drop_vs": "champion"}, 0.29, False),
        # Higher is better: a margin allows less, a negative one demands more.
        ({**ACCURACY, "max_drop_vs": "float32", "margin": 0.03}, 0.89, True),
        ({**ACCURACY, "max_drop_vs": "float32", "margin": 0.01}, 0.91, False),
        ({**ACCURACY, "max_drop_vs": "baseline", "margin": -0.04}, 0.89, True),
        ({**ACCURACY, "max_drop_vs": "baseline", "margin": -0.06}, 0.91, False),
    ],
    ids=str,
)
def test_a_bound_is_met_or_not(settings, bound, passed):
    result = one(**settings)
    assert result["passed"] is passed
    if "max_drop_vs" not in settings:
        assert result["bound"] == bound
        return
    sign = 1 if HIGHER_IS_BETTER[result["metric"]] else -1
    assert result["reference"] - sign * result["margin"] == pytest.approx(bound)
    assert result["drop_bound"] == pytest.approx(sign * (result["reference"] - result["value"]))
    assert result["difference"] == pytest.approx(result["value"] - result["reference"])


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
    assert (result["passed"], result["value"]) == (False, None)
    assert "no figure found" in result["text"]
    for value in (math.nan, math.inf, None):  # of the reference
        table = {"all": {"int8": {"severity_mae": 0.1}, "champion": {"severity_mae": value}}}
        (result,) = evaluate([rule(max_drop_vs="champion", margin=5.0)], table)["rules"]
        assert not result["passed"]


def test_no_rules_no_pass():
    gate = evaluate([], TABLE)
    assert gate == {"format": FORMAT, "verdict": "fail", "rules": []}
    assert failed_rules(gate) == ["no rule of gate.rules is asked here, and without one nothing passes"]


def test_a_comparison_names_what_it_compares_with():
    text = one(max_drop_vs="baseline", margin=-0.15)["text"]
    assert text == (
        "severity_mae of int8 on all: 0.3 found, baseline 0.4, drop -0.1 and with 95 % confidence at most -0.1; "
        "at most -0.15 (margin) allowed"
    )


INT8_PAIR = MetricPair("severity_mae", "int8", "float32")
NOISY = np.linspace(-0.01, 0.05, 101)
"""Drops of resamples, 0.02 in the mean; a share c of them is at most 0.06 c - 0.01."""


@pytest.mark.parametrize(
    ("margin", "confidence", "passed"),
    [(0.03, None, False), (0.046, None, False), (0.048, None, True), (0.03, 0.6, True), (0.048, 0.99, False)],
)
def test_a_drop_must_be_ruled_out_with_the_confidence_asked_for(margin, confidence, passed):
    asked = rule(max_drop_vs="float32", margin=margin, **({"confidence": confidence} if confidence else {}))
    gate = evaluate([asked], TABLE, {"all": {INT8_PAIR: NOISY}})
    (result,) = gate["rules"]
    assert result["passed"] is passed
    assert result["confidence"] == (confidence or 0.95)
    assert result["drop_bound"] == pytest.approx(0.06 * result["confidence"] - 0.01, abs=0.0007)
    by_section = evaluate([asked], TABLE, {"all": {INT8_PAIR: NOISY}}, confidence=0.6)
    assert by_section["rules"][0]["confidence"] == (confidence or 0.6)


@pytest.mark.parametrize(
    "drops",
    [{}, {"all": {}}, {"all": {INT8_PAIR: np.r_[np.zeros(94), np.full(6, np.nan)]}}],
    ids=["no slice", "no pair", "too many resamples without a figure"],
)
def test_a_drop_without_a_bound_is_no_pass(drops):
    (result,) = evaluate([rule(max_drop_vs="float32", margin=9.0)], TABLE, drops)["rules"]
    assert result["passed"] is False
    assert result["drop_bound"] is None
    assert "at most no figure; at most 9 (margin) allowed" in result["text"]


def test_what_is_not_measured_on_buildings_is_compared_as_it_is():
    table = {"all": {"int8": {"size_bytes": 1.3}, "float32": {"size_bytes": 1.0}}}
    gate = evaluate([rule(metric="size_bytes", max_drop_vs="float32", margin=m) for m in (0.2, 0.4)], table, {})
    assert [result["passed"] for result in gate["rules"]] == [False, True]
    assert "drop_bound" not in gate["rules"][0]
    assert gate["rules"][0]["text"].endswith("float32 1, drop 0.3; at most 0.2 (margin) allowed")


def row(own, other, buildings=200.0):
    """Severity errors of two artifacts on a slice of which a quarter of the buildings has a quadrant."""
    counts = {"buildings": buildings, "buildings_with_quadrant": buildings / 4}
    return {"int8": {**counts, "severity_mae": own}, "float32": {**counts, "severity_mae": other}}


NONE = {"int8": {"buildings": 500.0}, "float32": {"buildings": 500.0}}
SLICED = {
    "all": row(0.3, 0.3, 600),
    "a": row(0.9, 0.85),
    "city:b": row(0.5, 0.3),
    "city:c": row(0.3, 0.3),
    "city:few": row(0.95, 0.1, buildings=149.0),
}
SLICED["all"]["int8"]["quadrant_accuracy"] = 0.7


@pytest.mark.parametrize(
    ("settings", "table", "worst", "passed", "words"),
    [
        (
            {"slice": "worst", "max_drop_vs": "float32", "margin": 0.1},
            SLICED,
            "city:b",
            False,
            "0.5 found, float32 0.3",
        ),
        ({"slice": "worst", "max_drop_vs": "float32", "margin": 0.25}, SLICED, "city:b", True, "0.5 found"),
        ({"slice": "worst", "max": 0.8}, SLICED, "a", False, "on worst (a): 0.9 found"),
        ({"slice": "worst", "max": 9.0}, {**SLICED, "none": NONE}, "none", False, "no figure found"),
        (
            {"slice": "worst", "max": 9.0},
            {"few": SLICED["city:few"]},
            None,
            False,
            "no such slice has 150 test buildings",
        ),
        # Of whose buildings 150 have a quadrant.
        ({"slice": "worst", "metric": "quadrant_accuracy", "min": 0.6}, SLICED, "all", True, "0.7 found"),
        ({"slice": "city:*", "max": 0.4}, SLICED, "city:b", False, "on city:* (city:b): 0.5 found"),
        ({"slice": "city:*", "max": 0.6}, SLICED, "city:b", True, "0.5 found"),
        ({"slice": "category:*", "max": 0.6}, SLICED, None, False, "no figure found"),
    ],
)
def test_a_rule_on_many_slices_is_asked_of_the_worst_that_is_large_enough(settings, table, worst, passed, words):
    gate = evaluate([rule(**settings)], table, min_worst_slice=150)
    (result,) = gate["rules"]
    assert (result["slice"], result.get("worst_slice"), result["passed"]) == (settings["slice"], worst, passed)
    assert gate["verdict"] == ("pass" if passed else "fail")
    assert words in result["text"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"artifact": "float32", "max_drop_vs": "float32"}, "float32 is compared with itself"),
        ({"metric": "interval_coverage_gap", "max_drop_vs": "float32"}, "Bound it by `max`"),
        ({"metric": "size_bytes", "max_drop_vs": "float32", "confidence": 0.9}, "not taken over buildings"),
        ({"metric": "size_ratio", "max_drop_vs": "champion"}, "not measured against the champion"),
        ({"metric": "interval_width", "max_drop_vs": "baseline"}, "not measured of the baseline"),
        ({"metric": "judged_share", "slice": "points:0-9", "min": 0.5}, "is of the whole, and points:0-9 has none"),
    ],
)
def test_a_rule_that_proves_nothing_or_has_no_figure_is_refused_by_any_command(settings, words):
    gates = [{"metric": "severity_mae", "artifact": "int8", **settings}]
    with pytest.raises(InputError, match=rf"gate\.rules\.0: .*{words}"):
        parse_params({**PARAMS, "gate": {"rules": gates}})


@pytest.mark.parametrize("found", [FORMAT + 1, 0, "2", None, True, 1.5])
def test_a_gate_of_another_format_is_refused(found):
    with refuses("gate.other_format", "gate.json", repr(found)):
        check_format({"format": found, "verdict": "pass"}, "gate.json")


@given(
    st.sampled_from(OF_BUILDINGS),
    st.lists(st.floats(-10, 10), min_size=2, max_size=40),
    st.floats(-5, 5),
    st.floats(0.51, 0.99),
    st.floats(0, 3),
)
def test_a_larger_drop_never_passes_where_a_smaller_one_fails(metric, drops, margin, confidence, more):
    table = {"all": {who: {metric: 0.5} for who in ("int8", "float32")}}
    asked = [rule(metric=metric, max_drop_vs="float32", margin=margin, confidence=confidence)]

    def passed(values):
        return evaluate(asked, table, {"all": {MetricPair(metric, "int8", "float32"): values}})["verdict"] == "pass"

    assert passed(np.array(drops)) or not passed(np.array(drops) + more)
