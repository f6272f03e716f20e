"""Estimate the change of each series over a period, using the courses in time that a
track's series share.

Movements of one place differ in size and are alike in time, so the courses are found in the
series themselves: principal components of their smooth parts (Kositsky and Avouac 2010,
Inverting geodetic time series with a principal component analysis-based inversion method).
A series then needs a few amplitudes, and its change is theirs; a straight line alone would
lose a movement that began late, and a free curve a series would drown it in noise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import BSpline

from plumbline.core.arrays import Float
from plumbline.fields.prepare.delay import estimate_delay

MOST_MODES = 4
EPOCHS_A_KNOT, MOST_TERMS = 6, 10
"""Epochs for each knot, and largest number of terms, of the spline of a smooth part."""
SEASON_YEARS = 1.0
"""Shortest period, in years, with a yearly term; over less, the term would absorb the movement."""
LEAST_SERIES = 25
"""Smallest number of series in which courses are found; below, the change is that of a line."""
ABOVE_NOISE = 3.0
"""Smallest variance of a course, in units of the largest that noise alone gives. Turbulent air
makes courses, too, and a weak course adds more noise than movement."""
ROUNDS = 3
HUBER = 2.0
"""Robust standard deviations beyond which residuals count less (Huber 1964)."""
LEAST_ERROR_MM = 0.1
REACH_M = 900.0
MIN_SERIES_SHARE = 0.3
"""Smallest share of a series' error that is not shared with neighbours."""


class SeriesChanges(NamedTuple):
    """Changes of N series, mm."""

    change: Float
    error: Float
    """Standard error of the part that a series does not share."""
    delay: Float
    """Standard error of the part that neighbours share, see `delay.py`."""
    delay_m: Float
    """Length over which they share it, m."""


def estimate_changes(
    displacement: NDArray[np.float32], when: Float, years: float, place: Float
) -> SeriesChanges:
    """Estimate the change of each series from time 0 to 1.

    Args:
        displacement: (N, T) mm, NaN where missing.
        when: (T,) epochs as a share of the period; a track may cover less than all of it.
        years: length of the period. place: (N, 2) m.

    Returns:
        (N,) arrays; NaN for series with too few values for the terms.
    """
    is_valid = np.isfinite(displacement)
    y = np.where(is_valid, displacement, 0).astype(float)
    fixed = np.column_stack([np.ones_like(when), *_season_terms(when, years)])
    line = when - when.mean()
    modes = (
        _find_courses(y, is_valid, when, np.column_stack([fixed, line]))
        if len(y) >= LEAST_SERIES
        else np.zeros((len(when), 0))
    )
    design = np.column_stack([fixed, line, modes])
    # What each term adds from the beginning to the end of the period; a course is level
    # beyond its track's epochs.
    gain = np.concatenate([np.zeros(fixed.shape[1]), [1.0], modes[-1] - modes[0]])
    change, error, share, residuals = _fit(y, is_valid.astype(float), design, gain)
    enough = is_valid.sum(axis=1) > design.shape[1] + 2
    delay = estimate_delay(np.where(is_valid & enough[:, None], residuals, np.nan), place)
    delay_error = delay.deviation_mm * np.sqrt(share * (1 + delay.memory) / (1 - delay.memory))
    # Only the part of the delay that differs within REACH_M is in the residuals, and so in `error`.
    visible_variance = delay_error**2 * (1 - np.exp(-REACH_M / delay.length_m))
    series_error = np.sqrt(np.maximum(error**2 - visible_variance, (MIN_SERIES_SHARE * error) ** 2))
    columns = (
        change,
        np.maximum(series_error, LEAST_ERROR_MM),
        delay_error,
        np.full(len(y), delay.length_m),
    )
    return SeriesChanges(*(np.where(enough, column, np.nan) for column in columns))


def _season_terms(when: Float, years: float) -> list[Float]:
    if float(np.ptp(when)) * years < SEASON_YEARS:
        return []
    return [np.cos(2 * np.pi * years * when), np.sin(2 * np.pi * years * when)]


