"""Collect what a report shows, and its plots for DVC."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from plumbline.core.arrays import Float
from plumbline.core.compass import QUADRANTS
from plumbline.core.strain import CATEGORY_BOUNDS_PERMILLE, category
from plumbline.params.validate import OF_BUILDINGS
from plumbline.validate.evidence import GateEvidence
from plumbline.validate.gates.bootstrap import resampled_figures, upper_bound
from plumbline.validate.metrics import (
    Figures,
    JudgedAnswers,
    accuracy_by_coverage,
    confidence_bins,
    share_error,
)

SHARE = 0.95
"""Share of the resamples within a figure's interval, and confidence of each bound of a
difference."""


class MetricInterval(NamedTuple):
    """Both ends of a figure's interval."""

    low: float
    high: float


Intervals = dict[str, dict[str, MetricInterval]]
"""Contender -> metric -> interval."""


def intervals(
    everyone: Mapping[str, JudgedAnswers],
    quadrant_true: NDArray[np.int64],
    severity_true: Float,
    reference: str,
) -> tuple[Intervals, Intervals]:
    """Return 95 % intervals of each contender's metrics over buildings, and bounds of the
    difference from a reference.

    Each end of a difference is a one-sided bound with 95 % confidence: the end on the worse
    side *is* the `drop_bound` of a rule `max_drop_vs` with that confidence, of the same
    resamples. (Both bounds together have 90 %.)

    Args:
        everyone: contender -> its answers for the B buildings.
        quadrant_true: (B,) code, -1 below category 1. severity_true: (B,) permille.
        reference: the contender whose figures are taken from those of the others.

    Returns:
        The figures' intervals, and those of the figures less the reference's; without those that
        are not finite.
    """
    keys = [(metric, name) for metric in OF_BUILDINGS for name in everyone]
    resampled = resampled_figures(keys, everyone, quadrant_true, severity_true)
    of_each: Intervals = {name: {} for name in everyone}
    less: Intervals = {name: {} for name in everyone if name != reference}
    for (metric, name), figures in resampled.items():
        of_each[name] |= _bounds(metric, figures, (1 + SHARE) / 2)
        if name != reference and (metric, reference) in resampled:
            less[name] |= _bounds(metric, figures - resampled[metric, reference], SHARE)
    return of_each, less


def _bounds(metric: str, values: Float, confidence: float) -> dict[str, MetricInterval]:
    """Return both one-sided bounds; empty if too many resamples lack a figure, as for a gate."""
    low, high = 0 - upper_bound(-values, confidence), upper_bound(values, confidence)
    return {metric: MetricInterval(low, high)} if np.isfinite((low, high)).all() else {}


METRICS = (
    "quadrant_accuracy",
    "quadrant_macro_f1",
    "quadrant_accuracy_at_70",
    "expected_calibration_error",
    "severity_mae",
    "severity_r2",
    "category_accuracy",
    "interval_coverage",
    "interval_width",
    "missed_share",
)
"""Metrics with an interval, in their order in the report."""
COSTS = (
    "damage_calibration_2",
    "damage_calibration_10",
    "damage_calibration_50",
    "judged_share",
    "judged_quadrant_accuracy",
    "judged_severity_mae",
    "size_bytes",
    "weight_bytes",
    "parity_probability",
    "parity_severity_permille",
    "novelty_change",
)
OF_SLICES = ("buildings", "quadrant_accuracy", "severity_mae", "interval_coverage", "missed_share")
REFERENCE = "float32"
"""Contender to which the others are compared; at a promotion it is the champion."""
BASELINE, CHAMPION = "baseline", "champion"


def report_figures(
    evidence: GateEvidence, table: Mapping[str, Mapping[str, Figures]], reference: str = REFERENCE
) -> dict[str, Any]:
    """Return the figures of the report, as strict JSON; `with_verdict` completes its content.

    Args:
        evidence: answers for B buildings. table: slice -> contender -> figures; a champion
            has its place in it where one is known. reference: the contender from which
            differences are told.
    """
    everyone, quadrant, severity = evidence.everyone, evidence.quadrant, evidence.severity
    of_each, less = intervals(everyone, quadrant, severity, reference)
    names = sorted(table["all"], key=(BASELINE, CHAMPION).__contains__)  # stable: artifacts first
    return {
        "contenders": names,
        "reference": reference,
        "confidence": SHARE,
        "metrics": {
            metric: {
                name: _with_ends(table["all"][name][metric], of_each.get(name, {}).get(metric))
                for name in names
                if metric in table["all"][name]
            }
            for metric in METRICS
        },
        "from_reference": {
            name: {metric: list(less[name][metric]) for metric in METRICS if metric in less[name]}
            for name in names
            if name in less
        },
        "slices": {
            part: {
                name: {key: row[name][key] for key in OF_SLICES if key in row[name]} for name in row
            }
            for part, row in table.items()
        },
        "costs": {
            name: {key: table["all"][name][key] for key in COSTS if key in table["all"][name]}
            for name in names
        },
        "judged": {name: _judged(judged, quadrant, severity) for name, judged in everyone.items()},
    }


