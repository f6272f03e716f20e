"""Read levelled heights as surveyors write them: long or wide tables, heights or
settlements, m or mm.

A long table has a row a point and date, a wide one a row a point and a column a date. Total
stations write the long one with easting, northing and height at each date: the height
counts. Values may be relative to a first date or to a datum point: only changes are used. All
values of a point have one zero; each column of a wide table may have a unit of its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from plumbline.core.console import log, warn
from plumbline.core.errors import InputError
from plumbline.params import Product
from plumbline.sources.files.csv_lines import dialect
from plumbline.sources.files.csv_table import MISSING, fail_at, read_columns, read_header
from plumbline.sources.files.limits import warn_of_limits
from plumbline.sources.files.opened import find_csv
from plumbline.sources.files.streams import CsvFile
from plumbline.sources.points.epochs import LIKE_A_DAY
from plumbline.sources.points.source import TO_MM

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
    "easting": (
        "easting",
        "east",
        "e",
        "x",
        "rechtswert",
        "ostwert",
        "lon",
        "longitude",
        "long",
        "lng",
    ),
    "northing": ("northing", "north", "n", "y", "hochwert", "nordwert", "lat", "latitude"),
    "date": ("date", "day", "epoch", "survey_date", "survey", "datum"),
    "height": (
        "height",
        "level",
        "elevation",
        "reduced_level",
        "rl",
        "h",
        "z",
        "höhe",
        "hoehe",
        "quota",
    ),
    "displacement": ("displacement", "movement", "change", "heave", "dz", "dh"),
    "settlement": ("settlement", "settlements", "setzung", "setzungen"),
    "reference": (
        "vertical_datum",
        "height_system",
        "height_datum",
        "höhensystem",
        "hoehensystem",
        "datum",
    ),
    "error": ("error", "std", "sigma", "accuracy", "standard_deviation"),
}
"""Quantity -> names of its column, without the unit; the first that is there counts."""
VALUES = ("height", "displacement", "settlement")
TEXTS = ("point", "building", "date", "reference")
UNIT = re.compile(r"(.*?)(?:[\s_]+|[\s_]*[\[(])(mm|cm|m)[\])]?")
SURELY_M, SURELY_MM = 0.2, 1.0
"""Largest change of any point without a unit: below the first it is in m, from the second in mm."""
NEARLY_ALL = 0.9
"""Share of the points that moved which are surely in m, where one that is misread is not."""
UNUSUAL_MM, IMPOSSIBLE_MM = (0.2, 200.0), (0.05, 1000.0)
"""Typical change of a point: outside the first range the user is warned, outside the second
the unit is wrong."""
ONE_SIGN = 0.8
"""Share of the settlements with one sign that make this sign mean down."""
MAX_GAP_RATIO, MAX_GAP_SHARE = 2.0, 0.5
"""Largest excess of the first value of a point over all later ones, as a ratio to the range of the
later ones, and as a share of the first: beyond both, it is of another kind than these."""
MIN_HEIGHT = 10.0
"""Smallest such excess without a unit. Heights in m, beside changes in mm, mostly have it. Nearly
all changes grow with time: their first value has no excess."""
MIN_MOVED_MM, MIN_MOVED_POINTS = 2.0, 2
"""Smallest movements, and number of points with them, whose return to 0 is a new zero. A change has
a standard error of 0.6 mm (heights of 0.3 mm, rounded to mm): three of them are below 2 mm."""
TIME = re.compile(r"[T ]\d{1,2}:\d\d.*$")
DAYS = (
    *(
        "%Y-%m-%d",
        "%Y/%m/%d",
        "%Y.%m.%d",
        "%Y_%m_%d",
        "%Y%m%d",
        "%d.%m.%Y",
        "%d/%m/%Y",
        "%m/%d/%Y",
        "%d-%m-%Y",
    ),
    *("%d.%m.%y", "%d-%b-%Y", "%d %b %Y", "%d%b%Y", "%d-%b-%y", "%d_%m_%Y"),
)
"""Patterns of the days that surveyors write."""
MAX_APART_M, MAX_APART_DEG = 1.0, 1e-5
"""Largest difference of the coordinates of one point between its dates."""


class Levelling(NamedTuple):
    """Heights of P points at D dates; NaN and empty texts where the file has no value."""

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
        """True if the places are longitude and latitude, by their range."""
        places = self.place[np.isfinite(self.place).all(1)]
        return bool(len(places) and (np.abs(places) <= (360, 90)).all())


class _Column(NamedTuple):
    """Column of the file: its name, the name without unit and day, its quantity, unit and day."""

    name: str
    bare: str
    kind: str
    unit: str
    day: str


def read_levelling(path: Path, missing: Sequence[float | str] = ()) -> Levelling:
    """Read a table of levelled heights.

    Args:
        path: the table. missing: texts and numbers that mean no value, besides the usual ones.

    Raises:
        InputError: a column is missing, a cell is no number or date, or unit or sign are
            not clear; the message names line and column, and what to write.
    """
    product, line = dialect(find_csv(path), Product(missing=[*missing]))
    header = read_header(product, line)
    warn_of_limits(product, n_columns=len(header))
    columns = [_parse_column(name) for name in header]
    by_kind = {
        kind: column
        for kind in NAMES
        for column in [_find_column(columns, kind)]
        if column is not None
    }
    dated_columns = [column for column in columns if column.day and column.kind in ("", *VALUES)]
    value = next((by_kind[kind] for kind in VALUES if kind in by_kind), None)
    if "point" not in by_kind or (
        ("date" not in by_kind or value is None) and len(dated_columns) < 2
    ):
        raise InputError(
            f"{product}, line 1: the header has {', '.join(header)[:300]}. A long table needs the "
            "columns point, date and height_m or settlement_mm. A wide one needs point, and a "
            "column for each of two or more dates, as 2024-06-30.",
            key="levelling.missing_column",
        )
    if "building" not in by_kind and not {"easting", "northing"} <= by_kind.keys():
        raise InputError(
            f"{product}, line 1: no place of the points. Add easting and northing, or building_id.",
            key="levelling.no_place",
        )
    # Of a wide table, a column called datum or survey names something else than dates.
    is_long = len(dated_columns) < 2
    if not is_long:
        by_kind.pop("date", None)
        dated_columns = _select_one_kind(product, dated_columns)
    value_columns = [value] if is_long and value else dated_columns
    codes = [code for code in missing if not isinstance(code, str)]
    table = _read_rows(product, header, by_kind, value_columns, codes=codes)
    if not len(table):
        raise InputError(f"{product}: it has a header, but no points.", key="levelling.none")
    _check_rows(product, by_kind, table)
    if (
        "building" in by_kind and table.groupby("point")["building"].nunique().max() > 1
    ):  # each house has its own numbers
        table["point"] = table["building"].fillna("") + " " + table["point"]
    if not is_long:
        days = _parse_days(product, [column.day for column in dated_columns], None)
        table = _to_long(table, dated_columns, days)
    else:
        table["day"] = _parse_days(product, table["date"].tolist(), by_kind["date"].name)
        table["value"] = table[value.name] if value else np.nan
        table["value"] *= TO_MM.get(value_columns[0].unit, 1.0)
    _refuse_twice(product, table)
    return _assemble(path, product, table, value_columns[0], by_kind)


def _select_one_kind(product: CsvFile, columns: list[_Column]) -> list[_Column]:
    """Return the dated columns of one kind, heights first.

    Raises:
        InputError: some dates have another kind only, or some columns have a unit, others none.
    """
    selected = max(
        ([c for c in columns if c.kind == kind] for kind in (*VALUES, "")),
        key=lambda same: len({c.day for c in same}),
    )
    units = {c.unit for c in selected}
    if {c.day for c in selected} != {c.day for c in columns} or ("" in units and len(units) > 1):
        raise _mixed_error(product, f"line 1, {', '.join(c.name for c in columns)}")
    return selected


def _mixed_error(product: CsvFile, place: str) -> InputError:
    return InputError(
        f"{product}: {place}: the values at some dates seem to be heights, at others changes, or "
        "their units differ. Give heights at each date, or changes at each (0 at the first), and "
        "write the unit into each header, as 2024-06-30 [mm].",
        key="levelling.mixed_values",
    )


def _parse_column(name: str) -> _Column:
    text = name.strip().casefold()
    unit = UNIT.fullmatch(text)
    bare = unit[1] if unit else text
    day = LIKE_A_DAY.search(bare)
    if day:
        bare = TIME.sub("", bare[: day.start()] + bare[day.end() :]).strip(" _-:")
    bare = re.sub(r"[\s-]+", "_", bare)
    kind = next((kind for kind, names in NAMES.items() if bare in names), "?" if bare else "")
    return _Column(name, bare, kind, unit[2] if unit else "", day[0] if day else "")


def _find_column(columns: list[_Column], kind: str) -> _Column | None:
    by_name = {c.bare: c for c in columns if c.bare in NAMES[kind] and not c.day}
    return next((by_name[name] for name in NAMES[kind] if name in by_name), None)


def _read_rows(
    product: CsvFile,
    header: list[str],
    by_kind: dict[str, _Column],
    value_columns: list[_Column],
    *,
    codes: Sequence[float],
) -> pd.DataFrame:
    """Return the rows: texts `point`, `building`, `date`, numbers `easting`, `northing`,
    `error`, and the values; NaN in place of `codes`."""
    texts = {by_kind[kind].name: pa.string() for kind in TEXTS if kind in by_kind}
    numbers = {
        by_kind[kind].name: pa.float64()
        for kind in ("easting", "northing", "error")
        if kind in by_kind
    } | {column.name: pa.float64() for column in value_columns}
    table = read_columns(product, header, texts | numbers).to_pandas()
    table[[*numbers]] = table[[*numbers]].mask(table[[*numbers]].isin(codes))
    for kind in TEXTS:
        table[kind] = table[by_kind[kind].name].fillna("").str.strip() if kind in by_kind else ""
    for kind in ("easting", "northing", "error"):
        table[kind] = table[by_kind[kind].name].astype(float) if kind in by_kind else np.nan
    return table


def _check_rows(product: CsvFile, by_kind: dict[str, _Column], table: pd.DataFrame) -> None:
    """Refuse rows without a name, with one coordinate or another place, or with an error of
    0 or less."""
    error = table["error"].to_numpy()
    half = table["easting"].isna() != table["northing"].isna()
    places = table.groupby("point")[["easting", "northing"]]
    is_degrees = bool(
        (table["northing"].abs().max() <= 90) and (table["easting"].abs().max() <= 360)
    )
    limit = MAX_APART_DEG if is_degrees else MAX_APART_M
    apart = ((table[["easting", "northing"]] - places.transform("first")).abs() > limit).any(axis=1)
    datums = table["reference"].mask(table["reference"].isin(MISSING))
    is_other_datum = datums.notna() & (datums != datums.groupby(table["point"]).transform("first"))
    is_other_datum &= by_kind.get("reference") != by_kind.get("date")
    for kind, is_bad, wanted, key in (
        ("point", table["point"] == "", "a name is needed", "levelling.no_name"),
        ("easting", half, "both coordinates are needed, or none", "levelling.half_place"),
        (
            "easting",
            apart,
            "the point's first row has another place; name different points differently",
            "levelling.other_place",
        ),
        (
            "reference",
            is_other_datum,
            "an earlier row of the point has another vertical datum; convert the heights to one",
            "levelling.several_datums",
        ),
        (
            "error",
            pd.Series(error <= 0),
            "a standard deviation above 0 is needed",
            "levelling.error_not_positive",
        ),
    ):
        if is_bad.any():
            row = int(np.argmax(is_bad))
            name = by_kind[kind].name
            fail_at(product, row, name, repr(table[name].iloc[row]), wanted, key=key)


def _to_long(
    table: pd.DataFrame, dated_columns: list[_Column], days: NDArray[np.datetime64]
) -> pd.DataFrame:
    """Return a wide table as a long one, with `row`, the index of each value's row in the file."""
    parts = [
        table.assign(day=day, value=table[column.name] * TO_MM.get(column.unit, 1.0))
        for column, day in zip(dated_columns, days, strict=True)
    ]
    return pd.concat([part.assign(row=np.arange(len(table))) for part in parts], ignore_index=True)


