"""Count, tile by tile, how fast and noisy the points of each track are.

Speeds and noise are counted in bins, so that a city of any size is summed tile by tile: a
quantile is then known to half a bin, 4 %.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plumbline.core.arrays import Float
from plumbline.prepare.response.decompose import TrackMeans
from plumbline.sources.points.track import Track

Counts = NDArray[np.int64]
EDGES = np.geomspace(1e-4, 1e6, 321)
"""Edges of the bins, mm or mm/yr; values beyond are in the first or the last."""
SAMPLED = 1000
"""Number of points of a tile and track of which the noise is estimated."""
LEAST_STEPS = 5
"""Smallest number of steps between epochs from which noise is estimated."""
INNER = 0.9
"""Share of a series' steps, the smallest, that show its noise: jumps and outliers are among the
others."""
INNER_VARIANCE = 0.62302
"""Mean square of a standard normal value among the smallest `INNER`: 1 - 2 q phi(q) / 0.9
with q = 1.6449."""
FAST = 0.99
SURE = 3.0
"""Number of standard errors by which a velocity is reduced: those of a short track are some 100
mm/yr."""
FIGURES = "track_figures.npz"


class TrackFigures(NamedTuple):
    """Figures of T tracks."""

    noise: Counts
    """(T, bins) sampled points by their noise from epoch to epoch, mm."""
    speed: Counts
    """(T, bins) buildings by the size of their mean velocity along LOS, less `SURE`
    standard errors, mm/yr."""


def noise_counts(tracks: Sequence[Track], tile_rows: Sequence[NDArray[np.intp]]) -> Counts:
    """Return `TrackFigures.noise` of each track's points `tile_rows`, in the tile without halo."""
    noise = [
        _count_bins(step_noise(track.displacement[_sample_rows(rows)]))
        for track, rows in zip(tracks, tile_rows, strict=True)
    ]
    return np.array(noise, np.int64).reshape(-1, len(EDGES) - 1)


def speeds(means: TrackMeans) -> Counts:
    """Return `TrackFigures.speed`."""
    error = 1 / np.sqrt(np.where(means.weight > 0, means.weight, np.nan))
    size = np.maximum(np.abs(means.rate) - SURE * error, 0)
    return np.array([_count_bins(track_speeds) for track_speeds in size.T], np.int64).reshape(
        -1, len(EDGES) - 1
    )


def step_noise(displacement: Float) -> Float:
    """Return the standard deviation (N,) of each series' noise, from its steps; NaN for too few.

    The difference of two epochs contains the noise of both and hardly any movement; noise that both
    share cancels. Steps across a missing value are left out. The root mean square of the smallest
    steps is taken and not their median, which is 0 where a product's last digit is coarse.

    Args:
        displacement: (N, T), NaN where missing.
    """
    step = np.diff(displacement.astype(float), axis=1)
    count = np.isfinite(step).sum(axis=1)
    has_steps = count >= LEAST_STEPS
    noise = np.full(len(step), np.nan)
    if has_steps.any():
        size = np.sort(
            np.abs(step[has_steps] - np.nanmedian(step[has_steps], axis=1, keepdims=True)), axis=1
        )
        inner = np.floor(INNER * count[has_steps]).astype(int)
        square = np.where(np.arange(size.shape[1]) < inner[:, None], size, 0.0) ** 2
        # A difference has twice the variance of one epoch.
        noise[has_steps] = np.sqrt(square.sum(axis=1) / inner / INNER_VARIANCE / 2)
    return noise


def report_tracks(names: Sequence[str], folders: Iterable[Path]) -> dict[str, dict[str, Any]]:
    """Report each track for the audit, from the tiles' files.

    Per track: `noise_mm` (median) and `speed_p99_mm_yr` (99th percentile over the
    buildings, of what each surely has); a figure is None without any value.
    """
    figures = []
    for folder in folders:
        with np.load(folder / FIGURES) as stored:
            figures.append(TrackFigures(**stored))
    all_noise, all_speed = (
        (sum(parts) for parts in zip(*figures, strict=True)) if figures else ([], [])
    )
    return {
        name: {"noise_mm": quantile(noise, 0.5), "speed_p99_mm_yr": quantile(speed, FAST)}
        for name, noise, speed in zip(names, all_noise, all_speed, strict=True)
    }


def quantile(counts: Counts, share: float) -> float | None:
    """Return the quantile `share` of the counted values, rounded down to the bin of one of
    them; None without any."""
    count = int(counts.sum())
    if not count:
        return None
    at = int(np.searchsorted(np.cumsum(counts), int(share * (count - 1)), side="right"))
    return float(np.sqrt(EDGES[at] * EDGES[at + 1]))


def _sample_rows(rows: NDArray[np.intp]) -> NDArray[np.intp]:
    return rows[np.linspace(0, len(rows) - 1, min(SAMPLED, len(rows))).astype(np.intp)]


def _count_bins(values: Float) -> Counts:
    finite = values[np.isfinite(values)]
    return np.histogram(np.clip(finite, EDGES[0], EDGES[-1]), EDGES)[0].astype(np.int64)
