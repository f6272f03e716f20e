"""The curve of a run as a file."""

from __future__ import annotations

import csv
from pathlib import Path

from plumbline.core.files import atomic_file

HISTORY = ("epoch", "train_loss", "score", "quadrant_accuracy", "severity_mae", "learning_rate")


def write_history(history: list[dict[str, float]], path: Path) -> None:
    """The run's curve as CSV, one row an epoch."""
    with atomic_file(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, HISTORY, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rounded(history))


def rounded(history: list[dict[str, float]]) -> list[dict[str, float]]:
    """The columns of `HISTORY`; epochs count from 1."""
    rows = [{key: round(row.get(key, float("nan")), 6) for key in HISTORY} for row in history]
    return [{**row, "epoch": int(row["epoch"]) + 1} for row in rows]
