"""Follow the damage of a building through time: how much of it had happened at each epoch.

What has failed, and how its scatterers moved until the last epoch, is the average of all shapes by their evidence
(`shapes`). At each epoch of a track the displacements of its scatterers are fitted by that pattern beside the rigid
motion of the building; the pattern's amplitude over time is the course of the strain, which is proportional to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plumbline.core.jobs import one_blas_thread
from plumbline.prepare.buildings import Prepared
from plumbline.prepare.features.build import recover
from plumbline.prepare.features.definition import GEOMETRY, SLOPE, names
from plumbline.prepare.features.sequences import Sequences
from plumbline.prepare.response.rigid_body import rigid_design
from plumbline.prepare.response.shapes import damage_pattern
from plumbline.prepare.scatterers import Scatterers, period_overlap, rectangles
from plumbline.prepare.series.beginning import BEGINNINGS, TIME, Clock, Course, Series, tell
from plumbline.sources.points.epochs import TREND_EPOCHS
from plumbline.sources.points.track import Track

Float = NDArray[np.floating[Any]]
FEWEST = 3
"""Scatterers of a track on a building; with fewer its rigid motion is all that they tell."""
TIMES = 4.0
"""An epoch counts whose amplitude is known with at most so many times the usual variance."""
LIKELY_TILT, WEAK = 3.0, 1e4
"""mm/m and mm: keeps undetermined fits of an epoch solvable."""
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
        return float((self.period[1] - self.period[0]) / np.timedelta64(1, "D")) / 365.25


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

    years = float((period[1] - period[0]) / np.timedelta64(1, "D")) / 365.25
    offsets = prepared.sequences.offsets
    length = np.diff(offsets)[wanted]
    found: dict[int, Course] = {}
    for rectangle in rectangles(np.r_[0, np.cumsum(length)]):
        sequences = prepared.sequences.take(wanted[rectangle.building])
        rows = offsets[wanted[rectangle.building], None] + np.arange(rectangle.mask.shape[1])
        track, point = prepared.track[rows[rectangle.mask]], prepared.point[rows[rectangle.mask]]
        scatterers = recover(sequences)
        pattern = _patterns(sequences, scatterers, rectangle.mask)
        for place, building in enumerate(rectangle.building):
            own = rectangle.mask[place]
            at = np.arange(*sequences.offsets[[place, place + 1]])
            series = []
            for number in np.unique(track[at]):
                of = track[at] == number
                if of.sum() >= FEWEST:
                    y = tracks[number].displacement[point[at[of]]].astype(float)
                    weight = pattern.weight[place][own][of]
                    seen = _amplitudes(y, scatterers.take(at[of]), pattern.displacement[place][own][of], weight)
                    if seen is None:
                        continue
                    own_clock = clock(int(number), seen.known.tobytes())
                    series.append(Series(own_clock, seen.value[seen.known], seen.variance))
            if series and (course := tell(series, years)) is not None:
                found[int(building)] = course
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


class _Pattern(NamedTuple):
    displacement: Float
    """(b, P) mm along LOS, of damage until the last epoch."""
    weight: Float
    """(b, P) 1/mm2, how far each scatterer counts."""


def _patterns(sequences: Sequences, scatterers: Scatterers, mask: NDArray[np.bool_]) -> _Pattern:
    """Return the pattern of damage of b buildings; their scatterers are padded by `mask` (b, P)."""
    row = sequences.offsets[:-1, None] + np.minimum(np.arange(mask.shape[1]), sequences.length[:, None] - 1)
    residual = sequences.slope[:, _UP].astype(float) * np.maximum(scatterers.los[:, 2], 0.3)
    part, shape = scatterers.take(row.ravel()), mask.shape
    pattern, variance = damage_pattern(
        part.xy.reshape(*shape, 2),
        part.height.reshape(shape),
        part.los.reshape(*shape, 3),
        residual[row],
        part.change_se.reshape(shape),
        part.track.reshape(shape),
        mask,
        np.maximum(sequences.geometry[:, _SIDES].astype(float, order="C"), 0.5),
    )
    return _Pattern(pattern, 1 / variance)


class _Amplitudes(NamedTuple):
    value: Float
    """(T,) amplitude of the pattern at each epoch."""
    known: NDArray[np.bool_]
    """(T,) false where so few points have a value that they hardly tell it."""
    variance: float
    """Of a known one, for noise of `1 / weight`."""


def _amplitudes(y: Float, scatterers: Scatterers, pattern: Float, weight: Float) -> _Amplitudes | None:
    """Fit the pattern beside the rigid motion at each epoch.

    None where the points of the track do not tell the pattern from rigid motion, or at too few epochs.

    Args:
        y: (P, T) mm, NaN where missing. scatterers: P. pattern, weight: (P,).
    """
    one_track = np.zeros((1, len(y)), int)
    rigid = rigid_design(scatterers.xy[None], scatterers.height[None], scatterers.los[None], one_track)[0]
    design = np.column_stack([rigid, pattern])
    known = np.isfinite(y) * weight[:, None]
    normal = np.einsum("pt,pi,pj->tij", known, design, design)
    at = np.arange(design.shape[1])
    normal[:, at, at] += np.r_[LIKELY_TILT**-2.0, LIKELY_TILT**-2.0, WEAK**-2.0, 1e-9]
    right = np.einsum("pt,pi,pt->ti", known, design, np.where(np.isfinite(y), y, 0))
    inverse = np.linalg.inv(normal)
    variance = inverse[:, -1, -1]
    usual = float(np.median(variance))
    known_T = variance <= TIMES * usual
    value = (inverse @ right[..., None])[:, -1, 0]
    if not np.isfinite(value).all() or usual >= WEAK or known_T.sum() < TREND_EPOCHS:
        return None
    return _Amplitudes(value, known_T, usual)
