"""Read any described table, and suggest a description of one that is not."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from plumbline import params
from plumbline.core.errors import InputError
from plumbline.sources.crs import GLOBE, is_globe, ranges
from plumbline.sources.files.streams import CsvFile
from plumbline.sources.points.epochs import CUT, check_pattern, find_epochs, like_days
from plumbline.sources.points.formats.vector_layer import PointLayer, check_stated_crs
from plumbline.sources.points.source import TO_MM, Angles, TableLayout, to_mm


def described_units(product: CsvFile, about: params.Product) -> tuple[params.Units, str]:
    """Return the units of a described csv, and the pattern of its epochs.

    Raises:
        InputError: `about` has no columns.
    """
    if about.units is None or about.epochs is None:
        raise InputError(
            f"{product}: to be read as a table of columns, it needs a description of them. Write "
            "ingest.products, with columns, units, positive and epochs (docs/formats.md), into "
            f"{params.PARAMS_FILE}.",
            key="products.not_described",
        )
    return about.units, about.epochs


def described_layout(
    product: CsvFile, header: list[str], about: params.Product
) -> tuple[TableLayout, Sequence[str]]:
    """Return the roles of a table's columns by their description, `about`; and no notes.

    Raises:
        InputError: `about` has no columns, or a pattern of epochs without a day; a column
            is missing, too few are named as epochs; what concerns rows, where reading gets
            to them.
    """
    units, epochs = described_units(product, about)
    column_of = about.columns
    globe = "latitude" in column_of
    layer_crs = product.crs if isinstance(product, PointLayer) and globe else None
    crs_of_file = about.crs or layer_crs or GLOBE
    if is_globe(str(product), crs_of_file) != globe:
        wanted = "latitude and longitude" if globe else "easting and northing"
        raise InputError(
            f"{product}: crs {crs_of_file} in params.yaml is not one of {wanted}. Correct one of "
            "the two.",
            key="products.other_crs_kind",
        )
    used_columns = set(column_of.values())
    if isinstance(product, PointLayer) and used_columns.intersection(product.places):
        check_stated_crs(product, crs_of_file)
    names = [name for name in header if name not in used_columns]
    days = find_epochs(str(product), names, [check_pattern(str(product), epochs)])
    x_range, y_range = ranges(str(product), crs_of_file)  # of no use in degrees
    layout = TableLayout(
        days=days,
        x=column_of["longitude" if globe else "easting"],
        y=column_of["latitude" if globe else "northing"],
        x_range=x_range,
        y_range=y_range,
        crs=crs_of_file,
        to_mm=to_mm(about, units.displacement),
        los=_described_sight(about),
        point_id=column_of.get("point_id"),
        height=column_of.get("height"),
        coherence=column_of.get("coherence"),
        rmse=column_of.get("rmse"),
        rmse_to_mm=TO_MM[units.displacement],
        missing=about.missing,
    )
    return layout, ()


def _described_sight(about: params.Product) -> tuple[str, str, str] | Angles:
    column_of = about.columns
    if "los_up" in column_of:
        return column_of["los_east"], column_of["los_north"], column_of["los_up"]
    incidence, heading = (
        column_of.get("incidence", about.incidence_deg),
        column_of.get("heading", about.heading_deg),
    )
    if incidence is None or heading is None:
        raise InputError(
            "ingest.products: an incidence and a heading are needed.", key="products.unstated"
        )
    to_degrees = (
        float(np.degrees(1)) if about.units is not None and about.units.angle == "rad" else 1.0
    )
    return Angles(incidence, heading, about.look, to_degrees)


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
"""Role -> pattern of the usual names of its column, small letters."""
GEOMETRY_HEIGHT = "geometry_height"
VIEW = ("los_east", "los_north", "los_up")
DAY = r"(?<!\d)(19|20)\d{6}(?!\d)"
"""A day as most programs write it into a column's name."""
DATES = r"(acquisition_?|obs_?)?(date|day|time|datetime|epoch|timestamp)(_?utc)?|datum|data|fecha"
VALUES = (
    r"(los_?)?(disp|displ|displacement|defo|deformation)(_\w+)?|value|cumul.*|los(_?(mm|cm|m))?"
)


def is_long_table(header: Sequence[str]) -> tuple[str, str] | None:
    """Return the columns of date and displacement if each row has one date; else None."""
    if like_days(list(header)):
        return None
    day = next((name for name in header if re.fullmatch(DATES, name, re.IGNORECASE)), None)
    value = next((name for name in header if re.fullmatch(VALUES, name, re.IGNORECASE)), None)
    return None if day is None or value is None else (day, value)


def suggest_description(file: str, header: list[str], crs: str | None = None) -> str:
    """Return YAML for `ingest.products` that a user completes and checks.

    It contains only what the columns of the file show. Capital letters mark what they do not show
    (unit, sign, view); these are refused until a user replaces them.

    Args:
        file: its name.
        header: names of its columns.
        crs: of its coordinates, where the file states it.
    """
    days = like_days(header)
    roles = _guess_roles(header, days)
    globe = {"latitude", "longitude"} & roles.keys()
    for role in ("latitude", "longitude") if globe else ("easting", "northing"):
        roles.setdefault(role, "COLUMN")
    has_view = set(VIEW) <= roles.keys()
    left_out = {"easting", "northing"} if globe else set()
    left_out |= set() if has_view else set(VIEW)
    columns = ", ".join(
        f"{role}: {_quote(name)}" for role, name in roles.items() if role not in left_out
    )
    view = [
        "incidence_deg: NUMBER  # of the line of sight, from the vertical",
        "heading_deg: NUMBER  # direction of flight, clockwise from north",
    ]
    lines = [
        f"columns: {{{columns}}}  # what is which column",
        *([] if globe else [f"crs: {crs or 'EPSG:NUMBER'}  # of easting and northing"]),
        f"epochs: {_suggest_epochs(days)}",
        "units: {displacement: UNIT}  # mm, cm or m",
        "positive: SIGN  # towards, if a positive displacement is motion towards the satellite, "
        "else away",
        *([] if has_view else view),
    ]
    indented = "\n".join(f"      {line}" for line in lines)
    return f"ingest:\n  products:\n    {_quote(file)}:\n{indented}"


def _guess_roles(header: list[str], days: list[str]) -> dict[str, str]:
    """Return role -> column; an attribute takes precedence over the geometry's height,
    which is often written as 0."""
    roles: dict[str, str] = {}
    for role, pattern in LIKELY.items():
        fits = [name for name in header if name not in (*days, *roles.values())]
        fits.sort(key=lambda name: name == GEOMETRY_HEIGHT)
        column = next((name for name in fits if re.fullmatch(pattern, name, re.IGNORECASE)), None)
        if column is not None:
            roles[role] = column
    return roles


def _suggest_epochs(days: list[str]) -> str:
    """Return the suggested value of `epochs:`, with a comment."""
    patterns = {re.sub(DAY, "%Y%m%d", name.replace("%", "%%")) for name in days}
    pattern = patterns.pop() if len(patterns) == 1 else ""
    shown = f" ({', '.join(days[:3])})" if days else ""
    value = _quote(pattern) if "%Y" in pattern else "PATTERN"
    return (
        f"{value}  # how the columns of displacements are named{shown}; docs/formats.md has "
        f"the patterns. {CUT}"
    )


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
