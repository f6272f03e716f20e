"""Assign scatterers between two buildings by co-movement, and collect them by building.

Positions are off by metres. At a wall that two houses share the nearer one is a guess, and
a few scatterers of a neighbour that settles on its own look like a corner that has broken
off (decision 36).

Shape legend: N points of all tracks, P points of one pair of buildings (padded), b pairs at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import NamedTuple

import numpy as np
import shapely
from numpy.typing import NDArray

from plumbline.core.arrays import Float, Index, Mask
from plumbline.core.compass import Frames, frames
from plumbline.core.jobs import in_threads
from plumbline.params import Prepare
from plumbline.prepare.abstention import outsized
from plumbline.prepare.assignment.nearest import UNASSIGNED, Rivals, assign_points, find_rivals
from plumbline.prepare.response.rigid_body import log_density, rigid_design, student_fit
from plumbline.prepare.scatterers import (
    ObservationPeriod,
    Rectangle,
    Scatterers,
    check_epochs,
    rectangles,
)
from plumbline.prepare.series.trend import estimate_trend, line_changes
from plumbline.sources.city.ingested import Neighbours
from plumbline.sources.points.epochs import TREND_EPOCHS
from plumbline.sources.points.track import Track

MIN_EPOCHS = TREND_EPOCHS
SERIES_BLOCK = 4096
"""Number of series checked at a time: few enough for their arrays to stay in the processor's
cache."""


def observation_period(tracks: list[Track]) -> ObservationPeriod:
    """Return the period from the first epoch of any track to the last of any."""
    return ObservationPeriod(
        min(track.epochs[0] for track in tracks), max(track.epochs[-1] for track in tracks)
    )


def collect_scatterers(
    tracks: list[Track],
    footprints: NDArray[np.object_],
    owners: list[NDArray[np.intp]],
    min_epochs: int = MIN_EPOCHS,
) -> tuple[Scatterers, Frames]:
    """Gather the points of each footprint from all tracks and estimate their change.

    Points with fewer than `min_epochs` values are left out: their trend would be noise; so
    are those whose values are all the same.

    Args:
        tracks: in one projected CRS.
        footprints: (B,) shapely polygons in that CRS.
        owners: of each track, (N,) the footprint that has each of its points; see
            `owners.find_owners`.
        min_epochs: smallest number of values in a series.
    """
    frame = frames(footprints)
    period = observation_period(tracks)
    parts = [
        _collect_track(number, track, owner, frame=frame, period=period, min_epochs=min_epochs)
        for number, (track, owner) in enumerate(zip(tracks, owners, strict=True))
    ]
    merged = Scatterers(
        **{
            f.name: np.concatenate([getattr(part, f.name) for part in parts])
            for f in fields(Scatterers)
        }
    )
    merged = merged.take(np.argsort(merged.building, kind="stable"))
    if len(merged):
        starts = np.flatnonzero(np.r_[True, np.diff(merged.building) > 0])
        lowest = np.minimum.reduceat(merged.height, starts)
        merged = replace(
            merged, height=merged.height - np.repeat(lowest, np.diff(np.r_[starts, len(merged)]))
        )
    return merged, frame


def _collect_track(
    number: int,
    track: Track,
    owner: NDArray[np.intp],
    *,
    frame: Frames,
    period: ObservationPeriod,
    min_epochs: int,
) -> Scatterers:
    rows = usable_rows(track, owner, min_epochs)
    rows = rows[np.argsort(owner[rows], kind="stable")]
    building = owner[rows]
    when = (track.epochs - period.start) / (period.end - period.start)
    trend = estimate_trend(track.displacement[rows], when.astype(float), period.years, building)
    position = np.stack([track.easting[rows], track.northing[rows]], axis=1)
    return Scatterers(
        building=building,
        track=np.full(len(rows), number, dtype=np.intp),
        point=rows,
        xy=frame.to_building(building, position),
        height=track.height[rows],
        los=np.column_stack([frame.rotate(building, track.los[rows, :2]), track.los[rows, 2]]),
        change=trend.change,
        change_se=trend.change_se,
        velocity=trend.line / period.years,
        velocity_se=trend.line_se / period.years,
        common_se=trend.common_se / period.years,
        course=trend.course,
        course_root=trend.course_root,
    )


def usable_rows(
    track: Track, owner: NDArray[np.intp], min_epochs: int = MIN_EPOCHS
) -> NDArray[np.intp]:
    """Return the rows of the points that belong to a building and have usable values, ascending.

    A series of one value over and over, as where a product was filled with zeros, shows nothing: it
    would pass for a point without any noise, and outweigh all others. A point without a position or
    a line of sight cannot be fitted; the readers pass none on.

    Args:
        track: its points. owner: (N,) building of each, `UNASSIGNED` without one.
        min_epochs: smallest number of values in a series.
    """
    rows = np.flatnonzero(owner != UNASSIGNED)
    place = np.column_stack([track.easting, track.northing, track.height, track.los])[rows]
    usable = np.asarray(np.isfinite(place).all(axis=1))
    for start in range(0, len(rows), SERIES_BLOCK):
        series = track.displacement[rows[start : start + SERIES_BLOCK]]
        is_finite = np.isfinite(series)
        highest = lowest = series
        if not is_finite.all():
            highest, lowest = (np.where(is_finite, series, fill) for fill in (-np.inf, np.inf))
        varies = highest.max(axis=1, initial=-np.inf) > lowest.min(axis=1, initial=np.inf)
        usable[start : start + SERIES_BLOCK] &= varies & (is_finite.sum(axis=1) >= min_epochs)
    return np.asarray(rows[usable])


def footprint_area(footprints: NDArray[np.object_]) -> Float:
    """Return the area (B,), m2."""
    return np.asarray(shapely.area(footprints), float)


def footprint_middle(footprints: NDArray[np.object_]) -> NDArray[np.float64]:
    """Return the centres of area (B, 2), easting and northing, m."""
    return np.asarray(shapely.get_coordinates(shapely.centroid(footprints)), float)


TILT_MM_M, OFFSET_MM = 3.0, 30.0
"""Prior standard deviations of a building's tilts, mm/m, and of its motion against the next one,
mm."""
ALONE = 0.1
"""Prior share of the scatterers that move like neither building, as those of a damaged corner: by
`OFFSET_MM`, too."""
MOST_LEVER = 0.95
"""Largest leverage of a scatterer in its building's fit: a larger one is cut to this."""
ROUNDS = 2
CLEAR = 1e-6
"""Smallest log odds at which a point changes its building: at a tie it stays."""


