"""Say in words what is known of one building: judgement, settlement and tilt, limits, and what was not seen.

Texts of a user's files are cleaned of what no document may hold, and shortened; the templates escape them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from plumbline.core.compass import QUADRANTS, quadrant_code
from plumbline.serve.map.over_time import when_text
from plumbline.serve.place.surroundings import LINE_OF_SIGHT, MIN_SCATTERERS
from plumbline.serve.predictions import CATEGORIES
from plumbline.serve.report.drawings import Seen
from plumbline.serve.report.limits import NINETY, Fact
from plumbline.sources.points.track import Track

MOVES_ALONE = 5.0
"""Standard errors from which a building moves otherwise than its neighbours."""
LONGEST_TEXT, LONGEST_IN_LIST = 120, 60
_UNPRINTABLE = re.compile("[^\t\n\x20-\x7e\xa0-\u2029\u202f-\u2065\u206a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
WINDS = ("north", "north-east", "east", "south-east", "south", "south-west", "west", "north-west")


WORDS = (
    ("Damaged", "probability that the largest tensile strain is 0.5 permille or more. Decide by it."),
    (
        "Severity",
        "most probable largest tensile strain, with its 90 % interval. Settlement and tilt as a whole are left out.",
    ),
    ("Category", "category by strain; what is seen is often one lower."),
    (
        "Quadrants",
        "quarters of the building's own plan that hold 80 % of the probability. NE faces north and east most.",
    ),
    (
        "Since",
        "when the damaging movement began; first month of the record: then or earlier. A building bends, then cracks.",
    ),
    ("Against neighbours", "settlement less the median of the other buildings around; negative: it sinks more."),
    (
        "Limits",
        "exceeded: all of the 90 % interval is above. Probably: the most probable value is. Possibly: its end is.",
    ),
    ("Not judged", "does not mean sound."),
    ("More", "in the documentation of Plumbline, docs/answers.md and docs/report.md."),
)
"""How to read a report."""
MISSING = (
    "No figure against neighbours: the points do not tell the building's own settlement, or fewer than 3 buildings "
    "around it can be compared."
)


def plain(text: object, longest: int = LONGEST_TEXT) -> str:
    """Return a text of a user without control characters and line breaks, shortened."""
    found = " ".join(_UNPRINTABLE.sub("\ufffd", str(text)).split())
    return found if len(found) <= longest else f"{found[: longest - 1]}…"


def percent(share: float) -> str:
    """Return a probability in percent; never 0 or 100."""
    return "< 1 %" if share < 0.01 else "> 99 %" if share > 0.99 else f"{100 * share:.0f} %"


def signed(value: float) -> str:
    """Return a figure with its sign and one decimal; empty if it is not known."""
    return "" if math.isnan(value) else f"{value:+.1f}".replace("-", "−")


def side_of(track: Track) -> str:
    """Return from where a track looks at the ground: `east` or `west`."""
    return "east" if np.median(track.los[:, 0]) > 0 else "west"


def longest_gap(track: Track) -> int:
    """Return the longest time without an image, days."""
    return int(np.diff(track.epochs.astype("datetime64[D]").astype(int)).max(initial=0))


def list_cells(one: Any) -> list[str]:
    """Return the row of a building, a row of the predictions, in the list."""
    name, against = plain(one.building_id, LONGEST_IN_LIST), signed(one.against_neighbours_mm)
    if one.status != "ok":
        return [name, "", "not judged", "", "", "", against]
    return [
        name,
        percent(one.p_damaged),
        f"{one.severity_permille:.2f} ({one.severity_low:.2f} to {one.severity_high:.2f})",
        str(int(one.burland_category)),
        one.quadrants.replace("|", ", ") if one.p_damaged >= 0.5 else "",
        one.begins[:7] if isinstance(one.begins, str) else "",
        against,
    ]


def facts_of(one: Any) -> list[Fact]:
    """Say what the model found, and what each figure means."""
    categories = ", ".join(f"{i}: {percent(one[name])}" for i, name in enumerate(CATEGORIES))
    found = [
        Fact(
            "Severity",
            f"{one.severity_permille:.2f} permille ({one.severity_low:.2f} to {one.severity_high:.2f})",
            "Largest tensile strain in the structure, with its 90 % interval.",
        ),
        Fact("Category", categories, "Category by strain; what is seen is often one lower (docs/answers.md)."),
    ]
    if one.p_damaged >= 0.5:
        right = f"likeliest {one.quadrant}, right with {percent(one.quadrant_confidence)}"
        where = f"{one.quadrants.replace('|', ' or ')} ({right})"
        found.append(Fact("Where", where, "Quarters of the plan that hold 80 % of the probability."))
    if isinstance(one.mechanism, str):
        found.append(Fact("Fails like", one.mechanism, "The kind of movement that fits best."))
    if said := when_text(one):
        found.append(Fact("When", said, "If the building is damaged: start of the movement, not of a crack."))
    return found


def _of_hundred(share: float) -> str:
    return "fewer than 1" if share < 0.01 else "more than 99" if share > 0.99 else f"about {100 * share:.0f}"


def reading_of_it(one: Any, explanation: str) -> list[str]:
    """Say how to read the judgement; of a building that is not judged, why."""
    if one.status == "ok":
        whole = one.severity_low >= 0.5
        return [
            f"Of 100 buildings with this probability, {_of_hundred(one.p_damaged)} should have a strain of "
            "0.5 permille or more. "
            + (
                "The entire interval of the severity lies in category 1 or above."
                if whole
                else "The points also fit a sound building: decide by the probability, not by the category."
            )
        ]
    told = (
        "With these points no strain can be told."
        if math.isnan(one.strain_resolution_permille)
        else "Damage (category 1) begins at 0.5 permille."
    )
    sound = (
        "Not judged does not mean sound: in simulated cities these buildings are damaged about as often as all others."
    )
    return [f"Why: {explanation}.", told, sound]


def whole_facts(one: Any, seen: Seen, tracks: Sequence[Track]) -> list[Fact]:
    """Say how the whole building moved, and against its neighbours."""
    if math.isnan(one.settlement_mm) and one.n_points >= MIN_SCATTERERS:
        return [
            Fact("Settlement", "not known", "Few points from each side, and both sides contradict each other."),
            Fact("Against neighbours", "not known", "Its own settlement is not known."),
            _tilt(one),
        ]
    if math.isnan(one.settlement_mm):
        return [
            Fact("Settlement, tilt", "not known", "Three points at least are needed."),
            Fact("Against neighbours", "not known", "Its own settlement is not known."),
        ]
    sides = {side_of(tracks[number]) for number in seen.track.tolist()}
    # A building may be seen from both sides, and so poorly from one that its settlement is that of the other.
    is_along_sight = getattr(one, "settlement_direction", None) == LINE_OF_SIGHT or len(sides) == 1
    along = (
        " along the line of sight of one track: sinking cannot be told from a sideways move" if is_along_sight else ""
    )
    found = [
        Fact(
            "Settlement",
            f"{signed(one.settlement_mm)} ± {NINETY * one.settlement_std_mm:.1f} mm, "
            f"{signed(one.settlement_rate_mm_year)} mm a year",
            f"Movement of the whole building over the record{along}; negative: down.",
        )
    ]
    against, error = one.against_neighbours_mm, one.against_neighbours_std_mm
    if math.isnan(against):
        found.append(Fact("Against neighbours", "not known", "Fewer than 3 neighbours can be compared."))
    else:
        alone = abs(against) > MOVES_ALONE * error
        found.append(
            Fact(
                "Against neighbours",
                f"{signed(against)} ± {NINETY * error:.1f} mm",
                f"The neighbours' median moved {signed(one.settlement_mm - against)} mm. "
                + ("It moves otherwise than all around it." if alone else "No clear difference."),
            )
        )
    found.append(_tilt(one))
    return found


def _tilt(one: Any) -> Fact:
    if math.isnan(one.tilt_mm_m):
        return Fact("Tilt", "not known", "The points do not tell it to 1.5 mm/m.")
    wind = (
        "direction not clear"
        if math.isnan(one.tilt_towards)
        else f"towards {WINDS[round(one.tilt_towards / 45) % 8]} ({one.tilt_towards:.0f}°)"
    )
    return Fact(
        "Tilt",
        f"{one.tilt_mm_m:.1f} ± {NINETY * one.tilt_std_mm_m:.1f} mm/m, {wind}",
        "As a whole; the side that sinks.",
    )


def unseen_of(seen: Seen, tracks: Sequence[Track], resolution: float) -> list[str]:
    """Say what the points cannot show of a building."""
    found = ["North-south: the satellites look from east and west, and hardly see a movement to the north or south."]
    counts = np.bincount(seen.track, minlength=len(tracks))
    sides = {side_of(tracks[number]) for number in np.flatnonzero(counts).tolist()}
    if len(sides) == 1:
        found.append(
            f"Seen from the {sides.pop()} only: a movement to the east or west cannot be told from sinking or rising."
        )
    used = [track for track, count in zip(tracks, counts, strict=True) if count] or tracks
    first, last = min(t.epochs[0] for t in used), max(t.epochs[-1] for t in used)
    found.append(
        f"Days: nothing before {first.astype('datetime64[D]')} or after {last.astype('datetime64[D]')}; up to "
        f"{max(map(longest_gap, used))} days between two images."
    )
    by_quadrant = np.bincount(quadrant_code(*seen.xy.T), minlength=4)
    empty = [name for name, count in zip(QUADRANTS, by_quadrant, strict=True) if not count]
    many = f"{len(seen.track)} point{'' if len(seen.track) == 1 else 's'}"
    by = ", ".join(f"{name} {count}" for name, count in zip(QUADRANTS, by_quadrant, strict=True))
    where = f" None lies in {', '.join(empty)}." if empty and len(seen.track) else ""
    found.append(f"Points: {many} ({by}), on roof and walls, placed to some metres.{where}")
    if not math.isnan(resolution):
        found.append(f"Small strain: these points could show {resolution:.2g} permille at best.")
    return found
