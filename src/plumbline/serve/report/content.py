"""Make the content of a report: the list, and a page for each of its buildings. PDF and
HTML have the same content."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

import numpy as np
import pandas as pd

from plumbline import __version__
from plumbline.core.arrays import Index
from plumbline.core.compass import QUADRANTS, Frames, frames, quadrant_code
from plumbline.core.console import track as progress
from plumbline.export.interface import PROBABILITIES
from plumbline.prepare.abstention import UNSURE_WHERE
from plumbline.prepare.assignment.owners import usable_rows
from plumbline.prepare.features.definition import DISTANCE, SLOPE, names
from plumbline.reporting.charts import course_chart
from plumbline.reporting.colours import CATEGORY_NAMES, GREY, PROBABILITY_COLOURS, PROBABILITY_NAMES
from plumbline.serve.columns import format_counts, has_answer
from plumbline.serve.judgement import CityPredictions, JudgedCity
from plumbline.serve.report import drawings
from plumbline.serve.report.about import NO_TEXTS, ReportTexts
from plumbline.serve.report.limits import (
    CRACKS,
    REFERENCES,
    Fact,
    kind_sentence,
    kinds_of,
    limit_rows,
)
from plumbline.serve.report.listing import (
    MAX_EXPLANATION_LETTERS,
    ListedBuilding,
    list_cells,
    list_notes,
)
from plumbline.serve.report.words import (
    INTERVALS,
    WORDS,
    facts_of,
    headline_of,
    longest_gap,
    plain,
    rate_sentence,
    reading_of_it,
    side_of,
    unseen_of,
    whole_facts,
)
from plumbline.serve.rules import is_answered, shows_quadrant
from plumbline.sources.city.in_memory import CityInMemory
from plumbline.sources.points.track import Track

MAX_ATTRIBUTES = 8
MIN_LIMIT_MM = 2.0
LEGEND = (
    "{} Purple triangle, pointing down: the point moved down against the building as a whole, "
    "its tilt taken off. "
    "Green triangle, pointing up: it moved up against it; the building may sink all the same. "
    "Full colour from {:g} mm. Circle: less than its standard error, or not known."
)
LIKELY, NAMED = (
    "Quadrants with their probabilities if it is damaged, and points.",
    "Quadrants and points.",
)
HISTORIES = (
    "Histories: thin lines are points, thick lines their means{}. Positive: towards the satellite."
)
MARKED = "; orange: points in the marked quadrant; blue: the others"
POSSIBLY = (
    "The median of the strain is below all limits. Only the upper end of its interval "
    "reaches those marked possibly."
)


Page = dict[str, Any]
"""Content of the page of a building, by the names that the templates use."""
Report = dict[str, Any]
"""Content of a report, by the names that the templates use; its `pages` are of `Page`."""


def make_report(
    answered: JudgedCity,
    city: CityInMemory,
    rows: Sequence[int],
    footprints: str,
    today: date,
    *,
    about: ReportTexts = NO_TEXTS,
    sheet: str = "",
) -> Report:
    """Put together the report of some buildings.

    Args:
        answered: of all buildings. city: what was judged. rows: of the buildings table, in
            the order of the list.
        footprints: name of their file. today: the day that it is made. about: texts for the
            first page.
        sheet: name of the file with all buildings; empty without one.
    """
    table, writer = answered.judged.table, _Writer(answered, city)
    pages = [
        writer.page(number, row)
        for number, row in enumerate(progress(rows, len(rows), "report"), 1)
    ]
    svg, n_drawn = drawings.city(
        table.geometry.to_numpy(), table["p_damaged"].to_numpy(float), rows
    )
    texts = {name: plain(", ".join(text.splitlines())) for name, text in about.model_dump().items()}
    return {
        "title": texts.pop("project") or plain(footprints),
        "about": [Fact(name.capitalize(), text) for name, text in texts.items() if text],
        "day": today.isoformat(),
        "program": f"Plumbline {__version__}",
        "model": ", ".join(sorted(set(table["model_version"]))),
        "rate": rate_sentence(answered.judged.rate),
        "counts": f"{format_counts(table)}; {_format_period(city)}",
        "intervals": INTERVALS,
        "footprints": f"{plain(footprints)} ({city.points[0].crs})",
        "tracks": [_track_row(track) for track in city.points],
        "colours": [*zip(PROBABILITY_NAMES, PROBABILITY_COLOURS, strict=True), ("not known", GREY)],
        "categories": [
            (f"{number} {name}", cracks)
            for number, (name, cracks) in enumerate(zip(CATEGORY_NAMES, CRACKS, strict=True))
        ],
        "references": list(REFERENCES),
        "words": list(WORDS),
        "notes": list_notes([page["in_list"] for page in pages]),
        "cut": _describe_cut(rows, list_order(answered), n_drawn, sheet),
        "unjudged": _count_unjudged(answered.judged),
        "map": svg,
        "pages": pages,
    }


def list_order(answered: JudgedCity) -> Index:
    """Return all rows, the most probably damaged first; behind them those without a probability."""
    table = answered.judged.table
    p_damaged, severity = (
        table[name].fillna(-1).to_numpy(float) for name in ("p_damaged", "severity_permille")
    )
    return np.lexsort((-severity, -p_damaged))


def _format_period(city: CityInMemory) -> str:
    first, last = (
        end(end(track.epochs) for track in city.points).astype("datetime64[D]")
        for end in (min, max)
    )
    return f"observed from {first} to {last}"


def _count_unjudged(judged: CityPredictions) -> list[str]:
    reasons = pd.Series(judged.reason[~has_answer(judged.table)]).value_counts()
    return [f"{name.replace('_', ' ')}: {count:,}" for name, count in reasons.items()]


def _describe_cut(rows: Sequence[int], order: Index, n_drawn: int, sheet: str) -> str:
    """Return sentences on how many of all buildings the list and the map have, and on the
    file with all."""
    first = "first " if list(rows) == order[: len(rows)].tolist() else ""
    listed = (
        f"The list has the {first}{len(rows):,} of {len(order):,} buildings, by probability "
        "of damage"
    )
    on_map = f"the map shows {n_drawn:,}, these with their numbers"
    return f"{listed}; {on_map}." + (
        f" All {len(order):,} are in the file {plain(sheet)}." if sheet else ""
    )


def _track_row(track: Track) -> list[str]:
    days = track.epochs.astype("datetime64[D]")
    return [
        plain(track.name),
        side_of(track),
        f"{len(track):,}",
        f"{len(days):,}",
        f"{days[0]} to {days[-1]}",
        f"{longest_gap(track)} days",
    ]


class _Writer:
    """Writes the page of one building after another."""

    def __init__(self, answered: JudgedCity, city: CityInMemory) -> None:
        self._judged, self._prepared, self._city = answered.judged, answered.prepared, city
        self._building_number = {int(row): i for i, row in enumerate(answered.prepared.footprint)}
        courses = answered.judged.courses
        self._course_of = (
            {} if courses is None else dict(tuple(courses.groupby("building_id", sort=False)))
        )

    def page(self, number: int, row: int) -> Page:
        """Write the page of a building. `number`: in the list. `row`: in the buildings table."""
        building = self._judged.table.iloc[row]
        explanation = plain(self._judged.explanation[row], MAX_EXPLANATION_LETTERS)
        shape = self._judged.table.geometry.iloc[row]
        frame = frames(np.array([shape], object))
        points, has_severity = self._select_points(row, frame), is_answered(building)
        attributes = _attributes(self._city.footprints.iloc[row])
        kinds = kinds_of(attributes)
        marked_quadrant = building.quadrant if shows_quadrant(building) else None
        has_quadrants = marked_quadrant is not None or building.reason == UNSURE_WHERE
        probability = np.array(
            [building[name] if has_quadrants else np.nan for name in PROBABILITIES], float
        )
        limit_mm = _colour_limit_mm(points)
        limits = limit_rows(building, kinds)
        is_possible = any(
            cell.value == "possibly" for row in limits if not row["note"] for cell in row["cells"]
        )
        title = f"Plan of building {plain(building.building_id)}"
        is_possible &= has_severity and building.burland_category == 0
        return {
            "number": number,
            "row": row,
            "name": plain(building.building_id),
            "judged": has_severity,
            "headline": headline_of(building),
            "colour": drawings.probability_colour(building.p_damaged),
            "category": _category_text(building),
            "in_list": list_cells(ListedBuilding(building, explanation)),
            "facts": facts_of(building) if has_severity else [],
            "why": reading_of_it(building, explanation),
            "plan": drawings.plan(
                shape,
                frame,
                points,
                probability=probability,
                marked_quadrant=marked_quadrant,
                limit_mm=limit_mm,
                title=title,
            ),
            "legend": LEGEND.format(LIKELY if has_quadrants else NAMED, limit_mm)
            if len(points.row)
            else "No usable point is on the building: no histories.",
            "histories": self._draw_histories(points, marked_quadrant),
            "histories_legend": HISTORIES.format(MARKED if marked_quadrant else ""),
            "course": self._draw_course(building),
            "whole": whole_facts(building, points, self._city.points),
            "limits": limits,
            "kind": " ".join([kind_sentence(kinds), *([POSSIBLY] if is_possible else [])]),
            "unseen": unseen_of(points, self._city.points, building),
            "attributes": "; ".join(f"{name}: {value}" for name, value in attributes.items()),
        }

    def _select_points(self, row: int, frame: Frames) -> drawings.BuildingPoints:
        """Return the points that the model was asked about; else those that are on the building."""
        number, prepared = self._building_number.get(row), self._prepared
        if number is not None:
            span = slice(*prepared.sequences.offsets[[number, number + 1]].tolist())
            distance, slope = prepared.sequences.distance[span], prepared.sequences.slope[span]
            xy = distance[:, [names(DISTANCE).index(name) for name in ("x", "y")]].astype(float)
            moved, error = (
                slope[:, names(SLOPE).index(f"differential_displacement{end}")].astype(float)
                for end in ("", "_se")
            )
            return drawings.BuildingPoints(
                prepared.track[span], prepared.point[span], xy, moved, error
            )
        rows = [self._rows_on_building(k, row) for k in range(len(self._city.points))]
        track = np.repeat(np.arange(len(rows)), [len(track_rows) for track_rows in rows])
        points = [
            np.column_stack([t.easting[track_rows], t.northing[track_rows]])
            for t, track_rows in zip(self._city.points, rows, strict=True)
        ]
        xy = frame.to_building(np.zeros(len(track), np.intp), np.concatenate(points))
        return drawings.BuildingPoints(
            track, np.concatenate(rows), xy, np.zeros(len(track)), np.full(len(track), np.inf)
        )

    def _rows_on_building(self, number: int, row: int) -> Index:
        rows = np.flatnonzero(self._prepared.owners[number] == row)
        return (
            rows[usable_rows(self._city.points[number].take(rows), np.full(len(rows), row))]
            if len(rows)
            else rows
        )

    def _draw_histories(
        self, points: drawings.BuildingPoints, marked_quadrant: str | None
    ) -> list[str]:
        """Draw the track with most points from each side."""
        n_points = np.bincount(points.track, minlength=len(self._city.points))
        best_tracks = {
            side_of(self._city.points[number]): int(number)
            for number in np.argsort(n_points, kind="stable")
        }
        shown = []
        for side, number in sorted(best_tracks.items()):
            in_track, track = points.track == number, self._city.points[number]
            if in_track.any():
                is_marked = quadrant_code(*points.xy[in_track].T) == (
                    QUADRANTS.index(marked_quadrant) if marked_quadrant else -1
                )
                title = (
                    f"{in_track.sum()} point{'s' if in_track.sum() > 1 else ''} seen from "
                    f"the {side}, mm"
                )
                shown.append(
                    drawings.History(
                        title, track.epochs, track.displacement[points.row[in_track]], is_marked
                    )
                )
        return drawings.histories(shown)

    def _draw_course(self, building: Any) -> str:
        course = self._course_of.get(building.building_id)
        if course is None or not is_answered(building):
            return ""
        columns = ("date", "severity_low", "severity_permille", "severity_high")
        days, low, value, high = (course[name].tolist() for name in columns)
        title = "Strain over time, permille, with its interval"
        chart = course_chart(title, days, low=low, value=value, high=high, width=drawings.CHART_PX)
        return drawings.document(chart, 13)


def _category_text(building: Any) -> str:
    """Return the category, which is printed beside the headline."""
    if not is_answered(building):
        return "" if np.isnan(building.p_damaged) else "Not judged"
    category = int(building.burland_category)
    return f"Category {category}, {CATEGORY_NAMES[category]}"


def _colour_limit_mm(points: drawings.BuildingPoints) -> float:
    """Return the displacement with the strongest colour, mm."""
    moved_mm = np.abs(points.moved[np.isfinite(points.error)])
    return (
        float(max(MIN_LIMIT_MM, np.ceil(np.quantile(moved_mm, 0.98))))
        if len(moved_mm)
        else MIN_LIMIT_MM
    )


def _attributes(footprint: Any) -> dict[str, str]:
    """Return the first attributes of a footprint that are texts or numbers."""
    texts = {
        plain(name, 40): plain(value, 60)
        for name, value in footprint.items()
        if name not in ("building_id", "geometry")
        and not pd.api.types.is_list_like(value)
        and pd.notna(value)
    }
    return dict([(name, value) for name, value in texts.items() if value][:MAX_ATTRIBUTES])
