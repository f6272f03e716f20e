"""Collect the scatterers of buildings, and choose the tracks that count."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from plumbline.core.arrays import Float
from plumbline.core.console import warn
from plumbline.core.errors import InputError
from plumbline.sources.points.epochs import DAYS_A_YEAR


@dataclass(frozen=True)
class Scatterers:
    """N scatterers, rows of the same building together, buildings ascending."""

    building: NDArray[np.intp]
    """(N,) index of the building."""
    track: NDArray[np.intp]
    """(N,) index of the track."""
    point: NDArray[np.intp]
    """(N,) row of the scatterer in the table it came from: of a point, in its track."""
    xy: Float
    """(N, 2) position in the building frame, m."""
    height: Float
    """(N,) m above the lowest scatterer of the building."""
    los: Float
    """(N, 3) unit vector from ground to satellite along x, along y and up."""
    change: Float
    """(N,) displacement from the first to the last epoch, mm along LOS; see `trend`."""
    change_se: Float
    """(N,) its standard error, mm, without the error that the scatterer shares with its
    building."""
    velocity: Float
    """(N,) mean velocity along LOS, mm/yr."""
    velocity_se: Float
    """(N,) its standard error, mm/yr, without the error that the scatterer shares with its
    building."""
    common_se: Float
    """(N,) standard error that the velocities of the building's scatterers of that track share,
    mm/yr."""
    course: Float
    """(N, K) course in time, mm; NaN where it is not known; see `temporal_basis.Courses`."""
    course_root: Float
    """(N, K, K) root of the inverse covariance of the course, 1/mm."""

    def __len__(self) -> int:
        return len(self.building)

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_]) -> Self:
        """Select the rows `index`, in that order."""
        return replace(
            self, **{field.name: getattr(self, field.name)[index] for field in fields(self)}
        )


CELLS = 1 << 19
"""Largest number of cells of one rectangle, when a cell is a pair of scatterers: bounds the
memory."""


class Rectangle(NamedTuple):
    """b buildings of similar size, padded to P scatterers."""

    building: NDArray[np.intp]
    """(b,) position of the building in the ragged order."""
    row: NDArray[np.intp]
    """(b, P) row of the scatterer; padding repeats a row of the building itself."""
    mask: NDArray[np.bool_]
    """(b, P) False where padding."""


def rectangles(offsets: NDArray[np.int64]) -> Iterator[Rectangle]:
    """Cover all buildings that have scatterers; `offsets` (B + 1,) are the bounds of their rows."""
    size = np.diff(offsets)
    order = np.argsort(size, kind="stable")
    order = order[size[order] > 0]
    start = 0
    while start < len(order):
        width = int(size[order[start]])
        # Buildings up to a quarter larger share a rectangle, as far as its squared width allows.
        stop = int(np.searchsorted(size[order], width + max(1, width // 4), side="right"))
        width = int(size[order[stop - 1]])
        stop = min(stop, start + max(1, CELLS // width**2))
        building = order[start:stop]
        column = np.arange(width)
        mask = column[None, :] < size[building, None]
        row = offsets[building, None] + np.minimum(column[None, :], size[building, None] - 1)
        yield Rectangle(building, row, mask)
        start = stop


MIN_PERIOD_SHARE = 0.5
"""Smallest share of the common period that a track covers: its movement is extended over the
rest."""
DAY = np.timedelta64(1, "D")


class Observed(Protocol):
    """Anything with epochs: a track, or a product that is read in blocks."""

    @property
    def name(self) -> str:
        """For messages."""

    @property
    def epochs(self) -> NDArray[np.datetime64]:
        """(T,) days."""


@dataclass(frozen=True)
class ObservationPeriod:
    """Time that changes refer to: from the first epoch of any track to the last of any."""

    start: np.datetime64
    end: np.datetime64

    @property
    def years(self) -> float:
        """Length in years."""
        return float((self.end - self.start) / DAY) / DAYS_A_YEAR


@dataclass(frozen=True)
class Periods(ObservationPeriod):
    """Tracks with enough time in common, and the period of those that are used."""

    share: Float
    """(K,) share of the period that each track covers, of those left out too; at most 1."""
    used: NDArray[np.intp]
    """Rows of the tracks that are used."""


def check_epochs(tracks: Sequence[Observed], min_epochs: int) -> None:
    """Refuse tracks that cannot show a movement.

    Raises:
        InputError: fewer than `min_epochs` epochs, or epochs that do not ascend; names the track.
    """
    for track in tracks:
        count = len(track.epochs)
        if count < min_epochs:
            raise InputError(
                f"track {track.name}: {count} epoch{'' if count == 1 else 's'} found; a movement "
                f"needs {min_epochs} or more. Leave its file out, or take a product of a longer "
                "time.",
                key="epochs.too_few",
            )
        back = np.flatnonzero(np.diff(track.epochs) <= np.timedelta64(0, "D"))
        if len(back):
            before, after = track.epochs[back[0]], track.epochs[back[0] + 1]
            raise InputError(
                f"{track.name}: epoch {after} follows {before}; each must be later than the one "
                "before.",
                key="epochs.not_ascending",
            )


def period_overlap(
    tracks: Sequence[Observed], min_share: float = MIN_PERIOD_SHARE, quiet: bool = False
) -> Periods:
    """Leave out tracks that cover less than `min_share` of the common period, with a warning.

    The one that covers least goes first (of equal ones, the one that began first: the later shows
    how the building is now), and the common period is measured again without it. So at least one
    track is used.

    Args:
        tracks: at least one, with two epochs or more, ascending.
        min_share: from 0 to 1.
        quiet: without the warning.
    """
    first = np.array([track.epochs[0] for track in tracks], "datetime64[D]")
    last = np.array([track.epochs[-1] for track in tracks], "datetime64[D]")
    used = np.arange(len(tracks))
    while True:
        start, end = first[used].min(), last[used].max()
        covered = (np.minimum(last, end) - np.maximum(first, start)) / DAY
        share = np.maximum(covered / max((end - start) / DAY, 1.0), 0.0)
        shortest = used[np.lexsort((first[used], share[used]))[0]]
        if share[shortest] >= min_share:
            break
        used = used[used != shortest]
        if quiet:
            continue
        warn(
            "%s: left out; its period, %s to %s, covers %.1f %% of that of all tracks, %s to %s "
            "(%.0f %% are needed).",
            tracks[shortest].name,
            first[shortest],
            last[shortest],
            100 * share[shortest],
            start,
            end,
            100 * min_share,
            key="tracks.short_period",
        )
    return Periods(start, end, share, used)
