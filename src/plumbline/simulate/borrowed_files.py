"""What is what in the folder of a borrowed city."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from plumbline.errors import InputError
from plumbline.sources.archive import zip_members
from plumbline.sources.read import is_product

VECTOR_SUFFIXES = (".geojson", ".gpkg", ".shp", ".geoparquet", ".fgb")
PRODUCT_SUFFIXES = (".csv", ".zip", ".parquet", ".h5", ".hdf5", ".he5")
NOT_PRODUCTS = ("labels", "truth")


class BorrowedFiles(NamedTuple):
    """Files of a city that has no labels."""

    products: list[Path]
    footprints: Path


def find_borrowed(folder: Path) -> BorrowedFiles:
    """The point products and the footprints in `folder`.

    Raises:
        InputError: not a folder, no product, or not exactly one file of footprints.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; simulate.borrowed names it. Put points and footprints into it.")
    products, footprints = [], []
    for path in sorted(folder.iterdir()):
        suffix = path.suffix.lower()
        if path.name.startswith(".") or path.stem.lower().startswith(NOT_PRODUCTS):
            continue
        if suffix in VECTOR_SUFFIXES or (suffix == ".zip" and _is_zipped_vector(path)):
            footprints.append(path)
        elif suffix in PRODUCT_SUFFIXES:
            if is_product(path):
                products.append(path)
            elif suffix == ".parquet":
                footprints.append(path)
    if not products:
        raise InputError(f"{folder}: no point product ({', '.join(PRODUCT_SUFFIXES)}) in it.")
    if len(footprints) != 1:
        listed = ", ".join(path.name for path in footprints) or "none"
        raise InputError(f"{folder}: one file of footprints is needed, {listed} found.")
    return BorrowedFiles(products, footprints[0])


def _is_zipped_vector(path: Path) -> bool:
    return any(Path(name).suffix.lower() in VECTOR_SUFFIXES for name in zip_members(path))