def _parse_days(product: CsvFile, texts: list[str], column: str | None) -> NDArray[np.datetime64]:
    """Return the days in texts of one pattern.

    Args:
        product: the file. texts: days as written.
        column: the column of the texts; None: they are names of columns.

    Raises:
        InputError: a text is no day, or day and month may be exchanged.
    """
    bare = [TIME.sub("", text).strip() for text in texts]
    # To pandas `now` and `today` are days.
    bare = [text if any(map(str.isdigit, text)) else "" for text in bare]
    days_by_pattern = {
        pattern: pd.to_datetime(bare, format=pattern, errors="coerce") for pattern in DAYS
    }
    best = max(days_by_pattern.values(), key=lambda days: days.notna().sum())
    if best.hasnans:
        row = int(np.argmax(best.isna()))
        if column is not None:
            fail_at(
                product,
                row,
                column,
                repr(texts[row]),
                "a day is needed, all written alike, as 2024-06-30",
                key="levelling.not_a_day",
            )
        raise InputError(
            f"{product}, line 1: {texts[row]!r} is no day. Write all alike, as 2024-06-30.",
            key="levelling.not_a_day",
        )
    if len({tuple(days) for days in days_by_pattern.values() if not days.hasnans}) > 1:
        raise InputError(
            f"{product}: is {texts[0]!r} day or month first? Write the dates as 2024-06-30.",
            key="levelling.ambiguous_days",
        )
    return np.asarray(best, "datetime64[D]")


