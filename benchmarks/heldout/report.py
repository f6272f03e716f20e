"""What a model's confidence is worth on held-out cities, as a page of Markdown, a plot, and figures as JSON."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.common import head, line
from benchmarks.heldout.scores import (
    BARS,
    ENGINEER,
    ENGINEER_ALL,
    HELD,
    MODEL,
    Scores,
    cell,
    of_quadrants,
    score_of,
    table,
)
from plumbline.core.files import atomic_file, write_json
from plumbline.core.strain import CATEGORY_BOUNDS_PERMILLE, category
from plumbline.prepare.abstention import STATUSES
from plumbline.reporting.charts import Line, Mark, line_chart
from plumbline.validate.measure import AREA_BOUNDS_M2, POINT_BOUNDS
from plumbline.validate.metrics import COVERED, accuracy_by_coverage, share_error

MIN_SLICE = 200
"""Buildings, from which an interval is asked to hold its share."""
ERROR_BOUNDS_PERMILLE = (0.03, 0.06, 0.1)
"""Between strain errors that all are judged."""
RARE = 0.02
"""Share of damaged buildings of a place where most are sound; of the held-out cities half are damaged."""
SLICES_SHOWN = ("all", "points", "category")
"""Kinds of slices in the page's table; `scores.json` has the others too."""


@dataclass(frozen=True)
class Examined:
    """One city after it was judged."""

    name: str
    kind: str
    rows: list[tuple[str, str, str, Scores]]
    """Of the table of scores."""
    statuses: dict[str, int] | None
    """Number of buildings of each status; None where no model was asked."""
    answers: pd.DataFrame | None
    """`beside_labels` of the model's answers, with `area_m2` and `strain_error_permille`."""
    engineer: pd.DataFrame
    """The same of least squares, of the same buildings."""


def write_report(cities: Sequence[Examined], title: str, folder: Path) -> None:
    """Write `report.md`, `coverage.svg` and `scores.json`; `title` says what was judged."""
    for name, text in (("report.md", markdown(cities, title)), ("coverage.svg", plot(cities, title))):
        with atomic_file(folder / name) as path:
            path.write_text(text, encoding="utf-8")
    write_json(folder / "scores.json", _figures(cities, title))


def markdown(cities: Sequence[Examined], title: str) -> str:
    """The page."""
    told = [city for city in cities if city.answers is not None]
    parts = [
        f"# {title}",
        "±: standard error. In brackets: the bar; bold: missed. Quadrants count from category 1 up. Behind the "
        "calibration error stands what chance alone gives.",
        table(_score_rows(cities, told)),
    ]
    if told:
        parts += [
            "## Status of the buildings, share",
            _status_table(told),
            "## What a 90 % interval holds",
            f"Share, number of buildings, and median width in permille. Bold: outside of {HELD[0]:g} to {HELD[1]:g}. "
            f"Slices with fewer than {MIN_SLICE} buildings are left out.",
            _slice_table(told),
            "## Damaged for sure",
            f"Buildings whose interval begins at {CATEGORY_BOUNDS_PERMILLE[0]:g} permille (category 1) or above: their "
            "share of the damaged ones and of the sound ones; and the share of them that are damaged.",
            _sure_table(told),
            "## Quadrant accuracy of the most confident",
            "![Accuracy against coverage](coverage.svg)",
        ]
    return "\n\n".join(parts) + "\n"


def plot(cities: Sequence[Examined], title: str) -> str:
    """Accuracy against coverage of each city, least squares dashed in the same colour, and the bars that are set."""
    lines = []
    for city in cities:
        if city.answers is not None:
            lines.append(Line(city.name, _curve(city.answers)))
        lines.append(Line(f"{city.name}, least squares", _curve(city.engineer), dashed=city.answers is not None))
    bars = {BARS[city.kind].selective for city in cities if city.kind in BARS}
    marks = [Mark(f"{bar:g} asked of X band", COVERED, bar) for bar in bars if bar is not None]
    return line_chart(
        f"Quadrant accuracy of the most confident: {title}",
        "share of the damaged buildings that are answered for",
        "quadrant accuracy",
        lines,
        marks,
    )


