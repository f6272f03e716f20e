"""Evaluate rules: each compares one figure or drop with one bound. A missing figure fails.
See docs/gates.md."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plumbline.params import Gate, Gates
from plumbline.params.validate import HIGHER_IS_BETTER, OF_BUILDINGS, OF_QUADRANTS
from plumbline.validate.evidence import GateEvidence
from plumbline.validate.gates.bootstrap import MetricPair, resampled_drops, upper_bound
from plumbline.validate.gates.verdict import make_verdict

WORST = "worst"
"""Slice of a rule for every slice with enough buildings; the worst of them is reported."""
EACH = ":*"
"""End of the slice of a rule for every slice of one kind, as `city:*`."""
ROUNDING = 1e-9
"""Largest excess of a drop over its margin by rounding: 0.31 less 0.28 is a little more than 0.03
for a computer."""

Table = Mapping[str, Mapping[str, Mapping[str, float | None]]]
"""slice -> artifact (or `baseline`, `champion`) -> metric -> figure."""
Drops = Mapping[str, Mapping[MetricPair, NDArray[np.floating]]]
"""slice -> what is compared -> (R,) drops in resamples, see `bootstrap.resampled_drops`."""


def evaluate(rules: Sequence[Gate], table: Table, drops: Drops, params: Gates) -> dict[str, Any]:
    """Return the verdict over `rules`: `pass` only if at least one rule exists and all are met.

    Args:
        params: section `gate`, for the confidence, and for the slices that `worst` and
            `city:*` look at.

    Returns:
        `{"format": 2, "verdict": "pass" | "fail", "rules": [...]}`; docs/gates.md describes
        the fields of a rule.
    """
    return make_verdict([_evaluate_rule(rule, table, drops, params) for rule in rules])


def covers(rule: Gate, part: str) -> bool:
    """Return whether the rule applies to the slice `part`."""
    return rule.slice in (part, WORST) or (
        rule.slice.endswith(EACH) and part.startswith(rule.slice.removesuffix("*"))
    )


def _evaluate_rule(rule: Gate, table: Table, drops: Drops, params: Gates) -> dict[str, Any]:
    judge = _absolute if rule.max_drop_vs is None else _compared
    if rule.slice != WORST and not rule.slice.endswith(EACH):
        return _with_sentence(judge(rule, rule.slice, table, drops, params))
    counted = "buildings_with_quadrant" if rule.metric in OF_QUADRANTS else "buildings"
    min_count = params.min_worst_slice
    large = [
        part
        for part, row in table.items()
        if (row.get(rule.artifact, {}).get(counted) or 0) >= min_count
    ]
    results = [judge(rule, part, table, drops, params) for part in large if covers(rule, part)]
    if not results:
        missing = judge(rule, rule.slice, table, drops, params)
        reason = (
            f"no such slice has {min_count} test {counted.replace('_', ' ')}, which "
            "gate.min_worst_slice asks for"
        )
        return _with_sentence({**missing, "words": f"{missing['words']}; {reason}"})
    worst = max(results, key=lambda result: result["excess"])
    return _with_sentence({**worst, "slice": rule.slice, "worst_slice": worst["slice"]})


def _absolute(rule: Gate, part: str, table: Table, drops: Drops, params: Gates) -> dict[str, Any]:
    """Compare a figure with a bound."""
    value = _figure(table, part, rule.artifact, rule.metric)
    kind, bound = ("min", rule.min) if rule.min is not None else ("max", rule.max)
    excess = math.inf
    if value is not None and bound is not None:
        excess = bound - value if kind == "min" else value - bound
    relation = "at least" if kind == "min" else "at most"
    about = {"kind": kind, "value": value, "bound": bound}
    words = f"{relation} {_format(bound)} ({kind}) needed"
    return _result(rule, part, about, excess=excess, passed=excess <= 0, words=words)


def _compared(rule: Gate, part: str, table: Table, drops: Drops, params: Gates) -> dict[str, Any]:
    """Compare a drop with its margin: by its confidence bound, or directly for a metric
    that is not over buildings."""
    against = str(rule.max_drop_vs)
    value, reference = (_figure(table, part, who, rule.metric) for who in (rule.artifact, against))
    difference = None if value is None or reference is None else value - reference
    about: dict[str, Any] = {
        "kind": f"max_drop_vs {against}",
        "value": value,
        "reference": reference,
        "difference": difference,
        "margin": rule.margin,
    }
    # No -0.
    drop = (
        None
        if difference is None
        else 0 - difference
        if HIGHER_IS_BETTER[rule.metric]
        else difference
    )
    words = f"{against} {_format(reference)}, drop {_format(drop)}"
    tested = drop
    if rule.metric in OF_BUILDINGS:
        confidence = rule.confidence or params.confidence
        resampled = drops.get(part, {}).get(MetricPair(rule.metric, rule.artifact, against))
        bound = None if resampled is None or drop is None else upper_bound(resampled, confidence)
        tested = bound if bound is not None and math.isfinite(bound) else None
        about |= {"drop_bound": tested, "confidence": confidence}
        words += f" and with {100 * confidence:g} % confidence at most {_format(tested)}"
    excess = math.inf if tested is None else tested - rule.margin
    words += f"; at most {_format(rule.margin)} (margin) allowed"
    return _result(rule, part, about, excess=excess, passed=excess <= ROUNDING, words=words)


def _result(
    rule: Gate, part: str, about: Mapping[str, Any], *, excess: float, passed: bool, words: str
) -> dict[str, Any]:
    subject = {"metric": rule.metric, "artifact": rule.artifact, "slice": part}
    return {**subject, **about, "passed": passed, "words": words, "excess": excess}


def _with_sentence(result: dict[str, Any]) -> dict[str, Any]:
    """Return the result for gate.json: with its sentence, without the keys that served to
    find the worst slice."""
    fields = {key: value for key, value in result.items() if key not in ("words", "excess")}
    place = result["slice"] + (f" ({result['worst_slice']})" if "worst_slice" in result else "")
    text = (
        f"{result['metric']} of {result['artifact']} on {place}: {_format(result['value'])} "
        f"found, {result['words']}"
    )
    return {**fields, "text": text}


def _figure(table: Table, part: str, who: str, metric: str) -> float | None:
    value = table.get(part, {}).get(who, {}).get(metric)
    return None if value is None or not math.isfinite(value) else value


def _format(value: float | None) -> str:
    return "no figure" if value is None else f"{value:.4g}"


def drops_of(rules: Sequence[Gate], evidence: GateEvidence) -> Drops:
    """Return resampled drops for every rule `max_drop_vs` over buildings, on every slice
    that it covers."""
    drops = {}
    for part, inside in evidence.parts.items():
        pairs = {
            MetricPair(rule.metric, rule.artifact, str(rule.max_drop_vs))
            for rule in rules
            if rule.max_drop_vs and rule.metric in OF_BUILDINGS and covers(rule, part)
        }
        if pairs and inside.any():
            answers = {name: judged.select(inside) for name, judged in evidence.everyone.items()}
            drops[part] = resampled_drops(
                sorted(pairs), answers, evidence.quadrant[inside], evidence.severity[inside]
            )
    return drops
