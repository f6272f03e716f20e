"""Where buildings stand: plots along curved streets, rows and detached buildings, turned freely."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyproj
import shapely
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.heldout.frame import Frame, frame_of
from benchmarks.heldout.shapes import detached, row

Array = NDArray[np.float64]
PLOT_M = 120.0
"""A plot holds one row, one large building, four of middle size or nine small ones."""
PROJECTED, GEOGRAPHIC = "EPSG:3035", "EPSG:4326"
SMALLEST_M, LARGEST_M = 8.0, 60.0


@dataclass(frozen=True)
class Town:
    """B buildings in EPSG:3035."""

    footprint: NDArray[np.object_]
    """(B,) polygons, as a reader of the written file gets them."""
    written: NDArray[np.object_]
    """(B,) the same in `crs`."""
    crs: str
    frame: list[Frame]
    shape: list[str]
    height: Array
    """(B,) m."""


def build_town(generator: Generator, buildings: int, crs: str) -> Town:
    """Draw a town of so many buildings."""
    middle = np.array([4_321_000.0, 3_210_000.0]) + generator.uniform(-60_000, 60_000, 2)
    outlines: list[shapely.Polygon] = []
    shapes: list[str] = []
    heights: list[float] = []
    bend = generator.uniform(0, 2 * np.pi, 4)
    for place in _spiral():
        if len(outlines) >= buildings:
            break
        centre = PLOT_M * place
        # Streets bend over a few hundred metres, and run in all directions.
        street = np.pi * (np.sin(centre[0] / 330 + bend[0]) + np.sin(centre[1] / 270 + bend[1])) + bend[2]
        for shape, outline, height in _plot(generator, street):
            outlines.append(shapely.affinity.translate(outline, *(middle + centre)))
            shapes.append(shape)
            heights.append(height)
    footprint = np.array(outlines[:buildings], object)
    written = _transform(footprint, PROJECTED, crs)
    written = shapely.set_precision(written, 1e-7 if crs == GEOGRAPHIC else 1e-3, mode="pointwise")
    # The truth is about the polygons that a reader gets, rounding included.
    footprint = _transform(written, crs, PROJECTED)
    return Town(
        footprint, written, crs, [frame_of(one) for one in footprint], shapes[:buildings], np.array(heights)[:buildings]
    )


def _plot(generator: Generator, street: float) -> list[tuple[str, shapely.Polygon, float]]:
    """What stands on one plot, about its middle: shape, outline, height. Rows follow the street's direction, rad."""
    kind = generator.choice(4, p=[0.22, 0.14, 0.38, 0.26])
    if kind == 0:
        height = generator.uniform(6, 14)
        houses = shapely.affinity.rotate(
            shapely.MultiPolygon(row(generator, int(generator.integers(4, 9)))), street, origin=(0, 0), use_radians=True
        )
        return [("row", one, height) for one in houses.geoms]
    side = int(kind)
    cell = PLOT_M / side
    result = []
    for x in range(side):
        for y in range(side):
            diagonal = cell - 6.0
            length = generator.uniform(max(SMALLEST_M + 2, 0.4 * diagonal), min(LARGEST_M, 0.92 * diagonal))
            width = generator.uniform(SMALLEST_M, max(SMALLEST_M + 0.1, min(length, np.sqrt(diagonal**2 - length**2))))
            shape, outline = detached(generator, length, width)
            slack = (cell - 4.0 - np.hypot(length, width)) / 2
            turned = shapely.affinity.rotate(outline, generator.uniform(0, 360), origin=(0, 0))
            place = (np.array([x, y]) - (side - 1) / 2) * cell + generator.uniform(-slack, slack, 2)
            height = min(40.0, 3.0 + generator.gamma(2.0, 2.0 + length / 12))
            result.append((shape, shapely.affinity.translate(turned, *place), height))
    return result


def _spiral() -> NDArray[np.int64]:
    """Plots ordered from the middle outwards."""
    reach = np.arange(-60, 61)
    grid = np.stack(np.meshgrid(reach, reach), axis=-1).reshape(-1, 2)
    return grid[np.argsort((grid**2).sum(1), kind="stable")]


def _transform(polygons: NDArray[np.object_], source: str, target: str) -> NDArray[np.object_]:
    if source == target:
        return polygons
    to = pyproj.Transformer.from_crs(source, target, always_xy=True)
    moved: NDArray[np.object_] = shapely.transform(
        polygons, lambda xy: np.column_stack(to.transform(xy[:, 0], xy[:, 1]))
    )
    return moved
