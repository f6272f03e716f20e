"""Check the observations of a period, and cut it into calendar years, each with its own field."""

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

MIN_POINTS = 8
"""Smallest number of points to which a covariance is fitted."""
MIN_SPAN_M = 30.0
"""Smallest width of the points across their longest direction, m."""
MIN_DAYS = 183
"""Shortest time from the first to the last epoch in a year that has a field, days."""


def year_path(output: Path, year: int) -> Path:
    """Return the path of a year's field: `field_2021.tif` beside `field.tif`."""
    return output.with_stem(f"{output.stem}_{year}")


def calendar_years(tracks: Sequence[Track], window: Window) -> dict[int, Window]:
    """Return the years with an epoch of any track and with all their days in `window`."""
    epochs = np.concatenate([track.epochs[[0, -1]] for track in tracks if len(track.epochs)])
    first, last = (int(str(day)[:4]) for day in (epochs.min(), epochs.max()))
    years = {year: Window(date(year, 1, 1), date(year, 12, 31)) for year in range(first, last + 1)}
    return {
        year: days
        for year, days in years.items()
        if days.since and days.until and (window.since or days.since) <= days.since
        if (window.until or days.until) >= days.until
    }


def cut_to_year(tracks: Sequence[Track], year: Window) -> list[Track]:
    """Return the tracks with only the epochs of a year.

    Raises:
        InputError: a track has too few epochs in it, or they cover too little of it.
    """
    cut = [year.cut(track.name, track, MIN_EPOCHS) for track in tracks]
    periods = period_overlap(cut, quiet=True)
    days = int((periods.end - periods.start) / np.timedelta64(1, "D"))
    if days < MIN_DAYS:
        raise InputError(
            f"its epochs, {periods.start} to {periods.end}, cover {days} days; {MIN_DAYS} are "
            "needed.",
            key="year.too_short",
        )
    return cut


@dataclass(frozen=True)
class PartOfTime:
    """Tracks in a part of the time of a field."""

    tracks: list[Track]
    field: Field
    """Field of the whole time."""

    def extent(self, observations: Observations) -> tuple[Grid, Grid]:
        """Return the grids of the field: over all points, and the part that is written.

        Raises:
            InputError: a direction is missing in the part: its file would have other bands.
        """
        n_part, n_all = observations.directions, self.field.observations.directions
        if n_part != n_all:
            raise InputError(
                f"its points are seen from {n_part} of {n_all} directions.",
                key="year.missing_direction",
            )
        return self.field.full_grid, self.field.grid


def period_of(tracks: Sequence[Track]) -> str:
    """Return the first and the last day of the changes of tracks: `2021-01-04 to 2021-12-30`."""
    periods = period_overlap(tracks, quiet=True)
    return f"{periods.start} to {periods.end}"


def check_observations(observations: Observations, names: Sequence[str]) -> None:
    """Refuse observations from which no field can be restored.

    Raises:
        InputError: too few points, all of them in a line, or tracks of different places.
    """
    if len(observations) < MIN_POINTS:
        raise InputError(
            f"{', '.join(names)}: {len(observations)} points with a change found, {MIN_POINTS} "
            "needed for a field.",
            key="points.too_few",
        )
    # The smallest singular value is the deviation across the longest direction times the
    # root of the
    # number of points. Four deviations are about the whole width.
    centred = observations.east_north - observations.east_north.mean(axis=0)
    across = np.linalg.svd(centred, full_matrices=False)[1][-1] / np.sqrt(len(observations))
    if 4 * across < MIN_SPAN_M:
        raise InputError(
            f"{', '.join(names)}: all points lie along one line, {4 * across:.0f} m wide; "
            f"{MIN_SPAN_M:.0f} m are "
            "needed for a field.",
            key="points.in_one_line",
        )
    first, *later = np.unique(observations.track)
    reference = observations.east_north[observations.track == first]
    low, high = reference.min(axis=0), reference.max(axis=0)
    for number in later:
        points = observations.east_north[observations.track == number]
        if (points.max(axis=0) < low).any() or (points.min(axis=0) > high).any():
            raise InputError(
                f"{names[first]} and {names[number]}: points of different places. Give products "
                "of one place.",
                key="tracks.different_places",
            )
