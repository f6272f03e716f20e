"""Draw `report.html`: the verdict on a candidate with its evidence, in one file for a screen or a phone, offline."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from plumbline.core.compass import QUADRANTS
from plumbline.core.files import write_json
from plumbline.reporting.charts import Estimate, Line, interval_chart, line_chart
from plumbline.reporting.page import html_page, number, say, table
from plumbline.validate.gates.bootstrap import RESAMPLES
from plumbline.validate.report.content import METRICS, OF_SLICES, compared_with

DRAWN = ("quadrant_accuracy", "severity_mae", "interval_coverage", "expected_calibration_error")
"""Metrics that have a drawing."""
CATEGORIES = ("0", "1", "2", "3", "4")
_STYLE = """
:root{color-scheme:light dark;--line:#8884;--soft:#8881;--bad:#a40000;--good:#1d6b34}
@media(prefers-color-scheme:dark){:root{--bad:#ff8a80;--good:#7fd89a}}
body{margin:0 auto;max-width:1100px;padding:0 12px 40px;font:15px/1.45 system-ui,sans-serif}
h1{font-size:22px}h2{font-size:18px;margin:32px 0 8px;border-top:1px solid var(--line);padding-top:16px}
h3{font-size:15px;margin:16px 0 4px}p{margin:4px 0}.scroll{overflow-x:auto}
table{border-collapse:collapse;margin:4px 0}th,td{text-align:left;vertical-align:top;padding:4px 8px;
 border-bottom:1px solid var(--line)}th{font-weight:600}.n{text-align:right;white-space:nowrap}
small{opacity:.75}.fail{color:var(--bad);font-weight:700}.pass{color:var(--good);font-weight:700}
.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(300px,1fr));gap:16px}
.charts{grid-template-columns:repeat(auto-fit,minmax(min(520px,100%),1fr))}
figure{margin:0;background:var(--soft);overflow-x:auto}svg{display:block;width:100%;min-width:520px;height:auto}
td{print-color-adjust:exact}
"""


def write_report(folder: Path, content: Mapping[str, Any]) -> None:
    """Write `report.json`, the `content` (see `with_verdict`), and the page drawn from it into `folder`."""
    write_json(folder / "report.json", content)
    (folder / "report.html").write_text(report_page(content), encoding="utf-8")


def report_page(content: Mapping[str, Any]) -> str:
    """Return the page for the content of a `report.json`."""
    tested = content["test_data"]
    of = f"{number(tested['buildings'])} test buildings, SHA-256 {say(tested['sha256'][:12])}…" if tested else ""
    body = [
        f'<h1>Candidate: <span class="{_class(content["verdict"] == "pass")}">{say(content["verdict"])}</span></h1>',
        f"<p>{of}</p>",
        _rules(content),
        _metrics(content),
        _costs(content),
        _slices(content),
        _calibration(content),
        _confusions(content),
    ]
    return html_page("Plumbline: report of a candidate", _STYLE, body)


def _class(passed: bool) -> str:
    return "pass" if passed else "fail"


def _rules(content: Mapping[str, Any]) -> str:
    rules = content["rules"]
    rows = "".join(
        f'<tr><td class="{_class(rule["passed"])}">{"met" if rule["passed"] else "not met"}</td>'
        f"<td>{say(rule['text'])}</td></tr>"
        for rule in rules
    )
    met = sum(bool(rule["passed"]) for rule in rules)
    said = f"{met} of {len(rules)} rules met; those that were not come first."
    left = len(content["left_for_promotion"])
    more = f" {left} rules against the champion are left for the promotion." if left else ""
    return f'<h2>Why</h2><p>{say(said + more)}</p><div class="scroll"><table><tbody>{rows}</tbody></table></div>'


def _metrics(content: Mapping[str, Any]) -> str:
    names = content["contenders"]
    heads = "".join(f'<th class="n">{say(name)}</th>' for name in names)
    rows = "".join(
        f"<tr><td>{say(metric)}</td>"
        + "".join(f'<td class="n">{_figure(content["metrics"][metric].get(name))}</td>' for name in names)
        + "</tr>"
        for metric in METRICS
    )
    drawn = []
    for metric in DRAWN:
        told = content["metrics"][metric]
        if told:
            rows_ = [Estimate(name, one["value"], one.get("low"), one.get("high")) for name, one in told.items()]
            drawn.append(f"<figure>{interval_chart(metric, rows_, paper='none')}</figure>")
    return (
        "<h2>How good</h2><p>On all test buildings, with 95 % intervals: the buildings drawn again with replacement, "
        f"{RESAMPLES} times. <i>baseline</i> is an engineer's least squares. Each drawing adds chance "
        "to a calibration error, which is no less than 0: its interval lies high.</p>"
        f"<p>{say(compared_with(content))}</p>"
        f'<div class="scroll"><table><thead><tr><th>metric</th>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'
        f'<div class="grid charts">{"".join(drawn)}</div>{_differences(content)}'
    )


def _figure(one: Mapping[str, float] | None) -> str:
    if one is None:
        return "–"
    ends = f"<br><small>{one['low']:.3f} to {one['high']:.3f}</small>" if "low" in one else ""
    return f"{one['value']:.3f}{ends}"


def _differences(content: Mapping[str, Any]) -> str:
    metrics = [name for name in METRICS if any(name in one for one in content["from_reference"].values())]
    if not metrics:
        return ""
    rows = [
        [who, *(" to ".join(f"{end:+.3f}" for end in one[name]) if name in one else "–" for name in metrics)]
        for who, one in content["from_reference"].items()
    ]
    bound = f"Each end is a bound with {100 * content['confidence']:g} % confidence."
    head = f"<h3>Less {say(content['reference'])}, building by building</h3><p>{bound}</p>"
    return head + table(["contender", *metrics], rows)


def _costs(content: Mapping[str, Any]) -> str:
    costs = {name: one for name, one in content["costs"].items() if one}
    keys = list(dict.fromkeys(key for one in costs.values() for key in one))
    rows = [[name, *(one.get(key) for key in keys)] for name, one in costs.items()]
    return (
        "<h2>Size and parity</h2><p>Each artifact through ONNX Runtime. Parity is with torch.</p>"
        f"{table(['artifact', *keys], rows)}"
    )


def _slices(content: Mapping[str, Any]) -> str:
    names = content["contenders"]
    keys = [key for key in OF_SLICES if key != "buildings"]
    parts = ["<h2>Slices</h2><p>Empty where a slice has too few buildings for a figure.</p>"]
    for key in keys:
        rows = []
        for part, row in content["slices"].items():
            count = max((one.get("buildings", 0) for one in row.values()), default=0)
            figures = [row.get(name, {}).get(key) for name in names]
            if any(value is not None for value in figures):
                rows.append([part, count, *figures])
        parts.append(f"<h3>{say(key)}</h3>{table(['slice', 'buildings', *names], rows)}")
    return "".join(parts)


def _calibration(content: Mapping[str, Any]) -> str:
    told = {name: one for name, one in content["judged"].items() if "reliability" in one}
    if not told:
        return ""
    reliability = [
        Line(name, [(row["confidence"], row["accuracy"]) for row in one["reliability"]]) for name, one in told.items()
    ]
    covered = [
        Line(name, [(row["coverage"], row["accuracy"]) for row in one["coverage"]]) for name, one in told.items()
    ]
    charts = (
        line_chart(
            "How often the quadrant is right",
            "confidence",
            "quadrant accuracy",
            [*reliability, Line("calibrated", [(0, 0), (1, 1)], dashed=True)],
            paper="none",
        ),
        line_chart(
            "Quadrant accuracy of the most confident",
            "share of the damaged buildings",
            "quadrant accuracy",
            covered,
            paper="none",
        ),
    )
    drawn = "".join(f"<figure>{chart}</figure>" for chart in charts)
    return f'<h2>What a confidence is worth</h2><div class="grid charts">{drawn}</div>'


def _confusions(content: Mapping[str, Any]) -> str:
    parts = ["<h2>Confusion</h2><p>Rows are the truth, columns what was said; the colour is the share of the row.</p>"]
    for key, title, names in (
        ("quadrant", "Quadrant, from category 1", QUADRANTS),
        ("category", "Burland category", CATEGORIES),
    ):
        drawn = [
            f"<div><h3>{say(title)}: {say(name)}</h3>{_confusion(one[key], names)}</div>"
            for name, one in content["judged"].items()
            if key in one
        ]
        parts.append(f'<div class="grid">{"".join(drawn)}</div>')
    return "".join(parts)


def _confusion(counts: list[list[int]], names: tuple[str, ...]) -> str:
    head = "".join(f'<th class="n">{say(name)}</th>' for name in names)
    body = "".join(
        f"<tr><th>{say(name)}</th>"
        + "".join(
            f'<td class="n" style="background:rgba(47,108,158,{0.6 * count / max(1, sum(row)):.2f})">{count:,}</td>'
            for count in row
        )
        + "</tr>"
        for name, row in zip(names, counts, strict=True)
    )
    return f'<div class="scroll"><table><thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table></div>'
