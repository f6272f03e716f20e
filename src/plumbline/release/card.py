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
DETAILED = "int8"
"""The released artifact whose slices, confidence and confusion are listed."""


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
            "For each building: the damaged quadrant, the largest principal tensile strain in permille with a 90 % "
            "interval, and the distance from the training data. Buildings with too few scatterers, or unlike the "
            "training data, are not judged. `manifest.json` describes inputs, outputs and units.",
            "",
            f"Trained on {train['buildings']} labelled buildings with {train['points']} scatterers of "
            f"{len(train['cities'])} cities; tested on {report['test_data']['buildings']} buildings of other blocks. "
            "`baseline` is an engineer's least squares. `float32` is the network before pruning. "
            f"Files: {', '.join(f'`{file}` (`{kind}`)' for file, kind in MODELS.items())}.",
            "",
            "## How good",
            "",
            "In brackets: 95 % intervals, by bootstrap over test buildings.",
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
            "Measured on the machine that ran `validate`. Latency is that of one building. Parity compares with torch.",
            "",
            *_costs(report),
            "",
            "## Slices, confidence and confusion",
            "",
            f"Of `{DETAILED}`. The report of the stage `validate` shows the other files, too. In the last tables, rows "
            "are the truth and columns the answers.",
            "",
            *_slices(report),
            *_reliability(report),
            *_confusions(report),
            "## Limits",
            "",
            "Labels come from simulated structures, and state strain, not cracks. Satellites hardly see movement to "
            "the north or south. A judgement is a reason to look at a building. It does not replace a survey.",
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
    bound = f"Each end is a bound with {100 * report['confidence']:g} % confidence."
    told = f"Less `{report['reference']}`, on the same buildings. {bound}"
    return [told, "", *_table(["metric", *found], rows), ""]


def _costs(report: Mapping[str, Any]) -> list[str]:
    costs = {name: one for name, one in report["costs"].items() if one}
    keys = list(dict.fromkeys(key for one in costs.values() for key in one))
    return _table(["", *costs], [[key, *(_number(one.get(key)) for one in costs.values())] for key in keys])


def _slices(report: Mapping[str, Any]) -> list[str]:
    keys, rows = OF_SLICES[1:], []
    for part, row in report["slices"].items():
        one = row.get(DETAILED, {})
        if any(one.get(key) is not None for key in keys):
            rows.append([part, f"{one.get('buildings', 0):.0f}", *(_number(one.get(key)) for key in keys)])
    return [*_table(["slice", "buildings", *keys], rows), ""]


def _reliability(report: Mapping[str, Any]) -> list[str]:
    one = report["judged"].get(DETAILED, {})
    if "reliability" not in one:
        return []
    rows = [[_number(row[key]) for key in ("confidence", "accuracy", "share")] for row in one["reliability"]]
    return [*_table([f"{DETAILED}: confidence", "quadrant accuracy", "share"], rows), ""]


def _confusions(report: Mapping[str, Any]) -> list[str]:
    one, lines = report["judged"].get(DETAILED, {}), []
    for key, names in (("quadrant", QUADRANTS), ("category", CATEGORIES)):
        if key in one:
            rows = [[label, *map(str, row)] for label, row in zip(names, one[key], strict=True)]
            lines += [*_table([f"{DETAILED}, {key}", *names], rows), ""]
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
