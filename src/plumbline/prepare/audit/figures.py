"""Count, tile by tile, how fast and noisy the points of each track are.

Speeds and noise are counted in bins, so that a city of any size is summed tile by tile: a quantile is then known to
half a bin, 4 %.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plumbline.prepare.response.decompose import TrackMeans
from plumbline.sources.points.track import Track

Float = NDArray[np.floating[Any]]
Counts = NDArray[np.int64]
EDGES = np.geomspace(1e-4, 1e6, 321)
"""Of the bins, mm or mm/yr; what lies beyond is in the first or the last."""
SAMPLED = 1000
"""Points of a tile and track whose noise is looked at."""
LEAST_STEPS = 5
"""From fewer steps between epochs no noise is told."""
INNER = 0.9
"""Share of a series' steps, the smallest, that tell its noise: jumps and outliers are among the others."""
INNER_VARIANCE = 0.62302
"""Mean square of a standard normal value among the smallest `INNER`: 1 - 2 q phi(q) / 0.9 with q = 1.6449."""
FAST = 0.99
SURE = 3.0
"""Standard errors taken off a velocity: a short track knows none to better than some 100 mm/yr."""
FIGURES = "track_figures.npz"


class TrackFigures(NamedTuple):
    """Figures of T tracks."""

    noise: Counts
    """(T, bins) sampled points by their noise from epoch to epoch, mm."""
    speed: Counts
    """(T, bins) buildings by the size of their mean velocity along LOS, less `SURE` standard errors, mm/yr."""


def noise_counts(tracks: Sequence[Track], own: Sequence[NDArray[np.intp]]) -> Counts:
    """Return the first of `TrackFigures`, from each track's points `own` (indices) in the tile without halo."""
    noise = [_bins(step_noise(track.displacement[_some(rows)])) for track, rows in zip(tracks, own, strict=True)]
    return np.array(noise, np.int64).reshape(-1, len(EDGES) - 1)


def speeds(means: TrackMeans) -> Counts:
    """Return the second of `TrackFigures`."""
    error = 1 / np.sqrt(np.where(means.weight > 0, means.weight, np.nan))
    size = np.maximum(np.abs(means.rate) - SURE * error, 0)
    return np.array([_bins(own) for own in size.T], np.int64).reshape(-1, len(EDGES) - 1)


def step_noise(displacement: Float) -> Float:
    """Return the standard deviation (N,) of each series' noise, from its steps; NaN for too few.

    The difference of two epochs holds the noise of both and hardly any movement; what noise shares from one epoch to
    the next is not seen. Steps across a missing value are left out. The root mean square of the smallest steps is taken
    and not their median, which is 0 where a product's last digit is coarse.

    Args:
        displacement: (N, T), NaN where missing.
    """
    step = np.diff(displacement.astype(float), axis=1)
    count = np.isfinite(step).sum(axis=1)
    told = count >= LEAST_STEPS
    noise = np.full(len(step), np.nan)
    if told.any():
        size = np.sort(np.abs(step[told] - np.nanmedian(step[told], axis=1, keepdims=True)), axis=1)
        inner = np.floor(INNER * count[told]).astype(int)
        square = np.where(np.arange(size.shape[1]) < inner[:, None], size, 0.0) ** 2
        noise[told] = np.sqrt(square.sum(axis=1) / inner / INNER_VARIANCE / 2)
    return noise


def report_tracks(names: Sequence[str], folders: Iterable[Path]) -> dict[str, dict[str, Any]]:
    """Report each track for the audit, from the tiles' files.

    Per track: `noise_mm` (median) and `speed_p99_mm_yr` (99th percentile over the buildings, of what each surely has);
    a figure is None without any value.
    """
    figures = []
    for folder in folders:
        with np.load(folder / FIGURES) as stored:
            figures.append(TrackFigures(**stored))
    all_noise, all_speed = (sum(parts) for parts in zip(*figures, strict=True)) if figures else ([], [])
    return {
        name: {"noise_mm": quantile(noise, 0.5), "speed_p99_mm_yr": quantile(speed, FAST)}
        for name, noise, speed in zip(names, all_noise, all_speed, strict=True)
    }


def quantile(counts: Counts, share: float) -> float | None:
    """Return the quantile `share` of the counted values, rounded down to the bin of one of them; None without any."""
    count = int(counts.sum())
    if not count:
        return None
    at = int(np.searchsorted(np.cumsum(counts), int(share * (count - 1)), side="right"))
    return float(np.sqrt(EDGES[at] * EDGES[at + 1]))


def _some(rows: NDArray[np.intp]) -> NDArray[np.intp]:
    return rows[np.linspace(0, len(rows) - 1, min(SAMPLED, len(rows))).astype(np.intp)]


def _bins(values: Float) -> Counts:
    known = values[np.isfinite(values)]
    return np.histogram(np.clip(known, EDGES[0], EDGES[-1]), EDGES)[0].astype(np.int64)
