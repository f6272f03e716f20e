"""Choose the displacement histories that the map has."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import geopandas
import numpy as np
import pyproj
import shapely
from numpy.typing import NDArray

from plumbline.core.arrays import Index
from plumbline.prepare.assignment.nearest import UNASSIGNED
from plumbline.serve.map.content import WGS84, MapPoints
from plumbline.sources.crs import transformer
from plumbline.sources.points.track import Track

REACH_M = 5.0
"""Largest distance from a footprint of a scatterer that is shown beside it: positions of
points are no better."""
MAX_SCATTERERS = 8
"""Most scatterers that are shown with a building, of one track: first its own, then those
beside it."""
MAX_VALUES = 800_000
"""Most displacements in a map: about 1.3 MB of the file."""

Point = tuple[int, int]
"""Number of its track, and its row there."""


class _Candidates(NamedTuple):
    """Points of one track that may be shown with each of B buildings, the nearest first."""

    of_building: list[Index]
    """Those that belong to it."""
    beside: list[Index]
    """Others within reach: of the next building, or of none."""

    def points(self, building: int, track: int) -> tuple[list[Point], list[Point]]:
        """Return at most `MAX_SCATTERERS` points of a building: its own, and those beside it."""
        first = [(track, row) for row in self.of_building[building][:MAX_SCATTERERS].tolist()]
        return first, [
            (track, row) for row in self.beside[building][: MAX_SCATTERERS - len(first)].tolist()
        ]


def histories(
    shown: geopandas.GeoDataFrame,
    tracks: Sequence[Track],
    points: Sequence[MapPoints],
    owners: Sequence[Index] | None = None,
) -> dict[str, Any]:
    """Choose histories until `MAX_VALUES` are taken: those of buildings, judged or not,
    then those of further points.

    Args:
        shown: predictions in a projected CRS, in the order in which their histories matter.
        tracks: points tables. points: those of each track that are drawn.
        owners: of each track (N,) the row in `shown` of the building to which each point
            belongs, `UNASSIGNED` without one. None: a point belongs to all buildings within
            reach.

    Returns:
        `tracks`: name and epochs. `series`, one a point: track number, `dot` (its number
        among the drawn points, if it is), `id`, place in longitude and latitude,
        displacement in mm (None where missing). `buildings`: row
        number, as text, to numbers of series of its own points. `beside`: the same of
            points within reach that
        belong to another building or to none. `reach_m`. `left_out`: buildings that have
        such points and no history, because of the bound.
    """
    footprints = shown.geometry.to_numpy()
    reach = shapely.buffer(footprints, REACH_M)
    candidates = [
        _find_candidates(track, reach, footprints, shown.crs, None if owners is None else owners[k])
        for k, track in enumerate(tracks)
    ]
    costs = [len(track.epochs) for track in tracks]
    series_numbers: dict[Point, int] = {}
    buildings: dict[str, list[int]] = {}
    beside: dict[str, list[int]] = {}
    values, count = 0, 0
    for row in range(len(shown)):
        parts = [part.points(row, k) for k, part in enumerate(candidates)]
        assigned = [point for part, _ in parts for point in part]
        beside_points = [point for _, part in parts for point in part]
        new = [point for point in (*assigned, *beside_points) if point not in series_numbers]
        values += sum(costs[k] for k, _ in new)
        if values > MAX_VALUES:
            break
        series_numbers |= {point: len(series_numbers) + n for n, point in enumerate(new)}
        for chosen, numbers in ((assigned, buildings), (beside_points, beside)):
            if chosen:
                numbers[str(row)] = [series_numbers[point] for point in chosen]
        count += bool(assigned or beside_points)
    all_near = chain.from_iterable(_list_points(candidates, row) for row in range(len(shown)))
    further = _choose_further(points, costs, series_numbers, all_near)
    return {
        "tracks": [
            {
                "name": track.name,
                "epochs": track.epochs.astype("datetime64[D]").astype(str).tolist(),
            }
            for track in tracks
        ],
        "series": _format_series([*series_numbers, *further], tracks, points),
        "buildings": buildings,
        "beside": beside,
        "reach_m": REACH_M,
        "left_out": sum(any(_list_points(candidates, row)) for row in range(len(shown))) - count,
    }


def _list_points(candidates: Sequence[_Candidates], building: int) -> Iterator[Point]:
    """Yield all points of and beside a building."""
    for k, part in enumerate(candidates):
        yield from ((k, row) for row in part.of_building[building].tolist())
        yield from ((k, row) for row in part.beside[building].tolist())


def _choose_further(
    points: Sequence[MapPoints],
    costs: Sequence[int],
    with_history: Collection[Point],
    beside: Iterable[Point],
) -> list[Point]:
    """Choose drawn points without a history while there is room: those `beside` buildings,
    then some from all over."""
    drawn = [(k, row) for k, part in enumerate(points) for row in part.row.tolist()]
    shuffled = [drawn[i] for i in np.random.default_rng(0).permutation(len(drawn))]
    without_history = set(drawn) - set(with_history)
    room = MAX_VALUES - sum(costs[k] for k, _ in with_history)
    further = []
    for point in chain(beside, shuffled):
        if point not in without_history:
            continue
        room -= costs[point[0]]
        if room < 0:
            break
        without_history.remove(point)
        further.append(point)
    return further


def _format_series(
    chosen: Iterable[Point], tracks: Sequence[Track], points: Sequence[MapPoints]
) -> list[dict[str, Any]]:
    """Write the histories of points, each a track number and a row."""
    places = [_to_degrees(track) for track in tracks]
    dots = [{row: dot for dot, row in enumerate(part.row.tolist())} for part in points]
    return [
        {
            "track": k,
            **({"dot": dots[k][row]} if row in dots[k] else {}),
            "id": str(tracks[k].point_id[row]),
            "lon": places[k][row, 0],
            "lat": places[k][row, 1],
            "mm": _round_history(tracks[k].displacement[row]),
        }
        for k, row in chosen
    ]


def _find_candidates(
    track: Track,
    reach: NDArray[np.object_],
    footprints: NDArray[np.object_],
    crs: pyproj.CRS,
    owner: Index | None,
) -> _Candidates:
    """Find the points of a track that belong to each footprint (B,), and others within reach.

    Args:
        track: N points. reach: (B,) footprints with a margin. footprints: (B,). crs: of both.
        owner: (N,) footprint to which each point belongs; None: all within reach belong to
            a footprint.
    """
    nothing: list[Index] = [np.zeros(0, np.intp)] * len(reach)
    if not len(reach) or not len(track):
        return _Candidates(nothing, nothing)
    x, y = transformer(track.crs, crs).transform(track.easting, track.northing)
    points, ids = shapely.points(x, y), track.point_id.astype(str)
    building, point = shapely.STRtree(points).query(reach, predicate="contains")
    if owner is None:
        return _Candidates(_sort_by_building(building, point, points, ids, footprints), nothing)
    is_beside = owner[point] != building
    assigned = np.flatnonzero(owner != UNASSIGNED)
    return _Candidates(
        _sort_by_building(owner[assigned], assigned, points, ids, footprints),
        _sort_by_building(building[is_beside], point[is_beside], points, ids, footprints),
    )


def _sort_by_building(
    building: Index,
    point: Index,
    points: NDArray[np.object_],
    ids: NDArray[np.str_],
    footprints: NDArray[np.object_],
) -> list[Index]:
    """Return the points of each footprint (B,), the nearest first, from pairs of footprint
    and point (M,).

    Of points on a footprint those whose names, `ids`, come first: rows differ where a city
    is read in tiles.
    """
    distance_m = shapely.distance(points[point], footprints[building])
    order = np.lexsort((ids[point], distance_m, building))
    ends = np.cumsum(np.bincount(building, minlength=len(footprints)))
    return np.split(point[order], ends[:-1])


def _to_degrees(track: Track) -> NDArray[np.float64]:
    """Convert the points (N,) to longitude and latitude (N, 2)."""
    to_degrees = transformer(track.crs, WGS84)
    return np.round(np.stack(to_degrees.transform(track.easting, track.northing), axis=1), 7)


def _round_history(displacement: NDArray[np.floating[Any]]) -> list[float | None]:
    """Round a history to 0.1 mm; None where it is missing."""
    return [
        round(value, 1) if np.isfinite(value) else None
        for value in displacement.astype(float).tolist()
    ]
