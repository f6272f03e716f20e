"""Take each point's change over the common period, with its standard error, from a product's tracks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plumbline.prepare.series.trend import LEAST_LINE_ERROR, LEAST_YEARS, estimate_trend, line_changes
from plumbline.sources.points.track import Track

Array = NDArray[np.float64]
GROUP_M = 50.0
"""Side of the squares whose points of a track choose one course in time together."""
DAYS, OUTLYING = 365.25, 4.0
"""Of a year; and the number of standard deviations from which a value is an outlier."""


class Changes(NamedTuple):
    """N points of all tracks, in the tracks' order."""

    place: Array
    """(N, 2) easting and northing, m."""
    los: Array
    """(N, 3) east, north, up."""
    change: Array
    """(N,) mm towards the satellite, from the first epoch of any track to the last of any."""
    error: Array
    """(N,) standard error of a straight line if all noise were white, mm: how points weigh against each other."""
    own_error: Array
    """(N,) the same with noise correlated in time, mm: how far a point's change is off."""

    def take(self, rows: NDArray[np.bool_] | NDArray[np.intp]) -> Changes:
        """Return some of the points."""
        return Changes(*(values[rows] for values in self))

    def known(self) -> Changes:
        """Return the points whose series say something."""
        return self.take(np.isfinite(self.change) & np.isfinite(self.error) & np.isfinite(self.own_error))

    @property
    def directions(self) -> int:
        """Count the sides from which the points are seen."""
        return len(np.unique(np.sign(self.los[:, 0])))


def take_changes(tracks: Sequence[Track]) -> Changes:
    """Return every point's change by the curve that suits its square of 50 m best; `tracks` are of one place.

    Errors are those of a line: those of a course are larger where something moves, and a process would smooth just
    that away.
    """
    first, last = min(track.epochs[0] for track in tracks), max(track.epochs[-1] for track in tracks)
    days = float((last - first) / np.timedelta64(1, "D"))
    place = np.concatenate([np.column_stack([track.easting, track.northing]) for track in tracks])
    parts = []
    for track in tracks:
        when = (track.epochs - first) / np.timedelta64(1, "D") / days
        if days < LEAST_YEARS * DAYS:
            change, error = _bare_line(track.displacement.astype(float), when)
            parts.append(np.stack([change, error, error]))
            continue
        square = np.floor(np.column_stack([track.easting, track.northing]) / GROUP_M).astype(np.int64)
        _, group = np.unique(square, axis=0, return_inverse=True)
        order = np.argsort(group.ravel(), kind="stable")
        trend = estimate_trend(track.displacement[order], when, days / DAYS, group.ravel()[order])
        found = np.empty((2, len(track)))
        found[:, order] = trend.change, trend.line_se
        _, error = line_changes(track.displacement, when, days / DAYS)
        parts.append(np.stack([found[0], error, found[1]]))
    change, error, own_error = np.concatenate(parts, axis=1)
    return Changes(place, np.concatenate([track.los for track in tracks]), change, error, own_error)


def _bare_line(series: Array, when: Array) -> tuple[Array, Array]:
    """Fit lines without an annual term, which a short time cannot tell from a line; outliers are left out once.

    Returns:
        changes (N,) from 0 to 1 of `when`, and their standard errors as of white noise, mm.
    """
    known = np.isfinite(series)
    y, weight = np.where(known, series, 0), known.astype(float)
    for _ in range(2):
        total = weight.sum(1)
        middle, level = weight @ when / total, (weight * y).sum(1) / total
        away = (when - middle[:, None]) * weight
        spread = (away**2).sum(1)
        change = (away * y).sum(1) / spread
        residual = y - level[:, None] - change[:, None] * (when - middle[:, None])
        size = 1.4826 * np.median(np.where(known, np.abs(residual), 0), axis=1)
        variance = (weight * residual**2).sum(1) / np.maximum(total - 2, 1)
        weight = known * (np.abs(residual) <= np.maximum(OUTLYING * size, 1e-6)[:, None])
    return change, np.maximum(np.sqrt(variance / spread), LEAST_LINE_ERROR)