def _refuse_twice(product: CsvFile, table: pd.DataFrame) -> None:
    is_repeated = table.duplicated(["point", "day"]).to_numpy()
    if is_repeated.any():
        row = int(np.argmax(is_repeated))
        repeated = table.iloc[row]
        line = int(repeated.get("row", row))
        fail_at(
            product,
            line,
            "point",
            repr(repeated["point"]),
            f"a second value of {repeated['day']:%Y-%m-%d}; keep one",
            key="levelling.repeated_value",
        )


def _assemble(
    path: Path, product: CsvFile, table: pd.DataFrame, value: _Column, by_kind: dict[str, _Column]
) -> Levelling:
    by_point = table.groupby("point", sort=False)
    heights = table.pivot(index="point", columns="day", values="value").reindex(
        list(by_point.groups)
    )
    errors = table.pivot(index="point", columns="day", values="error").reindex(
        list(by_point.groups)
    )
    unit = "mm" if value.unit else _infer_unit(product, heights.to_numpy())
    heights *= TO_MM[unit]
    values_mm = heights.to_numpy(float)
    _refuse_other_zero(product, heights)
    # Without a unit, two dates do not show whether a value is a height or a change.
    can_differ = unit == "mm" and (value.unit or len(heights.columns) > 2)
    if can_differ and _is_first_apart(values_mm, IMPOSSIBLE_MM[1] if value.unit else MIN_HEIGHT):
        raise _mixed_error(product, f"{heights.columns[0]:%Y-%m-%d}")
    unit = value.unit or unit
    _check_unit(product, value.name if value.unit else "", unit, values_mm)
    sign = _infer_sign(product, values_mm) if value.kind == "settlement" else 1.0
    error_to_mm = TO_MM[by_kind["error"].unit or "mm"] if "error" in by_kind else 1.0
    places = by_point[["easting", "northing"]].first().reindex(heights.index)
    levelling = Levelling(
        path,
        heights.index.to_numpy(object),
        by_point["building"].first().reindex(heights.index).to_numpy(object),
        places.to_numpy(float),
        heights.columns.to_numpy().astype("datetime64[D]"),
        sign * values_mm,
        error_to_mm * errors.to_numpy(float),
    )
    log.info(
        "%s: %d points at %d dates, %s to %s; values in %s (%s), each counted from the first date",
        *(path, *levelling.height_mm.shape, levelling.dates[0], levelling.dates[-1], unit),
        f"column {value.name!r}" if value.unit else "by their changes",
    )
    return levelling


