"""Find moving areas: neighbouring points of a track that move alike and more than its noise.

After the active deformation areas of Barra et al. (2017, Remote Sensing 9, 1002) and Tomas et al.
(2019, Remote Sensing 11, 1675): points whose velocity differs from the track's by more than its
noise, groups of those near each other, and a quality class by how alike they move.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import geopandas
import numpy as np
import pandas as pd
import shapely
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from plumbline.core.arrays import Float, Index
from plumbline.sources.points.epochs import DAYS_A_YEAR, velocity_mm_per_year
from plumbline.sources.points.track import Track

MOVES = 2.0
"""Smallest difference of a moving point from the others, in standard deviations (Barra et al.
2017)."""
STILL = 0.5
"""Smallest speed of a moving point, mm a year, however low the noise of the track is."""
MIN_POINTS = 5
"""Smallest number of points of an area (Barra et al. 2017)."""
N_NEAREST = 4
REACH = 1.5
"""Largest distance of neighbours, as a multiple of the usual distance to the fourth nearest
point."""
MIN_REACH_M, MAX_REACH_M = 10.0, 60.0
MIN_MOVING_SHARE = 0.4
"""Share of the neighbours of a moving point that move with it: a point with this share or less is
noise."""
SAMPLE_POINTS = 2_000
"""Number of points from which the usual distance is estimated."""
PIECE_POINTS = 4096
"""Number of points whose velocities are fitted together."""
MIN_CORRELATIONS = (0.8, 0.5)
"""Smallest median correlation with the mean course of the area, for quality 1 and 2."""
COLUMNS = (
    "name",
    "track",
    "rate_mm_year",
    "displacement_mm",
    "points",
    "buildings",
    "quality",
    "geometry",
)


class Velocities(NamedTuple):
    """Velocities of N points of a track."""

    against: Float
    """(N,) velocity along LOS less the median of the track, mm a year; NaN where not known."""
    noise: float | Float
    """Standard deviation of the velocities of points that do not move, mm a year; or (N,) of each
    point."""


def track_velocities(track: Track) -> Velocities:
    """Return the velocities of the points less the median of the track."""
    parts = [
        velocity_mm_per_year(track.displacement[start : start + PIECE_POINTS], track.epochs)
        for start in range(0, len(track), PIECE_POINTS)
    ]
    rate = np.concatenate([np.zeros(0), *parts])
    finite = rate[np.isfinite(rate)]
    against = rate - (np.median(finite) if len(finite) else 0.0)
    # 1.4826: the standard deviation of normal values, divided by the median of their sizes.
    return Velocities(
        against, 1.4826 * float(np.nanmedian(np.abs(against))) if len(finite) else 0.0
    )


def moving_areas(
    tracks: Sequence[Track], footprints: geopandas.GeoDataFrame
) -> geopandas.GeoDataFrame:
    """Return the moving areas of all tracks, the fastest first.

    Args:
        tracks: in one projected CRS, each with its reference. footprints: buildings in that CRS.

    Returns:
        `name` (`A1` is the fastest), `track`, `rate_mm_year` (median along LOS, less that
        of the track), `displacement_mm` (the same over the whole record), `points`,
        `buildings` (footprints that it touches), `quality` (1: points move alike also over
        time, to 3: their velocities alone agree), and the polygon around its points.
    """
    return tabulate(
        [row for track in tracks for row in _areas(track)], COLUMNS, tracks[0].crs, footprints
    )


def tabulate(
    rows: Sequence[dict[str, Any]],
    columns: Sequence[str],
    crs: str,
    footprints: geopandas.GeoDataFrame,
) -> geopandas.GeoDataFrame:
    """Return areas with names and buildings, the fastest first.

    Args:
        rows: columns of each area without these two. columns: of the table.
        crs: of the areas and the footprints.
        footprints: buildings.
    """
    table = pd.DataFrame(
        rows, columns=[name for name in columns if name not in ("name", "buildings")]
    )
    areas = geopandas.GeoDataFrame(table, geometry="geometry", crs=crs)
    areas = areas.iloc[
        np.argsort(-areas["rate_mm_year"].abs().to_numpy(float), kind="stable")
    ].reset_index(drop=True)
    touched = shapely.STRtree(footprints.geometry.to_numpy()).query(
        areas.geometry.to_numpy(), predicate="intersects"
    )
    areas["buildings"] = np.bincount(touched[0], minlength=len(areas))
    areas["name"] = [f"A{number}" for number in range(1, len(areas) + 1)]
    return areas[list(columns)]


def _areas(track: Track) -> list[dict[str, Any]]:
    velocities = track_velocities(track)
    xy = np.stack([track.easting, track.northing], axis=1)
    reach = _neighbour_distance(xy)
    years = float((track.epochs[-1] - track.epochs[0]) / np.timedelta64(1, "D")) / DAYS_A_YEAR
    return [
        {
            "track": track.name,
            "displacement_mm": row["rate_mm_year"] * years,
            "points": len(members),
            "quality": _quality(track.displacement[members].astype(float)),
            **row,
        }
        for members, row in outline(xy, velocities, reach)
    ]


def outline(
    xy: Float, velocities: Velocities, reach: float
) -> Iterator[tuple[Index, dict[str, Any]]]:
    """Yield the points of each area, see `group_points`, with its rate and the polygon around."""
    for members in group_points(xy, velocities, reach):
        discs = shapely.buffer(shapely.points(xy[members]), reach / 2 + 1e-6)
        yield (
            members,
            {
                "rate_mm_year": float(np.median(velocities.against[members])),
                "geometry": shapely.union_all(discs),
            },
        )


def _neighbour_distance(xy: Float) -> float:
    """Return the largest distance between neighbours, m."""
    if len(xy) <= N_NEAREST:
        return MAX_REACH_M
    distance, _ = cKDTree(xy).query(xy[:: max(1, len(xy) // SAMPLE_POINTS)], k=N_NEAREST + 1)
    return float(np.clip(REACH * np.median(distance[:, -1]), MIN_REACH_M, MAX_REACH_M))


def group_points(xy: Float, velocities: Velocities, reach: float) -> list[Index]:
    """Return the points of each area: `MIN_POINTS` or more, with one direction of movement.

    Args:
        xy: (N, 2) m. velocities: of the N points. reach: largest distance between neighbours, m.
    """
    speed = np.nan_to_num(velocities.against)
    sign = np.sign(speed) * (np.abs(speed) > np.maximum(MOVES * velocities.noise, STILL))
    n_near = _count_neighbours(xy, np.flatnonzero(sign), np.arange(len(xy)), reach)
    for _ in range(2):
        # A point most of whose neighbours do not move is noise. The second round drops points that
        # counted such noise among their moving neighbours.
        n_alike = [
            _count_neighbours(xy, members, members, reach)
            for members in (np.flatnonzero(sign == direction) for direction in (-1, 1))
        ]
        sign[np.add(*n_alike) <= MIN_MOVING_SHARE * n_near] = 0
    moving = np.flatnonzero(sign)
    if len(moving) < MIN_POINTS:
        return []
    pairs = cKDTree(xy[moving]).query_pairs(reach, output_type="ndarray")
    pairs = pairs[sign[moving[pairs[:, 0]]] == sign[moving[pairs[:, 1]]]]
    graph = coo_matrix((np.ones(len(pairs)), pairs.T), shape=(len(moving), len(moving)))
    _, label = connected_components(graph, directed=False)
    parts = np.split(moving[np.argsort(label, kind="stable")], np.cumsum(np.bincount(label))[:-1])
    return [part for part in parts if len(part) >= MIN_POINTS]


def _count_neighbours(xy: Float, centres: Index, neighbours: Index, reach: float) -> Index:
    """Return the number (N,) of `neighbours` within reach of each point of `centres`, else 0."""
    n_near = np.zeros(len(xy), np.intp)
    if len(centres):
        n_near[centres] = cKDTree(xy[neighbours]).query_ball_point(
            xy[centres], reach, return_length=True
        )
    return n_near


def _quality(series: Float) -> int:
    """Return 1, 2 or 3 by the correlation of the series (P, T) with the mean of the others."""
    series = series - np.nanmean(series, axis=1, keepdims=True)
    is_finite = np.isfinite(series)
    filled = np.where(is_finite, series, 0.0)
    count = is_finite.sum(0) - is_finite
    mean_of_others = (
        np.where(count > 0, (filled.sum(0) - filled) / np.maximum(count, 1), 0.0) * is_finite
    )
    mean_of_others = (
        mean_of_others - (mean_of_others.sum(1) / is_finite.sum(1))[:, None] * is_finite
    )
    norm = np.sqrt((filled**2).sum(1) * (mean_of_others**2).sum(1))
    correlation = float(np.median((filled * mean_of_others).sum(1) / np.maximum(norm, 1e-12)))
    return 1 + sum(correlation < lowest for lowest in MIN_CORRELATIONS)
