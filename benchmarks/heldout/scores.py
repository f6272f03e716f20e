"""Figures of one city: answers beside labels, and the bars that issue 4 sets."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Array = NDArray[np.float64]
LOWEST_PERMILLE = 0.5
"""Category 1, from which quadrants count."""
COVERED = 0.7
"""Share of the buildings that selective accuracy is taken over, the most confident first."""


class Bar(NamedTuple):
    """What issue 4 asks of a kind of city."""

    judged: float
    quadrant: float
    severity: float
    selective: float | None


BARS = {
    "xband": Bar(0.95, 0.82, 0.60, 0.92),
    "sentinel": Bar(0.65, 0.64, 0.82, None),
    "sentinel_real": Bar(0.65, 0.62, 0.95, None),
}


class Scores(NamedTuple):
    """NaN where there is no building to take a figure of."""

    buildings: int
    judged: float
    """Share of all buildings that were answered for."""
    points: float
    """Median number of scatterers, of those answered for."""
    quadrant: float
    """Share of right quadrants from category 1 up."""
    severity: float
    """Mean absolute error, permille."""
    coverage: float
    """Share of severities inside of their interval."""
    selective: float
    """Share of right quadrants among the `COVERED` share with the highest confidence, from category 1 up."""


def score(said: pd.DataFrame, labels: pd.DataFrame, buildings: int) -> Scores:
    """Compare answers with labels.

    Args:
        said: one row a building answered for: `building_id, n_points, quadrant, quadrant_confidence,
            severity_permille, severity_low, severity_high`.
        labels: `building_id, severity_permille, quadrant`.
        buildings: in the city.
    """
    joined = said.merge(labels, on="building_id", suffixes=("", "_true"))
    true = joined["severity_permille_true"].to_numpy(float)
    low, high = joined["severity_low"].to_numpy(float), joined["severity_high"].to_numpy(float)
    has_interval = np.isfinite(low) & np.isfinite(high)
    inside = ((low <= true) & (true <= high))[has_interval]
    damaged = joined[true >= LOWEST_PERMILLE]
    right = (damaged["quadrant"] == damaged["quadrant_true"]).to_numpy()
    first = np.argsort(-damaged["quadrant_confidence"].to_numpy(float), kind="stable")[: round(COVERED * len(damaged))]
    return Scores(
        buildings,
        len(joined) / buildings,
        _mean(joined["n_points"].to_numpy(float), np.median),
        _mean(right),
        _mean(np.abs(joined["severity_permille"].to_numpy(float) - true)),
        _mean(inside),
        _mean(right[first]),
    )


def table(rows: list[tuple[str, str, str, Scores]]) -> str:
    """Markdown of (city, kind, who, scores); where a bar is set, it stands in brackets, in bold where it is missed."""
    lines = [
        "| city | who | buildings | judged | median points | quadrant accuracy | severity MAE, permille | "
        f"interval coverage | accuracy at {COVERED:.0%} |",
        "|---" * 9 + "|",
    ]
    for city, kind, who, scores in rows:
        bar = BARS.get(kind) if who == MODEL else None
        cells = [
            f"{scores.buildings}",
            _cell(scores.judged, bar and bar.judged),
            f"{scores.points:.0f}",
            _cell(scores.quadrant, bar and bar.quadrant),
            _cell(scores.severity, bar and bar.severity, less=True),
            _cell(scores.coverage, None),
            _cell(scores.selective, bar and bar.selective),
        ]
        lines.append(f"| {city} | {who} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


MODEL, ENGINEER, ENGINEER_ALL = "model", "least squares, the same buildings", "least squares, all with enough points"


def _mean(values: NDArray[np.generic], how: object = np.mean) -> float:
    return float(how(values)) if len(values) else float("nan")  # type: ignore[operator]


def _cell(value: float, bar: float | None, less: bool = False) -> str:
    if not np.isfinite(value):
        return "–"
    if bar is None:
        return f"{value:.3f}"
    met = value <= bar if less else value >= bar
    shown = f"{value:.3f}" if met else f"**{value:.3f}**"
    return f"{shown} ({'≤' if less else '≥'} {bar:g})"
