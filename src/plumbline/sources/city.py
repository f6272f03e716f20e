"""One city's files, and what every reader of its points has to know: CRS, tiles, footprints and labels by tile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path

import geopandas
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import shapely
from numpy.typing import NDArray

from plumbline.console import log
from plumbline.errors import InputError
from plumbline.files import atomic_folder, write_json
from plumbline.params import Ingest
from plumbline.sources.archive import find_csv, zip_members
from plumbline.sources.buildings import buildings_table, read_buildings
from plumbline.sources.geojson import LOOKED_AT, SEPARATOR
from plumbline.sources.labelled import of_footprints
from plumbline.sources.labels import no_labels, read_labels
from plumbline.sources.part import FOOTPRINTS, TILES
from plumbline.sources.read import is_product, open_points
from plumbline.sources.tiles import HALO_M, make_tiles, tile_name

LABELS = "labels.csv"
SIMULATED = ("simulate", "cities")
"""Folder, in that of a project's data, of the cities that the stage `simulate` has written."""
NOT_PRODUCTS = ("labels", "truth")
"""Beginnings of names of files that are no products, whatever their suffix."""
VECTOR_SUFFIXES = (
    ".geojson", ".json", ".geojsonl", ".geojsons", ".gpkg", ".shp", ".parquet", ".geoparquet", ".fgb", ".gml",
)  # fmt: skip
PARTS_OF_SHAPEFILE = (".dbf", ".shx", ".prj", ".cpg", ".sbn", ".sbx", ".qix")
NOTES = (".md", ".dvc", ".xml")
BINARY_SUFFIXES = (".parquet", ".h5", ".hdf5", ".he5")
"""Files that may be points or belong to them, or be footprints: their content tells."""
ABOUT = "about.json"
NEIGHBOURS = "neighbours"
Objects = NDArray[np.object_]


@dataclass(frozen=True)
class CityFiles:
    """The files of one city folder."""

    name: str
    products: list[Path]
    footprints: Path
    labels: Path | None
    """None where nobody has labelled a building: points to be judged, not to train with."""

    @property
    def folder(self) -> Path:
        """Where the products are."""
        return self.products[0].parent

    def paths(self, params: Ingest) -> list[Path]:
        """All files that the result can depend on: those of the folder, and those that a description names."""
        beside = [self.footprints, *(path for path in self.folder.rglob("*") if path.is_file())]
        for pattern, product in params.products.items():
            for path in self.products:
                named = [path.parent / name for name in (product.geometry, product.coherence) if name]
                beside += [other for other in named if fnmatch(path.name, pattern) and other.is_file()]
        return sorted(set(beside))


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
    crs = open_points(products[0], params.products).crs
    for path in products[1:]:
        other = open_points(path, params.products, crs=crs).crs
        if other != crs:
            raise InputError(f"{path}: coordinates in {other}, those of {products[0]} are in {crs}. One CRS is needed.")
    return crs


def city_folders(data: Path) -> list[Path]:
    """The city folders of a project: the simulated ones and the user's own in `raw`."""
    folders = [path for root in (data.joinpath(*SIMULATED), data / "raw") if root.is_dir() for path in root.iterdir()]
    return sorted(path for path in folders if path.is_dir() and not path.name.startswith("."))


def is_simulated(folder: Path) -> bool:
    """Whether a city folder is one that the stage `simulate` has written."""
    return folder.absolute().parent.parts[-len(SIMULATED) :] == SIMULATED


def find_files(folder: Path) -> CityFiles:
    """What is what in a city folder.

    Raises:
        InputError: not a folder; no product, no `labels.csv`, or not exactly one file of footprints.
    """
    files = find_unlabelled(folder)
    labels = folder / LABELS
    if not labels.is_file():
        raise InputError(
            f"{folder}: no {LABELS} in it. Training needs labelled buildings; to judge unlabelled ones, use "
            "`plumbline predict`."
        )
    return replace(files, labels=labels)


def find_unlabelled(folder: Path, footprints_elsewhere: Path | None = None) -> CityFiles:
    """What is what in a folder of points to be judged; labels are passed over.

    Args:
        folder: it. footprints_elsewhere: those of a folder that has none.

    Raises:
        InputError: not a folder; no product, or not exactly one file of footprints.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder.")
    products, footprints = [], []
    for path in sorted(folder.iterdir()):
        suffix = path.suffix.lower()
        if path.name.startswith(".") or not path.is_file() or path.name == LABELS or suffix in PARTS_OF_SHAPEFILE:
            continue
        if path.stem.lower().startswith(NOT_PRODUCTS):
            log.info("%s: passed over, its name begins like that of labels", path)
            continue
        if (suffix in (".csv", *BINARY_SUFFIXES) and is_product(path)) or _is_packed_table(path):
            products.append(path)
        elif _unpacked_suffix(path) in (".csv", *VECTOR_SUFFIXES) or (suffix == ".zip" and _is_zipped_vector(path)):
            footprints.append(path)
        elif suffix == ".zip":
            products.append(path)
        elif suffix not in NOTES:
            log.info("%s: passed over, it is neither a product nor footprints", path)
    if not products:
        listed = ", ".join(path.name for path in footprints)
        advice = f" Taken for footprints: {listed}; write layers of points as csv." if footprints else ""
        raise InputError(f"{folder}: no point product (csv, csv.gz, zip, {', '.join(BINARY_SUFFIXES)}) in it.{advice}")
    if not footprints and footprints_elsewhere:
        footprints.append(footprints_elsewhere)
    if len(footprints) != 1:
        listed = ", ".join(path.name for path in footprints) or "none"
        raise InputError(
            f"{folder}: one file of footprints is needed ({', '.join(VECTOR_SUFFIXES)}, zipped Shapefile), "
            f"{listed} found."
        )
    return CityFiles(folder.resolve().name, products, footprints[0], None)


def _unpacked_suffix(path: Path) -> str:
    return Path(path.stem if path.suffix.lower() == ".gz" else path.name).suffix.lower()


def _is_packed_table(path: Path) -> bool:
    """Whether a `.csv.gz` holds points, and not footprints, a line of JSON each: Microsoft's are named so, too."""
    if not path.name.lower().endswith(".csv.gz"):
        return False
    with find_csv(path).open() as stream:
        return not stream.read(LOOKED_AT).lstrip(SEPARATOR.encode()).startswith(b"{")


def _is_zipped_vector(path: Path) -> bool:
    return any(Path(name).suffix.lower() in VECTOR_SUFFIXES for name in zip_members(path))


def _said(buildings: geopandas.GeoDataFrame) -> dict[str, int]:
    """What the reader of the footprints had to decide, as counts."""
    counts = {}
    for name, value in buildings.attrs.items():
        if name != "source_crs" and isinstance(value, int | list | tuple):
            counts[name] = value if isinstance(value, int) else len(value)
    return counts
