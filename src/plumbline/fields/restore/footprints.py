"""Read a restored field off at footprints: how each moves, and how it moves against its neighbours."""

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
"""Of each footprint, each with `_low` and `_high`: a 90 % interval.

`displacement_mm`: mean over it, in `direction`: `up`, or `los` (towards the satellite) where one direction sees it.
`against_neighbours_mm`: `displacement_mm` less the median of the other footprints around, as `surroundings` has it. A
field does not resolve how a footprint tilts or bends: neither is read off
(docs/decisions/0038-fields.md).
"""
UP = BANDS.index("up_mm")
LOW, HIGH = 5, 95
LAYER = "buildings"
"""Of a GeoPackage."""
LEAST_MARGIN, MOST_MARGIN = 8, 16
"""Cells of a window around the middles of its own footprints, for the rest of these and for their neighbours."""


class _Told(NamedTuple):
    """Samples of a window in the cells of a footprint."""

    direction: str
    cells: NDArray[np.bool_]
    """(rows, columns) its cells that have a value."""
    samples: NDArray[np.floating[Any]]
    """(K, cells) mm, widened to the calibrated deviation."""
    reach: float
    """Deviations from the mean to the ends of the calibrated interval."""


def write_buildings(field: Field, buildings: Path, out: Path, reading: Reading = AS_THEY_ARE) -> geopandas.GeoDataFrame:
    """Write a table of footprints with `FIGURES`, in the format of the suffix: csv, GeoPackage, GeoJSON, Parquet.

    It has all footprints, or those with their middle in the box that was asked for. A footprint whose cells are too far
    from points has no figures, and `restored` false.

    Raises:
        InputError: the footprints are refused, or lie elsewhere than the field.
    """
    corners = np.column_stack([field.grid.eastings[[0, -1]], field.grid.northings[[0, -1]]])
    area, stated = Area.around(corners, field.crs), reading.ingest.footprints
    footprints = read_buildings(
        buildings, field.crs, id_column=reading.id_column, layer=reading.layer, stated=stated, area=area
    )
    place = footprint_middle(footprints.geometry.to_numpy())
    inside = field.grid.near(place, 0)
    if not inside.any():
        where = "where the points are" if field.grid == field.whole else "in the box of --bbox"
        raise InputError(f"{buildings}: no footprint lies {where}. Give footprints of that place.")
    radius_m = Prepare().neighbours_m
    margin = int(np.clip(np.ceil(radius_m / field.whole.cell_m) + 2, LEAST_MARGIN, MOST_MARGIN))
    rows: dict[int, dict[str, Any]] = {}
    groups = list(_groups(field.whole, place, np.flatnonzero(inside), margin))
    for grid, members in track(groups, len(groups), "buildings"):
        one = restore_window(field.found, grid, field.package.model, field.settings)
        if one is None:
            continue
        near = np.flatnonzero(grid.near(place, 0))
        told = {number: _read_off(footprints.geometry.iloc[number], grid, one) for number in near.tolist()}
        known = {number: found for number, found in told.items() if found is not None}
        against = _against(known, place, radius_m)
        for number in members:
            if number in known:
                rows[number] = _figures(known[number]) | against.get(number, {})
    columns = ["direction"] + [name + end for name in FIGURES for end in ("", "_low", "_high")]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=columns).reindex(range(len(footprints)))
    result = footprints.reset_index(drop=True)
    result["restored"] = table["displacement_mm"].notna().to_numpy()
    for column in columns:
        result[column] = table[column].to_numpy()
    if field.grid != field.whole:
        result = result[inside].reset_index(drop=True)
    save_table(result, out, LAYER)
    return result


def _groups(
    grid: Grid, place: NDArray[np.floating[Any]], asked: NDArray[np.intp], margin: int
) -> Iterator[tuple[Grid, list[int]]]:
    """Yield windows with the footprints that have their middle in it, `margin` cells or more from its edge.

    Args:
        grid: whole. place: (F, 2) m, middles of all footprints. asked: numbers of those that are wanted.
        margin: cells in which the rest of each footprint and its neighbours lie.
    """
    row, column = grid.place(place[asked])
    step = WINDOW - 2 * margin
    key = np.column_stack([row // step, column // step])
    for corner in np.unique(key, axis=0):
        members = asked[(key == corner).all(axis=1)].tolist()
        top, left = (corner * step - margin).tolist()
        yield grid.window(top, left, WINDOW, WINDOW), members


def _read_off(footprint: shapely.Geometry, grid: Grid, one: RestoredWindow) -> _Told | None:
    """Return the window's samples in the cells of a footprint; None where fewer than three or half have a value."""
    east, north = np.meshgrid(grid.eastings, grid.northings)
    cells = shapely.contains_xy(footprint.buffer(0.75 * grid.cell_m), east, north)
    name = "up" if (cells & np.isfinite(one.bands[UP])).sum() >= 0.5 * cells.sum() else "los"
    mean, deviation, low, high = one.bands[BANDS.index(f"{name}_mm") :][:4]
    told = cells & np.isfinite(mean)
    if told.sum() < 3 or told.sum() < 0.5 * cells.sum():
        return None
    samples = one.samples[name][:, told]
    wider = deviation[told] / np.maximum(samples.std(axis=0, ddof=1), 1e-6)
    middle = samples.mean(axis=0)
    reach = float(np.median((high - low)[told] / 2 / deviation[told]))
    return _Told(name, told, middle + (samples - middle) * np.minimum(wider, 10), reach)


def _against(told: dict[int, _Told], place: NDArray[np.floating[Any]], radius_m: float) -> dict[int, dict[str, float]]:
    """Return how footprints move against the median of the others around them, by their number.

    Taken in each sample, where errors that a footprint shares with its neighbours cancel.

    Args:
        told: footprints of a window. place: (F, 2) m, middles of all. radius_m: others are neighbours within it.
    """
    found = {}
    for direction in {one.direction for one in told.values()}:
        own = [number for number, one in told.items() if one.direction == direction]
        moved = np.array([told[number].samples.mean(axis=1) for number in own])
        same = np.ones(len(own))
        less = [
            values - medians_around(place[own], Comparable(values, same, same > 0), radius_m).value
            for values in moved.T
        ]
        mean, deviation = np.mean(less, axis=0), np.std(less, axis=0, ddof=1)
        for number, value, half in zip(own, mean, deviation * [told[number].reach for number in own], strict=True):
            found[number] = {AGAINST: value, f"{AGAINST}_low": value - half, f"{AGAINST}_high": value + half}
    return found


def _figures(told: _Told) -> dict[str, Any]:
    """Return the displacement of one footprint by itself, with its interval."""
    values = told.samples.mean(axis=1)
    mean, low, high = float(values.mean()), *map(float, np.percentile(values, [LOW, HIGH]))
    # Samples that all agree have ends that differ from their mean in the last bit.
    ends = {"displacement_mm_low": min(low, mean), "displacement_mm_high": max(high, mean)}
    return {"direction": told.direction, "displacement_mm": mean, **ends}


def save_table(table: geopandas.GeoDataFrame, out: Path, layer: str) -> None:
    """Write a table in the format of the suffix; `layer` is its name in a GeoPackage."""
    if out.suffix.lower() == ".csv":
        table.drop(columns="geometry").to_csv(out, index=False)
    else:
        write_table(table, out, layer)
