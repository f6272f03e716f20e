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
from plumbline.reporting.page import render
from plumbline.reporting.plans import PlanPoints, draw_histories, draw_plan
from plumbline.serve.predictions import write_text
from plumbline.sources.alignment import warn_of_offset
from plumbline.sources.checks import check_overlap, warn_of_datum, warn_of_patterns
from plumbline.sources.city.in_memory import AS_THEY_ARE, Reading, say_one_side, warn_of_short
from plumbline.sources.crs import GLOBE, transformer, unwrap_longitudes
from plumbline.sources.distinct import check_distinct
from plumbline.sources.files.opened import AnyFile, OpenedFile, as_file, product_params
from plumbline.sources.footprints.area import Area
from plumbline.sources.footprints.buildings import read_buildings
from plumbline.sources.points.epochs import velocity_mm_per_year
from plumbline.sources.points.line_of_sight import pass_of
from plumbline.sources.points.read import open_product, read_source
from plumbline.sources.points.recognise import FORMATS, recognise
from plumbline.sources.points.source import PointSource, ProductFile
from plumbline.sources.points.track import Track

Kind = Literal["points", "footprints", "not readable"]
EQUAL_AREA = "+proj=cea +lat_ts=30 +datum=WGS84 +units=m +over"
"""Projection with equal areas, for footprints without points."""
MIN_HORIZONTAL = 0.05
"""Horizontal part of a line of sight below which it has no direction."""


@dataclass
class FileFindings:
    """Findings on one file."""

    path: Path
    kind: Kind
    facts: dict[str, Any] = field(default_factory=dict)
    """Name -> value of each fact on the file, in the order in which a person reads them."""
    columns: dict[str, str] = field(default_factory=dict)
    """Role of a column -> its place in the file."""
    notes: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    """Warnings; of one that is not readable, why it is refused. Like notes, without the
    name of the file."""
    params: dict[str, Any] | None = None
    """Entry of `ingest.products` with which the file is read in the same way."""
    track: Track | None = None
    buildings: geopandas.GeoDataFrame | None = None

    @property
    def rows(self) -> list[tuple[str, str]]:
        """Return facts and columns as names and texts."""
        columns = ((f"taken: {role}", column) for role, column in self.columns.items())
        return [(name, _format_fact(value)) for name, value in (*self.facts.items(), *columns)]


@dataclass
class Findings:
    """Findings on all files, and doubts about their combination."""

    files: list[FileFindings]
    doubts: list[str]
    refused: bool = False
    """True if the readable files do not belong together."""

    @property
    def is_readable(self) -> bool:
        """Return whether every file can be read, and all of them together."""
        return all(file.kind != "not readable" for file in self.files) and not self.refused

    @property
    def params(self) -> str:
        """Return the section `ingest` of a `params.yaml` for all point files; empty without any."""
        return _dump_params([file for file in self.files if file.params])

    def plain(self) -> dict[str, Any]:
        """Return the values that JSON can hold."""
        files = [
            {
                "file": str(file.path),
                **{
                    name: getattr(file, name)
                    for name in ("kind", "facts", "columns", "notes", "doubts")
                },
                "params": _dump_params([file]) if file.params else None,
            }
            for file in self.files
        ]
        return {"files": files, "doubts": self.doubts, "readable": self.is_readable}


def look(files: Sequence[AnyFile], reading: Reading = AS_THEY_ARE) -> Findings:
    """Inspect points and footprints, given in any order.

    Args:
        files: of points and of footprints. reading: what they do not say themselves.
    """
    findings_by_path: dict[Path, FileFindings] = {}
    crs = reading.ingest.crs
    refusals: dict[Path, str] = {}
    opened = [as_file(file) for file in files]
    for file in opened:
        try:
            findings_by_path[file.path] = point_findings = _inspect_points(file, reading, crs)
            crs = crs or (point_findings.track.crs if point_findings.track else None)
        except InputError as error:
            refusals[file.path] = str(error)
        finally:
            file.close()
    tracks = [file.track for file in findings_by_path.values() if file.track is not None]
    places = [np.column_stack([track.easting, track.northing]) for track in tracks]
    area = Area.around(np.concatenate(places), tracks[0].crs) if tracks else None
    findings_by_path |= {
        path: _inspect_footprints(path, refusal, reading, crs, area)
        for path, refusal in refusals.items()
    }
    findings = Findings([findings_by_path[file.path] for file in opened], [])
    with _collect_messages(findings.doubts, []):
        try:
            _check_together(findings.files, reading.ingest)
        except InputError as error:
            findings.refused = True
            findings.doubts.append(str(error))
    return findings


