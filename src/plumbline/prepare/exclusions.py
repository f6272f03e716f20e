"""Cases that a person would leave aside: which buildings are not judged and which tracks are not used, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from plumbline.core.compass import frames
from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.params import Prepare

Float = NDArray[np.floating[Any]]
JUDGED = 0
"""Code of the buildings that no rule leaves out."""
REASONS: Mapping[str, str] = {
    "too_small": "the shorter side is below prepare.min_side_m: positions of points are less certain than that",
    "too_large": "the longer side is above prepare.max_side_m: joints let the parts of it move on their own",
    "no_points": "no usable point is on it",
    "few_points": "fewer usable points than prepare.min_points",
    "degenerate_points": "all points are at three places at most, or on one line: tilt cannot be told from damage",
}
"""Name of each rule, in the order in which they are tried, and what it means."""
LEAST_PLACES = 4
"""Through three places goes a plane: whatever they do is a tilt. Pixels of several tracks share their places."""
MIN_SPREAD_M = 0.1
"""Points nearer to a line than this (root mean square, m) are on it."""
MIN_SPREAD_SHARE = 0.02
"""The same as a share of the shorter side: the error of a tilt, seen at that side's ends, is at least 25 times the
error of the points' mean. Fewer than 1 in 100 buildings with 5 points or more drawn evenly over it are so."""
STRAY_FROM = 6
"""From so many points on, one that stands off the line alone does not make it an area."""
MIN_PERIOD_SHARE = 0.5
"""Of the common period that a track has to cover: its movement is extended over the rest."""
DAY = np.timedelta64(1, "D")


class Observed(Protocol):
    """What has epochs: a track, or a product that is read in blocks."""

    @property
    def name(self) -> str:
        """For messages."""

    @property
    def epochs(self) -> NDArray[np.datetime64]:
        """(T,) days."""


@dataclass(frozen=True)
class LeftOut:
    """Which rule, if any, leaves out each of B buildings."""

    code: NDArray[np.int8]
    """(B,) `JUDGED`, or 1 + the place of the rule in `REASONS`."""

    @property
    def judged(self) -> NDArray[np.intp]:
        """Rows of the buildings that are judged."""
        return np.flatnonzero(self.code == JUDGED)

    @property
    def counts(self) -> dict[str, int]:
        """Buildings left out by each rule, all rules named; a building counts under the first that holds."""
        found = np.bincount(self.code, minlength=len(REASONS) + 1)[1:]
        return {name: int(number) for name, number in zip(REASONS, found, strict=True)}

    def __str__(self) -> str:
        return "; ".join(f"{number} {name} ({REASONS[name]})" for name, number in self.counts.items() if number)


@dataclass(frozen=True)
class Periods:
    """Which tracks have enough time in common."""

    start: np.datetime64
    end: np.datetime64
    """The common period: from the first epoch of a kept track to the last of any."""
    share: Float
    """(K,) of it that each track covers, of those left out too; at most 1."""
    kept: NDArray[np.intp]
    """Rows of the tracks to use."""


def leave_out(
    side: Float, building: NDArray[np.intp], xy: Float, min_points: int, min_side_m: float, max_side_m: float
) -> LeftOut:
    """Try all rules on B buildings with N points.

    Args:
        side: (B, 2) sides of the buildings' rectangles, m.
        building: (N,) building of each usable point.
        xy: (N, 2) their positions, m; in any frame that turns and shifts a building as a whole.
        min_points, min_side_m, max_side_m: see `params.Prepare`.
    """
    count = np.bincount(building, minlength=len(side))
    small, large = _outsized(side, min_side_m, max_side_m)
    rules = {
        "too_small": small,
        "too_large": large,
        "no_points": count == 0,
        "few_points": count < min_points,
        "degenerate_points": (
            (spread(building, xy, len(side)) < np.maximum(MIN_SPREAD_M, MIN_SPREAD_SHARE * side.min(1)))
            | (distinct_places(building, xy, len(side)) < LEAST_PLACES)
        ),
    }
    code = np.select([rules[name] for name in REASONS], range(1, len(REASONS) + 1), default=JUDGED)
    return LeftOut(code.astype(np.int8))


def outsized(footprints: NDArray[np.object_], params: Prepare) -> NDArray[np.bool_]:
    """(B,) which footprints are not judged whatever points they have: they must not take those of others."""
    return np.logical_or(*too_small_or_large(frames(footprints).side, params))


