"""Build `audit.html`: the rules, failed ones first, and plots, in one offline file for a screen or a phone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plumbline.reporting.charts import Group, histograms, stacked, timeline
from plumbline.reporting.page import html_page, number, say, table

MOST_CITIES = 40
"""Cities drawn; all are in audit.json."""
MOST_SHIFTS = 15
# fmt: off
CITY = {"buildings": "buildings", "labelled": "labelled", "area_km2": "km2", "points_per_km2": "points per km2",
        "buildings_per_km2": "buildings per km2"}
TRACK = {"epochs": "epochs", "revisit_days": "revisit, days", "longest_gap_days": "longest gap, days",
         "gap_share": "share of gaps", "missing_share": "missing", "duplicates": "same position",
         "noise_mm": "noise, mm", "speed_p99_mm_yr": "99 % slower, mm/yr"}
"""Figure of a city's or track's report -> head of its column."""
SPLIT = ["split", "buildings", "points", "fewest a building", "median", "most", "median severity", "largest, permille"]
# fmt: on

_STYLE = """
:root{color-scheme:light}
body{margin:0 auto;max-width:1100px;padding:0 12px 40px;font:15px/1.45 system-ui,sans-serif;
 color:#1c1c1c;background:#fff}
h1{font-size:22px}h2{font-size:18px;margin:32px 0 8px;border-top:1px solid #ddd;padding-top:16px}
h3{font-size:15px;margin:16px 0 4px}p{margin:4px 0;color:#555}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%}
th,td{text-align:left;vertical-align:top;padding:4px 8px;border-bottom:1px solid #e5e5e5;overflow-wrap:anywhere}
.scroll td:first-child{min-width:11em}.scroll th{white-space:normal;overflow-wrap:normal}
td b{overflow-wrap:normal}th{font-weight:600;white-space:nowrap}.n{text-align:right;white-space:nowrap}
.s{font-weight:700;white-space:nowrap}.fail{color:#a40000}.warn{color:#8a5a00}.pass{color:#1d6b34}
.bar,.key i{print-color-adjust:exact}.bar{display:flex;height:14px;background:#f0f0ee;margin-bottom:2px}
.bar i{display:block;height:100%}
.row{display:grid;grid-template-columns:minmax(90px,22%) 1fr minmax(56px,auto);gap:8px;align-items:center;
 font-size:13px}
.row span{overflow-wrap:anywhere}.key{font-size:13px;margin:2px 0 6px}
.key i{display:inline-block;width:11px;height:11px;margin:0 4px 0 10px}
.grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(220px,1fr));gap:14px}
.cell{font-size:12px;color:#555}.cell b{color:#1c1c1c;overflow-wrap:anywhere}
.cell svg{display:block;width:100%;height:64px;background:#f7f7f5}
.ends{display:flex;justify-content:space-between}
@media(max-width:640px){.rules thead{display:none}.rules tr{display:block;border-bottom:1px solid #ccc;padding:6px 0}
.rules td{display:block;border:0;padding:1px 0;text-align:left}}
"""


def audit_page(content: Mapping[str, Any]) -> str:
    """Build the page for the content of an `audit.json`."""
    statistics, rules = content["statistics"], content["rules"]
    counts = {status: sum(rule["status"] == status for rule in rules) for status in ("fail", "warn", "pass")}
    said = f"{counts['fail']} rules failed, {counts['warn']} warn, {counts['pass']} passed."
    body = [
        f'<h1>Audit: <span class="{say(content["verdict"])}">{say(content["verdict"])}</span></h1>',
        f"<p>{say(said)}</p>",
        _rules(rules),
        _cities(statistics["cities"]),
        _splits(statistics["splits"]),
        _drift(statistics["drift"]),
        _features(statistics),
    ]
    return html_page("Plumbline audit", _STYLE, body)


def _rules(rules: list[dict[str, Any]]) -> str:
    rows = []
    for rule in rules:
        value = "" if rule["value"] is None else f"{number(rule['value'])}"
        bound = "" if rule["bound"] is None else f"bound {number(rule['bound'])}"
        advice = "" if rule["status"] == "pass" else say(rule["advice"])
        reason = say(rule["reason"] or "nothing found")
        rows.append(
            f'<tr><td class="s {say(rule["status"])}">{say(rule["status"])}</td><td><b>{say(rule["name"])}</b></td>'
            f'<td class="n">{value}<br>{bound}</td><td>{reason}</td><td>{advice}</td></tr>'
        )
    head = "".join(f"<th>{title}</th>" for title in ("Status", "Rule", "Found", "Where and what", "What to do"))
    return f'<table class="rules"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'


def _cities(cities: Mapping[str, Any]) -> str:
    shown = dict(list(cities.items())[:MOST_CITIES])
    if not shown:
        return ""
    points, left, spans, rows = [], [], [], []
    for city, about in shown.items():
        left_out = about.get("left_out") or {}
        kept = (about.get("buildings") or 0) - sum(left_out.values())
        left.append(Group(city, {"prepared": kept, **left_out}))
        for track in about["tracks"]:
            name = f"{city}, {track.get('name')}"
            count, on = track.get("points") or 0, track.get("assigned")
            kinds = {"points": count} if on is None else {"on a building": on, "elsewhere": count - on}
            points.append(Group(name, {**kinds, **(track.get("dropped") or {})}))
            spans.append((name, track.get("first_epoch"), track.get("last_epoch")))
            rows.append([name, *(track.get(key) for key in TRACK)])
    density = [[city, *(about.get(key) for key in CITY)] for city, about in shown.items()]
    more = f"<p>The first {MOST_CITIES} of {len(cities)} cities.</p>" if len(cities) > MOST_CITIES else ""
    return "".join(
        [
            f"<h2>What came in</h2>{more}",
            table(["city", *CITY.values()], density),
            "<h3>Buildings</h3>",
            stacked(left),
            "<h3>Points read</h3>",
            stacked(points),
            "<h3>Time watched</h3>",
            timeline(spans),
            table(["track", *TRACK.values()], rows),
        ]
    )


def _splits(splits: Mapping[str, Any]) -> str:
    rows = []
    for name, about in splits.items():
        length, severity = about["points_per_building"], about["severity_permille"]
        figures = [length["min"], length["median"], length["max"], severity["median"], severity["max"]]
        rows.append([name, about["buildings"], about["points"], *figures])
    parts = ["<h2>Splits and labels</h2>", table(SPLIT, rows)]
    named = {"categories": "category ", "quadrants": "", "cities": "", "difficulty": ""}
    for key, before in named.items():
        groups = [
            Group(name, {f"{before}{k}": n for k, n in about[key].items()})
            for name, about in splits.items()
            if about[key]
        ]
        parts += [f"<h3>{key.capitalize()}</h3>", stacked(groups)] if groups else []
    for key, title in (("points_per_building", "Points per building"), ("severity_permille", "Severity, permille")):
        cells = []
        for name, about in splits.items():
            edges, counts = about[key]["edges"], about[key]["histogram"]
            cells.append((name, "", edges, {name: counts}, f"{about['buildings']} buildings"))
        parts += [f"<h3>{title}</h3>", histograms(cells)]
    return "".join(parts)


def _drift(drift: Mapping[str, Any]) -> str:
    compared = {f"{name} from train": shifts for name, shifts in drift["from_train"].items()}
    if drift["from_reference"]:
        compared["train from the reference"] = drift["from_reference"]
    parts = [
        "<h2>Drift</h2><p>Columns that moved most: population stability index, what chance alone would give, "
        "Kolmogorov-Smirnov distance, Wasserstein distance in standard deviations.</p>"
    ]
    for title, shifts in compared.items():
        rows = [
            [key, shift["psi"], shift["psi_chance"], shift["ks"], shift["wasserstein_sd"]]
            for key, shift in list(shifts.items())[:MOST_SHIFTS]
        ]
        parts += [f"<h3>{say(title)}</h3>", table(["column", "index", "by chance", "KS", "Wasserstein"], rows)]
    return "".join(parts)


def _features(statistics: Mapping[str, Any]) -> str:
    splits, edges = statistics["splits"], statistics["edges"]
    shown = [name for name in ("train", "test") if name in splits] or list(splits)[:1]
    if not shown:
        return ""
    cells = []
    for key, about in splits[shown[0]]["features"].items():
        counts = {name: splits[name]["features"][key]["histogram"] for name in shown}
        text = (
            f"mean {number(about['mean'])}, sd {number(about['sd'])}, skew {number(about['skew'])}; "
            f"{number(about['min'])} to {number(about['max'])}; outliers {number(about['outlier_share'])}"
        )
        cells.append((key, about["unit"], edges[key], counts, text))
    said = f"Filled: {shown[0]}" + (f", line: {shown[1]}" if len(shown) > 1 else "")
    return (
        f"<h2>Features</h2><p>{say(said)}; each to its own scale, over the middle 99 % of the values. "
        f"Figures of {say(shown[0])}.</p>{histograms(cells)}"
    )
