"""Report what files are, and what is doubtful about them."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median_low
from typing import Any, Literal

import geopandas
import numpy as np
import shapely
import yaml
from rich.console import Console
from rich.markup import escape

from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.params import Ingest
from plumbline.reporting.page import html_page, say
from plumbline.reporting.plans import PlanPoints, draw_histories, draw_plan
from plumbline.serve.predictions import write_text
from plumbline.sources.alignment import warn_of_offset
from plumbline.sources.checks import check_overlap, warn_of_datum, warn_of_shared_names
from plumbline.sources.city.in_memory import AS_THEY_ARE, Reading, say_one_side, warn_of_short
from plumbline.sources.crs import GLOBE, transformer, unrolled
from plumbline.sources.distinct import check_distinct
from plumbline.sources.files.opened import AnyFile, OpenedFile, as_file
from plumbline.sources.footprints.buildings import read_buildings
from plumbline.sources.points.epochs import velocity_mm_per_year
from plumbline.sources.points.line_of_sight import pass_of
from plumbline.sources.points.read import open_product, take_points
from plumbline.sources.points.recognise import FORMATS, recognise
from plumbline.sources.points.source import PointSource, ProductFile
from plumbline.sources.points.track import Track

Kind = Literal["points", "footprints", "not readable"]
WORLD_M = "+proj=cea +lat_ts=30 +datum=WGS84 +units=m +over"
"""Of equal areas, for footprints without points."""
NO_SHAPES = ("a table without geometry", "not recognized as being in a supported")
"""What the reader of footprints says of a file that is none."""
LEVEL = 0.05
"""Horizontal part of a line of sight below which it has no direction."""


@dataclass
class Looked:
    """What was found in one file."""

    path: Path
    kind: Kind
    facts: dict[str, Any] = field(default_factory=dict)
    """What it is and how it is understood, in the order in which a person reads it."""
    columns: dict[str, str] = field(default_factory=dict)
    """What is taken -> from where in the file."""
    notes: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    """Warnings; of one that is not readable, why it is refused."""
    params: str | None = None
    """Lines of `params.yaml` that say how it is understood."""
    track: Track | None = None
    buildings: geopandas.GeoDataFrame | None = None

    def plain(self) -> dict[str, Any]:
        """Return the values that JSON can hold."""
        return {
            "file": str(self.path),
            "kind": self.kind,
            "facts": self.facts,
            "columns": self.columns,
            "notes": self.notes,
            "doubts": self.doubts,
            "params": self.params,
        }


@dataclass
class Findings:
    """Findings on all files, and doubts about their combination."""

    files: list[Looked]
    doubts: list[str]
    refused: bool = False
    """Whether files that can be read do not belong together."""

    @property
    def is_readable(self) -> bool:
        """Return whether every file can be read, and all of them together."""
        return all(one.kind != "not readable" for one in self.files) and not self.refused

    def plain(self) -> dict[str, Any]:
        """Return the values that JSON can hold."""
        return {"files": [one.plain() for one in self.files], "doubts": self.doubts, "readable": self.is_readable}


def look(files: Sequence[AnyFile], reading: Reading = AS_THEY_ARE) -> Findings:
    """Inspect points and footprints, given in any order.

    Args:
        files: of points and of footprints. reading: what they do not say themselves.
    """
    seen: dict[Path, Looked] = {}
    ingest = reading.ingest
    crs = ingest.crs
    others: dict[Path, str] = {}
    opened = [as_file(file) for file in files]
    paths = [file.path for file in opened]
    for path, file in zip(paths, opened, strict=True):
        try:
            seen[path] = points = _points(file, reading, crs)
        except InputError as error:
            others[path] = str(error)
            continue
        finally:
            file.close()
        if points.track is not None:
            crs = crs or points.track.crs
    for path, why in others.items():
        seen[path] = _footprints(path, why, reading, crs)
    findings = Findings([seen[path] for path in paths], [])
    with _heard(findings.doubts, []):
        try:
            _together(findings.files, ingest)
        except InputError as error:
            findings.refused = True
            findings.doubts.append(str(error))
    return findings


@contextmanager
def _heard(doubts: list[str], notes: list[str]) -> Iterator[None]:
    """Collect log messages as doubts (warnings) or notes, and keep them off the terminal."""

    class Hearing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said = record.getMessage()
            (doubts if record.levelno >= logging.WARNING else notes).append(said)

    before = (log.handlers, log.level, log.propagate)
    log.handlers, log.propagate = [Hearing()], False
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.handlers, log.propagate = before[0], before[2]
        log.setLevel(before[1])


def _points(given: OpenedFile, reading: Reading, crs: str | None) -> Looked:
    found = Looked(given.path, "points")
    with _heard(found.doubts, found.notes):
        file = recognise(given, reading.ingest.products, reading.format_)
        source = open_product(file, crs)
        track = take_points(file, source)
    found.track, found.columns = track, dict(source.columns)
    found.facts = _point_facts(file, source, track)
    found.params = _params(file)
    found.notes += [note for note in source.notes if not any(note in said for said in (*found.notes, *found.doubts))]
    return found


def _point_facts(file: ProductFile, source: PointSource, track: Track) -> dict[str, Any]:
    days = track.epochs.astype("datetime64[D]")
    steps = np.diff(days).astype(int)
    missing = float(np.mean(~np.isfinite(track.displacement))) if track.displacement.size else 0.0
    facts: dict[str, Any] = {
        "format": FORMATS[file.format].called,
        "track": track.name,
        "points": len(track),
        "left out": {reason: count for reason, count in track.dropped.items() if count},
        "epochs": len(days),
        "first day": str(days[0]),
        "last day": str(days[-1]),
        "days between epochs": _statistics(steps),
        "missing displacements, %": round(100 * missing, 2),
        "displacement": source.meaning,
        "CRS": source.crs,
        **_place(track.easting, track.northing, track.crs),
        "heights, m": [round(float(end), 1) for end in (track.height.min(), track.height.max())],
        **_line_of_sight(track),
    }
    if track.coherence is not None and np.isfinite(track.coherence).any():
        facts["median coherence"] = round(float(np.nanmedian(track.coherence)), 2)
    return facts


def _statistics(steps: np.ndarray[Any, Any]) -> dict[str, float]:
    if not len(steps):
        return {}
    return {"median": median_low(steps.tolist()), "mean": round(float(steps.mean()), 1), "at most": int(steps.max())}


def _place(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any], crs: str) -> dict[str, Any]:
    longitude, latitude = transformer(crs, GLOBE).transform(x, y)
    degrees = {"longitude": unrolled(longitude), "latitude": latitude}
    return {name: [round(float(values.min()), 5), round(float(values.max()), 5)] for name, values in degrees.items()}


def _line_of_sight(track: Track) -> dict[str, Any]:
    los = np.median(track.los, axis=0)
    level = float(np.hypot(los[0], los[1]))
    incidence = round(float(np.degrees(np.arctan2(level, los[2]))), 1)
    if level < LEVEL:
        return {"incidence, degrees": incidence}
    seen_from = float(np.degrees(np.arctan2(los[0], los[1]))) % 360
    heading = (seen_from + 90) % 360
    return {
        "incidence, degrees": incidence,
        "seen from, degrees clockwise from north": round(seen_from, 1),
        "heading of a right-looking satellite, degrees": round(heading, 1),
        "pass of a right-looking satellite": pass_of(heading),
    }


def _params(file: ProductFile) -> str:
    stated = file.about.model_dump(mode="json", exclude_unset=True)
    return yaml.safe_dump(
        {"ingest": {"products": {file.path.name: {"format": file.format, **stated}}}}, sort_keys=False, width=120
    )


def _footprints(path: Path, why: str, reading: Reading, crs: str | None) -> Looked:
    found = Looked(path, "footprints")
    with _heard(found.doubts, found.notes):
        try:
            buildings = read_buildings(
                path, crs or WORLD_M, reading.id_column, reading.layer, reading.ingest.footprints
            )
        except InputError as error:
            about_footprints = str(error)
            is_table = any(said in about_footprints for said in NO_SHAPES) or about_footprints == why
            reasons = [why] if is_table else [f"as points: {why}", f"as footprints: {about_footprints}"]
            return Looked(path, "not readable", doubts=reasons)
    found.buildings = buildings
    x, y = shapely.get_coordinates(buildings.geometry.to_numpy()).T
    sides = np.sqrt(buildings.geometry.area.to_numpy())
    found.facts = {
        "buildings": len(buildings),
        "CRS": buildings.attrs.get("source_crs"),
        **_place(x, y, str(buildings.crs)),
        "left out": len(buildings.attrs.get("left_out", ())),
        "repaired": len(buildings.attrs.get("repaired", ())),
        "first identifiers": [str(name) for name in buildings["building_id"].head(3)],
    }
    if crs is not None:
        found.facts["median area, m²"] = round(float(np.median(sides**2)), 1)
    return found


def _together(files: Sequence[Looked], ingest: Ingest) -> None:
    """Run the same checks between files as `predict`.

    Raises:
        InputError: they refuse them.
    """
    points = [one for one in files if one.track is not None]
    tracks = [one.track for one in points if one.track is not None]
    if not tracks:
        return
    names = [str(one.path) for one in points]
    warn_of_shared_names([one.path for one in points], ingest.products)
    check_distinct(tracks, names)
    warn_of_datum(tracks, names, ingest.products)
    warn_of_short(tracks)
    say_one_side(tracks)
    for one in files:
        if one.buildings is not None:
            check_overlap(tracks, one.buildings, ", ".join(names), str(one.path), asked_crs=ingest.crs)
            warn_of_offset(tracks, one.buildings, ", ".join(names), ingest.products)


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
