"""Estimate the change of each series over a period, using the courses in time that a track's series share.

Movements of one place differ in size and are alike in time, so the courses are found in the series themselves:
principal components of their smooth parts (Kositsky and Avouac 2010, Inverting geodetic time series with a principal
component analysis-based inversion method). A series then needs a few amplitudes, and its change is theirs; a straight
line alone would lose a movement that began late, and a free curve a series would drown it in noise.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import BSpline

from plumbline.fields.prepare.delay import estimate_delay

Float = NDArray[np.floating[Any]]
MOST_MODES = 4
EPOCHS_A_KNOT, MOST_TERMS = 6, 10
"""Of the smooth part of a series: terms of a cubic spline."""
SEASON_YEARS = 1.0
"""Over less, a yearly term takes the movement along, and none is fitted."""
LEAST_SERIES = 25
"""From fewer no course can be found; then it is a line."""
ABOVE_NOISE = 3.0
"""A course counts if it is as many times stronger than the strongest that noise alone would have: what turbulent air
shares between points is a course as well, and a weak one costs more than it tells."""
ROUNDS = 3
HUBER = 2.0
"""Residuals beyond as many robust standard deviations count less."""
LEAST_ERROR_MM = 0.1
REACH_M = 900.0
LEAST_OWN = 0.3
"""Of a series' whole error, at least, that is its own."""


class Changes(NamedTuple):
    """Changes of N series, mm."""

    change: Float
    error: Float
    """Standard error of what is a series' own."""
    delay: Float
    """Standard error of what neighbours share, see `delay.py`."""
    delay_m: Float
    """Length over which they do, m."""


def estimate_changes(displacement: NDArray[np.float32], when: Float, years: float, place: Float) -> Changes:
    """Estimate the change of each series from time 0 to 1.

    Args:
        displacement: (N, T) mm, NaN where missing.
        when: (T,) epochs as a share of the period; a track may cover less than all of it.
        years: length of the period. place: (N, 2) m.

    Returns:
        (N,) arrays; NaN for series with too few values for the terms.
    """
    known = np.isfinite(displacement)
    y = np.where(known, displacement, 0).astype(float)
    season = _season(when, years)
    fixed = np.column_stack([np.ones_like(when), *season])
    line = when - when.mean()
    modes = (
        _modes(y, known, when, np.column_stack([fixed, line])) if len(y) >= LEAST_SERIES else np.zeros((len(when), 0))
    )
    design = np.column_stack([fixed, line, modes])
    # What each term adds from the beginning to the end of the period; a course is level beyond its track's epochs.
    gain = np.concatenate([np.zeros(fixed.shape[1]), [1.0], modes[-1] - modes[0]])
    found, error, share, left = _fit(y, known.astype(float), design, gain)
    enough = known.sum(axis=1) > design.shape[1] + 2
    air = estimate_delay(np.where(known & enough[:, None], left, np.nan), place)
    shared = air.deviation_mm * np.sqrt(share * (1 + air.memory) / (1 - air.memory))
    # The part of it that the points of the track show: a long reach is a sill that nobody has seen.
    seen = shared**2 * (1 - np.exp(-REACH_M / air.length_m))
    own = np.sqrt(np.maximum(error**2 - seen, (LEAST_OWN * error) ** 2))
    parts = (found, np.maximum(own, LEAST_ERROR_MM), shared, np.full(len(y), air.length_m))
    return Changes(*(np.where(enough, part, np.nan) for part in parts))


def _season(when: Float, years: float) -> list[Float]:
    if float(np.ptp(when)) * years < SEASON_YEARS:
        return []
    return [np.cos(2 * np.pi * years * when), np.sin(2 * np.pi * years * when)]


