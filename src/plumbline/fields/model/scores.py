"""Score fields: RMSE, PSNR, SSIM, CRPS, coverage."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from scipy.special import erf

from plumbline.core.console import track
from plumbline.fields.model.sampling import Denoiser, draw_samples, summarise, told_by, told_distances
from plumbline.fields.model.slopes import gradient
from plumbline.fields.model.spread import Float, Spread
from plumbline.fields.prepare.conditions import SceneSet, describe

WINDOW = 7
"""Cells of a side of the window of the structural similarity."""


def normal_crps(error: Float, deviation: Float) -> Float:
    """Return the continuous ranked probability score of a normal distribution (Gneiting and Raftery 2007, eq. 21)."""
    z = error / deviation
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    return np.asarray(deviation * (z * erf(z / np.sqrt(2)) + 2 * density - 1 / np.sqrt(np.pi)), float)


def ssim(field: Float, true: Float) -> float:
    """Return the mean structural similarity (Wang et al. 2004, equation 13) in 7 x 7 cells, for the truth's range."""
    span = max(float(np.ptp(true)), 1e-6)
    first, second = (0.01 * span) ** 2, (0.03 * span) ** 2
    x, y = field.astype(float), true.astype(float)

    def mean(values: Float) -> Float:
        return np.asarray(ndimage.uniform_filter(values, WINDOW), float)

    mean_x, mean_y = mean(x), mean(y)
    size = WINDOW**2 / (WINDOW**2 - 1)
    var_x, var_y = size * (mean(x * x) - mean_x**2), size * (mean(y * y) - mean_y**2)
    both = size * (mean(x * y) - mean_x * mean_y)
    share = (2 * mean_x * mean_y + first) * (2 * both + second)
    share = share / ((mean_x**2 + mean_y**2 + first) * (var_x + var_y + second))
    edge = WINDOW // 2
    return float(share[edge:-edge, edge:-edge].mean())


def gradient_error(field: Float, true: Float, cell_m: float) -> float:
    """Return the mean absolute error of the steepest slope, mm/m."""
    return float(np.abs(gradient(field, cell_m) - gradient(true, cell_m)).mean())


METRICS = ("rmse_mm", "psnr_db", "ssim", "gradient_error_mm_m", "crps_mm", "coverage")
HIGHER_IS_BETTER = {"psnr_db", "ssim"}
NORMAL_90 = 1.6449
"""Standard deviations to the ends of the 90 % interval of a normal distribution."""
Figures = dict[str, float]
RESAMPLES = 2000
"""Draws by which the bound of a ratio is found."""


class Settings(NamedTuple):
    """How test scenes are restored."""

    steps: int
    samples: int
    eta: float
    seed: int
    cell_m: float
    window: int
    """Cells of a side of the middle of each scene."""


def restore_scenes(model: Denoiser, spread: Spread, scenes: SceneSet, how: Settings, what: str) -> list[Figures]:
    """Restore scenes and return the figures of each: means over up and east, or of LOS if seen from one direction.

    NaN where no cell is near enough to a scatterer to be told; infinite, for the worst, where an answer is no number.
    """
    found = []
    for number in track(range(len(scenes)), len(scenes), what):
        maps, truth = middle(scenes, number, how.window)
        rng = np.random.default_rng([how.seed, number])
        names = told_by(maps)
        drawn = draw_samples(model, maps, names, how.steps, how.samples, how.eta, rng).weighted(spread)
        away = told_distances(maps, names, how.cell_m)
        told = away <= spread.farthest_m
        parts = []
        for name, true in zip(drawn.names, truth, strict=False):
            one = summarise(drawn, name, spread, away, scenes.covariance(number))
            parts.append(_figures(one.mean, one.deviation, one.half_width, true, told, how.cell_m))
        found.append(_mean(parts))
    return found


