"""Put together what a report says: the list, and a page for each of its buildings. PDF and HTML take the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from plumbline import __version__
from plumbline.core.compass import QUADRANTS, Frames, frames, quadrant_code
from plumbline.core.console import track as progress
from plumbline.export.interface import PROBABILITIES
from plumbline.prepare.abstention import UNSURE_WHERE
from plumbline.prepare.assignment.owners import usable_rows
from plumbline.prepare.features.definition import DISTANCE, SLOPE, names
from plumbline.reporting.colours import CATEGORY_COLOURS, CATEGORY_NAMES, GREY
from plumbline.serve.judgement import Answered
from plumbline.serve.report import drawings
from plumbline.serve.report.limits import CRACKS, REFERENCES, Fact, LimitRow, kind_sentence, kinds_of, limit_rows
from plumbline.serve.report.words import (
    MISSING,
    WORDS,
    facts_of,
    list_cells,
    longest_gap,
    percent,
    plain,
    reading_of_it,
    side_of,
    unseen_of,
    whole_facts,
)
from plumbline.sources.city.in_memory import CityInMemory
from plumbline.sources.points.track import Track

Index = NDArray[np.intp]
_CATEGORIES = (CATEGORY_NAMES, CATEGORY_COLOURS, CRACKS)
MOST_ATTRIBUTES = 8
LEAST_LIMIT_MM = 2.0
LEGEND = (
    "Quadrants with their probabilities, and points. Purple triangle, pointing down: the point moved down against the "
    "building as a whole. Green triangle, pointing up: it moved up against it; the building may sink all the same. "
    "Full colour from {:g} mm. Circle: less than its standard error, or not known."
)
POSSIBLY = "Category 0 is the most probable. Only the upper end of the interval reaches the limits marked possibly."


@dataclass(frozen=True)
class BuildingPage:
    """All that a report says of a building."""

    number: int
    name: str
    judged: bool
    headline: str
    colour: str
    category: str
    in_list: list[str]
    """Cells of its row of the list, behind the number."""
    facts: list[Fact]
    why: list[str]
    plan: str
    legend: str
    histories: list[str]
    course: str
    whole: list[Fact]
    limits: list[LimitRow]
    kind: str
    unseen: list[str]
    attributes: str


@dataclass(frozen=True)
class Report:
    """All that a report says."""

    title: str
    day: str
    program: str
    model: str
    rate: str
    counts: str
    footprints: str
    tracks: list[list[str]]
    categories: list[Fact]
    """Name, colour, and what is seen of the damage."""
    references: list[str]
    words: list[tuple[str, str]]
    """How to read it."""
    missing: str
    """Why cells of the list are empty; empty if none is."""
    map: str
    pages: list[BuildingPage]


def make_report(answered: Answered, city: CityInMemory, rows: Sequence[int], footprints: str, today: date) -> Report:
    """Put together the report of some buildings.

    Args:
        answered: of all buildings. city: what was judged. rows: of the buildings table, in the order of the list.
        footprints: name of their file. today: the day that it is made.
    """
    table, writer = answered.judged.table, _Writer(answered, city)
    reason = pd.Series(answered.judged.reason)
    left = ", ".join(
        f"{count} {name.replace('_', ' ')}" for name, count in reason[reason != "ok"].value_counts().items()
    )
    rate = str(answered.judged.rate)
    category = table["burland_category"].fillna(-1).to_numpy(np.intp)
    made = __version__
    return Report(
        title=plain(footprints),
        day=today.isoformat(),
        program=f"Plumbline {made}",
        model=", ".join(sorted(set(table["model_version"]))),
        rate=f"{rate[0].upper()}{rate[1:]}. Severities and probabilities are for that share.",
        counts=f"{len(table):,} buildings, {int((reason == 'ok').sum()):,} judged"
        + (f" (not judged: {left})" if left else ""),
        footprints=f"{plain(footprints)} ({city.points[0].crs})",
        tracks=[_track_row(track) for track in city.points],
        categories=[
            *(Fact(f"{i} {name}", *rest) for i, (name, *rest) in enumerate(zip(*_CATEGORIES, strict=True))),
            Fact("not judged", GREY, "It does not mean sound."),
        ],
        references=list(REFERENCES),
        words=list(WORDS),
        missing=MISSING if table["against_neighbours_mm"].iloc[list(rows)].isna().any() else "",
        map=drawings.city(table.geometry.to_numpy(), category, rows),
        pages=[writer.page(i, row) for i, row in enumerate(progress(rows, len(rows), "report"), 1)],
    )


def list_order(answered: Answered) -> Index:
    """Return all rows, the most probably damaged first; behind them those not judged that may be damaged, the rest."""
    p_damaged = answered.judged.table["p_damaged"].fillna(-1).to_numpy(float)
    return np.lexsort((answered.judged.reason != UNSURE_WHERE, -p_damaged))


def _track_row(track: Track) -> list[str]:
    days = track.epochs.astype("datetime64[D]")
    when = f"{days[0]} to {days[-1]}"
    return [plain(track.name), side_of(track), f"{len(track):,}", f"{len(days):,}", when, f"{longest_gap(track)} days"]


class _Writer:
    """Writes the page of one building after another."""

    def __init__(self, answered: Answered, city: CityInMemory) -> None:
        self._judged, self._prepared, self._city = answered.judged, answered.prepared, city
        self._of = {int(row): i for i, row in enumerate(answered.prepared.footprint)}
        courses = answered.judged.courses
        self._courses = {} if courses is None else dict(tuple(courses.groupby("building_id", sort=False)))

    def page(self, number: int, row: int) -> BuildingPage:
        """Write the page of a building. `number`: in the list. `row`: in the buildings table."""
        one = self._judged.table.iloc[row]
        shape = self._judged.table.geometry.iloc[row]
        frame = frames(np.array([shape], object))
        seen, judged = self._seen(row, frame), one.status == "ok"
        attributes = _attributes(self._city.footprints.iloc[row])
        kinds = kinds_of(attributes)
        decided = one.quadrant if judged and one.p_damaged >= 0.5 else None
        p = np.array([one[name] for name in PROBABILITIES], float)
        limit = _limit(seen)
        limits = limit_rows(one, kinds)
        possible = any(cell.value == "possibly" for row in limits if not row.note for cell in row.cells)
        title = f"Plan of building {plain(one.building_id)}"
        category = int(one.burland_category) if judged else -1
        return BuildingPage(
            number=number,
            name=plain(one.building_id),
            judged=judged,
            headline=_headline(one, self._judged.reason[row]),
            colour=CATEGORY_COLOURS[category] if judged else GREY,
            category=f"Category {category}, {CATEGORY_NAMES[category]}" if judged else "",
            in_list=list_cells(one),
            facts=facts_of(one) if judged else [],
            why=reading_of_it(one, plain(self._judged.explanation[row], 400)),
            plan=drawings.plan(shape, frame, seen, p, decided, limit, title),
            legend=LEGEND.format(limit) if len(seen.row) else "No usable point is on the building: no histories.",
            histories=self._histories(seen, decided),
            course=self._course(one),
            whole=whole_facts(one, seen, self._city.points),
            limits=limits,
            kind=f"{kind_sentence(kinds)} {POSSIBLY}" if category == 0 and possible else kind_sentence(kinds),
            unseen=unseen_of(seen, self._city.points, one.strain_resolution_permille),
            attributes="; ".join(f"{name}: {value}" for name, value in attributes.items()),
        )

    def _seen(self, row: int, frame: Frames) -> drawings.Seen:
        """Return the points that the model was asked about; else those that are on the building."""
        place, prepared = self._of.get(row), self._prepared
        if place is not None:
            own = slice(*prepared.sequences.offsets[[place, place + 1]].tolist())
            distance, slope = prepared.sequences.distance[own], prepared.sequences.slope[own]
            xy = distance[:, [names(DISTANCE).index(name) for name in ("x", "y")]].astype(float)
            moved, error = (
                slope[:, names(SLOPE).index(f"differential_displacement{end}")].astype(float) for end in ("", "_se")
            )
            return drawings.Seen(prepared.track[own], prepared.point[own], xy, moved, error)
        found = [self._on(number, row) for number in range(len(self._city.points))]
        track = np.repeat(np.arange(len(found)), [len(own) for own in found])
        points = [
            np.column_stack([t.easting[own], t.northing[own]]) for t, own in zip(self._city.points, found, strict=True)
        ]
        xy = frame.to_building(np.zeros(len(track), np.intp), np.concatenate(points))
        return drawings.Seen(track, np.concatenate(found), xy, np.zeros(len(track)), np.full(len(track), np.inf))

    def _on(self, number: int, row: int) -> Index:
        own = np.flatnonzero(self._prepared.owners[number] == row)
        return own[usable_rows(self._city.points[number].take(own), np.full(len(own), row))] if len(own) else own

    def _histories(self, seen: drawings.Seen, decided: str | None) -> list[str]:
        """Draw the track with most points from each side."""
        best: dict[str, int] = {}
        for number in np.argsort(np.bincount(seen.track, minlength=len(self._city.points)), kind="stable"):
            best[side_of(self._city.points[number])] = int(number)
        found = []
        for side, number in sorted(best.items()):
            own, track = seen.track == number, self._city.points[number]
            if own.any():
                beside = quadrant_code(*seen.xy[own].T) == (QUADRANTS.index(decided) if decided else -1)
                title = f"{own.sum()} points seen from the {side}, mm"
                found.append(drawings.History(title, track.epochs, track.displacement[seen.row[own]], beside))
        return drawings.histories(found)

    def _course(self, one: Any) -> str:
        course = self._courses.get(one.building_id)
        if course is None:
            return ""
        columns = (course[name].tolist() for name in ("date", "severity_low", "severity_permille", "severity_high"))
        return drawings.course("Strain over time, permille, with 90 % interval", *columns)


def _headline(one: Any, reason: str) -> str:
    if one.status == "ok":
        return f"Probability of damage: {percent(one.p_damaged)}"
    return "Not judged; it may be damaged" if reason == UNSURE_WHERE else "Not judged"


def _limit(seen: drawings.Seen) -> float:
    """Return the displacement with the strongest colour, mm."""
    known = np.abs(seen.moved[np.isfinite(seen.error)])
    return float(max(LEAST_LIMIT_MM, np.ceil(np.quantile(known, 0.98)))) if len(known) else LEAST_LIMIT_MM


def _attributes(footprint: Any) -> dict[str, str]:
    """Return the first attributes of a footprint that are texts or numbers."""
    own = {
        plain(name, 40): plain(value, 60)
        for name, value in footprint.items()
        if name not in ("building_id", "geometry") and not pd.api.types.is_list_like(value) and pd.notna(value)
    }
    return dict([(name, value) for name, value in own.items() if value][:MOST_ATTRIBUTES])
