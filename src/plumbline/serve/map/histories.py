"""Choose the displacement histories that the map shows: scatterers on and beside its buildings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import geopandas
import numpy as np
import pyproj
import shapely
from numpy.typing import NDArray

from plumbline.serve.map.content import WGS84
from plumbline.sources.track import Track

REACH_M = 5.0
"""A scatterer up to this far from a footprint is shown with it: positions of points are no better."""
MAX_SCATTERERS = 8
"""Most scatterers of one building and track."""
MAX_VALUES = 800_000
"""Most displacements in a map: about 4 MB of the file."""


def histories(shown: geopandas.GeoDataFrame, tracks: Sequence[Track]) -> dict[str, Any]:
    """Choose histories of the judged buildings, in the order of rows, until `MAX_VALUES` are taken.

    Args:
        shown: predictions in a projected CRS; the order of the rows says whose histories matter most.
        tracks: points tables.

    Returns:
        `tracks`: name and epochs. `buildings`: row number, as text, to its scatterers: track number, place in
        longitude and latitude, displacement in mm (None where missing). `reach_m`. `left_out`: judged buildings that
        have scatterers and no history, because of the bound.
    """
    judged = np.flatnonzero((shown["status"] == "ok").to_numpy())
    footprints = shown.geometry.to_numpy()[judged]
    reach = shapely.buffer(footprints, REACH_M)
    near = [_near(track, reach, footprints, shown.crs) for track in tracks]
    costs = sum(
        (np.array([len(own) for own in found]) * len(track.epochs) for found, track in zip(near, tracks, strict=True)),
        np.zeros(len(judged), int),
    )
    taken = (costs > 0) & (np.cumsum(costs) <= MAX_VALUES)
    places = [_places(track) for track in tracks]
    buildings = {
        str(judged[row]): [
            {
                "track": number,
                "lon": places[number][point, 0],
                "lat": places[number][point, 1],
                "mm": _series(track, point),
            }
            for number, track in enumerate(tracks)
            for point in near[number][row].tolist()
        ]
        for row in np.flatnonzero(taken).tolist()
    }
    return {
        "tracks": [
            {"name": track.name, "epochs": track.epochs.astype("datetime64[D]").astype(str).tolist()}
            for track in tracks
        ],
        "buildings": buildings,
        "reach_m": REACH_M,
        "left_out": int(((costs > 0) & ~taken).sum()),
    }


def _near(
    track: Track, reach: NDArray[np.object_], footprints: NDArray[np.object_], crs: pyproj.CRS
) -> list[NDArray[np.intp]]:
    """Find the points of a track within reach of each footprint (B,): those nearest to it, at most `MAX_SCATTERERS`."""
    found: list[NDArray[np.intp]] = [np.zeros(0, np.intp)] * len(reach)
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
        found[name] = own[:MAX_SCATTERERS]
    return found


def _places(track: Track) -> NDArray[np.float64]:
    """Convert the points (N,) to longitude and latitude (N, 2)."""
    to_degrees = pyproj.Transformer.from_crs(track.crs, WGS84, always_xy=True)
    return np.round(np.stack(to_degrees.transform(track.easting, track.northing), axis=1), 7)


def _series(track: Track, point: int) -> list[float | None]:
    """Round a history to 0.1 mm; None where it is missing."""
    return [
        round(value, 1) if np.isfinite(value) else None for value in track.displacement[point].astype(float).tolist()
    ]