def _modes(y: Float, known: NDArray[np.bool_], when: Float, fixed: Float) -> Float:
    """Return the courses (T, K), besides a line, that stand out of the noise."""
    terms = min(MOST_TERMS, len(when) // EPOCHS_A_KNOT)
    if terms < 4:
        return np.zeros((len(when), 0))
    whole = known.mean(axis=1) >= 0.5
    if not whole.any():
        return np.zeros((len(when), 0))
    first = (
        np.linalg.lstsq(fixed, y[whole].T, rcond=None)[0]
        if known[whole].all()
        else _gapped(y[whole], known[whole], fixed)
    )
    left = np.where(known[whole], y[whole] - (fixed @ first).T, 0)
    scale = _robust_deviation(left, known[whole]) + 1e-6
    left = np.clip(left, -6 * scale, 6 * scale)
    smooth = _splines(when, terms)
    smooth = smooth - fixed @ np.linalg.lstsq(fixed, smooth, rcond=None)[0]
    basis, size, _ = np.linalg.svd(smooth, full_matrices=False)
    basis = basis[:, size > 1e-6 * size[0]]
    weight = 1 / scale
    scaled = left * weight
    parts = scaled @ basis
    rough = scaled - parts @ basis.T
    value, vector = np.linalg.eigh(parts.T @ parts / len(parts))
    edge = _noise_edge(scaled, np.column_stack([fixed, basis]), basis.shape[1]) * _memory(rough)
    strong = np.flatnonzero(value > ABOVE_NOISE * edge)[::-1][:MOST_MODES]
    return np.asarray(basis @ vector[:, strong], float)


def _noise_edge(scaled: Float, slow: Float, terms: int) -> float:
    """Return the largest variance (of any course) that noise has in as many fast terms (Horn 1965, parallel analysis).

    Points share what the air delays, so that the edge of independent noise (Marchenko and Pastur 1967) is too low.
    """
    whole = np.linalg.qr(slow, mode="complete")[0]
    # The fast terms are drawn at random, so that each group has all frequencies.
    fast = whole[:, slow.shape[1] :]
    fast = fast @ np.linalg.qr(np.random.default_rng(0).standard_normal((fast.shape[1],) * 2))[0]
    groups = max(1, fast.shape[1] // terms)
    parts = scaled @ fast[:, : groups * terms]
    tops = [np.linalg.eigvalsh(own.T @ own / len(own))[-1] for own in np.split(parts, groups, axis=1) if own.shape[1]]
    return float(np.mean(tops))


def _memory(rough: Float) -> float:
    """Return how much stronger the slow parts of the noise are than white noise, by the correlation between epochs."""
    both = (rough[:, 1:] * rough[:, :-1]).mean() / max(float((rough**2).mean()), 1e-12)
    rho = float(np.clip(both + 0.1, 0, 0.7))  # taking the slow part off has lowered it
    return (1 + rho) / (1 - rho)


def _gapped(y: Float, known: NDArray[np.bool_], design: Float) -> Float:
    """Solve least squares (P, N) for series with gaps."""
    weight = known.astype(float)
    normal = np.einsum("nt,tp,tq->npq", weight, design, design, optimize=True) + 1e-6 * np.eye(design.shape[1])
    return np.linalg.solve(normal, ((y * weight) @ design)[..., None])[..., 0].T


def _splines(when: Float, terms: int) -> Float:
    """Return cubic B-splines (T, terms) over the epochs."""
    low, high = float(when.min()), float(when.max())
    inner = np.linspace(low, high, terms - 2)
    knots = np.concatenate([[low] * 3, inner, [high] * 3])
    inside = np.clip(when, low, high)
    return np.asarray(BSpline.design_matrix(inside, knots, 3).toarray(), float)


def _robust_deviation(left: Float, known: NDArray[np.bool_]) -> Float:
    """Return the robust deviation (N, 1) of the known residuals (N, T), by their median; 0 without any."""
    size = np.sort(np.where(known, np.abs(left), np.inf), axis=1)
    count = known.sum(axis=1)[:, None]
    middle = np.concatenate([np.maximum(count - 1, 0) // 2, np.minimum(count // 2, size.shape[1] - 1)], axis=1)
    return np.where(count > 0, 1.4826 * np.take_along_axis(size, middle, axis=1).mean(axis=1, keepdims=True), 0.0)


def _fit(y: Float, known: Float, design: Float, gain: Float) -> tuple[Float, Float, Float, Float]:
    """Fit the change by robust least squares.

    Returns:
        the change (N,); its standard error, which allows for correlated noise; its variance for noise of 1 that is
        independent between epochs; what is left of the series (N, T).
    """
    weight = known
    small = 1e-6 * np.eye(design.shape[1])
    for _ in range(ROUNDS):
        normal = np.einsum("nt,tp,tq->npq", weight, design, design, optimize=True) + small
        found = np.linalg.solve(normal, ((y * weight) @ design)[..., None])[..., 0]
        left = (y - found @ design.T) * known
        size = np.abs(left) / np.maximum(_robust_deviation(left, known > 0), 1e-6)
        weight = known * np.where(size > HUBER, HUBER / np.maximum(size, 1e-9), 1.0)
    inverse = np.linalg.inv(normal)
    count = known.sum(axis=1)
    variance = (weight * left**2).sum(axis=1) / np.maximum(count - design.shape[1], 1)
    pairs = known[:, 1:] * known[:, :-1]
    lagged = (left[:, 1:] * left[:, :-1]).sum(axis=1) / np.maximum(pairs.sum(axis=1), 1)
    rho = float(np.clip(np.median(lagged / np.maximum(variance, 1e-9)), 0, 0.8))
    spread = np.einsum("p,npq,q->n", gain, inverse, gain, optimize=True)
    return found @ gain, np.sqrt(variance * spread * (1 + rho) / (1 - rho)), spread, left