def _refuse_other_zero(product: CsvFile, heights: pd.DataFrame) -> None:
    """Refuse heights (P, D) in mm that are all 0 at a date, where points had moved: they have
    a new zero."""
    is_moved = heights.shift(axis=1).ffill(axis=1).abs() >= MIN_MOVED_MM
    is_reset = (heights.fillna(0) == 0).all() & (
        (is_moved & heights.notna()).sum() >= MIN_MOVED_POINTS
    )
    if is_reset.any():
        raise InputError(
            f"{product}: all values are 0 on {is_reset.idxmax():%Y-%m-%d}, and were not before: "
            "do later values count from this day? Give heights, or add the former settlement to "
            "them; 0 is right at the first date alone.",
            key="levelling.new_zero",
        )


def _is_first_apart(values_mm: NDArray[np.float64], min_gap_mm: float) -> bool:
    """Return whether the first values of most points are far larger than the later ones, as a
    height is larger than changes.

    Args:
        values_mm: (P, D). min_gap_mm: smallest excess that counts.
    """
    with_all = values_mm[np.isfinite(values_mm).all(axis=1)]
    if not len(with_all) or not with_all[:, 0].any():
        return False
    size_mm, later = np.abs(with_all[:, 0]), with_all[:, 1:]
    gap, size, spread = (
        float(np.quantile(each, 0.5, method="lower"))
        for each in (size_mm - np.abs(later).max(axis=1), size_mm, np.ptp(later, axis=1))
    )
    return gap > max(min_gap_mm, MAX_GAP_RATIO * spread, MAX_GAP_SHARE * size)


