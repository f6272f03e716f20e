"""A description of an unknown csv to begin with: what its header suggests, and gaps where it says nothing."""

from __future__ import annotations

import re
from datetime import datetime

from plumbline.sources.points.epochs import like_days

LIKELY = {
    "point_id": r"(point|pnt|ps)?_?(id|pid|code)|code",
    "latitude": r"(geometry_|pnt_)?(lat|latitude)",
    "longitude": r"(geometry_|pnt_)?(lon|long|longitude)",
    "easting": r"(geometry_)?(x|east|easting)(_coord|_utm)?",
    "northing": r"(geometry_)?(y|north|northing)(_coord|_utm)?",
    "height": r"(geometry_|pnt_)?(h|z|height|height_.*|elevation|altitude|topo)",
    "coherence": r"(pnt_)?(coh|coher|coherence|temporal_coherence)",
}
"""Role -> names that columns of it often have, small letters."""
WAYS = {
    r"(19|20)\d{6}": ("%Y%m%d",),
    r"(19|20)\d\d-\d\d?-\d\d?": ("%Y-%m-%d",),
    r"(19|20)\d\d_\d\d?_\d\d?": ("%Y_%m_%d",),
    r"(19|20)\d\d\.\d\d?\.\d\d?": ("%Y.%m.%d",),
    r"\d\d?/\d\d?/(19|20)\d\d": ("%d/%m/%Y", "%m/%d/%Y"),
    r"\d\d?\.\d\d?\.(19|20)\d\d": ("%d.%m.%Y",),
    r"\d\d?-\d\d?-(19|20)\d\d": ("%d-%m-%Y", "%m-%d-%Y"),
    r"\d\d?[A-Za-z]{3}(19|20)\d\d": ("%d%b%Y",),
    r"\d\d?-[A-Za-z]{3}-(19|20)\d\d": ("%d-%b-%Y",),
    r"\d\d?-[A-Za-z]{3}-\d\d": ("%d-%b-%y",),
}
"""How a day is written -> its patterns; of several the first that every column's day can be."""
TIMES = {r"\d\d:\d\d:\d\d": "%H:%M:%S", r"\d\d:\d\d": "%H:%M", r"(?<=T)\d{6}(?!\d)": "%H%M%S"}
"""The same of the time of the day behind it."""


def described_as(file: str, header: list[str], crs: str | None = None) -> str:
    """YAML for `ingest.products` that a user completes and checks; units, sign and view are never guessed.

    Args:
        file: its name. header: names of its columns. crs: of its coordinates, where the file says it.
    """
    days = like_days(header)
    roles: dict[str, str] = {}
    for role, pattern in LIKELY.items():
        fits = (name for name in header if name not in (*days, *roles.values()))
        found = next((name for name in fits if re.fullmatch(pattern, name, re.IGNORECASE)), None)
        if found is not None:
            roles[role] = found
    globe = {"latitude", "longitude"} & roles.keys()
    for role in ("latitude", "longitude") if globe else ("easting", "northing"):
        roles.setdefault(role, "COLUMN")
    left_out = {"easting", "northing"} if globe else set()
    columns = ", ".join(f"{role}: {_quoted(name)}" for role, name in roles.items() if role not in left_out)
    lines = [
        f"columns: {{{columns}}}  # what is which column",
        *([] if globe else [f"crs: {crs or 'EPSG:NUMBER'}  # of easting and northing"]),
        f"epochs: {_quoted(_pattern(days) if days else 'D%Y%m%d')}  # how the columns of displacements are named",
        "units: {displacement: mm}  # or cm, m",
        "positive: towards  # the satellite; or away",
        "incidence_deg: NUMBER  # of the line of sight, from the vertical",
        "heading_deg: NUMBER  # direction of flight, clockwise from north",
    ]
    indented = "\n".join(f"      {line}" for line in lines)
    return f"ingest:\n  products:\n    {_quoted(file)}:\n{indented}"


def _pattern(names: list[str]) -> str:
    """How columns of epochs seem to be named; where several ways fit the first, one that fits all."""
    tried = _patterns(names[0])
    return next((pattern for pattern in tried if all(_fits(name, pattern) for name in names)), tried[0])


def _patterns(name: str) -> list[str]:
    for written, patterns in WAYS.items():
        found = re.search(written, name)
        if found:
            before, after = (part.replace("%", "%%") for part in (name[: found.start()], name[found.end() :]))
            for time, pattern in TIMES.items():
                after, times = re.subn(time, pattern, after, count=1)
                if times:
                    break
            return [before + pattern + after for pattern in patterns]
    return ["D%Y%m%d"]


def _fits(name: str, pattern: str) -> bool:
    try:
        datetime.strptime(name, pattern)
    except (ValueError, re.error):
        return False
    return True


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
