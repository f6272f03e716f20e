"""Run the stage `validate`: every artifact in its runtime, beside the engineer's baseline."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.core.files import atomic_folder, sha256_folder, write_json
from plumbline.core.strain import INTERVAL_SHARE
from plumbline.export.answers import Answers
from plumbline.export.runtime import OnnxModel
from plumbline.export.stage import ARTIFACTS
from plumbline.model.diagnosis import load_diagnosis
from plumbline.params import Prepare, Validate
from plumbline.params.validate import OF_QUADRANTS
from plumbline.prepare.abstention import quadrant_confidence
from plumbline.prepare.features.shards import SequenceSet, Shards, load_shards
from plumbline.validate.evidence import FILE, GateEvidence, write_answers
from plumbline.validate.measure import (
    judged_figures,
    least_squares,
    middle_building,
    novelty_figures,
    parity_figures,
    run_seconds,
    size_figures,
    slices,
)
from plumbline.validate.metrics import Figures, JudgedAnswers, accuracy_figures
from plumbline.validate.report.content import report_figures, write_evidence

Table = dict[str, dict[str, Figures]]
BASELINE = "baseline"
SHOWN = "int8"
"""The artifact whose answers are tabled and drawn."""
SUMMARY = (
    "quadrant_accuracy",
    "quadrant_macro_f1",
    "severity_mae",
    "severity_r2",
    "expected_calibration_error",
    "quadrant_accuracy_at_70",
    "interval_coverage",
    "interval_coverage_gap",
    "size_bytes",
)
"""Figures of the files that `dvc metrics show` puts side by side; `metrics.json` has them
all, on every slice."""


def validate(
    prepared: Path,
    trained: Path,
    compressed: Path,
    exported: Path,
    *,
    params: Validate,
    limits: Prepare,
    out: Path,
) -> None:
    """Write figures, the answers for every building, and the tables of plots into `out`;
    the stage `gate` judges them.

    `metrics.json` has all figures on every slice, `summary/ARTIFACT.json` some of them on
    all, `figures.json` those of the report. The same input gives the same bytes: latencies
    are logged, and in no file.

    Args:
        prepared, trained, compressed, exported: folders of the stages before. params: how
            evidence is measured.
        limits: of what `predict` judges, in section `prepare`. out: folder.

    Raises:
        InputError: an input is missing or damaged.
    """
    test = load_shards(prepared / "test")
    cities = {
        *np.unique(test.city).tolist(),
        *np.unique(load_shards(prepared / "train").city).tolist(),
    }
    parts = slices(test, limits.max_strain_error_permille)
    table, answers, judged = judge_test(test, exported, params, parts)
    # A network that answers no numbers is measured too: gates refuse it, with the evidence.
    whole, pruned = load_diagnosis(trained, broken=True), load_diagnosis(compressed, broken=True)
    for name in ARTIFACTS:
        table["all"][name] |= parity_figures(
            whole if name == "float32" else pruned, test, answers[name]
        )
        table["all"][name] |= novelty_figures(whole, test, answers[name])
        table["all"][name] |= judged_figures(test, answers[name], limits)
    table = {
        part: {who: finite_figures(figures) for who, figures in row.items()}
        for part, row in table.items()
    }
    evidence = GateEvidence(judged, np.asarray(test.quadrant), np.asarray(test.severity), parts)
    measured = {
        "cities": sorted(cities),
        "test_data": {"sha256": sha256_folder(prepared / "test"), "buildings": len(test)},
        "exported": {"sha256": sha256_folder(exported)},
    }
    with atomic_folder(out) as folder:
        write_json(folder / "measured.json", measured)
        write_json(folder / "metrics.json", table)
        for name, figures in table["all"].items():
            short = {key: float(f"{figures[key]:.4g}") for key in SUMMARY if key in figures}
            write_json(folder / "summary" / f"{name}.json", short)
        write_answers(evidence, folder / FILE)
        write_evidence(folder, evidence, table, SHOWN)
        write_json(folder / "figures.json", report_figures(evidence, table))


def judge_test(
    test: Shards, exported: Path, params: Validate, parts: Mapping[str, NDArray[np.bool_]]
) -> tuple[Table, dict[str, Answers], dict[str, JudgedAnswers]]:
    """Return figures of all contenders on every slice, the artifacts' answers, and the
    answers of all contenders."""
    if not np.isfinite(test.severity).all():
        raise InputError(
            "validate: a test building has no label. Run `plumbline prepare` again.",
            key="test_split.no_label",
        )
    answers, table = {}, {}
    everyone: dict[str, JudgedAnswers] = {BASELINE: least_squares(test)}
    fixed: dict[str, Figures] = {BASELINE: {}}
    for name in ARTIFACTS:
        path = exported / f"{name}.onnx"
        model = OnnxModel(path)
        answers[name] = model.answer(test)
        everyone[name] = as_judged(answers[name], model.category_share, test)
        fixed[name] = size_figures(path)
        fixed[name]["size_ratio"] = fixed[name]["size_bytes"] / fixed[ARTIFACTS[0]]["size_bytes"]
        latency_ms = 1000 * float(np.median(run_seconds(model, [middle_building(test)])))
        log.info("latency of %s: %.3g ms for one building", name, latency_ms)
    for part, inside in parts.items():
        table[part] = {
            name: slice_figures(judged, test, inside, params.min_slice)
            for name, judged in everyone.items()
        }
    min_buildings = max(
        params.min_slice, params.min_interval_slice
    )  # smaller ones have no figures, whatever the answers
    for name, figures in fixed.items():
        table["all"][name].update(figures | coverage_gap(table, name, min_buildings))
    return table, answers, everyone


def coverage_gap(table: Table, name: str, least: int) -> Figures:
    """Return the largest gap between the interval's coverage and its target, over slices of
    at least `least` buildings.

    No figure where one of these slices has none: it may be the farthest.
    """
    coverages = [
        row[name].get("interval_coverage")
        for row in table.values()
        if row[name]["buildings"] >= least
    ]
    gaps = [abs(share - INTERVAL_SHARE) for share in coverages if share is not None]
    return {"interval_coverage_gap": max(gaps)} if gaps and len(gaps) == len(coverages) else {}


def slice_figures(judged: JudgedAnswers, test: Shards, inside: Any, min_slice: int) -> Figures:
    """Return the figures of the buildings `inside` (B,); only their number if it is below
    `min_slice`."""
    figures = accuracy_figures(
        judged.select(inside), np.asarray(test.quadrant)[inside], np.asarray(test.severity)[inside]
    )
    if figures["buildings"] < min_slice:
        return {"buildings": figures["buildings"]}
    if figures["buildings_with_quadrant"] < min_slice:
        return {name: value for name, value in figures.items() if name not in OF_QUADRANTS}
    return figures


def as_judged(
    answers: Answers, category_share: Sequence[float], test: SequenceSet
) -> JudgedAnswers:
    """Return released answers in the form that metrics take, with the accepted quadrants of
    the same buildings.

    Args:
        answers: for the buildings of `test`. category_share: see `OnnxModel`.
    """
    return JudgedAnswers(
        answers.quadrant_probability,
        answers.severity_permille,
        answers.severity_low,
        answers.severity_high,
        quadrant_confidence(answers),
        1 - answers.category_probability[:, 0].astype(float),
        sum(category_share[1:]),
        np.asarray(test.accepted),
    )


def finite_figures(figures: Figures) -> Figures:
    """Drop NaN and infinity, as a broken model produces them: a missing figure fails the gate."""
    return {name: value for name, value in figures.items() if math.isfinite(value)}
