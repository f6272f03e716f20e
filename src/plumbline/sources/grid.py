"""How a projected CRS draws a place: how long a metre is there, and where its axes point."""

from __future__ import annotations

import functools

import numpy as np
from pyproj import CRS, Proj, Transformer
from pyproj.exceptions import ProjError

GLOBE = "EPSG:4326"
"""Degrees of latitude and longitude mean WGS 84, where nothing else is stated."""
MAX_STRETCH = 0.02
"""Strain is movement over length: where a CRS draws a metre longer, it would come out smaller by as much. UTM stays
within 0.4 %, EPSG:3035 in Europe within 2 %; Web Mercator doubles lengths at 60 degrees."""
MAX_TURN_DEG = 45.0
"""Lines of sight and quadrants are by east and north: axes that point elsewhere, as those of South Africa (west, south)
and of the poles, would turn one against the other. EPSG:3035 turns by 28 degrees in Iceland (docs/decisions/0003)."""
STEP_DEG = 1e-5


@functools.lru_cache(maxsize=64)
def transformer(source: CRS | str, target: CRS | str) -> Transformer:
    """From one CRS to another, x before y; to look the way up takes a tenth of a second, so each is looked up once.

    Never by taking one datum for another, which is wrong by a hundred metres, where PROJ knows better.
    """
    try:
        return Transformer.from_crs(source, target, always_xy=True, allow_ballpark=False)
    except ProjError:
        return Transformer.from_crs(source, target, always_xy=True)


def length_of_a_metre(crs: CRS, longitude: float, latitude: float) -> float:
    """Length in the CRS of a metre on the ground, along the meridian or the parallel, whichever is further from 1."""
    if not np.isfinite(longitude + latitude):
        return 1.0
    meridian = crs.prime_meridian  # from which the formulas of the CRS count
    west = 0.0 if meridian is None else float(np.degrees(meridian.longitude * float(meridian.unit_conversion_factor)))
    factors = Proj(crs).get_factors(longitude - west, latitude)
    scales = [float(scale) for scale in (factors.meridional_scale, factors.parallel_scale) if np.isfinite(scale)]
    return max(scales, key=lambda scale: abs(scale - 1), default=1.0)


def turn_of_axes(crs: CRS, longitude: float, latitude: float) -> float:
    """Degrees by which x is off east or y off north there, whichever is more; 0 where the CRS cannot show the place."""
    if not np.isfinite(longitude + latitude):
        return 0.0
    places = [longitude, longitude + STEP_DEG, longitude], [latitude, latitude, latitude + STEP_DEG]
    x, y = transformer(GLOBE, crs).transform(*places)
    at = np.array(x) + 1j * np.array(y)
    off = np.abs(np.angle((at[1:] - at[0]) / np.array([1, 1j]), deg=True))
    return float(off.max()) if np.isfinite(off).all() else 0.0
