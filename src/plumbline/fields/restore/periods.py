"""Check the observations of a period, and cut it into calendar years, each of which is a field of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np

from plumbline.core.errors import InputError
from plumbline.fields.prepare.grid import Grid, Observations
from plumbline.fields.restore.field import Field
from plumbline.prepare.scatterers import period_overlap
from plumbline.sources.city.window import Window
from plumbline.sources.points.source import MIN_EPOCHS
from plumbline.sources.points.track import Track

LEAST_POINTS = 8
"""From fewer no covariance can be told."""
LEAST_SPAN_M = 30.0
"""Across the line that points lie along; on less, no field is told beside it."""
LEAST_DAYS = 183
"""From the first to the last epoch in a year: a shorter piece at the ends of the products is no year's change."""


def year_path(output: Path, year: int) -> Path:
    """Return the path of a year's field: `field_2021.tif` beside `field.tif`."""
    return output.with_stem(f"{output.stem}_{year}")


def calendar_years(tracks: Sequence[Track], window: Window) -> dict[int, Window]:
    """Return the years that have an epoch of any track, and lie with all their days in `window`."""
    epochs = np.concatenate([track.epochs[[0, -1]] for track in tracks if len(track.epochs)])
    first, last = (int(str(day)[:4]) for day in (epochs.min(), epochs.max()))
    years = {year: Window(date(year, 1, 1), date(year, 12, 31)) for year in range(first, last + 1)}
    return {
        year: own
        for year, own in years.items()
        if own.since and own.until and (window.since or own.since) <= own.since
        if (window.until or own.until) >= own.until
    }


def cut_to_year(tracks: Sequence[Track], year: Window) -> list[Track]:
    """Return the tracks with the epochs of a year alone.

    Raises:
        InputError: a track has too few epochs in it, or they cover too little of it.
    """
    cut = [year.cut(track.name, track, MIN_EPOCHS) for track in tracks]
    periods = period_overlap(cut, quiet=True)
    days = int((periods.end - periods.start) / np.timedelta64(1, "D"))
    if days < LEAST_DAYS:
        raise InputError(f"its epochs, {periods.start} to {periods.end}, cover {days} days; {LEAST_DAYS} are needed.")
    return cut


@dataclass(frozen=True)
class PartOfTime:
    """Tracks in a part of the time of a field."""

    tracks: list[Track]
    whole: Field

    def extent(self, found: Observations) -> tuple[Grid, Grid]:
        """Return the grids of the whole: over all points, and what is written of it.

        Raises:
            InputError: a direction is missing in the part: its file would have other bands.
        """
        there, all_ = found.directions, self.whole.found.directions
        if there != all_:
            raise InputError(f"its points are seen from {there} of {all_} directions.")
        return self.whole.whole, self.whole.grid


def period_of(tracks: Sequence[Track]) -> str:
    """Return the first and the last day of the changes of tracks: `2021-01-04 to 2021-12-30`."""
    periods = period_overlap(tracks, quiet=True)
    return f"{periods.start} to {periods.end}"


def check_found(found: Observations, names: Sequence[str]) -> None:
    """Refuse observations that cannot make a field.

    Raises:
        InputError: too few points, all of them in a line, or tracks of different places.
    """
    if len(found) < LEAST_POINTS:
        raise InputError(
            f"{', '.join(names)}: {len(found)} points with a change found, {LEAST_POINTS} needed for a field."
        )
    middle = found.east_north - found.east_north.mean(axis=0)
    across = np.linalg.svd(middle, full_matrices=False)[1][-1] / np.sqrt(len(found))
    if 4 * across < LEAST_SPAN_M:
        raise InputError(
            f"{', '.join(names)}: all points lie along one line, {4 * across:.0f} m wide; {LEAST_SPAN_M:.0f} m are "
            "needed for a field."
        )
    first, *others = np.unique(found.track)
    whole = found.east_north[found.track == first]
    for number in others:
        own = found.east_north[found.track == number]
        if (own.max(axis=0) < whole.min(axis=0)).any() or (own.min(axis=0) > whole.max(axis=0)).any():
            raise InputError(
                f"{names[first]} and {names[number]}: points of different places. Give products of one place."
            )
