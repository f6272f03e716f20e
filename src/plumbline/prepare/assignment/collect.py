"""Collect the scatterers of buildings from tracks and footprints, with the movement of each."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray

from plumbline.core.compass import Frames, frames
from plumbline.prepare.assignment.nearest import UNASSIGNED
from plumbline.prepare.scatterers import Scatterers
from plumbline.prepare.series.trend import estimate_trend
from plumbline.sources.points.epochs import DAYS_A_YEAR
from plumbline.sources.track import Track

Float = NDArray[np.floating[Any]]
MIN_EPOCHS = 8
"""A trend with an annual term from fewer values would be noise."""


@dataclass(frozen=True)
class Period:
    """The time that changes refer to."""

    start: np.datetime64
    end: np.datetime64

    @property
    def years(self) -> float:
        """Length in years."""
        return float((self.end - self.start) / np.timedelta64(1, "D")) / DAYS_A_YEAR


def observation_period(tracks: list[Track]) -> Period:
    """Return the period from the first epoch of any track to the last of any."""
    return Period(min(track.epochs[0] for track in tracks), max(track.epochs[-1] for track in tracks))


def collect_scatterers(
    tracks: list[Track], footprints: NDArray[np.object_], owners: list[NDArray[np.intp]], min_epochs: int = MIN_EPOCHS
) -> tuple[Scatterers, Frames]:
    """Gather the points of each footprint from all tracks and estimate their change.

    Points with fewer than `min_epochs` values are left out: their trend would be noise; so are those whose values are
    all the same.

    Args:
        tracks: in one projected CRS.
        footprints: (B,) shapely polygons in that CRS.
        owners: of each track, (N,) the footprint that has each of its points; see `owners.find_owners`.
        min_epochs: smallest number of values in a series.
    """
    frame = frames(footprints)
    period = observation_period(tracks)
    parts = [
        _one_track(number, track, owner, frame, period, min_epochs)
        for number, (track, owner) in enumerate(zip(tracks, owners, strict=True))
    ]
    merged = Scatterers(
        **{f.name: np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(Scatterers)}
    )
    merged = merged.take(np.argsort(merged.building, kind="stable"))
    if len(merged):
        starts = np.flatnonzero(np.r_[True, np.diff(merged.building) > 0])
        lowest = np.minimum.reduceat(merged.height, starts)
        merged = replace(merged, height=merged.height - np.repeat(lowest, np.diff(np.r_[starts, len(merged)])))
    return merged, frame


def _one_track(
    number: int, track: Track, owner: NDArray[np.intp], frame: Frames, period: Period, min_epochs: int
) -> Scatterers:
    rows = usable_rows(track, owner, min_epochs)
    rows = rows[np.argsort(owner[rows], kind="stable")]
    building = owner[rows]
    when = (track.epochs - period.start) / (period.end - period.start)
    trend = estimate_trend(track.displacement[rows], when.astype(float), period.years, building)
    position = np.stack([track.easting[rows], track.northing[rows]], axis=1)
    horizontal = frame.rotate(building, track.los[rows, :2])
    return Scatterers(
        building=building,
        track=np.full(len(rows), number, dtype=np.intp),
        xy=frame.to_building(building, position),
        height=track.height[rows],
        los=np.column_stack([horizontal, track.los[rows, 2]]),
        change=trend.change,
        change_se=trend.change_se,
        velocity=trend.line / period.years,
        velocity_se=trend.line_se / period.years,
        common_se=trend.common_se / period.years,
        course=trend.course,
        course_root=trend.course_root,
    )


def usable_rows(track: Track, owner: NDArray[np.intp], min_epochs: int = MIN_EPOCHS) -> NDArray[np.intp]:
    """Return the rows of the points that belong to a building and have usable values, ascending.

    A series of one value over and over, as where a product was filled with zeros, says nothing: it would pass for a
    point without any noise, and outweigh all others. One without a place or a line of sight has no place in a fit; the
    readers pass none on.

    Args:
        track: its points. owner: (N,) building of each, `UNASSIGNED` without one.
        min_epochs: smallest number of values in a series.
    """
    rows = np.flatnonzero((owner != UNASSIGNED) & (np.isfinite(track.displacement).sum(axis=1) >= min_epochs))
    series = track.displacement[rows]
    known = np.isfinite(series)
    place = np.column_stack([track.easting, track.northing, track.height, track.los])[rows]
    highest, lowest = (np.where(known, series, fill) for fill in (-np.inf, np.inf))
    varies = highest.max(axis=1, initial=-np.inf) > lowest.min(axis=1, initial=np.inf)
    return np.asarray(rows[varies & np.isfinite(place).all(axis=1)])


def footprint_area(footprints: NDArray[np.object_]) -> Float:
    """Return the area (B,), m2."""
    return np.asarray(shapely.area(footprints), float)
