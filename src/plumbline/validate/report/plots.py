"""Write the tables and drawings behind the figures, for `dvc plots show` and for readers."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from plumbline.core.compass import QUADRANTS
from plumbline.core.strain import category
from plumbline.prepare.features.shards import Shards
from plumbline.reporting.svg_charts import Line, line_chart
from plumbline.validate.confidence import accuracy_by_coverage, confidence_bins, share_error
from plumbline.validate.metrics import Figures, Judged


def write_evidence(
    folder: Path, test: Shards, said: Judged, table: Mapping[str, Mapping[str, Figures]], name: str
) -> None:
    """Write tables (CSV) of one artifact: confusions, severity against truth, reliability, accuracy against coverage,
    interval coverage on each slice; and drawings (SVG) of reliability and coverage.

    Args:
        folder: is there. test: B labelled buildings. said: what the artifact `name` said of them.
        table: slice -> artifact -> figures.
    """
    # No number is of the highest category, and the largest of NaNs is the first: a broken model says nothing there.
    defined = (np.asarray(test.quadrant) >= 0) & np.isfinite(said.probability).all(1)
    truth, severity = said.truth(np.asarray(test.quadrant))[defined], np.asarray(test.severity)
    told = np.isfinite(said.severity)
    pairs = zip(category(severity[told]).tolist(), category(said.severity[told]).tolist(), strict=True)
    _write_csv(folder / "category_confusion.csv", ("true", "said"), pairs)
    chosen = said.probability[defined].argmax(1)
    _write_csv(
        folder / "quadrant_confusion.csv",
        ("true", "said"),
        ((QUADRANTS[a], QUADRANTS[b]) for a, b in zip(truth, chosen, strict=True)),
    )
    rows = zip(severity.round(4).tolist(), said.severity.round(4).tolist(), strict=True)
    _write_csv(folder / "severity.csv", ("true_permille", "said_permille"), rows)
    confidence, right = said.sure[defined], chosen == truth
    bins = confidence_bins(confidence, right, bins=10)
    _write_csv(folder / "reliability.csv", ("confidence", "accuracy", "share"), (row.values() for row in bins))
    curve = accuracy_by_coverage(confidence, right)
    _write_csv(folder / "coverage.csv", ("coverage", "confidence", "accuracy"), (row.values() for row in curve))
    held = [(part, row[name]) for part, row in table.items() if "interval_coverage" in row[name]]
    _write_csv(
        folder / "intervals.csv",
        ("slice", "buildings", "coverage", "standard_error", "mean_width_permille"),
        ((part, int(figures["buildings"]), *_held(figures)) for part, figures in held),
    )
    _draw(folder, bins, curve, name)


def _held(figures: Figures) -> tuple[float, ...]:
    held = figures["interval_coverage"]
    return tuple(
        round(value, 4) for value in (held, share_error(held, int(figures["buildings"])), figures["interval_width"])
    )


def _draw(folder: Path, bins: list[Figures], curve: list[Figures], name: str) -> None:
    reliability = [
        Line(name, [(row["confidence"], row["accuracy"]) for row in bins]),
        Line("calibrated", [(0, 0), (1, 1)], dashed=True),
    ]
    (folder / "reliability.svg").write_text(
        line_chart("How often the quadrant is right", "confidence", "quadrant accuracy", reliability),
        encoding="utf-8",
    )
    covered = [Line(name, [(row["coverage"], row["accuracy"]) for row in curve])]
    (folder / "coverage.svg").write_text(
        line_chart(
            "Quadrant accuracy of the most confident", "share of the damaged buildings", "quadrant accuracy", covered
        ),
        encoding="utf-8",
    )


def _write_csv(path: Path, header: tuple[str, ...], rows: Iterable[Any]) -> None:
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
