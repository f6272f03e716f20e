"""Read footprints from tables that hold outlines as text or bytes: csv with WKT, Parquet
without geo metadata."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.dataset as pa_dataset
import pyarrow.parquet as pq
import pyproj
import shapely
from numpy.typing import NDArray

from plumbline.core.errors import InputError
from plumbline.sources.crs import GLOBE
from plumbline.sources.footprints.area import Area, touching
from plumbline.sources.footprints.ends import Ends
from plumbline.sources.footprints.layers import mend_integers
from plumbline.sources.footprints.source import FEATHER_SUFFIXES
from plumbline.sources.globe import are_degrees

OUTLINE = re.compile(
    r'(?:^|[,;\t|"\n])\s*(?:SRID=\d+;\s*)?(?:MULTI)?POLYGON\s*(?:Z|M|ZM)?\s*\(', re.IGNORECASE
)
"""An outline as text in a cell: WKT, or PostGIS's EWKT."""
HEX = re.compile(
    r'[,;\t|"\n](?:01(?:0[36]0000[028A]0|E[BE]030000)|00[028A]000000[36])[0-9A-F]{40}',
    re.IGNORECASE,
)
"""An outline as hexadecimal WKB, as PostGIS writes a geometry into a csv."""
EWKT = re.compile(r"\s*SRID=(\d+);", re.IGNORECASE)
SEPARATORS = (",", ";", "\t", "|")
GEO = b"geo"
"""Key of GeoParquet's metadata."""
EXTENSION_ABOUT = b"ARROW:extension:metadata"
"""Key of GeoArrow's metadata of a column."""
GOOGLE = {"latitude", "longitude", "area_in_meters", "confidence", "full_plus_code"}
"""Columns of Google Open Buildings, in WGS 84 (EPSG:4326) by its documentation."""
GOOGLE_CRS = "EPSG:4326"
GEOMETRY_NAMES = ("geometry", "geom", "wkb_geometry", "the_geom", "wkb", "wkt", "shape")
BLOCK_BYTES = 2**23
"""Bytes of a csv read at a time; a row, with its outline, must fit."""
BATCH_ROWS = 2**16
SAMPLE = 1000
"""Number of footprints by which degrees are distinguished from metres."""
POLYGONAL = 2
"""Dimensions of a polygon."""


Parse = Callable[[pa.Array], NDArray[np.object_]]


def has_outlines(start: str) -> bool:
    """Return whether a file with this beginning is a table with outlines as text."""
    if start[:1] in "{[<" or "\0" in start[:1000]:
        return False
    return bool(OUTLINE.search(start) or HEX.search(start))


def read_csv(ends: Ends, crs: str | None, area: Area | None) -> geopandas.GeoDataFrame:
    """Read a csv with a column of outlines; all other columns are text.

    Args:
        ends: beginning and end of the csv, packed or not.
        crs: CRS that the user states, for a file that states none.
        area: keeps only the rows that reach into it.

    Raises:
        InputError: it is cut off, no column or several hold outlines, or rows differ in
            their CRS.
        pa.ArrowException: the rows are no table.
    """
    table = ends.content
    if not ends.has_whole_outline:
        raise InputError(
            f"{table.path}: cut off: its last outline has no end. Download it again.",
            key="csv.cut_off",
        )
    header = (ends.start.splitlines() or [""])[0]
    if OUTLINE.match(header):
        raise InputError(
            f"{table}: its first line is an outline. Write the names of the columns before it, "
            "as `wkt`, and each "
            'outline between double quotes ("POLYGON ((…))").',
            key="csv.no_header",
        )
    separator = max(SEPARATORS, key=header.count)
    (columns,) = csv.reader([header], delimiter=separator)
    with table.open() as stream:
        reader = pa_csv.open_csv(
            stream,
            read_options=pa_csv.ReadOptions(block_size=BLOCK_BYTES, use_threads=False),
            parse_options=pa_csv.ParseOptions(delimiter=separator, newlines_in_values=True),
            convert_options=pa_csv.ConvertOptions(column_types=dict.fromkeys(columns, pa.string())),
        )
        names = [name.strip() for name in reader.schema.names]
        schema = pa.schema([pa.field(name, pa.string()) for name in names])
        default = GOOGLE_CRS if {name.lower() for name in names} >= GOOGLE else None
        return _collect(str(table), (batch.cast(schema) for batch in reader), crs or default, area)


