"""Choose the displacement histories that the map has."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import geopandas
import numpy as np
import pyproj
import shapely
from numpy.typing import NDArray

from plumbline.serve.map.content import WGS84, MapPoints
from plumbline.sources.points.track import Track

REACH_M = 5.0
"""A scatterer up to this far from a footprint is shown with it: positions of points are no better."""
MAX_SCATTERERS = 8
"""Most scatterers of one building and track."""
MAX_VALUES = 800_000
"""Most displacements in a map: about 1.3 MB of the file."""

Index = NDArray[np.intp]
Point = tuple[int, int]
"""Number of its track, and its row there."""


def histories(
    shown: geopandas.GeoDataFrame, tracks: Sequence[Track], points: Sequence[MapPoints], first: Index
) -> dict[str, Any]:
    """Choose histories until `MAX_VALUES` are taken: those of buildings, judged or not, then those of further points.

    Args:
        shown: predictions in a projected CRS.
        tracks: points tables. points: those of each track that are drawn.
        first: rows of `shown` in the order in which their histories matter.

    Returns:
        `tracks`: name and epochs. `series`, one a point: track number, `dot` (its number among the drawn points, if
        it is), `id`, place in longitude and latitude, displacement in mm (None where missing). `buildings`: row
        number, as text, to numbers of series. `reach_m`. `left_out`: buildings that have scatterers and no history,
        because of the bound.
    """
    footprints = shown.geometry.to_numpy()[first]
    reach = shapely.buffer(footprints, REACH_M)
    near = [_near(track, reach, footprints, shown.crs) for track in tracks]
    costs = [len(track.epochs) for track in tracks]
    taken: dict[Point, int] = {}
    buildings, values = {}, 0
    for i, row in enumerate(first.tolist()):
        own = list(_points_of(near, i, MAX_SCATTERERS))
        new = [one for one in own if one not in taken]
        values += sum(costs[k] for k, _ in new)
        if values > MAX_VALUES:
            break
        taken |= {one: len(taken) + n for n, one in enumerate(new)}
        if own:
            buildings[str(row)] = [taken[one] for one in own]
    beside = chain.from_iterable(_points_of(near, i) for i in range(len(first)))
    further = _further(points, costs, taken, beside)
    return {
        "tracks": [
            {"name": track.name, "epochs": track.epochs.astype("datetime64[D]").astype(str).tolist()}
            for track in tracks
        ],
        "series": _series([*taken, *further], tracks, points),
        "buildings": buildings,
        "reach_m": REACH_M,
        "left_out": sum(any(len(own[i]) for own in near) for i in range(len(first))) - len(buildings),
    }


def _points_of(near: Sequence[Sequence[Index]], building: int, most: int | None = None) -> Iterator[Point]:
    """Yield the points near to a building, the nearest of each track first, at most `most` of each."""
    for k, own in enumerate(near):
        yield from ((k, row) for row in own[building][:most].tolist())


def _further(
    points: Sequence[MapPoints], costs: Sequence[int], taken: Collection[Point], beside: Iterable[Point]
) -> list[Point]:
    """Choose drawn points without a history while there is room: those `beside` buildings, then some from all over."""
    drawn = [(k, row) for k, part in enumerate(points) for row in part.row.tolist()]
    shuffled = [drawn[i] for i in np.random.default_rng(0).permutation(len(drawn))]
    left = set(drawn) - set(taken)
    room = MAX_VALUES - sum(costs[k] for k, _ in taken)
    found = []
    for one in chain(beside, shuffled):
        if one not in left:
            continue
        room -= costs[one[0]]
        if room < 0:
            break
        left.remove(one)
        found.append(one)
    return found


def _series(taken: Iterable[Point], tracks: Sequence[Track], points: Sequence[MapPoints]) -> list[dict[str, Any]]:
    """Write the histories of points, each a track number and a row."""
    places = [_places(track) for track in tracks]
    dots = [{row: dot for dot, row in enumerate(part.row.tolist())} for part in points]
    return [
        {
            "track": k,
            **({"dot": dots[k][row]} if row in dots[k] else {}),
            "id": str(tracks[k].point_id[row]),
            "lon": places[k][row, 0],
            "lat": places[k][row, 1],
            "mm": _rounded(tracks[k].displacement[row]),
        }
        for k, row in taken
    ]


def _near(track: Track, reach: NDArray[np.object_], footprints: NDArray[np.object_], crs: pyproj.CRS) -> list[Index]:
    """Find the points of a track within reach of each footprint (B,), the nearest first."""
    found: list[Index] = [np.zeros(0, np.intp)] * len(reach)
    if not len(reach) or not len(track):
        return found
    x, y = pyproj.Transformer.from_crs(track.crs, crs, always_xy=True).transform(track.easting, track.northing)
    points = shapely.points(x, y)
    building, point = shapely.STRtree(points).query(reach, predicate="contains")
    away = shapely.distance(points[point], footprints[building])
    order = np.lexsort((point, away, building))
    building, point = building[order], point[order]
    names, first = np.unique(building, return_index=True)
    for name, own in zip(names.tolist(), np.split(point, first[1:]), strict=True):
        found[name] = own
    return found


def _places(track: Track) -> NDArray[np.float64]:
    """Convert the points (N,) to longitude and latitude (N, 2)."""
    to_degrees = pyproj.Transformer.from_crs(track.crs, WGS84, always_xy=True)
    return np.round(np.stack(to_degrees.transform(track.easting, track.northing), axis=1), 7)


def _rounded(displacement: NDArray[np.floating[Any]]) -> list[float | None]:
    """Round a history to 0.1 mm; None where it is missing."""
    return [round(value, 1) if np.isfinite(value) else None for value in displacement.astype(float).tolist()]