class TrackPoints(NamedTuple):
    """N points of all tracks."""

    place: Float
    """(N, 2) easting, northing, m."""
    height: Float
    los: Float
    """(N, 3) east, north, up."""
    track: Index


def find_movers(
    points: TrackPoints, change: Float, error: Float, rivals: Rivals
) -> tuple[Index, Index]:
    """Return the points that move with a rival of their building by position, and that rival.

    Rigid motions of both buildings of a pair are fitted beside each other, at first to the
    scatterers that only one of them can have, then to those of each so far; a contested one goes
    where its own movement is the more likely, by fits without it, and by its position. Of several
    rivals only the nearest can get it: that one is found without the points of the others.

    Args:
        points: N points. change, error: (N,) movement along LOS over the period and its standard
            error, mm; used where a rival is near. rivals: see `find_rivals`.
    """
    offsets = np.searchsorted(rivals.of, np.arange(len(rivals.pair) + 1))
    towards_first = np.zeros(len(rivals.of))
    tracks = int(points.track.max(initial=0)) + 1

    def compare(rectangle: Rectangle) -> tuple[Index, Float]:
        mask, row = rectangle.mask, rectangle.row
        point = rivals.point[row]
        los, height = points.los[point], points.height[point]
        xy = points.place[point] - (points.place[point] * mask[..., None]).sum(
            1, keepdims=True
        ) / _count(mask)
        height = height - np.where(mask, height, np.inf).min(1, keepdims=True)
        design = rigid_design(xy, height, los, points.track[point]) * mask[..., None]
        design = np.concatenate(
            [design, np.zeros((*mask.shape, tracks + 2 - design.shape[2]))], axis=2
        )
        level = _subtract_level(change[point], points.track[point], mask, tracks)
        log_odds = _log_odds(design, level, error[point], rivals.take(row.ravel()), mask)
        return row[mask], log_odds[mask]

    for row, log_odds in in_threads(compare, rectangles(offsets)):
        towards_first[row] = log_odds
    against = np.where(rivals.first, -towards_first, towards_first)
    leaves = np.flatnonzero(rivals.claimed & (against > CLEAR))
    return rivals.point[leaves], rivals.pair[rivals.of[leaves], rivals.first[leaves].astype(int)]


def _log_odds(design: Float, change: Float, error: Float, rivals: Rivals, mask: Mask) -> Float:
    """Return the log odds (b, P) that each point belongs to the first building of its pair."""
    first, claimed, uncontested = (
        column.reshape(mask.shape) for column in (rivals.first, rivals.claimed, rivals.uncontested)
    )
    prior_odds = rivals.odds.reshape(mask.shape)
    prior = 1 / np.r_[TILT_MM_M, TILT_MM_M, np.full(design.shape[2] - 2, OFFSET_MM)] ** 2
    in_first, is_fitted = first, mask & uncontested
    for _ in range(ROUNDS):
        odds = prior_odds + _log_likelihood(design, change, error, in_first & is_fitted, prior)
        odds -= _log_likelihood(design, change, error, ~in_first & is_fitted, prior)
        in_first, is_fitted = np.where(claimed, odds > 0, first), mask
    return np.asarray(odds)


