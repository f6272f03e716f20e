"""Suggest a description of a table of unknown layout, from the names of its own columns."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from plumbline.core.errors import InputError
from plumbline.sources.points.epochs import find_days, like_days

LIKELY = {
    "point_id": r"(point|pnt|ps)?_?(id|pid|code)|code",
    "latitude": r"(geometry_|pnt_)?(lat|latitude)",
    "longitude": r"(geometry_|pnt_)?(lon|long|longitude)",
    "easting": r"(geometry_)?(x|east|easting)(_coord|_utm)?",
    "northing": r"(geometry_)?(y|north|northing)(_coord|_utm)?",
    "height": r"(geometry_|pnt_)?(h|z|height|height_.*|elevation|altitude|topo)",
    "coherence": r"(pnt_)?(coh|coher|coherence|temporal_coherence)",
    "los_east": r"los_e(ast)?",
    "los_north": r"los_n(orth)?",
    "los_up": r"los_u(p)?",
}
"""Role -> names that columns of it often have, small letters."""
GEOMETRY_HEIGHT = "geometry_height"
VIEW = ("los_east", "los_north", "los_up")
WAYS = {
    r"(?<!\d)(19|20)\d{6}(?!\d)": ("%Y%m%d",),
    r"(?<!\d)(19|20)\d{5}(?!\d)": ("%Y%j", "%Y{day0}"),
    r"(19|20)\d\d-\d\d?-\d\d?": ("%Y-%m-%d",),
    r"(19|20)\d\d_\d\d?_\d\d?": ("%Y_%m_%d",),
    r"(19|20)\d\d\.\d\d?\.\d\d?": ("%Y.%m.%d",),
    r"(19|20)\d\d\.\d{3}(?!\d)": ("%Y.%j", "%Y.{day0}", "{decimal_year}"),
    r"(19|20)\d\d\.\d{4,}": ("{decimal_year}",),
    r"(19|20)\d\d/\d\d?/\d\d?": ("%Y/%m/%d",),
    r"\d\d?/\d\d?/(19|20)\d\d": ("%d/%m/%Y", "%m/%d/%Y"),
    r"\d\d?\.\d\d?\.(19|20)\d\d": ("%d.%m.%Y",),
    r"\d\d?-\d\d?-(19|20)\d\d": ("%d-%m-%Y", "%m-%d-%Y"),
    r"\d\d?_\d\d?_(19|20)\d\d": ("%d_%m_%Y", "%m_%d_%Y"),
    r"\d\d?[A-Za-z]{3}(19|20)\d\d": ("%d%b%Y",),
    r"\d\d? [A-Za-z]{3} (19|20)\d\d": ("%d %b %Y",),
    r"\d\d?-[A-Za-z]{3}-(19|20)\d\d": ("%d-%b-%Y",),
    r"\d\d?-[A-Za-z]{3}-\d\d": ("%d-%b-%y",),
}
"""How a day is written -> its patterns; of several that every column can be, one by which the days ascend."""
TIMES = {r"\d\d:\d\d:\d\d": "%H:%M:%S", r"\d\d:\d\d": "%H:%M", r"(?<=T)\d{6}(?!\d)": "%H%M%S"}
"""The same of the time of the day behind it."""
FRACTION, ZONE = r"(?<=%S)\.\d+", r"(?<=[%SMf])(Z|[-+]\d\d:?\d\d)$"
DATES = r"(acquisition_?|obs_?)?(date|day|time|datetime|epoch|timestamp)(_?utc)?|datum|data|fecha"
VALUES = r"(los_?)?(disp|displ|displacement|defo|deformation)(_\w+)?|value|cumul.*|los(_?(mm|cm|m))?"


def is_long_table(header: Sequence[str]) -> tuple[str, str] | None:
    """Return the columns of date and displacement if each row has one date; else None."""
    if like_days(list(header)):
        return None
    day = next((name for name in header if re.fullmatch(DATES, name, re.IGNORECASE)), None)
    value = next((name for name in header if re.fullmatch(VALUES, name, re.IGNORECASE)), None)
    return None if day is None or value is None else (day, value)


def suggest_description(file: str, header: list[str], crs: str | None = None) -> str:
    """Return YAML for `ingest.products` that a user completes and checks.

    It names only what the file's own columns show. What they do not show (unit, sign, view) is left open in capital
    letters, and is refused until it is filled in.

    Args:
        file: its name.
        header: names of its columns.
        crs: of its coordinates, where the file says it.
    """
    days = like_days(header)
    roles = _roles(header, days)
    globe = {"latitude", "longitude"} & roles.keys()
    for role in ("latitude", "longitude") if globe else ("easting", "northing"):
        roles.setdefault(role, "COLUMN")
    has_view = set(VIEW) <= roles.keys()
    left_out = {"easting", "northing"} if globe else set()
    left_out |= set() if has_view else set(VIEW)
    columns = ", ".join(f"{role}: {_quoted(name)}" for role, name in roles.items() if role not in left_out)
    view = [
        "incidence_deg: NUMBER  # of the line of sight, from the vertical",
        "heading_deg: NUMBER  # direction of flight, clockwise from north",
    ]
    lines = [
        f"columns: {{{columns}}}  # what is which column",
        *([] if globe else [f"crs: {crs or 'EPSG:NUMBER'}  # of easting and northing"]),
        f"epochs: {_epochs(header, days)}",
        "units: {displacement: UNIT}  # mm, cm or m",
        "positive: SIGN  # towards, if a positive displacement is motion towards the satellite, else away",
        *([] if has_view else view),
    ]
    indented = "\n".join(f"      {line}" for line in lines)
    return f"ingest:\n  products:\n    {_quoted(file)}:\n{indented}"


def _roles(header: list[str], days: list[str]) -> dict[str, str]:
    """Return role -> column; an attribute takes precedence over the geometry's height, which is often written as 0."""
    roles: dict[str, str] = {}
    for role, pattern in LIKELY.items():
        fits = [name for name in header if name not in (*days, *roles.values())]
        fits.sort(key=lambda name: name == GEOMETRY_HEIGHT)
        found = next((name for name in fits if re.fullmatch(pattern, name, re.IGNORECASE)), None)
        if found is not None:
            roles[role] = found
    return roles


