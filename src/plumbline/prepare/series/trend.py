"""Reduce a displacement history to one number with its standard error: how far the scatterer moved.

A straight line would misjudge a movement that began late or has come to rest. Scatterers of one
building move together in time, so each building chooses one curve out of a small dictionary, by its
scatterers' series without their common movement; a series then only needs an amplitude for that
curve. Before scatterers are assigned to buildings, a robust line is fitted (`line_changes`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plumbline.core.arrays import Float
from plumbline.prepare.series.noise import (
    COLUMNS,
    MAX_NOISE_RATIO,
    RESIDUAL_RATIO,
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

CHUNK = 2048
"""Number of points in a block: few enough for their arrays to stay in the processor's cache."""
NEEDED_GAIN = 9.0
"""Smallest gain in chi-square over the line with which a bent curve is chosen for a building's
series."""
MAX_GAIN = 8.0
"""Largest chi-square that one series counts against a curve."""
MIN_COMMON = 3
"""Smallest number of scatterers of a track on a building whose mean is taken as the common
movement."""
MIN_FINITE_SHARE = 0.5
"""Smallest share of epochs with a value in a series that counts in that mean."""
LEAST_YEARS = 1.0
"""Shortest record, years, in which curves compete: over less, the annual term fits a part of the
line, and a curve that it does not fit would win by that alone."""
LEAST_ERROR = 0.05
"""Smallest standard error of a change, mm."""


class Trend(NamedTuple):
    """Change of each point over the observation period, mm.

    Standard errors are without the error that a point shares with its building, but for
    `common_se`.
    """

    change: Float
    """Displacement from the first to the last epoch along the curve that the building chose."""
    change_se: Float
    curve: NDArray[np.intp]
    """The chosen curve."""
    line: Float
    """Displacement along a straight line: divided by the length of the period, the mean
    velocity."""
    line_se: Float
    common_se: Float
    """Standard error that the points of a building share in this track: it is the same in the
    `line` of each."""
    course: Float
    """(N, K) see `Courses`; NaN where the time is too short for any curve but the line."""
    course_root: Float
    """(N, K, K)"""


def estimate_trend(
    displacement: NDArray[np.float32], when: Float, years: float, building: NDArray[np.intp]
) -> Trend:
    """Estimate the robust amplitude of a dictionary curve with offset and annual term, for
    each point.

    Args:
        displacement: (N, T) mm, NaN where missing; rows of one building together.
        when: (T,) epochs as a share of the observation period, 0 to 1.
        years: length of the observation period.
        building: (N,) ascending index of each row's building.

    Returns:
        (N,) arrays. Standard errors include the correlation of the noise in time; see `noise`.
    """
    count = len(displacement)
    change, change_se, line, line_se, common_se = np.zeros((5, count))
    trend = Trend(
        change,
        change_se,
        np.zeros(count, dtype=np.intp),
        line,
        line_se,
        common_se,
        *unknown_courses(count),
    )
    basis = make_basis(when, years)
    kinds = kinds_of(basis.columns[: SEASON + 1], when)
    bends = bool(np.ptp(when) * years >= LEAST_YEARS) if len(when) else False
    shapes = course_basis(basis, when) if bends else None
    for rows in _chunks(building):
        for whole, part in zip(
            trend,
            _estimate(
                displacement[rows],
                basis,
                kinds=kinds,
                building=building[rows],
                shapes=shapes,
                when=when,
            ),
            strict=True,
        ):
            whole[rows] = part
    return trend


def _chunks(building: NDArray[np.intp]) -> list[slice]:
    """Return slices of about `CHUNK` rows that never split a building."""
    starts = (
        np.flatnonzero(np.r_[True, np.diff(building) > 0])
        if len(building)
        else np.zeros(0, dtype=int)
    )
    cuts = [0]
    for start in starts:
        if start - cuts[-1] >= CHUNK:
            cuts.append(int(start))
    return [slice(a, b) for a, b in zip(cuts, [*cuts[1:], len(building)], strict=True) if b > a]


