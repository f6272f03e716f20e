"""One door for all point products: the format is told by the content, never by the file's name."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np

from plumbline import params
from plumbline.console import log
from plumbline.errors import InputError
from plumbline.sources.archive import Product, find_csv
from plumbline.sources.columns import open_columns
from plumbline.sources.depsi import is_depsi, open_depsi
from plumbline.sources.dialect import dialect
from plumbline.sources.egms import is_egms, open_egms
from plumbline.sources.egms_ortho import is_ortho, open_ortho
from plumbline.sources.hdf5 import is_hdf5
from plumbline.sources.layer import Layer, find_layer
from plumbline.sources.mintpy import is_timeseries, open_mintpy
from plumbline.sources.parquet import group_parts, is_parquet, is_point_table, open_parquet, read_names
from plumbline.sources.points import Track
from plumbline.sources.product import PointSource, all_points, moved, one_side
from plumbline.sources.project import projection
from plumbline.sources.skeleton import described_as
from plumbline.sources.stamps import is_stamps, open_stamps
from plumbline.sources.table import read_header
from plumbline.sources.tabular import NO_HEIGHT
from plumbline.sources.units import sizes_of, warn_of_unit

PART_BYTES = 2**28
"""A csv, or an unpacked Parquet file, is read in parts of so many bytes, each by itself."""
SAMPLED = 10_000
"""Points whose displacements are looked at for their unit."""
ANGLES = frozenset({"incidence_deg", "heading_deg"})
WRITTEN = frozenset({"separator", "decimal"})
"""How a csv of any format may be written."""


@dataclass(frozen=True)
class Format:
    """A format that `format` can name."""

    called: str
    uses: frozenset[str]
    """Keys of `ingest.products` that mean something for it, besides `OF_ALL`."""
    recognises: Callable[[list[str]], bool] | None = None
    """By the header of a csv."""
    open_csv: Callable[[Product, list[str], params.Product, str | None], PointSource] | None = None
    has_ids: bool = True
    """Whether a point's name is in the file; else it is its row, and the file cannot be read in parts."""


