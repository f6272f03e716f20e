"""Evaluate rules on the figures of scenes: a mean against a bound, or the bound of a ratio of means."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plumbline.model.restoration.measure import Figures
from plumbline.params.restoration import FieldGate, ValidateFields
from plumbline.validate.gates.rules import FORMAT

RESAMPLES = 2000
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


def ratio_bound(own: Sequence[float], other: Sequence[float], confidence: float) -> float:
    """Return a one-sided upper bound of the ratio of means over the same scenes, by resampling them (Efron 1979).

    Decision 11 asks for the bound: a mean does not rule out that a loss is chance.
    """
    a, b = np.asarray(own, float), np.asarray(other, float)
    drawn = np.random.default_rng(0).integers(0, len(a), (RESAMPLES, len(a)))
    ratio: NDArray[np.floating[Any]] = a[drawn].mean(axis=1) / np.maximum(b[drawn].mean(axis=1), 1e-12)
    return float(np.quantile(ratio, confidence))


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
        both = [(a[rule.metric], b[rule.metric]) for a, b in zip(rows, others, strict=True)]
        known = [pair for pair in both if not any(map(math.isnan, pair))]
        if len(known) >= params.min_scenes:
            own, other = zip(*known, strict=True)
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
