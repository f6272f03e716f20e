"""The mean movement of each series on its own: a robust line, beside an offset and an annual term."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from plumbline.prepare.series.noise_part import COLUMNS, trusted
from plumbline.prepare.series.temporal_basis import LINE, amplitudes, fitted, make_basis, normal_matrices

Float = NDArray[np.floating[Any]]
CHUNK = 2048
"""Series worked on at a time: few enough for their arrays to stay in the processor's cache."""
LEAST_ERROR = 0.2
"""mm; no line of one series is known better."""


def line_changes(displacement: NDArray[np.float32], when: Float, years: float) -> tuple[Float, Float]:
    """(N,) change over the observation period along a line, and its standard error if all noise were white, mm.

    Other than `estimate_trend`, it asks nothing of a series' building, so that it can be asked before that is known.

    Args:
        displacement: (N, T) mm, NaN where missing; `COLUMNS` values a series and more.
        when: (T,) epochs as a share of the observation period, 0 to 1.
        years: length of the observation period.
    """
    basis, parts = make_basis(when, years), [np.zeros((2, 0))]
    for start in range(0, len(displacement), CHUNK):
        series = displacement[start : start + CHUNK]
        known = np.isfinite(series)
        y, weight = np.where(known, series, 0).astype(float), known.astype(float)
        line = np.full(len(y), LINE, np.intp)
        for _ in range(2):
            normal = normal_matrices(basis, weight)
            found = amplitudes(basis, normal, weight * y, y)
            weight = trusted((y - fitted(basis, normal, found, line)) * known, known)
        normal = normal_matrices(basis, weight)
        found = amplitudes(basis, normal, weight * y, y)
        residual = (y - fitted(basis, normal, found, line)) * known
        variance = (weight * residual**2).sum(1) / np.maximum(weight.sum(1) - COLUMNS, 1)
        error = np.sqrt(variance / normal.own[:, LINE])
        parts.append(np.stack([found.amplitude[:, LINE], np.maximum(error, LEAST_ERROR)]))
    change, error = np.concatenate(parts, axis=1)
    return change, error
