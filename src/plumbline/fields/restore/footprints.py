"""Read a restored field off at footprints: how each moves, and how it moves against its
neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import geopandas
import numpy as np
import pandas as pd
import shapely
from numpy.typing import NDArray

from plumbline.core.console import track
from plumbline.core.errors import InputError
from plumbline.fields.prepare.grid import Grid
from plumbline.fields.restore.field import BANDS, WINDOW, Field, RestoredWindow, restore_window
from plumbline.params import Prepare
from plumbline.prepare.assignment.owners import footprint_middle
from plumbline.serve.place.surroundings import Comparable, medians_around
from plumbline.serve.predictions import write_table
from plumbline.sources.city.in_memory import AS_THEY_ARE, Reading
from plumbline.sources.footprints.area import Area
from plumbline.sources.footprints.buildings import read_buildings

AGAINST = "against_neighbours_mm"
FIGURES = ("displacement_mm", AGAINST)
"""Columns of each footprint, each with `_low` and `_high`: a 90 % interval.

`displacement_mm`: mean over it, in `direction`: `up`, or `los` (towards the satellite)
where one direction sees it. `against_neighbours_mm`: `displacement_mm` less the median of
the other footprints around, as `surroundings` has it. A field does not resolve how a
footprint tilts or bends, so neither is a column (docs/decisions/0038-fields.md).
"""
UP = BANDS.index("up_mm")
LOW, HIGH = 5, 95
LAYER = "buildings"
"""Name of the table in a GeoPackage."""
MIN_MARGIN, MAX_MARGIN = 8, 16
"""Cells between a window's edge and the middles of its footprints, for their walls and
neighbours."""


class _FootprintSamples(NamedTuple):
    """Samples of a window in the cells of a footprint."""

    direction: str
    cells: NDArray[np.bool_]
    """(rows, columns) mask of its cells that have a value."""
    samples: NDArray[np.floating[Any]]
    """(K, cells) mm, widened to the calibrated deviation."""
    half_width: float
    """Half of the calibrated interval, in standard deviations."""


def write_buildings(
    field: Field, buildings: Path, out: Path, reading: Reading = AS_THEY_ARE
) -> geopandas.GeoDataFrame:
    """Write a table of footprints with `FIGURES`, in the format of the suffix: csv,
    GeoPackage, GeoJSON, Parquet.

    It has all footprints, or those with their middle in the box of a part. A footprint with
    cells too far from points has no figures, and `restored` false.

    Raises:
        InputError: the footprints are refused, or none is in the field.
    """
    corners = np.column_stack([field.grid.eastings[[0, -1]], field.grid.northings[[0, -1]]])
    area, stated = Area.around(corners, field.crs), reading.ingest.footprints
    footprints = read_buildings(
        buildings,
        field.crs,
        id_column=reading.id_column,
        layer=reading.layer,
        stated=stated,
        area=area,
    )
    middles = footprint_middle(footprints.geometry.to_numpy())
    is_inside = field.grid.near(middles, 0)
    if not is_inside.any():
        where = "where the points are" if field.grid == field.full_grid else "in the box of --bbox"
        raise InputError(
            f"{buildings}: no footprint is {where}. Give footprints of that place.",
            key="footprints.none_in_field",
        )
    radius_m = Prepare().neighbours_m
    margin = int(np.clip(np.ceil(radius_m / field.full_grid.cell_m) + 2, MIN_MARGIN, MAX_MARGIN))
    rows: dict[int, dict[str, Any]] = {}
    groups = list(_group_by_window(field.full_grid, middles, np.flatnonzero(is_inside), margin))
    for grid, members in track(groups, len(groups), "buildings"):
        window = restore_window(field.observations, grid, field.package.model, field.settings)
        if window is None:
            continue
        near = np.flatnonzero(grid.near(middles, 0)).tolist()
        sampled = (
            (number, _sample_footprint(footprints.geometry.iloc[number], grid, window))
            for number in near
        )
        samples = {number: footprint for number, footprint in sampled if footprint is not None}
        against = _compare_with_neighbours(samples, middles, radius_m)
        for number in members:
            if number in samples:
                rows[number] = _summarise_displacement(samples[number]) | against.get(number, {})
    columns = ["direction"] + [name + end for name in FIGURES for end in ("", "_low", "_high")]
    figures = pd.DataFrame.from_dict(rows, orient="index", columns=columns).reindex(
        range(len(footprints))
    )
    table = footprints.reset_index(drop=True)
    table["restored"] = figures["displacement_mm"].notna().to_numpy()
    for column in columns:
        table[column] = figures[column].to_numpy()
    if field.grid != field.full_grid:
        table = table[is_inside].reset_index(drop=True)
    save_table(table, out, LAYER)
    return table


def _group_by_window(
    grid: Grid, middles: NDArray[np.floating[Any]], numbers: NDArray[np.intp], margin: int
) -> Iterator[tuple[Grid, list[int]]]:
    """Yield windows with the footprints that have their middle in it, `margin` cells or
    more from its edge.

    Args:
        grid: over all points. middles: (F, 2) m, of all footprints. numbers: footprints to group.
        margin: cells for the walls of each footprint and for its neighbours.
    """
    step = WINDOW - 2 * margin
    key = np.column_stack(grid.place(middles[numbers])) // step
    for corner in np.unique(key, axis=0):
        members = numbers[(key == corner).all(axis=1)].tolist()
        first_row, first_column = (corner * step - margin).tolist()
        yield grid.window(first_row, first_column, WINDOW, WINDOW), members


def _sample_footprint(
    footprint: shapely.Geometry, grid: Grid, window: RestoredWindow
) -> _FootprintSamples | None:
    """Return the window's samples in the cells of a footprint; None where fewer than three
    or half have a value."""
    east, north = np.meshgrid(grid.eastings, grid.northings)
    inside = shapely.contains_xy(footprint.buffer(0.75 * grid.cell_m), east, north)
    name = "up" if (inside & np.isfinite(window.bands[UP])).sum() >= 0.5 * inside.sum() else "los"
    mean, deviation, low, high = window.bands[BANDS.index(f"{name}_mm") :][:4]
    cells = inside & np.isfinite(mean)
    if cells.sum() < 3 or cells.sum() < 0.5 * inside.sum():
        return None
    samples = window.samples[name][:, cells]
    # Samples vary less than the calibrated deviation: they are widened to it, at most ten times.
    factor = np.minimum(deviation[cells] / np.maximum(samples.std(axis=0, ddof=1), 1e-6), 10)
    middle = samples.mean(axis=0)
    half_width = float(np.median((high - low)[cells] / 2 / deviation[cells]))
    return _FootprintSamples(name, cells, middle + (samples - middle) * factor, half_width)


def _compare_with_neighbours(
    footprints: dict[int, _FootprintSamples], middles: NDArray[np.floating[Any]], radius_m: float
) -> dict[int, dict[str, float]]:
    """Return the displacement of footprints less the median of their neighbours, by their number.

    The difference is computed in each sample, so errors that neighbours share cancel.

    Args:
        footprints: of a window, by number. middles: (F, 2) m, of all.
        radius_m: largest distance of a neighbour.
    """
    columns = {}
    for direction in {footprint.direction for footprint in footprints.values()}:
        numbers = [n for n, footprint in footprints.items() if footprint.direction == direction]
        equal = np.ones(len(numbers))  # variances: all footprints count alike in the median
        differences = [
            values
            - medians_around(middles[numbers], Comparable(values, equal, equal > 0), radius_m).value
            for values in np.array([footprints[n].samples.mean(axis=1) for n in numbers]).T
        ]
        mean, deviation = np.mean(differences, axis=0), np.std(differences, axis=0, ddof=1)
        halves = deviation * [footprints[number].half_width for number in numbers]
        for number, value, half in zip(numbers, mean, halves, strict=True):
            columns[number] = {
                AGAINST: value,
                f"{AGAINST}_low": value - half,
                f"{AGAINST}_high": value + half,
            }
    return columns


def _summarise_displacement(footprint: _FootprintSamples) -> dict[str, Any]:
    """Return the mean displacement of a footprint, with its direction and its interval."""
    values = footprint.samples.mean(axis=1)
    mean, low, high = float(values.mean()), *map(float, np.percentile(values, [LOW, HIGH]))
    # Samples that all agree have ends that differ from their mean in the last bit.
    ends = {"displacement_mm_low": min(low, mean), "displacement_mm_high": max(high, mean)}
    return {"direction": footprint.direction, "displacement_mm": mean, **ends}


def save_table(table: geopandas.GeoDataFrame, out: Path, layer: str) -> None:
    """Write a table in the format of the suffix; `layer` is its name in a GeoPackage."""
    if out.suffix.lower() == ".csv":
        table.drop(columns="geometry").to_csv(out, index=False)
    else:
        write_table(table, out, layer)