def _infer_unit(product: CsvFile, values: NDArray[np.float64]) -> str:
    """Return the unit that the changes of the points show: the largest, unless nearly all
    others are as small as m."""
    ranges = _value_ranges(values)
    largest = float(ranges.max(initial=0.0))
    median, upper = (
        np.quantile(ranges[ranges > 0], (0.5, NEARLY_ALL), method="lower")
        if largest
        else (0.0, 0.0)
    )
    if 0 < median < IMPOSSIBLE_MM[0] and upper < SURELY_M:  # a misread height or two
        return "m"
    if SURELY_M <= largest < SURELY_MM or not largest:
        raise InputError(
            f"{product}: the unit of the heights is not clear. Write it into the header, as "
            "height_m.",
            key="levelling.unclear_unit",
        )
    return "m" if largest < SURELY_M else "mm"


def _value_ranges(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the range of each point with a value, of values (P, D)."""
    with_values = values[np.isfinite(values).any(1)]
    return np.asarray(np.nanmax(with_values, axis=1) - np.nanmin(with_values, axis=1))


def _check_unit(product: CsvFile, column: str, unit: str, values_mm: NDArray[np.float64]) -> None:
    """Refuse changes that no levelling sees, or no building makes, in this unit; warn where
    they are unusual.

    Args:
        column: that states the unit; empty: none does. values_mm: (P, D). One wrong height
            changes nothing: the median of the points that moved counts.
    """
    ranges = _value_ranges(values_mm)
    typical = (
        float(np.quantile(ranges[ranges > 0], 0.5, method="lower")) if (ranges > 0).any() else 1.0
    )
    if UNUSUAL_MM[0] <= typical < UNUSUAL_MM[1]:
        return
    is_small = typical < UNUSUAL_MM[0]
    other_unit = "m" if is_small else "mm"
    message = (
        f"{product}: {column or 'no unit in the header'}, read as {unit}: the points change by "
        f"{typical:.3g} mm (median). That is "
        f"{'less than levelling sees' if is_small else 'more than buildings settle'}. Are they in "
        f"{other_unit}? Write the right unit into the header, as height_{other_unit}."
    )
    if not IMPOSSIBLE_MM[0] <= typical < IMPOSSIBLE_MM[1]:
        raise InputError(message, key="levelling.unlikely_unit")
    warn(message, key="levelling.unlikely_unit")


def _infer_sign(product: CsvFile, values: NDArray[np.float64]) -> float:
    """Return 1 if settlements are negative where points go down, -1 if they are positive."""
    changes = values[np.isfinite(values) & (values != 0)]
    positive = float((changes > 0).mean()) if len(changes) else 0.0
    if 1 - ONE_SIGN < positive < ONE_SIGN:
        raise InputError(
            f"{product}: {positive:.0%} of the settlements are positive: is that up or down? Name "
            "the column displacement_mm where positive is up, or height_m.",
            key="levelling.unclear_sign",
        )
    log.info(
        "%s: settlements: %s is down, as most have this sign",
        product,
        "positive" if positive > 0.5 else "negative",
    )
    return -1.0 if positive > 0.5 else 1.0
