"""Find patches of points that are off by half a wavelength from some epoch on, and remove the step.

Phase is known modulo one cycle, so a step of half a wavelength between epochs is ambiguous
(Hanssen 2001, section 2.3). The error is one of a patch of one track: neighbours have it at
the same epoch, with the same sign, and its size is that of a radar band. A movement of the
ground lasts some epochs, which distinguishes it from a step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from scipy.spatial import cKDTree

from plumbline.core.arrays import Float

HALF_WAVELENGTH_MM = {6: 27.7, 11: 15.5, 35: 28.1, 14: 121.2, 46: 118.1}
"""Half of the wavelength, mm, by the days between two passes over a place: Sentinel-1 (and
Radarsat's 24), TerraSAR-X, ERS and Envisat, ALOS-2, ALOS. Few formats have the wavelength, and all
have dates."""
REGULAR = 0.95
"""Share of the gaps between epochs that are whole cycles."""
SIDE, LEAST_SIDE = 7, 3
"""Epochs before and after a step in its fit, and the smallest number at the ends of a series."""
RAMP_EPOCHS = 5
"""Epochs of the fast movement that a step is compared with."""
PEAK_EPOCHS = 3
"""Epochs within which only the largest step counts."""
NEIGHBOURS, NEAR_M = 10, 90.0
MIN_SEED_RATIO = 14.0
"""Smallest log likelihood ratio of a step, for a point with its neighbours, that begins a patch."""
LEAST_PATCH = 6
"""Smallest number of points above `MIN_SEED_RATIO`, and of all points, in a patch."""
SIZE_BOUNDS = (0.82, 1.2)
"""Bounds of a patch's median step, in half wavelengths: snow and rain make steps of any size."""
NEIGHBOUR_RATIO, MAX_OWN_RATIO = 1.5, 10.0
"""Log likelihood of a neighbour with the same label (Potts prior), and cap of a point's own."""
ROUNDS = 8
PIECE = 2048


class _Steps(NamedTuple):
    """Fits after each epoch: (N, E), in standard deviations, by their scatter over the epochs."""

    step: Float
    ramp: Float
    size: Float
    """Size of the step, mm."""
    deviation: Float
    """Standard deviation of `size`, mm."""


def remove_steps(
    displacement: NDArray[np.float32], place: Float, epochs: NDArray[np.datetime64]
) -> NDArray[np.float32]:
    """Return the series of one track without steps of half a wavelength: the same array
    where there is none.

    Args:
        displacement: (N, T) mm, NaN where missing. place: (N, 2) m.
        epochs: (T,) dates, which give the wavelength.
    """
    half = half_wavelength(epochs)
    if half is None or len(epochs) < 2 * SIDE or len(place) < 2 * LEAST_PATCH:
        return displacement
    near = _neighbours(place)
    steps = _fit_steps(_fill_gaps(displacement))
    patches = _find_patches(steps, _pool(steps, near), near, half)
    if not patches:
        return displacement
    corrected = displacement.copy()
    for first, sign in patches:
        corrected[:, first:] -= np.float32(half) * sign[:, None]
    return corrected


def half_wavelength(epochs: NDArray[np.datetime64]) -> float | None:
    """Return half of the wavelength, mm, by the repeat cycle; None if the cycle is not listed."""
    gaps = np.diff(epochs) / np.timedelta64(1, "D")
    for days, half in HALF_WAVELENGTH_MM.items():
        if len(gaps) and (np.abs(gaps - days * np.round(gaps / days)) < 0.5).mean() >= REGULAR:
            return half
    return None


def _neighbours(place: Float) -> NDArray[np.intp]:
    """Return rows (N, k) of the nearest points, itself first and again in place of far ones."""
    distance, near = cKDTree(np.nan_to_num(place)).query(
        np.nan_to_num(place), k=min(NEIGHBOURS, len(place))
    )
    return np.where(distance <= NEAR_M, near, np.arange(len(place))[:, None])


def _fill_gaps(displacement: NDArray[np.float32]) -> Float:
    """Return the series with gaps filled by straight lines, and 0 where there is no value."""
    filled = displacement.astype(float)
    when = np.arange(filled.shape[1])
    for row in np.flatnonzero(np.isnan(filled).any(axis=1)):
        is_valid = np.isfinite(filled[row])
        filled[row] = (
            np.interp(when, when[is_valid], filled[row, is_valid]) if is_valid.any() else 0.0
        )
    return filled


def _fit_steps(series: Float) -> _Steps:
    """Fit a line with a step, and a line with a ramp, to the epochs around each epoch."""
    epochs = series.shape[1]
    firsts = np.arange(LEAST_SIDE, epochs - LEAST_SIDE + 1)
    size, ramp, weight = (np.zeros((len(series), epochs)) for _ in range(3))
    for first in firsts:
        low, high = max(0, first - SIDE), min(epochs, first + SIDE)
        when = np.arange(low, high) - first + 0.5
        line = np.linalg.qr(np.column_stack([np.ones_like(when), when]))[0]
        shapes = np.column_stack([when > 0, np.clip(when / RAMP_EPOCHS + 0.5, 0, 1)])
        shapes = shapes - line @ (line.T @ shapes)
        power = (shapes**2).sum(axis=0)
        projections = series[:, low:high] @ shapes
        size[:, first] = projections[:, 0] / power[0]
        weight[:, first] = np.sqrt(power[0])
        ramp[:, first] = projections[:, 1] / np.sqrt(power[1])
    step = size * weight
    noise = _deviation(step[:, firsts])
    # A series without noise has steps that are exact: a tenth of a millimetre is what
    # products write.
    deviation = np.divide(noise, weight, out=np.full_like(weight, np.inf), where=weight > 0)
    return _Steps(step / noise, ramp / _deviation(ramp[:, firsts]), size, deviation)


def _deviation(values: Float) -> Float:
    return np.asarray(np.maximum(1.4826 * _median(np.abs(values))[:, None], 0.1), float)


def _median(values: Float) -> Float:
    """Return the median along the second axis; several times as fast as `numpy.median`."""
    rising, count = np.sort(values, axis=1), values.shape[1]
    return np.asarray((rising[:, (count - 1) // 2] + rising[:, count // 2]) / 2, float)


def _pool(steps: _Steps, near: NDArray[np.intp]) -> _Steps:
    """Return medians over neighbours in units of their scatter, which delays by air enlarge."""
    parts: list[tuple[Float, ...]] = []
    for begin in range(0, len(near), PIECE):
        rows = near[begin : begin + PIECE]
        size = _median(steps.size[rows])
        scale = np.where(np.isfinite(steps.deviation[rows[:, 0]]), steps.deviation[rows[:, 0]], 1.0)
        step, ramp = size / scale, _median(steps.ramp[rows])
        noise = _deviation(step)
        parts.append((step / noise, ramp / _deviation(ramp), size, scale * noise))
    return _Steps(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def _find_patches(
    steps: _Steps, pooled: _Steps, near: NDArray[np.intp], half: float
) -> list[tuple[int, NDArray[np.int8]]]:
    """Return the patches that are off by `half` mm: first epoch, and sign (N,), 0 outside."""
    patches = []
    # A ramp fits a fast movement best at its middle: compare a step with the best ramp nearby.
    strong = np.abs(pooled.step)
    seeds = (strong >= _local_maximum(strong)) & (strong > _local_maximum(np.abs(pooled.ramp)))
    seeds &= _log_likelihood_ratio(np.abs(pooled.size), pooled.deviation, half) > MIN_SEED_RATIO
    for first in np.flatnonzero(seeds.sum(axis=0) >= LEAST_PATCH):
        for sign in (-1, 1):
            seed = seeds[:, first] & (np.sign(pooled.size[:, first]) == sign)
            gain = _log_likelihood_ratio(
                sign * steps.size[:, first], steps.deviation[:, first], half
            )
            inside = _grow(seed, gain.clip(-MAX_OWN_RATIO, MAX_OWN_RATIO), near)
            if min(seed.sum(), inside.sum()) < LEAST_PATCH:
                continue
            if (
                SIZE_BOUNDS[0] * half
                < np.median(sign * steps.size[inside, first])
                < SIZE_BOUNDS[1] * half
            ):
                patches.append((int(first), sign * inside.astype(np.int8)))
    return patches


def _log_likelihood_ratio(size: Float, deviation: Float, half: float) -> Float:
    """Return the log likelihood ratio of a step of `half` and of none."""
    return np.asarray((2 * size * half - half**2) / (2 * deviation**2), float)


def _local_maximum(values: Float) -> Float:
    """Return the largest of each row within `PEAK_EPOCHS` epochs."""
    return np.asarray(
        ndimage.maximum_filter1d(values, 2 * PEAK_EPOCHS + 1, axis=1, mode="constant"), float
    )


def _grow(seed: NDArray[np.bool_], gain: Float, near: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return the points of a patch by iterated conditional modes (Besag 1986), from its seed."""
    inside = seed
    for _ in range(ROUNDS):
        neighbours_inside = inside[near[:, 1:]]
        next_inside = neighbours_inside.any(axis=1) & (
            gain + NEIGHBOUR_RATIO * (2.0 * neighbours_inside - 1).sum(axis=1) > 0
        )
        if (next_inside == inside).all():
            break
        inside = next_inside
    return inside
