"""Score fields: RMSE, PSNR, SSIM, CRPS, coverage."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from scipy.special import erf

from plumbline.core.arrays import Float
from plumbline.core.console import track
from plumbline.fields.model.sampling import (
    DenoisingModel,
    Restored,
    component_distances,
    draw_samples,
    seen_components,
    summarise,
)
from plumbline.fields.model.slopes import gradient
from plumbline.fields.model.spread import Spread
from plumbline.fields.prepare.conditions import SceneSet, describe

WINDOW = 7
"""Cells of a side of the window of the structural similarity."""


def normal_crps(error: Float, deviation: Float) -> Float:
    """Return the continuous ranked probability score of a normal distribution (Gneiting and
    Raftery 2007, eq. 21)."""
    z = error / deviation
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    return np.asarray(
        deviation * (z * erf(z / np.sqrt(2)) + 2 * density - 1 / np.sqrt(np.pi)), float
    )


def ssim(field: Float, true: Float) -> float:
    """Return the mean structural similarity (Wang et al. 2004, equation 13) in 7 x 7 cells,
    for the truth's range."""
    span = max(float(np.ptp(true)), 1e-6)
    first, second = (0.01 * span) ** 2, (0.03 * span) ** 2
    x, y = field.astype(float), true.astype(float)

    def mean(values: Float) -> Float:
        return np.asarray(ndimage.uniform_filter(values, WINDOW), float)

    mean_x, mean_y = mean(x), mean(y)
    size = WINDOW**2 / (WINDOW**2 - 1)
    var_x, var_y = size * (mean(x * x) - mean_x**2), size * (mean(y * y) - mean_y**2)
    covariance = size * (mean(x * y) - mean_x * mean_y)
    share = (2 * mean_x * mean_y + first) * (2 * covariance + second)
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
"""Number of resampled sets of scenes that the bound of a ratio is estimated from."""


class ScoreSettings(NamedTuple):
    """Settings by which test scenes are restored."""

    steps: int
    samples: int
    eta: float
    seed: int
    cell_m: float
    window: int
    """Cells of a side of the middle of each scene."""


def restore_scenes(
    model: DenoisingModel, spread: Spread, scenes: SceneSet, settings: ScoreSettings, label: str
) -> list[Figures]:
    """Restore scenes and return the figures of each: means over up and east, or of LOS if
    seen from one direction.

    Figures are NaN where no cell is near enough to a scatterer, and infinitely bad where an answer
    is no number.
    """
    figures = []
    for number in track(range(len(scenes)), len(scenes), label):
        maps, truth = middle(scenes, number, settings.window)
        rng = np.random.default_rng([settings.seed, number])
        names = seen_components(maps)
        drawn = draw_samples(
            model,
            maps,
            names,
            steps=settings.steps,
            samples=settings.samples,
            eta=settings.eta,
            rng=rng,
        ).weighted(spread)
        distance_m = component_distances(maps, names, settings.cell_m)
        is_near = distance_m <= spread.farthest_m
        covariance = scenes.covariance(number)
        restored = [summarise(drawn, name, spread, distance_m, covariance) for name in drawn.names]
        parts = [
            _score_component(component, true, is_near, settings.cell_m)
            for component, true in zip(restored, truth, strict=False)
        ]
        figures.append(_average_figures(parts))
    return figures


def process_figures(scenes: SceneSet, farthest_m: float, settings: ScoreSettings) -> list[Figures]:
    """Return the figures of each scene, as `restore_scenes` does, for the Gaussian process."""
    figures = []
    for number in range(len(scenes)):
        maps, truth = middle(scenes, number, settings.window)
        names = seen_components(maps)
        is_near = component_distances(maps, names, settings.cell_m) <= farthest_m
        parts = [
            _score_component(
                Restored(maps[k], maps[2 + k], NORMAL_90 * maps[2 + k]),
                truth[k],
                is_near,
                settings.cell_m,
            )
            for k in range(len(names))
        ]
        figures.append(_average_figures(parts))
    return figures


