"""From a displacement history to one number and its standard error: how far did this scatterer move?

A straight line would misjudge a movement that began late or has come to rest. Scatterers of one building move
together in time, so each building chooses one curve out of a small dictionary, by what is left of its scatterers'
series after their common movement is taken off; a series then only needs an amplitude for that curve.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.floating[Any]]
CHUNK = 16384
"""Points worked on at a time: bounds the memory to some tens of MB."""
NEEDED_GAIN = 9.0
"""A bent curve must explain the building's series better than the line by this much in chi-square."""
MIN_COMMON = 3
"""From so many scatterers of a track on a building their mean stands for the common movement."""
LEAST_KNOWN = 0.5
"""Share of the epochs that a series must have to count in that mean."""
HUBER = 2.0


class Trend(NamedTuple):
    """Change over the observation period and its standard error, mm; the chosen curve of each point."""

    change: Float
    change_se: Float
    curve: NDArray[np.intp]


def curves(when: Float) -> Float:
    """Dictionary of normalised movements g with g(0) = 0 and g(1) = 1, sampled at `when` (T,): (K, T).

    The first is the line; then movements coming to rest, accelerating ones, and late onsets.
    """
    settling = [(1 - np.exp(-when / tau)) / (1 - np.exp(-1 / tau)) for tau in (0.08, 0.2, 0.45)]
    accelerating = [when**2, when**4]
    late = [np.clip((when - onset) / (1 - onset), 0, 1) for onset in (0.25, 0.5, 0.75)]
    return np.stack([when, *settling, *accelerating, *late])


def estimate_trend(displacement: NDArray[np.float32], when: Float, years: float, building: NDArray[np.intp]) -> Trend:
    """Robust amplitude of a dictionary curve with offset and annual term, per point.

    Args:
        displacement: (N, T) mm, NaN where missing; rows of one building together.
        when: (T,) epochs as a share of the observation period, 0 to 1.
        years: length of the observation period.
        building: (N,) ascending index of each row's building.

    Returns:
        (N,) arrays. Standard errors count the time correlation of the residuals (effective sample size
        of an AR(1) process, (1 - rho) / (1 + rho)).
    """
    count = len(displacement)
    change, error, curve = np.zeros(count), np.zeros(count), np.zeros(count, dtype=np.intp)
    for rows in _chunks(building):
        change[rows], error[rows], curve[rows] = _estimate(displacement[rows], when, years, building[rows])
    return Trend(change, error, curve)


def _chunks(building: NDArray[np.intp]) -> list[slice]:
    """Slices of about `CHUNK` rows that never cut a building in two."""
    starts = np.flatnonzero(np.r_[True, np.diff(building) > 0]) if len(building) else np.zeros(0, dtype=int)
    cuts = [0]
    for start in starts:
        if start - cuts[-1] >= CHUNK:
            cuts.append(int(start))
    return [slice(a, b) for a, b in zip(cuts, [*cuts[1:], len(building)], strict=True) if b > a]


class _Fit(NamedTuple):
    amplitude: Float
    inverse: Float
    left: Float
    fitted: Float


def _estimate(series: NDArray[np.float32], when: Float, years: float, building: NDArray[np.intp]) -> Trend:
    known = np.isfinite(series)
    y = np.where(known, series, 0).astype(float)
    starts = np.flatnonzero(np.r_[True, np.diff(building) > 0])
    size = np.diff(np.r_[starts, len(building)])
    annual = 2 * np.pi * when * years
    seasonal = np.stack([np.ones_like(when), np.sin(annual), np.cos(annual)])
    designs = [np.vstack([g, seasonal]).T for g in curves(when)]

    chosen = np.zeros(len(y), dtype=np.intp)
    for _ in range(2):  # what counts as a gap's filling and as an outlier depends on the curve
        common, members = _common(y, known, _fit(designs, chosen, known.astype(float), y).fitted, starts)
        own = np.where(known, y - np.repeat(common, size, axis=0), 0)
        weight = known.astype(float)
        for _ in range(2):
            residual = np.where(known, own - _fit(designs, chosen, weight, own).fitted, 0)
            scale = np.sqrt((weight * residual**2).sum(1) / np.maximum(weight.sum(1), 1)) + 1e-9
            weight = known * np.minimum(1, HUBER * scale[:, None] / np.maximum(np.abs(residual), 1e-12))
        effective = _effective_share(residual, weight, starts)
        chosen = np.repeat(_choose(designs, weight, own, starts, size, effective), size)

    fit = _fit(designs, chosen, weight, y)
    left = _fit(designs, chosen, weight, own).left
    # A mean over m series holds a share 1/m of each one's noise: what is left has that much less of it.
    lost = np.repeat(1 / np.maximum(members, 2) * (members > 0), size)
    variance = left / np.maximum(weight.sum(1) - 4, 1) / np.repeat(effective, size) / (1 - lost)
    error = np.sqrt(variance * fit.inverse[:, 0, 0])
    return Trend(fit.amplitude[:, 0], np.maximum(error, 0.05), chosen)