@contextmanager
def _collect_messages(
    doubts: list[str], notes: list[str], path: Path | None = None
) -> Iterator[None]:
    """Collect log messages as doubts (warnings) or notes, without the name of the file, off
    the terminal."""

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages = doubts if record.levelno >= logging.WARNING else notes
            messages.append(record.getMessage().removeprefix(f"{path}: "))

    before = (log.handlers, log.level, log.propagate)
    log.handlers, log.propagate = [Collector()], False
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.handlers, log.propagate = before[0], before[2]
        log.setLevel(before[1])


def _inspect_points(opened: OpenedFile, reading: Reading, crs: str | None) -> FileFindings:
    findings = FileFindings(opened.path, "points")
    with _collect_messages(findings.doubts, findings.notes, opened.path):
        file = recognise(opened, reading.ingest.products, reading.format_)
        source = open_product(file, crs)
        findings.track = track = read_source(file, source)
    findings.columns, findings.facts = dict(source.columns), _list_point_facts(file, source, track)
    findings.params = {
        "format": file.format,
        **file.about.model_dump(mode="json", exclude_unset=True),
    }
    messages = [*findings.notes, *findings.doubts]
    findings.notes += [
        note for note in source.notes if not any(note in message for message in messages)
    ]
    return findings


def _list_point_facts(file: ProductFile, source: PointSource, track: Track) -> dict[str, Any]:
    days = track.epochs.astype("datetime64[D]")
    missing = float(np.mean(~np.isfinite(track.displacement))) if track.displacement.size else 0.0
    facts: dict[str, Any] = {
        "format": FORMATS[file.format].called,
        "track": track.name,
        "points": len(track),
        "left out": {reason: count for reason, count in track.dropped.items() if count},
        "epochs": len(days),
        "first day": str(days[0]),
        "last day": str(days[-1]),
        "days between epochs": _summarise_steps(np.diff(days).astype(int)),
        "missing displacements, %": round(100 * missing, 2),
        "displacement": source.meaning,
        "CRS": source.crs,
        **_find_extent(track.easting, track.northing, track.crs),
        "heights, m": [round(float(end), 1) for end in (track.height.min(), track.height.max())],
        **_describe_line_of_sight(track),
    }
    if track.coherence is not None and np.isfinite(track.coherence).any():
        facts["median coherence"] = round(float(np.nanmedian(track.coherence)), 2)
    return facts


def _summarise_steps(steps: np.ndarray[Any, Any]) -> dict[str, float]:
    if not len(steps):
        return {}
    return {
        "median": median_low(steps.tolist()),
        "mean": round(float(steps.mean()), 1),
        "at most": int(steps.max()),
    }


def _find_extent(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any], crs: str) -> dict[str, Any]:
    longitude, latitude = transformer(crs, GLOBE).transform(x, y)
    degrees = {"longitude": unwrap_longitudes(longitude), "latitude": latitude}
    return {
        name: [round(float(values.min()), 5), round(float(values.max()), 5)]
        for name, values in degrees.items()
    }


def _describe_line_of_sight(track: Track) -> dict[str, Any]:
    los = np.median(track.los, axis=0)
    horizontal = float(np.hypot(los[0], los[1]))
    incidence = round(float(np.degrees(np.arctan2(horizontal, los[2]))), 1)
    if horizontal < MIN_HORIZONTAL:
        return {"incidence, degrees": incidence}
    azimuth = float(np.degrees(np.arctan2(los[0], los[1]))) % 360
    heading = (azimuth + 90) % 360
    return {
        "incidence, degrees": incidence,
        "seen from, degrees clockwise from north": round(azimuth, 1),
        "heading of a right-looking satellite, degrees": round(heading, 1),
        "pass of a right-looking satellite": pass_of(heading),
    }


