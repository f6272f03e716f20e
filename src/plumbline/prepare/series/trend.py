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
from scipy.sparse import csr_array

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
    Amplitudes,
    Basis,
    Normal,
    amplitudes,
    course_basis,
    fit_courses,
    fitted,
    make_basis,
    normal_matrices,
    residual_squares,
    residuals,
    unknown_courses,
)

CHUNK = 512
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
    shared = _prepare_fits(when, years)
    for rows in _chunks(building):
        of_chunk = _estimate(displacement[rows], shared, rows_of(building[rows]))
        for whole, part in zip(trend, of_chunk, strict=True):
            whole[rows] = part
    return trend


class MovementColumns(NamedTuple):
    """Columns on which the common movement is projected."""

    columns: Float
    """(P, T)"""
    inverse: Float
    """(T, P) pseudo-inverse of the columns."""
    kinds: Kinds
    """Kinds of the noise beside these columns."""


class SharedByFits(NamedTuple):
    """What the fits of all series at the same epochs share."""

    basis: Basis
    complete: Normal
    """Normal matrix of a series without gaps, all weights 1."""
    line: MovementColumns
    """Season and line."""
    shapes: Basis | None
    """None if only the line is needed."""
    bent: MovementColumns | None
    """Season and all shapes; None as `shapes`."""


def _prepare_fits(when: Float, years: float) -> SharedByFits:
    """Compute what fits at epochs `when` (T,), a share of the period of `years` years, share."""

    def prepare_columns(columns: Float) -> MovementColumns:
        return MovementColumns(columns, np.linalg.pinv(columns), kinds_of(columns, when))

    basis = make_basis(when, years)
    bends = len(when) > 0 and np.ptp(when) * years >= LEAST_YEARS
    shapes = course_basis(basis, when) if bends else None
    return SharedByFits(
        basis,
        normal_matrices(basis, np.ones((1, len(when)))),
        prepare_columns(basis.columns[: SEASON + 1]),
        shapes,
        # With the line last, as `Kinds` has it.
        None if shapes is None else prepare_columns(np.roll(shapes.columns, -1 - SEASON, axis=0)),
    )


def _chunks(building: NDArray[np.intp]) -> list[slice]:
    """Return slices of about `CHUNK` rows that never split a building."""
    cuts = [0]
    for start in rows_of(building).start:
        if start - cuts[-1] >= CHUNK:
            cuts.append(int(start))
    return [slice(a, b) for a, b in zip(cuts, [*cuts[1:], len(building)], strict=True) if b > a]


