"""Scan the importance of each group of channels: pruned alone, without training, judged on the tune split."""

from __future__ import annotations

from typing import Any

import numpy as np

from plumbline.compress.degradation import rightness_of
from plumbline.compress.iterative_pruning import Pruning
from plumbline.compress.prune import channel_groups, prune
from plumbline.core.console import track
from plumbline.model.network import count_parameters
from plumbline.prepare.features.shards import SequenceSet
from plumbline.reporting.svg_charts import Line, line_chart

RATIOS = (0.25, 0.5, 0.75)
Row = dict[str, Any]


def scan(pruning: Pruning, tune: SequenceSet, buildings: int) -> list[Row]:
    """Return rows of `group, ratio, parameters, quadrant_accuracy, severity_mae`; the first of a group has ratio 0.

    Args:
        pruning: of the network to look at.
        tune: buildings to judge by; `buildings` of them, drawn at random.
        buildings: see `tune`.
    """
    index = np.random.default_rng(pruning.losses.seed).permutation(len(tune))[:buildings]
    few = tune.take(np.sort(index))
    whole = {
        "parameters": count_parameters(pruning.start.network)["total"],
        **_figures(rightness_of(pruning.start, few)),
    }
    groups = channel_groups(pruning.start)
    rows: list[Row] = []
    for group in track(groups, len(groups), "sensitivity"):
        rows.append({"group": group, "ratio": 0.0, **whole})
        for ratio in RATIOS:
            model = prune(pruning.start, 0.0, pruning.slopes, pruning.section.importance, {group: ratio})
            parameters = count_parameters(model.network)["total"]
            rows.append(
                {"group": group, "ratio": ratio, "parameters": parameters, **_figures(rightness_of(model, few))}
            )
    return rows


def drawn(rows: list[Row]) -> str:
    """Draw the scan as an SVG document: severity error by ratio, one line per group."""
    groups = dict.fromkeys(row["group"] for row in rows)
    lines = [
        Line(group, [(row["ratio"], row["severity_mae"]) for row in rows if row["group"] == group]) for group in groups
    ]
    errors = [row["severity_mae"] for row in rows]
    # The key stands in the lower left corner: room for it is made under the lines.
    spread = max(max(errors) - min(errors), 1e-3)
    return line_chart(
        "What pruning one group of channels alone costs",
        "share of its channels removed",
        "severity error, permille, without fine-tuning",
        lines,
        x_range=(0.0, max(RATIOS)),
        y_range=(min(errors) - 1.2 * spread, max(errors) + 0.05 * spread),
    )


def _figures(judged: Any) -> Row:
    return {"quadrant_accuracy": judged.quadrant_accuracy, "severity_mae": judged.severity_mae}
