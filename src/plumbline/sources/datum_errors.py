"""Warn of transformations between datums that are known to metres only, and find the grids that
would improve them."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Sequence

import numpy as np
from pyproj import CRS, Transformer
from pyproj.exceptions import ProjError
from pyproj.transformer import AreaOfInterest, TransformerGroup

from plumbline.core.console import warn
from plumbline.sources.crs import GLOBE, transformer

ETRS89 = "EPSG:4258"
"""Degrees of Europe's datum, to which national grids lead that do not lead to WGS 84."""
MIN_WARNED_ERROR_M = 1.0
"""Smallest error of a transformation between datums that is warned of, if a grid reduces it."""
MAX_UNIMPROVED_ERROR_M = 2.5
"""Largest error of a transformation that is not warned of, if no grid reduces it: nothing can be
done, and a radar places its scatterers no better."""
BALLPARK_ERROR_M = 100.0
"""Error where degrees of a datum are taken for those of another one."""
WORLD = (-180.0, -90.0, 180.0, 90.0)
"""West, south, east and north of the area of an operation that states none, degrees."""
MODERN_DATUMS = (
    "World Geodetic System 1984",
    "European Terrestrial Reference",
    "International Terrestrial Reference Frame",
    "IGS",
    "Geocentric Datum of Australia",
    "NAD83",
    "North American Datum 1983",
    "China 2000",
    "Japanese Geodetic Datum 20",
    "Reseau Geodesique Francais 1993",
    "Sistema de Referencia Geocentrico para las AmericaS 2000",
)
"""Beginnings of the names of datums that are the same within `MAX_UNIMPROVED_ERROR_M`. Between
some of them, the EPSG registry states 2 m to 4 m, or nothing."""


def warn_of_datum_error(
    source: str, transformers: Sequence[Transformer], place: tuple[float, float], wanted_crs: str
) -> None:
    """Warn if places are transformed between datums with an error of metres, as without a grid.

    Args:
        source: names the file.
        transformers: steps from the CRS of the file to the wanted one.
        place: typical x and y of the file, in its CRS.
        wanted_crs: name of the wanted CRS.
    """
    error_m = estimate_error_m(transformers, place)
    if not MIN_WARNED_ERROR_M <= error_m < math.inf:
        return
    crss = transformers[0].source_crs or CRS(GLOBE), transformers[-1].target_crs or CRS(GLOBE)
    grids, grid_error_m = find_missing_grids(*crss, place, error_m)
    if error_m <= MAX_UNIMPROVED_ERROR_M and not grids:
        return
    advice = (
        f", as PROJ's grid {', '.join(grids)} is not installed ({grid_error_m:.2g} m with it). Run "
        f"`{' && '.join(f'pyproj sync --file {grid}' for grid in grids)}`, or reproject the file "
        f"to {wanted_crs} by a program that has that country's grids, as QGIS."
    )
    warn(
        "%s: from %s, places are known to %.3g m only%s",
        source,
        str(crss[0].name).partition(" (with axis order")[0],  # which PROJ adds
        error_m,
        advice if grids else f". If its source offers the file in {wanted_crs}, take that.",
        key="crs.approximate_datum",
    )


def is_better_through_etrs89(source: CRS, target: CRS, place: tuple[float, float]) -> bool:
    """Return whether an installed grid makes the way through ETRS89 better than the direct one.

    France's grid, for example, leads to ETRS89, but not to WGS 84.

    Args:
        source: CRS of `place`, x before y. target: the other CRS.
        place: typical of the places.
    """
    if _is_modern(source) and _is_modern(target):
        return False
    steps = [transformer(source, ETRS89), transformer(ETRS89, target)]
    direct_error_m = estimate_error_m([transformer(source, target)], place)
    return estimate_error_m(steps, place) < direct_error_m and any(
        "gridshift" in _last_operation(step).definition for step in steps
    )


def estimate_error_m(transformers: Sequence[Transformer], place: tuple[float, float]) -> float:
    """Return the error, m, of steps between CRSs at a place; 0 between modern datums, infinite
    where a step cannot transform it.

    Args:
        transformers: the steps. Among several operations, PROJ chooses one by the place.
        place: x and y in the CRS of the first step.
    """
    error_m = 0.0
    for step in transformers:
        place = step.transform(*place)
        if not np.isfinite(place).all():
            return math.inf
        if all(_is_modern(crs or CRS(GLOBE)) for crs in (step.source_crs, step.target_crs)):
            continue
        operation = _last_operation(step)
        is_ballpark = "Ballpark" in operation.description
        error_m += BALLPARK_ERROR_M if is_ballpark else max(operation.accuracy, 0.0)
    return error_m


def find_missing_grids(
    source: CRS, target: CRS, place: tuple[float, float], error_m: float
) -> tuple[list[str], float]:
    """Return the grids that are not installed and reduce the error between two CRSs, and the
    error with them, m.

    Of the grids around the place, those of the smallest area count: the boxes of large countries
    cover parts of their neighbours. In place of a modern datum, ETRS89 counts as well.

    Args:
        source: CRS of `place`, x before y. target: the other CRS.
        place: where the transformation is needed. error_m: error without them.
    """
    longitude, latitude = transformer(source, GLOBE).transform(*place)
    area = AreaOfInterest(longitude, latitude, longitude, latitude)
    better = []
    alternatives = [[crs, CRS(ETRS89)] if _is_modern(crs) else [crs] for crs in (source, target)]
    for start, end in itertools.product(*alternatives):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pyproj warns of the grids itself
            group = TransformerGroup(
                start, end, always_xy=True, area_of_interest=area, allow_ballpark=False
            )
        better += [
            (
                _area_square_degrees(
                    *(operation.area_of_use.bounds if operation.area_of_use else WORLD)
                ),
                operation.accuracy,
                [grid.short_name for grid in operation.grids if not grid.available],
            )
            for operation in group.unavailable_operations
            if 0 <= operation.accuracy < error_m and all(grid.url for grid in operation.grids)
        ]
    _, grid_error_m, grids = min(better, default=(0.0, error_m, []))
    return grids, grid_error_m


def _area_square_degrees(west: float, south: float, east: float, north: float) -> float:
    """Return the size of an area of use, which may cross the date line."""
    return ((east - west) % 360 or 360) * (north - south)


def _last_operation(step: Transformer) -> Transformer:
    """Return the operation that a transformer used last; PROJ skips one that changes nothing."""
    try:
        return step.get_last_used_operation()
    except ProjError:
        return step


def _is_modern(crs: CRS) -> bool:
    datum = (crs.geodetic_crs or crs).datum
    return datum is not None and datum.name.startswith(MODERN_DATUMS)
