"""Write the texts on one building: judgement, settlement and tilt, limits, and what the
points cannot show.

Texts of a user's files are cleaned of what no document may hold, and shortened; the
templates escape them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from plumbline.core.compass import QUADRANTS, quadrant_code
from plumbline.core.strain import CATEGORY_BOUNDS_PERMILLE
from plumbline.export.interface import CATEGORIES, PROBABILITIES
from plumbline.prepare.abstention import UNSURE_WHERE
from plumbline.serve.base_rate import DamageRate, format_percent
from plumbline.serve.columns import format_permille, format_share
from plumbline.serve.map.over_time import when_text
from plumbline.serve.place.surroundings import MIN_SCATTERERS
from plumbline.serve.report.drawings import BuildingPoints
from plumbline.serve.report.limits import NINETY_PERCENT, Fact
from plumbline.serve.rules import is_answered, is_line_of_sight, shows_quadrant
from plumbline.sources.points.track import Track

MOVES_ALONE = 5.0
"""Standard errors from which a building clearly moves otherwise than its neighbours."""
MAX_TILT_ERROR_MM_M = 1.5
"""Largest standard error of a tilt that is reported."""
LONGEST_TEXT = 120
"""Most letters of a user's text."""
_UNPRINTABLE = re.compile(
    "[^\t\n\x20-\x7e\xa0-\u2029\u202f-\u2065\u206a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
)
WINDS = ("north", "north-east", "east", "south-east", "south", "south-west", "west", "north-west")


PLACE_NOT_SURE = (
    "Where it is damaged is not sure: the chance that the likeliest quarter of the plan is wrong "
    "is too large to name "
    "one. Inspect all of it."
)
INTERVALS = "All intervals and ± are 90 % ones: they hold the true value in about 9 of 10 cases."
"""Sentence on the first page, which is not repeated on others."""
WORDS = (
    (
        "Damaged",
        "probability that the largest tensile strain is 0.5 permille or more. Decide by it.",
    ),
    (
        "Severity",
        "estimate of the largest tensile strain, with its interval. Settlement and tilt as a "
        "whole are left out.",
    ),
    ("Category", "category of the severity, by strain; what is seen is often one lower."),
    (
        "Quadrants",
        "quarters of the building's own plan that hold 80 % of the probability. NE faces north "
        "and east most. "
        "Not sure: the chance of a wrong one is too large. Empty: not judged, or sound is more "
        "probable than damaged.",
    ),
    (
        "Since",
        "when the damaging movement began. Or before: nobody looked earlier. Empty: not known. "
        "A building bends, then cracks.",
    ),
    (
        "Against neighbours",
        "settlement less the median of the other buildings around; negative: it sinks more.",
    ),
    (
        "Limits",
        "exceeded: all of the interval is above. Probably: the value itself is. Possibly: its "
        "upper end alone is. "
        "A limit for another kind of building has no colour.",
    ),
    ("Not judged", "does not mean sound."),
)
"""Terms of a report, each with its explanation."""


def plain(text: object, longest: int = LONGEST_TEXT) -> str:
    """Return a text of a user without control characters and line breaks, shortened."""
    cleaned = " ".join(_UNPRINTABLE.sub("\ufffd", str(text)).split())
    return cleaned if len(cleaned) <= longest else f"{cleaned[: longest - 1]}…"


def signed(value: float) -> str:
    """Return a figure with its sign and one decimal; empty if it is not known."""
    # No negative zero.
    return "" if math.isnan(value) else f"{round(value, 1) + 0.0:+.1f}".replace("-", "−")


def side_of(track: Track) -> str:
    """Return from where a track looks at the ground: `east` or `west`."""
    return "east" if np.median(track.los[:, 0]) > 0 else "west"


def longest_gap(track: Track) -> int:
    """Return the longest time without an image, days."""
    return int(np.diff(track.epochs.astype("datetime64[D]").astype(int)).max(initial=0))


def rate_sentence(rate: DamageRate) -> str:
    """Return the sentences on the share of damaged buildings that is assumed, and on its limits."""
    share, low, high = (f"{format_percent(r)} %" for r in (rate.rate, rate.low, rate.high))
    if not rate.estimated:
        sentence = f"{share} of the buildings are taken to be damaged, as given for this report"
    elif rate.least is not None:
        sentence = (
            f"{format_percent(rate.least)} % or more of the judged buildings look damaged, which "
            "noise can cause as "
            f"well: {share} are taken to be damaged. Read the order of the list, not the number "
            "of damaged buildings"
        )
    elif rate.is_vague:
        sentence = (
            f"{share} of the buildings are taken to be damaged, but the points fit any share "
            f"from {low} to {high}. Read the order of the list, not the number of damaged buildings"
        )
    else:
        sentence = f"About {share} of the judged buildings are damaged ({low} to {high})"
    places = ". Where damage gathers, buildings have shares of their own" if rate.local else ""
    return (
        f"{sentence}{places}. Severities and probabilities start from that share: their mean "
        "may be another."
    )


