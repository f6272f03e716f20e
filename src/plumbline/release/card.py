"""Write MODEL_CARD.md: what a model does, its sources, its accuracy, and why it was released."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from plumbline.core.compass import QUADRANTS
from plumbline.export.package import MODELS
from plumbline.validate.report.content import METRICS, OF_SLICES, compared_with
from plumbline.validate.report.page import CATEGORIES

NONE = ""
"""A cell without a figure."""


def model_card(report: Mapping[str, Any], audit: Mapping[str, Any]) -> str:
    """Return the card, in Markdown.

    Args:
        report: the content of the stage `validate`'s report.json. audit: that of audit.json of the test data.
    """
    train = audit["statistics"]["splits"]["train"]
    return "\n".join(
        [
            "# Plumbline: damage of buildings from InSAR points",
            "",
            "For each building: the quadrant that is being damaged, the largest principal tensile strain in permille "
            "with a 90 % interval, and how far the building is from the training data. `manifest.json` describes "
            "inputs, outputs and units. A building with too few scatterers, or unlike the training data, is not "
            "judged.",
            "",
            f"Trained on {train['buildings']} labelled buildings with {train['points']} scatterers of "
            f"{len(train['cities'])} cities; tested on {report['test_data']['buildings']} buildings of other blocks. "
            "`baseline` is an engineer's least squares on the same buildings, `float32` the network before pruning. "
            f"Released are {' and '.join(f'`{file}` (`{kind}`)' for file, kind in MODELS.items())}.",
            "",
            "## How good",
            "",
            "With 95 % intervals, from test buildings drawn again with replacement.",
            "",
            *_metrics(report),
            "",
            *_differences(report),
            "## Gates",
            "",
            f"Verdict: {report['verdict']}.",
            "",
            *(f"- {'met' if rule['passed'] else 'not met'}: {_cell(rule['text'])}" for rule in report["rules"]),
            "",
            "## Size and speed",
            "",
            "On the machine of the stage `validate`; latency of one building, parity with torch.",
            "",
            *_costs(report),
            "",
            "## Slices",
            "",
            *_slices(report),
            "## What a confidence is worth",
            "",
            *_reliability(report),
            "## Confusion",
            "",
            "Rows are the truth, columns what was said.",
            "",
            *_confusions(report),
            "## Limits",
            "",
            "Labels come from simulated structures: strain, not cracks. Satellites see north-south movement hardly "
            "at all. A judgement is a reason to look at a building, not a survey of it.",
            "",
        ]
    )


def _metrics(report: Mapping[str, Any]) -> list[str]:
    names = report["contenders"]
    rows = [[metric, *(_estimate(report["metrics"][metric].get(name)) for name in names)] for metric in METRICS]
    return [*_table(["metric", *names], rows), "", compared_with(report)]


def _estimate(one: Mapping[str, float] | None) -> str:
    if one is None:
        return NONE
    ends = f" ({one['low']:.4g} to {one['high']:.4g})" if "low" in one else ""
    return f"{one['value']:.4g}{ends}"


def _differences(report: Mapping[str, Any]) -> list[str]:
    found = {name: one for name, one in report["from_reference"].items() if one}
    if not found:
        return []
    rows = [
        [metric, *(" to ".join(f"{end:+.4g}" for end in one.get(metric, ())) for one in found.values())]
        for metric in METRICS
    ]
    bound = f"each end a bound with {100 * report['confidence']:g} % confidence"
    return [f"Less `{report['reference']}`, building by building, {bound}:", "", *_table(["metric", *found], rows), ""]


def _costs(report: Mapping[str, Any]) -> list[str]:
    costs = {name: one for name, one in report["costs"].items() if one}
    keys = list(dict.fromkeys(key for one in costs.values() for key in one))
    return _table(["", *costs], [[key, *(_number(one.get(key)) for one in costs.values())] for key in keys])


def _slices(report: Mapping[str, Any]) -> list[str]:
    names, lines = report["contenders"], []
    for key in OF_SLICES[1:]:
        rows = []
        for part, row in report["slices"].items():
            figures = [row.get(name, {}).get(key) for name in names]
            if any(value is not None for value in figures):
                count = max(one.get("buildings", 0) for one in row.values())
                rows.append([part, f"{count:.0f}", *map(_number, figures)])
        if rows:
            lines += [*_table([key, "buildings", *names], rows), ""]
    return lines


def _reliability(report: Mapping[str, Any]) -> list[str]:
    lines = []
    for name, one in report["judged"].items():
        if name in MODELS.values() and "reliability" in one:
            rows = [[_number(row[key]) for key in ("confidence", "accuracy", "share")] for row in one["reliability"]]
            lines += [*_table([f"{name}: confidence", "quadrant accuracy", "share"], rows), ""]
    return lines


def _confusions(report: Mapping[str, Any]) -> list[str]:
    lines = []
    for name, one in report["judged"].items():
        for key, names in (("quadrant", QUADRANTS), ("category", CATEGORIES)):
            if name in MODELS.values() and key in one:
                rows = [[label, *map(str, row)] for label, row in zip(names, one[key], strict=True)]
                lines += [*_table([f"{name}, {key}", *names], rows), ""]
    return lines


def _number(value: float | None) -> str:
    if value is None:
        return NONE
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [
        "| " + " | ".join(map(_cell, line)) + " |" if line else "|---" * len(heads) + "|" for line in (heads, [], *rows)
    ]


def _cell(text: str) -> str:
    """Escape Markdown characters in a city's name."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
