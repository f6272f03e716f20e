"""Columns that a producer derives from the histories.

Velocity and season from a linear and a yearly term, acceleration and misfit from a quadratic one besides, temporal
coherence from the phase of what the linear term leaves.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
DECIMALS = {
    "rmse_ts": 1,
    "temporal_coherence": 2,
    "amplitude_dispersion": 2,
    "mean_velocity": 1,
    "mean_velocity_std": 1,
    "acceleration": 2,
    "acceleration_std": 2,
    "seasonality": 1,
    "seasonality_std": 1,
}
LINEAR, YEARLY, FULL = 2, 4, 5
"""Columns of the design that a fit uses: each fit adds columns to the one before."""
LEAST_EPOCHS = 8
"""A history with fewer values gets zeros: five terms cannot be told from them."""


def derived(
    rng: np.random.Generator, displacement: Array, years: Array, wavelength_mm: float
) -> list[tuple[str, Array, int]]:
    """Columns that follow from the histories (N, T) at times `years` (T,): name, values (N,), decimals.

    Missing values (NaN) are left out of the fits.
    """
    values = {name: np.zeros(len(displacement)) for name in DECIMALS}
    known = np.isfinite(displacement)
    # Histories with the same gaps share their fits' design; those of most products have none.
    _, first, pattern = np.unique(np.packbits(known, axis=1), axis=0, return_index=True, return_inverse=True)
    for number, at in enumerate(first):
        epochs = known[at]
        if epochs.sum() < LEAST_EPOCHS:
            continue
        rows = np.flatnonzero(pattern.ravel() == number)
        part = displacement[rows] if epochs.all() else displacement[np.ix_(rows, epochs)]
        for name, found in _fits(part, years[epochs], wavelength_mm).items():
            values[name][rows] = found
    # Amplitudes are not simulated; steady phase goes with steady amplitude.
    steady = 0.45 - 0.4 * (values["temporal_coherence"] - 0.76)
    values["amplitude_dispersion"] = np.clip(steady + rng.normal(0, 0.06, len(steady)), 0.08, 1.5)
    return [(name, values[name], decimals) for name, decimals in DECIMALS.items()]


def _fits(displacement: Array, years: Array, wavelength_mm: float) -> dict[str, Array]:
    wave, time = 2 * np.pi * years, years - years.mean()
    design = np.stack([np.ones_like(time), time, np.cos(wave), np.sin(wave), time**2], axis=1)
    # One orthonormal basis for all fits: the first columns of it span the first columns of the design.
    basis, triangle = np.linalg.qr(design)
    # einsum and not a product of matrices: its sums do not depend on how many threads a library takes.
    along = np.einsum("nt,tp->pn", displacement, basis)
    power = np.einsum("nt,nt->n", displacement, displacement)

    def fit(columns: int) -> tuple[Array, Array, Array]:
        corner = np.linalg.inv(triangle[:columns, :columns])
        rmse = np.sqrt(np.maximum(power - (along[:columns] ** 2).sum(axis=0), 0) / len(years))
        return np.einsum("pq,qn->pn", corner, along[:columns]), np.sqrt((corner**2).sum(axis=1))[:, None] * rmse, rmse

    yearly, yearly_error, _ = fit(YEARLY)
    full, full_error, rmse = fit(FULL)
    left = displacement - np.einsum("pn,tp->nt", along[:LINEAR], basis[:, :LINEAR])
    phase = (4 * np.pi / wavelength_mm * left).astype(np.float32)
    return {
        "rmse_ts": rmse,
        "temporal_coherence": np.hypot(np.cos(phase).mean(axis=1), np.sin(phase).mean(axis=1)).astype(float),
        "mean_velocity": yearly[1],
        "mean_velocity_std": yearly_error[1],
        "acceleration": 2 * full[4],
        "acceleration_std": 2 * full_error[4],
        "seasonality": np.hypot(yearly[2], yearly[3]),
        "seasonality_std": np.hypot(yearly_error[2], yearly_error[3]) / np.sqrt(2),
    }