def _estimate(series: NDArray[np.float32], shared: SharedByFits, rows: Rows) -> Trend:
    """Estimate the trend of a chunk of series (N, T)."""
    basis, shapes = shared.basis, shared.shapes
    is_finite, y = np.isfinite(series), series.astype(float)
    has_gaps, plain_normal = not is_finite.all(), shared.complete
    if has_gaps:
        y[~is_finite] = 0
        plain_normal = normal_matrices(basis, is_finite.astype(float))
    n_known = is_finite.sum(1)
    level = amplitudes(basis, plain_normal, y)

    chosen = np.zeros(len(y), dtype=np.intp)
    variance = residual_squares(plain_normal, level, y, y)[LINE] / np.maximum(n_known - COLUMNS, 1)
    for turn in range(2):  # filled gaps and outliers depend on the curve
        is_typical = (n_known >= MIN_FINITE_SHARE * y.shape[1]) & (
            variance <= MAX_NOISE_RATIO * typical_variance(variance, rows)
        )
        filled = y
        if has_gaps:
            filled = np.where(is_finite, y, fitted(basis, plain_normal, level, chosen))
        common, members = _mean_series(filled, is_typical, rows)
        differential = np.repeat(common, rows.size, axis=0)
        np.subtract(y, differential, out=differential)
        if has_gaps:
            differential *= is_finite

        weighted, normal = differential, plain_normal
        for _ in range(2):
            fit = amplitudes(basis, normal, weighted)
            weight = trusted(residuals(basis, normal, fit, chosen, differential), is_finite)
            if shapes is not None and not turn:
                # A movement of the last few epochs is no outlier, though it is far from the line.
                likely_curve = _best_curve(fit, variance, rows)
                np.maximum(
                    weight,
                    trusted(residuals(basis, normal, fit, likely_curve, differential), is_finite),
                    out=weight,
                )
            weighted, normal = weight * differential, normal_matrices(basis, weight)
        total = weight.sum(1)
        fit = amplitudes(basis, normal, weighted)
        # A mean over m series contains a share 1/m of the noise of each: the differential series
        # has that much less of it.
        mean_share = is_typical / np.maximum(rows.spread(members), 2) * (rows.spread(members) > 0)
        residual_variance = residual_squares(normal, fit, weighted, differential) / (
            RESIDUAL_RATIO * np.maximum(total - COLUMNS, 1) * (1 - mean_share)
        )
        variance = residual_variance.min(0)
        if shapes is not None:
            # Noise is the residual of the best curve: the line's residual of another movement would
            # pass for slow noise.
            best_curve = _best_curve(fit, variance, rows)
            residual = residuals(basis, normal, fit, best_curve, differential)
            effective = effective_share(residual, weight, variance, rows, shared.line.kinds)
            chosen = rows.spread(_choose_curve(_excess_chi_square(fit, variance, effective, rows)))

    effective = effective_share(
        residuals(basis, normal, fit, chosen, differential),
        weight,
        variance,
        rows,
        shared.line.kinds,
    )
    error = np.maximum(np.sqrt(residual_variance / effective / normal.curve_pivot), LEAST_ERROR)
    amplitude = amplitudes(basis, normal, weight * y).amplitude
    chosen_place = chosen, np.arange(len(y))
    common_error = _common_error(
        shared,
        common=common,
        members=members,
        known_share=n_known / y.shape[1],
        error=error[LINE],
        rows=rows,
    )
    courses = (
        unknown_courses(len(y))
        if shapes is None
        else fit_courses(
            shapes,
            y,
            is_finite,
            weight,
            error[chosen_place] ** 2 * normal.curve_pivot[chosen_place],
        )
    )
    return Trend(
        amplitude[chosen_place],
        error[chosen_place],
        chosen,
        amplitude[LINE],
        error[LINE],
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
    share = is_typical * rows.spread(np.divide(members > 0, np.maximum(members, 1)))
    count = len(filled)
    mean = csr_array((share, np.arange(count), np.r_[rows.start, count])) @ filled
    return mean, members


def _excess_chi_square(
    fit: Amplitudes, variance: Float, effective: Float | float, rows: Rows
) -> Float:
    """Return the chi-square (K, G) of each building's series on each curve, above that of
    each series' best curve.

    Each series counts up to `MAX_GAIN`: one that jumps by an unwrapping error looks much like one
    that moves late.
    """
    scale = np.maximum(variance, typical_variance(variance, rows)) + 1e-12
    chi_square = (fit.explained.max(0) - fit.explained) * (effective / scale)
    return rows.total(np.minimum(chi_square, MAX_GAIN))


def _best_curve(fit: Amplitudes, variance: Float, rows: Rows) -> NDArray[np.intp]:
    """Return (N,) the curve that fits the series of each building best, as if all values were
    independent."""
    best: NDArray[np.intp] = rows.spread(_excess_chi_square(fit, variance, 1, rows).argmin(0))
    return best


def _choose_curve(excess: Float) -> NDArray[np.intp]:
    """Choose the curve (G,) that fits a building's series best; the line, unless another is
    clearly better."""
    best: NDArray[np.intp] = np.argmin(excess, axis=0)
    best[excess[LINE] - excess.min(0) < NEEDED_GAIN] = LINE
    return best


def _common_error(
    shared: SharedByFits,
    *,
    common: Float,
    members: NDArray[np.intp],
    known_share: Float,
    error: Float,
    rows: Rows,
) -> Float:
    """Return the standard error (G,) of the common series' line, mm, beyond the share of
    the rows' own errors (N,).

    The line's residual of another movement is no noise: where the shapes of courses explain clearly
    more of it, noise is their residual. Without a common series the rows' errors contain what they
    share: then they count as one row.
    """
    # Filled gaps have no noise, so the common series shows less of it the more gaps there are.
    share = rows.total(known_share) / rows.size
    each_building = rows_of(np.arange(len(common)))

    def noise(of: MovementColumns) -> tuple[Float, Float, Float]:
        residual = common - common @ of.inverse @ of.columns
        effective = effective_share(
            residual, np.ones_like(common), np.ones(len(common)), each_building, of.kinds
        )
        residual_square = np.vecdot(residual, residual)
        degrees = np.maximum(common.shape[1] * share - len(of.columns), 1) * share
        return (
            residual_square,
            residual_square / degrees / effective / shared.complete.curve_pivot[LINE],
            degrees * effective / np.maximum(residual_square, 1e-12),
        )

    residual_square, variance, _ = noise(shared.line)
    if shared.bent is not None:
        bent_square, bent, weight = noise(shared.bent)
        needed_gain = NEEDED_GAIN + len(shared.bent.columns) - COLUMNS
        variance = np.where((residual_square - bent_square) * weight > needed_gain, bent, variance)
    row_variance = rows.total(error**2) / rows.size
    beyond = np.where(
        members > 0,
        variance - row_variance / np.maximum(members, 1),
        row_variance * (1 - 1 / rows.size),
    )
    return np.asarray(np.sqrt(np.maximum(beyond, 0)))


LINE_CHUNK = 512
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
    basis, parts = make_basis(when, years, LINE + 1), [np.zeros((2, 0))]
    complete = normal_matrices(basis, np.ones((1, len(when))))
    for start in range(0, len(displacement), LINE_CHUNK):
        series = displacement[start : start + LINE_CHUNK]
        is_finite, y = np.isfinite(series), series.astype(float)
        weighted, normal, line = y, complete, np.full(len(y), LINE)
        if not is_finite.all():
            y[~is_finite] = 0
            normal = normal_matrices(basis, is_finite.astype(float))
        for turn in range(3):
            fit = amplitudes(basis, normal, weighted)
            residual = residuals(basis, normal, fit, line, y)
            if turn < 2:
                weight = trusted(residual, is_finite)
                weighted, normal = weight * y, normal_matrices(basis, weight)
        square = np.vecdot(weight * residual, residual)
        variance = square / np.maximum(weight.sum(1) - COLUMNS, 1)
        error = np.sqrt(variance / normal.curve_pivot[LINE])
        parts.append(np.stack([fit.amplitude[LINE], np.maximum(error, LEAST_LINE_ERROR)]))
    change, error = np.concatenate(parts, axis=1)
    return change, error
