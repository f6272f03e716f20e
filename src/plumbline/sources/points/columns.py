"""Reader of any csv of points whose columns `params.yaml` describes: what is what, in which unit, of which sign."""

from __future__ import annotations

import numpy as np

from plumbline import params
from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.sources.crs import PLANE, is_elsewhere, is_globe, ranges
from plumbline.sources.files.archive import Product
from plumbline.sources.files.table import read_header
from plumbline.sources.grid import GLOBE
from plumbline.sources.points.epochs import check_pattern, find_days, like_days
from plumbline.sources.points.layout import TO_MM, Angles, Layout, to_mm
from plumbline.sources.points.reader_base import MIN_EPOCHS, PointSource
from plumbline.sources.points.table_reader import open_csv
from plumbline.sources.points.vector_layer import Layer


def open_columns(product: Product, about: params.Product, crs: str | None) -> PointSource:
    """Open a csv by the description of its columns, `about`.

    Raises:
        InputError: `about` has no columns, or a pattern of epochs that says no day; a column is missing, too few are
            named as epochs; what concerns rows, where reading gets to them.
    """
    if about.units is None or about.epochs is None:
        raise InputError(
            f"{product}: to be read as a table of columns, params.yaml must say what they are: ingest.products, with "
            "columns, units, positive and epochs (docs/formats.md)."
        )
    header = read_header(product)
    has = about.columns
    globe = "latitude" in has
    says = product.crs if isinstance(product, Layer) and globe else None
    crs_of_file = about.crs or says or GLOBE
    if is_globe(str(product), crs_of_file) != globe:
        wanted = "latitude and longitude" if globe else "easting and northing"
        raise InputError(f"{product}: crs {crs_of_file} in params.yaml is not one of {wanted}. Correct one of the two.")
    known = set(has.values())
    if isinstance(product, Layer):
        _check_layer(product, known, crs_of_file)
    days = _days(product, [name for name in header if name not in known], about.epochs)
    x_range, y_range = (PLANE, PLANE) if globe else ranges(str(product), crs_of_file)
    layout = Layout(
        days=days,
        x_range=x_range,
        y_range=y_range,
        x=has["longitude" if globe else "easting"],
        y=has["latitude" if globe else "northing"],
        crs=crs_of_file,
        to_mm=to_mm(about, about.units.displacement),
        los=_line_of_sight(about),
        point_id=has.get("point_id"),
        height=has.get("height"),
        coherence=has.get("coherence"),
        rmse=has.get("rmse"),
        rmse_to_mm=TO_MM[about.units.displacement],
    )
    return open_csv(product, header, layout, about.track or product.path.stem, crs)


def _check_layer(layer: Layer, known: set[str], stated: str) -> None:
    """Refuse a CRS that is not the layer's own for the places that are: a zone beside it moves a city by far."""
    if layer.crs is not None and known.intersection(layer.places) and is_elsewhere(str(layer), layer.crs, stated):
        raise InputError(
            f"{layer}: {', '.join(layer.places)} are in {layer.crs}, as the file says, and crs in ingest.products says "
            f"{stated}. Write the file's there; or where the file is wrong, mend it: `ogr2ogr -a_srs {stated} OUT.gpkg "
            "IN`."
        )


def _days(product: Product, names: list[str], epochs: str) -> dict[str, np.datetime64]:
    """Column -> day; where some that look like days are none by `epochs`, they are named."""
    days = find_days(str(product), names, check_pattern(str(product), epochs))
    others = like_days([name for name in names if name not in days])
    shown = ", ".join(map(repr, others[:3])) or ", ".join(map(repr, names[-3:])) or "none"
    if len(days) < MIN_EPOCHS:
        raise InputError(
            f"{product}: {len(days)} epochs found by {epochs!r} (epochs in ingest.products), at least {MIN_EPOCHS} are "
            f"needed. Write there how its columns are named; not described are: {shown}."
        )
    if others:
        log.warning("%s: %d columns look like days, but are not named as %r (epochs in ingest.products) and are left "
                    "out: %s.", product, len(others), epochs, shown)  # fmt: skip
    return days


def _line_of_sight(about: params.Product) -> tuple[str, str, str] | Angles:
    has = about.columns
    if "los_up" in has:
        return has["los_east"], has["los_north"], has["los_up"]
    incidence, heading = has.get("incidence", about.incidence_deg), has.get("heading", about.heading_deg)
    if incidence is None or heading is None:
        raise InputError("ingest.products: an incidence and a heading are needed.")
    return Angles(incidence, heading)
