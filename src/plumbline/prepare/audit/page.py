"""Build `audit.html`: the rules, failed ones first, and tables, in one offline file for a screen or a phone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plumbline.reporting.page import html_page, number, say, table

MOST_SHIFTS = 15

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
@media(max-width:640px){.rules thead{display:none}.rules tr{display:block;border-bottom:1px solid #ccc;padding:6px 0}
.rules td{display:block;border:0;padding:1px 0;text-align:left}}
"""


def audit_page(content: Mapping[str, Any]) -> str:
    """Build the page for the content of an `audit.json`."""
    statistics, rules = content["statistics"], content["rules"]
    counts = {status: sum(rule["status"] == status for rule in rules) for status in ("fail", "warn", "pass")}
    summary = f"{counts['fail']} rules failed, {counts['warn']} warn, {counts['pass']} passed."
    body = [
        f'<h1>Audit: <span class="{say(content["verdict"])}">{say(content["verdict"])}</span></h1>',
        f"<p>{say(summary)}</p>",
        _rules(rules),
        _cities(statistics["cities"]),
        _splits(statistics["splits"]),
        _drift(statistics["drift"]),
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
    columns = {"points": "points", "epochs": "epochs", "noise_mm": "noise, mm", "speed_p99_mm_yr": "99 % slower, mm/yr"}
    rows = [
        [f"{city}, {track.get('name')}", *(track.get(key) for key in columns)]
        for city, report in cities.items()
        for track in report.get("tracks", [])
    ]
    return f"<h2>What came in</h2>{table(['track', *columns.values()], rows)}"


def _splits(splits: Mapping[str, Any]) -> str:
    rows = []
    for name, split in splits.items():
        counts = [*split["categories"].values(), *split["quadrants"].values()]
        rows.append([name, split["buildings"], split["points"], split["severity_permille_max"], *counts])
    if not rows:
        return ""
    first = next(iter(splits.values()))
    kinds = [*(f"category {key}" for key in first["categories"]), *first["quadrants"]]
    return f"<h2>Splits and labels</h2>{table(['split', 'buildings', 'points', 'largest, permille', *kinds], rows)}"


def _drift(drift: Mapping[str, Any]) -> str:
    parts = [
        "<h2>Drift</h2><p>Columns that moved most: population stability index, what chance alone would give, "
        "Kolmogorov-Smirnov distance, Wasserstein distance in standard deviations.</p>"
    ]
    for name, shifts in drift.items():
        rows = [
            [key, shift["psi"], shift["psi_chance"], shift["ks"], shift["wasserstein_sd"]]
            for key, shift in list(shifts.items())[:MOST_SHIFTS]
        ]
        parts += [
            f"<h3>{say(f'{name} from train')}</h3>",
            table(["column", "index", "by chance", "KS", "Wasserstein"], rows),
        ]
    return "".join(parts)
