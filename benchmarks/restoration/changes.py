"""Take each point's change over the common period, with its standard error, from a product's tracks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plumbline.prepare.series.trend import estimate_trend, line_changes
from plumbline.sources.track import Track

Array = NDArray[np.float64]
GROUP_M = 50.0
"""Side of the squares whose points of a track choose one course in time together."""
WAYS = ("course", "line")


class Changes(NamedTuple):
    """N points of all tracks, in the tracks' order."""

    place: Array
    """(N, 2) easting and northing, m."""
    los: Array
    """(N, 3) east, north, up."""
    change: Array
    """(N,) mm towards the satellite, from the first epoch of any track to the last of any."""
    error: Array
    """(N,) standard error, mm."""

    def take(self, rows: NDArray[np.bool_] | NDArray[np.intp]) -> Changes:
        """Return some of the points."""
        return Changes(*(values[rows] for values in self))

    @property
    def directions(self) -> int:
        """Count the sides from which the points are seen."""
        return len(np.unique(np.sign(self.los[:, 0])))


def take_changes(tracks: Sequence[Track], way: str = WAYS[0]) -> Changes:
    """Return every point's change.

    Args:
        tracks: of one place.
        way: `course` fits the curve that suits a square of 50 m best, `line` a straight line.
    """
    first, last = min(track.epochs[0] for track in tracks), max(track.epochs[-1] for track in tracks)
    days = float((last - first) / np.timedelta64(1, "D"))
    place = np.concatenate([np.column_stack([track.easting, track.northing]) for track in tracks])
    parts = []
    for track in tracks:
        when = (track.epochs - first) / np.timedelta64(1, "D") / days
        if way == "line":
            parts.append(np.stack(line_changes(track.displacement, when, days / 365.25)))
            continue
        square = np.floor(np.column_stack([track.easting, track.northing]) / GROUP_M).astype(np.int64)
        _, group = np.unique(square, axis=0, return_inverse=True)
        order = np.argsort(group.ravel(), kind="stable")
        trend = estimate_trend(track.displacement[order], when, days / 365.25, group.ravel()[order])
        found = np.empty((2, len(track)))
        found[:, order] = trend.change, np.hypot(trend.change_se, trend.common_se)
        parts.append(found)
    change, error = np.concatenate(parts, axis=1)
    made = Changes(place, np.concatenate([track.los for track in tracks]), change, error)
    return made.take(np.isfinite(change) & np.isfinite(error))
