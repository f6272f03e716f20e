"""StaMPS's time series as StaMPS-Visualizer's MATLAB script exports them: a matrix with a row of metadata."""

from datetime import date

from tests.sources.points.write_points import DAYS, LATITUDE, LONGITUDE, degrees, series

HEADER = [f"export_res_{number:2d}" for number in range(1, 4 + len(DAYS))]
IDS = [f"P{number:07d}" for number in range(1, 7)]
DATENUMS = [date(int(day[:4]), int(day[4:6]), int(day[6:])).toordinal() + 366 for day in DAYS]
"""MATLAB's numbers of the days: `datenum(2000, 1, 1)` is 730486."""


def rows(count: int = 6) -> list[dict[str, str]]:
    """Cells of the metadata, whose day numbers are one less, and of `count` points."""
    latitude, longitude = degrees(count)
    meta = [f"{LONGITUDE}", f"{LATITUDE}", "NaN", *(str(number - 1) for number in DATENUMS)]
    points = [
        [longitude[number], latitude[number], "-1.5", *(f"{value:.7g}" for value in series(count)[number])]
        for number in range(count)
    ]
    return [dict(zip(HEADER, row, strict=True)) for row in (meta, *points)]