def _inspect_footprints(
    path: Path, refusal: str, reading: Reading, crs: str | None, area: Area | None
) -> FileFindings:
    findings = FileFindings(path, "footprints")
    with _collect_messages(findings.doubts, findings.notes, path):
        try:
            buildings = read_buildings(
                path,
                crs or EQUAL_AREA,
                id_column=reading.id_column,
                layer=reading.layer,
                stated=reading.ingest.footprints,
                area=area,
            )
        except InputError as error:
            is_table = str(error) == refusal or error.key == "footprints.no_geometry"
            reasons = (
                [refusal] if is_table else [f"as points: {refusal}", f"as footprints: {error}"]
            )
            return FileFindings(
                path,
                "not readable",
                doubts=[reason.removeprefix(f"{path}: ") for reason in reasons],
            )
    findings.buildings = buildings
    x, y = shapely.get_coordinates(buildings.geometry.to_numpy()).T
    sides = np.sqrt(buildings.geometry.area.to_numpy())
    findings.facts = {
        "buildings": len(buildings),
        "CRS": buildings.attrs.get("source_crs"),
        **_find_extent(x, y, str(buildings.crs)),
        "left out": len(buildings.attrs.get("left_out", ())),
        "repaired": len(buildings.attrs.get("repaired", ())),
        "first identifiers": [str(name) for name in buildings["building_id"].head(3)],
    }
    if crs is not None:
        findings.facts["median area, m²"] = round(float(np.median(sides**2)), 1)
    return findings


def _check_together(files: Sequence[FileFindings], ingest: Ingest) -> None:
    """Run the same checks between files as `predict`.

    Raises:
        InputError: they refuse them.
    """
    tracks = {file.path: file.track for file in files if file.track is not None}
    if not tracks:
        return
    names, points = [str(path) for path in tracks], list(tracks.values())
    warn_of_patterns(list(tracks), ingest.products)
    check_distinct(points, names)
    raised_m = [product_params(path, ingest.products).raised_m for path in tracks]
    warn_of_datum(points, names, raised_m)
    warn_of_short(points)
    say_one_side(points)
    for file in files:
        if file.buildings is not None:
            check_overlap(
                points, file.buildings, ", ".join(names), str(file.path), asked_crs=ingest.crs
            )
            warn_of_offset(points, file.buildings, ", ".join(names), ingest.products)


SUFFIXES = (".html", ".json")


def check_report(path: Path) -> None:
    """Refuse a report path that ends neither with `.html` nor with `.json`.

    Raises:
        InputError: it ends neither with `.html` nor with `.json`.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"--output {path}: .html or .json is needed.", key="output.other_format")


def write_report(findings: Findings, path: Path) -> None:
    """Write the findings as JSON or HTML, by the ending of the name, atomically.

    Raises:
        InputError: the file cannot be written.
    """
    is_json = path.suffix.lower() == ".json"
    write_text(
        json.dumps(findings.plain(), indent=2) + "\n" if is_json else as_page(findings), path
    )


def print_text(findings: Findings, console: Console) -> None:
    """Print the findings for a person at a terminal."""
    for file in findings.files:
        facts = (f"  {name}: {escape(_format_fact(value))}" for name, value in file.facts.items())
        lines = [f"[bold]{escape(str(file.path))}[/bold]: {file.kind}", *facts]
        if file.columns:
            lines += [
                "  taken:",
                *(f"    {role}: {escape(column)}" for role, column in file.columns.items()),
            ]
        console.print("\n".join(lines))
        for note in file.notes:
            console.print(f"  [dim]{escape(note)}[/dim]")
        for doubt in file.doubts:
            console.print(f"  [red]doubtful:[/red] {escape(doubt)}")
    for doubt in findings.doubts:
        console.print(f"[red]doubtful:[/red] {escape(doubt)}")
    if findings.params:
        console.print(f"params.yaml that says the same:\n{escape(findings.params)}")


def as_page(findings: Findings) -> str:
    """Return the findings as one HTML page that loads nothing from elsewhere."""
    outlines = next(
        (file.buildings.geometry for file in findings.files if file.buildings is not None), None
    )
    places, files = [], []
    for file in findings.files:
        histories = ""
        if (track := file.track) is not None:
            velocity = velocity_mm_per_year(track.displacement, track.epochs)
            places.append(PlanPoints(track.easting, track.northing, velocity))
            histories = draw_histories(track.point_id, track.epochs, track.displacement, velocity)
        files.append((file, histories))
    plan = draw_plan(places, np.zeros(0, object) if outlines is None else outlines.to_numpy())
    return render(
        "files.html", title="What the files are", findings=findings, files=files, plan=plan
    )


def _dump_params(files: Sequence[FileFindings]) -> str:
    products = {file.path.name: file.params for file in files}
    return (
        yaml.safe_dump({"ingest": {"products": products}}, sort_keys=False, width=120)
        if products
        else ""
    )


def _format_fact(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {count}" for name, count in value.items()) or "none"
    if isinstance(value, list):
        return (" to " if len(value) == 2 else ", ").join(map(str, value))
    return str(value)
