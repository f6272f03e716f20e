"""Read a restored field off at footprints: its gradient and the angular distortion across each, with intervals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import pandas as pd
import shapely

from plumbline.core.console import track
from plumbline.core.errors import InputError
from plumbline.fields.prepare.grid import Grid
from plumbline.fields.restore.field import BANDS, WINDOW, Field, RestoredWindow, restore_window
from plumbline.serve.predictions import geojson_text
from plumbline.sources.city.in_memory import AS_THEY_ARE, Reading
from plumbline.sources.footprints.area import Area
from plumbline.sources.footprints.buildings import read_buildings

FIGURES = ("displacement_mm", "gradient_mm_m", "angular_distortion_permille")
"""Of each footprint, each with `_low` and `_high`: a 90 % interval.

`displacement_mm`: mean over it, in `direction`: `up`, or `los` (towards the satellite) where one direction sees it.
`gradient_mm_m`: steepest slope of the plane through it, its tilt. `angular_distortion_permille`: the largest slope
between neighbouring cells less that plane (Boscardin and Cording 1989: what the tilt does not explain).
"""
UP = BANDS.index("up_mm")
LOW, HIGH = 5, 95
LAYER = "buildings"
"""Of a GeoPackage."""
MARGIN_CELLS = 8


def write_buildings(field: Field, buildings: Path, out: Path, reading: Reading = AS_THEY_ARE) -> geopandas.GeoDataFrame:
    """Write a table of footprints with `FIGURES`, in the format of the suffix: csv, GeoPackage, GeoJSON, Parquet.

    It has all footprints, or those with their middle in the box that was asked for. A footprint whose cells are too far
    from points has no figures, and `restored` false.

    Raises:
        InputError: the footprints are refused, or lie elsewhere than the field.
    """
    corners = np.column_stack([field.grid.eastings[[0, -1]], field.grid.northings[[0, -1]]])
    area, stated = Area.around(corners, field.crs), reading.ingest.footprints
    footprints = read_buildings(buildings, field.crs, reading.id_column, reading.layer, stated, area)
    inside = field.grid.near(np.column_stack([footprints.centroid.x, footprints.centroid.y]), 0)
    if not inside.any():
        where = "where the points are" if field.grid == field.whole else "in the box of --bbox"
        raise InputError(f"{buildings}: no footprint lies {where}. Give footprints of that place.")
    if field.grid != field.whole:
        footprints, inside = footprints[inside].reset_index(drop=True), inside[inside]
    rows: dict[int, dict[str, Any]] = {}
    groups = list(_groups(field.whole, footprints[inside]))
    for grid, members in track(groups, len(groups), "buildings"):
        one = restore_window(field.found, grid, field.package.model, field.settings)
        if one is not None:
            for number in members:
                rows[number] = _figures(footprints.geometry.iloc[number], grid, one, field)
    columns = ["direction"] + [name + end for name in FIGURES for end in ("", "_low", "_high")]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=columns).reindex(range(len(footprints)))
    result = footprints.reset_index(drop=True)
    result["restored"] = table["displacement_mm"].notna().to_numpy()
    for column in columns:
        result[column] = table[column].to_numpy()
    _save(result, out)
    return result


def _groups(grid: Grid, footprints: geopandas.GeoDataFrame) -> Iterator[tuple[Grid, list[int]]]:
    """Yield windows with the footprints near their middle, so that each footprint lies entirely in one window."""
    if footprints.empty:
        return
    row, column = grid.place(np.column_stack([footprints.centroid.x, footprints.centroid.y]))
    step = WINDOW - 2 * MARGIN_CELLS
    key = np.column_stack([row // step, column // step])
    for place in np.unique(key, axis=0):
        members = footprints.index[(key == place).all(axis=1)].tolist()
        top, left = (place * step - MARGIN_CELLS).tolist()
        yield grid.window(top, left, WINDOW, WINDOW), members


def _figures(footprint: shapely.Geometry, grid: Grid, one: RestoredWindow, field: Field) -> dict[str, Any]:
    """Return the figures of one footprint from the window's samples, widened to the calibrated spread."""
    east, north = np.meshgrid(grid.eastings, grid.northings)
    cells = shapely.contains_xy(footprint.buffer(0.75 * grid.cell_m), east, north)
    name = "up" if (cells & np.isfinite(one.bands[UP])).sum() >= 0.5 * cells.sum() else "los"
    band = one.bands[BANDS.index(f"{name}_mm") :]
    told = cells & np.isfinite(band[0])
    if told.sum() < 3 or told.sum() < 0.5 * cells.sum():
        return {}
    samples = one.samples[name][:, told]
    spread = samples.std(axis=0, ddof=1)
    wider = band[1][told] / np.maximum(spread, 1e-6)
    mean = samples.mean(axis=0)
    samples = mean + (samples - mean) * np.minimum(wider, 10)
    place = np.column_stack([east[told] - east[told].mean(), north[told] - north[told].mean()])
    planes = np.linalg.lstsq(np.column_stack([place, np.ones(len(place))]), samples.T, rcond=None)[0]
    tilt = np.hypot(planes[0], planes[1])
    left = np.full((len(samples), *told.shape), np.nan)
    left[:, told] = samples - (np.column_stack([place, np.ones(len(place))]) @ planes).T
    slopes = [np.abs(np.diff(left, axis=axis)) / grid.cell_m for axis in (1, 2)]
    flat = np.concatenate([slope.reshape(len(samples), -1) for slope in slopes], axis=1)
    distortion = np.nanmax(np.where(np.isfinite(flat), flat, 0), axis=1)
    found: dict[str, Any] = {"direction": name}
    for figure, values in zip(FIGURES, (samples.mean(axis=1), tilt, distortion), strict=True):
        found[figure] = float(values.mean())
        low, high = map(float, np.percentile(values, [LOW, HIGH]))
        # Samples that all agree have ends that differ from their mean in the last bit.
        found[f"{figure}_low"], found[f"{figure}_high"] = min(low, found[figure]), max(high, found[figure])
    return found


def _save(table: geopandas.GeoDataFrame, out: Path) -> None:
    suffix = out.suffix.lower()
    if suffix == ".csv":
        table.drop(columns="geometry").to_csv(out, index=False)
    elif suffix == ".parquet":
        table.to_parquet(out, index=False)
    elif suffix == ".gpkg":
        # GDAL would name the layer as the file, whose name is a temporary one.
        table.to_file(out, driver="GPKG", layer=LAYER, engine="pyogrio")
    else:
        out.write_text(geojson_text(table), encoding="utf-8")