def _epochs(header: list[str], days: list[str]) -> str:
    """Return the suggested value of `epochs:`, with a comment."""
    if days:
        pattern = _pattern(days)
        note = "how the columns of displacements are named"
        if "%j" in pattern:
            note += f"; of GMTSAR, which counts the days of a year from 0: {pattern.replace('%j', '{day0}')}"
        return f"{_quoted(pattern)}  # {note}"
    numbers = [name for name in header if name.isdigit()]
    if len(numbers) > 1 and (np.diff([int(name) for name in numbers]) > 0).all():
        shown = ", ".join(numbers[:3])
        return f"'{{days_since YYYY-MM-DD}}'  # where {shown}, … are days since a day; the file does not say which"
    return "PATTERN  # how the columns of displacements are named; none of the file's looks like a day"


def _pattern(names: list[str]) -> str:
    """Return the likely pattern of the columns of epochs; of several that fit, one with ascending days."""
    tried = _patterns(names[0])
    found = {pattern: days for pattern in tried if len(days := _dated(names, pattern)) == len(names)}
    ascending = (pattern for pattern, days in found.items() if (np.diff(list(days.values())) > np.timedelta64(0)).all())
    return next(ascending, next(iter(found), tried[0]))


def _patterns(name: str) -> list[str]:
    for written, patterns in WAYS.items():
        found = re.search(written, name)
        if found:
            before, after = (part.replace("%", "%%") for part in (name[: found.start()], name[found.end() :]))
            for time, pattern in TIMES.items():
                after, times = re.subn(time, pattern, after, count=1)
                if times:
                    after = re.sub(ZONE, "%z", re.sub(FRACTION, ".%f", after))
                    break
            return [before + pattern + after for pattern in patterns]
    return ["PATTERN"]


def _dated(names: list[str], pattern: str) -> dict[str, np.datetime64]:
    try:
        return find_days("", names, pattern)
    except (InputError, ValueError, re.error):
        return {}


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
