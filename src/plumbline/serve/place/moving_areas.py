"""Find moving areas: neighbouring points of a track that move alike, by more than the noise of its other points.

After the active deformation areas of Barra et al. (2017, Remote Sensing 9, 1002) and Tomas et al. (2019, Remote Sensing
11, 1675): points whose velocity differs from the track's by more than its noise, groups of those that lie near each
other, and a quality class by how alike they move.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import geopandas
import numpy as np
import pandas as pd
import shapely
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from plumbline.sources.points.epochs import DAYS_A_YEAR, velocity_mm_per_year
from plumbline.sources.points.track import Track

Float = NDArray[np.floating[Any]]
Index = NDArray[np.intp]
MOVES = 2.0
"""Standard deviations of the velocities by which a point that moves differs from the others (Barra et al. 2017)."""
STILL = 0.5
"""mm a year: slower points do not move, however quiet the track is."""
FEWEST = 5
"""Points of an area (Barra et al. 2017)."""
NEAREST = 4
REACH = 1.5
"""Points are neighbours up to so many times the usual distance to the fourth nearest point."""
LEAST_REACH_M, MOST_REACH_M = 10.0, 60.0
ALONE = 0.4
"""Most of the points within reach of one that do not move with it: where more do not, it is noise."""
SOME = 2_000
"""Points whose distances say what is usual."""
PIECE = 4096
"""Points whose series are looked at together."""
ALIKE = (0.8, 0.5)
"""Least median correlation with the area's mean course of quality 1 and 2."""
COLUMNS = ("name", "track", "rate_mm_year", "displacement_mm", "points", "buildings", "quality", "geometry")


class Velocities(NamedTuple):
    """Velocities of N points of a track."""

    against: Float
    """(N,) mm a year along LOS, less the median of the track; NaN where not known."""
    noise: float | Float
    """Their standard deviation where nothing moves, mm a year, by the median of their sizes; or (N,) of each."""


def velocities(track: Track) -> Velocities:
    """Return the velocities of the points against the track's median."""
    parts = [
        velocity_mm_per_year(track.displacement[start : start + PIECE], track.epochs)
        for start in range(0, len(track), PIECE)
    ]
    found = np.concatenate([np.zeros(0), *parts])
    known = found[np.isfinite(found)]
    against = found - (np.median(known) if len(known) else 0.0)
    return Velocities(against, 1.4826 * float(np.nanmedian(np.abs(against))) if len(known) else 0.0)


def moving_areas(tracks: Sequence[Track], footprints: geopandas.GeoDataFrame) -> geopandas.GeoDataFrame:
    """Return the moving areas of all tracks, the fastest first.

    Args:
        tracks: in one projected CRS, each with a reference of its own. footprints: buildings in that CRS.

    Returns:
        `name` (`A1` is the fastest), `track`, `rate_mm_year` (median along LOS, less that of the track),
        `displacement_mm` (the same over the whole record), `points`, `buildings` (footprints that it touches),
        `quality` (1: points move alike also over time, to 3: their velocities alone agree), and the polygon: what
        lies within reach of its points.
    """
    return tabulate([row for track in tracks for row in _areas(track)], COLUMNS, tracks[0].crs, footprints)


def tabulate(
    rows: Sequence[dict[str, Any]], columns: Sequence[str], crs: str, footprints: geopandas.GeoDataFrame
) -> geopandas.GeoDataFrame:
    """Return areas with names and buildings, the fastest first.

    Args:
        rows: of each area what `columns` say beside these two. columns: wanted. crs: of the areas and the footprints.
        footprints: buildings.
    """
    table = pd.DataFrame(rows, columns=[name for name in columns if name not in ("name", "buildings")])
    areas = geopandas.GeoDataFrame(table, geometry="geometry", crs=crs)
    areas = areas.iloc[np.argsort(-areas["rate_mm_year"].abs().to_numpy(float), kind="stable")].reset_index(drop=True)
    touched = shapely.STRtree(footprints.geometry.to_numpy()).query(areas.geometry.to_numpy(), predicate="intersects")
    areas["buildings"] = np.bincount(touched[0], minlength=len(areas))
    areas["name"] = [f"A{number}" for number in range(1, len(areas) + 1)]
    return areas[list(columns)]


