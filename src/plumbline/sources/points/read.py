"""Open any point product, whole or in parts; `formats` recognises it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from plumbline import params
from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.sources.checks.values import sizes_of, warn_of_unit
from plumbline.sources.files.file_type import first_bytes, product_params
from plumbline.sources.points.columns import open_columns
from plumbline.sources.points.egms.parquet import group_parts, is_parquet, is_point_table, open_parquet
from plumbline.sources.points.formats import FORMATS, PARQUET_FORMATS, Found, check_used, find_format
from plumbline.sources.points.mintpy.hdf5 import is_hdf5
from plumbline.sources.points.mintpy.series import is_timeseries, open_mintpy
from plumbline.sources.points.reader_base import PointSource, all_points, moved, one_side, raised
from plumbline.sources.track import NO_HEIGHT, Track

PART_BYTES = 2**28
"""A csv, or an unpacked Parquet file, is read in parts of so many bytes, each by itself."""
SAMPLED = 10_000
"""Points whose displacements are looked at for their unit."""


def open_points(
    path: Path,
    products: Mapping[str, params.Product] = {},
    format: str | None = None,
    crs: str | None = None,
    part: tuple[int, int | None] = (0, None),
) -> PointSource:
    """Open a point product of any known format.

    Args:
        path: the file.
        products: patterns of file names -> what such files do not say themselves (`ingest.products`).
        format: reads the file as this format; None: as `products` says, or by its content.
        crs: projected CRS that the points are wanted in; None: that of the file, or where it has degrees, the UTM zone
            of its middle.
        part: of a product that can be cut (`product_parts`): the bytes whose lines are wanted, or of Parquet, the row
            groups.

    Raises:
        InputError: the file cannot be read, its format is not known or not the one asked for, its description lacks
            what the format needs or has what it does not use, or its content is refused by the reader.
    """
    about = product_params(path, products)
    found = find_format(path, about, format, products)
    check_used(path, about, found)
    source = one_side(_open(found, path, about, crs, part), path)
    return raised(moved(source, about.moved_m), about.raised_m)


def _open(
    found: Found, path: Path, about: params.Product, crs: str | None, part: tuple[int, int | None]
) -> PointSource:
    if found.name == "mintpy":
        return open_mintpy(path, about, crs)
    if found.product is None:
        return open_parquet(path, about, crs, part)
    product = replace(found.product, start=part[0], end=part[1])
    if found.name == "columns":
        return open_columns(product, about, crs)
    open_csv = FORMATS[found.name].open_csv
    if open_csv is None:
        raise ValueError(f"format {found.name} has no reader of csv")
    return open_csv(product, found.header, about, crs)


def read_points(
    path: Path,
    products: Mapping[str, params.Product] = {},
    format: str | None = None,
    crs: str | None = None,
) -> Track:
    """All points of a product of any known format; arguments as of `open_points`.

    Raises:
        InputError: as `open_points`, or for a row.
    """
    track = all_points(open_points(path, products, format, crs))
    log.info("%s: %d points, %d epochs, %s to %s", path, *track.displacement.shape, *track.epochs[[0, -1]])
    about = product_params(path, products)
    if about.moved_m is not None:
        log.info("%s: moved by %g m east and %g m north, as ingest.products says", path, *about.moved_m)
    if about.raised_m is not None:
        log.info("%s: heights raised by %g m, as ingest.products says", path, about.raised_m)
    repeated = track.dropped.get("duplicate_id", 0)
    if repeated:
        log.warning(
            "%s: %d of %d points share an identifier with one before them and are left out. Where the identifiers are "
            "not of single points, leave point_id out of columns in ingest.products.",
            path,
            repeated,
            repeated + len(track),
        )
    if NO_HEIGHT in track.dropped:
        if not len(track):
            raise InputError(
                f"{path}: none of its {track.dropped[NO_HEIGHT]} points has a height. Fill the column; where "
                "its columns are described in params.yaml, leave height out of them."
            )
        log.warning("%s: %d points have no height and are left out.", path, track.dropped[NO_HEIGHT])
    sizes = sizes_of(track.displacement, SAMPLED)
    warn_of_unit(path, sizes, lambda: can_state_units(path, products, format))
    return track


def can_state_units(path: Path, products: Mapping[str, params.Product], format: str | None = None) -> bool:
    """Whether `units` may be stated of a product in `ingest.products`: not where its format says it."""
    return "units" in FORMATS[find_format(path, product_params(path, products), format, products).name].uses


def product_parts(path: Path, products: Mapping[str, params.Product] = {}) -> list[tuple[int, int | None]]:
    """Portions in which a product can be read one by one, in any order, as `open_points` takes them.

    Byte ranges of a csv, ranges of row groups of a Parquet file; of others one, the whole.

    Raises:
        InputError: as `open_points`, for what concerns the file as a whole.
    """
    about = product_params(path, products)
    found = find_format(path, about, None, products)
    has_ids = "point_id" in about.columns if found.name == "columns" else FORMATS[found.name].has_ids
    if found.product is None and found.name in PARQUET_FORMATS:
        return group_parts(path, PART_BYTES)
    if found.product is None or not found.product.is_cuttable or not has_ids:
        return [(0, None)]
    cuts = [*range(0, max(path.stat().st_size - PART_BYTES // 2, 1), PART_BYTES), None]
    return [(start or 0, end) for start, end in itertools.pairwise(cuts)]


def is_product(path: Path) -> bool:
    """Whether an HDF5 or Parquet file has points, and is not what lies beside them, or footprints; other files may.

    Raises:
        InputError: the file cannot be read.
    """
    start = first_bytes(path)
    if is_hdf5(path, start):
        return is_timeseries(path)
    return is_point_table(path) if is_parquet(start) else True
