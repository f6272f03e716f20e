"""Decompose lines of sight into up and east for each building or grid cell, and write the
table for users.

A satellite sees `los_east * east + los_north * north + los_up * up`. Ascending and descending
tracks look from the west and from the east, so together they separate up from east; near-polar
orbits hardly see north, which is taken as zero. A northward motion n shifts up and east all the
same. With two tracks of the lines of sight a and d it shifts them by these multiples of n (Cramer's
rule)

    up   (a_north d_east - d_north a_east) / (a_up d_east - d_up a_east)
    east (a_up d_north - d_up a_north) / (a_up d_east - d_up a_east)

The datum. Each track measures against a reference of its own, so its rates contain an unknown
constant r. Adding `los . m` of one motion m to the constants of all tracks and taking m off every
unit changes no value: of the constants of T tracks, two combinations are no matter of data. One or
two tracks give no constant at all. From three on, the T - 2 others are estimated from the units
where the tracks contradict each other, and the two that cannot be are taken as zero: the constants
stay as small as the data allow (inner constraints, Meissl 1969), and up and east refer to the
products' own references.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas
from numpy.typing import NDArray

from plumbline.core.arrays import Float
from plumbline.core.compass import Frames
from plumbline.prepare.response.rigid_body import FREEDOM
from plumbline.prepare.scatterers import Scatterers

LEAST_ANGLE = np.radians(30)
"""Smallest angle between the directions of tracks, seen from the south, that separates up from
east."""
MEAN_WEIGHTED_SQUARE = 0.786
"""Mean square of standard normal values, each with its weight under Student's t
distribution of `FREEDOM` degrees."""
HUBER = 2.0
"""Largest contradiction between tracks, in standard errors, of a unit that counts in full for the
constants."""
ITERATIONS = 12
TINY = 1e-300
WEAK_OFFSET = 1e3
"""Prior standard deviation of a track's constant; only keeps tracks without contradictions
solvable."""


class Decomposition(NamedTuple):
    """Up and east motion of U units, in the unit of the rates."""

    up: Float
    """(U,) NaN where no track sees the unit. Where the tracks cannot separate east, it is taken as
    zero."""
    up_se: Float
    """(U,) standard error; infinite where there is no value."""
    east: Float
    """(U,) NaN where the tracks cannot separate it from up."""
    east_se: Float
    """(U,) standard error; infinite without a value."""
    tracks: NDArray[np.int64]
    """(U,) number of tracks that see the unit."""
    points: NDArray[np.int64]
    """(U,) number of points."""
    offset: Float
    """(T,) constant of each track, taken off its rates."""


class TrackMeans(NamedTuple):
    """Mean of each of U units in each of T tracks."""

    rate: Float
    """(U, T) robust mean along LOS; 0 where the track does not see the unit."""
    weight: Float
    """(U, T) its inverse variance; 0 where the track does not see the unit."""
    los: Float
    """(U, T, 3) mean LOS: east, north, up."""
    points: NDArray[np.int64]
    """(U, T) number of points."""


def track_means(
    unit: NDArray[np.intp],
    track: NDArray[np.intp],
    los: Float,
    *,
    rate: Float,
    rate_se: Float,
    common_se: Float,
    shape: tuple[int, int],
) -> TrackMeans:
    """Return each unit's mean in each track under Student's t errors, with the extra
    variance between its points.

    That variance is estimated by moments (DerSimonian and Laird 1986) of weighted squares. Few
    points determine it poorly: it is widened by (n + 1) / (n - 1), which keeps the intervals of 3
    points honest.

    Args:
        unit: (N,) index of the building or cell, below U. track: (N,) index of the track, below T.
        los: (N, 3) unit vector from ground to satellite: east, north, up.
        rate: (N,) along LOS, in any unit (mm/yr for a table of velocities).
        rate_se: (N,) standard error that the points do not share, above 0.
        common_se: (N,) standard error that the points of a unit in a track share; see `trend`.
        shape: U and T.
    """
    units, tracks = shape
    key, groups = unit * tracks + track, units * tracks

    def total(values: Float) -> Float:
        return np.asarray(np.bincount(key, values, minlength=groups), float)

    count = np.bincount(key, minlength=groups)
    each, beyond_one = np.maximum(count, 1), np.maximum(count - 1, 1)
    stated = total(rate_se**2) / each
    centre, between = grouped_medians(key, rate, groups), np.zeros(groups)
    for _ in range(ITERATIONS):
        variance = rate_se**2 + between[key]
        square = (rate - centre[key]) ** 2
        trust = (FREEDOM + 1) / (FREEDOM + square / variance)
        weight = trust / variance
        centre = total(weight * rate) / np.maximum(total(weight), TINY)
        within = total(trust * square) / (MEAN_WEIGHTED_SQUARE * beyond_one)
        between = np.where(count > 1, np.maximum(within - stated, 0) * (count + 1) / beyond_one, 0)
    # With weights cut at 1, of normal errors, the sum is the inverse variance of the mean, to 1 %.
    precision, common_variance = total(np.minimum(trust, 1) / variance), total(common_se**2) / each
    sight = np.stack([total(weight * los[:, i]) for i in range(3)], axis=-1)
    return TrackMeans(
        rate=centre.reshape(shape),
        weight=(precision / (1 + precision * common_variance)).reshape(shape),
        los=(sight / np.maximum(total(weight), TINY)[:, None]).reshape(*shape, 3),
        points=count.reshape(shape),
    )


def solve_units(means: TrackMeans) -> Decomposition:
    """Solve weighted least squares for up and east of every unit, after subtracting the
    tracks' constants.

    The constants come from all units together, so these should be all of a city, not one
    tile of it.
    """
    offset = _estimate_offsets(means)
    answer, error = _solve_up_east(means, np.where(means.weight > 0, means.rate - offset, 0))
    return Decomposition(
        up=answer[:, 1],
        up_se=error[:, 1],
        east=answer[:, 0],
        east_se=error[:, 0],
        tracks=(means.weight > 0).sum(1),
        points=means.points.sum(1),
        offset=offset,
    )


def grouped_medians(key: NDArray[np.intp], value: Float, groups: int) -> Float:
    """Return the median (groups,) of the values of each key; 0 without values."""
    order = np.lexsort((value, key))
    count = np.bincount(key, minlength=groups)
    first = np.cumsum(count) - count
    filled = np.flatnonzero(count)
    middle = np.zeros(groups)
    low, high = first[filled] + (count[filled] - 1) // 2, first[filled] + count[filled] // 2
    middle[filled] = (value[order[low]] + value[order[high]]) / 2
    return middle


def _sees_both_sides(means: TrackMeans) -> NDArray[np.bool_]:
    """Return (U,) whether the tracks of a unit look from directions far enough apart."""
    present = means.weight > 0
    angle = np.arctan2(means.los[..., 0], means.los[..., 2])
    widest = np.max(np.where(present, angle, -np.inf), axis=1, initial=-np.inf)
    return np.asarray(
        widest - np.min(np.where(present, angle, np.inf), axis=1, initial=np.inf) > LEAST_ANGLE
    )


def _solve_up_east(means: TrackMeans, rate: Float) -> tuple[Float, Float]:
    """Solve for east and up of each unit and their standard errors, (U, 2) each."""
    east, up, weight = means.los[..., 0], means.los[..., 2], means.weight
    ee, eu, uu = ((weight * a * b).sum(1) for a, b in ((east, east), (east, up), (up, up)))
    right_east, right_up = (weight * east * rate).sum(1), (weight * up * rate).sum(1)
    has_both_sides, any_track = _sees_both_sides(means), uu > 0
    determinant = np.where(has_both_sides, ee * uu - eu**2, 1)
    alone = np.where(any_track, uu, 1)
    answer = np.stack(
        [
            np.where(has_both_sides, (uu * right_east - eu * right_up) / determinant, np.nan),
            np.where(
                has_both_sides,
                (ee * right_up - eu * right_east) / determinant,
                np.where(any_track, right_up / alone, np.nan),
            ),
        ],
        axis=1,
    )
    variance = np.stack(
        [
            np.where(has_both_sides, uu / determinant, np.inf),
            np.where(has_both_sides, ee / determinant, np.where(any_track, 1 / alone, np.inf)),
        ],
        axis=1,
    )
    return answer, np.sqrt(variance)


def _estimate_offsets(means: TrackMeans) -> Float:
    """Estimate the constants (T,) of the tracks from units that at least three tracks see;
    see the module."""
    tracks = means.weight.shape[1]
    rows = _sees_both_sides(means) & ((means.weight > 0).sum(1) > 2)
    offset = np.zeros(tracks)
    if tracks < 3 or not rows.any():
        return offset
    weight, rate, design = means.weight[rows], means.rate[rows], means.los[rows][..., [0, 2]]
    weighted = weight[..., None] * design
    # What a unit's own motion cannot explain: W - W L (L' W L)^-1 L' W.
    explained = weighted @ np.linalg.solve(
        design.transpose(0, 2, 1) @ weighted, weighted.transpose(0, 2, 1)
    )
    contradiction = np.eye(tracks) * weight[:, None, :] - explained
    typical = (weighted.sum(0) / np.maximum(weight.sum(0), TINY)[:, None])[weight.sum(0) > 0]
    free = np.zeros((tracks, int((weight.sum(0) > 0).sum()) - 2))
    free[weight.sum(0) > 0] = np.linalg.svd(typical)[0][:, 2:]
    excess = np.maximum((weight > 0).sum(1) - 2, 1)
    trust = np.ones(len(rate))
    for _ in range(ITERATIONS):
        normal = free.T @ np.einsum("u,uij->ij", trust, contradiction) @ free
        right = free.T @ np.einsum("u,uij,uj->i", trust, contradiction, rate)
        offset = free @ np.linalg.solve(normal + np.eye(free.shape[1]) / WEAK_OFFSET**2, right)
        residual = rate - offset
        square = np.einsum("ui,uij,uj->u", residual, contradiction, residual) / excess
        trust = np.minimum(1, HUBER / np.sqrt(np.maximum(square, TINY)))
    return offset


SIDES = ("none", "one", "both")


def building_means(scatterers: Scatterers, frame: Frames, tracks: int) -> TrackMeans:
    """Return the mean LOS velocity (mm/yr) of each building in each of `tracks` tracks.

    Args:
        scatterers: of any of the buildings of `frame`.
        frame: of B buildings.
        tracks: number of tracks of the city.
    """
    building = scatterers.building
    angle = frame.angle[building]
    cos, sin = np.cos(angle), np.sin(angle)
    x, y, up = scatterers.los.T
    los = np.stack([x * cos - y * sin, x * sin + y * cos, up], axis=1)
    return track_means(
        *(building, scatterers.track, los),
        rate=scatterers.velocity,
        rate_se=scatterers.velocity_se,
        common_se=scatterers.common_se,
        shape=(len(frame.angle), tracks),
    )


def motion_table(building_id: NDArray[np.object_], means: TrackMeans) -> pandas.DataFrame:
    """Return a table with one row for each building: velocities in mm/yr with standard
    errors, north taken as zero.

    Columns: `building_id`; `up_mm_yr`, `up_se_mm_yr`, `east_mm_yr`, `east_se_mm_yr`;
    `sides`, from which the building is seen: `both`, `one` (then east is empty and was
    taken as zero for up) or `none`; `tracks`; `points`.
    """
    motion = solve_units(means)
    sides = np.isfinite(motion.up).astype(int) + np.isfinite(motion.east)
    return pandas.DataFrame(
        {
            "building_id": building_id,
            "up_mm_yr": motion.up,
            "up_se_mm_yr": np.where(np.isfinite(motion.up_se), motion.up_se, np.nan),
            "east_mm_yr": motion.east,
            "east_se_mm_yr": np.where(np.isfinite(motion.east_se), motion.east_se, np.nan),
            "sides": np.asarray(SIDES, object)[sides],
            "tracks": motion.tracks,
            "points": motion.points,
        }
    )
