"""DePSI's csv: an unnamed index, the points' columns, and three blocks of columns an epoch."""

from __future__ import annotations

from tests.sources.points.write_points import DAYS, degrees, series

FIXED = [
    "",
    "pnt_id",
    "pnt_flags",
    "pnt_lat",
    "pnt_lon",
    "pnt_line",
    "pnt_pixel",
    "pnt_height",
    "pnt_demheight",
    "pnt_demheight_highres",
    "pnt_enscoh",
    "pnt_ampconsist",
    "pnt_linear",
]
HEADER = [*FIXED, *(f"{block}_{day}" for block in ("d", "a", "h2ph") for day in DAYS)]
IDS = [f"L00003234P{6283 + number:08d}" for number in range(6)]
HEIGHTS = [43.5 + number for number in range(6)]


def rows(count: int = 6) -> list[dict[str, str]]:
    """Cells of `count` points."""
    latitude, longitude = degrees(count)
    return [
        dict(
            zip(
                HEADER,
                [
                    str(number),
                    IDS[number],
                    "100001",
                    latitude[number],
                    longitude[number],
                    "3234",
                    str(6283 + number),
                    str(HEIGHTS[number]),
                    "48.8",
                    "43.4",
                    f"{0.7 + number / 100:.5f}",
                    "0.54",
                    "-0.00026",
                    *(f"{value / 1000:g}" for value in series(count)[number]),
                    *["1.99846"] * len(DAYS),
                    *["-0.48696"] * len(DAYS),
                ],
                strict=True,
            )
        )
        for number in range(count)
    ]
