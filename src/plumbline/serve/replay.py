"""Judge a place as of past dates: when each building would have been flagged, and how often
that is wrong.

Shape legend: F footprints, D dates.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import geopandas
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from plumbline.core.arrays import Index
from plumbline.core.console import log, track
from plumbline.core.errors import InputError
from plumbline.prepare.abstention import UNSURE_WHERE
from plumbline.prepare.scatterers import check_epochs
from plumbline.serve.columns import has_answer
from plumbline.serve.predictions import BUILDINGS, Outputs, write_table
from plumbline.serve.request import OpenCity, Request, open_city
from plumbline.sources.city.in_memory import SHORT_DAYS
from plumbline.sources.city.window import Window
from plumbline.sources.points.epochs import DAYS_A_YEAR, TREND_EPOCHS
from plumbline.sources.points.track import Track

Float = NDArray[np.float64]
MAX_DATES = 1000  # each is a column of the table, and SQLite takes 2,000


def replay(
    request: Request, output: Path, every_days: int, threshold: float
) -> geopandas.GeoDataFrame:
    """Judge every footprint as of each date, and write when it was first flagged.

    Args:
        request: what is judged.
        output: table, see `replay_table`; the suffix names the format.
        every_days: step of the dates, from the last epoch back. threshold: least
            `p_damaged` of a flag.

    Raises:
        InputError: anything given is missing, damaged or does not fit together. No file is
            written then.
    """
    opened = open_city(request, Outputs(output))
    points = opened.city.points
    check_epochs(points, TREND_EPOCHS)
    dates = judged_dates(points, every_days)
    judged = list(_judge(opened, dates, threshold))
    p_damaged = np.column_stack([at_date.p_damaged_F for at_date in judged])
    first = first_flags(p_damaged, threshold)
    table = replay_table(
        opened.city.footprints, dates, p_damaged, first, opened.model.about.version
    )
    write_table(table, output, BUILDINGS)
    _log_flag_rate(first, p_damaged, every_days)
    _log_caveats(judged, opened.options.damage_rate is not None)
    return table


def judged_dates(tracks: Sequence[Track], every_days: int) -> list[np.datetime64]:
    """Return the dates to judge at, ascending: the last epoch, and back as long as a year
    of record is left.

    Raises:
        InputError: these are too many.
    """
    last = max(track.epochs[-1] for track in tracks).astype("datetime64[D]")
    dates: list[np.datetime64] = [last]
    while True:
        day = dates[-1] - np.timedelta64(every_days, "D")
        first_epochs = [
            track.epochs[0] for track in tracks if (track.epochs <= day).sum() >= TREND_EPOCHS
        ]
        if not first_epochs or day - min(first_epochs) < np.timedelta64(SHORT_DAYS, "D"):
            return dates[::-1]
        dates.append(day)
        if len(dates) > MAX_DATES:
            raise InputError(
                f"--every {every_days}d: more than {MAX_DATES} dates. Give a longer step.",
                key="replay.too_many_dates",
            )


def until(tracks: Sequence[Track], day: np.datetime64) -> list[Track]:
    """Return the tracks as they were on a day, without those that had too few epochs for a
    trend."""
    window = Window(until=day.astype("datetime64[D]").item())
    in_window = [(track, window.holds(track.epochs)) for track in tracks]
    return [
        track if is_inside.all() else track.at_epochs(is_inside)
        for track, is_inside in in_window
        if is_inside.sum() >= TREND_EPOCHS
    ]


class _DateJudgement(NamedTuple):
    """Probabilities of damage as of a date, and counts."""

    p_damaged_F: Float
    damage_rate: float
    unsure_where: int


def _judge(
    opened: OpenCity, dates: Sequence[np.datetime64], threshold: float
) -> Iterator[_DateJudgement]:
    """Judge as of each date, with a line in the log."""
    city = opened.city
    was_flagged = np.zeros(len(city.footprints), bool)
    logged: set[str] = set()
    for day in track(dates, len(dates), "replay"):
        with _skip_repeats(logged):
            judged = (
                opened._replace(city=replace(city, points=until(city.points, day))).answer().judged
            )
        p_damaged_F = judged.table["p_damaged"].where(has_answer(judged.table)).to_numpy(float)
        flagged = p_damaged_F >= threshold
        log.info(
            "%s: %d judged, %d flagged (p_damaged %g or more), %d of them for the first time; "
            "share of damaged "
            "buildings %.1f %%%s",
            *(
                day,
                np.isfinite(p_damaged_F).sum(),
                flagged.sum(),
                threshold,
                (flagged & ~was_flagged).sum(),
            ),
            100 * judged.rate.rate,
            ", which the points do not show" if judged.rate.is_vague else "",
        )
        was_flagged |= flagged
        yield _DateJudgement(
            p_damaged_F, judged.rate.rate, int((judged.reason == UNSURE_WHERE).sum())
        )


@contextmanager
def _skip_repeats(logged: set[str]) -> Iterator[None]:
    """Leave out of the log messages that are in `logged`, also with other figures; warnings
    by their first value."""

    def is_new(record: logging.LogRecord) -> bool:
        named = (
            record.args[:1]
            if record.levelno >= logging.WARNING and isinstance(record.args, tuple)
            else ()
        )
        count = len(logged)
        logged.add(f"{record.msg} {named}")
        return len(logged) > count

    log.addFilter(is_new)
    try:
        yield
    finally:
        log.removeFilter(is_new)


def first_flags(p_FD: Float, threshold: float) -> Index:
    """Return (F,) the number of the date at which each building is flagged first; -1 if it
    is at none.

    A flag counts if the building's next judged date repeats it. At its last judged date one
    is enough.

    Args:
        p_FD: probability of damage as of each date, NaN where it is not judged.
        threshold: least probability of a flag.
    """
    first, repeated = np.full(len(p_FD), -1), np.ones(len(p_FD), bool)
    for number in range(p_FD.shape[1])[::-1]:
        flagged = p_FD[:, number] >= threshold
        first[flagged & repeated] = number
        repeated = np.where(np.isfinite(p_FD[:, number]), flagged, repeated)
    return first


def replay_table(
    footprints: geopandas.GeoDataFrame,
    dates: Sequence[np.datetime64],
    p_FD: Float,
    first: Index,
    version: str,
) -> geopandas.GeoDataFrame:
    """Return a row a building, with a column `p_damaged_2024-06-30` a date; empty is what
    was not judged or flagged.

    Args:
        footprints: `building_id` and geometry. dates: ascending. p_FD, first: see `first_flags`.
        version: of the model package.
    """
    days = np.array([*dates, np.datetime64("NaT")])[first]  # -1 takes the last
    table = geopandas.GeoDataFrame(
        {
            "building_id": footprints["building_id"].to_numpy(),
            "first_flagged": [None if np.isnat(day) else str(day) for day in days],
            "days_before_end": pd.array(
                [None if np.isnat(day) else (dates[-1] - day).item().days for day in days]
            ),
            "p_damaged": p_FD[:, -1],
            **{f"p_damaged_{day}": p_FD[:, number] for number, day in enumerate(dates)},
            "model_version": version,
        },
        geometry=footprints.geometry.to_numpy(),
        crs=footprints.crs,
    )
    return table.astype({"building_id": "str", "first_flagged": "str", "days_before_end": "Int64"})


def _log_flag_rate(first: Index, p_FD: Float, every_days: int) -> None:
    """Log how many buildings are flagged after the first date, and their rate by judged
    building-years."""
    flags, years = int((first > 0).sum()), np.isfinite(p_FD[:, 1:]).sum() * every_days / DAYS_A_YEAR
    log.info("%d buildings flagged as of the first date, %d later", (first == 0).sum(), flags)
    if years:
        # Of a Poisson count (Garwood 1936).
        upper_bound = float(stats.chi2.ppf(0.95, 2 * (flags + 1)) / 2)
        log.info(
            "%d new flags in %.0f judged building-years: %.1f per 1,000 buildings and year (95 "
            "%% bound: at most "
            "%.1f). Where nothing is damaged, this is the rate of false alarms",
            *(flags, years, 1000 * flags / years, 1000 * upper_bound / years),
        )


def _log_caveats(judged: Sequence[_DateJudgement], is_rate_given: bool) -> None:
    """Log that flags also depend on the estimated share, and how many buildings are
    `unsure_where`."""
    rates = [at_date.damage_rate for at_date in judged]
    if not is_rate_given and len(rates) > 1:
        log.info(
            "The share of damaged buildings was estimated anew at each date (%.1f to %.1f %%), "
            "and every p_damaged "
            "follows it. To compare dates, give it: --damage-rate 0.01",
            100 * min(rates),
            100 * max(rates),
        )
    if judged[-1].unsure_where:
        log.info(
            "%d of %d buildings are unsure_where at the last date: the points do not show where "
            "they are damaged",
            judged[-1].unsure_where,
            len(judged[-1].p_damaged_F),
        )