def _areas(track: Track) -> list[dict[str, Any]]:
    found = velocities(track)
    place = np.stack([track.easting, track.northing], axis=1)
    reach = _reach(place)
    years = float((track.epochs[-1] - track.epochs[0]) / np.timedelta64(1, "D")) / DAYS_A_YEAR
    return [
        {
            "track": track.name,
            "displacement_mm": row["rate_mm_year"] * years,
            "points": len(own),
            "quality": _quality(track.displacement[own].astype(float)),
            **row,
        }
        for own, row in outline(place, found, reach)
    ]


def outline(place: Float, found: Velocities, reach: float) -> Iterator[tuple[Index, dict[str, Any]]]:
    """Yield the points of each area, see `groups`, with its rate and its polygon: what lies within reach of them."""
    for own in groups(place, found, reach):
        around = shapely.buffer(shapely.points(place[own]), reach / 2 + 1e-6)
        yield own, {"rate_mm_year": float(np.median(found.against[own])), "geometry": shapely.union_all(around)}


def _reach(place: Float) -> float:
    """Return how far neighbours lie from each other, m."""
    if len(place) <= NEAREST:
        return MOST_REACH_M
    some = place[:: max(1, len(place) // SOME)]
    away, _ = cKDTree(place).query(some, k=NEAREST + 1)
    return float(np.clip(REACH * np.median(away[:, -1]), LEAST_REACH_M, MOST_REACH_M))


def groups(place: Float, found: Velocities, reach: float) -> list[Index]:
    """Return the points of each area, `FEWEST` or more that move the same way within `reach` of each other.

    Args:
        place: (N, 2) m. found: of the N points. reach: m.
    """
    speed = np.nan_to_num(found.against)
    sign = np.sign(speed) * (np.abs(speed) > np.maximum(MOVES * found.noise, STILL))
    around = _around(place, np.flatnonzero(sign), np.arange(len(place)), reach)
    for _ in range(2):
        # A point most of whose neighbours stay in place is noise; asked twice, since it held up its neighbours too.
        alike = [_around(place, own, own, reach) for own in (np.flatnonzero(sign == way) for way in (-1, 1))]
        sign[np.add(*alike) <= ALONE * around] = 0
    moving = np.flatnonzero(sign)
    if len(moving) < FEWEST:
        return []
    pairs = cKDTree(place[moving]).query_pairs(reach, output_type="ndarray")
    pairs = pairs[sign[moving[pairs[:, 0]]] == sign[moving[pairs[:, 1]]]]
    graph = coo_matrix((np.ones(len(pairs)), pairs.T), shape=(len(moving), len(moving)))
    _, label = connected_components(graph, directed=False)
    order = np.argsort(label, kind="stable")
    parts = np.split(moving[order], np.cumsum(np.bincount(label))[:-1])
    return [part for part in parts if len(part) >= FEWEST]


def _around(place: Float, of: Index, among: Index, reach: float) -> Index:
    """Return (N,) how many of the points `among` lie within reach of each of the points `of`; 0 for others."""
    found = np.zeros(len(place), np.intp)
    if len(of):
        found[of] = cKDTree(place[among]).query_ball_point(place[of], reach, return_length=True)
    return found


def _quality(series: Float) -> int:
    """Return 1, 2 or 3 by the correlation of the series (P, T) with the mean of the others."""
    series = series - np.nanmean(series, axis=1, keepdims=True)
    known = np.isfinite(series)
    filled = np.where(known, series, 0.0)
    count = known.sum(0) - known
    others = np.where(count > 0, (filled.sum(0) - filled) / np.maximum(count, 1), 0.0) * known
    others = others - (others.sum(1) / known.sum(1))[:, None] * known
    size = np.sqrt((filled**2).sum(1) * (others**2).sum(1))
    correlation = float(np.median((filled * others).sum(1) / np.maximum(size, 1e-12)))
    return 1 + sum(correlation < least for least in ALIKE)
