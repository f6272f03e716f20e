"""Apply the rules of `validate.gates` to the figures of scenes."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from plumbline.fields.model.scores import Figures, paired, ratio_bound
from plumbline.params.fields import FieldGate, ValidateFields
from plumbline.validate.gates.rules import FORMAT

ADAPTER = "adapter:"
"""How the slice of a rule on an adapter begins."""
Table = Mapping[str, Mapping[str, Sequence[Figures]]]
"""slice -> artifact (or `gaussian_process`, `champion`) -> figures of each scene."""
Fixed = Mapping[str, Mapping[str, float]]
"""artifact -> metric -> figure of the whole: parity, bytes."""


def evaluate(rules: Sequence[FieldGate], table: Table, fixed: Fixed, params: ValidateFields) -> dict[str, Any]:
    """Return the verdict over `rules`: `pass` only if a rule exists and all are met; a missing figure fails."""
    results = [_one(rule, table, fixed, params) for rule in rules]
    passed = bool(results) and all(result["passed"] for result in results)
    return {"format": FORMAT, "verdict": "pass" if passed else "fail", "rules": results}


def mean_of(rows: Sequence[Figures], metric: str) -> float | None:
    """Return the mean over scenes that have a figure; None without any, or if an answer in one of them is NaN."""
    values = told(rows, metric)
    mean = float(np.mean(values)) if values else math.nan
    return mean if math.isfinite(mean) else None


def told(rows: Sequence[Figures], metric: str) -> list[float]:
    """Return the figures of the scenes in which any cell was restored."""
    return [row[metric] for row in rows if metric in row and not math.isnan(row[metric])]


def split_rules(
    rules: Sequence[FieldGate], left_out: Collection[str]
) -> tuple[list[FieldGate], dict[str, list[FieldGate]]]:
    """Return the rules of `validate.gates` that are asked now, and by name those on adapters that are not shipped.

    A rule against the champion is in neither: a promotion asks it.

    Args:
        rules: all. left_out: names of the adapters that training left out. A rule on an adapter that is neither shipped
            nor left out is asked, and fails without a figure.
    """
    asked: list[FieldGate] = []
    unshipped: dict[str, list[FieldGate]] = {name: [] for name in left_out}
    for rule in rules:
        if rule.max_ratio_to != "champion":
            unshipped.get(adapter_of(rule.slice) or "", asked).append(rule)
    return asked, unshipped


def adapter_of(part: str) -> str | None:
    """Return the adapter that a slice is of: `adapter:NAME` or `adapter:NAME on DOMAIN`; None for another slice."""
    return part.removeprefix(ADAPTER).partition(" on ")[0] if part.startswith(ADAPTER) else None


def _one(rule: FieldGate, table: Table, fixed: Fixed, params: ValidateFields) -> dict[str, Any]:
    rows = table.get(rule.slice, {}).get(rule.artifact, [])
    if rule.metric in ("parity_mm", "size_bytes"):
        value = fixed.get(rule.artifact, {}).get(rule.metric)
    else:
        value = mean_of(rows, rule.metric) if len(told(rows, rule.metric)) >= params.min_scenes else None
    about: dict[str, Any] = {"metric": rule.metric, "artifact": rule.artifact, "slice": rule.slice, "value": value}
    if rule.max_ratio_to is None:
        kind, bound = ("min", rule.min) if rule.min is not None else ("max", rule.max)
        assert bound is not None
        passed = value is not None and (value >= bound if kind == "min" else value <= bound)
        relation = f"{'at least' if kind == 'min' else 'at most'} {bound:.4g} ({kind}) needed"
        return _told({**about, "kind": kind, "bound": bound, "passed": passed}, relation)
    others = table.get(rule.slice, {}).get(rule.max_ratio_to, [])
    held = None
    if value is not None and len(others) == len(rows):
        own, other = paired(rows, others, rule.metric)
        if len(own) >= params.min_scenes:
            found = ratio_bound(own, other, params.confidence)
            held = found if math.isfinite(found) else None
    assert rule.bound is not None
    passed = held is not None and held <= rule.bound
    about |= {"kind": f"max_ratio_to {rule.max_ratio_to}", "ratio_bound": held, "bound": rule.bound, "passed": passed}
    ratio = "no figure" if held is None else f"{held:.4g}"
    words = f"with {100 * params.confidence:g} % confidence at most {ratio} times that of {rule.max_ratio_to}"
    return _told(about, f"{words}; at most {rule.bound:.4g} allowed")


def _told(result: dict[str, Any], words: str) -> dict[str, Any]:
    value = "no figure" if result["value"] is None else f"{result['value']:.4g}"
    text = f"{result['metric']} of {result['artifact']} on {result['slice']}: {value} found, {words}"
    return {**result, "text": text}