def headline_of(building: Any) -> str:
    """Return the heading of a building's page: its probability of damage, if there is one."""
    if math.isnan(building.p_damaged):
        return "Not judged"
    return f"Probability of damage: {format_share(building.p_damaged)}"


def severity_text(building: Any, unit: str = "") -> str:
    """Return the severity with its interval, as `1.23 permille (0.40 to 2.10)`."""
    value, low, high = map(
        format_permille, (building.severity_permille, building.severity_low, building.severity_high)
    )
    return f"{value}{unit} ({low} to {high})"


def facts_of(building: Any) -> list[Fact]:
    """Return the model's estimates for a building that has an answer, with the meaning of each."""
    categories = ", ".join(
        f"{i}: {format_share(building[name])}" for i, name in enumerate(CATEGORIES)
    )
    facts = [
        Fact(
            "Severity",
            severity_text(building, " permille"),
            "Largest tensile strain in the structure: the median, and its interval.",
        ),
        Fact(
            "Categories",
            categories,
            "Probability of each, by strain. The heading has that of the severity. What is seen "
            "is often one lower.",
        ),
    ]
    if building.reason == UNSURE_WHERE:
        quadrants = zip(QUADRANTS, PROBABILITIES, strict=True)
        likely = ", ".join(
            f"{quadrant} {format_share(building[name])}" for quadrant, name in quadrants
        )
        facts.append(
            Fact("Where", f"not sure: {likely}", "Probability of each quarter of the plan.")
        )
    elif shows_quadrant(building):
        confidence = format_share(building.quadrant_confidence)
        means = (
            f"Quarters of the plan that hold 80 % of the probability. {building.quadrant} is "
            "strained most, or nearly "
            f"so, with {confidence}."
        )
        facts.append(
            Fact(
                "Where",
                f"{building.quadrants.replace('|', ' or ')} (likeliest {building.quadrant})",
                means,
            )
        )
    if isinstance(building.mechanism, str):
        facts.append(Fact("Fails like", building.mechanism, "The kind of movement that fits best."))
    if when := when_text(building):
        has_date = isinstance(building.begins, str)
        sentences = ["If it is damaged: start of the movement, not of a crack."] if has_date else []
        if not math.isnan(building.severity_rate):
            sentences.append("Growth: the part of the severity that came in the last year.")
        facts.append(Fact("When" if has_date else "Growth", when, " ".join(sentences)))
    return facts


def _count_of_hundred(share: float) -> str:
    return (
        "fewer than 1"
        if share < 0.01
        else "more than 99"
        if share > 0.99
        else f"about {100 * share:.0f}"
    )


def reading_of_it(building: Any, explanation: str) -> list[str]:
    """Return how to read the judgement; of a building without a severity or a place, the reason.

    Args:
        building: row of the predictions. explanation: why it is not judged, in words.
    """
    if is_answered(building):
        frequency = (
            f"Of 100 buildings with this probability, {_count_of_hundred(building.p_damaged)} "
            "should have a strain of "
            "0.5 permille or more."
        )
        return [
            frequency,
            _explain_fit(building),
            *([PLACE_NOT_SURE] if building.reason == UNSURE_WHERE else []),
        ]
    sentences = [f"Why it is not judged: {explanation}."]
    if math.isnan(building.strain_resolution_permille):
        sentences.append("With these points no strain can be estimated.")
    if math.isnan(building.p_damaged):
        damaged = "in simulated cities such buildings are damaged about as often as all others"
        return [*sentences, f"Not judged does not mean sound: {damaged}."]
    return [*sentences, "Its probability of damage is less reliable than that of judged buildings."]


def _explain_fit(building: Any) -> str:
    """Return a sentence on how severity and category fit the probability of damage."""
    bound = CATEGORY_BOUNDS_PERMILLE[0]
    if building.severity_low >= bound:
        return "The entire interval of the severity lies in category 1 or above."
    if building.burland_category > 0:
        return (
            "The points also fit a sound building: decide by the probability, not by the category."
        )
    caveat = ", and damage is not ruled out" if building.severity_high >= bound else ""
    return f"The building is more probably sound{caveat}."


def whole_facts(building: Any, points: BuildingPoints, tracks: Sequence[Track]) -> list[Fact]:
    """Return settlement and tilt of the whole building, and its settlement against the
    neighbours."""
    if math.isnan(building.settlement_mm) and building.n_points >= MIN_SCATTERERS:
        return [
            Fact(
                "Settlement",
                "not known",
                "Few points from each side, and both sides contradict each other.",
            ),
            Fact("Against neighbours", "not known", "Its own settlement is not known."),
            _tilt_fact(building),
        ]
    if math.isnan(building.settlement_mm):
        return [
            Fact("Settlement, tilt", "not known", "Three points at least are needed."),
            Fact("Against neighbours", "not known", "Its own settlement is not known."),
        ]
    is_slant = is_line_of_sight(building)
    return [
        _settlement_fact(building, is_slant),
        _neighbours_fact(building, is_slant),
        _tilt_fact(building),
    ]


