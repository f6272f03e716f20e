"""List the formats of point products, and recognise each by its content, never by the file's
name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from plumbline import params
from plumbline.core.errors import InputError
from plumbline.sources.files.csv_lines import dialect, stated_missing
from plumbline.sources.files.csv_table import checked_names, read_header
from plumbline.sources.files.foreign import check_foreign
from plumbline.sources.files.limits import warn_of_limits
from plumbline.sources.files.opened import AnyFile, as_file, find_csv, product_params
from plumbline.sources.files.streams import CsvFile
from plumbline.sources.points.formats.columns import (
    described_layout,
    described_units,
    is_long_table,
    suggest_description,
)
from plumbline.sources.points.formats.egms import egms_layout, is_egms, is_ortho, whole_names
from plumbline.sources.points.formats.egms_parquet import ParquetTable, is_parquet, read_names
from plumbline.sources.points.formats.layouts import (
    LAYOUTS,
    Layout,
    is_layout,
    is_stamps,
    published_layout,
    stamps_layout,
)
from plumbline.sources.points.formats.mintpy import describe_hdf5, hdf5_format
from plumbline.sources.points.formats.vector_layer import PointLayer, find_point_layer
from plumbline.sources.points.source import ProductFile, TableLayout

ANGLE_KEYS = frozenset({"incidence_deg", "heading_deg", "look"})
CSV_KEYS = frozenset({"separator", "decimal"})
"""Keys of `ingest.products` for how a csv of any format is written."""


@dataclass(frozen=True)
class Format:
    """A format that `format` in `ingest.products` can name."""

    called: str
    uses: frozenset[str]
    """Keys of `ingest.products` that mean something for it, besides `COMMON_KEYS`."""
    recognises: Callable[[list[str]], bool] | None = None
    """Test of the header of a csv."""
    layout_of: (
        Callable[[CsvFile, list[str], params.Product], tuple[TableLayout, Sequence[str]]] | None
    ) = None
    """Function that returns the roles of a table's columns, and notes on it; None of HDF5."""
    has_ids: bool = True
    """True if a point's name is in the file; else it is its row, and the file cannot be read in
    parts."""

    @property
    def can_state_units(self) -> bool:
        """True if `units` may be stated in `ingest.products`: the format does not fix them."""
        return "units" in self.uses


def _format_of(layout: Layout) -> Format:
    angles = frozenset() if layout.has_view else ANGLE_KEYS
    return Format(
        layout.called,
        angles | CSV_KEYS | {"crs", "positive", "units"},
        partial(is_layout, layout),
        partial(published_layout, layout),
        has_ids=any(name in layout.marks for name in layout.point_id),
    )


PUBLISHED = {layout.name: _format_of(layout) for layout in LAYOUTS}
FORMATS = {
    "insar-norway": PUBLISHED["insar-norway"],  # EGMS's names, with degrees in place of metres
    "egms-l3": Format(
        "EGMS L3 (csv, zip or Parquet)", CSV_KEYS | {"component"}, is_ortho, egms_layout
    ),
    "egms": Format(
        "EGMS L2a and L2b (csv, zip as downloaded, or Parquet)", CSV_KEYS, is_egms, egms_layout
    ),
    "stamps": Format(
        "StaMPS (csv)",
        ANGLE_KEYS | CSV_KEYS | {"crs", "positive", "units"},
        is_stamps,
        stamps_layout,
        has_ids=False,
    ),
    **PUBLISHED,
    "mintpy": Format(
        "MintPy time series (HDF5)",
        ANGLE_KEYS | {"crs", "positive", "units", "geometry", "coherence"},
    ),
    "licsbas": Format("LiCSBAS time series (cum.h5)", ANGLE_KEYS | {"positive", "units"}),
    "columns": Format(
        "any csv or layer of points whose columns ingest.products describes",
        ANGLE_KEYS | CSV_KEYS | {"crs", "positive", "columns", "units", "epochs"},
        layout_of=described_layout,
    ),
}
"""Formats by name; of those that recognise a header, the first counts."""
KNOWN = "Known: " + "; ".join(
    f"{FORMATS[name].called}: {name}"
    for name in sorted(FORMATS, key=lambda name: name in PUBLISHED)
)
PARQUET_FORMATS = ("egms-l3", "egms")
HDF5_FORMATS = ("mintpy", "licsbas")
COMMON_KEYS = frozenset({"format", "track", "moved_m", "raised_m", "missing"})
"""Keys of `ingest.products` that mean something for every format."""


