"""Read a box in degrees, and cut a grid to it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plumbline.core.errors import InputError
from plumbline.prepare.restoration.grid import Grid
from plumbline.sources.crs import GLOBE, transformer

FORM = "WEST,SOUTH,EAST,NORTH"
EXAMPLE = "13.16,38.70,13.18,38.71"


class Box(NamedTuple):
    """Part of the ground, degrees in WGS 84."""

    west: float
    south: float
    east: float
    north: float

    def __str__(self) -> str:
        return ",".join(f"{value:.6g}" for value in self)


def parse_box(text: str) -> Box:
    """Read `WEST,SOUTH,EAST,NORTH`.

    Raises:
        InputError: it is no box.
    """
    try:
        box = Box(*(float(part) for part in text.split(",")))
    except (ValueError, TypeError):
        raise _refused(text, "four numbers are needed") from None
    if not np.isfinite(box).all() or not (abs(box.west) <= 360 and abs(box.east) <= 360):
        raise _refused(text, "degrees of WGS 84 are needed")
    if not (abs(box.south) <= 90 and abs(box.north) <= 90):
        raise _refused(text, "latitudes lie between -90 and 90; SOUTH is second and NORTH is last")
    if not (box.west < box.east and box.south < box.north):
        raise _refused(text, "WEST must be less than EAST, and SOUTH less than NORTH")
    return box


def _refused(text: str, why: str) -> InputError:
    return InputError(f"--bbox {text}: {why}. Give {FORM} in degrees, as {EXAMPLE}.")


def cut_to_box(grid: Grid, crs: str, box: Box, east_north: NDArray[np.floating]) -> Grid:
    """Return the part of a grid that covers a box, as far as the grid reaches.

    Args:
        grid: over all points. crs: of its coordinates. box: what is asked for.
        east_north: (N, 2) m, positions of the points.

    Raises:
        InputError: no point lies in the box.
    """
    to_plane = transformer(GLOBE, crs)
    there = Box(*transformer(crs, GLOBE).transform_bounds(*east_north.min(axis=0), *east_north.max(axis=0)))
    if box.west < there.east and box.east > there.west and box.south < there.north and box.north > there.south:
        # Far from the points the CRS may have no coordinates: never reproject a box larger than the grid.
        bottom, right = grid.top - grid.rows * grid.cell_m, grid.left + grid.columns * grid.cell_m
        whole = Box(*transformer(crs, GLOBE).transform_bounds(grid.left, bottom, right, grid.top))
        near = Box(*np.maximum(box, whole)[:2], *np.minimum(box, whole)[2:])
        part = grid.cut(*to_plane.transform_bounds(*near))
        if part.near(east_north, 0).any():
            return part
    raise InputError(f"--bbox {box}: no point lies in it. The points lie in {there} ({FORM}).")