FORMATS = {
    "egms-l3": Format("EGMS L3 (csv, zip or Parquet)", WRITTEN | {"component"}, is_ortho, open_ortho),
    "egms": Format(
        "EGMS L2a and L2b (csv, zip as downloaded, or Parquet)", WRITTEN, is_egms,
        lambda product, header, about, crs: _as_asked(open_egms(product, header), product, about, crs),
    ),
    "depsi": Format("DePSI (csv)", ANGLES | WRITTEN | {"crs", "positive", "units"}, is_depsi, open_depsi),
    "stamps": Format(
        "StaMPS (csv)", ANGLES | WRITTEN | {"crs", "positive", "units"}, is_stamps, open_stamps, has_ids=False
    ),
    "mintpy": Format("MintPy time series (HDF5)", ANGLES | {"crs", "positive", "units", "geometry", "coherence"}),
    "columns": Format(
        "any csv or layer of points whose columns ingest.products describes",
        ANGLES | WRITTEN | {"crs", "positive", "columns", "units", "epochs"},
    ),
}  # fmt: skip
"""By name; of those that recognise a header, the first counts."""
KNOWN = "Known: " + "; ".join(f"{form.called}: {name}" for name, form in FORMATS.items())
PARQUET_FORMATS = ("egms-l3", "egms")
OF_ALL = frozenset({"format", "track", "moved_m"})
"""Keys of `ingest.products` that mean something for every format."""


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
        part: of a product that can be cut (`parts`): the bytes whose lines are wanted, or of Parquet, the row groups.

    Raises:
        InputError: the file cannot be read, its format is not known or not the one asked for, its description lacks
            what the format needs or has what it does not use, or its content is refused by the reader.
    """
    about = describe(path, products)
    found = _find(path, about, format, products)
    _check_used(path, about, found.name)
    return moved(one_side(_open(found, path, about, crs, part), path), about.moved_m)


def _open(
    found: _Found, path: Path, about: params.Product, crs: str | None, part: tuple[int, int | None]
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
    if (by_m := describe(path, products).moved_m) is not None:
        log.info("%s: moved by %g m east and %g m north, as ingest.products says", path, *by_m)
    repeated = track.dropped.get("duplicate_id", 0)
    if repeated:
        log.warning(
            "%s: %d of %d points share an identifier with one before them and are left out. Where the identifiers are "
            "not of single points, leave point_id out of columns in ingest.products.",
            path, repeated, repeated + len(track),
        )  # fmt: skip
    if NO_HEIGHT in track.dropped:
        log.warning("%s: %d points have no height and are left out.", path, track.dropped[NO_HEIGHT])
    sizes = sizes_of(track.displacement, SAMPLED)
    warn_of_unit(path, sizes, lambda: can_state_units(path, products, format))
    return track


def can_state_units(path: Path, products: Mapping[str, params.Product], format: str | None = None) -> bool:
    """Whether `units` may be stated of a product in `ingest.products`: not where its format says it."""
    return "units" in FORMATS[_find(path, describe(path, products), format, products).name].uses


def parts(path: Path, products: Mapping[str, params.Product] = {}) -> list[tuple[int, int | None]]:
    """Portions in which a product can be read one by one, in any order, as `open_points` takes them.

    Byte ranges of a csv, ranges of row groups of a Parquet file; of others one, the whole.

    Raises:
        InputError: as `open_points`, for what concerns the file as a whole.
    """
    about = describe(path, products)
    found = _find(path, about, None, products)
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
    if is_hdf5(path):
        return is_timeseries(path)
    return is_point_table(path) if is_parquet(path) else True


def describe(path: Path, products: Mapping[str, params.Product]) -> params.Product:
    """What `products` says of the file: the first pattern that fits its name counts; nothing where none does."""
    return next((about for pattern, about in products.items() if fnmatchcase(path.name, pattern)), params.Product())


@dataclass(frozen=True)
class _Found:
    name: str
    product: Product | None
    """None: no csv."""
    header: list[str]


def _find(path: Path, about: params.Product, wanted: str | None, products: Mapping[str, params.Product] = {}) -> _Found:
    wanted = wanted or about.format or ("columns" if about.columns else None)
    if about.profiles is not None or wanted == "profiles":
        raise InputError(
            f"{path}: described as profile rows, which are no points. Give them a city folder of their own for "
            "`plumbline ingest`; see docs/formats.md."
        )
    if wanted is not None and wanted not in FORMATS:
        raise InputError(f"{path}: format {wanted!r} is not known. {KNOWN}.")
    if is_hdf5(path):
        if wanted not in (None, "mintpy"):
            raise InputError(f"{path}: an HDF5 file, which format {wanted} is not. Leave the format out, or: mintpy.")
        if not is_timeseries(path):
            raise InputError(f"{path}: an HDF5 file without /timeseries, so none of MintPy's time series. {KNOWN}.")
        return _Found("mintpy", None, [])
    if is_parquet(path):
        if wanted not in (None, *PARQUET_FORMATS):
            raise InputError(f"{path}: a Parquet file, which format {wanted} is not. Leave the format out.")
        return _Found(_by_header(Product(path), read_names(path), wanted), None, [])
    product = find_layer(path) or dialect(find_csv(path), about)
    if wanted == "mintpy":
        raise InputError(f"{product}: not an HDF5 file, as format mintpy needs.")
    if wanted == "columns":
        return _Found(wanted, product, [])
    header = read_header(product)
    unfit = [] if about.model_fields_set else list(products)
    return _Found(_by_header(product, header, wanted, unfit), product, header)


def _by_header(product: Product, header: list[str], wanted: str | None, unfit: Sequence[str] = ()) -> str:
    fits = [name for name, form in FORMATS.items() if form.recognises is not None and form.recognises(header)]
    begins = f"its header begins {', '.join(header[:12])[:300]}"
    if wanted is None:
        if not fits:
            crs = product.crs if isinstance(product, Layer) else None
            tried = f" No pattern of ingest.products fits its name ({', '.join(unfit[:5])})." if unfit else ""
            raise InputError(
                f"{product}: unknown format, {begins}. {KNOWN}.{tried} Any other table is read once its columns are "
                f"described, in a file that --params names:\n{described_as(product.path.name, header, crs)}"
            )
        return fits[0]
    if wanted not in fits or (wanted == "egms" and fits[0] == "egms-l3"):
        likely = f" It looks like format {fits[0]}." if fits else ""
        raise InputError(f"{product}: not of format {wanted} ({FORMATS[wanted].called}), {begins}.{likely}")
    return wanted


def _check_used(path: Path, about: params.Product, name: str) -> None:
    unused = about.model_fields_set - FORMATS[name].uses - OF_ALL
    if unused:
        raise InputError(
            f"{path}: params.yaml states {', '.join(sorted(unused))} for it (ingest.products), which format {name} "
            "does not use. Remove it there, or let a pattern before it fit this file."
        )


def _as_asked(source: PointSource, product: Product, about: params.Product, crs: str | None) -> PointSource:
    """An EGMS product under another name, or in another CRS than its own."""
    plane, name = projection(str(product), source.crs, crs, lambda: None), about.track or source.name
    if plane.transformer is None and name == source.name:
        return source

    def blocks() -> Iterator[Track]:
        for block in source.blocks():
            easting, northing = plane(block.easting, block.northing)
            if not np.isfinite(easting + northing).all():
                raise InputError(f"{product}: its points lie outside of what {plane.crs}, the city's CRS, can show.")
            yield replace(block, name=name, crs=plane.crs, easting=easting, northing=northing)

    return PointSource(name, plane.crs, source.epochs, blocks, source.notes)
