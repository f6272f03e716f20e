"""Figures of one city: answers beside labels, and the bars of a kind of city."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.common import head, line
from plumbline.validate.metrics import BINS, COVERED, accuracy_at, bin_of, expected_calibration_error, share_error

Array = NDArray[np.float64]
LOWEST_PERMILLE = 0.5
"""Category 1, from which quadrants count."""


class Bar(NamedTuple):
    """What is asked of a kind of city."""

    judged: float
    quadrant: float
    severity: float
    selective: float | None


BARS = {
    "xband": Bar(0.95, 0.82, 0.60, 0.92),
    "sentinel": Bar(0.65, 0.64, 0.82, None),
    "sentinel_real": Bar(0.65, 0.62, 0.95, None),
}
MAX_ECE = 0.03
HELD = (0.88, 0.92)
"""What an interval of 90 % may hold."""


class Scores(NamedTuple):
    """NaN where there is no building to take a figure of. Standard errors end in `_se`."""

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
    ece: float
    """Expected calibration error of the quadrant's confidence, from category 1 up; 15 bins, as `validate` takes it."""
    quadrant_se: float
    severity_se: float
    coverage_se: float
    selective_se: float
    ece_by_chance: float
    """What `ece` of so many buildings comes to where every confidence is true."""


def beside_labels(said: pd.DataFrame, labels: pd.DataFrame) -> pd.DataFrame:
    """Answers with `true`, permille, and booleans: `damaged` from category 1 up, `right` quadrant, severity `inside`.

    Args:
        said: one row a building answered for: `building_id, n_points, quadrant, quadrant_confidence,
            severity_permille, severity_low, severity_high`. Without an interval, `inside` is missing.
        labels: `building_id, severity_permille, quadrant`.
    """
    joined = said.merge(labels, on="building_id", suffixes=("", "_true"))
    true = joined["severity_permille_true"].astype(float)
    low, high = joined["severity_low"].astype(float), joined["severity_high"].astype(float)
    inside = ((low <= true) & (true <= high)).astype("boolean")
    return joined.assign(
        true=true,
        damaged=true >= LOWEST_PERMILLE,
        right=joined["quadrant"] == joined["quadrant_true"],
        inside=inside.where(np.isfinite(low) & np.isfinite(high)),
    )


def score(said: pd.DataFrame, labels: pd.DataFrame, buildings: int) -> Scores:
    """Compare answers with labels, see `beside_labels`; `buildings` are in the city."""
    joined = beside_labels(said, labels)
    confidence, right = of_quadrants(joined)
    inside = joined["inside"].dropna().to_numpy(bool)
    error = np.abs(joined["severity_permille"].to_numpy(float) - joined["true"].to_numpy())
    selective = accuracy_at(confidence, right)
    return Scores(
        buildings,
        len(joined) / buildings,
        _mean(joined["n_points"].to_numpy(float), np.median),
        _mean(right),
        _mean(error),
        _mean(inside),
        selective,
        expected_calibration_error(confidence, right) if len(right) else float("nan"),
        share_error(_mean(right), len(right)),
        float(error.std(ddof=1) / np.sqrt(len(error))) if len(error) > 1 else float("nan"),
        share_error(_mean(inside), len(inside)),
        share_error(selective, round(COVERED * len(right))),
        chance_calibration_error(confidence),
    )


def of_quadrants(joined: pd.DataFrame) -> tuple[Array, NDArray[np.bool_]]:
    """Confidence and whether the quadrant was right, of the damaged buildings of `beside_labels`."""
    damaged = joined[joined["damaged"]]
    return damaged["quadrant_confidence"].to_numpy(float), damaged["right"].to_numpy(bool)


def table(rows: list[tuple[str, str, str, Scores]]) -> str:
    """Format (city, kind, who, scores) as Markdown, with standard errors; a missed bar (in brackets) is bold."""
    lines = [head("city", "who", *FIGURES)]
    for city, kind, who, scores in rows:
        own = who == MODEL
        bar = BARS.get(kind) if own else None
        cells = [
            f"{scores.buildings}",
            cell(scores.judged, least=bar and bar.judged),
            f"{scores.points:.0f}",
            cell(scores.quadrant, scores.quadrant_se, least=bar and bar.quadrant),
            cell(scores.severity, scores.severity_se, most=bar and bar.severity),
            cell(scores.coverage, scores.coverage_se, *(HELD if own else (None, None))),
            f"{cell(scores.ece, most=MAX_ECE if own else None)}; {cell(scores.ece_by_chance)}",
            cell(scores.selective, scores.selective_se, least=bar and bar.selective),
        ]
        lines.append(line(city, who, *cells))
    return "\n".join(lines)


FIGURES = ("buildings", "judged", "median points", "quadrant accuracy", "severity MAE, permille", "interval coverage",
           "calibration error; by chance", f"accuracy at {COVERED:.0%}")  # fmt: skip
MODEL, ENGINEER, ENGINEER_ALL = "model", "least squares, the same buildings", "least squares, all with enough points"


def cell(value: float, error: float = float("nan"), least: float | None = None, most: float | None = None) -> str:
    """A figure, its standard error, and the bar that it has to keep, in bold where it does not."""
    if not np.isfinite(value):
        return "–"
    met = (least is None or value >= least) and (most is None or value <= most)
    shown = f"{value:.3f}" if met else f"**{value:.3f}**"
    if np.isfinite(error):
        shown += f" ± {error:.3f}"
    if least is not None and most is not None:
        return f"{shown} ({least:g} to {most:g})"
    if least is None and most is None:
        return shown
    return shown + (f" (≥ {least:g})" if least is not None else f" (≤ {most:g})")


def _mean(values: NDArray[np.generic], how: object = np.mean) -> float:
    return float(how(values)) if len(values) else float("nan")  # type: ignore[operator]


def chance_calibration_error(confidence: Array) -> float:
    """Return the calibration error expected by chance: `sqrt(2 / pi)` standard deviations of each bin's normal gap."""
    variance = np.bincount(bin_of(confidence, BINS), confidence * (1 - confidence), minlength=BINS)
    return float(np.sqrt(2 / np.pi * variance).sum() / len(confidence)) if len(confidence) else float("nan")
