"""Read a file of footprints, whatever its format, as one table with its CRS."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import pandas as pd

from plumbline.core.console import warn
from plumbline.core.errors import InputError
from plumbline.sources.crs import GLOBE, is_local
from plumbline.sources.files.limits import warn_of_limits
from plumbline.sources.footprints.area import MARGIN_M, Area
from plumbline.sources.footprints.city_models import (
    is_city_gml,
    is_city_json,
    locate,
    read_city_gml,
    read_city_json,
)
from plumbline.sources.footprints.ends import Ends, check_statements
from plumbline.sources.footprints.layers import (
    READ_FAULTS,
    SAMPLE,
    concatenate_parts,
    make_fault,
    read_layers,
)
from plumbline.sources.footprints.source import Piece, find_pieces
from plumbline.sources.footprints.tables import has_outlines, read_csv, read_parquet
from plumbline.sources.globe import are_degrees

GEOJSON, GEOPARQUET = "GeoJSON", "GeoParquet"
"""Formats whose coordinates are degrees where they state no CRS."""
SRS_NAME = re.compile(r"""<.*?\ssrsName\s*=\s*["']([^"']+)["']""", re.DOTALL)
"""First CRS that a GML names."""
READERS: tuple[
    tuple[Callable[[str], bool], Callable[[Ends, str | None, Area | None], geopandas.GeoDataFrame]],
    ...,
] = (
    (is_city_json, read_city_json),
    (is_city_gml, read_city_gml),
    (has_outlines, read_csv),
)
"""Files that GDAL cannot read as buildings: what recognises their beginning, and their reader."""


def read_vector(
    path: Path, layer: str | None = None, crs: str | None = None, area: Area | None = None
) -> geopandas.GeoDataFrame:
    """Read the features of a file, in its own CRS, geometry in the column `geometry`;
    nested JSON as text.

    Args:
        path: the file.
        layer: its name; see `choose_layers` for what is read without.
        crs: that of the coordinates, where the file does not state it.
        area: of a large file only the features that reach into it are read.

    Raises:
        InputError: the file is missing, empty, no vector file, a zip or gzip that is not
            safe to read, a table without geometry, a GeoJSON with a CRS that is not known,
            or has no such layer.
    """
    if not path.exists():
        raise InputError(f"{path}: no such file.", key="file.missing")
    if path.is_file() and path.stat().st_size == 0:
        raise InputError(f"{path}: the file is empty.", key="file.empty")
    area = area.of_file(path) if area is not None else None
    frames = [_read_piece(piece, crs, area) for piece in find_pieces(path, layer)]
    frame = concatenate_parts(path, frames)
    if area is not None:
        warn(
            "%s: too large to be read whole; the %d features that reach into the area of the "
            "points are read (%s).",
            path,
            len(frame),
            area,
            key="footprints.read_by_area",
        )
        if not len(frame):
            raise InputError(
                f"{path}: no footprint is within {MARGIN_M:.0f} m of the points ({area}). Is it "
                "of that place?",
                key="footprints.none_near_points",
            )
    return frame


def _read_piece(piece: Piece, crs: str | None, area: Area | None) -> geopandas.GeoDataFrame:
    """Read one file of footprints."""
    path = piece.path
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            frame, format_of_crs = _read_frame(piece, crs, area)
        for message in sorted(
            {
                str(warning.message)
                for warning in caught
                if not issubclass(warning.category, RuntimeWarning)
            }
        ):
            warn("%s: %s", path, message, key="footprints.reader_warning")
    except READ_FAULTS as error:
        raise make_fault(path, error) from None
    if not isinstance(frame, geopandas.GeoDataFrame) or frame.columns.duplicated().any():
        raise InputError(
            f"{path}: a table without geometry, or with two columns of one name; footprints are "
            "needed. Points go to --points.",
            key="footprints.no_geometry",
        )
    if area is None:
        warn_of_limits(path, len(frame.columns) - 1, len(frame))
    if piece.ends is not None:
        check_statements(piece.ends, frame.crs, len(frame) if area is None else None)
        named = SRS_NAME.match(piece.ends.start)
        if named and frame.crs is None:  # GDAL knows no names of agencies
            geometry, named_crs = locate(str(path), frame.geometry.to_numpy(), named[1], crs)
            frame = frame.set_geometry(geometry, crs=named_crs)
    frame = _set_crs(path, frame.reset_index(drop=True), crs, format_of_crs)
    for name in [
        column
        for column, kind in frame.dtypes.items()
        if kind.kind == "O" and kind.name == "object"
    ]:
        # Objects within a GeoJSON's properties have no type that a table could hold: they go
        # on as the text they were.
        if frame[name].map(lambda value: isinstance(value, dict | list | np.ndarray)).any():
            frame[name] = [
                None if value is None else json.dumps(value, default=_to_json_value)
                for value in frame[name]
            ]
    return frame if frame.geometry.name == "geometry" else frame.rename_geometry("geometry")


def _read_frame(
    piece: Piece, crs: str | None, area: Area | None
) -> tuple[pd.DataFrame, str | None]:
    """Return the features of a file, and the format that gives them a CRS by default; None
    if the file states the CRS, or has none."""
    if piece.is_columnar:
        frame, states_crs = read_parquet(piece.path, crs, area)
        return frame, None if states_crs else GEOPARQUET
    if piece.ends is not None:
        for is_format, read in READERS:
            if is_format(piece.ends.start):
                return read(piece.ends, crs, area), None
    is_default = piece.ends is not None and piece.ends.assumes_crs
    return read_layers(piece, crs, area), GEOJSON if is_default else None


def _to_json_value(value: Any) -> Any:
    """Convert an array or a time within nested values to a JSON value."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)


def _set_crs(
    path: Path, frame: geopandas.GeoDataFrame, stated: str | None, format_: str | None
) -> geopandas.GeoDataFrame:
    """Set the CRS that the user states if the file lacks one; see `_read_frame`."""
    if format_ == GEOJSON and frame.crs != GLOBE:
        format_ = None
    is_unknown = is_local(frame.crs) and (stated is not None or not frame.crs.is_geographic)
    if is_unknown or (format_ and not are_degrees(frame.geometry.to_numpy()[:SAMPLE])):
        frame = frame.set_crs(None, allow_override=True)
    if stated is None or frame.crs == stated:
        return frame
    if frame.crs is None:
        return frame.set_crs(stated)
    reason = (
        f"coordinates in a {format_} without `crs` are degrees of" if format_ else "the file states"
    )
    warn(
        "%s: crs %s of ingest.footprints does not count, %s %s.",
        path,
        stated,
        reason,
        frame.crs.name,
        key="footprints.unused_crs",
    )
    return frame
