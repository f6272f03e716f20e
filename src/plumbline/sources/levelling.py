"""Read levelled heights as surveyors write them: long or wide tables, heights or settlements, m or mm.

A long table has a row a point and date, a wide one a row a point and a column a date. Total stations write the long
one with easting, northing and height at each date: the height counts. Values may be relative to a first date or to a
datum point: only changes are used.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.sources.files.csv_lines import dialect
from plumbline.sources.files.csv_table import fail_at, read_columns, read_header
from plumbline.sources.files.opened import find_csv
from plumbline.sources.files.streams import CsvFile
from plumbline.sources.points.epochs import LIKE_A_DAY

NAMES = {
    "point": (
        "point",
        "point_id",
        "benchmark",
        "bolt",
        "bolzen",
        "mark",
        "target",
        "pid",
        "punkt",
        "id",
        "name",
        "no",
        "nr",
    ),
    "building": ("building_id", "building", "house", "gebäude", "haus"),
    "easting": ("easting", "east", "e", "x", "rechtswert", "ostwert", "lon", "longitude", "long", "lng"),
    "northing": ("northing", "north", "n", "y", "hochwert", "nordwert", "lat", "latitude"),
    "date": ("date", "day", "epoch", "survey_date", "survey", "datum"),
    "height": ("height", "level", "elevation", "reduced_level", "rl", "h", "z", "höhe", "hoehe", "quota"),
    "displacement": ("displacement", "movement", "change", "heave", "dz", "dh"),
    "settlement": ("settlement", "settlements", "setzung", "setzungen"),
    "error": ("error", "std", "sigma", "accuracy", "standard_deviation"),
}
"""What a column holds, and how it may be called, without its unit; the first that is there counts."""
VALUES = ("height", "displacement", "settlement")
UNIT = re.compile(r"(.*?)(?:[\s_]+|[\s_]*[\[(])(mm|cm|m)[\])]?")
TO_MM = {"mm": 1.0, "cm": 10.0, "m": 1000.0}
SURELY_M, SURELY_MM = 0.2, 1.0
"""Largest change of any point without a unit: below the first it is in m, from the second in mm."""
NEARLY_ALL = 0.9
"""Share of the points that moved which are surely in m, where one that is misread is not."""
UNUSUAL_MM, IMPOSSIBLE_MM = (0.2, 200.0), (0.05, 1000.0)
"""Typical change of a point: outside the first range the user is warned, outside the second the unit is wrong."""
ONE_SIGN = 0.8
"""Share of the settlements with one sign that make this sign mean down."""
TIME = re.compile(r"[T ]\d{1,2}:\d\d.*$")
DAYS = (
    *("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%Y_%m_%d", "%Y%m%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y"),
    *("%d.%m.%y", "%d-%b-%Y", "%d %b %Y", "%d%b%Y", "%d-%b-%y", "%d_%m_%Y"),
)
"""How surveyors write a day."""
MOST_APART_M, MOST_APART_DEG = 1.0, 1e-5
"""Coordinates of one point at its dates."""


class Levelling(NamedTuple):
    """Heights of P points at D dates; NaN and empty texts where the file does not say."""

    path: Path
    point: NDArray[np.object_]
    """(P,) names."""
    building: NDArray[np.object_]
    """(P,) `building_id`."""
    place: NDArray[np.float64]
    """(P, 2) easting and northing, m, or longitude and latitude."""
    dates: NDArray[np.datetime64]
    """(D,) ascending."""
    height_mm: NDArray[np.float64]
    """(P, D) up is positive; of each point only changes count."""
    error_mm: NDArray[np.float64]
    """(P, D) standard deviation of a height."""

    @property
    def is_degrees(self) -> bool:
        """Whether the places are longitude and latitude: by their range."""
        known = self.place[np.isfinite(self.place).all(1)]
        return bool(len(known) and (np.abs(known) <= (360, 90)).all())


class _Column(NamedTuple):
    """A column of the file: its name, as it is and without unit and day, what it holds, and these two."""

    name: str
    bare: str
    kind: str
    unit: str
    day: str


def read_levelling(path: Path) -> Levelling:
    """Read a table of levelled heights.

    Raises:
        InputError: a column is missing, a cell is no number or date, or unit or sign are not clear; the message
            names line and column, and what to write.
    """
    product, line = dialect(find_csv(path))
    header = read_header(product, line)
    columns = [_column(name) for name in header]
    found = {kind: one for kind in NAMES for one in [_first(columns, kind)] if one is not None}
    dated = [one for one in columns if one.day and one.kind in ("", *VALUES)]
    value = next((found[kind] for kind in VALUES if kind in found), None)
    if "point" not in found or (("date" not in found or value is None) and len(dated) < 2):
        raise InputError(
            f"{product}, line 1: the header has {', '.join(header)[:300]}. A long table needs the columns point, date "
            "and height_m or settlement_mm; a wide one point and a column for each of two or more dates, as 2024-06-30."
        )
    if "building" not in found and not {"easting", "northing"} <= found.keys():
        raise InputError(f"{product}, line 1: no place of the points. Add easting and northing, or building_id.")
    is_long = "date" in found and value is not None
    taken = [value] if is_long and value else dated
    table = _read(product, header, found, taken)
    if not len(table):
        raise InputError(f"{product}: it has a header, but no points.")
    _check(product, found, table)
    if "building" in found and table.groupby("point")["building"].nunique().max() > 1:  # numbered anew at each house
        table["point"] = table["building"].fillna("") + " " + table["point"]
    if not is_long:
        days = _days(product, [one.day for one in dated], None)
        table = _unfolded(table, dated, days)
    else:
        table["day"] = _days(product, table["date"].tolist(), found["date"].name)
        table["value"] = table[value.name] if value else np.nan
    _refuse_twice(product, table)
    return _assemble(path, product, table, taken[0], found)


def _column(name: str) -> _Column:
    text = name.strip().casefold()
    unit = UNIT.fullmatch(text)
    bare = unit[1] if unit else text
    day = LIKE_A_DAY.search(bare)
    if day:
        bare = TIME.sub("", bare[: day.start()] + bare[day.end() :]).strip(" _-:")
    bare = re.sub(r"[\s-]+", "_", bare)
    kind = next((kind for kind, names in NAMES.items() if bare in names), "?" if bare else "")
    return _Column(name, bare, kind, unit[2] if unit else "", day[0] if day else "")


def _first(columns: list[_Column], kind: str) -> _Column | None:
    own = {one.bare: one for one in columns if one.kind == kind and not one.day}
    return next((own[name] for name in NAMES[kind] if name in own), None)


def _read(product: CsvFile, header: list[str], found: dict[str, _Column], taken: list[_Column]) -> pd.DataFrame:
    """Return the rows: texts `point`, `building`, `date`, numbers `easting`, `northing`, `error`, and the values."""
    texts = {found[kind].name: pa.string() for kind in ("point", "building", "date") if kind in found}
    numbers = {found[kind].name: pa.float64() for kind in ("easting", "northing", "error") if kind in found}
    table = read_columns(product, header, texts | numbers | {one.name: pa.float64() for one in taken}).to_pandas()
    for kind in ("point", "building", "date"):
        table[kind] = table[found[kind].name].fillna("").str.strip() if kind in found else ""
    for kind in ("easting", "northing", "error"):
        table[kind] = table[found[kind].name].astype(float) if kind in found else np.nan
    return table


def _check(product: CsvFile, found: dict[str, _Column], table: pd.DataFrame) -> None:
    """Refuse rows without a name, with half a place, with an error that is none, or of a point that moves about."""
    error = table["error"].to_numpy()
    half = table["easting"].isna() != table["northing"].isna()
    places = table.groupby("point")[["easting", "northing"]]
    degrees = bool((table["northing"].abs().max() <= 90) and (table["easting"].abs().max() <= 360))
    limit = MOST_APART_DEG if degrees else MOST_APART_M
    apart = ((table[["easting", "northing"]] - places.transform("first")).abs() > limit).any(axis=1)
    for kind, bad, wanted in (
        ("point", table["point"] == "", "a name is needed"),
        ("easting", half, "both coordinates are needed, or none"),
        ("easting", apart, "another place than in the point's first row; give points that differ other names"),
        ("error", pd.Series(error <= 0), "a standard deviation above 0 is needed"),
    ):
        if bad.any():
            row = int(np.argmax(bad))
            name = found[kind].name
            fail_at(product, row, name, repr(table[name].iloc[row]), wanted)


def _unfolded(table: pd.DataFrame, dated: list[_Column], days: NDArray[np.datetime64]) -> pd.DataFrame:
    """Return a wide table as a long one; `row` is the line that a value stands in."""
    parts = [table.assign(day=day, value=table[one.name]) for one, day in zip(dated, days, strict=True)]
    return pd.concat([part.assign(row=np.arange(len(table))) for part in parts], ignore_index=True)


def _days(product: CsvFile, texts: list[str], column: str | None) -> NDArray[np.datetime64]:
    """Return the days that texts name, all written alike.

    Raises:
        InputError: one is no day, or day and month cannot be told apart. `column`: theirs; None: names of columns.
    """
    bare = [TIME.sub("", text).strip() for text in texts]
    bare = [text if any(map(str.isdigit, text)) else "" for text in bare]  # to pandas `now` and `today` are days
    read = {pattern: pd.to_datetime(bare, format=pattern, errors="coerce") for pattern in DAYS}
    best = max(read.values(), key=lambda days: days.notna().sum())
    if best.hasnans:
        row = int(np.argmax(best.isna()))
        if column is not None:
            fail_at(product, row, column, repr(texts[row]), "a day is needed, all written alike, as 2024-06-30")
        raise InputError(f"{product}, line 1: {texts[row]!r} is no day. Write all alike, as 2024-06-30.")
    if len({tuple(days) for days in read.values() if not days.hasnans}) > 1:
        raise InputError(f"{product}: is {texts[0]!r} day or month first? Write the dates as 2024-06-30.")
    return np.asarray(best, "datetime64[D]")


def _refuse_twice(product: CsvFile, table: pd.DataFrame) -> None:
    twice = table.duplicated(["point", "day"]).to_numpy()
    if twice.any():
        row = int(np.argmax(twice))
        one = table.iloc[row]
        line = int(one.get("row", row))
        fail_at(product, line, "point", repr(one["point"]), f"a second value of {one['day']:%Y-%m-%d}; keep one")


def _assemble(
    path: Path, product: CsvFile, table: pd.DataFrame, value: _Column, found: dict[str, _Column]
) -> Levelling:
    by_point = table.groupby("point", sort=False)
    heights = table.pivot(index="point", columns="day", values="value").reindex(list(by_point.groups))
    errors = table.pivot(index="point", columns="day", values="error").reindex(list(by_point.groups))
    unit = value.unit or _unit(product, heights.to_numpy())
    factor = TO_MM[unit]
    _check_unit(product, value.name if value.unit else "", unit, heights.to_numpy())
    sign = _sign(product, heights.to_numpy()) if value.kind == "settlement" else 1.0
    of_error = TO_MM[found["error"].unit or "mm"] if "error" in found else 1.0
    places = by_point[["easting", "northing"]].first().reindex(heights.index)
    read = Levelling(
        path,
        heights.index.to_numpy(object),
        by_point["building"].first().reindex(heights.index).to_numpy(object),
        places.to_numpy(float),
        heights.columns.to_numpy().astype("datetime64[D]"),
        sign * factor * heights.to_numpy(float),
        of_error * errors.to_numpy(float),
    )
    log.info(
        "%s: %d points at %d dates, %s to %s; values in %s (%s)",
        *(path, *read.height_mm.shape, read.dates[0], read.dates[-1], unit),
        f"column {value.name!r}" if value.unit else "by their changes",
    )
    return read


def _unit(product: CsvFile, values: NDArray[np.float64]) -> str:
    """Return the unit that the changes of the points show: the largest, unless nearly all others are as small as m."""
    moved = _moved(values)
    most = float(moved.max(initial=0.0))
    usual, large = np.quantile(moved[moved > 0], (0.5, NEARLY_ALL), method="lower") if most else (0.0, 0.0)
    if 0 < usual < IMPOSSIBLE_MM[0] and large < SURELY_M:  # a misread height or two
        return "m"
    if SURELY_M <= most < SURELY_MM or not most:
        raise InputError(f"{product}: the unit of the heights is not clear. Write it into the header, as height_m.")
    return "m" if most < SURELY_M else "mm"


def _moved(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the range of each point with a value, of values (P, D)."""
    known = values[np.isfinite(values).any(1)]
    return np.asarray(np.nanmax(known, axis=1) - np.nanmin(known, axis=1))


