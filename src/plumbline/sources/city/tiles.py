"""Square tiles: the portions that points and buildings are stored and worked on by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plumbline.core.errors import InputError

HALO_M = 20.0
"""Points this far outside of a tile's buildings are at hand for them: the largest `prepare.buffer_m`."""
TILES, FOOTPRINTS = "tiles.npz", "footprints.parquet"
"""Of the city: its tiles, and its footprints as well-known binary, in the points' CRS."""
SPAN = 2**24
"""Columns of tiles told apart in one number: tiles of 100 m around the world."""
NEIGHBOURS = [(column, row) for column in (-1, 0, 1) for row in (-1, 0, 1) if column or row]

Cell = NDArray[np.int64]


@dataclass(frozen=True)
class Tiles:
    """The K tiles that hold buildings, each building in the tile of its centroid.

    A building may reach over its tile's edge. So a tile also gets, as its halo, the points outside of it that lie
    within the box around its buildings: whoever works on a tile needs no other.
    """

    side_m: float
    cell: Cell
    """(K,) number of each tile, ascending; see `cells`."""
    reach: NDArray[np.float64]
    """(K, 4) box around the tile's buildings and `HALO_M` more: west, south, east, north, m."""

    def halo(self, easting: NDArray[np.float64], northing: NDArray[np.float64], own: Cell) -> list[tuple[int, Cell]]:
        """Tile and points (indices) of each halo that some of the points (N,), which lie in the tiles `own`, are in."""
        near: list[tuple[Cell, Cell]] = []
        for column, row in NEIGHBOURS:
            tile = own + column + row * SPAN
            at = np.minimum(np.searchsorted(self.cell, tile), len(self.cell) - 1)
            west, south, east, north = self.reach[at].T
            inside = (self.cell[at] == tile) & (easting >= west) & (easting <= east)
            inside &= (northing >= south) & (northing <= north)
            points = np.flatnonzero(inside)
            near.append((tile[points], points))
        tiles, points = (np.concatenate(parts) for parts in zip(*near, strict=True))
        return [(int(tile), points[tiles == tile]) for tile in np.unique(tiles)]


def cells(easting: NDArray[np.float64], northing: NDArray[np.float64], side_m: float) -> Cell:
    """(N,) one number a tile: its column and its row, counted from the projection's origin."""
    column, row = np.floor(easting / side_m), np.floor(northing / side_m)
    return np.asarray(column + row * SPAN, np.int64)


def tile_name(cell: int) -> str:
    """Name of a tile's folder: its column and row."""
    row = (cell + SPAN // 2) // SPAN
    return f"x{cell - row * SPAN}_y{row}"


def make_tiles(
    centre: NDArray[np.float64], bounds: NDArray[np.float64], side_m: float
) -> tuple[Tiles, NDArray[np.intp]]:
    """Put buildings into tiles.

    Args:
        centre: (B, 2) centroids, m.
        bounds: (B, 4) west, south, east, north of each, m.
        side_m: side of a tile.

    Returns:
        The tiles, and of each building (B,) its tile's index among them.

    Raises:
        InputError: a building reaches over a whole tile into the next but one.
    """
    own = cells(centre[:, 0], centre[:, 1], side_m)
    cell, index = np.unique(own, return_inverse=True)
    reach = np.column_stack([np.full((len(cell), 2), np.inf), np.full((len(cell), 2), -np.inf)])
    for column, extreme, margin in ((0, np.minimum, -1), (1, np.minimum, -1), (2, np.maximum, 1), (3, np.maximum, 1)):
        extreme.at(reach[:, column], index, bounds[:, column] + margin * HALO_M)
    row = (cell + SPAN // 2) // SPAN
    corner = np.column_stack([cell - row * SPAN, row]) * side_m
    over = np.maximum(corner - reach[:, :2], reach[:, 2:] - corner - side_m).max(initial=0)
    if over > side_m:
        raise InputError(
            f"ingest.tile_m: tiles of {side_m:g} m found, a footprint reaches {over:.0f} m over its tile's edge. Make "
            f"the tiles at least {over:.0f} m wide."
        )
    return Tiles(side_m, cell, reach), index