def _settlement_fact(building: Any, is_slant: bool) -> Fact:
    error = NINETY_PERCENT * building.settlement_std_mm
    moved = (
        f"{signed(building.settlement_mm)} ± {error:.1f} mm, "
        f"{signed(building.settlement_rate_mm_year)} mm a year"
    )
    if is_slant:
        means = (
            "Not a settlement: movement over the record along the line of sight of one track; "
            "negative: away from the "
            "satellite. Sinking cannot be told from a sideways move."
        )
        return Fact("Along the line of sight", moved, means)
    return Fact(
        "Settlement",
        moved,
        "Vertical movement of the whole building over the record; negative: down.",
    )


def _neighbours_fact(building: Any, is_slant: bool) -> Fact:
    difference_mm, error_mm = building.against_neighbours_mm, building.against_neighbours_std_mm
    if math.isnan(difference_mm):
        return Fact("Against neighbours", "not known", "Fewer than 3 neighbours can be compared.")
    # The median is of the rounded figures, so that the three agree to the last digit.
    median = round(building.settlement_mm, 1) - round(difference_mm, 1)
    moved = (
        f"The neighbours' median moved {signed(median)} "
        f"mm{' along the same line of sight' if is_slant else ''}."
    )
    if abs(difference_mm) <= NINETY_PERCENT * error_mm:
        verdict = "No clear difference."
    else:
        verdict = (
            "It differs from them."
            if abs(difference_mm) <= MOVES_ALONE * error_mm
            else "It differs clearly from them."
        )
    return Fact(
        "Against neighbours",
        f"{signed(difference_mm)} ± {NINETY_PERCENT * error_mm:.1f} mm",
        f"{moved} {verdict}",
    )


def _tilt_fact(building: Any) -> Fact:
    if math.isnan(building.tilt_mm_m):
        return Fact(
            "Tilt",
            "not known",
            f"Its ± is above {NINETY_PERCENT * MAX_TILT_ERROR_MM_M:.1f} mm/m in some direction.",
        )
    size = f"{building.tilt_mm_m:.1f} ± {NINETY_PERCENT * building.tilt_std_mm_m:.1f} mm/m"
    if math.isnan(building.tilt_towards):
        return Fact("Tilt", f"{size}, direction not clear", "Of the whole building.")
    wind = WINDS[round(building.tilt_towards / 45) % 8]
    return Fact(
        "Tilt",
        f"{size}, towards {wind} ({building.tilt_towards:.0f}°)",
        "Of the whole building, towards the side that sinks.",
    )


def unseen_of(points: BuildingPoints, tracks: Sequence[Track], building: Any) -> list[str]:
    """Return sentences on what the points cannot show of a building, a row of the predictions."""
    sentences = [
        "North-south: the satellites look from east and west, and hardly see a movement to the "
        "north or south."
    ]
    counts = np.bincount(points.track, minlength=len(tracks))
    sides = {side_of(tracks[number]) for number in np.unique(points.track).tolist()}
    if len(sides) == 1:
        sentences.append(
            f"Seen from the {sides.pop()} only: a movement to the east or west cannot be told "
            "from sinking or rising."
        )
    used_tracks = [track for track, count in zip(tracks, counts, strict=True) if count] or tracks
    first, last = min(t.epochs[0] for t in used_tracks), max(t.epochs[-1] for t in used_tracks)
    sentences.append(
        f"Days: nothing before {first.astype('datetime64[D]')} or after "
        f"{last.astype('datetime64[D]')}; up to "
        f"{max(map(longest_gap, used_tracks))} days between two images."
    )
    by_quadrant = np.bincount(quadrant_code(*points.xy.T), minlength=4)
    empty = [name for name, count in zip(QUADRANTS, by_quadrant, strict=True) if not count]
    total_text = f"{len(points.track)} point{'' if len(points.track) == 1 else 's'}"
    counts_text = ", ".join(
        f"{name} {count}" for name, count in zip(QUADRANTS, by_quadrant, strict=True)
    )
    where = f" None lies in {', '.join(empty)}." if empty and len(points.track) else ""
    sentences.append(
        f"Points: {total_text} ({counts_text}), on roof and walls, placed to some metres.{where}"
    )
    return [*sentences, *_resolution_sentence(building)]


def _resolution_sentence(building: Any) -> list[str]:
    """Return a sentence on the smallest strain that the points show, and on a severity below it."""
    resolution = building.strain_resolution_permille
    if math.isnan(resolution):
        return []
    if is_answered(building) and building.severity_permille < resolution:
        return [
            f"Small strain: the severity is below {resolution:.2g} permille, from which these "
            "points show a strain in "
            "9 of 10 cases at best, so it also rests on the buildings that the model was trained "
            "on."
        ]
    return [
        f"Small strain: these points show {resolution:.2g} permille in 9 of 10 cases at best, "
        "less more rarely."
    ]
