"""Reduce a displacement history to one number with its standard error: how far the scatterer moved.

A straight line would misjudge a movement that began late or has come to rest. Scatterers of one building move
together in time, so each building chooses one curve out of a small dictionary, by what is left of its scatterers'
series after their common movement is taken off; a series then only needs an amplitude for that curve. Before it is
known whose a scatterer is, a robust line has to do (`line_changes`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plumbline.prepare.series.noise import (
    COLUMNS,
    FAR,
    HELD,
    Kinds,
    Rows,
    effective_share,
    kinds_of,
    rows_of,
    trusted,
    typical_variance,
)
from plumbline.prepare.series.temporal_basis import (
    LINE,
    SEASON,
    Basis,
    amplitudes,
    course_basis,
    fit_courses,
    fitted,
    make_basis,
    normal_matrices,
    unknown_courses,
)

Float = NDArray[np.floating[Any]]
CHUNK = 2048
"""Points worked on at a time: few enough for their arrays to stay in the processor's cache."""
NEEDED_GAIN = 9.0
"""A bent curve must explain the building's series better than the line by this much in chi-square."""
MOST_GAIN = 8.0
"""And no series says more than this, in chi-square, against a curve."""
MIN_COMMON = 3
"""From so many scatterers of a track on a building their mean stands for the common movement."""
LEAST_KNOWN = 0.5
"""Share of the epochs that a series must have to count in that mean."""
LEAST_YEARS = 1.0
"""Over less, the annual term takes the line along, and a curve that it does not take would win by that alone."""
LEAST_ERROR = 0.05
"""mm; no change is known better."""


class Trend(NamedTuple):
    """Change of each point over the observation period, mm.

    Standard errors are of what a point does not share with its building, but for `common_se`.
    """

    change: Float
    """From the first to the last epoch along the curve that the building chose."""
    change_se: Float
    curve: NDArray[np.intp]
    """The chosen curve."""
    line: Float
    """Along a straight line: divided by the length of the period, the mean velocity."""
    line_se: Float
    common_se: Float
    """Of what the points of a building share in this track: the same error is in the `line` of each."""
    course: Float
    """(N, K) see `Courses`; NaN where the time is too short for any curve but the line."""
    course_root: Float
    """(N, K, K)"""


def estimate_trend(displacement: NDArray[np.float32], when: Float, years: float, building: NDArray[np.intp]) -> Trend:
    """Estimate the robust amplitude of a dictionary curve with offset and annual term, for each point.

    Args:
        displacement: (N, T) mm, NaN where missing; rows of one building together.
        when: (T,) epochs as a share of the observation period, 0 to 1.
        years: length of the observation period.
        building: (N,) ascending index of each row's building.

    Returns:
        (N,) arrays. Standard errors count how the noise hangs together in time; see `noise`.
    """
    count = len(displacement)
    change, change_se, line, line_se, common_se = np.zeros((5, count))
    trend = Trend(change, change_se, np.zeros(count, dtype=np.intp), line, line_se, common_se, *unknown_courses(count))
    basis = make_basis(when, years)
    kinds = kinds_of(basis.columns[: SEASON + 1], when)
    bends = bool(np.ptp(when) * years >= LEAST_YEARS) if len(when) else False
    shapes = course_basis(basis, when) if bends else None
    for rows in _chunks(building):
        for whole, part in zip(
            trend, _estimate(displacement[rows], basis, kinds, building[rows], shapes, when), strict=True
        ):
            whole[rows] = part
    return trend


def _chunks(building: NDArray[np.intp]) -> list[slice]:
    """Return slices of about `CHUNK` rows that never split a building."""
    starts = np.flatnonzero(np.r_[True, np.diff(building) > 0]) if len(building) else np.zeros(0, dtype=int)
    cuts = [0]
    for start in starts:
        if start - cuts[-1] >= CHUNK:
            cuts.append(int(start))
    return [slice(a, b) for a, b in zip(cuts, [*cuts[1:], len(building)], strict=True) if b > a]