def too_small_or_large(side: Float, params: Prepare) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(B,) which buildings with sides (B, 2), m, are `too_small`, and which `too_large`."""
    return _outsized(side, params.min_side_m, params.max_side_m)


def _outsized(side: Float, min_side_m: float, max_side_m: float) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    return side.min(axis=1) < min_side_m, side.max(axis=1) > max_side_m


def spread(building: NDArray[np.intp], xy: Float, buildings: int) -> Float:
    """How far the points of each building are from the line that fits them best: (B,) root mean square, m.

    It is the second singular value of the centred positions over the square root of their number. From `STRAY_FROM`
    points on, the smallest value that leaving out a single point gives. 0 for fewer than two points.
    """
    count = np.bincount(building, minlength=buildings)

    def total(values: Float) -> Float:
        return np.bincount(building, values, buildings).astype(float)

    mean = np.stack([total(xy[:, 0]), total(xy[:, 1])], axis=1) / np.maximum(count, 1)[:, None]
    x, y = (xy - mean[building]).T
    moments = np.stack([total(x * x), total(x * y), total(y * y)], axis=1)
    least = _minor(moments, count)
    # Without point i, the sums of squares about the new mean are less by n / (n - 1) of its own.
    lever = (count / np.maximum(count - 1, 1))[building, None]
    without = _minor(moments[building] - lever * np.stack([x * x, x * y, y * y], axis=1), count[building] - 1)
    tried = count[building] >= STRAY_FROM
    np.minimum.at(least, building[tried], without[tried])
    return least


def distinct_places(building: NDArray[np.intp], xy: Float, buildings: int) -> NDArray[np.int64]:
    """(B,) distinct positions of each building's points, to `MIN_SPREAD_M`."""
    cell = np.rint(xy / MIN_SPREAD_M).astype(np.int64)
    distinct = np.unique(np.column_stack([building, cell]), axis=0)
    return np.bincount(distinct[:, 0], minlength=buildings)


def _minor(moments: Float, count: NDArray[np.intp]) -> Float:
    """Root mean square across the main axis, from sums of xx, xy and yy: the smaller eigenvalue of a 2 x 2 matrix."""
    xx, xy, yy = moments.T
    smaller = (xx + yy) / 2 - np.hypot((xx - yy) / 2, xy)
    return np.asarray(np.sqrt(np.maximum(smaller, 0) / np.maximum(count, 1)))


def check_epochs(tracks: Sequence[Observed], min_epochs: int) -> None:
    """Refuse tracks that cannot show a movement.

    Raises:
        InputError: fewer than `min_epochs` epochs, or epochs that do not ascend; names the track.
    """
    for track in tracks:
        count = len(track.epochs)
        if count < min_epochs:
            raise InputError(
                f"track {track.name}: {count} epoch{'' if count == 1 else 's'} found; a movement needs {min_epochs} or "
                "more. Leave its file out, or take a product of a longer time."
            )
        back = np.flatnonzero(np.diff(track.epochs) <= np.timedelta64(0, "D"))
        if len(back):
            before, after = track.epochs[back[0]], track.epochs[back[0] + 1]
            raise InputError(f"{track.name}: epoch {after} follows {before}; each must be later than the one before.")


def period_overlap(tracks: Sequence[Observed], min_share: float = MIN_PERIOD_SHARE) -> Periods:
    """Leave out tracks that cover less than `min_share` of the period of all, and say so.

    The one that covers least goes first (of equal ones, the one that began first: the later says how the building is
    now), and what is common is measured again without it. So one track at least is kept.

    Args:
        tracks: at least one, with two epochs or more, ascending.
        min_share: from 0 to 1.
    """
    first = np.array([track.epochs[0] for track in tracks], "datetime64[D]")
    last = np.array([track.epochs[-1] for track in tracks], "datetime64[D]")
    kept = np.arange(len(tracks))
    while True:
        start, end = first[kept].min(), last[kept].max()
        covered = (np.minimum(last, end) - np.maximum(first, start)) / DAY
        share = np.maximum(covered / max((end - start) / DAY, 1.0), 0.0)
        least = kept[np.lexsort((first[kept], share[kept]))[0]]
        if share[least] >= min_share:
            break
        kept = kept[kept != least]
        log.warning(
            "%s: left out; its period, %s to %s, covers %.1f %% of that of all tracks, %s to %s (%.0f %% are needed).",
            tracks[least].name,
            first[least],
            last[least],
            100 * share[least],
            start,
            end,
            100 * min_share,
        )
    return Periods(start, end, share, kept)