def _common(
    y: Float, known: NDArray[np.bool_], fitted: Float, starts: NDArray[np.intp]
) -> tuple[Float, NDArray[np.intp]]:
    """(G, T) mean series of each building, and of how many series it is; 0 and 0 where there are too few.

    Gaps are filled with the series' own fit first: otherwise the mean would jump with each gap, because series
    differ in level and speed. A series that is mostly gaps is left out: its fit would be a guess.
    """
    whole = known.mean(1) >= LEAST_KNOWN
    filled = np.where(known, y, fitted) * whole[:, None]
    members = np.add.reduceat(whole.astype(np.intp), starts)
    members[members < MIN_COMMON] = 0
    total = np.add.reduceat(filled, starts, axis=0)
    return np.where(members[:, None] > 0, total / np.maximum(members, 1)[:, None], 0), members


def _choose(
    designs: list[Float], weight: Float, own: Float, starts: NDArray[np.intp], size: NDArray[np.intp], effective: Float
) -> NDArray[np.intp]:
    """(G,) the curve that leaves least of a building's series; the line, unless another is clearly better."""
    sums = np.stack([np.add.reduceat(_solve(design, weight, own)[2], starts) for design in designs])
    degrees = np.maximum(np.add.reduceat(weight.sum(1), starts) - 5 * size, 1)
    chi_square = sums / (sums.min(0) / degrees + 1e-12) * effective
    best: NDArray[np.intp] = np.argmin(chi_square, axis=0)
    best[chi_square[0] - chi_square.min(0) < NEEDED_GAIN] = 0
    return best


def _fit(designs: list[Float], chosen: NDArray[np.intp], weight: Float, y: Float) -> _Fit:
    """Each row on the design of its chosen curve; `fitted` (N, T) covers the gaps too."""
    count, parameters = len(y), designs[0].shape[1]
    fit = _Fit(
        np.zeros((count, parameters)), np.zeros((count, parameters, parameters)), np.zeros(count), np.zeros(y.shape)
    )
    for number in np.unique(chosen):
        rows = chosen == number
        fit.amplitude[rows], fit.inverse[rows], fit.left[rows] = _solve(designs[number], weight[rows], y[rows])
        fit.fitted[rows] = fit.amplitude[rows] @ designs[number].T
    return fit


def _solve(design: Float, weight: Float, y: Float) -> tuple[Float, Float, Float]:
    """Weighted least squares of every row of `y` (N, T) on `design` (T, P): amplitudes, inverse, weighted sum left."""
    parameters = design.shape[1]
    products = (design[:, :, None] * design[:, None, :]).reshape(len(design), -1)
    normal = (weight @ products).reshape(-1, parameters, parameters)
    # A curve that hardly varies over a row's epochs (few values) must not make the system singular.
    normal += 1e-6 * np.eye(parameters) * np.maximum(weight.sum(1), 1)[:, None, None]
    inverse = np.linalg.inv(normal)
    right = (weight * y) @ design
    amplitude = np.einsum("nij,nj->ni", inverse, right)
    left = np.maximum((weight * y * y).sum(1) - (amplitude * right).sum(1), 0)
    return amplitude, inverse, left


def _effective_share(residual: Float, weight: Float, starts: NDArray[np.intp]) -> Float:
    """(G,) effective over actual number of values, from the lag-one autocorrelation pooled over each building's rows.

    Residuals of a fit correlate less than the noise did: by about (2 + 4 rho) / T on a trend (Kendall 1954).
    """
    pair = weight[:, 1:] * weight[:, :-1]
    over = np.add.reduceat((pair * residual[:, 1:] * residual[:, :-1]).sum(1), starts)
    under = np.add.reduceat((pair * (residual[:, 1:] ** 2 + residual[:, :-1] ** 2) / 2).sum(1), starts)
    rho = over / np.maximum(under, 1e-9)
    epochs = np.maximum(np.add.reduceat(weight.sum(1), starts) / np.maximum(np.diff(np.r_[starts, len(weight)]), 1), 8)
    rho = np.clip((rho + 2 / epochs) / (1 - 4 / epochs), 0, 0.9)
    return np.asarray((1 - rho) / (1 + rho), float)