def _estimate(
    series: NDArray[np.float32],
    basis: Basis,
    kinds: Kinds,
    building: NDArray[np.intp],
    shapes: Basis | None,
    when: Float,
) -> Trend:
    """Estimate the trend of a chunk of series; `shapes` are None if only the line is needed."""
    known = np.isfinite(series)
    y = np.where(known, series, 0).astype(float)
    rows = rows_of(building)
    count = np.maximum(known.sum(1) - COLUMNS, 1)
    plain = known.astype(float)
    plain_normal = normal_matrices(basis, plain)
    level = amplitudes(basis, plain_normal, y, y)

    chosen, variance = np.zeros(len(y), dtype=np.intp), level.left[:, LINE] / count
    for turn in range(2):  # what counts as a gap's filling and as an outlier depends on the curve
        whole = (known.mean(1) >= LEAST_KNOWN) & (variance <= FAR * typical_variance(variance, rows))
        common, members = _common(np.where(known, y, fitted(basis, plain_normal, level, chosen)), whole, rows)
        own = (y - rows.spread(common)) * plain
        weight, normal = plain, plain_normal
        for _ in range(2):
            found = amplitudes(basis, normal, weight * own, own)
            weight = trusted((own - fitted(basis, normal, found, chosen)) * plain, known)
            if shapes is not None and not turn:
                # A movement of the last few epochs is no outlier, though it is far from the line.
                likely = rows.spread(_badness(found.left, variance, np.ones_like(variance), rows).argmin(1))
                weight = np.maximum(weight, trusted((own - fitted(basis, normal, found, likely)) * plain, known))
            normal = normal_matrices(basis, weight)
        total = weight.sum(1)
        found = amplitudes(basis, normal, weight * own, own)
        # A mean over m series holds a share 1/m of each one's noise: what is left has that much less of it.
        lost = whole / np.maximum(rows.spread(members), 2) * (rows.spread(members) > 0)
        left = found.left / (HELD * np.maximum(total - COLUMNS, 1) * (1 - lost))[:, None]
        variance = left.min(1)
        if shapes is not None:
            # Noise is what the best curve leaves: what the line leaves of another movement would pass for slow noise.
            best = rows.spread(_badness(found.left, variance, np.ones_like(variance), rows).argmin(1))
            residual = (own - fitted(basis, normal, found, best)) * plain
            effective = effective_share(residual, weight, variance, rows, kinds)
            chosen = rows.spread(_choose(_badness(found.left, variance, effective, rows)))

    residual = (own - fitted(basis, normal, found, chosen)) * plain
    effective = effective_share(residual, weight, variance, rows, kinds)
    error = np.maximum(np.sqrt(left / effective[:, None] / normal.own), LEAST_ERROR)
    amplitude = amplitudes(basis, normal, weight * y, y).amplitude
    row = np.arange(len(y))
    common_error = _common_error(basis, kinds, common, members, known, error[:, LINE], rows, shapes, when)
    noise = error[row, chosen] ** 2 * normal.own[row, chosen]
    courses = unknown_courses(len(y)) if shapes is None else fit_courses(shapes, y, known, weight, noise)
    return Trend(
        amplitude[row, chosen],
        error[row, chosen],
        chosen,
        amplitude[:, LINE],
        error[:, LINE],
        rows.spread(common_error),
        *courses,
    )


def _common(filled: Float, whole: NDArray[np.bool_], rows: Rows) -> tuple[Float, NDArray[np.intp]]:
    """Return the mean series (G, T) of each building, and its number of series; 0 and 0 for too few.

    Gaps are filled with the series' own fit: otherwise the mean would jump with each gap, because series differ in
    level and speed. Series that are not `whole` (N,) are left out: mostly gaps, whose fit would be a guess, or off.
    """
    members = np.asarray(rows.total(whole.astype(np.intp)), np.intp)
    members[members < MIN_COMMON] = 0
    total = rows.total(filled * whole[:, None])
    return np.where(members[:, None] > 0, total / np.maximum(members, 1)[:, None], 0), members


def _badness(left: Float, variance: Float, effective: Float, rows: Rows) -> Float:
    """Return the chi-square (G, K) of each building's series on each curve, above that of each series' best curve.

    No series says more than `MOST_GAIN`: one that jumps by an unwrapping error looks much like one that moves late.
    """
    scale = np.maximum(variance, typical_variance(variance, rows)) + 1e-12
    chi_square = (left - left.min(1)[:, None]) * (effective / scale)[:, None]
    return rows.total(np.minimum(chi_square, MOST_GAIN))


