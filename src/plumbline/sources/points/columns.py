"""Read any csv of points whose columns `params.yaml` describes; suggest a description of an unknown one."""

from __future__ import annotations

import re
from datetime import datetime

import numpy as np

from plumbline import params
from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.sources.crs import GLOBE, PLANE, is_globe, ranges
from plumbline.sources.files.archive import CsvFile
from plumbline.sources.points.epochs import check_pattern, find_days, like_days
from plumbline.sources.points.reader_base import MIN_EPOCHS, TO_MM, Angles, PointSource, TableLayout, to_mm
from plumbline.sources.points.table_reader import open_csv_table
from plumbline.sources.points.vector_layer import PointLayer, check_stated_crs


def described(product: CsvFile, about: params.Product) -> tuple[params.Units, str]:
    """The units of a described csv, and how its epochs are named.

    Raises:
        InputError: `about` has no columns.
    """
    if about.units is None or about.epochs is None:
        raise InputError(
            f"{product}: to be read as a table of columns, params.yaml must say what they are: ingest.products, with "
            "columns, units, positive and epochs (docs/formats.md)."
        )
    return about.units, about.epochs


def open_columns(product: CsvFile, header: list[str], about: params.Product, crs: str | None) -> PointSource:
    """Open a csv by its header and the description of its columns, `about`.

    Raises:
        InputError: `about` has no columns, or a pattern of epochs that says no day; a column is missing, too few are
            named as epochs; what concerns rows, where reading gets to them.
    """
    units, epochs = described(product, about)
    has = about.columns
    globe = "latitude" in has
    says = product.crs if isinstance(product, PointLayer) and globe else None
    crs_of_file = about.crs or says or GLOBE
    if is_globe(str(product), crs_of_file) != globe:
        wanted = "latitude and longitude" if globe else "easting and northing"
        raise InputError(f"{product}: crs {crs_of_file} in params.yaml is not one of {wanted}. Correct one of the two.")
    known = set(has.values())
    if isinstance(product, PointLayer) and known.intersection(product.places):
        check_stated_crs(product, crs_of_file)
    days = _days(product, [name for name in header if name not in known], epochs)
    x_range, y_range = (PLANE, PLANE) if globe else ranges(str(product), crs_of_file)
    layout = TableLayout(
        days=days,
        x_range=x_range,
        y_range=y_range,
        x=has["longitude" if globe else "easting"],
        y=has["latitude" if globe else "northing"],
        crs=crs_of_file,
        to_mm=to_mm(about, units.displacement),
        los=_line_of_sight(about),
        point_id=has.get("point_id"),
        height=has.get("height"),
        coherence=has.get("coherence"),
        rmse=has.get("rmse"),
        rmse_to_mm=TO_MM[units.displacement],
    )
    return open_csv_table(product, header, layout, about.track or product.path.stem, crs)


def _days(product: CsvFile, names: list[str], epochs: str) -> dict[str, np.datetime64]:
    """Column -> day; where some that look like days are none by `epochs`, they are named."""
    days = find_days(str(product), names, check_pattern(str(product), epochs))
    others = like_days([name for name in names if name not in days])
    shown = ", ".join(map(repr, others[:3])) or ", ".join(map(repr, names[-3:])) or "none"
    if len(days) < MIN_EPOCHS:
        raise InputError(
            f"{product}: {len(days)} epochs found by {epochs!r} (epochs in ingest.products), at least {MIN_EPOCHS} are "
            f"needed. Write there how its columns are named; not described are: {shown}."
        )
    if others:
        log.warning(
            "%s: %d columns look like days, but are not named as %r (epochs in ingest.products) and are left out: %s.",
            product,
            len(others),
            epochs,
            shown,
        )
    return days


def _line_of_sight(about: params.Product) -> tuple[str, str, str] | Angles:
    has = about.columns
    if "los_up" in has:
        return has["los_east"], has["los_north"], has["los_up"]
    incidence, heading = has.get("incidence", about.incidence_deg), has.get("heading", about.heading_deg)
    if incidence is None or heading is None:
        raise InputError("ingest.products: an incidence and a heading are needed.")
    return Angles(incidence, heading)


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


def suggest_description(file: str, header: list[str], crs: str | None = None) -> str:
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
