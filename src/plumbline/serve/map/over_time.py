"""Write when damage began, in words, and choose the strain over time that the map draws."""

from __future__ import annotations

import math
from typing import Any

import geopandas
import pandas as pd

from plumbline.serve.columns import format_permille, format_share
from plumbline.serve.rules import began_with_record

INTERVAL = "90 % interval"
MAX_COURSES = 5_000
"""Most buildings whose strain over time is in a map, the most probably damaged: about 1 MB
of the file."""


def when_text(building: Any) -> str:
    """Write when damage began and how fast it grows, as `begins 2023-05 (90 % interval
    ...); grows by ...`.

    Args:
        building: has the columns `WHEN` of the predictions; an empty text where they are empty.
    """
    parts = []
    if isinstance(building.begins, str):
        parts.append(f"begins {_beginning_text(building)}")
    if not math.isnan(building.severity_rate):
        rate, low, high = map(
            format_permille,
            (building.severity_rate, building.severity_rate_low, building.severity_rate_high),
        )
        parts.append(f"grows by {rate} permille a year ({INTERVAL} {low} to {high})")
    if building.p_accelerating > 0.5:
        parts.append(
            "faster in the last year than before (probability "
            f"{format_share(building.p_accelerating)})"
        )
    return "; ".join(parts)


def _beginning_text(building: Any) -> str:
    """Write the month in which damage began; see `when_text`.

    The interval reaches before the most probable day, except on the first day of the
    record. There the movement may be older than the record, and the interval has no
    beginning.
    """
    month, first_month, last_month = (
        day[:7] for day in (building.begins, building.begins_early, building.begins_late)
    )
    if began_with_record(building):
        interval = f" ({INTERVAL} to {last_month})" if last_month != month else ""
        return f"at or before {month}{interval}"
    return (
        month
        if first_month == last_month
        else f"{month} ({INTERVAL} {first_month} to {last_month})"
    )


def courses(shown: geopandas.GeoDataFrame, rows: pd.DataFrame | None) -> dict[str, Any]:
    """Make the strain over time of the judged buildings, in the order of rows.

    Args:
        shown: predictions, those whose courses matter most first. rows: see `course_rows`.

    Returns:
        `dates`, once for all. `buildings`: row number, as text, to its severity, permille,
        at each of them: `low`, `value` and `high`.
    """
    if rows is None or not len(rows):
        return {"dates": [], "buildings": {}}
    row_number = {name: row for row, name in enumerate(shown["building_id"])}
    rows_by_building = dict(tuple(rows.groupby("building_id", sort=False)))
    names = sorted(rows_by_building, key=row_number.__getitem__)[:MAX_COURSES]
    columns = {"low": "severity_low", "value": "severity_permille", "high": "severity_high"}
    return {
        "dates": rows_by_building[names[0]]["date"].tolist(),
        "buildings": {
            str(row_number[name]): {
                key: rows_by_building[name][column].round(3).tolist()
                for key, column in columns.items()
            }
            for name in names
        },
    }
