"""Find moving areas in a restored field: neighbouring cells that move against the rest, by more than they may err.

The rules and outlines are those of `plumbline.serve.place.moving_areas`, with cells for points, and with the interval
of each cell for the noise of a track.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import shapely
from scipy.ndimage import binary_dilation
from scipy.special import ndtri

from plumbline.fields.model.spread import COMPONENTS, COVERAGE
from plumbline.fields.prepare.grid import Float
from plumbline.fields.restore.field import BANDS, Blend, Field
from plumbline.serve.layers import colour_limit
from plumbline.serve.place.moving_areas import MOVES, REACH, STILL, Velocities, outline, tabulate
from plumbline.serve.qgis.styles import FIELD_AREA_ALIASES, add_styles, areas_style
from plumbline.sources.city.causes import MOVING_AREAS

COLUMNS = ("name", "direction", "rate_mm_year", "displacement_mm", "cells", "points", "buildings", "geometry")
ROWS = 512
"""Of the grid that are looked at together."""
SEEN = 1000
"""Rows and columns that say the median of a field, about."""
HALF = float(ndtri((1 + COVERAGE) / 2))
"""Half of the interval of normal errors, in standard deviations."""


def field_areas(field: Field, blend: Blend, footprints: geopandas.GeoDataFrame | None = None) -> geopandas.GeoDataFrame:
    """Return the moving areas of a field, the fastest first.

    Args:
        field: what was restored. blend: its values. footprints: buildings in its CRS; None: they are not counted.

    Returns:
        `name` (`A1` is the fastest), `direction` (`up`, `east` or `los`), `rate_mm_year` (median of the cells, less
        that of the field; along `los`, less that of the points), `displacement_mm` (the same over the whole record),
        `cells`, `points` (of all tracks, in the area), `buildings` (footprints that it touches) if there are any, and
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
    place, found = _moving_cells(name, field, blend)
    points = shapely.points(field.found.east_north)
    return [
        {
            "direction": name,
            "displacement_mm": row["rate_mm_year"] * field.years,
            "cells": len(own),
            "points": len(shapely.STRtree(points).query(row["geometry"], predicate="intersects")),
            **row,
        }
        for own, row in outline(place, found, REACH * field.grid.cell_m)
    ]


def _moving_cells(name: str, field: Field, blend: Blend) -> tuple[Float, Velocities]:
    """Return the places (N, 2) of all cells that move and of their neighbours, and their velocities."""
    grid, band = field.grid, BANDS.index(f"{name}_mm")
    # Where two directions see most of a place, `los` is told at its edges alone; their median says nothing of the rest.
    line = field.found.change[field.found.side == field.settings.line_side]
    seen = line if name == "los" else blend.thinned([band], SEEN)
    seen = seen[np.isfinite(seen)]
    level = float(np.median(seen)) if len(seen) else 0.0
    parts = [np.zeros((0, 4))]
    for first in range(0, grid.rows, ROWS):
        start, last = max(0, first - 1), min(first + ROWS, grid.rows)
        mean, _, low, high = blend.rows(start, min(last + 1, grid.rows))[band : band + 4]
        against, noise = (mean - level) / field.years, (high - low) / 2 / HALF / field.years
        moves = np.abs(against) > np.maximum(MOVES * noise, STILL)
        near = binary_dilation(moves, np.ones((3, 3))) & np.isfinite(against)
        near[: first - start] = near[last - start :] = False
        row, column = np.nonzero(near)
        parts.append(np.column_stack([grid.eastings[column], grid.northings[start + row], against[near], noise[near]]))
    east, north, against, noise = np.concatenate(parts).T
    return np.column_stack([east, north]), Velocities(against, noise)
