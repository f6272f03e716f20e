"""Which building each point of a city belongs to: by its position, and between two by its movement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plumbline.params import Prepare
from plumbline.prepare.assignment.assign import UNASSIGNED, assign_points
from plumbline.prepare.assignment.collect import MIN_EPOCHS, observation_period, usable_rows
from plumbline.prepare.assignment.nearest import find_rivals
from plumbline.prepare.assignment.owners import Points, moved_with
from plumbline.prepare.exclusions import check_epochs, outsized
from plumbline.prepare.series.line import line_changes
from plumbline.sources.ingested import Neighbours
from plumbline.sources.track import Track

Index = NDArray[np.intp]


class Owners(NamedTuple):
    """Who has the points of some tracks."""

    of: list[Index]
    """Of each track: (N,) footprint of each point, `UNASSIGNED` without one."""
    moved: int
    """Points that belong to another building than the nearest, because they move with it."""


def find_owners(tracks: Sequence[Track], footprints: NDArray[np.object_], params: Prepare) -> Owners:
    """Assign the points of all tracks to footprints.

    Args:
        tracks: those that are used, in one projected CRS.
        footprints: (B,) shapely polygons in that CRS.
        params: `buffer_m` of it counts, and the bounds of what is judged. Without a buffer positions are taken as they
            are.

    Raises:
        InputError: a track cannot show a movement, see `check_epochs`.
    """
    check_epochs(tracks, MIN_EPOCHS)
    last = outsized(footprints, params)
    owners = [assign_points(track.easting, track.northing, footprints, params.buffer_m, last) for track in tracks]
    if not params.buffer_m or len(footprints) < 2 or not tracks:
        return Owners(owners, 0)
    start = np.cumsum([0, *map(len, tracks)])
    rows = [usable_rows(track, owner) for track, owner in zip(tracks, owners, strict=True)]
    usable = np.concatenate([first + own for first, own in zip(start, rows, strict=False)])
    points = Points(
        np.concatenate([np.column_stack([track.easting, track.northing]) for track in tracks]),
        np.concatenate([track.height for track in tracks]),
        np.concatenate([track.los for track in tracks]),
        np.repeat(np.arange(len(tracks)), np.diff(start)),
    )
    owner = np.concatenate(owners)
    rivals = find_rivals(points.place, owner, usable, footprints, params.buffer_m, last)
    period = observation_period(list(tracks))
    change, error = np.zeros((2, len(owner)))
    for number, track in enumerate(tracks):
        near = np.unique(rivals.point[points.track[rivals.point] == number])
        when = ((track.epochs - period.start) / (period.end - period.start)).astype(float)
        change[near], error[near] = line_changes(track.displacement[near - start[number]], when, period.years)
    moved, to = moved_with(points, change, error, rivals)
    owner[moved] = to
    return Owners(np.split(owner, start[1:-1]), len(moved))


def owners_in_tile(
    tracks: Sequence[Track], footprints: NDArray[np.object_], neighbours: Neighbours, params: Prepare
) -> Owners:
    """The same for the footprints of a tile: as if all of the city were looked at.

    What lies within its halo is enough to know (`sources.tiles`): the points beside its buildings, and who has them.
    """
    row = np.concatenate([neighbours.own, neighbours.row])
    # Of footprints alike the first of the file counts.
    order = np.argsort(row)
    found = find_owners(tracks, np.concatenate([footprints, neighbours.geometry])[order], params)
    own = np.append(np.where(order < len(footprints), order, UNASSIGNED), UNASSIGNED)
    return Owners([own[owner] for owner in found.of], found.moved)
