"""Write the page of known buildings from what was computed: its prose is in `page.md`, its figures come from here."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, StrictUndefined

from plumbline.cases.city import NEIGHBOURS_DAMAGED, YEARS
from plumbline.cases.judge import BANDS, DRAWS_A_HISTORY, FLAGGED, Case, Judged, Seen
from plumbline.cases.rows import History, Row, read_rows
from plumbline.cases.surfaces import HEIGHT_M, LENGTH_M, WIDTH_M, why_none
from plumbline.core.files import atomic_file
from plumbline.core.strain import category

TEMPLATE = Path(__file__).with_name("page.md")
QUIET = 0.95
"""Least share of the draws of a sure negative in which no damage is said."""
NEAR, ENOUGH = 1, 4
"""Of the buildings with profile and observed damage, so many at most so many categories from what was seen."""


def write_page(judged: Judged, output: Path, day: datetime.date) -> None:
    """Write the page as Markdown, atomically."""
    environment = Environment(keep_trailing_newline=True, undefined=StrictUndefined, autoescape=False)  # noqa: S701
    page = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    with atomic_file(output) as path:
        path.write_text(page.render(content(judged, day)), encoding="utf-8")


def content(judged: Judged, day: datetime.date) -> dict[str, Any]:
    """Return what the template names."""
    strained = [case for case in judged.cases if not case.row.is_negative]
    above = [case.row.away(case.category) for case in strained]
    return {
        "day": day.isoformat(),
        "model": judged.model[:12],
        "draws": judged.draws,
        "few": max(1, judged.draws // DRAWS_A_HISTORY),
        "bars": list(bars(judged)),
        "higher": f"{np.mean(above):+.1f}",
        "shown": [_case(case) for case in judged.cases],
        "strained": [_case(case) for case in strained],
        "negatives": [_case(case) for case in judged.cases if case.row.is_negative],
        "leaning": [_leaning(judged, name) for name in judged.upright],
        "histories": [
            _history(one.history) | {"severity": f"{one.severity:.2f}"} | _seen(one.seen) for one in judged.histories
        ],
        "alarms": list(_alarms(judged)),
        "unused": [_unused(row) for row in judged.unused],
        "years": YEARS,
        "length": LENGTH_M,
        "width": WIDTH_M,
        "height": HEIGHT_M,
        "buildings": {band: f"{city.buildings:,}" for band, city in judged.cities.items()},
        "epochs": {band: " and ".join(map(str, city.epochs)) for band, city in judged.cities.items()},
        "damaged": _percent(NEIGHBOURS_DAMAGED),
        "rate": {band: city.rate.split(". Give")[0] for band, city in judged.cities.items()},
        "tilted": _percent(
            float(np.mean([case.seen["X"].said for case in judged.cases if "tilt" in case.row.usable_as]))
        ),
        "sources": sorted({row.source for row in read_rows()}),
    }


def bars(judged: Judged) -> Iterator[dict[str, Any]]:
    """Yield what was asked of the scale and of X band, and what was found."""
    required = [row for row in read_rows() if row.is_required]
    shown = {case.row.name for case in judged.cases}
    count = sum(row.name in shown for row in required)
    yield {
        "asked": "rows with a profile, and negatives, on this page",
        "wanted": f"{len(required)} of {len(required)}",
        "found": f"{count} of {len(required)}",
        "met": count == len(required),
    }
    cases = [case for case in judged.cases if case.row.usable_as.startswith("profile")]
    away = [_away(case) for case in cases]
    near = sum(abs(one) <= NEAR for one in away)
    far = [
        f"{_short(case.row.name)} {one:+g}" if math.isfinite(one) else f"{_short(case.row.name)} not judged"
        for case, one in zip(cases, away, strict=True)
        if not abs(one) <= NEAR
    ]
    yield {
        "asked": "X band at most one category from what was seen",
        "wanted": f"{ENOUGH} of {len(cases)}",
        "found": f"{near} of {len(cases)}" + (f" (others: {'; '.join(far)})" if far else ""),
        "met": near >= ENOUGH,
    }
    sure = [case for case in judged.cases if case.is_sure_negative]
    for band, name in zip(BANDS, ("X band", "Sentinel-1"), strict=True):
        quiet = [1 - case.seen[band].said for case in sure]
        least = sure[int(np.argmin(quiet))]
        yield {
            "asked": f"{name} says no damage of the {len(sure)} sure negatives",
            "wanted": f"{_percent(QUIET)} of the draws",
            "found": f"{100 * np.mean(quiet):.1f} %; least {_percent(min(quiet))} ({_short(least.row.name)})",
            "met": np.mean(quiet) >= QUIET,
        }


def _away(case: Case) -> float:
    """Return the categories from what was seen, by X band; NaN where most draws have no answer."""
    seen = case.seen["X"]
    return case.row.away(seen.category) if seen.judged + seen.unsure >= 0.5 else math.nan


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _figure(value: float, digits: int) -> str:
    return f"{value:.{digits}f}" if math.isfinite(value) else "–"


def _short(name: str) -> str:
    return (
        name.replace("House at ", "")
        .replace(" (NL)", "")
        .replace("Naples Line 6, ", "Naples, ")
        .replace(" cottages", "")
    )


def _seen(seen: dict[Any, Seen]) -> dict[str, dict[str, str]]:
    found = {}
    for band, one in seen.items():
        why = f" ({one.why_not})" if one.why_not and one.judged + one.unsure < 0.5 else ""
        where = f", {one.quadrant} {_percent(one.quadrant_share)}" if one.quadrant and one.category > 0 else ""
        found[band] = {
            "rate": f"{_percent(one.judged)}{why}, {_percent(one.unsure)}",
            "said": f"{_figure(one.p_damaged, 2)}, {_figure(one.category, 0)}{where}",
            "brief": f"{_percent(one.judged)}{why}, {_figure(one.p_damaged, 2)}, {_percent(one.said)}",
            "apart": _figure(one.apart_errors, 1),
            "faster": _figure(one.accelerating, 2),
        }
    return found


def _observed(row: Row) -> str:
    if row.observed_least is None or row.observed_most is None:
        return row.observed_damage or "not surveyed"
    least, most = int(row.observed_least), int(row.observed_most)
    return (f"{least}" if least == most else f"{least} to {most}") + (
        f", {row.observed_quadrant}" if row.observed_quadrant else ""
    )


def _case(case: Case) -> dict[str, Any]:
    how, assumed = ("levels of the wall", "") if case.surface is None else (case.surface.how, case.surface.assumed)
    return {
        "name": _short(case.row.name),
        "observed": _observed(case.row),
        "category": case.category,
        "severity": f"{case.severity:.2f}",
        "most": f"{case.most:.2f}",
        "how": how,
        "assumed": assumed,
        **_seen(case.seen),
    }


def _leaning(judged: Judged, name: str) -> dict[str, Any]:
    case, upright = next(case for case in judged.cases if case.row.name == name), judged.upright[name]["X"]
    lean = 0.0 if case.surface is None else float(np.hypot(*case.surface.tilt()))
    own = case.seen["X"]
    return {
        "name": _short(name),
        "lean": f"{lean:.0f}",
        "judged": _percent(own.judged),
        "reason": own.why_not,
        "p": _figure(own.p_damaged, 2),
        "category": _figure(own.category, 0),
        "p_upright": _figure(upright.p_damaged, 2),
        "category_upright": _figure(upright.category, 0),
        "quadrant": upright.quadrant,
        "share": _percent(upright.quadrant_share),
        "hides": own.said < FLAGGED <= upright.said,
        "observed": case.row.observed_quadrant,
        "defined": case.quadrants,
    }


def _history(one: History) -> dict[str, str]:
    return {
        "name": _short(one.case.split(",")[0]),
        "situation": one.situation,
        "width": "" if one.trough_m is None else f"{one.trough_m:g}",
    }


def _alarms(judged: Judged) -> Iterator[dict[str, str]]:
    """Yield, for histories that speed up, at which of their situations half of the draws are flagged."""
    told = [one for one in judged.histories if one.history.fast_years is not None]
    for case, width in dict.fromkeys((one.history.case, one.history.trough_m) for one in told):
        own = [one for one in told if (one.history.case, one.history.trough_m) == (case, width)]
        flagged = {
            band: next(
                (one.history.situation for one in own if one.seen[band].said >= FLAGGED), "at none of these times"
            )
            for band in BANDS
        }
        yield _history(own[0].history) | flagged


def _unused(row: Row) -> dict[str, str]:
    strain = row.horizontal_strain_permille
    definition = "" if strain is None else f"{int(category(max(strain, 0)))} ({max(strain, 0):g})"
    return {
        "name": _short(row.name),
        "why": why_none(row),
        "definition": definition,
        "observed": _observed(row),
    }