def process_figures(scenes: SceneSet, farthest_m: float, how: Settings) -> list[Figures]:
    """Return the same figures for the Gaussian process."""
    found = []
    for number in range(len(scenes)):
        maps, truth = middle(scenes, number, how.window)
        names = told_by(maps)
        told = told_distances(maps, names, how.cell_m) <= farthest_m
        parts = [
            _figures(maps[k], maps[2 + k], NORMAL_90 * maps[2 + k], truth[k], told, how.cell_m)
            for k in range(len(names))
        ]
        found.append(_mean(parts))
    return found


def paired(rows: Sequence[Figures], others: Sequence[Figures], metric: str) -> tuple[list[float], list[float]]:
    """Return the figures of two models over the scenes in which both have one."""
    both = [(a[metric], b[metric]) for a, b in zip(rows, others, strict=True)]
    known = [pair for pair in both if not any(map(math.isnan, pair))]
    return [own for own, _ in known], [other for _, other in known]


def ratio_bound(own: Sequence[float], other: Sequence[float], confidence: float) -> float:
    """Return a one-sided upper bound of the ratio of means over the same scenes, by resampling them (Efron 1979).

    Decision 11 asks for the bound: a mean does not rule out that a loss is chance.
    """
    a, b = np.asarray(own, float), np.asarray(other, float)
    drawn = np.random.default_rng(0).integers(0, len(a), (RESAMPLES, len(a)))
    ratio: NDArray[np.floating[Any]] = a[drawn].mean(axis=1) / np.maximum(b[drawn].mean(axis=1), 1e-12)
    return float(np.quantile(ratio, confidence))


def middle(scenes: SceneSet, number: int, window: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the maps and the truth of a scene's middle, `window` cells a side."""
    first = max(0, (scenes.truth.shape[-1] - window) // 2)
    cut = (slice(None), slice(first, first + window), slice(first, first + window))
    return np.asarray(scenes.maps[number])[cut], np.asarray(scenes.truth[number])[cut]


def _figures(
    mean: Float, deviation: Float, half: Float, true: Float, told: NDArray[np.bool_], cell_m: float
) -> Figures:
    if not told.any():
        return dict.fromkeys(METRICS, float("nan"))
    if not (np.isfinite(mean[told]).all() and np.isfinite(half[told]).all()):
        return {name: -np.inf if name in HIGHER_IS_BETTER else np.inf for name in METRICS}
    filled = np.where(told, mean, true)  # where nothing is told, nothing is judged
    error = (mean - true)[told]
    share = float(told.mean())
    return {
        "rmse_mm": float(np.sqrt((error**2).mean())),
        "psnr_db": float(20 * np.log10(max(float(np.ptp(true)), 1e-3) / max(float(np.sqrt((error**2).mean())), 1e-3))),
        "ssim": ssim(filled, true),
        "gradient_error_mm_m": gradient_error(filled, true, cell_m) / share,
        "crps_mm": float(normal_crps(error, deviation[told]).mean()),
        "coverage": float((np.abs(error) <= half[told]).mean()),
    }


def _mean(parts: list[Figures]) -> Figures:
    return {name: float(np.mean([part[name] for part in parts])) for name in METRICS}


def largest_difference(reference: Denoiser, other: Denoiser, scenes: SceneSet, how: Settings) -> float:
    """Return the largest difference between two models' fields, mm, for one step, over eight scenes and three steps.

    Infinite where an answer is no number.
    """
    most = 0.0
    for number in range(min(8, len(scenes))):
        told = describe(middle(scenes, number, how.window)[0])
        noise = np.random.default_rng(number).standard_normal((2, *told.mean.shape)).astype(np.float32)
        for step in np.linspace(0, len(reference.alphas) - 1, 3).astype(int):
            both: list[Any] = [model.denoise(noise, int(step), told.channels) for model in (reference, other)]
            apart = float((np.abs(both[0] - both[1]) * told.scale[:, None, None]).max())
            most = max(most, apart if np.isfinite(apart) else np.inf)
    return most