def slices(answers: pd.DataFrame) -> dict[str, pd.Series]:
    """Name -> which rows, of points, category of the true severity, size, and strain error of the points."""
    parts = {"all": pd.Series(True, answers.index)}
    for name, values, bounds in (
        ("points", answers["n_points"], POINT_BOUNDS),
        ("area_m2", answers["area_m2"], AREA_BOUNDS_M2),
        ("strain_error_permille", answers["strain_error_permille"], ERROR_BOUNDS_PERMILLE),
    ):
        for low, high in itertools.pairwise((0, *bounds, np.inf)):
            shown = f"{low:g} to {high:g}" if np.isfinite(high) else f"from {low:g}"
            parts[f"{name} {shown}"] = (values >= low) & (values < high)
    categories = category(answers["true"].to_numpy())
    for number in range(5):
        parts[f"category {number}"] = pd.Series(categories == number, answers.index)
    return parts


def _pooled(told: Sequence[Examined]) -> list[tuple[str, pd.DataFrame]]:
    """The answers of each city, and of all cities of a kind together where there are several."""
    columns = [(city.name, city.answers) for city in told if city.answers is not None]
    for kind in dict.fromkeys(city.kind for city in told if city.kind):
        own = [city.answers for city in told if city.kind == kind and city.answers is not None]
        if len(own) > 1:
            columns.append((f"{len(own)} {kind}", pd.concat(own, ignore_index=True)))
    return columns


def _shown(told: Sequence[Examined]) -> list[tuple[str, pd.DataFrame]]:
    """Return the answers of all cities of a kind together, and those of a city that is alone of its kind."""
    kinds = [city.kind for city in told if city.kind]
    several = {city.name for city in told if kinds.count(city.kind) > 1}
    return [(name, answers) for name, answers in _pooled(told) if name not in several]


def _score_rows(cities: Sequence[Examined], told: Sequence[Examined]) -> list[tuple[str, str, str, Scores]]:
    """Return the rows of the table of scores.

    Cities that have a row together have none of their own. Beside a model, least squares have one row.
    """
    together = _together(told)
    kinds = {kind for _, kind, _, _ in together}
    own = [row for city in cities for row in city.rows if row[1] not in kinds]
    return [row for row in own if not told or row[2] != ENGINEER_ALL] + together


def _together(told: Sequence[Examined]) -> list[tuple[str, str, str, Scores]]:
    """Rows of the table for all cities of a kind, where there are several."""
    rows = []
    for kind in dict.fromkeys(city.kind for city in told if city.kind):
        own = [city for city in told if city.kind == kind]
        if len(own) < 2:
            continue
        buildings = sum(city.rows[0][3].buildings for city in own)
        for who, parts in (
            (MODEL, [city.answers for city in own if city.answers is not None]),
            (ENGINEER, [city.engineer for city in own]),
        ):
            rows.append((f"{len(own)} {kind}", kind, who, score_of(pd.concat(parts, ignore_index=True), buildings)))
    return rows


def _held(answers: pd.DataFrame) -> dict[str, dict[str, float]]:
    """Slice -> number of buildings, what the interval holds of them, and its median width."""
    found = {}
    width = answers["severity_high"].astype(float) - answers["severity_low"].astype(float)
    for name, rows in slices(answers).items():
        inside = answers["inside"][rows].dropna().to_numpy(bool)
        if len(inside):
            held = float(inside.mean())
            error = share_error(held, len(inside))
            found[name] = {"buildings": len(inside), "held": held, "se": error, "width": float(width[rows].median())}
    return found


