"""Read what may have caused damage: tunnels, excavations, wells, mines."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import geopandas
import numpy as np
import pandas as pd
import pyogrio
import shapely
from numpy.typing import NDArray
from pyogrio.errors import DataSourceError
from pyproj.exceptions import ProjError

from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.params import Footprints
from plumbline.sources.city.window import Window, parse_day
from plumbline.sources.files.opened import fits
from plumbline.sources.footprints.buildings import check_crs, reprojected
from plumbline.sources.footprints.open import read_vector

COLUMNS = ("name", "reach_m", "from", "until")
MOVING_AREAS, PREDICTIONS = "moving_areas", "predictions"
"""Layers of a GeoPackage of `predict`: the first may be causes of the next one."""
MAX_CAUSES = 1000
"""Largest number of features of a file: more are something else, as all objects of a region."""


class Cause(NamedTuple):
    """Something that may have damaged the buildings near to it."""

    name: str
    geometry: Any
    reach_m: float | None
    """Distance from it at which buildings may be affected, m; None: to be estimated."""
    swapped: Any = None
    """The place with both coordinates swapped, as they may have been written; None where
    there is no such place."""


class CausesFile(NamedTuple):
    """Causes of a file."""

    path: Path
    frame: geopandas.GeoDataFrame
    about: list[tuple[str, float | None, Window]]
    """Name, reach and dates of each feature."""


def read_causes(path: Path, stated: Mapping[str, Footprints]) -> CausesFile:
    """Read a file of causes.

    Args:
        path: any vector file, with the columns `name`, `reach_m`, `from` and `until` or without.
        stated: CRS and layer by pattern of file name (`ingest.footprints`), where the file
            does not state them.

    Raises:
        InputError: the file cannot be read, has no CRS, holds nothing or too much, or a
            cell is not understood.
    """
    settings = next(
        (about for pattern, about in stated.items() if fits(path, pattern)), Footprints()
    )
    frame = read_vector(path, settings.layer or _find_moving_areas(path), settings.crs)
    frame = frame[~(frame.geometry.isna() | frame.geometry.is_empty)]
    if not len(frame):
        raise InputError(
            f"{path}: it holds no causes. Give lines, polygons or points.", key="causes.none"
        )
    if len(frame) > MAX_CAUSES:
        raise InputError(
            f"{path}: {len(frame)} features; at most {MAX_CAUSES} causes are read. Leave out "
            "what is none.",
            key="causes.too_many",
        )
    check_crs(path, frame)
    frame = frame.set_geometry(
        geopandas.GeoSeries(shapely.force_2d(frame.geometry), frame.index, frame.crs)
    )
    columns = {str(name).casefold(): frame[name] for name in frame.columns}
    cells = {name: columns[name].to_list() for name in COLUMNS if name in columns}
    rows = [{name: values[row] for name, values in cells.items()} for row in range(len(frame))]
    return CausesFile(
        path,
        frame,
        [
            _parse_cells(path, number + 1, row)
            for number, row in zip(frame.index, rows, strict=True)
        ],
    )


def _find_moving_areas(path: Path) -> str | None:
    """Return the name of the layer of moving areas, if it is a file that `predict` has written.

    Raises:
        InputError: it is, and has none: its buildings are no causes.
    """
    if path.suffix.lower() != ".gpkg" or not path.is_file():
        return None
    try:
        layers = [str(name) for name, _ in pyogrio.list_layers(path)]
    except DataSourceError:
        return None  # `read_vector` reports what is wrong
    if MOVING_AREAS not in layers and PREDICTIONS in layers:
        raise InputError(
            f"{path}: a result of predict in which no area moves. Give other causes, or leave "
            "them out.",
            key="causes.no_moving_area",
        )
    return MOVING_AREAS if MOVING_AREAS in layers else None


def causes_of_city(file: CausesFile, crs: str, record: Window) -> list[Cause]:
    """Return the causes that were there during a record; features with the same name, reach
    and dates are one.

    Args:
        file: of causes. crs: projected, m, that they are wanted in. record: first and last
            epoch of the points.

    Raises:
        InputError: they cannot be reprojected.
    """
    try:
        shapes = reprojected(str(file.path), file.frame, crs).geometry.to_numpy()
    except ProjError as error:
        raise InputError(
            f"{file.path}: cannot be reprojected from {file.frame.crs.name} to {crs} ({error}).",
            key="crs.no_transformation",
        ) from None
    is_finite = np.isfinite(shapely.bounds(shapes)).all(axis=1)
    swapped = _swap_coordinates(file, crs)
    causes = []
    for cause in dict.fromkeys(file.about):
        name, reach_m, window = cause
        if _is_outside(window, record):
            log.info("%s: left out, as it is %s, and the record %s", name, window, record)
            continue
        rows = is_finite & np.array([feature == cause for feature in file.about])
        causes.append(
            Cause(
                name,
                _union(shapes[rows]),
                reach_m,
                None if swapped is None else _union(swapped[rows]),
            )
        )
    return causes


def _union(shapes: NDArray[np.object_]) -> Any:
    return shapely.union_all(shapely.make_valid(shapes))


def _swap_coordinates(file: CausesFile, crs: str) -> NDArray[np.object_] | None:
    """Return the shapes with both coordinates swapped; None if those are outside of the CRS."""
    swapped = shapely.transform(file.frame.geometry.to_numpy(), lambda at: at[:, ::-1])
    frame = file.frame.set_geometry(geopandas.GeoSeries(swapped, file.frame.index, file.frame.crs))
    with suppress(ProjError, InputError):
        check_crs(file.path, frame)
        shapes = reprojected(str(file.path), frame, crs).geometry.to_numpy()
        shapes[~np.isfinite(shapely.bounds(shapes)).all(axis=1)] = None
        return np.asarray(shapes, object)
    return None


def _parse_cells(
    path: Path, number: int, cells: Mapping[str, Any]
) -> tuple[str, float | None, Window]:
    """Return name, reach and dates of a feature.

    Raises:
        InputError: one of its cells is not understood.
    """
    where = f"{path}: feature {number}"
    texts = {
        name: text
        for name, cell in cells.items()
        if not pd.isna(cell) and (text := str(cell).strip())
    }
    since, until = (
        parse_day(f"{where}: {name}", texts[name][:10] if name in texts else None)
        for name in ("from", "until")
    )
    try:
        reach_m = float(texts["reach_m"]) if "reach_m" in texts else None
    except ValueError:
        reach_m = np.nan
    if reach_m is not None and not 0 < reach_m < np.inf:
        raise InputError(
            f"{where}: reach_m {texts['reach_m']!r} found. Give metres above 0, or leave the "
            "cell empty.",
            key="causes.wrong_reach",
        )
    if since and until and since > until:
        raise InputError(
            f"{where}: from {since} is after until {until}. Swap the two.", key="window.reversed"
        )
    return texts.get("name") or f"cause {number}", reach_m, Window(since, until)


def _is_outside(window: Window, record: Window) -> bool:
    """Return whether a cause was over before the record begins, or begins after it ends."""
    over = window.until is not None and record.since is not None and window.until < record.since
    later = window.since is not None and record.until is not None and window.since > record.until
    return over or later
