"""Warn of transformations between datums that are known to metres only, and find the grids that
would improve them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from pyproj import CRS, Transformer
from pyproj.transformer import AreaOfInterest, TransformerGroup

from plumbline.core.console import warn
from plumbline.sources.crs import GLOBE, transformer

MIN_WARNED_ERROR_M = 1.0
"""Smallest error of a transformation between datums that is warned of. WGS 84 itself is known to
this error only, so that it is warned of only where a better transformation exists."""
BALLPARK_ERROR_M = 100.0
"""Error where degrees of a datum are taken for those of another one."""
COMMON_DATUMS = frozenset({"WGS 84", "ETRS89"})
"""Geographic CRSs of satellite products, which are the same within `MIN_WARNED_ERROR_M`."""


def warn_of_datum_error(
    source: str, transformers: Sequence[Transformer], place: tuple[float, float], wanted_crs: str
) -> None:
    """Warn if places are transformed between datums with an error of metres, as without a grid.

    Args:
        source: names the file.
        transformers: steps from the CRS of the file to the wanted one, which have transformed
            the places of the file: among several operations, PROJ chooses one by the place.
        place: x and y of one of them, in its CRS.
        wanted_crs: name of the wanted CRS.
    """
    crss = [transformers[0].source_crs or CRS(GLOBE), transformers[-1].target_crs or CRS(GLOBE)]
    if {_name_without_axes(crs.geodetic_crs or crs) for crs in crss} <= COMMON_DATUMS:
        return
    operations = [step.get_last_used_operation() for step in transformers]
    error_m = sum(max(operation.accuracy, 0.0) for operation in operations)
    if any("Ballpark" in operation.description for operation in operations):
        error_m = BALLPARK_ERROR_M
    grids, grid_error_m = find_missing_grids(crss[0], crss[1], place, error_m)
    if error_m < MIN_WARNED_ERROR_M or (error_m == MIN_WARNED_ERROR_M and not grids):
        return
    advice = (
        f", as PROJ's grid {', '.join(grids)} is not installed ({grid_error_m:.2g} m with it). Run "
        f"`{' && '.join(f'pyproj sync --file {grid}' for grid in grids)}`, or"
    )
    warn(
        "%s: from %s, places are known to %.3g m only%s reproject the file to %s by a program that "
        "has that country's grids, as QGIS.",
        source,
        _name_without_axes(crss[0]),
        error_m,
        advice if grids else ". If you can,",
        wanted_crs,
        key="crs.approximate_datum",
    )


def find_missing_grids(
    source: CRS, target: CRS, place: tuple[float, float], error_m: float
) -> tuple[list[str], float]:
    """Return the grids that are not installed and reduce the error between two CRSs most, and
    the error with them, m.

    Args:
        source: CRS of `place`, x before y. target: the other CRS.
        place: where the transformation is needed. error_m: error without them.
    """
    area = AreaOfInterest(*2 * transformer(source, GLOBE).transform(*place))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyproj warns of the grids itself
        group = TransformerGroup(
            source, target, always_xy=True, area_of_interest=area, allow_ballpark=False
        )
    better = [
        (operation.accuracy, [grid.short_name for grid in operation.grids if not grid.available])
        for operation in group.unavailable_operations
        if 0 <= operation.accuracy < error_m and all(grid.url for grid in operation.grids)
    ]
    grid_error_m, grids = min(better, default=(error_m, []))
    return grids, grid_error_m


def _name_without_axes(crs: CRS) -> str:
    """Return the name of a CRS without what PROJ adds where the axes are in another order."""
    return str(crs.name).partition(" (with axis order")[0]
