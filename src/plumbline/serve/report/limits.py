"""Compare a building's strain, distortion and tilt with published limits."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from plumbline.core.strain import CATEGORY_BOUNDS_PERMILLE
from plumbline.serve.columns import format_permille
from plumbline.serve.rules import is_answered

REFERENCES = (
    "Skempton and MacDonald 1956, The allowable settlements of buildings, Proc. ICE 5(6): 98 "
    "buildings, 58 of them "
    "sound.",
    "Bjerrum 1963, discussion, Proc. European Conference on Soil Mechanics, Wiesbaden, vol. 2.",
    "Burland, Broms and de Mello 1977, Behaviour of foundations and structures, Proc. 9th "
    "ICSMFE, Tokyo: categories.",
    "Boscardin and Cording 1989, Building response to excavation-induced settlement, J. Geotech. "
    "Eng. 115(1).",
    "Son and Cording 2005, Estimation of building damage due to excavation-induced ground "
    "movements, J. Geotech. "
    "Geoenviron. Eng. 131(2).",
)
CRACKS = (
    "hairline cracks",
    "fine cracks, up to 1 mm",
    "cracks up to 5 mm; doors and windows stick a little",
    "cracks of 5 to 15 mm; doors and windows stick, pipes may break",
    "cracks above 15 mm; walls lean, floors slope",
)
"""Cracks by Burland's category, 0 to 4; the last is for his categories 4 and 5."""
TALL_M, TALL_LEVELS = 24.0, 8.0
"""Smallest height and number of floors of a tall building: its tilt is seen from afar."""
MATERIAL = re.compile(r"material|structur|construction")
"""Columns of footprints that may contain the material of a building."""
MASONRY = re.compile(r"brick|mason|stone|adobe|clay|block")
FRAME = re.compile(r"concrete|steel|frame|timber|wood|metal|glass")
HEIGHTS = {
    "height_m": TALL_M,
    "height": TALL_M,
    "building_levels": TALL_LEVELS,
    "levels": TALL_LEVELS,
}
"""Columns with the height of a building, and the smallest value of a tall one."""


NINETY_PERCENT = 1.645
"""Standard errors on either side of a 90 % interval."""
UNITS = {
    "strain": "tensile strain, permille",
    "distortion": "angular distortion, permille",
    "tilt": "tilt, mm/m",
}


class Interval(NamedTuple):
    """A figure of a building with its 90 % interval; NaN where it is not known."""

    value: float
    low: float
    high: float


UNKNOWN = Interval(math.nan, math.nan, math.nan)


class Fact(NamedTuple):
    """A figure, and what it means."""

    name: str
    value: str
    means: str = ""


class PublishedLimits(NamedTuple):
    """Limits of one source for one quantity."""

    source: str
    quantity: str
    """`strain` or `distortion`, permille; `tilt`, mm/m."""
    values: tuple[float, ...]
    means: tuple[str, ...]
    """Consequences that begin at each value."""
    made_for: str | None
    """A kind of building, see `kinds_of`; None: any."""


_DAMAGE = ("very slight", "slight", "moderate", "severe")
SOURCES = (
    PublishedLimits(
        "Burland; Boscardin and Cording 1989",
        "strain",
        CATEGORY_BOUNDS_PERMILLE,
        _DAMAGE,
        "masonry",
    ),
    PublishedLimits("Son and Cording 2005", "strain", (0.5, 0.75, 1.67, 3.33), _DAMAGE, "masonry"),
    PublishedLimits(
        "Boscardin and Cording 1989", "distortion", (1.0, 1.5, 3.25, 6.5), _DAMAGE, "masonry"
    ),
    PublishedLimits(
        "Skempton and MacDonald 1956",
        "distortion",
        (1000 / 300, 1000 / 150),
        ("1/300: first cracks", "1/150: structural damage"),
        None,
    ),
    PublishedLimits("Bjerrum 1963", "distortion", (1000 / 500,), ("1/500: no cracks below",), None),
    PublishedLimits("Bjerrum 1963", "tilt", (1000 / 250,), ("1/250: tilt is seen",), "tall"),
)
VERDICTS = ("below", "possibly", "probably", "exceeded")
"""Verdicts by what is at or above a limit: nothing; the upper end of the interval; the
value itself too; all of it."""