def read_parquet(
    path: Path, crs: str | None, area: Area | None
) -> tuple[geopandas.GeoDataFrame, bool]:
    """Read GeoParquet, GeoPandas' Feather, or a Parquet with outlines as WKB or WKT that
    lacks GeoParquet's metadata.

    Args:
        path: a file, or a folder of them.
        crs: CRS that the user states, for a file that states none.
        area: keeps only the rows that reach into it.

    Returns:
        The table; and whether the file states its CRS, or that it has none.

    Raises:
        InputError: no column or several hold outlines, or rows differ in their CRS.
        ValueError, pa.ArrowException: it is no Parquet.
    """
    if path.suffix.lower() in FEATHER_SUFFIXES:
        return _with_index(geopandas.read_feather(path)), True
    dataset = pa_dataset.dataset(path, format="parquet")
    about, bounds, crs_of_file = _describe_outlines(dataset), None, None
    states_crs = about is None or "crs" in about
    if about is not None and area is not None:
        crs_of_file = about["crs"] if states_crs else _find_default_crs(dataset, about["name"], crs)
        is_plain_wkb = "covering" not in about and about.get("encoding") == "WKB"
        if crs_of_file is not None and is_plain_wkb:
            about = None
            crs = crs_of_file if isinstance(crs_of_file, str) else json.dumps(crs_of_file)
    if about is None:
        return _collect(str(path), dataset.to_batches(batch_size=BATCH_ROWS), crs, area), states_crs
    if area is not None and crs_of_file is not None and "covering" in about:
        bounds = area.bounds_in(pyproj.CRS(crs_of_file))
    frame = geopandas.read_parquet(path, bbox=bounds)
    if bounds is None:
        mend_integers(frame, lambda names: pq.read_table(path, columns=names))
    return _with_index(frame), states_crs


def _describe_outlines(dataset: pa_dataset.Dataset) -> dict[str, Any] | None:
    """Return GeoParquet's metadata of the column of outlines and its `name`; None without any."""
    about = json.loads((dataset.schema.metadata or {}).get(GEO, b"null"))
    return about and {**about["columns"][about["primary_column"]], "name": about["primary_column"]}


def _find_default_crs(dataset: pa_dataset.Dataset, column: str, stated: str | None) -> str | None:
    """Return the CRS of a GeoParquet that names none: degrees, as the format has it, unless
    they cannot be."""
    first = next(dataset.to_batches(columns=[column], batch_size=SAMPLE), None)
    shapes = _plain_array(first[column]) if first is not None else pa.array([], pa.binary())
    is_wkb = pa.types.is_binary(shapes.type) or pa.types.is_large_binary(shapes.type)
    return GLOBE if not is_wkb or are_degrees(_parse_bytes(shapes)) else stated


def _with_index(frame: pd.DataFrame) -> pd.DataFrame:
    """Move the named levels of the index to columns: many programs store ids as the index."""
    names = [name for name in frame.index.names if name not in (None, "geometry", *frame.columns)]
    for position, name in enumerate(names):
        frame.insert(position, name, frame.index.get_level_values(name).to_numpy())
    return frame


def _crs_of_field(field: pa.Field) -> str | None:
    """Return the CRS in a column's GeoArrow metadata, as text for PROJ; None without one."""
    about = (field.metadata or {}).get(EXTENSION_ABOUT)
    if about is None and isinstance(field.type, pa.ExtensionType):
        about = field.type.__arrow_ext_serialize__()
    try:
        crs = json.loads(about or b"{}").get("crs")
    except (ValueError, AttributeError):
        return None
    return crs if crs is None or isinstance(crs, str) else json.dumps(crs)