def _estimate(
    series: NDArray[np.float32],
    basis: Basis,
    *,
    kinds: Kinds,
    building: NDArray[np.intp],
    shapes: Basis | None,
    when: Float,
) -> Trend:
    """Estimate the trend of a chunk of series; `shapes` are None if only the line is needed."""
    is_finite = np.isfinite(series)
    y, plain = np.where(is_finite, series, 0).astype(float), is_finite.astype(float)
    has_gaps = not is_finite.all()

    def cut_gaps(values: Float) -> Float:
        return values * plain if has_gaps else values

    rows = rows_of(building)
    count = np.maximum(is_finite.sum(1) - COLUMNS, 1)
    plain_normal = normal_matrices(basis, plain)
    level = amplitudes(basis, plain_normal, y, y)

    chosen, variance = np.zeros(len(y), dtype=np.intp), level.residual_square[:, LINE] / count
    for turn in range(2):  # filled gaps and outliers depend on the curve
        is_typical = (is_finite.mean(1) >= MIN_FINITE_SHARE) & (
            variance <= MAX_NOISE_RATIO * typical_variance(variance, rows)
        )
        filled = y
        if has_gaps:
            filled = np.where(is_finite, y, fitted(basis, plain_normal, level, chosen))
        common, members = _mean_series(filled, is_typical, rows)
        differential = cut_gaps(y - rows.spread(common))
        weight, normal = plain, plain_normal
        for _ in range(2):
            fit = amplitudes(basis, normal, weight * differential, differential)
            weight = trusted(cut_gaps(differential - fitted(basis, normal, fit, chosen)), is_finite)
            if shapes is not None and not turn:
                # A movement of the last few epochs is no outlier, though it is far from the line.
                likely_curve = rows.spread(
                    _excess_chi_square(
                        fit.residual_square, variance, np.ones_like(variance), rows
                    ).argmin(1)
                )
                weight = np.maximum(
                    weight,
                    trusted(
                        cut_gaps(differential - fitted(basis, normal, fit, likely_curve)), is_finite
                    ),
                )
            normal = normal_matrices(basis, weight)
        total = weight.sum(1)
        fit = amplitudes(basis, normal, weight * differential, differential)
        # A mean over m series contains a share 1/m of the noise of each: the differential series
        # has that much less of it.
        mean_share = is_typical / np.maximum(rows.spread(members), 2) * (rows.spread(members) > 0)
        residual_variance = (
            fit.residual_square
            / (RESIDUAL_RATIO * np.maximum(total - COLUMNS, 1) * (1 - mean_share))[:, None]
        )
        variance = residual_variance.min(1)
        if shapes is not None:
            # Noise is the residual of the best curve: the line's residual of another movement would
            # pass for slow noise.
            best_curve = rows.spread(
                _excess_chi_square(
                    fit.residual_square, variance, np.ones_like(variance), rows
                ).argmin(1)
            )
            residual = cut_gaps(differential - fitted(basis, normal, fit, best_curve))
            effective = effective_share(residual, weight, variance, rows, kinds)
            chosen = rows.spread(
                _choose_curve(_excess_chi_square(fit.residual_square, variance, effective, rows))
            )

    residual = cut_gaps(differential - fitted(basis, normal, fit, chosen))
    effective = effective_share(residual, weight, variance, rows, kinds)
    error = np.maximum(
        np.sqrt(residual_variance / effective[:, None] / normal.curve_pivot), LEAST_ERROR
    )
    amplitude = amplitudes(basis, normal, weight * y, y).amplitude
    row = np.arange(len(y))
    common_error = _common_error(
        basis,
        kinds=kinds,
        common=common,
        members=members,
        is_finite=is_finite,
        error=error[:, LINE],
        rows=rows,
        shapes=shapes,
        when=when,
    )
    noise = error[row, chosen] ** 2 * normal.curve_pivot[row, chosen]
    courses = (
        unknown_courses(len(y))
        if shapes is None
        else fit_courses(shapes, y, is_finite, weight, noise)
    )
    return Trend(
        amplitude[row, chosen],
        error[row, chosen],
        chosen,
        amplitude[:, LINE],
        error[:, LINE],
        rows.spread(common_error),
        *courses,
    )


def _mean_series(
    filled: Float, is_typical: NDArray[np.bool_], rows: Rows
) -> tuple[Float, NDArray[np.intp]]:
    """Return the mean series (G, T) of each building, and its number of series; 0 and 0 for
    too few.

    Gaps are filled with the series' own fit: otherwise the mean would jump with each gap, because
    series differ in level and speed. Series that are not typical (N,) are left out: their noise is
    too large, or gaps prevail, where the fit would be a guess.
    """
    members = np.asarray(rows.total(is_typical.astype(np.intp)), np.intp)
    members[members < MIN_COMMON] = 0
    share = (is_typical / rows.spread(np.maximum(members, 1))).astype(filled.dtype)
    mean = rows.total(filled * share[:, None])
    mean[members == 0] = 0
    return mean, members


