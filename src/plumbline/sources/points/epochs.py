"""Find the days of the epochs in the names of columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plumbline.core.console import warn
from plumbline.core.errors import InputError

Days = dict[str, np.datetime64]
"""Column -> day."""
MIN_EPOCHS = 2
"""Smallest number of epochs with which a file is read."""
DAYS_A_YEAR = 365.25
TREND_EPOCHS = 8
"""Smallest number of epochs of a trend with an annual term: from fewer values it would be noise."""
FIRST_YEAR, LAST_YEAR = 1990, 2100
"""Range of years in which an observation is possible."""
PROBE_DAY = datetime(2013, 4, 25, tzinfo=UTC)
"""Day by which patterns are tested: one that gives it back contains year, month and day."""
LIKE_A_DAY = re.compile(
    r"(?<!\d)(19|20)\d{5,6}(?!\d)|\d{1,4}[-/._ ]\d{1,2}[-/._ ]\d{2,4}|\d{1,2}[-/._ "
    r"]?[a-z]{3}[-/._ ]?\d{2,4}"
    r"|(?<!\d)(19|20)\d\d\.\d{3,}(?!\d)",
    re.IGNORECASE,
)
"""Part of a column's name: 20200103, 2020003, 3/1/2020, 2020-01-03, 03JAN2020, 2020.0055."""
WORD = re.compile(r"\{(decimal_year|day0|days_since (\d{4}-\d\d-\d\d))\}")
"""Words for what `strptime` has no letter for: a year with its fraction; a day of the year that
counts from 0, behind %Y; days since a day."""
ZONE, FRACTION = re.compile(r"(Z|[-+]\d\d:?\d\d)$", re.IGNORECASE), re.compile(r"\.\d+")
CUT = "A Shapefile cuts names to ten letters: if the days are lost in it, export a GeoPackage"
AVERAGED = "%s are of one day (bursts or passes), and are averaged"


def check_pattern(source: str, pattern: str) -> str:
    """Return a pattern of epochs in full: as of `strptime`, or with one `WORD`.

    Args:
        source: name of the pattern's origin, for the message.
        pattern: without `%` and braces, the text before YYYYMMDD.

    Raises:
        InputError: the pattern does not define a day.
    """
    whole = pattern if "%" in pattern or "{" in pattern else f"{pattern}%Y%m%d"
    with suppress(ValueError, re.error):
        if WORD.search(whole):
            _split_at_word(whole)
            return whole
        if datetime.strptime(PROBE_DAY.strftime(whole), whole).date() == PROBE_DAY.date():
            return whole
    raise InputError(
        f"{source}: epochs: {pattern!r} does not define a day. Write how the columns are named, "
        "as D%Y%m%d.",
        key="epochs.no_day_in_pattern",
    )


def find_days(source: str, header: list[str], pattern: str) -> Days:
    """Return column -> day for the columns with a day as `pattern` (of `check_pattern`) writes it.

    Zeros before a number and small or capital letters do not matter: `3/1/2020` is
    `03/01/2020`, `JAN` is `Jan`. With a time zone, the day is that of UTC. Several columns
    may be of one day.

    Raises:
        InputError: a day is not of the age of satellites, or is none.
    """
    parse = _parse_word if WORD.search(pattern) else _parse_strptime
    days: Days = {}
    for name in header:
        try:
            day = parse(name, pattern)
        except (ValueError, OverflowError):
            raise InputError(
                f"{source}: {name} is named as an epoch, but no such day exists.",
                key="epochs.impossible_day",
            ) from None
        if day is None:
            continue
        if not FIRST_YEAR <= day.year <= LAST_YEAR:
            raise InputError(
                f"{source}: column {name} is of the year {day.year}, {FIRST_YEAR} to {LAST_YEAR} "
                "can be.",
                key="epochs.impossible_year",
            )
        days[name] = np.datetime64(day, "D")
    return days


def _parse_strptime(name: str, pattern: str) -> date | None:
    """Return the day in a name; None if the pattern does not fit; `ValueError` if it fits
    an impossible day."""
    short = re.sub(r"(\.\d{6})\d+", r"\1", name)  # nanoseconds, which Python cannot read
    try:
        moment = datetime.strptime(short, pattern)
    except (ValueError, re.error):
        # The probe day's digits are replaced by any digits: d_20161345 is a misspelt epoch,
        # and not some other column.
        if re.fullmatch(re.sub(r"\d", r"\\d", re.escape(PROBE_DAY.strftime(pattern))), name):
            raise ValueError(name) from None
        return None
    # Python reads 2020113 as 2020-11-3; it might be 2020-1-13 as well.
    if _normalise_name(moment.strftime(pattern), pattern) != _normalise_name(short, pattern):
        return None
    return (moment if moment.tzinfo is None else moment.astimezone(UTC)).date()


def _normalise_name(name: str, pattern: str) -> str:
    if "%z" in pattern:
        name = ZONE.sub("", name)
    if "%f" in pattern:
        name = FRACTION.sub("", name)
    return re.sub(r"(?<!\d)0+(?=\d)", "", name.lower())


def _split_at_word(pattern: str) -> tuple[re.Pattern[str], str, date | None]:
    """Return the pattern of names, the word, and the day that days count from; `ValueError`
    for an impossible day."""
    word = WORD.search(pattern)
    if word is None:
        raise ValueError(pattern)
    kind, before, after = word[1].split(" ")[0], pattern[: word.start()], pattern[word.end() :]
    number = {
        "decimal_year": r"((?:19|20)\d\d(?:\.\d+)?)",
        "day0": r"((?:19|20)\d\d)[-._]?(\d{3})",
        "days_since": r"(-?\d+)",
    }
    if kind == "day0":
        year = re.fullmatch(r"(.*)%Y([-._]?)", before)
        if year is None:
            raise ValueError("a day of the year needs %Y before it")
        before = year[1]
    if "%" in before + after:
        raise ValueError("one day is said by one word")
    written = re.compile(re.escape(before) + number[kind] + re.escape(after), re.IGNORECASE)
    return written, kind, date.fromisoformat(word[2]) if word[2] else None