def with_verdict(figures: Mapping[str, Any], gate: Mapping[str, Any]) -> dict[str, Any]:
    """Return the whole content of a report, as strict JSON.

    Args:
        figures: see `report_figures`. gate: verdict and rules, see `rules.evaluate`; of a
            rule only `metric, artifact, slice, value, bound, kind, passed, text` are read.
    """
    return {
        "verdict": gate["verdict"],
        # Stable: failed first.
        "rules": sorted(gate["rules"], key=lambda rule: bool(rule["passed"])),
        "left_for_promotion": gate.get("left_for_promotion", []),
        "test_data": gate.get("test_data", {}),
        "champion": gate.get("champion", ""),
        **figures,
    }


def compared_with(content: Mapping[str, Any]) -> str:
    """Return a sentence with the version of the champion, or with the reason why there is none."""
    if content["champion"]:
        return (
            f"champion is version {content['champion']}, the default model of what is "
            "released today."
        )
    return (
        "No champion here: `plumbline release promote` runs it on the same buildings, and writes "
        "this report with "
        "it into data/release."
    )


def _with_ends(value: float, ends: MetricInterval | None) -> dict[str, float]:
    return {"value": value} | ({"low": ends.low, "high": ends.high} if ends else {})


def _judged(judged: JudgedAnswers, quadrant: Any, severity: Any) -> dict[str, Any]:
    """Return confusions (rows are the truth), reliability, and accuracy against coverage,
    without NaN answers."""
    tables: dict[str, Any] = {}
    if np.isfinite(judged.severity).all():
        categories = len(CATEGORY_BOUNDS_PERMILLE) + 1
        tables["category"] = _confusion(category(severity), category(judged.severity), categories)
    defined = quadrant >= 0
    if defined.any() and np.isfinite(judged.probability[defined]).all():
        predicted, confidence = (
            judged.probability[defined].argmax(1),
            judged.quadrant_confidence[defined],
        )
        truth = judged.truth(quadrant)[defined]
        right = predicted == truth
        tables["quadrant"] = _confusion(truth, predicted, 4)
        tables["reliability"] = confidence_bins(confidence, right, bins=10)
        tables["coverage"] = accuracy_by_coverage(confidence, right)
    return tables


def _confusion(
    truth: NDArray[np.integer], predicted: NDArray[np.integer], size: int
) -> list[list[int]]:
    counts = np.zeros((size, size), int)
    np.add.at(counts, (np.asarray(truth), np.asarray(predicted)), 1)
    return [[int(count) for count in row] for row in counts]


COLUMNS = {
    "reliability": ["confidence", "accuracy", "share"],
    "coverage": ["coverage", "confidence", "accuracy"],
    "intervals": ["slice", "buildings", "coverage", "standard_error", "mean_width_permille"],
}
"""Columns of tables that may have no row."""


def write_evidence(
    folder: Path, evidence: GateEvidence, table: Mapping[str, Mapping[str, Figures]], name: str
) -> None:
    """Write tables (CSV) of one artifact: confusions, severity against truth, reliability,
    accuracy against coverage, interval coverage on each slice.

    Args:
        folder: is there. evidence: answers for B buildings. table: slice -> artifact ->
            figures. name: of the artifact.
    """
    judged = evidence.everyone[name]
    # No number is of the highest category, and the largest of NaNs is the first: a broken
    # model says nothing there.
    defined = (evidence.quadrant >= 0) & np.isfinite(judged.probability).all(1)
    truth, predicted = (
        judged.truth(evidence.quadrant)[defined],
        judged.probability[defined].argmax(1),
    )
    confidence, right = judged.quadrant_confidence[defined], predicted == truth
    severity, is_number = evidence.severity, np.isfinite(judged.severity)
    tables: dict[str, Any] = {
        "category_confusion": {
            "true": category(severity[is_number]),
            "said": category(judged.severity[is_number]),
        },
        "quadrant_confusion": {
            "true": np.array(QUADRANTS)[truth],
            "said": np.array(QUADRANTS)[predicted],
        },
        "severity": {
            "true_permille": severity.round(4).astype(float),
            "said_permille": judged.severity.round(4).astype(float),
        },
        "reliability": confidence_bins(confidence, right, bins=10),
        "coverage": accuracy_by_coverage(confidence, right),
        "intervals": [
            {
                "slice": part,
                "buildings": int(row[name]["buildings"]),
                "coverage": round(share, 4),
                "standard_error": round(share_error(share, int(row[name]["buildings"])), 4),
                "mean_width_permille": round(row[name]["interval_width"], 4),
            }
            for part, row in table.items()
            if (share := row[name].get("interval_coverage")) is not None
        ],
    }
    for stem, rows in tables.items():
        pd.DataFrame(rows, columns=COLUMNS.get(stem)).to_csv(
            folder / f"{stem}.csv", index=False, na_rep="nan"
        )
