"""Estimate when damage began, how fast it grows, and how sure that is, for the columns of
the predictions.

`strain_courses` estimates the strain over time of a building on condition that it is
damaged, which has the probability `p_damaged`. So each answer here is a mixture: of that
estimate, and of the prior.
"""

from __future__ import annotations

import geopandas
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from plumbline.core.arrays import Float
from plumbline.export.answers import Answers
from plumbline.prepare.buildings import Prepared
from plumbline.prepare.series.beginning import BEGINNINGS, TIME, prior_beginnings, prior_quickens
from plumbline.prepare.strain_course import StrainCourses, strain_courses
from plumbline.sources.points.track import Track

MIN_P_FOLLOWED = 0.8
"""Smallest probability of damage, at the share of the calibration, of the buildings that
are followed through time. At a share of one half or less, no other building can reach
`MIN_P_DAMAGED`."""
MIN_P_DAMAGED = 0.5
"""Smallest `p_damaged` of a building that has dates and rates."""
MAX_INTERVAL = 0.5
"""Largest width of the interval of a beginning that is reported, as a share of the record."""
DATES = ("begins", "begins_early", "begins_late")
RATES = ("severity_rate", "severity_rate_low", "severity_rate_high")
FIGURES = ("severity_permille", "severity_low", "severity_high")


def courses_of(prepared: Prepared, tracks: list[Track], answers: Answers) -> StrainCourses:
    """Follow the buildings through time that may be damaged; `answers` are those to all of
    `prepared`."""
    p_damaged = 1 - answers.category_probability[:, 0].astype(float)
    return strain_courses(prepared, tracks, np.flatnonzero(p_damaged >= MIN_P_FOLLOWED))


def when_columns(courses: StrainCourses, answers: pd.DataFrame) -> pd.DataFrame:
    """Return the columns `WHEN` of the buildings that are followed through time, with their
    index in `answers`.

    Args:
        courses: of M of the B buildings that were asked about.
        answers: B rows with `p_damaged` at the city's share, and the severity at it with
            its interval.
    """
    followed = answers.iloc[courses.building]
    p = followed["p_damaged"].to_numpy(float)
    is_damaged = p >= MIN_P_DAMAGED
    mass = p[:, None] * courses.begins_MN + (1 - p[:, None]) * prior_beginnings()
    below = np.cumsum(mass, axis=1)
    early, late = (
        (below < quantile).sum(1).clip(max=len(BEGINNINGS) - 1) for quantile in (0.05, 0.95)
    )
    has_dates = is_damaged & (BEGINNINGS[late] - BEGINNINGS[early] <= MAX_INTERVAL)
    # The grid's onset is the middle of the onsets that it represents.
    half_step = BEGINNINGS[1] / 2
    day_shares = (
        BEGINNINGS[np.clip(mass.argmax(1), early, late)],
        np.maximum(BEGINNINGS[early] - half_step, 0),
        np.where(late > 0, np.minimum(BEGINNINGS[late] + half_step, 1), 0),
    )
    severity = followed[list(FIGURES)].to_numpy(float).T
    columns = {
        **{name: day_of(courses, share) for name, share in zip(DATES, day_shares, strict=True)},
        **dict(zip(RATES, _scale_severity(severity, *courses.growth_M3.T), strict=True)),
        "p_accelerating": p * courses.p_quickens_M + (1 - p) * prior_quickens(courses.years),
    }
    table = pd.DataFrame(columns, index=followed.index)
    table.loc[~has_dates, list(DATES)] = None
    return table[is_damaged]


def _scale_severity(
    severity: Float, low: Float, middle: Float, high: Float
) -> tuple[Float, Float, Float]:
    """Return severities (3, B), `FIGURES`, times a share with the interval `low` to `high`,
    in the same order.

    The errors of severity and share are assumed to be independent.
    """
    whole, whole_low, whole_high = severity
    value = whole * middle
    error_below = np.hypot((whole - whole_low) * middle, whole * (middle - low))
    error_above = np.hypot((whole_high - whole) * middle, whole * (high - middle))
    return value, np.maximum(value - error_below, 0), value + error_above


def day_of(courses: StrainCourses, share: Float) -> NDArray[np.object_]:
    """Return the ISO dates of shares of the record."""
    start, end = courses.period.astype("datetime64[D]")
    days = np.rint(share * ((end - start) / np.timedelta64(1, "D"))).astype(int)
    return np.asarray((start + days).astype(str), object)


def course_rows(
    courses: StrainCourses, footprint: NDArray[np.intp], predictions: geopandas.GeoDataFrame
) -> pd.DataFrame:
    """Return the layer `courses`: of each building with a rate, its severity on the first
    day of each quarter.

    And on the first and last of the record.

    Args:
        courses: of M of the B buildings that were asked about. footprint: (B,) row of each
            in `predictions`.
        predictions: with the columns `WHEN`.
    """
    start, end = courses.period.astype("datetime64[D]")
    quarters = np.arange(start.astype("datetime64[M]"), end.astype("datetime64[M]") + 1)
    quarters = quarters[quarters.astype(int) % 3 == 0].astype("datetime64[D]")
    days = np.unique(np.r_[start, quarters[(quarters > start) & (quarters < end)], end])
    share_of_record = (days - start) / (end - start)
    row = footprint[courses.building]
    shown = np.flatnonzero(predictions["severity_rate"].notna().to_numpy()[row])
    table = predictions.iloc[row[shown]]
    parts = []
    for number, severity in zip(shown, table[list(FIGURES)].to_numpy(float), strict=True):
        reached_share = (
            np.interp(share_of_record, TIME, share) for share in courses.reached_M3G[number]
        )
        parts.append(_scale_severity(severity, *reached_share))
    figures = (
        np.array(parts)
        .reshape(-1, len(FIGURES), len(days))
        .transpose(0, 2, 1)
        .reshape(-1, len(FIGURES))
    )
    return pd.DataFrame(
        {
            "building_id": np.repeat(table["building_id"].to_numpy(object), len(days)),
            "date": np.tile(days.astype(str).astype(object), len(table)),
            **dict(zip(FIGURES, figures.T, strict=True)),
        }
    )
