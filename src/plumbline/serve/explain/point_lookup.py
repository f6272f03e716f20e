"""Find the product point of each row of a sequence.

A sequence holds what the network is told, and no names. But place, height and line of sight in the building's frame are
in it as they were computed, so a row is found again among the points of its building.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from plumbline.core.compass import Frames
from plumbline.prepare.assignment.collect import usable_rows
from plumbline.prepare.features.definition import DISTANCE, SLOPE, names
from plumbline.prepare.features.sequences import Sequences
from plumbline.sources.track import Track

Float = NDArray[np.floating[Any]]
NEAR_M = 0.005
"""A row and its point differ by the rounding to 32 bits alone; product coordinates are rounded to centimetres."""
LOS_M = 100.0
"""Metres that a whole difference of the line of sight counts as."""
_PLACE = [names(DISTANCE).index(name) for name in ("x", "y", "height")]
_LOS = [names(SLOPE).index(name) for name in ("los_x", "los_y", "los_up")]


class FoundPoints(NamedTuple):
    """Product points of the N rows of sequences."""

    point_id: NDArray[np.object_]
    """(N,) as in the product; points of one track that agree in place, height and line of sight cannot be told apart:
    `A or B`."""
    track: NDArray[np.object_]
    """(N,) name."""
    easting: Float
    """(N,) m."""
    northing: Float
    """(N,) m."""
    height: Float
    """(N,) m, as in the product."""


class _Candidates(NamedTuple):
    """The usable points of all tracks that belong to a building."""

    owner: NDArray[np.intp]
    track: NDArray[np.intp]
    row: NDArray[np.intp]
    place: Float
    """(C, 3) x and y in the building's frame, height of the product, m."""
    los: Float
    """(C, 3)"""


def find_points(
    sequences: Sequences,
    building: NDArray[np.intp],
    tracks: Sequence[Track],
    owners: Sequence[NDArray[np.intp]],
    frame: Frames,
) -> FoundPoints:
    """Find the points of all rows of `sequences`.

    Args:
        sequences: of B buildings.
        building: (B,) which of the buildings of `frame` each of them is.
        tracks: what the sequences were prepared from.
        owners: for each track (N,) the building in `frame` that each point belongs to.
        frame: of the buildings.

    Raises:
        ValueError: the sequences were prepared from other points.
    """
    all_of = _candidates(tracks, owners, frame)
    first, last = (np.searchsorted(all_of.owner, building, side) for side in ("left", "right"))
    ids: list[str] = []
    chosen: list[NDArray[np.intp]] = []
    for b, (start, stop) in enumerate(zip(first, last, strict=True)):
        rows = slice(*sequences.offsets[[b, b + 1]])
        place = all_of.place[start:stop] - [0, 0, all_of.place[start:stop, 2].min(initial=np.inf)]
        there = np.column_stack([place, LOS_M * all_of.los[start:stop]])
        here = np.column_stack([sequences.distance[rows][:, _PLACE], LOS_M * sequences.slope[rows][:, _LOS]])
        apart = cdist(here, there)
        row, point = linear_sum_assignment(apart)
        if len(row) < len(here) or apart[row, point].max(initial=0) > NEAR_M:
            raise ValueError(f"{sequences.building_id[b]}: its scatterers are not among the points of the tracks")
        chosen.append(start + point)
        for i, own in zip(row, start + point, strict=True):
            twins = start + np.flatnonzero(apart[i] <= NEAR_M)
            twins = twins[all_of.track[twins] == all_of.track[own]]
            ids.append(" or ".join(str(tracks[all_of.track[own]].point_id[all_of.row[twin]]) for twin in twins))
    index = np.concatenate([np.zeros(0, np.intp), *chosen])
    track, row = all_of.track[index], all_of.row[index]

    def of_point(name: str) -> Float:
        found = np.zeros(len(index))
        for number, one in enumerate(tracks):
            found[track == number] = getattr(one, name)[row[track == number]]
        return found

    track_names = np.array([one.name for one in tracks], object)[track]
    return FoundPoints(
        np.array(ids, object), track_names, of_point("easting"), of_point("northing"), of_point("height")
    )


def _candidates(tracks: Sequence[Track], owners: Sequence[NDArray[np.intp]], frame: Frames) -> _Candidates:
    """Collect the usable points by building, as `collect_scatterers` does, without reading their series."""
    parts = []
    for number, (track, owner) in enumerate(zip(tracks, owners, strict=True)):
        row = usable_rows(track, owner)
        own, position = owner[row], np.stack([track.easting[row], track.northing[row]], axis=1)
        place = np.column_stack([frame.to_building(own, position), track.height[row]])
        los = np.column_stack([frame.rotate(own, track.los[row, :2]), track.los[row, 2]])
        parts.append(_Candidates(own, np.full(len(row), number), row, place, los))
    order = np.argsort(np.concatenate([part.owner for part in parts]), kind="stable")
    merged = {name: np.concatenate([getattr(part, name) for part in parts])[order] for name in _Candidates._fields}
    return _Candidates(**merged)
