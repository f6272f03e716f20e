"""Draw `report.html`: the verdict on a candidate with its evidence, in one file for a
screen or a phone, offline."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from plumbline.core.compass import QUADRANTS
from plumbline.core.files import write_json
from plumbline.reporting.charts import Estimate, Line, interval_chart, line_chart
from plumbline.reporting.page import render
from plumbline.validate.gates.bootstrap import RESAMPLES
from plumbline.validate.report.content import METRICS, OF_SLICES, compared_with

DRAWN = ("quadrant_accuracy", "severity_mae", "interval_coverage", "expected_calibration_error")
"""Metrics that have a drawing."""
CATEGORIES = ("0", "1", "2", "3", "4")


def write_report(folder: Path, content: Mapping[str, Any]) -> None:
    """Write `report.json`, the `content` (see `with_verdict`), and the page drawn from it
    into `folder`."""
    write_json(folder / "report.json", content)
    (folder / "report.html").write_text(report_page(content), encoding="utf-8")


def report_page(content: Mapping[str, Any]) -> str:
    """Return the page for the content of a `report.json`."""
    less = content["from_reference"]
    differences = [
        metric for metric in METRICS if any(metric in bounds for bounds in less.values())
    ]
    costs = {name: figures for name, figures in content["costs"].items() if figures}
    cost_names = list(dict.fromkeys(key for figures in costs.values() for key in figures))
    return render(
        "candidate.html",
        **content,
        title="Plumbline: report of a candidate",
        resamples=RESAMPLES,
        compared_with=compared_with(content),
        interval_charts=[
            _interval_chart(key, content["metrics"][key])
            for key in DRAWN
            if content["metrics"][key]
        ],
        differences=differences,
        difference_rows=[
            [name, *(_format_bounds(less[name].get(key)) for key in differences)] for name in less
        ],
        cost_names=cost_names,
        cost_rows=[
            [name, *(figures.get(key) for key in cost_names)] for name, figures in costs.items()
        ],
        slice_rows={key: _slice_rows(content, key) for key in OF_SLICES if key != "buildings"},
        curves=_confidence_charts(content["judged"]),
        confusions=(
            ("quadrant", "Quadrant, from category 1", QUADRANTS),
            ("category", "Burland category", CATEGORIES),
        ),
    )


def _interval_chart(metric: str, by_name: Mapping[str, Any]) -> str:
    estimates = [
        Estimate(name, figure["value"], figure.get("low"), figure.get("high"))
        for name, figure in by_name.items()
    ]
    return interval_chart(metric, estimates, paper="none")


def _format_bounds(bounds: tuple[float, float] | None) -> str:
    return "–" if bounds is None else " to ".join(f"{end:+.3f}" for end in bounds)


def _slice_rows(content: Mapping[str, Any], metric: str) -> list[list[Any]]:
    """Return a row for each slice that has the metric: name, number of buildings, and a
    figure for each contender."""
    rows = []
    for part, by_name in content["slices"].items():
        count = max((figures.get("buildings", 0) for figures in by_name.values()), default=0)
        values = [by_name.get(name, {}).get(metric) for name in content["contenders"]]
        if any(value is not None for value in values):
            rows.append([part, count, *values])
    return rows


def _confidence_charts(judged: Mapping[str, Any]) -> list[str]:
    """Draw how often quadrants of a confidence are right, and accuracy against coverage;
    nothing without any."""
    drawn = {name: curves for name, curves in judged.items() if "reliability" in curves}
    if not drawn:
        return []
    reliability, covered = (
        [
            Line(name, [(row[x], row["accuracy"]) for row in curves[kind]])
            for name, curves in drawn.items()
        ]
        for kind, x in (("reliability", "confidence"), ("coverage", "coverage"))
    )
    title, y_label = "How often the quadrant is right", "quadrant accuracy"
    calibrated = Line("calibrated", [(0, 0), (1, 1)], dashed=True)
    return [
        line_chart(title, "confidence", y_label, [*reliability, calibrated], paper="none"),
        line_chart(
            "Quadrant accuracy of the most confident",
            "share of the damaged buildings",
            y_label,
            covered,
            paper="none",
        ),
    ]
