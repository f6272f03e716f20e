"""Prepare points and histories for the map."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import geopandas
import numpy as np
import pandas as pd
import pyproj
import shapely
from numpy.typing import NDArray

from plumbline.prepare.abstention import OK
from plumbline.reporting.colours import CATEGORY_NAMES
from plumbline.serve.columns import format_permille, format_share
from plumbline.serve.map.over_time import INTERVAL, when_text
from plumbline.serve.rules import is_answered, shows_quadrant
from plumbline.sources.crs import transformer
from plumbline.sources.globe import DECIMALS, TURN_DEG
from plumbline.sources.points.epochs import velocity_mm_per_year
from plumbline.sources.points.track import Track

Array = NDArray[np.floating[Any]]

WGS84 = "EPSG:4326"

MARGIN_M = 100.0
"""Points further than this from the buildings' bounding box are left out of the map."""


@dataclass(frozen=True)
class MapPoints:
    """Points of one track that are drawn, N of them."""

    name: str
    east_north: Array
    """(N, 2) m, in the map's CRS."""
    velocity: Array
    """(N,) mean LOS velocity, mm/yr, positive towards the satellite; NaN with fewer than
    two epochs."""
    near: int
    """Number of points of the track near the buildings, drawn or not."""
    row: NDArray[np.intp]
    """(N,) row of each point in the track."""


def map_crs(predictions: geopandas.GeoDataFrame, tracks: Sequence[Track]) -> pyproj.CRS:
    """Return a projected CRS in metres: that of the points, else the footprints' own, else
    their UTM zone."""
    if tracks:
        return pyproj.CRS(tracks[0].crs)
    footprints_crs: pyproj.CRS = predictions.crs
    if footprints_crs.is_projected and all(
        axis.unit_name == "metre" for axis in footprints_crs.axis_info
    ):
        return footprints_crs
    return pyproj.CRS(predictions.estimate_utm_crs())


def points_near_buildings(
    tracks: Sequence[Track], crs: pyproj.CRS, bounds: Array, limit: int
) -> list[MapPoints]:
    """Return the points near the buildings with their velocity, thinned evenly to `limit`
    over all tracks.

    Args:
        tracks: K points tables.
        crs: the map's CRS.
        bounds: (4,) least east and north, greatest east and north of the buildings, m.
        limit: most points drawn, of all tracks together.
    """
    west, south, east, north = bounds + np.array([-MARGIN_M, -MARGIN_M, MARGIN_M, MARGIN_M])
    candidates = []
    for track in tracks:
        to_map = transformer(track.crs, crs)
        x, y = to_map.transform(track.easting, track.northing)
        candidates.append(
            (
                np.stack([x, y], axis=1),
                np.flatnonzero((x >= west) & (x <= east) & (y >= south) & (y <= north)),
            )
        )
    total = sum(len(near_rows) for _, near_rows in candidates)
    share = min(1.0, limit / max(total, 1))
    drawn = []
    for track, (east_north, near_rows) in zip(tracks, candidates, strict=True):
        rows = near_rows[
            np.linspace(0, len(near_rows) - 1, int(len(near_rows) * share)).round().astype(int)
        ]
        velocity = velocity_mm_per_year(track.displacement[rows], track.epochs)
        drawn.append(MapPoints(track.name, east_north[rows], velocity, len(near_rows), rows))
    return drawn


def east_angles_deg(centre: Array, angle: Array, crs: pyproj.CRS) -> Array:
    """Turn directions of the grid into angles counter-clockwise from true east.

    Args:
        centre: (B, 2) east and north, m, in `crs`.
        angle: (B,) rad counter-clockwise from the grid's east.
        crs: projected.

    Returns:
        (B,) degrees.
    """
    ahead = centre + 10.0 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    to_degrees = transformer(crs, WGS84)
    lon, lat = to_degrees.transform(centre[:, 0], centre[:, 1])
    lon_ahead, lat_ahead = to_degrees.transform(ahead[:, 0], ahead[:, 1])
    east = (lon_ahead - lon) * np.cos(np.radians(lat))
    return np.asarray(np.degrees(np.arctan2(lat_ahead - lat, east)))


def count_from_0(document: dict[str, Any]) -> dict[str, Any]:
    """Return the map document of a city on both sides of 180 degrees with all longitudes
    from 0 to 360."""
    for part in [*document["points"], *document["histories"]["series"]]:
        part["lon"] = _from_0(part["lon"])
    features = [
        feature
        for name in ("buildings", "areas", "causes", "levelling")
        for feature in document[name]["features"]
    ]
    for feature in features:
        feature["geometry"]["coordinates"] = _places_from_0(feature["geometry"]["coordinates"])
    edges = [
        place
        for feature in document["buildings"]["features"]
        for place in shapely.get_coordinates(shapely.geometry.shape(feature["geometry"]))
    ]
    return {
        **document,
        "bounds": [*np.min(edges, axis=0).tolist(), *np.max(edges, axis=0).tolist()],
    }


def _places_from_0(coordinates: Any) -> Any:
    return (
        [_from_0(coordinates[0]), *coordinates[1:]]
        if isinstance(coordinates[0], int | float)
        else [_places_from_0(part) for part in coordinates]
    )


def _from_0(longitude: Any) -> Any:
    return (np.asarray(longitude) % TURN_DEG).round(DECIMALS).tolist()


def isolated(name: object) -> str:
    """Isolate a user's name, so that right-to-left script does not reorder the figures after it."""
    return f"\u2068{name}\u2069"


def description(building: Any, explanation: str) -> str:
    """Describe one building as HTML, with the user's own text escaped.

    A building that is not judged has the figures that the predictions hold of it, and the reason.

    Args:
        building: has the predictions' columns.
        explanation: end of the sentence `Not judged: ...`, if it was not judged.
    """
    lines = [f"<b>{html.escape(str(building.building_id))}</b>"]
    if pd.notna(building.p_damaged):
        lines.append(f"Damaged with {html.escape(format_share(building.p_damaged))}")
    if is_answered(building):
        code = int(building.burland_category)
        lines.append(f"Category {code}, {CATEGORY_NAMES[code]}")
        interval = (
            f"({INTERVAL} {format_permille(building.severity_low)} to "
            f"{format_permille(building.severity_high)})"
        )
        lines.append(f"Severity {format_permille(building.severity_permille)} permille {interval}")
        if shows_quadrant(building):
            lines.append(f"Quadrant {building.quadrants.replace('|', ' or ')}")
        if isinstance(building.mechanism, str):
            lines.append(f"Fails like: {building.mechanism}")
        if when := when_text(building):
            lines.append(f"Damage {html.escape(when)}")
    if building.reason != OK:
        lines.append(f"Not judged: {html.escape(explanation)}")
    lines.append(f"{building.n_points:,} point{'' if building.n_points == 1 else 's'}")
    return "".join(f"<div>{line}</div>" for line in lines)
