"""What every reader of a city's points has to know: CRS, tiles, footprints and labels by tile."""

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
from plumbline.sources.city.labelled import of_footprints
from plumbline.sources.city.labels import no_labels, read_labels
from plumbline.sources.city.tiles import FOOTPRINTS, HALO_M, TILES, make_tiles, tile_name
from plumbline.sources.crs import check_asked
from plumbline.sources.footprints.buildings import buildings_table, read_buildings
from plumbline.sources.points.read import open_points

ABOUT = "about.json"
NEIGHBOURS = "neighbours"
Objects = NDArray[np.object_]


@dataclass(frozen=True)
class CityPlan:
    """A city to prepare for its points, and the folder that then holds what they need."""

    folder: Path
    files: CityFiles
    params: Ingest
    crs: str
    """Of the points; see `products_crs`."""


def read_city(plan: CityPlan) -> None:
    """Write the city's tiles, its footprints and labels by tile, and `about.json`, into the plan's folder.

    Raises:
        InputError: the footprints or the labels are refused by their reader; a label is of a building that is not
            there.
    """
    files, crs = plan.files, plan.crs
    buildings = read_buildings(files.footprints, crs, stated=plan.params.footprints)
    labels = read_labels(files.labels) if files.labels else no_labels()
    row_of = {name: row for row, name in enumerate(buildings["building_id"].tolist())}
    if files.labels:
        labels = of_footprints(labels, buildings, files.labels, files.footprints)
    labels = labels[labels["building_id"].isin(row_of)]  # not those of footprints that were left out, as was said
    labelled = labels["building_id"].tolist()
    geometry = np.asarray(buildings.geometry.values, object)
    centre = shapely.get_coordinates(shapely.centroid(geometry))
    tiles, index = make_tiles(centre, shapely.bounds(geometry), plan.params.tile_m)
    tree = shapely.STRtree(geometry)
    of_label = index[[row_of[name] for name in labelled]]
    with atomic_folder(plan.folder) as out:
        np.savez(out / TILES, side_m=tiles.side_m, cell=tiles.cell, reach=tiles.reach)
        pq.write_table(pa.table({"wkb": shapely.to_wkb(geometry)}), out / FOOTPRINTS)
        names = [tile_name(int(cell)) for cell in tiles.cell]
        write_tiled(buildings_table(buildings), index, names, out / "buildings")
        write_tiled(pa.Table.from_pandas(labels, preserve_index=False), of_label, names, out / "labels")
        for number, tile in enumerate(names):
            near = tree.query(shapely.box(*tiles.reach[number]), predicate="dwithin", distance=HALO_M)
            write_neighbours(out / NEIGHBOURS / f"{tile}.parquet", geometry, np.flatnonzero(index == number), near)
        write_json(
            out / ABOUT,
            {
                "crs": crs, "footprints_crs": buildings.attrs["source_crs"], "buildings": len(buildings),
                "labelled": len(labels), "footprints_said": _said(buildings),
                "area_km2": round(shapely.convex_hull(shapely.multipoints(centre)).area / 1e6, 6),
            },
        )  # fmt: skip


def write_tiled(table: pa.Table, tile: NDArray[np.intp], names: Sequence[str], folder: Path) -> None:
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


def write_neighbours(path: Path, geometry: Objects, own: NDArray[np.intp], near: NDArray[np.intp]) -> None:
    """Write which rows of the footprints a tile has, and the footprints around that points may be nearer to."""
    path.parent.mkdir(exist_ok=True)
    other = np.setdiff1d(near, own)
    wkb = [*[None] * len(own), *shapely.to_wkb(geometry[other])]
    pq.write_table(pa.table({"row": np.concatenate([own, other]), "wkb": pa.array(wkb, pa.binary())}), path)


def products_crs(products: Sequence[Path], params: Ingest) -> str:
    """The one projected CRS for the points of all products: the first one's own, in which the others are asked for.

    Raises:
        InputError: a product is refused, or has coordinates in another projection.
    """
    check_asked(params.crs)
    crs = open_points(products[0], params.products, crs=params.crs).crs
    for path in products[1:]:
        other = open_points(path, params.products, crs=crs).crs
        if other != crs:
            raise InputError(f"{path}: coordinates in {other}, those of {products[0]} are in {crs}. One CRS is needed.")
    return crs


def _said(buildings: geopandas.GeoDataFrame) -> dict[str, int]:
    """What the reader of the footprints had to decide, as counts."""
    counts = {}
    for name, value in buildings.attrs.items():
        if name != "source_crs" and isinstance(value, int | list | tuple):
            counts[name] = value if isinstance(value, int) else len(value)
    return counts
