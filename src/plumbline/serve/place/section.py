"""Cut a cross section: points, buildings and a field along a line."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import pandas as pd
import shapely
from numpy.typing import NDArray

from plumbline.core.arrays import Float
from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.core.files import atomic_file
from plumbline.core.strain import category
from plumbline.reporting.colours import CATEGORY_COLOURS, GREY
from plumbline.reporting.cross_section import Band, Bar, Dots, section_chart
from plumbline.serve.columns import format_permille, format_share
from plumbline.serve.predictions import check_output, read_predictions
from plumbline.sources.city.files import point_files
from plumbline.sources.city.in_memory import AS_THEY_ARE, Reading, read_tracks
from plumbline.sources.footprints.buildings import check_crs, reprojected
from plumbline.sources.footprints.open import read_vector
from plumbline.sources.points.epochs import DAYS_A_YEAR, velocity_mm_per_year
from plumbline.sources.points.track import Track

POINT, BUILDING, FIELD = "point", "building", "field"
COLUMNS = (
    "kind",
    "name",
    "track",
    "along_m",
    "along_end_m",
    "across_m",
    "rate_mm_year",
    "displacement_mm",
    "std_mm",
)
"""Columns of every row. `along_m`: distance from the beginning of the line; for a building,
`along_end_m` is where the line leaves it. `across_m`: distance from the line, positive to its left.
`rate_mm_year`, `displacement_mm`: for a point, of a straight line through its series; for a field,
its first band, with `std_mm`."""
FIGURES = ("p_damaged", "severity_permille", "settlement_mm", "tilt_mm_m", "against_neighbours_mm")
"""Further columns of buildings, from the predictions."""
MAX_SAMPLES = 1000
"""Largest number of places at which a field is read."""


def cut(
    line: str,
    points: Sequence[Path],
    output: Path,
    *,
    within_m: float,
    picture: Path | None = None,
    predictions: Path | None = None,
    field: Path | None = None,
    reading: Reading = AS_THEY_ARE,
) -> pd.DataFrame:
    """Write a cross section as a table, and a picture if wanted; see `cross_section` and
    `read_line`.

    Raises:
        InputError: anything given is missing, damaged or elsewhere, or an output has
            another suffix.
    """
    for path, suffix in ((output, ".csv"), *([(picture, ".svg")] if picture else [])):
        check_output(path, (suffix,))
    buildings = None if predictions is None else read_predictions(predictions)
    if buildings is not None and buildings.crs is None:
        raise InputError(
            f"{predictions}: a csv has no CRS. Give the predictions as .gpkg, .geojson or "
            ".parquet.",
            key="predictions.no_crs",
        )
    tracks = read_tracks(
        point_files(points), reading.ingest, reading.format_, window=reading.window
    )
    profile = read_line(line, tracks[0].crs)
    section = cross_section(profile, tracks, within_m, buildings, field)
    with atomic_file(output) as temporary:
        section.to_csv(temporary, index=False)
    if picture is not None:
        with atomic_file(picture) as temporary:
            temporary.write_text(
                draw_section(section, profile, f"Cross section, {profile.length:.0f} m"),
                encoding="utf-8",
            )
    counts = section["kind"].value_counts()
    log.info(
        "%.0f m: %s",
        profile.length,
        ", ".join(f"{count} rows of kind {kind}" for kind, count in counts.items()),
    )
    return section


def read_line(text: str, crs: str) -> shapely.LineString:
    """Return the line that a user gave, in a projected CRS.

    Args:
        text: `LON,LAT LON,LAT ...` in WGS 84, or the path of a file with one line.
        crs: of the result.

    Raises:
        InputError: it is neither, or the line has no length.
    """
    path = Path(text)
    if path.exists():
        frame = read_vector(path, None, None)
        check_crs(path, frame)
    else:
        frame = geopandas.GeoDataFrame(geometry=[_parse_coordinates(text)], crs="EPSG:4326")
    lines = frame[frame.geometry.geom_type.isin(("LineString", "MultiLineString"))]
    if len(lines) != 1:
        raise InputError(
            f"--line {text}: {len(lines)} lines found, one is needed. Give a file with the one "
            "to cut along.",
            key="line.not_one",
        )
    merged = shapely.line_merge(reprojected(f"--line {text}", lines, crs).geometry.iloc[0])
    if merged.geom_type != "LineString" or not merged.length > 0:
        raise InputError(
            f"--line {text}: the line is in pieces or has no length. Give one that is connected.",
            key="line.in_pieces",
        )
    return merged


def _parse_coordinates(text: str) -> shapely.LineString:
    with suppress(ValueError):
        corners = [tuple(float(part) for part in corner.split(",")) for corner in text.split()]
        if (
            all(len(c) == 2 and abs(c[0]) <= 360 and abs(c[1]) <= 90 for c in corners)
            and len(corners) > 1
        ):
            return shapely.LineString(corners)
    raise InputError(
        f"--line {text}: no such file, and no coordinates. Write them as '13.17,38.70 "
        "13.19,38.71'.",
        key="line.not_coordinates",
    )


def cross_section(
    line: shapely.LineString,
    tracks: Sequence[Track],
    within_m: float,
    predictions: geopandas.GeoDataFrame | None = None,
    field: Path | None = None,
) -> pd.DataFrame:
    """Return the points near to a line, the buildings that it crosses, and the field on it.

    Args:
        line: in the CRS of the points. tracks: of points.
        within_m: largest distance of a point from the line.
        predictions: as `plumbline predict` writes them. field: GeoTIFF of `plumbline restore`.

    Raises:
        InputError: nothing lies along the line, or the field cannot be read.
    """
    parts = [_points(line, track, within_m) for track in tracks]
    if predictions is not None:
        parts.append(_buildings(line, predictions.to_crs(tracks[0].crs)))
    if field is not None:
        parts.append(_field(line, field, tracks[0].crs))
    section = pd.concat(
        [part for part in parts if len(part)] or [pd.DataFrame(columns=list(COLUMNS))]
    )
    if section.empty:
        raise InputError(
            f"--line: no point is within {within_m:g} m of it. Is it in this place? Give a wider "
            "--within.",
            key="line.no_point",
        )
    columns = [*COLUMNS, *(name for name in FIGURES if name in section)]
    return (
        section.reindex(columns=columns)
        .sort_values(["kind", "along_m"], kind="stable")
        .reset_index(drop=True)
    )


def _points(line: shapely.LineString, track: Track, within_m: float) -> pd.DataFrame:
    places = shapely.points(track.easting, track.northing)
    near = np.flatnonzero(shapely.dwithin(line, places, within_m))
    rate = velocity_mm_per_year(track.displacement[near], track.epochs)
    years = float((track.epochs[-1] - track.epochs[0]) / np.timedelta64(1, "D")) / DAYS_A_YEAR
    along = shapely.line_locate_point(line, places[near])
    return pd.DataFrame(
        {
            "kind": POINT,
            "name": track.point_id[near],
            "track": track.name,
            "along_m": along,
            "across_m": _side(line, along, places[near]) * shapely.distance(line, places[near]),
            "rate_mm_year": rate,
            "displacement_mm": rate * years,
        }
    )


def _side(line: shapely.LineString, along: Float, places: NDArray[np.object_]) -> Float:
    """Return 1 for each place to the left of a line, and -1 to its right."""
    step = min(0.1, line.length / 100)
    end_m = np.clip(along, step, line.length)
    end, start = (
        shapely.get_coordinates(shapely.line_interpolate_point(line, at))
        for at in (end_m, end_m - step)
    )
    direction, from_start = end - start, shapely.get_coordinates(places) - start
    return np.where(
        direction[:, 0] * from_start[:, 1] - direction[:, 1] * from_start[:, 0] >= 0, 1.0, -1.0
    )


def _buildings(line: shapely.LineString, predictions: geopandas.GeoDataFrame) -> pd.DataFrame:
    crossed = predictions[predictions.geometry.intersects(line)]
    corners = [
        shapely.points(shapely.get_coordinates(shapely.intersection(shape, line)))
        for shape in crossed.geometry
    ]
    positions = [shapely.line_locate_point(line, points) for points in corners]
    rows = pd.DataFrame(
        {
            "kind": BUILDING,
            "name": crossed["building_id"].to_numpy(object),
            "along_m": [along_m.min() for along_m in positions],
            "along_end_m": [along_m.max() for along_m in positions],
            "across_m": 0.0,
        }
    )
    for name in FIGURES:
        if name in crossed:
            rows[name] = crossed[name].to_numpy(float)
    return rows


def _field(line: shapely.LineString, path: Path, crs: str) -> pd.DataFrame:
    import rasterio
    from rasterio.errors import RasterioIOError
    from rasterio.warp import transform

    try:
        with rasterio.open(path) as source:
            along = np.linspace(
                0, line.length, min(MAX_SAMPLES, 2 + int(line.length / source.res[0]))
            )
            east, north = shapely.get_coordinates(shapely.line_interpolate_point(line, along)).T
            places = zip(*transform(crs, source.crs, east, north), strict=True)
            samples = np.array(list(source.sample(places, masked=True)), float)
            names = list(source.descriptions)
    except RasterioIOError as error:
        raise InputError(
            f"{path}: not readable as a field ({error}). Give the GeoTIFF of `plumbline restore`.",
            key="field.unreadable",
        ) from None
    std_bands = [number for number, name in enumerate(names) if name and "std" in name]
    displacement_mm, std_mm = (
        samples[:, 0],
        samples[:, std_bands[0]] if std_bands else np.full(len(samples), np.nan),
    )
    has_value = np.isfinite(displacement_mm)
    rows = {
        "kind": FIELD,
        "name": names[0],
        "along_m": along,
        "across_m": 0.0,
        "displacement_mm": displacement_mm,
        "std_mm": std_mm,
    }
    return pd.DataFrame(rows)[has_value]


def draw_section(section: pd.DataFrame, line: shapely.LineString, title: str) -> str:
    """Draw a cross section as SVG. `section`: see `cross_section`."""
    points = section[(section["kind"] == POINT) & section["displacement_mm"].notna()]
    dots = [
        Dots(str(name), rows["along_m"].tolist(), rows["displacement_mm"].tolist())
        for name, rows in points.groupby("track", sort=False)
    ]
    field, crossed = section[section["kind"] == FIELD], section[section["kind"] == BUILDING]
    band = None
    if len(field):
        # 1.645 standard errors: half of the 90 % interval.
        value, half_width = field["displacement_mm"], 1.645 * field["std_mm"].fillna(0)
        band = Band(
            *(c.tolist() for c in (field["along_m"], value, value - half_width, value + half_width))
        )
    bars = [
        Bar(
            f"{building.name_} {_format_answer(building)}",
            building.along_m,
            building.along_end_m,
            _colour(building),
        )
        for building in crossed.rename(columns={"name": "name_"}).itertuples()
    ]
    return section_chart(title, line.length, dots, band, bars)


def _format_answer(building: Any) -> str:
    if not np.isfinite(getattr(building, "severity_permille", np.nan)):
        return "not judged"
    return (
        f"{format_permille(building.severity_permille)} permille, damaged with "
        f"{format_share(building.p_damaged)}"
    )


def _colour(building: Any) -> str:
    severity = getattr(building, "severity_permille", np.nan)
    return CATEGORY_COLOURS[int(category(severity))] if np.isfinite(severity) else GREY