def _find_courses(y: Float, is_valid: NDArray[np.bool_], when: Float, fixed: Float) -> Float:
    """Return the courses (T, K), besides a line, that are stronger than the noise."""
    terms = min(MOST_TERMS, len(when) // EPOCHS_A_KNOT)
    if terms < 4:
        return np.zeros((len(when), 0))
    is_covered = is_valid.mean(axis=1) >= 0.5
    if not is_covered.any():
        return np.zeros((len(when), 0))
    first = (
        np.linalg.lstsq(fixed, y[is_covered].T, rcond=None)[0]
        if is_valid[is_covered].all()
        else _solve_gapped(y[is_covered], is_valid[is_covered], fixed)
    )
    residuals = np.where(is_valid[is_covered], y[is_covered] - (fixed @ first).T, 0)
    scale = _robust_deviation(residuals, is_valid[is_covered]) + 1e-6
    residuals = np.clip(residuals, -6 * scale, 6 * scale)
    smooth = _spline_terms(when, terms)
    smooth = smooth - fixed @ np.linalg.lstsq(fixed, smooth, rcond=None)[0]
    basis, size, _ = np.linalg.svd(smooth, full_matrices=False)
    basis = basis[:, size > 1e-6 * size[0]]
    weight = 1 / scale
    scaled = residuals * weight
    parts = scaled @ basis
    rough = scaled - parts @ basis.T
    value, vector = np.linalg.eigh(parts.T @ parts / len(parts))
    edge = _noise_edge(scaled, np.column_stack([fixed, basis]), basis.shape[1]) * _noise_inflation(
        rough
    )
    strong = np.flatnonzero(value > ABOVE_NOISE * edge)[::-1][:MOST_MODES]
    return np.asarray(basis @ vector[:, strong], float)


def _noise_edge(scaled: Float, slow: Float, terms: int) -> float:
    """Return the largest variance (of any course) that noise has in as many fast terms
    (Horn 1965, parallel analysis).

    Points share what the air delays, so that the edge of independent noise (Marchenko and
    Pastur 1967) is too low.
    """
    complete_basis = np.linalg.qr(slow, mode="complete")[0]
    # The fast terms are drawn at random, so that each group has all frequencies.
    fast = complete_basis[:, slow.shape[1] :]
    fast = fast @ np.linalg.qr(np.random.default_rng(0).standard_normal((fast.shape[1],) * 2))[0]
    groups = max(1, fast.shape[1] // terms)
    parts = scaled @ fast[:, : groups * terms]
    largest_variances = [
        np.linalg.eigvalsh(group.T @ group / len(group))[-1]
        for group in np.split(parts, groups, axis=1)
        if group.shape[1]
    ]
    return float(np.mean(largest_variances))


def _noise_inflation(rough: Float) -> float:
    """Return how much stronger the slow parts of the noise are than white noise, by the
    correlation between epochs."""
    correlation = (rough[:, 1:] * rough[:, :-1]).mean() / max(float((rough**2).mean()), 1e-12)
    rho = float(np.clip(correlation + 0.1, 0, 0.7))  # taking the slow part off has lowered it
    return (1 + rho) / (1 - rho)


def _solve_gapped(y: Float, is_valid: NDArray[np.bool_], design: Float) -> Float:
    """Solve least squares (P, N) for series with gaps."""
    weight = is_valid.astype(float)
    normal = np.einsum("nt,tp,tq->npq", weight, design, design, optimize=True) + 1e-6 * np.eye(
        design.shape[1]
    )
    return np.linalg.solve(normal, ((y * weight) @ design)[..., None])[..., 0].T


def _spline_terms(when: Float, terms: int) -> Float:
    """Return cubic B-splines (T, terms) over the epochs."""
    low, high = float(when.min()), float(when.max())
    knots = np.concatenate([[low] * 3, np.linspace(low, high, terms - 2), [high] * 3])
    return np.asarray(BSpline.design_matrix(np.clip(when, low, high), knots, 3).toarray(), float)


def _robust_deviation(residuals: Float, is_valid: NDArray[np.bool_]) -> Float:
    """Return the robust deviation (N, 1) of the known residuals (N, T), by their median; 0
    without any."""
    size = np.sort(np.where(is_valid, np.abs(residuals), np.inf), axis=1)
    count = is_valid.sum(axis=1)[:, None]
    middle = np.concatenate(
        [np.maximum(count - 1, 0) // 2, np.minimum(count // 2, size.shape[1] - 1)], axis=1
    )
    return np.where(
        count > 0,
        1.4826 * np.take_along_axis(size, middle, axis=1).mean(axis=1, keepdims=True),
        0.0,
    )


def _fit(y: Float, valid: Float, design: Float, gain: Float) -> tuple[Float, Float, Float, Float]:
    """Fit the change by robust least squares.

    Returns:
        the change (N,); its standard error, which allows for correlated noise; its variance
        for noise of 1 that is independent between epochs; the residuals (N, T).
    """
    weight = valid
    small = 1e-6 * np.eye(design.shape[1])
    for _ in range(ROUNDS):
        normal = np.einsum("nt,tp,tq->npq", weight, design, design, optimize=True) + small
        coefficients = np.linalg.solve(normal, ((y * weight) @ design)[..., None])[..., 0]
        residuals = (y - coefficients @ design.T) * valid
        size = np.abs(residuals) / np.maximum(_robust_deviation(residuals, valid > 0), 1e-6)
        weight = valid * np.where(size > HUBER, HUBER / np.maximum(size, 1e-9), 1.0)
    inverse = np.linalg.inv(normal)
    count = valid.sum(axis=1)
    variance = (weight * residuals**2).sum(axis=1) / np.maximum(count - design.shape[1], 1)
    pairs = valid[:, 1:] * valid[:, :-1]
    lagged = (residuals[:, 1:] * residuals[:, :-1]).sum(axis=1) / np.maximum(pairs.sum(axis=1), 1)
    rho = float(np.clip(np.median(lagged / np.maximum(variance, 1e-9)), 0, 0.8))
    spread = np.einsum("p,npq,q->n", gain, inverse, gain, optimize=True)
    return (
        coefficients @ gain,
        np.sqrt(variance * spread * (1 + rho) / (1 - rho)),
        spread,
        residuals,
    )
