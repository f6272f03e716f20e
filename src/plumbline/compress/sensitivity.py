"""Measure what pruning each group of channels alone costs, and draw it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from plumbline.compress.prune import Slopes, channel_groups, prune
from plumbline.core.console import track
from plumbline.model.diagnosis import Diagnosis
from plumbline.model.network import count_parameters
from plumbline.prepare.features.shards import SequenceSet
from plumbline.reporting.charts import Line, line_chart
from plumbline.train.data.batches import loader
from plumbline.train.fit.checkpoints import checkpoint_score

RATIOS = (0.25, 0.5, 0.75)
"""Shares of a group's channels that are removed."""
BATCH = 512
Row = dict[str, Any]


def scan(model: Diagnosis, slopes: Slopes, importance: str, buildings: SequenceSet) -> list[Row]:
    """Return rows of `group, ratio, parameters, quadrant_accuracy, severity_mae`; the first
    of a group has ratio 0.

    The pruned networks are not fine-tuned.

    Args:
        model: network before channels go; left as it is.
        slopes: see `prune.slopes`; of this model.
        importance: name in `params.plugins.IMPORTANCE`.
        buildings: labelled; not those of the training split.
    """
    rows: list[Row] = []
    groups = channel_groups(model)
    whole = _measure(model, buildings)
    for group in track(groups, len(groups), "sensitivity"):
        rows.append({"group": group, "ratio": 0.0, **whole})
        for ratio in RATIOS:
            pruned = prune(model, {group: ratio}, slopes, importance=importance)
            rows.append({"group": group, "ratio": ratio, **_measure(pruned, buildings)})
    return rows


def _measure(model: Diagnosis, buildings: SequenceSet) -> Row:
    parts = []
    with torch.inference_mode():
        for batch in loader(buildings, BATCH):
            answer = model(batch.distance_BLF, batch.slope_BLF, batch.geometry_BF, batch.mask_BL)
            parts.append(
                (
                    answer.quadrant_probability,
                    answer.severity_permille,
                    batch.accepted_B4,
                    batch.severity_B,
                )
            )
    score = checkpoint_score(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    return {
        "parameters": count_parameters(model.network)["total"],
        "quadrant_accuracy": score.quadrant_accuracy,
        "severity_mae": score.severity_mae,
    }


def draw(rows: list[Row]) -> str:
    """Draw the scan as an SVG document: severity error by ratio, one line per group."""
    groups = dict.fromkeys(row["group"] for row in rows)
    lines = [
        Line(group, [(row["ratio"], row["severity_mae"]) for row in rows if row["group"] == group])
        for group in groups
    ]
    errors = [row["severity_mae"] for row in rows]
    # The legend is in the lower left corner: this leaves room for it under the lines.
    spread = max(max(errors) - min(errors), 1e-3)
    return line_chart(
        "What pruning one group of channels alone costs",
        "share of its channels removed",
        "severity error, permille, without fine-tuning",
        lines,
        x_range=(0.0, max(RATIOS)),
        y_range=(min(errors) - 1.2 * spread, max(errors) + 0.05 * spread),
    )