def _slice_table(told: Sequence[Examined]) -> str:
    shown = _shown(told)
    columns = [(name, _held(answers)) for name, answers in shown]
    lines = [head("slice", *(name for name, _ in columns))]
    for name in slices(shown[0][1]):
        if not name.startswith(SLICES_SHOWN):
            continue
        cells = []
        for _, held in columns:
            figures = held.get(name)
            if figures is None or figures["buildings"] < MIN_SLICE:
                cells.append("")
                continue
            held_share = cell(figures["held"], figures["se"], *HELD).rpartition(" (")[0]
            cells.append(f"{held_share}; {figures['buildings']:.0f}, {figures['width']:.2f}")
        if any(cells):
            lines.append(line(name, *cells))
    return "\n".join(lines)


def _sure(answers: pd.DataFrame) -> dict[str, dict[str, float]]:
    """Bound -> share of the damaged, and of the sound, whose lower end is there; share of these that are damaged.

    `rare`: that share where `RARE` of the buildings are damaged, of the categories as here; none where no sound
    building was told, so that one more would change all.
    """
    answers = answers[answers["severity_low"].notna()]
    low, damaged = answers["severity_low"].to_numpy(float), category(answers["true"].to_numpy()) > 0
    found = {}
    for bound in CATEGORY_BOUNDS_PERMILLE:
        sure = low >= bound
        parts = {"of_damaged": sure[damaged], "of_sound": sure[~damaged], "right": damaged[sure]}
        shares = {name: float(part.mean()) for name, part in parts.items() if len(part)}
        if shares.get("of_sound") and "of_damaged" in shares:
            hits, alarms = RARE * shares["of_damaged"], (1 - RARE) * shares["of_sound"]
            shares["rare"] = hits / (hits + alarms)
        found[f"{bound:g}"] = shares
    return found


def _sure_table(told: Sequence[Examined]) -> str:
    columns = ("of the damaged", "of the sound", "damaged, here", f"damaged, where {RARE:.0%} of all are")
    lines = [head("city", *columns)]
    for name, answers in _shown(told):
        found = _sure(answers)[f"{CATEGORY_BOUNDS_PERMILLE[0]:g}"]
        keys = ("of_damaged", "of_sound", "right", "rare")
        lines.append(line(name, *(f"{found[key]:.3f}" if key in found else "–" for key in keys)))
    return "\n".join(lines)


def _status_table(told: Sequence[Examined]) -> str:
    lines = [head("city", "buildings", *STATUSES)]
    for city in told:
        counts = city.statuses or {}
        total = sum(counts.values())
        shares = (f"{counts.get(status, 0) / total:.3f}" for status in STATUSES)
        lines.append(line(city.name, total, *shares))
    return "\n".join(lines)


def _curve(answers: pd.DataFrame) -> list[tuple[float, float]]:
    return [(row["coverage"], row["accuracy"]) for row in accuracy_by_coverage(*of_quadrants(answers))]


def _figures(cities: Sequence[Examined], title: str) -> dict[str, Any]:
    """Everything of the page as strict JSON."""
    return {
        "title": title,
        "cities": [
            {
                "name": city.name,
                "kind": city.kind,
                "statuses": city.statuses,
                "scores": {who: _finite(scores) for _, _, who, scores in city.rows},
            }
            for city in cities
        ],
        "sure": {name: _sure(answers) for name, answers in _pooled([c for c in cities if c.answers is not None])},
        "intervals": {name: _held(answers) for name, answers in _pooled([c for c in cities if c.answers is not None])},
        "curves": {
            city.name: {
                who: accuracy_by_coverage(*of_quadrants(answers))
                for who, answers in ((MODEL, city.answers), ("least squares", city.engineer))
                if answers is not None
            }
            for city in cities
        },
    }


def _finite(scores: Scores) -> dict[str, float | None]:
    return {name: float(value) if np.isfinite(value) else None for name, value in scores._asdict().items()}
