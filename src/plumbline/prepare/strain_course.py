"""Follow the damage of a building through time: how much of it had happened at each epoch.

What has failed, and how its scatterers moved until the last epoch, is the average of all
shapes by their evidence (`shapes`). At each epoch of a track the displacements of its
scatterers are fitted by that pattern beside the rigid motion of the building; the pattern's
amplitude over time is the course of the strain, which is proportional to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plumbline.core.arrays import Float
from plumbline.core.jobs import in_threads, one_blas_thread
from plumbline.prepare.buildings import Prepared
from plumbline.prepare.features.build import recover
from plumbline.prepare.features.definition import GEOMETRY, SLOPE, names
from plumbline.prepare.features.sequences import Sequences
from plumbline.prepare.response.rigid_body import make_systems, rigid_design, shared_products
from plumbline.prepare.response.shapes import damage_pattern
from plumbline.prepare.scatterers import ObservationPeriod, period_overlap, rectangles
from plumbline.prepare.series.beginning import BEGINNINGS, TIME, Clock, Course, CourseEvidence
from plumbline.sources.points.epochs import TREND_EPOCHS
from plumbline.sources.points.track import Track

MIN_SCATTERERS = 3
"""Smallest number of scatterers of a track on a building: fewer determine no more than its rigid
motion."""
MAX_VARIANCE_RATIO = 4.0
"""Largest variance of an epoch's amplitude that counts, as a multiple of the median over epochs."""
LIKELY_TILT, WEAK = 3.0, 1e4
"""Prior standard deviations of tilts, mm/m, and of offsets, mm: these keep undetermined fits
solvable."""
PRIOR = np.array([LIKELY_TILT**-2.0, LIKELY_TILT**-2.0, WEAK**-2.0, 1e-9])
"""Prior inverse variances of two tilts, an offset and the pattern's amplitude."""
BATCH = 128
"""Number of buildings followed at a time, by each thread: bounds the memory."""
CLOCKS = 16
"""Number of clocks in memory, 8 MB each: all epochs of each track, and some sets with missing
values."""
_UP = names(SLOPE).index("differential_displacement")
_SIDES = [names(GEOMETRY).index("side_x"), names(GEOMETRY).index("side_y")]


class StrainCourses(NamedTuple):
    """Courses in time of the strain of M of B buildings; see `Course`."""

    building: NDArray[np.intp]
    """(M,) which of the B buildings of the sequences."""
    begins_MN: Float
    growth_M3: Float
    p_quickens_M: Float
    reached_M3G: Float
    period: NDArray[np.datetime64]
    """(2,) first and last epoch of all tracks: the record that shares refer to."""

    @property
    def years(self) -> float:
        """Length of the record."""
        return ObservationPeriod(*self.period).years


@one_blas_thread()
def strain_courses(
    prepared: Prepared, tracks: list[Track], wanted: NDArray[np.intp]
) -> StrainCourses:
    """Follow the damage of the buildings `wanted` of the sequences, ascending.

    Args:
        prepared: of the buildings. tracks: what they were prepared from. wanted: buildings
            that are damaged.
    """
    # Of all tracks, also those without a point on these buildings: the record of a tile is
    # that of its city.
    whole = period_overlap(tracks, quiet=True)
    period = np.array([whole.start, whole.end])

    @lru_cache(maxsize=CLOCKS)
    def clock(number: int, has_value: bytes) -> Clock:
        return Clock(tracks[number].epochs[np.frombuffer(has_value, bool)], *period)

    def follow(batch: tuple[NDArray[np.intp], NDArray[np.bool_]]) -> dict[int, Course]:
        rows, mask = batch
        evidence = _gather_evidence(prepared, tracks, wanted[rows], mask, clock)
        each = zip(rows.tolist(), evidence.courses(whole.years), strict=True)
        return {row: course for row, course in each if course is not None}

    length = np.diff(prepared.sequences.offsets)[wanted]
    batches = (
        (rectangle.building[start : start + BATCH], rectangle.mask[start : start + BATCH])
        for rectangle in rectangles(np.r_[0, np.cumsum(length)])
        for start in range(0, len(rectangle.building), BATCH)
    )
    courses: dict[int, Course] = {}
    for batch in in_threads(follow, batches):
        courses |= batch
    followed = np.array(sorted(courses), np.intp)
    in_order = [courses[int(b)] for b in followed]
    return StrainCourses(
        wanted[followed],
        np.array([course.begins_N for course in in_order]).reshape(-1, len(BEGINNINGS)),
        np.array([course.growth_3 for course in in_order]).reshape(-1, 3),
        np.array([course.p_quickens for course in in_order], float),
        np.array([course.reached_3G for course in in_order]).reshape(-1, 3, len(TIME)),
        period,
    )


def join_courses(parts: Sequence[StrainCourses], buildings: Sequence[int]) -> StrainCourses:
    """Join the courses of parts of a city, one after the other; `buildings` of each that it
    has sequences of."""
    starts = np.cumsum([0, *buildings])[:-1]
    joined = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in StrainCourses._fields
    }
    joined["building"] = np.concatenate(
        [part.building + start for part, start in zip(parts, starts, strict=True)]
    )
    return StrainCourses(**{**joined, "period": parts[0].period})