def _collect(
    source: str, batches: Iterable[pa.RecordBatch], crs: str | None, area: Area | None
) -> geopandas.GeoDataFrame:
    column: str | None = None
    parse: Parse = _parse_text
    crs_of_rows, parts, shapes = crs, [], []
    for batch in batches:
        if not batch.num_rows:
            continue
        if column is None:
            column, parse = _geometry_column(source, batch)
            crs_of_rows = crs = _crs_of_field(batch.schema.field(column)) or crs
        geometry = parse(_plain_array(batch[column]))
        crs_of_rows = _find_crs_of_rows(source, column, geometry, crs_of_rows, crs_of_rows is crs)
        bounds = (
            area.bounds_in(pyproj.CRS(crs_of_rows)) if area is not None and crs_of_rows else None
        )
        rows = (
            np.arange(len(geometry))
            if bounds is None
            else np.flatnonzero(touching(geometry, bounds))
        )
        parts.append(batch.drop_columns([column]).take(pa.array(rows)))
        shapes.append(geometry[rows])
    if column is None:
        raise InputError(
            f"{source}: it holds no footprints. Is it of that place and that layer? Download it "
            "again.",
            key="footprints.none",
        )
    frame = pa.Table.from_batches(parts).to_pandas()
    return geopandas.GeoDataFrame(
        frame.drop(columns="geometry", errors="ignore"),
        geometry=np.concatenate(shapes),
        crs=crs_of_rows,
    )


def _geometry_column(source: str, batch: pa.RecordBatch) -> tuple[str, Parse]:
    """Return the name of the column of outlines, and its reader, by its first filled cell."""
    parsers: dict[str, Parse] = {}
    flat: list[str] = []
    for field in batch.schema:
        first = next(
            (value for value in _plain_array(batch[field.name]).drop_null().to_pylist() if value),
            None,
        )
        parse = _parse_text if isinstance(first, str) and OUTLINE.match(first) else _parse_bytes
        shape = parse(pa.array([first]))[0] if isinstance(first, str | bytes) else None
        if shape is not None:
            parsers[field.name] = parse
            flat += [field.name] if shapely.get_dimensions(shape) == POLYGONAL else []
    names = flat or list(parsers)
    usual = [name for name in names if name.lower() in GEOMETRY_NAMES]
    names = usual[:1] if len(names) > 1 and usual else names
    if len(names) > 1:
        raise InputError(
            f"{source}: columns {', '.join(names)} all hold outlines. Keep the one of the "
            "footprints.",
            key="footprints.several_geometries",
        )
    if not names:
        raise InputError(
            f"{source}: a table without geometry: its columns are "
            f"{', '.join(batch.schema.names[:20])}. Give one that has the footprints as polygons, "
            "in WKT or WKB.",
            key="footprints.no_geometry",
        )
    return names[0], parsers[names[0]]


def _parse_text(values: pa.Array) -> NDArray[np.object_]:
    texts = ["" if text is None else text for text in values.to_pylist()]
    stated = [EWKT.match(text) for text in texts]
    bare = np.array(
        [text[srid.end() if srid else 0 :] for text, srid in zip(texts, stated, strict=True)],
        object,
    )
    shapes = shapely.from_wkt(bare, on_invalid="ignore")
    return np.asarray(
        shapely.set_srid(shapes, [int(srid[1]) if srid else 0 for srid in stated]), object
    )


def _parse_bytes(values: pa.Array) -> NDArray[np.object_]:
    return np.asarray(
        shapely.from_wkb(np.array(values.to_pylist(), object), on_invalid="ignore"), object
    )


def _find_crs_of_rows(
    source: str, column: str, geometry: NDArray[np.object_], crs: str | None, is_stated: bool
) -> str | None:
    """Return the CRS in outlines of EWKT or EWKB, else `crs`, from the user or from earlier
    rows."""
    numbers = set(shapely.get_srid(geometry[~shapely.is_missing(geometry)]).tolist()) - {0}
    try:
        names = sorted(pyproj.CRS.from_epsg(number).to_string() for number in numbers)
    except pyproj.exceptions.CRSError:
        raise InputError(
            f"{source}: column {column}: SRID {numbers} found, which EPSG does not list.",
            key="crs.unknown",
        ) from None
    differing = names if is_stated or crs is None else sorted({*names, crs})
    if len(differing) > 1:
        raise InputError(
            f"{source}: column {column}: outlines in {', '.join(differing)} found. Give them in "
            "one CRS.",
            key="footprints.several_crss",
        )
    return names[0] if names else crs


def _plain_array(values: pa.Array) -> pa.Array:
    return values.storage if isinstance(values, pa.ExtensionArray) else values
