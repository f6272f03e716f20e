"""Write the data that every reader of a city's points needs: CRS, tiles, and footprints and
labels by tile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import geopandas
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import shapely
from numpy.typing import NDArray

from plumbline.core.errors import InputError
from plumbline.core.files import atomic_folder, write_json
from plumbline.params import Ingest
from plumbline.sources.city.files import CityFiles
from plumbline.sources.city.labels import match_footprints, no_labels, read_labels
from plumbline.sources.crs import check_asked
from plumbline.sources.footprints.buildings import buildings_table, read_buildings
from plumbline.sources.points.read import open_product
from plumbline.sources.points.recognise import recognise
from plumbline.sources.points.source import PointSource, ProductFile

HALO_M = 20.0
"""Points this far outside of a tile's buildings are at hand for them: the largest
`prepare.buffer_m`."""
TILES, FOOTPRINTS = "tiles.npz", "footprints.parquet"
"""Files of a city: its tiles, and its footprints as well-known binary, in the points' CRS."""
SPAN = 2**24
"""Factor of the row in the number of a tile: more columns than tiles of 100 m around the world."""
AROUND = [(column, row) for column in (-1, 0, 1) for row in (-1, 0, 1) if column or row]

Cell = NDArray[np.int64]


@dataclass(frozen=True)
class Tiles:
    """K tiles that hold buildings, each building in the tile of its centroid.

    A building may reach over its tile's edge. So a tile also gets, as its halo, the points
    outside of it that are within the box around its buildings: work on a tile needs no
    other.
    """

    side_m: float
    cell: Cell
    """(K,) number of each tile, ascending; see `cells`."""
    reach: NDArray[np.float64]
    """(K, 4) box around the tile's buildings and `HALO_M` more: west, south, east, north, m."""

    def halo(
        self, easting: NDArray[np.float64], northing: NDArray[np.float64], point_cell: Cell
    ) -> list[tuple[int, Cell]]:
        """Return tile and point indices of each halo with points (N,) in tiles `point_cell`."""
        near: list[tuple[Cell, Cell]] = []
        for column, row in AROUND:
            tile = point_cell + column + row * SPAN
            at = np.minimum(np.searchsorted(self.cell, tile), len(self.cell) - 1)
            west, south, east, north = self.reach[at].T
            inside = (self.cell[at] == tile) & (easting >= west) & (easting <= east)
            inside &= (northing >= south) & (northing <= north)
            points = np.flatnonzero(inside)
            near.append((tile[points], points))
        tiles, points = (np.concatenate(parts) for parts in zip(*near, strict=True))
        return [(int(tile), points[tiles == tile]) for tile in np.unique(tiles)]


def cells(easting: NDArray[np.float64], northing: NDArray[np.float64], side_m: float) -> Cell:
    """Return (N,) the number of each place's tile, from its column and row, counted from
    the projection's origin."""
    column, row = np.floor(easting / side_m), np.floor(northing / side_m)
    return np.asarray(column + row * SPAN, np.int64)