def verdict(interval: Interval, limit: float) -> str:
    """Return one of `VERDICTS`, or `not known`."""
    if math.isnan(interval.value):
        return "not known"
    return VERDICTS[sum(bound >= limit for bound in (interval.low, interval.value, interval.high))]


def distortion(strain: Interval) -> Interval:
    """Return the angular distortion of a principal tensile strain without horizontal
    strain: twice as much.

    With horizontal strain, which points do not show, it is less (Boscardin and Cording 1989).
    """
    return Interval(*(2 * part for part in strain))


Kinds = dict[str, tuple[bool, str]]
"""Kind of building -> whether a building is of it, and the attribute that shows it."""


def kinds_of(attributes: Mapping[str, str]) -> Kinds:
    """Return whether a footprint is `masonry` and `tall` by its attributes; a kind that
    they do not show is missing."""
    kinds: Kinds = {}
    for name, value in attributes.items():
        column, text = re.sub(r"\W", "_", name.lower()), value.lower()
        attribute = f"{name} = {value}"
        is_masonry, is_frame = bool(MASONRY.search(text)), bool(FRAME.search(text))
        if MATERIAL.search(column) and is_masonry != is_frame:
            kinds["masonry"] = (is_masonry, attribute)
        height = re.fullmatch(r"(\d+(?:\.\d+)?)(?: ?m)?", text.strip())
        if column in HEIGHTS and height:
            kinds["tall"] = (float(height[1]) >= HEIGHTS[column], attribute)
    return kinds


def applies(limits: PublishedLimits, kinds: Kinds) -> bool:
    """Return whether limits are for a building of these kinds; True where its kind is not known."""
    return limits.made_for is None or limits.made_for not in kinds or kinds[limits.made_for][0]


def limit_rows(building: Any, kinds: Kinds) -> list[dict[str, Any]]:
    """Compare a building, a row of the predictions, with the published limits.

    Returns:
        Of each source: its name; the quantity; `found`, its value with the interval;
        `cells`, each a limit with the verdict and its consequence; and a `note` where its
        limits do not count for this building.
    """
    strain = (
        Interval(building.severity_permille, building.severity_low, building.severity_high)
        if is_answered(building)
        else UNKNOWN
    )
    half_width, tilt = NINETY_PERCENT * building.tilt_std_mm_m, building.tilt_mm_m
    intervals = {
        "strain": strain,
        "distortion": distortion(strain),
        "tilt": Interval(tilt, max(tilt - half_width, 0), tilt + half_width),
    }
    rows = []
    for limits in SOURCES:
        value, low, high = (
            format_permille(part, limits.values) for part in intervals[limits.quantity]
        )
        is_known = not math.isnan(intervals[limits.quantity].value)
        rows.append(
            {
                "source": limits.source,
                "quantity": UNITS[limits.quantity],
                "found": f"{value} ({low} to {high})" if is_known else "not known",
                "cells": [
                    Fact(f"{limit:.3g}", verdict(intervals[limits.quantity], limit), means)
                    for limit, means in zip(limits.values, limits.means, strict=True)
                ],
                "note": "" if applies(limits, kinds) else f"made for {limits.made_for} buildings",
            }
        )
    return rows


def kind_sentence(kinds: Kinds) -> str:
    """Return a sentence on the kind of building, by its attributes."""
    if not kinds:
        return "The footprint does not tell the kind of building: all limits are shown."
    words = {
        ("masonry", True): "masonry",
        ("masonry", False): "a frame",
        ("tall", True): "tall",
        ("tall", False): "low",
    }
    return (
        "Kind of building: "
        + "; ".join(
            f"{words[name, is_of_kind]} ({attribute})"
            for name, (is_of_kind, attribute) in kinds.items()
        )
        + "."
    )