def _check_unit(product: CsvFile, column: str, unit: str, values: NDArray[np.float64]) -> None:
    """Refuse changes that no levelling sees, or no building makes, in this unit; warn where they are unusual.

    Args:
        column: that states the unit; empty: none does. values: (P, D). One wrong height changes nothing: the median
            of the points that moved counts.
    """
    moved = _moved(values)
    typical = TO_MM[unit] * float(np.quantile(moved[moved > 0], 0.5, method="lower")) if (moved > 0).any() else 1.0
    if UNUSUAL_MM[0] <= typical < UNUSUAL_MM[1]:
        return
    little = typical < UNUSUAL_MM[0]
    other = "m" if little else "mm"
    said = (
        f"{product}: {column or 'no unit in the header'}, read as {unit}: the points change by {typical:.3g} mm "
        f"(median). That is {'less than levelling sees' if little else 'more than buildings settle'}. Are they in "
        f"{other}? Write the right unit into the header, as height_{other}."
    )
    if not IMPOSSIBLE_MM[0] <= typical < IMPOSSIBLE_MM[1]:
        raise InputError(said)
    log.warning(said)


def _sign(product: CsvFile, values: NDArray[np.float64]) -> float:
    """Return 1 if settlements are negative where points go down, -1 if they are positive."""
    moved = values[np.isfinite(values) & (values != 0)]
    positive = float((moved > 0).mean()) if len(moved) else 0.0
    if 1 - ONE_SIGN < positive < ONE_SIGN:
        raise InputError(
            f"{product}: {positive:.0%} of the settlements are positive: is that up or down? Name the column "
            "displacement_mm where positive is up, or height_m."
        )
    log.info(
        "%s: settlements: %s is down, as most have this sign", product, "positive" if positive > 0.5 else "negative"
    )
    return -1.0 if positive > 0.5 else 1.0