def paired(
    figures: Sequence[Figures], references: Sequence[Figures], metric: str
) -> tuple[list[float], list[float]]:
    """Return a metric of two models over the scenes in which both have a number."""
    pairs = [(a[metric], b[metric]) for a, b in zip(figures, references, strict=True)]
    complete = [pair for pair in pairs if not any(map(math.isnan, pair))]
    return [value for value, _ in complete], [reference for _, reference in complete]


def ratio_bound(values: Sequence[float], references: Sequence[float], confidence: float) -> float:
    """Return a one-sided upper bound of the ratio of means over the same scenes, by
    resampling them (Efron 1979).

    Decision 11 requires the bound: a mean does not rule out that a loss is chance.
    """
    a, b = np.asarray(values, float), np.asarray(references, float)
    drawn = np.random.default_rng(0).integers(0, len(a), (RESAMPLES, len(a)))
    ratio: NDArray[np.floating[Any]] = a[drawn].mean(axis=1) / np.maximum(
        b[drawn].mean(axis=1), 1e-12
    )
    return float(np.quantile(ratio, confidence))


def middle(
    scenes: SceneSet, number: int, window: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the maps and the truth of a scene's middle, `window` cells a side."""
    first = max(0, (scenes.truth.shape[-1] - window) // 2)
    cut = (slice(None), slice(first, first + window), slice(first, first + window))
    return np.asarray(scenes.maps[number])[cut], np.asarray(scenes.truth[number])[cut]


def _score_component(
    restored: Restored, true: Float, is_near: NDArray[np.bool_], cell_m: float
) -> Figures:
    if not is_near.any():
        return dict.fromkeys(METRICS, float("nan"))
    mean, deviation, half = restored
    if not (np.isfinite(mean[is_near]).all() and np.isfinite(half[is_near]).all()):
        return {name: -np.inf if name in HIGHER_IS_BETTER else np.inf for name in METRICS}
    filled = np.where(is_near, mean, true)  # cells without an answer have no error
    error = (mean - true)[is_near]
    return {
        "rmse_mm": float(np.sqrt((error**2).mean())),
        "psnr_db": float(
            20
            * np.log10(
                max(float(np.ptp(true)), 1e-3) / max(float(np.sqrt((error**2).mean())), 1e-3)
            )
        ),
        "ssim": ssim(filled, true),
        "gradient_error_mm_m": gradient_error(filled, true, cell_m) / float(is_near.mean()),
        "crps_mm": float(normal_crps(error, deviation[is_near]).mean()),
        "coverage": float((np.abs(error) <= half[is_near]).mean()),
    }


def _average_figures(parts: list[Figures]) -> Figures:
    return {name: float(np.mean([part[name] for part in parts])) for name in METRICS}


def largest_difference(
    reference: DenoisingModel, candidate: DenoisingModel, scenes: SceneSet, settings: ScoreSettings
) -> float:
    """Return the largest difference between two models' fields, mm, for one step, over
    eight scenes and three steps.

    The difference is infinite where an answer is no number.
    """
    largest_mm = 0.0
    for number in range(min(8, len(scenes))):
        conditions = describe(middle(scenes, number, settings.window)[0])
        noise = (
            np.random.default_rng(number)
            .standard_normal((2, *conditions.mean.shape))
            .astype(np.float32)
        )
        for step in np.linspace(0, len(reference.alphas) - 1, 3).astype(int):
            answers: list[Any] = [
                model.denoise(noise, int(step), conditions.channels)
                for model in (reference, candidate)
            ]
            difference_mm = float(
                (np.abs(answers[0] - answers[1]) * conditions.scale[:, None, None]).max()
            )
            largest_mm = max(largest_mm, difference_mm if np.isfinite(difference_mm) else np.inf)
    return largest_mm
