"""Judge published buildings twice: by the definition of severity, and as radar of both bands would see them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import geopandas
import numpy as np
from numpy.typing import NDArray

from plumbline.cases.city import YEARS, Band, Course, Subject, build_city
from plumbline.cases.rows import History, Row, house_of, read_histories, read_rows
from plumbline.cases.surfaces import Surface, history_surface, label, surface_of, wall_severity
from plumbline.core.compass import QUADRANTS, join_quadrants
from plumbline.core.console import log, track
from plumbline.core.strain import category
from plumbline.serve.judgement import OpenModel, answer, open_model
from plumbline.serve.options import Options

SEED = 2012
BANDS: tuple[Band, ...] = ("X", "C")
FLAGGED = 0.5
"""Least `p_damaged` of a flag."""
DRAWS_A_HISTORY = 5
"""Histories get one of so many draws."""


class Seen(NamedTuple):
    """How radar of one band sees a building, over its draws. Medians are over draws that are not too poor to answer."""

    draws: int
    judged: float
    """Share with status `ok`; `unsure`: with the reason `unsure_where`; `said`: flagged, or unsure where."""
    unsure: float
    said: float
    why_not: str
    """Most common reason of the others; empty without any."""
    p_damaged: float
    category: float
    severity: float
    quadrant: str
    """Most common one; `quadrant_share`: share of the draws that it has."""
    quadrant_share: float
    accelerating: float
    apart_mm: float
    """Median of `against_neighbours_mm`, and how many of its standard errors that is."""
    apart_errors: float


class Case(NamedTuple):
    """A building with both judgements."""

    row: Row
    surface: Surface | None
    """None for a wall: it is judged with its house."""
    severity: float
    """By the definition, permille."""
    most: float
    """At most, where only an upper bound is published."""
    quadrants: str
    """Accepted ones by the definition."""
    seen: dict[Band, Seen]

    @property
    def category(self) -> int:
        """By the definition."""
        return int(category(self.severity))

    @property
    def is_sure_negative(self) -> bool:
        """Whether nothing should be found, whatever the unpublished part of the shape."""
        return self.row.is_negative and int(category(self.most)) == 0


class Followed(NamedTuple):
    """A history with both judgements."""

    history: History
    severity: float
    """By the definition, over the record of X band, permille."""
    seen: dict[Band, Seen]


class City(NamedTuple):
    """What radar of one band sees."""

    seen: list[Seen]
    """Of each subject."""
    rate: str
    """What is said of the share of damaged buildings."""
    buildings: int
    epochs: tuple[int, ...]
    """Of each track."""


class Judged(NamedTuple):
    """All that the page says."""

    model: str
    """Version of the package."""
    draws: int
    cases: list[Case]
    upright: dict[str, dict[Band, Seen]]
    """Houses with levels, as if they did not lean."""
    histories: list[Followed]
    unused: list[Row]
    """Rows without a surface; some have a horizontal strain."""
    cities: dict[Band, City]


def judge_cases(package: Path, draws: int, seed: int = SEED) -> Judged:
    """Judge all rows and histories.

    Args:
        package: model package folder.
        draws: copies of each building, with scatterers and noise of their own.
        seed: of all draws.

    Raises:
        InputError: as `open_package`.
    """
    model, rows = open_model(package), read_rows()
    surfaces = {row.name: surface for row in rows if (surface := surface_of(row)) is not None}
    upright = {row.name: surfaces[row.name].upright() for row in rows if house_of(row) == row.name}
    courses = [Course("passage" if "tunnel" in row.cause else "linear") for row in rows if row.name in surfaces]
    fixed = [Subject(surface, draws, course) for surface, course in zip(surfaces.values(), courses, strict=True)]
    fixed += [Subject(surface, draws) for surface in upright.values()]
    found = {
        band: _judge(band, [*fixed, *_moving(band, draws)], model, seed) for band in track(BANDS, len(BANDS), "cases")
    }
    each = iter([{band: found[band].seen[number] for band in BANDS} for number in range(len(found["X"].seen))])
    seen = {name: next(each) for name in surfaces}
    cases = list(_cases(rows, surfaces, seen))
    used = {case.row.name for case in cases}
    return Judged(
        model.about.version,
        draws,
        cases,
        {name: next(each) for name in upright},
        list(_followed(each)),
        [row for row in rows if row.name not in used],
        found,
    )


def _moving(band: Band, draws: int) -> list[Subject]:
    years, few = YEARS[band], max(1, draws // DRAWS_A_HISTORY)
    return [Subject(history_surface(one, years), few, course_of(one, years), one.seen) for one in read_histories()]


def _followed(each: Iterator[dict[Band, Seen]]) -> Iterator[Followed]:
    severity = label([history_surface(one, YEARS["X"]) for one in read_histories()]).severity_permille
    for one, strain, seen in zip(read_histories(), severity, each, strict=True):
        yield Followed(one, float(strain), seen)


def _cases(
    rows: Sequence[Row], surfaces: Mapping[str, Surface], seen: Mapping[str, dict[Band, Seen]]
) -> Iterator[Case]:
    """Yield the rows with a surface, and the walls with levels of houses that have one."""
    named = label(list(surfaces.values()))
    number = {name: number for number, name in enumerate(surfaces)}
    for row in rows:
        if row.name in surfaces:
            severity = float(named.severity_permille[number[row.name]])
            bound = row.rotation_permille or row.angular_distortion_permille
            most = severity if bound is None else bound / 2
            where = join_quadrants(named.accepted[number[row.name]])
            yield Case(row, surfaces[row.name], severity, most, where, seen[row.name])
        elif row.is_required and (house := house_of(row)) is not None:
            severity = wall_severity(row, house)
            yield Case(row, None, severity, severity, "", seen[house])


def course_of(history: History, years: float) -> Course:
    """Return the course of a history over a record of `years` that ends with it."""
    if history.at_once_mm:
        return Course("at once")
    fast = min(history.fast_years or 0.0, years)
    if not fast or fast == years:
        return Course()
    before = (history.slow_mm_year or 0) * (years - fast)
    return Course("faster", 1 - fast / years, before / history.settlement(years))


def _judge(band: Band, subjects: Sequence[Subject], model: OpenModel, seed: int) -> City:
    built = build_city(band, subjects, seed)
    log.info("%s band: %d buildings, %d points", band, len(built.subject), sum(map(len, built.city.points)))
    # Those that are unsure where are found below: so their other answers are known, too.
    judged = answer(built.city, model, Options(min_quadrant_confidence=0.0)).judged
    sure = model.prepare.min_quadrant_confidence
    own = [built.subject == number for number in range(len(subjects))]
    seen = [_summary(judged.table[rows], judged.reason[rows], sure) for rows in own]
    return City(seen, str(judged.rate), len(built.subject), built.epochs)


def _summary(table: geopandas.GeoDataFrame, reason: NDArray[np.object_], sure: float) -> Seen:
    """Summarise the rows of a building's draws; `sure`: least confidence of a quadrant that is judged."""
    answered = reason == "ok"
    p = table["p_damaged"].to_numpy(float)
    unsure = answered & (p * (1 - table["quadrant_confidence"].to_numpy(float)) > 1 - sure)
    poor = reason[~answered].tolist()
    quadrant = table["quadrant"].to_numpy(object)[answered].tolist()
    common = max(QUADRANTS, key=quadrant.count) if quadrant else ""
    apart = table["against_neighbours_mm"].to_numpy(float)
    errors = np.abs(apart) / table["against_neighbours_std_mm"].to_numpy(float)
    return Seen(
        len(table),
        float((answered & ~unsure).mean()),
        float(unsure.mean()),
        float((unsure | (answered & (p >= FLAGGED))).mean()),
        max(sorted(set(poor)), key=poor.count) if poor else "",
        _median(p[answered]),
        _median(table["burland_category"].to_numpy(float, na_value=np.nan)[answered]),
        _median(table["severity_permille"].to_numpy(float)[answered]),
        common,
        quadrant.count(common) / len(table) if quadrant else 0.0,
        _median(table["p_accelerating"].to_numpy(float)[answered]),
        _median(apart),
        _median(errors),
    )


def _median(values: NDArray[np.float64]) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else float("nan")
