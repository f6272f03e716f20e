"""Find the days of the epochs in the names of columns."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date, datetime

import numpy as np
from numpy.typing import NDArray

from plumbline.core.console import log
from plumbline.core.errors import InputError

DAYS_A_YEAR = 365.25
FIRST_YEAR, LAST_YEAR = 1990, 2100
"""In which there can be an observation."""
PROBE = date(2013, 4, 25)
"""A pattern that gives this day back says year, month and day."""
LIKE_A_DAY = re.compile(
    r"(?<!\d)(19|20)\d{6}(?!\d)|\d{1,4}[-/._ ]\d{1,2}[-/._ ]\d{2,4}|\d{1,2}[-/._ ]?[a-z]{3}[-/._ ]?\d{2,4}",
    re.IGNORECASE,
)
"""Part of a column's name: 20200103, 3/1/2020, 2020-01-03, 03JAN2020."""


def check_pattern(source: str, pattern: str) -> str:
    """A pattern as of `strptime`; without `%`, what stands before YYYYMMDD.

    Raises:
        InputError: the pattern does not say a day; `source` names who gives it.
    """
    whole = pattern if "%" in pattern else f"{pattern}%Y%m%d"
    try:
        if datetime.strptime(PROBE.strftime(whole), whole).date() == PROBE:
            return whole
    except (ValueError, re.error):
        pass
    raise InputError(
        f"{source}: epochs: {pattern!r} does not say a day. Write how its columns are named, such as D%Y%m%d."
    )


def find_days(source: str, header: list[str], pattern: str) -> dict[str, np.datetime64]:
    """Column -> day, of the columns named as `pattern` (of `check_pattern`) writes their day.

    Zeros before a number and small or capital letters do not matter: `3/1/2020` is `03/01/2020`, `JAN` is `Jan`.

    Raises:
        InputError: a day is not of the age of satellites, or is none.
    """
    # The probe day's digits stand for any digits: d_20161345 is a misspelt epoch, and not some other column.
    shape = re.compile(re.sub(r"\d", r"\\d", re.escape(PROBE.strftime(pattern))))
    days: dict[str, np.datetime64] = {}
    for name in header:
        try:
            moment = datetime.strptime(name, pattern)
        except (ValueError, re.error):
            if shape.fullmatch(name):
                raise InputError(f"{source}: {name} is named as an epoch, but no such day exists.") from None
            continue
        # Python reads 2020113 as 2020-11-3; it might be 2020-1-13 as well.
        if _plain(moment.strftime(pattern)) != _plain(name):
            continue
        if not FIRST_YEAR <= moment.year <= LAST_YEAR:
            raise InputError(
                f"{source}: column {name} is of the year {moment.year}, {FIRST_YEAR} to {LAST_YEAR} can be."
            )
        days[name] = np.datetime64(moment.date(), "D")
    return days


def _plain(name: str) -> str:
    return re.sub(r"(?<!\d)0+(?=\d)", "", name.lower())


def observed(source: str, epochs: NDArray[np.datetime64], values: NDArray[np.int64]) -> NDArray[np.bool_]:
    """(T,) epochs to keep: those with a value of any point; all where there is no value at all. Warns of the others.

    Changes would be told of a time that nobody has looked at.

    Args:
        source: whom to name. epochs: (T,) days. values: (T,) how many points have a value there.
    """
    kept = np.asarray((values > 0) | (not values.any()))
    if not kept.all():
        log.warning(
            "%s: no point has a value at %d of %d epochs (the first %s): they are left out",
            source,
            (~kept).sum(),
            len(kept),
            epochs[~kept][0],
        )
    return kept


def warn_of_unread(source: str, names: Iterable[str], wanted: str) -> None:
    """Say which of the columns that are not read look like days, in a format whose epochs are named as `wanted`."""
    others = like_days(list(names))
    if others:
        log.warning(
            "%s: %d columns look like days, but are not named as %s and are left out: %s. Name them so, or "
            "describe the file's columns in ingest.products.",
            source,
            len(others),
            wanted,
            ", ".join(map(repr, others[:3])),
        )


def like_days(names: list[str]) -> list[str]:
    """Those of the names that look like days, however they are written."""
    return [name for name in names if LIKE_A_DAY.search(name)]