def _choose(badness: Float) -> NDArray[np.intp]:
    """Choose the curve (G,) that fits a building's series best; the line, unless another is clearly better."""
    best: NDArray[np.intp] = np.argmin(badness, axis=1)
    best[badness[:, LINE] - badness.min(1) < NEEDED_GAIN] = LINE
    return best


def _common_error(
    basis: Basis,
    kinds: Kinds,
    common: Float,
    members: NDArray[np.intp],
    known: NDArray[np.bool_],
    error: Float,
    rows: Rows,
    shapes: Basis | None,
    when: Float,
) -> Float:
    """Return the standard error (G,) of the common series' line, mm, beyond the share of the rows' own errors (N,).

    What the line leaves of another movement is no noise: where the shapes of courses explain clearly more of it, noise
    is what they leave. Where there is no common series the rows' errors hold what they share: then they count as one
    row, not as many.
    """
    # Filled gaps hold no noise, so what is seen of it is the less the more gaps there are.
    share = rows.total(known.mean(1)) / rows.size
    alone, line = rows_of(np.arange(len(common))), normal_matrices(basis, np.ones((1, common.shape[1]))).own[:, LINE]

    def noise(columns: Float, kinds: Kinds) -> tuple[Float, Float, Float]:
        residual = common - common @ np.linalg.pinv(columns) @ columns
        effective = effective_share(residual, np.ones_like(common), np.ones(len(common)), alone, kinds)
        left = (residual**2).sum(1)
        degrees = np.maximum(common.shape[1] * share - len(columns), 1) * share
        return left, left / degrees / effective / line, degrees * effective / np.maximum(left, 1e-12)

    left, variance, _ = noise(basis.columns[: SEASON + 1], kinds)
    if shapes is not None:
        # With the line last, as `Kinds` has it.
        columns = np.roll(shapes.columns, -1 - SEASON, axis=0)
        less, bent, weight = noise(columns, kinds_of(columns, when))
        clear = (left - less) * weight > NEEDED_GAIN + len(columns) - COLUMNS
        variance = np.where(clear, bent, variance)
    own = rows.total(error**2) / rows.size
    beyond = np.where(members > 0, variance - own / np.maximum(members, 1), own * (1 - 1 / rows.size))
    return np.asarray(np.sqrt(np.maximum(beyond, 0)))


LINE_CHUNK = 2048
"""Series worked on at a time: few enough for their arrays to stay in the processor's cache."""
LEAST_LINE_ERROR = 0.2
"""mm; no line of one series is known better."""


def line_changes(displacement: NDArray[np.float32], when: Float, years: float) -> tuple[Float, Float]:
    """Return the change (N,) over the observation period along a line, and its standard error for white noise, mm.

    Other than `estimate_trend`, it asks nothing of a series' building, so that it can be asked before that is known.

    Args:
        displacement: (N, T) mm, NaN where missing; `COLUMNS` values a series and more.
        when: (T,) epochs as a share of the observation period, 0 to 1.
        years: length of the observation period.
    """
    basis, parts = make_basis(when, years), [np.zeros((2, 0))]
    for start in range(0, len(displacement), LINE_CHUNK):
        series = displacement[start : start + LINE_CHUNK]
        known = np.isfinite(series)
        y, weight = np.where(known, series, 0).astype(float), known.astype(float)
        line = np.full(len(y), LINE, np.intp)
        for turn in range(3):
            normal = normal_matrices(basis, weight)
            found = amplitudes(basis, normal, weight * y, y)
            residual = (y - fitted(basis, normal, found, line)) * known
            if turn < 2:
                weight = trusted(residual, known)
        variance = (weight * residual**2).sum(1) / np.maximum(weight.sum(1) - COLUMNS, 1)
        error = np.sqrt(variance / normal.own[:, LINE])
        parts.append(np.stack([found.amplitude[:, LINE], np.maximum(error, LEAST_LINE_ERROR)]))
    change, error = np.concatenate(parts, axis=1)
    return change, error