def recognise(
    file: AnyFile, products: Mapping[str, params.Product] = {}, wanted: str | None = None
) -> ProductFile:
    """Recognise a file; readers of its points get the result in place of the path.

    Args:
        file: the file.
        products: patterns of file names -> settings that such files lack (`ingest.products`).
        wanted: the format that is required; None: that of `products`, or by the content.

    Raises:
        InputError: the file cannot be read, its format is not known, or it is not the one
            wanted, or its description lacks what the format needs or has what it does not
            use.
    """
    opened = as_file(file)
    path = opened.path
    about = product_params(path, products)
    wanted = wanted or about.format or ("columns" if about.columns else None)
    if about.profiles is not None or wanted == "profiles":
        raise InputError(
            f"{path}: described as profile rows, which are no points. Give them a city folder of "
            "their own for `plumbline ingest`; see docs/formats.md.",
            key="products.profiles",
        )
    if wanted is not None and wanted not in FORMATS:
        raise InputError(
            f"{path}: format {wanted!r} is not known. {KNOWN}.", key="products.unknown_format"
        )
    kind: Literal["hdf5", "parquet", "layer", "csv"]
    table: CsvFile | None = None
    header: list[str] = []
    if opened.is_hdf5:
        if wanted not in (None, *HDF5_FORMATS):
            raise InputError(
                f"{path}: an HDF5 file, which format {wanted} is not. Leave the format out, or: "
                f"{', '.join(HDF5_FORMATS)}.",
                key="products.other_format",
            )
        actual = hdf5_format(opened)
        if actual is None:
            nothing = (
                "an HDF5 file without /timeseries of MintPy, and without /cum and "
                f"/imdates of LiCSBAS. {KNOWN}."
            )
            raise InputError(f"{path}: {describe_hdf5(opened) or nothing}", key="hdf5.no_series")
        if wanted not in (None, actual):
            raise InputError(
                f"{path}: not of format {wanted}. It looks like format {actual}.",
                key="products.other_format",
            )
        kind, name = "hdf5", actual
    elif is_parquet(opened.start):
        names = read_names(opened)
        if wanted == "columns" or (wanted is None and not is_egms(names)):
            raise InputError(
                f"{path}: a Parquet file with the columns {', '.join(names[:12])[:300]}. Only "
                "EGMS products are read from Parquet: write the table as csv, and describe its "
                "columns in ingest.products (docs/formats.md).",
                key="parquet.other_table",
            )
        if wanted not in (None, *PARQUET_FORMATS):
            raise InputError(
                f"{path}: a Parquet file, which format {wanted} is not. Leave the format out.",
                key="products.other_format",
            )
        kind, table = "parquet", ParquetTable(path)
        name = _recognise_header(table, names, wanted or ("egms-l3" if is_ortho(names) else "egms"))
        header = checked_names(table, names)
    else:
        check_foreign(path, opened.start, KNOWN)
        table, line = find_point_layer(opened) or find_csv(opened), None
        if isinstance(table, PointLayer):
            kind, table = "layer", replace(table, missing=stated_missing(about))
        else:
            kind = "csv"
            table, line = dialect(table, about)
        if wanted in HDF5_FORMATS:
            raise InputError(
                f"{table}: not an HDF5 file, as format {wanted} needs.",
                key="products.other_format",
            )
        if wanted == "columns":  # faults of the description come before those of the header
            _check_settings(ProductFile(opened, about, kind, wanted, table, ()))
            described_units(table, about)
            name = "columns"
        header = (
            checked_names(table, table.names)
            if isinstance(table, PointLayer)
            else read_header(table, line)
        )
        if wanted != "columns":
            header = whole_names(header)
            unfit = [] if about.model_fields_set else list(products)
            name = _recognise_header(table, header, wanted, unfit)
        # The positions of a layer are no columns of the file.
        columns = table.attributes if isinstance(table, PointLayer) else header
        warn_of_limits(table, n_columns=len(columns))
    return _check_settings(ProductFile(opened, about, kind, name, table, tuple(header)))


def _recognise_header(
    product: CsvFile, header: list[str], wanted: str | None, unfit: Sequence[str] = ()
) -> str:
    fits = [
        name
        for name, form in FORMATS.items()
        if form.recognises is not None and form.recognises(header)
    ]
    begins = f"its header begins {', '.join(header[:12])[:300]}"
    if wanted is None:
        if not fits:
            crs = product.crs if isinstance(product, PointLayer) else None
            tried = (
                f" No pattern of ingest.products fits its name ({', '.join(unfit[:5])})."
                if unfit
                else ""
            )
            if len(header) == 1 and len(header[0].split()) > 2:
                raise InputError(
                    f"{product}: unknown format: its cells seem to be separated by blanks. Write "
                    "commas in their place (`tr -s ' ' , < IN > OUT.csv`), with a first line that "
                    f"names the columns. {KNOWN}.",
                    key="csv.blank_separator",
                )
            if (long := is_long_table(header)) is not None:
                raise InputError(
                    f"{product}: a long table, with a row for each date ({long[0]}) and its "
                    f"displacement ({long[1]}). A row for each point, with a column for each "
                    "date, is needed: docs/formats.md has the lines that turn one into the other.",
                    key="points.long_table",
                )
            raise InputError(
                f"{product}: unknown format, {begins}. {KNOWN}.{tried} Any other table is read "
                "once its columns are described, in a file that --params names (`plumbline "
                "inspect` shows how it is understood):\n"
                f"{suggest_description(product.path.name, header, crs)}",
                key="points.unknown_format",
            )
        return fits[0]
    if wanted not in fits or (wanted == "egms" and fits[0] == "egms-l3"):
        likely = f" It looks like format {fits[0]}." if fits else ""
        raise InputError(
            f"{product}: not of format {wanted} ({FORMATS[wanted].called}), {begins}.{likely}",
            key="products.other_format",
        )
    return wanted


def _check_settings(file: ProductFile) -> ProductFile:
    """Return the file; refuse it if a setting is stated that its format does not use."""
    is_text = file.kind == "csv"
    unused = file.about.model_fields_set - FORMATS[file.format].uses - COMMON_KEYS
    if not is_text:
        unused |= file.about.model_fields_set & CSV_KEYS
    if unused:
        kind = (
            f"format {file.format}"
            if is_text
            else f"format {file.format} in a {file.path.suffix} file"
        )
        raise InputError(
            f"{file.path}: the params state {', '.join(sorted(unused))} for it (ingest.products), "
            f"which {kind} does not use. Remove it there, or let a pattern before it fit this "
            "file.",
            key="products.unused_setting",
        )
    return file
