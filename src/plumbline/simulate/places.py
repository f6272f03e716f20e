"""Where cities are put in the coordinate system of the products."""

from __future__ import annotations

PLACES = (
    (3973000.0, 3263000.0),
    (4321000.0, 3210000.0),
    (3761000.0, 2889000.0),
    (4530000.0, 2090000.0),
    (3665000.0, 2065000.0),
    (4641000.0, 2951000.0),
    (3161000.0, 2031000.0),
    (4437000.0, 2780000.0),
    (3923000.0, 2534000.0),
    (5070000.0, 3285000.0),
    (4483000.0, 3629000.0),
    (4792000.0, 2807000.0),
)
"""Centres of cities in EPSG:3035, m: round numbers, nobody's real buildings."""
PLACES_APART_M = 40_000.0


def place(slot: int) -> tuple[float, float]:
    """Easting and northing of a city's centre, m; every slot has its own."""
    ring, number = divmod(slot, len(PLACES))
    easting, northing = PLACES[number]
    return easting + ring * PLACES_APART_M, northing
