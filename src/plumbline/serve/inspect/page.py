"""Write the findings of `look` as text, as JSON, or as a page with pictures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape

from plumbline.core.errors import InputError
from plumbline.reporting.page import html_page, say
from plumbline.serve.inspect.look import Findings, Looked
from plumbline.serve.inspect.picture import PlanPoints, draw_histories, draw_plan
from plumbline.serve.outputs import write_text
from plumbline.sources.points.epochs import velocity_mm_per_year

SUFFIXES = (".html", ".json")
_STYLE = """
body{margin:0 auto;max-width:760px;padding:0 12px 40px;font:15px/1.45 system-ui,sans-serif;color:#1c1c1c}
h1{font-size:22px}h2{font-size:18px;overflow-wrap:anywhere;border-top:1px solid #ddd;padding-top:16px}
table{border-collapse:collapse}td{padding:1px 12px 1px 0;vertical-align:top;overflow-wrap:anywhere}
td:first-child{color:#555;white-space:nowrap}
li.doubt{color:#8a1f11}pre{background:#f7f7f5;padding:8px;overflow:auto}
svg{max-width:100%;height:auto}figure{margin:8px 0}
"""


def check_report(path: Path) -> None:
    """Refuse a report path that ends neither with `.html` nor with `.json`.

    Raises:
        InputError: it ends neither with `.html` nor with `.json`.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"--output {path}: .html or .json is needed.")


def write_report(findings: Findings, path: Path) -> None:
    """Write the findings as JSON or HTML, by the ending of the name, atomically.

    Raises:
        InputError: the file cannot be written.
    """
    is_json = path.suffix.lower() == ".json"
    write_text(json.dumps(findings.plain(), indent=2) + "\n" if is_json else as_page(findings), path)


def print_text(findings: Findings, console: Console) -> None:
    """Print the findings for a person at a terminal."""
    for one in findings.files:
        console.print(f"[bold]{escape(str(one.path))}[/bold]: {one.kind}")
        for name, value in one.facts.items():
            console.print(f"  {name}: {escape(_said(value))}")
        if one.columns:
            console.print("  taken:")
            for role, column in one.columns.items():
                console.print(f"    {role}: {escape(column)}")
        for note in one.notes:
            console.print(f"  [dim]{escape(_bare(note, one))}[/dim]")
        for doubt in one.doubts:
            console.print(f"  [red]doubtful:[/red] {escape(_bare(doubt, one))}")
    for doubt in findings.doubts:
        console.print(f"[red]doubtful:[/red] {escape(doubt)}")
    stated = [one.params for one in findings.files if one.params]
    if stated:
        console.print("params.yaml that says the same:")
        console.print(escape(merged_params(findings)))


def merged_params(findings: Findings) -> str:
    """Return one `params.yaml` section `ingest` for all point files."""
    head = "ingest:\n  products:\n"
    return head + "".join(one.params.removeprefix(head) for one in findings.files if one.params)


def as_page(findings: Findings) -> str:
    """Return the findings as one HTML page that loads nothing from elsewhere."""
    parts = ["<h1>What the files are</h1>"]
    buildings = next((one.buildings for one in findings.files if one.buildings is not None), None)
    tracks = [one.track for one in findings.files if one.track is not None]
    velocity = [velocity_mm_per_year(track.displacement, track.epochs) for track in tracks]
    places = [PlanPoints(track.easting, track.northing, own) for track, own in zip(tracks, velocity, strict=True)]
    parts.append(draw_plan(places, np.zeros(0, object) if buildings is None else buildings.geometry.to_numpy()))
    if findings.doubts:
        parts.append(_doubts(findings.doubts))
    for one in findings.files:
        parts.append(f"<h2>{say(one.path.name)}: {one.kind}</h2>")
        rows = [*one.facts.items(), *((f"taken: {role}", column) for role, column in one.columns.items())]
        cells = "".join(f"<tr><td>{say(name)}</td><td>{say(_said(value))}</td></tr>" for name, value in rows)
        parts.append(f"<table>{cells}</table>")
        parts.append(_doubts([_bare(doubt, one) for doubt in one.doubts]))
        parts.append("".join(f"<p>{say(_bare(note, one))}</p>" for note in one.notes))
        if (track := one.track) is not None:
            parts.append(draw_histories(track.point_id, track.epochs, track.displacement, velocity.pop(0)))
    if any(one.params for one in findings.files):
        parts.append(f"<h2>The same in params.yaml</h2><pre>{say(merged_params(findings))}</pre>")
    return html_page("What the files are", _STYLE, parts)


def _doubts(doubts: list[str]) -> str:
    return f"<ul>{''.join(f'<li class=doubt>{say(doubt)}</li>' for doubt in doubts)}</ul>" if doubts else ""


def _bare(text: str, one: Looked) -> str:
    """Return a message without the file's name, which stands above it."""
    return text.removeprefix(f"{one.path}: ")


def _said(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {count}" for name, count in value.items()) or "none"
    if isinstance(value, list):
        return (" to " if len(value) == 2 else ", ").join(map(str, value))
    return str(value)