def _log_likelihood(
    design: Float, change: Float, error: Float, members: Mask, prior: Float
) -> Float:
    """Return each movement's log density (b, P) by the rigid motion of the other `members`."""
    fit = student_fit(design, change, error, members, prior)
    variance = error**2 + fit.spread[:, None] ** 2
    weight = np.where(members, fit.weight / variance, 0)
    covariance = np.linalg.inv(
        np.einsum("bp,bpi,bpj->bij", weight, design, design) + np.diag(prior)
    )
    prediction_variance = np.einsum("bpi,bij,bpj->bp", design, covariance, design)
    # Without the point: residual e / (1 - h) and prediction variance v / (1 - h), h the leverage.
    complement = 1 - np.minimum(weight * prediction_variance, MOST_LEVER)
    residual = (change - np.einsum("bpi,bi->bp", design, fit.solution)) / complement
    moves_along = log_density(residual, np.sqrt(variance + prediction_variance / complement))
    alone = -((residual / OFFSET_MM) ** 2) / 2 - np.log(np.sqrt(2 * np.pi) * OFFSET_MM)
    return np.asarray(np.logaddexp(np.log1p(-ALONE) + moves_along, np.log(ALONE) + alone))


def _subtract_level(change: Float, track: Index, mask: Mask, tracks: int) -> Float:
    """Subtract from changes (b, P) the median of the pair's points of the same track, so
    that offsets are near 0."""
    level = np.zeros_like(change)
    for number in range(tracks):
        of_track = mask & (track == number)
        has_points = of_track.any(1)
        middle = np.zeros(len(change))
        middle[has_points] = np.nanmedian(
            np.where(of_track[has_points], change[has_points], np.nan), axis=1
        )
        level += np.where(of_track, change - middle[:, None], 0)
    return level


def _count(mask: Mask) -> Float:
    return np.asarray(np.maximum(mask.sum(1), 1)[:, None, None], float)


class Owners(NamedTuple):
    """Owners of the points of some tracks."""

    of: list[Index]
    """Footprint (N,) of each point of each track, `UNASSIGNED` without one."""
    moved: int
    """Points that belong to another building than the nearest, because they move with it."""


def find_owners(
    tracks: Sequence[Track], footprints: NDArray[np.object_], params: Prepare
) -> Owners:
    """Assign the points of all tracks to footprints.

    Args:
        tracks: those that are used, in one projected CRS.
        footprints: (B,) shapely polygons in that CRS.
        params: `buffer_m` of it counts, and the bounds of what is judged. Without a buffer
            positions are taken as they are.

    Raises:
        InputError: a track cannot show a movement, see `check_epochs`.
    """
    check_epochs(tracks, MIN_EPOCHS)
    last = outsized(footprints, params)
    start = np.cumsum([0, *map(len, tracks)])
    place = np.concatenate(
        [np.zeros((0, 2)), *(np.column_stack([track.easting, track.northing]) for track in tracks)]
    )
    assigned = assign_points(place[:, 0], place[:, 1], footprints, params.buffer_m, last)
    owner = assigned.owner
    owners = np.split(owner, start[1:-1])[: len(tracks)]
    if not params.buffer_m or len(footprints) < 2 or not tracks:
        return Owners(owners, 0)
    rows = in_threads(
        lambda number: usable_rows(tracks[number], owners[number]), range(len(tracks))
    )
    usable = np.concatenate(
        [first + track_rows for first, track_rows in zip(start, rows, strict=False)]
    )
    points = TrackPoints(
        place,
        np.concatenate([track.height for track in tracks]),
        np.concatenate([track.los for track in tracks]),
        np.repeat(np.arange(len(tracks)), np.diff(start)),
    )
    rivals = find_rivals(
        place,
        assigned=assigned,
        usable=usable,
        footprints=footprints,
        buffer_m=params.buffer_m,
        aside=last,
    )
    period = observation_period(list(tracks))
    change, error = np.zeros((2, len(owner)))

    def estimate_changes(number: int) -> None:
        track, near = tracks[number], np.unique(rivals.point[points.track[rivals.point] == number])
        when = ((track.epochs - period.start) / (period.end - period.start)).astype(float)
        change[near], error[near] = line_changes(
            track.displacement[near - start[number]], when, period.years
        )

    list(in_threads(estimate_changes, range(len(tracks))))
    moved, new_owner = find_movers(points, change, error, rivals)
    owner[moved] = new_owner
    return Owners(owners, len(moved))


def owners_in_tile(
    tracks: Sequence[Track],
    footprints: NDArray[np.object_],
    neighbours: Neighbours,
    params: Prepare,
) -> Owners:
    """Assign points to a tile's footprints, with the same result as for the whole city.

    The points within its halo are enough (`sources.city.tiles`): those beside its buildings, and
    their owners.
    """
    row = np.concatenate([neighbours.own, neighbours.row])
    # Of footprints alike the first of the file counts.
    order = np.argsort(row)
    owners = find_owners(tracks, np.concatenate([footprints, neighbours.geometry])[order], params)
    tile_row = np.append(np.where(order < len(footprints), order, UNASSIGNED), UNASSIGNED)
    return Owners([tile_row[owner] for owner in owners.of], owners.moved)
