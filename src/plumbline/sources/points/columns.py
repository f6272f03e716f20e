"""Read any csv or layer of points with columns that `params.yaml` describes."""

from __future__ import annotations

import numpy as np

from plumbline import params
from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.sources.crs import GLOBE, PLANE, is_globe, ranges
from plumbline.sources.files.archive import CsvFile
from plumbline.sources.points.epochs import check_pattern, find_days, like_days
from plumbline.sources.points.reader_base import MIN_EPOCHS, TO_MM, Angles, PointSource, TableLayout, to_mm
from plumbline.sources.points.table_reader import open_csv_table
from plumbline.sources.points.vector_layer import PointLayer, check_stated_crs, cut_advice


def described(product: CsvFile, about: params.Product) -> tuple[params.Units, str]:
    """Return the units of a described csv, and the pattern of its epochs.

    Raises:
        InputError: `about` has no columns.
    """
    if about.units is None or about.epochs is None:
        raise InputError(
            f"{product}: to be read as a table of columns, it needs a description of them. Write ingest.products, with "
            f"columns, units, positive and epochs (docs/formats.md), into {params.PARAMS_FILE}."
        )
    return about.units, about.epochs


def open_columns(product: CsvFile, header: list[str], about: params.Product, crs: str | None) -> PointSource:
    """Open a csv by its header and the description of its columns, `about`.

    Raises:
        InputError: `about` has no columns, or a pattern of epochs that says no day; a column is missing, too few are
            named as epochs; what concerns rows, where reading gets to them.
    """
    units, epochs = described(product, about)
    has = about.columns
    globe = "latitude" in has
    says = product.crs if isinstance(product, PointLayer) and globe else None
    crs_of_file = about.crs or says or GLOBE
    if is_globe(str(product), crs_of_file) != globe:
        wanted = "latitude and longitude" if globe else "easting and northing"
        raise InputError(f"{product}: crs {crs_of_file} in params.yaml is not one of {wanted}. Correct one of the two.")
    known = set(has.values())
    if isinstance(product, PointLayer) and known.intersection(product.places):
        check_stated_crs(product, crs_of_file)
    days = _days(product, [name for name in header if name not in known], epochs)
    x_range, y_range = (PLANE, PLANE) if globe else ranges(str(product), crs_of_file)
    layout = TableLayout(
        days=days,
        x_range=x_range,
        y_range=y_range,
        x=has["longitude" if globe else "easting"],
        y=has["latitude" if globe else "northing"],
        crs=crs_of_file,
        to_mm=to_mm(about, units.displacement),
        los=_line_of_sight(about),
        point_id=has.get("point_id"),
        height=has.get("height"),
        coherence=has.get("coherence"),
        rmse=has.get("rmse"),
        rmse_to_mm=TO_MM[units.displacement],
        missing=about.missing,
    )
    return open_csv_table(product, header, layout, about.track or product.path.stem, crs)


def _days(product: CsvFile, names: list[str], epochs: str) -> dict[str, np.datetime64]:
    """Return column -> day, and name the columns that look like days but do not match `epochs`."""
    days = find_days(str(product), names, check_pattern(str(product), epochs))
    others = like_days([name for name in names if name not in days])
    shown = ", ".join(map(repr, others[:3])) or ", ".join(map(repr, names[-3:])) or "none"
    if len(days) < MIN_EPOCHS:
        raise InputError(
            f"{product}: {len(days)} epochs found by {epochs!r} (epochs in ingest.products), at least {MIN_EPOCHS} are "
            f"needed. Write there how its columns are named; not described are: {shown}.{cut_advice(product, names)}"
        )
    if others:
        log.warning(
            "%s: %d columns look like days, but are not named as %r (epochs in ingest.products) and are left out: %s.",
            product,
            len(others),
            epochs,
            shown,
        )
    return days


def _line_of_sight(about: params.Product) -> tuple[str, str, str] | Angles:
    has = about.columns
    if "los_up" in has:
        return has["los_east"], has["los_north"], has["los_up"]
    incidence, heading = has.get("incidence", about.incidence_deg), has.get("heading", about.heading_deg)
    if incidence is None or heading is None:
        raise InputError("ingest.products: an incidence and a heading are needed.")
    to_degrees = float(np.degrees(1)) if about.units is not None and about.units.angle == "rad" else 1.0
    return Angles(incidence, heading, about.look, to_degrees)
