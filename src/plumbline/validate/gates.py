"""Rules as data: each compares one figure with one bound. No figure, no pass."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from plumbline.errors import InputError
from plumbline.params import Gate
from plumbline.validate.metrics import HIGHER_IS_BETTER

NOT_COMPARED = (
    "parity_probability",
    "parity_severity_permille",
    "size_bytes",
    "weight_bytes",
    "latency_ms",
    "buildings_per_second",
)
"""Metrics that a promotion does not measure again."""

Table = Mapping[str, Mapping[str, Mapping[str, float | None]]]
"""slice -> artifact (or `baseline`, `champion`) -> metric -> figure."""


def check_rules(rules: Sequence[Gate]) -> None:
    """Refuse rules that name something unknown, before any work is done.

    Raises:
        InputError: a metric is not one of `HIGHER_IS_BETTER`, or is not measured against the champion.
    """
    for number, rule in enumerate(rules):
        if rule.metric not in HIGHER_IS_BETTER:
            known = ", ".join(HIGHER_IS_BETTER)
            raise InputError(f"params: validate.gates.{number}.metric: {rule.metric!r} found; one of {known} needed.")
        if rule.max_drop_vs == "champion" and (rule.metric in NOT_COMPARED or rule.artifact == "float32"):
            raise InputError(
                f"params: validate.gates.{number}: {rule.metric} of {rule.artifact} is not measured against the "
                "champion; accuracy metrics of pruned and int8 are."
            )


def evaluate(rules: Sequence[Gate], table: Table) -> dict[str, Any]:
    """The verdict over `rules`: `pass` only if there is a rule and every one is met.

    Returns:
        `{"verdict": "pass" | "fail", "rules": [{metric, artifact, slice, value, bound, passed, text}, ...]}`
    """
    results = [_one(rule, table) for rule in rules]
    passed = bool(results) and all(result["passed"] for result in results)
    return {"verdict": "pass" if passed else "fail", "rules": results}


def failed_rules(gate: Mapping[str, Any]) -> list[str]:
    """The sentences of the rules that were not met."""
    return [str(rule["text"]) for rule in gate["rules"] if not rule["passed"]]


def _one(rule: Gate, table: Table) -> dict[str, Any]:
    where = f"{rule.metric} of {rule.artifact} on {rule.slice}"
    value = _figure(table, rule.slice, rule.artifact, rule.metric)
    higher = HIGHER_IS_BETTER[rule.metric]
    bound: float | None
    if rule.max_drop_vs is not None:
        reference = _figure(table, rule.slice, rule.max_drop_vs, rule.metric)
        bound = None if reference is None else reference - rule.margin if higher else reference + rule.margin
        lower_bound = higher
        words = f"{rule.max_drop_vs} {_show(reference)} with margin {rule.margin:g}"
    else:
        bound = rule.min if rule.min is not None else rule.max
        lower_bound = rule.min is not None
        words = "min" if lower_bound else "max"
    met = value is not None and bound is not None and (value >= bound if lower_bound else value <= bound)
    relation = ("at least" if lower_bound else "at most") + f" {_show(bound)} ({words})"
    return {
        "metric": rule.metric,
        "artifact": rule.artifact,
        "slice": rule.slice,
        "value": value,
        "bound": bound,
        "kind": f"max_drop_vs {rule.max_drop_vs}" if rule.max_drop_vs else words,
        "passed": met,
        "text": f"{where}: {_show(value)} found, {relation} needed",
    }


def _figure(table: Table, part: str, who: str, metric: str) -> float | None:
    value = table.get(part, {}).get(who, {}).get(metric)
    return None if value is None or not math.isfinite(value) else value


def _show(value: float | None) -> str:
    return "no figure" if value is None else f"{value:.4g}"
