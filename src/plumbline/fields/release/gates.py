"""Run the stage `gate` of fields: judge the figures of scenes by the rules of `gate.rules`."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from plumbline.core.console import log, warn
from plumbline.core.errors import InputError
from plumbline.core.files import atomic_folder, read_json, sha256_folder, write_json
from plumbline.fields.model.scores import METRICS, Figures, paired, ratio_bound
from plumbline.params.fields import FieldGate, FieldGates
from plumbline.validate.gates.verdict import GATE, make_verdict

Table = Mapping[str, Mapping[str, Sequence[Figures]]]
"""Figures of each scene: slice -> artifact (or `gaussian_process`, `champion`) -> figures."""
Fixed = Mapping[str, Mapping[str, float]]
"""Figures that no scene has: artifact -> metric (parity, bytes) -> figure."""
ALL = "all"
SCENES = "scenes.csv"
"""File of the stage `validate` with the figures of each scene."""


def gate(validated: Path, params: FieldGates, out: Path) -> None:
    """Write `gate.json`, verdict and rules, into `out`, also if the verdict is `fail`.

    Args:
        validated: folder of the stage `validate`. params: section `gate`. out: folder.

    Raises:
        InputError: a file of the evidence is missing or damaged.
    """
    measured, fixed = (
        read_json(validated / "measured.json"),
        read_json(validated / "metrics.json")[ALL],
    )
    # A promotion applies the rules with `max_ratio_to: champion`, see `compare_fields`.
    rules = [rule for rule in params.rules if rule.max_ratio_to != "champion"]
    verdict = evaluate(rules, read_scenes(validated / SCENES), fixed, params)
    verdict |= {key: measured[key] for key in ("test_data", "exported")}
    verdict["validated"] = {"sha256": sha256_folder(validated)}
    with atomic_folder(out) as folder:
        write_json(folder / GATE, verdict)
    for rule in verdict["rules"]:
        if rule["passed"]:
            log.info("met: %s", rule["text"])
        else:
            warn("not met: %s", rule["text"], key="gate.rule_failed")
    log.info("gate: %s", verdict["verdict"])


def read_scenes(path: Path) -> dict[str, dict[str, list[Figures]]]:
    """Read the figures of each scene.

    Raises:
        InputError: the file is missing or damaged.
    """
    table: dict[str, dict[str, list[Figures]]] = {}
    try:
        with path.open(newline="", encoding="utf-8") as stream:
            for row in csv.DictReader(stream):
                figures = {metric: float(row[metric]) for metric in METRICS}
                table.setdefault(row["slice"], {}).setdefault(row["model"], []).append(figures)
    except FileNotFoundError:
        raise InputError(
            f"{path}: no such file. Run `plumbline validate` first.", key="file.missing"
        ) from None
    except (KeyError, TypeError, ValueError, csv.Error) as error:
        raise InputError(
            f"{path}: unreadable figures ({error}). Run `plumbline validate` again.",
            key="figures.unreadable",
        ) from None
    return table


def evaluate(
    rules: Sequence[FieldGate], table: Table, fixed: Fixed, params: FieldGates
) -> dict[str, Any]:
    """Return the verdict over `rules`: `pass` only if a rule exists and all are met; a
    missing figure fails."""
    return make_verdict([_apply_rule(rule, table, fixed, params) for rule in rules])


def mean_of(rows: Sequence[Figures], metric: str) -> float | None:
    """Return the mean over scenes that have a figure; None without any, or if an answer in
    one of them is NaN."""
    values = figures_of(rows, metric)
    mean = float(np.mean(values)) if values else math.nan
    return mean if math.isfinite(mean) else None


def figures_of(rows: Sequence[Figures], metric: str) -> list[float]:
    """Return the figures of the scenes in which a cell was restored."""
    return [row[metric] for row in rows if metric in row and not math.isnan(row[metric])]


def _apply_rule(rule: FieldGate, table: Table, fixed: Fixed, params: FieldGates) -> dict[str, Any]:
    """Return one rule with its measured value, its bound and whether it is met."""
    rows = table.get(rule.slice, {}).get(rule.artifact, [])
    if rule.metric in ("parity_mm", "size_bytes"):
        value = fixed.get(rule.artifact, {}).get(rule.metric)
    else:
        value = (
            mean_of(rows, rule.metric)
            if len(figures_of(rows, rule.metric)) >= params.min_scenes
            else None
        )
    about: dict[str, Any] = {
        "metric": rule.metric,
        "artifact": rule.artifact,
        "slice": rule.slice,
        "value": value,
    }
    bounds = {"min": rule.min, "max": rule.max, f"max_ratio_to {rule.max_ratio_to}": rule.bound}
    kind, bound = next((kind, bound) for kind, bound in bounds.items() if bound is not None)
    if rule.max_ratio_to is None:
        passed = value is not None and (value >= bound if kind == "min" else value <= bound)
        relation = f"{'at least' if kind == 'min' else 'at most'} {bound:.4g} ({kind}) needed"
        return _with_text({**about, "kind": kind, "bound": bound, "passed": passed}, relation)
    reference_rows = table.get(rule.slice, {}).get(rule.max_ratio_to, [])
    upper = None
    if value is not None and len(reference_rows) == len(rows):
        figures, reference = paired(rows, reference_rows, rule.metric)
        if len(figures) >= params.min_scenes:
            ratio = ratio_bound(figures, reference, params.confidence)
            upper = ratio if math.isfinite(ratio) else None
    passed = upper is not None and upper <= bound
    about |= {"kind": kind, "ratio_bound": upper, "bound": bound, "passed": passed}
    ratio_text = "no figure" if upper is None else f"{upper:.4g}"
    words = (
        f"with {100 * params.confidence:g} % confidence at most {ratio_text} times that of "
        f"{rule.max_ratio_to}"
    )
    return _with_text(about, f"{words}; at most {bound:.4g} allowed")


def _with_text(verdict: dict[str, Any], words: str) -> dict[str, Any]:
    """Return the verdict on a rule with its line for the log."""
    value = "no figure" if verdict["value"] is None else f"{verdict['value']:.4g}"
    text = (
        f"{verdict['metric']} of {verdict['artifact']} on {verdict['slice']}: {value} found, "
        f"{words}"
    )
    return {**verdict, "text": text}
