"""Find moving areas in a restored field: neighbouring cells that move against the rest, by
more than they may err.

The rules and outlines are those of `plumbline.serve.place.moving_areas`, with cells for
points, and with the interval of each cell for the noise of a track.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import shapely
from scipy.ndimage import binary_dilation
from scipy.special import ndtri

from plumbline.core.arrays import Float
from plumbline.fields.model.spread import COMPONENTS, COVERAGE
from plumbline.fields.restore.field import BANDS, Blend, Field
from plumbline.serve.layers import colour_limit
from plumbline.serve.place.moving_areas import MOVES, REACH, STILL, Velocities, outline, tabulate
from plumbline.serve.qgis.styles import FIELD_AREA_ALIASES, add_styles, areas_style
from plumbline.sources.city.causes import MOVING_AREAS

COLUMNS = (
    "name",
    "direction",
    "rate_mm_year",
    "displacement_mm",
    "cells",
    "points",
    "buildings",
    "geometry",
)
ROWS = 512
"""Rows of the grid that are searched at a time."""
MEDIAN_CELLS = 1000
"""Rows and columns, at most, of the thinned grid whose median is the level of a field."""
HALF_INTERVAL_SD = float(ndtri((1 + COVERAGE) / 2))
"""Half of the interval of a normal distribution, in standard deviations."""


def field_areas(
    field: Field, blend: Blend, footprints: geopandas.GeoDataFrame | None = None
) -> geopandas.GeoDataFrame:
    """Return the moving areas of a field, the fastest first.

    Args:
        field: what was restored. blend: its values. footprints: buildings in its CRS; None:
            they are not counted.

    Returns:
        `name` (`A1` is the fastest), `direction` (`up`, `east` or `los`), `rate_mm_year`
        (median of the cells, less that of the field; along `los`, less that of the points),
        `displacement_mm` (the same over the whole record), `cells`, `points` (of all
        tracks, in the area), `buildings` (footprints that it touches) if there are any, and
        the polygon.
    """
    rows = [row for name in COMPONENTS for row in _areas(name, field, blend)]
    columns = [name for name in COLUMNS if footprints is not None or name != "buildings"]
    if footprints is None:
        footprints = geopandas.GeoDataFrame(geometry=[], crs=field.crs)
    return tabulate(rows, columns, field.crs, footprints)


def style_areas(areas: geopandas.GeoDataFrame, path: Path) -> None:
    """Give the areas in a GeoPackage the style in which QGIS opens them."""
    limit = colour_limit(areas["rate_mm_year"].to_numpy(float))
    add_styles(path, {MOVING_AREAS: areas_style(MOVING_AREAS, limit, FIELD_AREA_ALIASES)})


def _areas(name: str, field: Field, blend: Blend) -> list[dict[str, Any]]:
    positions, velocities = _find_moving_cells(name, field, blend)
    points = shapely.points(field.observations.east_north)
    return [
        {
            "direction": name,
            "displacement_mm": row["rate_mm_year"] * field.years,
            "cells": len(cells),
            "points": len(shapely.STRtree(points).query(row["geometry"], predicate="intersects")),
            **row,
        }
        for cells, row in outline(positions, velocities, REACH * field.grid.cell_m)
    ]


def _find_moving_cells(name: str, field: Field, blend: Blend) -> tuple[Float, Velocities]:
    """Return positions (N, 2) and velocities of all cells that move, and of their neighbours."""
    grid, band = field.grid, BANDS.index(f"{name}_mm")
    # `los` has values where one direction alone sees a place: often the edges, whose median
    # is not the level of the field. The points of that direction cover the whole field.
    points_mm = field.observations.change[field.observations.side == field.settings.line_side]
    change_mm = points_mm if name == "los" else blend.thinned([band], MEDIAN_CELLS)
    change_mm = change_mm[np.isfinite(change_mm)]
    level_mm = float(np.median(change_mm)) if len(change_mm) else 0.0
    parts = [np.zeros((0, 4))]
    for first in range(0, grid.rows, ROWS):
        # One row more on either side: the neighbours of its moving cells may be in this part.
        start, last = max(0, first - 1), min(first + ROWS, grid.rows)
        mean, _, low, high = blend.rows(start, min(last + 1, grid.rows))[band : band + 4]
        rate, noise = (
            (mean - level_mm) / field.years,
            (high - low) / 2 / HALF_INTERVAL_SD / field.years,
        )
        is_moving = np.abs(rate) > np.maximum(MOVES * noise, STILL)
        is_near = binary_dilation(is_moving, np.ones((3, 3))) & np.isfinite(rate)
        is_near[: first - start] = is_near[last - start :] = False
        row, column = np.nonzero(is_near)
        parts.append(
            np.column_stack(
                [grid.eastings[column], grid.northings[start + row], rate[is_near], noise[is_near]],
            )
        )
    east, north, rate, noise = np.concatenate(parts).T
    return np.column_stack([east, north]), Velocities(rate, noise)
