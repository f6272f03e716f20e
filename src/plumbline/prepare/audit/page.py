"""Build `audit.html`: the rules, failed ones first, and tables, in one offline file for a
screen or a phone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

from plumbline.reporting.page import html_page, number, table

MOST_SHIFTS = 15
"""Columns of a split that are shown, those that moved most."""
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
_BODY = Environment(
    autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
).from_string(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))
TRACK = {
    "points": "points",
    "epochs": "epochs",
    "noise_mm": "noise, mm",
    "speed_p99_mm_yr": "99 % slower, mm/yr",
}
"""Key of a track's report -> head of its column."""
DRIFT = {"psi": "index", "psi_chance": "by chance", "ks": "KS", "wasserstein_sd": "Wasserstein"}
"""Key of a column's shift -> head of its column."""


def audit_page(content: Mapping[str, Any]) -> str:
    """Build the page for the content of an `audit.json`."""
    statistics = content["statistics"]
    tracks = [
        [f"{city}, {track.get('name')}", *(track.get(key) for key in TRACK)]
        for city, report in statistics["cities"].items()
        for track in report.get("tracks", [])
    ]
    drift = {
        name: table(
            ["column", *DRIFT.values()], [[key, *(shift[k] for k in DRIFT)] for key, shift in shown]
        )
        for name, shifts in statistics["drift"].items()
        for shown in [list(shifts.items())[:MOST_SHIFTS]]
    }
    body = _BODY.render(
        verdict=content["verdict"],
        rules=content["rules"],
        number=number,
        tracks=table(["track", *TRACK.values()], tracks),
        splits=_splits(statistics["splits"]),
        drift=drift,
    )
    return html_page("Plumbline audit", _STYLE, [body])


def _splits(splits: Mapping[str, Any]) -> str:
    """Return the table of buildings and labels; empty without a split."""
    rows, heads = [], ["split", "buildings", "points", "largest, permille"]
    for name, split in splits.items():
        kinds = {f"category {key}": count for key, count in split["categories"].items()} | split[
            "quadrants"
        ]
        rows.append(
            [
                name,
                split["buildings"],
                split["points"],
                split["severity_permille_max"],
                *kinds.values(),
            ]
        )
        heads[4:] = kinds
    return table(heads, rows) if rows else ""
