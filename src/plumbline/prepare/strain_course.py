"""Follow the damage of a building through time: how much of it had happened at each epoch.

What has failed, and how its scatterers moved until the last epoch, is the average of all shapes by their evidence
(`shapes`). At each epoch of a track the displacements of its scatterers are fitted by that pattern beside the rigid
motion of the building; the pattern's amplitude over time is the course of the strain, which is proportional to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plumbline.core.jobs import one_blas_thread
from plumbline.prepare.buildings import Prepared
from plumbline.prepare.features.build import recover
from plumbline.prepare.features.definition import GEOMETRY, SLOPE, names
from plumbline.prepare.features.sequences import Sequences
from plumbline.prepare.response.rigid_body import rigid_design, solve_systems
from plumbline.prepare.response.shapes import damage_pattern
from plumbline.prepare.scatterers import Period, period_overlap, rectangles
from plumbline.prepare.series.beginning import BEGINNINGS, TIME, Clock, Course, Evidence
from plumbline.sources.points.epochs import TREND_EPOCHS
from plumbline.sources.points.track import Track

Float = NDArray[np.floating[Any]]
FEWEST = 3
"""Scatterers of a track on a building; with fewer its rigid motion is all that they tell."""
TIMES = 4.0
"""An epoch counts whose amplitude is known with at most so many times the usual variance."""
LIKELY_TILT, WEAK = 3.0, 1e4
"""mm/m and mm: keeps undetermined fits of an epoch solvable."""
PRIOR = np.array([LIKELY_TILT**-2.0, LIKELY_TILT**-2.0, WEAK**-2.0, 1e-9])
"""Inverse variances before looking: of two tilts, an offset and the pattern."""
TOGETHER = 256
"""Buildings followed at a time: bounds the memory."""
CLOCKS = 16
"""Sets of epochs kept ready, 8 MB each: all epochs of each track, and some of those with missing values."""
_UP = names(SLOPE).index("differential_displacement")
_SIDES = [names(GEOMETRY).index("side_x"), names(GEOMETRY).index("side_y")]


class StrainCourses(NamedTuple):
    """What is known of the strain of M of B buildings in time; see `Course`."""

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
        return Period(*self.period).years


@one_blas_thread()
def strain_courses(prepared: Prepared, tracks: list[Track], wanted: NDArray[np.intp]) -> StrainCourses:
    """Follow the damage of the buildings `wanted` of the sequences, ascending.

    Args:
        prepared: of the buildings. tracks: what they were prepared from. wanted: buildings that are damaged.
    """
    # Of all tracks, also those without a point on these buildings: the record of a tile is that of its city.
    whole = period_overlap(tracks, quiet=True)
    period = np.array([whole.start, whole.end])

    @lru_cache(maxsize=CLOCKS)
    def clock(number: int, known: bytes) -> Clock:
        return Clock(tracks[number].epochs[np.frombuffer(known, bool)], *period)

    length = np.diff(prepared.sequences.offsets)[wanted]
    found: dict[int, Course] = {}
    for rectangle in rectangles(np.r_[0, np.cumsum(length)]):
        for start in range(0, len(rectangle.building), TOGETHER):
            at = slice(start, start + TOGETHER)
            own = rectangle.building[at]
            courses = _follow(prepared, tracks, wanted[own], rectangle.mask[at], clock).courses(whole.years)
            found |= {b: course for b, course in zip(own.tolist(), courses, strict=True) if course is not None}
    told = np.array(sorted(found), np.intp)
    each = [found[int(b)] for b in told]
    return StrainCourses(
        wanted[told],
        np.array([one.begins_N for one in each]).reshape(-1, len(BEGINNINGS)),
        np.array([one.growth_3 for one in each]).reshape(-1, 3),
        np.array([one.p_quickens for one in each], float),
        np.array([one.reached_3G for one in each]).reshape(-1, 3, len(TIME)),
        period,
    )


def join_courses(parts: Sequence[StrainCourses], buildings: Sequence[int]) -> StrainCourses:
    """Join the courses of parts of a city, one after the other; `buildings` of each that it has sequences of."""
    starts = np.cumsum([0, *buildings])[:-1]
    joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in StrainCourses._fields}
    joined["building"] = np.concatenate([part.building + start for part, start in zip(parts, starts, strict=True)])
    return StrainCourses(**{**joined, "period": parts[0].period})


def _follow(
    prepared: Prepared,
    tracks: list[Track],
    buildings: NDArray[np.intp],
    mask: NDArray[np.bool_],
    clock: Callable[[int, bytes], Clock],
) -> Evidence:
    """Return the evidence of the tracks on buildings (b,); their scatterers are padded by `mask` (b, P)."""
    sequences = prepared.sequences.take(buildings)
    place = np.minimum(np.arange(mask.shape[1]), sequences.length[:, None] - 1)
    design, variance = _responses(sequences, sequences.offsets[:-1, None] + place, mask)
    row = prepared.sequences.offsets[buildings, None] + place
    found = Evidence(len(buildings))
    for number, one in enumerate(tracks):
        own = mask & (prepared.track[row] == number)
        rows = np.flatnonzero(own.sum(1) >= FEWEST)
        y = one.displacement[np.where(own, prepared.point[row], 0)[rows]].astype(float)
        seen = _amplitudes(y, design[rows], (own / variance)[rows])
        for known in np.unique(seen.known[seen.told], axis=0):
            same = np.flatnonzero(seen.told & (seen.known == known).all(1))
            found.add(rows[same], clock(number, known.tobytes()), seen.value[same][:, known], seen.variance[same])
    return found


def _responses(sequences: Sequences, row: NDArray[np.intp], mask: NDArray[np.bool_]) -> tuple[Float, Float]:
    """Return responses (b, P, 4), mm along LOS, to two tilts, an offset, and all damage until the last epoch.

    And the variance (b, P), mm2, of what a scatterer does otherwise.

    Args:
        sequences: b buildings. row: (b, P) their scatterers there, padded by `mask` (b, P).
    """
    part, shape = recover(sequences).take(row.ravel()), mask.shape
    xy, height, los = part.xy.reshape(*shape, 2), part.height.reshape(shape), part.los.reshape(*shape, 3)
    residual = sequences.slope[row, _UP].astype(float) * np.maximum(los[..., 2], 0.3)
    side = np.maximum(sequences.geometry[:, _SIDES].astype(float, order="C"), 0.5)
    error, track = part.change_se.reshape(shape), part.track.reshape(shape)
    pattern, variance = damage_pattern(xy, height, los, residual, error, track, mask, side)
    rigid = rigid_design(xy, height, los, np.zeros(shape, np.intp))
    return np.concatenate([rigid, pattern[..., None]], axis=2), variance


class _Amplitudes(NamedTuple):
    value: Float
    """(b, T) amplitude of the pattern at each epoch."""
    known: NDArray[np.bool_]
    """(b, T) false where so few points have a value that they hardly tell it."""
    variance: Float
    """(b,) of a known one, for noise of `1 / weight`."""
    told: NDArray[np.bool_]
    """(b,) false where the points do not tell the pattern from rigid motion, or at too few epochs."""


def _amplitudes(y: Float, design: Float, weight: Float) -> _Amplitudes:
    """Fit the pattern beside the rigid motion at each epoch.

    Args:
        y: (b, P, T) mm, NaN where missing. design: (b, P, J) responses to rigid motion, then to the pattern.
        weight: (b, P) 1/mm2, 0 for scatterers of other tracks.
    """
    columns, epochs = design.shape[2], y.shape[::2]
    seen = np.isfinite(y)
    known = (seen * weight[..., None]).transpose(0, 2, 1)
    pairs = (design[..., :, None] * design[..., None, :]).reshape(*design.shape[:2], columns**2)
    system = np.empty((columns, columns + 1, *epochs))
    system[:, :-1] = (known @ pairs).reshape(*epochs, columns, columns).transpose(2, 3, 0, 1)
    system[:, -1] = ((known * np.where(seen, y, 0).transpose(0, 2, 1)) @ design).transpose(2, 0, 1)
    system[np.arange(columns), np.arange(columns)] += PRIOR[:, None, None]
    value = np.empty((columns, *epochs))
    solve_systems(system, np.empty((columns - 1, columns, *epochs)), value)
    # The last pivot is the inverse variance of the last parameter, whatever the others are.
    variance = 1 / np.maximum(system[-1, -2], WEAK**-2.0)
    usual = np.median(variance, axis=1)
    known_T = variance <= TIMES * usual[:, None]
    told = np.isfinite(value[-1]).all(1) & (usual < WEAK) & (known_T.sum(1) >= TREND_EPOCHS)
    return _Amplitudes(value[-1], known_T, usual, told)