def tile_name(cell: int) -> str:
    """Return the name of a tile's folder: its column and row."""
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
    building_cell = cells(centre[:, 0], centre[:, 1], side_m)
    cell, index = np.unique(building_cell, return_inverse=True)
    reach = np.column_stack([np.full((len(cell), 2), np.inf), np.full((len(cell), 2), -np.inf)])
    for column, extreme, margin in (
        (0, np.minimum, -1),
        (1, np.minimum, -1),
        (2, np.maximum, 1),
        (3, np.maximum, 1),
    ):
        extreme.at(reach[:, column], index, bounds[:, column] + margin * HALO_M)
    row = (cell + SPAN // 2) // SPAN
    corner = np.column_stack([cell - row * SPAN, row]) * side_m
    over = np.maximum(corner - reach[:, :2], reach[:, 2:] - corner - side_m).max(initial=0)
    if over > side_m:
        raise InputError(
            f"ingest.tile_m: tiles of {side_m:g} m found, a footprint reaches {over:.0f} m over "
            f"its tile's edge. Make the tiles at least {over:.0f} m wide.",
            key="tiles.too_narrow",
        )
    return Tiles(side_m, cell, reach), index


ABOUT = "about.json"
NEIGHBOURS = "neighbours"
COORDINATE_DECIMALS = 4
"""Decimals of the corners of labelled footprints, m."""
Objects = NDArray[np.object_]


@dataclass(frozen=True)
class CityPlan:
    """A city to prepare for its points, and the folder for the result."""

    folder: Path
    files: CityFiles
    params: Ingest
    products: list[ProductFile]
    """Those of `files`, in their order; see `open_products`."""
    crs: str
    """CRS of the points; see `open_products`."""


def read_city(plan: CityPlan) -> None:
    """Write the city's tiles, its footprints and labels by tile, and `about.json`, into the
    plan's folder.

    Raises:
        InputError: the footprints or the labels are refused by their reader; a label is of
            a building that is not there.
    """
    files, crs = plan.files, plan.crs
    buildings = read_buildings(files.footprints, crs, stated=plan.params.footprints)
    if files.labels:
        # Training data are known by their bytes; projections differ in a processor's last bits.
        drawn = np.asarray(buildings.geometry.values, object)
        rounded = shapely.transform(drawn, lambda at: np.round(at, COORDINATE_DECIMALS))
        column = geopandas.GeoSeries(rounded, buildings.index, buildings.crs)
        buildings[buildings.geometry.name] = column
    labels = read_labels(files.labels) if files.labels else no_labels()
    row_of = {name: row for row, name in enumerate(buildings["building_id"].tolist())}
    if files.labels:
        labels = match_footprints(labels, buildings, files.labels, files.footprints)
    labels = labels[labels["building_id"].isin(row_of)]  # footprints may be left out
    labelled = labels["building_id"].tolist()
    geometry = np.asarray(buildings.geometry.values, object)
    centre = shapely.get_coordinates(shapely.centroid(geometry))
    tiles, index = make_tiles(centre, shapely.bounds(geometry), plan.params.tile_m)
    tree = shapely.STRtree(geometry)
    counts = {
        name: len(value) if isinstance(value, list) else value
        for name, value in buildings.attrs.items()
    }
    counts.pop("source_crs")
    of_label = index[[row_of[name] for name in labelled]]
    with atomic_folder(plan.folder) as out:
        np.savez(out / TILES, side_m=tiles.side_m, cell=tiles.cell, reach=tiles.reach)
        pq.write_table(pa.table({"wkb": shapely.to_wkb(geometry)}), out / FOOTPRINTS)
        names = [tile_name(int(cell)) for cell in tiles.cell]
        write_tiled(buildings_table(buildings), index, names, out / "buildings")
        write_tiled(
            pa.Table.from_pandas(labels, preserve_index=False), of_label, names, out / "labels"
        )
        for number, tile in enumerate(names):
            near = tree.query(
                shapely.box(*tiles.reach[number]), predicate="dwithin", distance=HALO_M
            )
            write_neighbours(
                out / NEIGHBOURS / f"{tile}.parquet",
                geometry,
                np.flatnonzero(index == number),
                near,
            )
        write_json(
            out / ABOUT,
            {
                "crs": crs,
                "footprints_crs": buildings.attrs["source_crs"],
                "buildings": len(buildings),
                "labelled": len(labels),
                "footprints_said": counts,
                "area_km2": round(shapely.convex_hull(shapely.multipoints(centre)).area / 1e6, 6),
            },
        )


def write_tiled(
    table: pa.Table, tile: NDArray[np.intp], names: Sequence[str], folder: Path
) -> None:
    """Write the rows of each tile, in their order, into a file named after it.

    Args:
        table: N rows.
        tile: (N,) index of each row's tile in `names`.
        names: of the tiles.
        folder: to write into.
    """
    folder.mkdir()
    table = table.take(pa.array(np.argsort(tile, kind="stable")))
    ends = np.cumsum(np.bincount(tile, minlength=len(names)))
    for name, start, end in zip(names, [0, *ends[:-1]], ends, strict=True):
        pq.write_table(table.slice(start, end - start), folder / f"{name}.parquet")


def write_neighbours(
    path: Path, geometry: Objects, rows: NDArray[np.intp], near: NDArray[np.intp]
) -> None:
    """Write a tile's rows of the footprints, and the footprints around it that may be
    nearer to points."""
    path.parent.mkdir(exist_ok=True)
    neighbours = np.setdiff1d(near, rows)
    wkb = [*[None] * len(rows), *shapely.to_wkb(geometry[neighbours])]
    pq.write_table(
        pa.table({"row": np.concatenate([rows, neighbours]), "wkb": pa.array(wkb, pa.binary())}),
        path,
    )


def open_products(
    products: Sequence[Path], params: Ingest
) -> list[tuple[ProductFile, PointSource]]:
    """Recognise and open each product; all have the projected CRS of the first one.

    Raises:
        InputError: a product is refused, or has coordinates in another projection.
    """
    check_asked(params.crs)
    opened: list[tuple[ProductFile, PointSource]] = []
    for path in products:
        file = recognise(path, params.products)
        source = open_product(file, opened[0][1].crs if opened else params.crs)
        opened.append((file, source))
        if source.crs != opened[0][1].crs:
            raise InputError(
                f"{path}: coordinates in {source.crs}, those of {products[0]} are in "
                f"{opened[0][1].crs}. One CRS is needed.",
                key="points.several_crss",
            )
    return opened
