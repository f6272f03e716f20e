"""Days of the epochs, from the names of columns."""

from __future__ import annotations

import re
from datetime import date, datetime

import numpy as np

from plumbline.errors import InputError
from plumbline.sources.egms import FIRST_YEAR, LAST_YEAR

PROBE = date(2013, 4, 25)
"""A pattern that gives this day back says year, month and day."""


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
    """Column -> day, of the columns named exactly as `pattern` (of `check_pattern`) writes their day.

    Raises:
        InputError: a day is not of the age of satellites, or is none.
    """
    # The probe day's digits stand for any digits: d_20161345 is a misspelt epoch, and not some other column.
    shape = re.compile(re.sub(r"\d", r"\\d", re.escape(PROBE.strftime(pattern))))
    days: dict[str, np.datetime64] = {}
    for name in header:
        try:
            day = datetime.strptime(name, pattern).date()
        except (ValueError, re.error):
            if shape.fullmatch(name):
                raise InputError(f"{source}: {name} is named as an epoch, but no such day exists.") from None
            continue
        if day.strftime(pattern) != name:
            continue
        if not FIRST_YEAR <= day.year <= LAST_YEAR:
            raise InputError(f"{source}: column {name} is of the year {day.year}, {FIRST_YEAR} to {LAST_YEAR} can be.")
        days[name] = np.datetime64(day, "D")
    return days
