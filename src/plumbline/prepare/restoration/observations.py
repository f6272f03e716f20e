"""Estimate how far each scatterer moved along its line of sight, with its standard error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from plumbline.core.errors import InputError
from plumbline.prepare.periods import check_epochs, period_overlap
from plumbline.prepare.restoration.changes import estimate_changes
from plumbline.sources.points.epochs import DAYS_A_YEAR
from plumbline.sources.track import Track

Float = NDArray[np.floating[Any]]
NEIGHBOURS = 9
"""Of a scatterer and its side, itself among them, that tell whether it moves by itself."""
NEAR_M = 80.0
SUSPECT = 3.0
"""Standard deviations from its neighbours' median, beyond which a scatterer counts as less sure."""
WEST, EAST = 0, 1
"""Sides that a satellite looks from: its horizontal direction seen from the ground."""


@dataclass(frozen=True)
class Observations:
    """N scatterers of all tracks."""

    east_north: Float
    """(N, 2) m, in the products' CRS."""
    los: Float
    """(N, 3) unit vector from ground to satellite."""
    change: Float
    """(N,) from the first to the last epoch of all tracks, mm towards the satellite."""
    error: Float
    """(N,) standard error, mm; larger for those that stand out from their neighbours."""
    track: NDArray[np.intp]
    """(N,) index of the track."""

    def __len__(self) -> int:
        return len(self.change)

    @property
    def side(self) -> NDArray[np.intp]:
        """(N,) `WEST` or `EAST`."""
        return np.where(self.los[:, 0] > 0, EAST, WEST)

    @property
    def directions(self) -> int:
        """Number of sides that the scatterers are seen from, 1 or 2."""
        return len(np.unique(self.side))

    def along_line(self) -> Self:
        """Return the observations in a frame with each scatterer's line of sight as `up`, without motion to the east.

        What one direction sees is one number a place; up and east apart would be guesses.
        """
        return replace(self, los=np.broadcast_to([0.0, 0.0, 1.0], self.los.shape))

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_]) -> Self:
        """Select the rows `index`, in that order."""
        return replace(self, **{field.name: getattr(self, field.name)[index] for field in fields(self)})


def observe(tracks: Sequence[Track]) -> Observations:
    """Estimate the changes of all scatterers over the common period; leave out those with too few epochs.

    Raises:
        InputError: a track has too few epochs, or no scatterer is left.
    """
    check_epochs(tracks, 2)
    periods = period_overlap(tracks)
    years = float((periods.end - periods.start) / np.timedelta64(1, "D")) / DAYS_A_YEAR
    parts = [_of_track(tracks[number], number, periods.start, years) for number in periods.kept]
    whole = {
        field.name: np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Observations)
    }
    found = Observations(**whole)
    if not len(found):
        raise InputError(
            "no point has enough epochs with a value; a change cannot be told. Give products of a longer time."
        )
    return found


def _of_track(track: Track, number: int, start: np.datetime64, years: float) -> Observations:
    when = (track.epochs - start) / np.timedelta64(1, "D") / DAYS_A_YEAR / max(years, 1e-9)
    place = np.column_stack([track.easting, track.northing])
    change, error = estimate_changes(track.displacement, when, years)
    rows = np.flatnonzero(np.isfinite(change) & np.isfinite(place).all(axis=1))
    found = Observations(
        place[rows], track.los[rows].astype(float), change[rows], error[rows], np.full(len(rows), number, np.intp)
    )
    return replace(found, error=found.error * _standing_out(found))


def _standing_out(found: Observations) -> Float:
    """Return the factor (N,) on a scatterer's error: 1 if it agrees with the median of its neighbours."""
    if len(found) < NEIGHBOURS:
        return np.ones(len(found))
    distance, near = cKDTree(found.east_north).query(found.east_north, k=NEIGHBOURS)
    values = np.where(distance <= NEAR_M, found.change[near], np.nan)
    median = np.nanmedian(values, axis=1)
    spread = 1.4826 * np.nanmedian(np.abs(values - median[:, None]), axis=1)
    enough = np.isfinite(values).sum(axis=1) >= 4
    away = np.abs(found.change - median) / np.sqrt(found.error**2 + spread**2 + 0.1)
    return np.where(enough, np.maximum(1.0, away / SUSPECT) ** 2, 1.0)
