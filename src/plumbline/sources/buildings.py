"""Footprints: any file of polygons -> the buildings table, in the points' projected CRS."""

from __future__ import annotations

import io
import json
from pathlib import Path

import geopandas
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import shapely
from pyproj.exceptions import ProjError

from plumbline.errors import InputError
from plumbline.sources.identifiers import ID, drop_duplicates, identify
from plumbline.sources.polygons import (
    check_numbers,
    check_present,
    check_shown,
    has_holes,
    make_valid,
    name_features,
    unwrap,
)
from plumbline.sources.vector import READ_FAULTS, first_line, read_vector

HEIGHT = "height_m"
GEO = b"geo"
"""Key of GeoParquet's metadata."""


def read_buildings(path: Path, crs: str, id_column: str = ID) -> geopandas.GeoDataFrame:
    """Read footprints and reproject them to `crs`.

    The columns of the file stay as they are (nested JSON as text). `building_id` becomes text; where the file has no
    such column, the order of the file gives the names `B0000001`, `B0000002`, …; see `identifiers` for single ones and
    for repeated ones, `repair` for invalid rings.

    `.attrs` says what was found and done: `source_crs` (name), `repaired` (list of ids), and the counts `assigned_ids`,
    `duplicates_dropped`, `multipart` (buildings of several parts) and `with_holes`.

    Args:
        path: GeoJSON, GeoPackage, Shapefile (also zipped), GeoParquet, or what else geopandas reads.
        crs: projected CRS of the points, in m.
        id_column: column that identifies a building; it is copied to `building_id` if it is another.

    Raises:
        InputError: the file cannot be read, has no CRS, no footprints, one that is no polygon or invalid beyond repair,
            or ids that repeat; the message names the features.
    """
    frame = read_vector(path)
    if not len(frame):
        raise InputError(f"{path}: it holds no footprints.")
    ids, assigned = identify(path, frame, id_column)
    check_present(path, frame.geometry.to_numpy(), ids)
    check_numbers(path, frame.geometry.to_numpy(), ids)
    source_crs = _check_crs(path, frame)
    try:
        frame = frame.to_crs(crs)
    except ProjError as error:
        raise InputError(f"{path}: cannot be reprojected from {source_crs} to {crs} ({error}).") from None
    geometry = frame.geometry.to_numpy()
    check_shown(path, geometry, ids, crs)
    if shapely.has_z(geometry).any():
        geometry = shapely.force_2d(geometry)
    geometry, repaired = make_valid(path, unwrap(geometry), ids, crs)
    keep = drop_duplicates(path, geometry, ids, id_column)
    frame = frame.set_geometry(geopandas.GeoSeries(geometry, index=frame.index, crs=crs))
    frame[ID] = ids
    _check_heights(path, frame)
    if not keep.all():
        frame = frame[keep].reset_index(drop=True)
    frame.attrs = {
        "source_crs": source_crs,
        "repaired": ids[repaired & keep].tolist(),
        "assigned_ids": assigned,
        "duplicates_dropped": int((~keep).sum()),
        "multipart": int((shapely.get_num_geometries(geometry[keep]) > 1).sum()),
        "with_holes": int(has_holes(geometry[keep]).sum()),
    }
    return frame


def buildings_table(buildings: geopandas.GeoDataFrame) -> pa.Table:
    """The buildings table as Arrow has it: any of its rows, written as Parquet, are GeoParquet."""
    whole = buildings.copy(deep=False)
    whole.attrs = {}
    stream = io.BytesIO()
    whole.to_parquet(stream, index=False, compression=None)
    table = pq.read_table(stream)
    about = json.loads(table.schema.metadata[GEO])
    for column in about["columns"].values():
        column.pop("bbox", None)  # of all rows
    return table.replace_schema_metadata({**table.schema.metadata, GEO: json.dumps(about).encode()})


def load_buildings(path: Path) -> geopandas.GeoDataFrame:
    """Read a buildings table.

    Raises:
        InputError: the file is missing or is not a buildings table.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file.")
    try:
        frame = geopandas.read_parquet(path)
    except READ_FAULTS as error:
        raise InputError(f"{path}: not a buildings table ({first_line(error)}).") from None
    if ID not in frame.columns or frame.crs is None:
        raise InputError(f"{path}: not a buildings table ({ID} or the CRS is missing).")
    return frame


def _check_crs(path: Path, frame: geopandas.GeoDataFrame) -> str:
    if frame.crs is None:
        raise InputError(
            f"{path}: the footprints have no CRS. Say which it is, for example with "
            "`ogr2ogr -a_srs EPSG:4326 OUT.gpkg IN`, or add the Shapefile's .prj."
        )
    name = frame.crs.to_string() if frame.crs.to_epsg() is None else f"EPSG:{frame.crs.to_epsg()}"
    if not (frame.crs.is_geographic or frame.crs.is_projected):
        raise InputError(f"{path}: CRS {name} ({frame.crs.type_name}) found; footprints need a geographic or a "
                         "projected one.")  # fmt: skip
    if frame.crs.is_geographic:
        # Half a turn in the unit of the CRS: 180 degrees, 200 grads.
        half = np.pi / frame.crs.axis_info[0].unit_conversion_factor
        west, south, east, north = frame.total_bounds
        if max(-west, east) > half or max(-south, north) > half / 2:
            raise InputError(
                f"{path}: coordinates from {west:.10g}, {south:.10g} to {east:.10g}, {north:.10g} cannot be degrees "
                f"of longitude and latitude, as the CRS ({name}) says"
                + (", unless the latitude stands first: write the longitude before it. "
                   if max(-west, east) <= half / 2 and max(-south, north) <= half else ". ")
                + "A GeoJSON without `crs` is in degrees: reproject it, or name its CRS."
            )  # fmt: skip
    return name if len(name) < 40 else str(frame.crs.name)


def _check_heights(path: Path, frame: geopandas.GeoDataFrame) -> None:
    if HEIGHT not in frame.columns:
        return
    heights = pd.to_numeric(frame[HEIGHT], errors="coerce")
    bad = np.asarray((heights.isna() & frame[HEIGHT].notna()) | (heights < 0) | np.isinf(heights.astype(float)))
    if bad.any():
        found = frame[HEIGHT].iloc[int(np.argmax(bad))]
        named = name_features(bad, frame[ID].to_numpy())
        raise InputError(f"{path}: {named}: {HEIGHT} {found} found, metres from 0 are needed.")
    frame[HEIGHT] = heights.astype(float)