def _gather_evidence(
    prepared: Prepared,
    tracks: list[Track],
    buildings: NDArray[np.intp],
    mask: NDArray[np.bool_],
    clock: Callable[[int, bytes], Clock],
) -> CourseEvidence:
    """Return the evidence of the tracks on buildings (b,); their scatterers are padded by
    `mask` (b, P)."""
    sequences = prepared.sequences.take(buildings)
    place = np.minimum(np.arange(mask.shape[1]), sequences.length[:, None] - 1)
    design, variance = _responses(sequences, sequences.offsets[:-1, None] + place, mask)
    row = prepared.sequences.offsets[buildings, None] + place
    evidence = CourseEvidence(len(buildings))
    for number, track in enumerate(tracks):
        of_track = mask & (prepared.track[row] == number)
        rows = np.flatnonzero(of_track.sum(1) >= MIN_SCATTERERS)
        y = track.displacement[np.where(of_track, prepared.point[row], 0)[rows]].astype(float)
        fit = _fit_amplitudes(y, design[rows], (of_track / variance)[rows])
        for is_precise in np.unique(fit.is_precise[fit.is_resolved], axis=0):
            same = np.flatnonzero(fit.is_resolved & (fit.is_precise == is_precise).all(1))
            evidence.add(
                rows[same],
                clock(number, is_precise.tobytes()),
                fit.value[same][:, is_precise],
                fit.variance[same],
            )
    return evidence


def _responses(
    sequences: Sequences, row: NDArray[np.intp], mask: NDArray[np.bool_]
) -> tuple[Float, Float]:
    """Return responses (b, P, 4), mm along LOS, to two tilts, an offset, and all damage
    until the last epoch.

    Beside them the variance (b, P), mm2, of the rest of a scatterer's motion.

    Args:
        sequences: b buildings. row: (b, P) their scatterers there, padded by `mask` (b, P).
    """
    part, shape = recover(sequences).take(row.ravel()), mask.shape
    xy, height, los = (
        part.xy.reshape(*shape, 2),
        part.height.reshape(shape),
        part.los.reshape(*shape, 3),
    )
    residual = sequences.slope[row, _UP].astype(float) * np.maximum(los[..., 2], 0.3)
    side = np.maximum(sequences.geometry[:, _SIDES].astype(float, order="C"), 0.5)
    error, track = part.change_se.reshape(shape), part.track.reshape(shape)
    design = rigid_design(xy, height, los, track)
    pattern, variance = damage_pattern(
        xy, los, residual, error=error, rigid=design, mask=mask, side=side
    )
    rigid = rigid_design(xy, height, los, np.zeros(shape, np.intp))
    return np.concatenate([rigid, pattern[..., None]], axis=2), variance


class _Amplitudes(NamedTuple):
    """Amplitudes of the damage pattern of b buildings."""

    value: Float
    """(b, T) amplitude of the pattern at each epoch."""
    is_precise: NDArray[np.bool_]
    """(b, T) false where too few points have a value for a precise amplitude."""
    variance: Float
    """(b,) of a precise amplitude, for noise of `1 / weight`."""
    is_resolved: NDArray[np.bool_]
    """(b,) false where the points do not separate the pattern from rigid motion, or at too few
    epochs."""


def _fit_amplitudes(y: Float, design: Float, weight: Float) -> _Amplitudes:
    """Fit the pattern beside the rigid motion at each epoch.

    Args:
        y: (b, P, T) mm, NaN where missing. design: (b, P, J) responses to rigid motion,
            then to the pattern.
        weight: (b, P) 1/mm2, 0 for scatterers of other tracks.
    """
    has_value = np.isfinite(y)
    epoch_weight = (has_value * weight[..., None]).transpose(0, 2, 1)
    of_values = (epoch_weight * np.where(has_value, y, 0).transpose(0, 2, 1)) @ design
    columns = design.shape[2]
    systems = make_systems(columns - 1, y.shape[::2])
    systems.shared[:] = (epoch_weight @ shared_products(design)).transpose(2, 0, 1)
    # Each shared column's product with the pattern gives its place to that with the values.
    at_end = np.cumsum(np.arange(columns, 1, -1)) - 1
    systems.last[:-2] = systems.shared[at_end]
    systems.shared[at_end] = of_values[..., :-1].transpose(2, 0, 1)
    systems.last[-2] = of_values[..., -1]
    systems.last[-1] = (epoch_weight @ design[..., -1:] ** 2)[..., 0]
    systems.solve(np.broadcast_to(PRIOR[:, None, None], (columns, *y.shape[::2])))
    value = systems.solution[-1]
    # The last pivot is the inverse variance of the last parameter, marginal over the others.
    variance = 1 / np.maximum(systems.last[-1], WEAK**-2.0)
    median_variance = np.median(variance, axis=1)
    is_precise = variance <= MAX_VARIANCE_RATIO * median_variance[:, None]
    is_resolved = (
        np.isfinite(value).all(1) & (median_variance < WEAK) & (is_precise.sum(1) >= TREND_EPOCHS)
    )
    return _Amplitudes(value, is_precise, median_variance, is_resolved)
