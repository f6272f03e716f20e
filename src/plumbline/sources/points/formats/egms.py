"""Describe the columns of EGMS products of L2 and L3, in csv or Parquet, for the reader of
tables."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from plumbline import params
from plumbline.core.errors import InputError
from plumbline.sources.files.streams import CsvFile
from plumbline.sources.points.epochs import find_epochs
from plumbline.sources.points.source import TableLayout

CRS = "EPSG:3035"
LOS = ("los_east", "los_north", "los_up")
HEIGHTS = ("height_ortho", "height")
"""Name of the height column: since the 2019-2023 release, and before."""
COHERENCE = "temporal_coherence"
CUT_LETTERS = 10
"""Length to which a Shapefile cuts the names of columns."""
RMSE = ("rmse_ts", "rmse")
"""Name of the root mean square error, mm: since the 2019-2023 release, and before."""
EASTINGS, NORTHINGS = (500_000.0, 8_500_000.0), (500_000.0, 7_500_000.0)
"""Europe from the Azores to the Caucasus, Cyprus to Svalbard, m; degrees or another
projection fall outside."""
DIRECTIONS = {"up": (0.0, 0.0, 1.0), "east": (1.0, 0.0, 0.0)}
LETTERS = {"U": "up", "E": "east"}
CELLS = "an EGMS L3 product: its points are means over cells of 100 m"


def is_egms(header: list[str]) -> bool:
    """Return whether the names of columns are those of an EGMS product of L2 or L3,
    complete or not."""
    usual_names = {
        "mp_type",
        "easting",
        "northing",
        "rmse",
        "rmse_ts",
        "mean_velocity",
        "track_angle",
        COHERENCE,
        *LOS,
    }
    return len(usual_names.intersection(header)) >= 3 and ("pid" in header or "mp_type" in header)


def is_ortho(header: list[str]) -> bool:
    """Return whether the columns are those of an EGMS product without any line of sight: L3."""
    return is_egms(header) and not {*LOS, COHERENCE, "incidence_angle", "mp_type"}.intersection(
        header
    )


def whole_names(header: list[str]) -> list[str]:
    """Restore names in an EGMS product's header that a Shapefile has cut, for the columns
    that are read.

    Otherwise `temporal_c` would be ignored, and points below `ingest.min_coherence` would pass.
    """
    cut = {name[:CUT_LETTERS]: name for name in (HEIGHTS[0], COHERENCE) if name not in header}
    return [cut.get(name, name) for name in header] if is_egms(header) else header


def egms_layout(
    product: CsvFile, header: list[str], about: params.Product
) -> tuple[TableLayout, tuple[str, ...]]:
    """Return the roles of an EGMS product's columns, and notes on the file.

    A track of L2 has its line of sight in three columns. The motion of L3 is up, or east, on cells.

    Args:
        product: the file. header: names of its columns. about: what `ingest.products` states of it.

    Raises:
        InputError: there are no heights, a column named by eight digits is no day, or
            nothing shows which component an L3 product is.
    """
    height = next((name for name in HEIGHTS if name in header), None)
    if height is None:
        raise InputError(
            f"{product}: it has no heights: column {HEIGHTS[0]} (of older releases {HEIGHTS[1]}) "
            "is missing. Tilts are found by heights: download the product again, with all of its "
            "columns; or describe its columns in ingest.products without height "
            "(docs/formats.md), and all points count as of one height.",
            key="egms.no_heights",
        )
    component, notes = _find_component(product, about) if is_ortho(header) else (None, ())
    layout = TableLayout(
        days=find_epochs(str(product), header, ["%Y%m%d"]),
        x="easting",
        y="northing",
        crs=CRS,
        is_true_to_ground=True,
        to_mm=1.0,
        los=LOS if component is None else DIRECTIONS[component],
        point_id="pid",
        height=height,
        coherence=COHERENCE if COHERENCE in header else None,
        rmse=next((name for name in RMSE if name in header), None),
        x_range=EASTINGS,
        y_range=NORTHINGS,
        cells=component is not None,
        missing=about.missing,
    )
    return layout, notes


def _find_component(product: CsvFile, about: params.Product) -> tuple[str, tuple[str, ...]]:
    """Return `up` or `east`, as stated or by the letter in the csv's or the file's name,
    and notes on the choice.

    Raises:
        InputError: neither shows it, or the two names contradict each other.
    """
    if about.component is not None:
        return about.component, (CELLS,)
    names = [product.path.stem, *([PurePosixPath(product.member).stem] if product.member else [])]
    components = {
        LETTERS[part] for name in names for part in re.split(r"[_\-. ]", name) if part in LETTERS
    }
    if len(components) != 1:
        letters = "both E and U occur" if components else "neither E nor U occurs"
        raise InputError(
            f"{product}: an EGMS L3 product, whose columns do not show whether it is up or east, "
            f"and {letters} in its name. Write these lines into {params.PARAMS_FILE}:\n"
            "ingest:\n"
            "  products:\n"
            f"    {product.path.name!r}: {{component: up}}  # or east",
            key="egms.unknown_component",
        )
    (component,) = components
    return component, (CELLS, f"by its name, the motion is {component}")
