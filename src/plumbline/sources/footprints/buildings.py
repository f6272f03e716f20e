"""Read a file of footprints into the buildings table."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Mapping
from pathlib import Path

import geopandas
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import shapely
from pyproj import CRS, Transformer
from pyproj.exceptions import ProjError

from plumbline.core.console import log, warn
from plumbline.core.errors import InputError
from plumbline.params import PARAMS_FILE, Footprints
from plumbline.sources.crs import GLOBE
from plumbline.sources.datum_errors import ETRS89, is_better_through_etrs89, warn_of_datum_error
from plumbline.sources.files.opened import fits
from plumbline.sources.footprints.area import Area
from plumbline.sources.footprints.building_parts import drop_parts, warn_of_overlap
from plumbline.sources.footprints.city_models import remove_zone, transform_in_plane
from plumbline.sources.footprints.geometry import FeatureFilter, make_valid, take_polygons
from plumbline.sources.footprints.ids import ID, drop_duplicates, identify, warn_of_drawn_twice
from plumbline.sources.footprints.layers import READ_FAULTS, first_line_of
from plumbline.sources.footprints.open import read_vector
from plumbline.sources.footprints.tables import GEO

WRITE = {
    ".shp": "Add the Shapefile's .prj, or write",
    ".zip": "If it holds a Shapefile, add its .prj. Else write",
}


def check_crs(path: Path, frame: geopandas.GeoDataFrame) -> str:
    """Return the name of the footprints' CRS.

    Raises:
        InputError: there is none, it is neither geographic nor projected, or the
            coordinates cannot be its degrees.
    """
    if frame.crs is None:
        raise _missing_crs_error(path, frame)
    name = frame.crs.to_string() if frame.crs.to_epsg() is None else f"EPSG:{frame.crs.to_epsg()}"
    if not (frame.crs.is_geographic or frame.crs.is_projected):
        raise InputError(
            f"{path}: CRS {name} ({frame.crs.type_name}) found; footprints need a geographic or "
            "a projected one.",
            key="crs.wrong_kind",
        )
    if frame.crs.is_geographic:
        # Half a turn in the unit of the CRS: 180 degrees, 200 grads.
        half = np.pi / frame.crs.axis_info[0].unit_conversion_factor
        west, south, east, north = frame.total_bounds
        # Some count longitudes from 0 to 360, or on beyond 180 on either side.
        if max(-west, east) > 2 * half or max(-south, north) > half / 2:
            raise InputError(
                f"{path}: coordinates from {west:.10g}, {south:.10g} to {east:.10g}, "
                f"{north:.10g} cannot be degrees "
                f"of longitude and latitude, as the CRS ({name}) states"
                + (
                    ", unless the latitude comes first: write the longitude before it. "
                    if max(-west, east) <= half / 2 and max(-south, north) <= half
                    else ". "
                )
                + "Reproject the file, or name its CRS in it.",
                key="crs.not_degrees",
            )
    return name if len(name) < 40 else str(frame.crs.name)


def _missing_crs_error(path: Path, frame: geopandas.GeoDataFrame) -> InputError:
    """Make the error that asks for a CRS, with one that can fit the coordinates."""
    west, south, east, north = frame.total_bounds
    if (
        max(-west, east) <= 360 and max(-south, north) <= 180
    ):  # also counted from 0, or with the latitude first
        crs, assessment, replace = "EPSG:4326", "look like degrees", ""
    else:
        crs, assessment = (
            "EPSG:32633",
            "cannot be degrees of longitude and latitude: ask for their CRS where the file comes "
            "from",
        )
        replace = f", with your CRS in place of {crs} (UTM zone 33 north, an example)"
    return InputError(
        f"{path}: the footprints have no CRS. Their coordinates, from {west:.7g}, {south:.7g} to "
        f"{east:.7g}, "
        f"{north:.7g}, {assessment}. {WRITE.get(path.suffix.lower(), 'Write')} this line into "
        f"{PARAMS_FILE}{replace}:\n"
        f"ingest: {{footprints: {{{json.dumps(path.name, ensure_ascii=False)}: {{crs: "
        f'"{crs}"}}}}}}',
        key="footprints.no_crs",
    )


def reprojected(source: str, frame: geopandas.GeoDataFrame, crs: str) -> geopandas.GeoDataFrame:
    """Reproject `frame` to another CRS: directly, or through ETRS89 or WGS 84 if that is better.

    From ED50 to EPSG:3035, for example, PROJ has no transformation for all of Europe and uses the
    degrees as those of ETRS89, which shifts footprints by 100 m. To WGS 84 it has one.

    Args:
        source: names the file in the warning that no better transformation is known.

    Raises:
        ProjError: there is no transformation at all.
    """
    by_default = frame.to_crs(crs)
    places = shapely.get_coordinates(frame.geometry.to_numpy())
    if frame.crs == by_default.crs or not len(places):
        return by_default
    is_finite = np.isfinite(shapely.get_coordinates(by_default.geometry)).all()
    x, y = np.median(places, axis=0).tolist()
    routes = [(frame.crs, crs), (frame.crs, GLOBE, crs)]
    if is_better_through_etrs89(frame.crs, by_default.crs, (x, y)):
        routes.insert(0, (frame.crs, ETRS89, crs))
    for steps in routes:
        try:
            transformers = [
                Transformer.from_crs(*pair, always_xy=True, allow_ballpark=False)
                for pair in itertools.pairwise(steps)
            ]
        except ProjError:
            continue
        geometry = frame.geometry.to_numpy()
        for transformer in transformers:
            geometry = transform_in_plane(geometry, transformer.transform)
        if not is_finite or np.isfinite(shapely.get_coordinates(geometry)).all():
            warn_of_datum_error(source, transformers, (x, y), crs)
            return frame.set_geometry(
                geopandas.GeoSeries(geometry, index=frame.index, crs=by_default.crs)
            )
    ballpark = Transformer.from_crs(frame.crs, by_default.crs, always_xy=True)
    warn_of_datum_error(source, [ballpark], (x, y), crs)
    return by_default


HEIGHT = "height_m"


def read_buildings(
    path: Path,
    crs: str,
    *,
    id_column: str | None = None,
    layer: str | None = None,
    stated: Mapping[str, Footprints] | None = None,
    area: Area | None = None,
) -> geopandas.GeoDataFrame:
    """Read footprints and reproject them to `crs`.

    The columns of the file stay as they are (nested JSON as text), but for `height_m`,
    which becomes a number, and `building_id`, which becomes text; see `ids` for its source.
    A feature that is no footprint is left out with a warning; see `geometry`, also for
    invalid rings and for buildings with walls.

    `.attrs` records what was done: `source_crs` (name), `repaired` and `left_out` (lists of
    ids), and the counts `assigned_ids`, `duplicates_dropped`, `drawn_twice`, `covered` (by
    others in them), `overlapping`, `heights_unknown`, `multipart` (buildings of several
    parts) and `with_holes`.

    Args:
        path: GeoJSON, GeoPackage, Shapefile (also zipped), GeoParquet, or what else
            geopandas reads.
        crs: projected CRS of the points, in m.
        id_column: column that identifies a building; it is copied to `building_id` if it is
            another. See `identify` for what counts without.
        layer: name, of a file with several; see `choose_layer` for what is read without.
        stated: patterns of file names -> both of them, and the file's CRS
            (`ingest.footprints`), where they are not given here; the first that fits
            counts.
        area: around the points; of a file too large to be read whole, only what reaches
            into it is read.

    Raises:
        InputError: the file cannot be read, has no CRS, no footprints, or ids that repeat;
            the message names the features.
    """
    settings = _find_settings(path, stated or {})
    id_column = settings.id_column if id_column is None else id_column
    frame = read_vector(path, settings.layer if layer is None else layer, settings.crs, area)
    if not len(frame):
        raise InputError(
            f"{path}: it holds no footprints. Is it of that place and that layer? Download it "
            "again.",
            key="footprints.none",
        )
    geometry = remove_zone(path, frame.geometry.to_numpy(), frame.crs)
    geometry, reasons = take_polygons(geometry, frame.crs)
    frame = frame.set_geometry(geopandas.GeoSeries(geometry, index=frame.index, crs=frame.crs))
    frame, reasons = drop_parts(path, frame, reasons)
    is_polygon = np.array([reason is None for reason in reasons], bool)
    identified = identify(path, frame, id_column, np.flatnonzero(is_polygon))
    sieve = FeatureFilter(path, identified.ids, np.arange(len(frame)))
    frame = frame[sieve.leave_out(reasons, "Give the buildings' outlines, as polygons.")]
    source_crs = check_crs(path, frame)
    try:
        frame = reprojected(str(path), frame, crs)
    except ProjError as error:
        raise InputError(
            f"{path}: cannot be reprojected from {source_crs} to {crs} ({error}).",
            key="crs.no_transformation",
        ) from None
    geometry, repaired = make_valid(sieve, frame.geometry.to_numpy(), crs)
    sieve.log_left_out()
    is_first = drop_duplicates(sieve, geometry, identified.column or ID)
    sieve.row, geometry, repaired = sieve.row[is_first], geometry[is_first], repaired[is_first]
    frame = frame.loc[sieve.row].reset_index(drop=True)
    frame = frame.set_geometry(geopandas.GeoSeries(geometry, crs=crs))
    ids = sieve.remaining_ids
    if identified.column is not None and identified.column.casefold() == ID:
        frame = frame.rename(columns={identified.column: ID})
    frame[ID] = ids
    drawn_twice = warn_of_drawn_twice(sieve, geometry)
    covered, overlapping = warn_of_overlap(sieve, geometry)
    parts, building = shapely.get_parts(geometry, return_index=True)
    frame.attrs = {
        "source_crs": source_crs,
        "repaired": ids[repaired].tolist(),
        "left_out": sieve.ids[sieve.out].tolist(),
        "assigned_ids": identified.assigned,
        "duplicates_dropped": int((~is_first).sum()),
        "drawn_twice": drawn_twice,
        "covered": covered,
        "overlapping": overlapping,
        "heights_unknown": _read_heights(sieve, frame),
        "multipart": int((shapely.get_num_geometries(geometry) > 1).sum()),
        "with_holes": len(np.unique(building[shapely.get_num_interior_rings(parts) > 0])),
    }
    return frame


def _find_settings(path: Path, stated: Mapping[str, Footprints]) -> Footprints:
    """Return what `ingest.footprints` states of a file.

    Raises:
        InputError: PROJ does not know the CRS.
    """
    settings = next((about for pattern, about in stated.items() if fits(path, pattern)), None)
    if settings is None:
        if stated:
            log.info(
                "%s: no pattern of ingest.footprints fits it (%s)",
                path,
                ", ".join(map(repr, stated)),
            )
        return Footprints()
    if settings.crs is not None:
        try:
            CRS.from_user_input(settings.crs)
        except ProjError:
            raise InputError(
                f"{path}: ingest.footprints: crs {settings.crs!r} is not known. Name it like "
                "EPSG:4326.",
                key="crs.unknown",
            ) from None
    return settings


def buildings_table(buildings: geopandas.GeoDataFrame) -> pa.Table:
    """Convert the buildings table to Arrow; any of its rows, written as Parquet, are GeoParquet."""
    without_attrs = buildings.copy(deep=False)
    without_attrs.attrs = {}
    stream = io.BytesIO()
    without_attrs.to_parquet(stream, index=False, compression=None)
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
        raise InputError(f"{path}: no such file.", key="file.missing")
    try:
        frame = geopandas.read_parquet(path)
    except READ_FAULTS as error:
        raise InputError(
            f"{path}: not a buildings table ({first_line_of(error)}).",
            key="buildings_table.unreadable",
        ) from None
    if ID not in frame.columns or frame.crs is None:
        raise InputError(
            f"{path}: not a buildings table ({ID} or the CRS is missing).",
            key="buildings_table.missing_column",
        )
    return frame


def _read_heights(sieve: FeatureFilter, frame: geopandas.GeoDataFrame) -> int:
    """Convert heights to numbers, and count the unreadable ones; they are optional, so they
    raise no error."""
    if HEIGHT not in frame.columns:
        return 0
    heights = pd.to_numeric(frame[HEIGHT], errors="coerce").astype(float)
    bad = np.asarray((heights.isna() & frame[HEIGHT].notna()) | (heights < 0) | np.isinf(heights))
    if bad.any():
        warn(
            "%s: %d values of %s are no metres from 0 up and count as unknown: %s; the first is "
            "%r.",
            sieve.path,
            bad.sum(),
            HEIGHT,
            sieve.name(bad),
            frame.loc[bad, HEIGHT].tolist()[0],
            key="footprints.unknown_height",
        )
    frame[HEIGHT] = heights.mask(bad)
    return int(bad.sum())