def _parse_word(name: str, pattern: str) -> date | None:
    """Return the day in a name as `_parse_strptime` does, for a pattern with a `WORD`."""
    written, kind, since = _split_at_word(pattern)
    match = written.fullmatch(name)
    if match is None:
        return None
    if since is not None:
        return since + timedelta(days=int(match[1]))
    year = int(float(match[1]))
    length = (date(year + 1, 1, 1) - date(year, 1, 1)).days
    days = int(match[2]) if kind == "day0" else round((float(match[1]) - year) * length)
    if kind == "day0" and days >= length:
        raise ValueError(name)
    return date(year, 1, 1) + timedelta(days=days)


def average_same_days(
    values: NDArray[np.float32], days: NDArray[np.datetime64], axis: int = -1
) -> NDArray[np.float32]:
    """Average the displacements of epochs on the same day; one epoch for each day remains.

    Args:
        values: mm, NaN where missing, with the epochs along `axis`. days: (T,) of them, ascending.
    """
    first = np.unique(days, return_index=True)[1]
    if len(first) == len(days):
        return values
    n_values = np.add.reduceat(np.isfinite(values), first, axis=axis, dtype=np.int32)
    sums = np.add.reduceat(np.nan_to_num(values, nan=0.0), first, axis=axis)
    return np.where(n_values > 0, sums / np.maximum(n_values, 1), np.nan).astype(np.float32)


def same_day_notes(names: list[str], days: NDArray[np.datetime64]) -> list[str]:
    """Return a note on the epochs that are averaged because they are on the same day; empty
    without any.

    Args:
        names: (T,) how the file calls them. days: (T,) ascending.
    """
    repeated_days = [
        day for day, count in zip(*np.unique(days, return_counts=True), strict=True) if count > 1
    ]
    shown = [
        " and ".join(name for name, day in zip(names, days, strict=True) if day == repeated_day)
        for repeated_day in repeated_days[:3]
    ]
    return (
        [
            AVERAGED
            % (
                ", ".join(shown)
                + (f" and {len(repeated_days) - 3} more" if len(repeated_days) > 3 else "")
            )
        ]
        if repeated_days
        else []
    )


def observed(
    source: str, epochs: NDArray[np.datetime64], values: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return which epochs (T,) have a value, or all if there is no value; warn of the rest.

    Otherwise, changes would be reported for a time without observations.

    Args:
        source: names the product in the message. epochs: (T,) days.
        values: (T,) number of points with a value.
    """
    has_values = np.asarray((values > 0) | (not values.any()))
    if not has_values.all():
        warn(
            "%s: no point has a value at %d of %d epochs (the first %s): they are left out",
            source,
            (~has_values).sum(),
            len(has_values),
            epochs[~has_values][0],
            key="epochs.without_values",
        )
    return has_values


def find_epochs(
    source: str, header: list[str], patterns: Sequence[str], passed: Sequence[str] = ()
) -> Days:
    """Return column -> day by the first pattern that finds enough; warn of other columns
    that look like days.

    Args:
        source: names the file. header: names of the columns. patterns: as of
            `check_pattern`, the first one is shown.
        passed: beginnings of the names of columns that look like days and are none.

    Raises:
        InputError: there are too few epochs, or a day is none.
    """
    days: Days = {}
    for pattern in patterns:
        days = find_days(source, header, pattern)
        if len(days) >= MIN_EPOCHS:
            break
    unmatched = [
        name
        for name in like_days(header)
        if name not in days and not name.startswith(tuple(passed))
    ]
    shown = ", ".join(map(repr, unmatched[:3] or header[-3:])) or "none"
    if len(days) < MIN_EPOCHS:
        raise InputError(
            f"{source}: {len(days)} epochs found, of columns named as {patterns[0]}; at least "
            f"{MIN_EPOCHS} are needed. Not taken are: {shown}. Export the time series with the "
            f"points, or state their names as epochs in ingest.products. {CUT}.",
            key="epochs.too_few",
        )
    if unmatched:
        warn(
            "%s: %d columns look like days, but are not named as %s and are left out: %s. Name "
            "them so, or describe the file's columns in ingest.products.",
            source,
            len(unmatched),
            patterns[0],
            shown,
            key="epochs.unmatched_columns",
        )
    return days


def like_days(names: list[str]) -> list[str]:
    """Return the names that look like days, in any format."""
    return [name for name in names if LIKE_A_DAY.search(name)]


def velocity_mm_per_year(
    displacement: NDArray[np.floating[Any]], epochs: NDArray[np.datetime64]
) -> NDArray[np.float64]:
    """Fit the slope of displacement (N, T), mm, by least squares, ignoring NaN; NaN below
    two epochs."""
    days = (epochs - epochs[:1]).astype("timedelta64[D]").astype(float)
    displacement = displacement.astype(float)
    is_observed = np.isfinite(displacement)
    count = np.maximum(is_observed.sum(axis=1, keepdims=True), 1)
    years = np.where(is_observed, days / DAYS_A_YEAR, 0.0)
    years = np.where(is_observed, years - years.sum(axis=1, keepdims=True) / count, 0.0)
    spread = (years**2).sum(axis=1)
    # The centred years sum to zero, so the mean of the displacement drops out.
    slope = (years * np.where(is_observed, displacement, 0.0)).sum(axis=1)
    return np.asarray(np.divide(slope, spread, out=np.full(len(slope), np.nan), where=spread > 0))