def _excess_chi_square(
    residual_square: Float, variance: Float, effective: Float, rows: Rows
) -> Float:
    """Return the chi-square (G, K) of each building's series on each curve, above that of
    each series' best curve.

    Each series counts up to `MAX_GAIN`: one that jumps by an unwrapping error looks much like one
    that moves late.
    """
    scale = np.maximum(variance, typical_variance(variance, rows)) + 1e-12
    chi_square = (residual_square - residual_square.min(1)[:, None]) * (effective / scale)[:, None]
    return rows.total(np.minimum(chi_square, MAX_GAIN))


def _choose_curve(excess: Float) -> NDArray[np.intp]:
    """Choose the curve (G,) that fits a building's series best; the line, unless another is
    clearly better."""
    best: NDArray[np.intp] = np.argmin(excess, axis=1)
    best[excess[:, LINE] - excess.min(1) < NEEDED_GAIN] = LINE
    return best


def _common_error(
    basis: Basis,
    *,
    kinds: Kinds,
    common: Float,
    members: NDArray[np.intp],
    is_finite: NDArray[np.bool_],
    error: Float,
    rows: Rows,
    shapes: Basis | None,
    when: Float,
) -> Float:
    """Return the standard error (G,) of the common series' line, mm, beyond the share of
    the rows' own errors (N,).

    The line's residual of another movement is no noise: where the shapes of courses explain clearly
    more of it, noise is their residual. Without a common series the rows' errors contain what they
    share: then they count as one row.
    """
    # Filled gaps have no noise, so the common series shows less of it the more gaps there are.
    share = rows.total(is_finite.mean(1)) / rows.size
    each_building, line = (
        rows_of(np.arange(len(common))),
        normal_matrices(basis, np.ones((1, common.shape[1]))).curve_pivot[:, LINE],
    )

    def noise(columns: Float, kinds: Kinds) -> tuple[Float, Float, Float]:
        residual = common - common @ np.linalg.pinv(columns) @ columns
        effective = effective_share(
            residual, np.ones_like(common), np.ones(len(common)), each_building, kinds
        )
        residual_square = (residual**2).sum(1)
        degrees = np.maximum(common.shape[1] * share - len(columns), 1) * share
        return (
            residual_square,
            residual_square / degrees / effective / line,
            degrees * effective / np.maximum(residual_square, 1e-12),
        )

    residual_square, variance, _ = noise(basis.columns[: SEASON + 1], kinds)
    if shapes is not None:
        # With the line last, as `Kinds` has it.
        columns = np.roll(shapes.columns, -1 - SEASON, axis=0)
        bent_square, bent, weight = noise(columns, kinds_of(columns, when))
        clear = (residual_square - bent_square) * weight > NEEDED_GAIN + len(columns) - COLUMNS
        variance = np.where(clear, bent, variance)
    row_variance = rows.total(error**2) / rows.size
    beyond = np.where(
        members > 0,
        variance - row_variance / np.maximum(members, 1),
        row_variance * (1 - 1 / rows.size),
    )
    return np.asarray(np.sqrt(np.maximum(beyond, 0)))


LINE_CHUNK = 2048
"""Number of series in a block: few enough for their arrays to stay in the processor's cache."""
LEAST_LINE_ERROR = 0.2
"""Smallest standard error of one series' change along a line, mm."""


def line_changes(
    displacement: NDArray[np.float32], when: Float, years: float
) -> tuple[Float, Float]:
    """Return the change (N,) over the observation period along a line, and its standard
    error for white noise, mm.

    It does not need the building of a series, unlike `estimate_trend`.

    Args:
        displacement: (N, T) mm, NaN where missing; `COLUMNS` values a series and more.
        when: (T,) epochs as a share of the observation period, 0 to 1.
        years: length of the observation period.
    """
    basis, parts = make_basis(when, years), [np.zeros((2, 0))]
    for start in range(0, len(displacement), LINE_CHUNK):
        series = displacement[start : start + LINE_CHUNK]
        is_finite = np.isfinite(series)
        y, weight = np.where(is_finite, series, 0).astype(float), is_finite.astype(float)
        line = np.full(len(y), LINE, np.intp)
        for turn in range(3):
            normal = normal_matrices(basis, weight)
            fit = amplitudes(basis, normal, weight * y, y)
            residual = (y - fitted(basis, normal, fit, line)) * is_finite
            if turn < 2:
                weight = trusted(residual, is_finite)
        variance = (weight * residual**2).sum(1) / np.maximum(weight.sum(1) - COLUMNS, 1)
        error = np.sqrt(variance / normal.curve_pivot[:, LINE])
        parts.append(np.stack([fit.amplitude[:, LINE], np.maximum(error, LEAST_LINE_ERROR)]))
    change, error = np.concatenate(parts, axis=1)
    return change, error
