"""Fit the spread on held-out scenes, so that 90 % means 90 %, and find the largest distance for a field."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import optimize

from plumbline.core.console import log, track
from plumbline.core.errors import InputError
from plumbline.fields.model.denoiser import FieldDenoiser
from plumbline.fields.model.sampling import (
    COMPONENTS,
    COVERAGE,
    LEAST_MM,
    Component,
    Float,
    Spread,
    draw_samples,
    told_by,
    told_distances,
)
from plumbline.fields.model.scores import middle, normal_crps
from plumbline.fields.prepare.conditions import SceneSet
from plumbline.params.fields import Restoring

BINS_M = (5.0, 15.0, 25.0, 45.0, 80.0)
LEAST_CELLS = 400
"""A bin of distance with fewer cells takes its neighbour's reach."""
MOST_SCENES, WINDOW = 48, 64
"""Scenes that are restored at most, and cells of a side of their middle."""
LEAST_MISSED_MM = 0.1
"""Where the Gaussian process misses less, nothing is left to gain."""
CELLS = 600
"""Of each scene, drawn to fit by; neighbours say the same."""
KNOWN_SHARE, MOST = 0.5, 0.68
"""A field is told as far from scatterers as most of its errors (68 %) are at most this share of the movement's
standard deviation: beyond, a map would rather show the method than the ground."""
FOLDS = 5
LEVELS: tuple[float, ...] = tuple(np.arange(COVERAGE, 0.9701, 0.005).round(3).tolist())
"""Quantiles that intervals may reach to."""
FARTHEST_M = (40.0, 100.0)


class _Cells(NamedTuple):
    """Errors, spreads and distances of n cells of all scenes, for one component."""

    error: Float
    samples: Float
    """Standard deviation of the samples, mm."""
    process: Float
    distance: Float
    moved: Float
    """Standard deviation of the truth in the cell's scene, mm."""
    beyond: Float
    """What the samples' mean says beyond the Gaussian process, mm."""
    missed: Float
    """Root mean square error of the Gaussian process in the cell's scene, mm."""
    scene: Float
    """Number of the cell's scene."""


class TorchDenoiser:
    """The network in torch, as a `sampling.Denoiser`."""

    def __init__(self, model: FieldDenoiser) -> None:
        self.model = model.eval()
        self.alphas = model.alphas.double().cpu().numpy()

    def denoise(self, noisy: Float, step: int, conditions: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the clean field; see `sampling.Denoiser`."""
        device = next(self.model.parameters()).device
        given = torch.from_numpy(conditions).to(device)[None].expand(len(noisy), -1, -1, -1)
        with torch.inference_mode():
            step_B = torch.full((len(noisy),), step, device=device)
            found = self.model(torch.from_numpy(noisy.astype(np.float32)).to(device), step_B, given)
        return np.asarray(found.cpu().numpy(), np.float32)


def calibrate(model: FieldDenoiser, scenes: SceneSet, restore: Restoring, seed: int, cell_m: float) -> Spread:
    """Return the spread with which the intervals hold 90 % of the truth, at every distance, in scenes such as these.

    Args:
        model: network. scenes: that nothing was trained on or chosen by; of more than `MOST_SCENES`, the first.
        restore: how fields are sampled. seed: of the samples and of the cells that are fitted. cell_m: side of a cell.

    Raises:
        InputError: no scene has a point near its middle.
    """
    return _spread(_gather(model, scenes, restore, seed, cell_m))


def _gather(
    model: FieldDenoiser, scenes: SceneSet, restore: Restoring, seed: int, cell_m: float
) -> dict[str, list[_Cells]]:
    """Restore the middle of each scene, and return cells of it by component."""
    denoiser = TorchDenoiser(model)
    gathered: dict[str, list[_Cells]] = {name: [] for name in COMPONENTS}
    count = min(len(scenes), MOST_SCENES)
    for number in track(range(count), count, "calibrate"):
        rng = np.random.default_rng([seed, number])
        maps, truth = middle(scenes, number, WINDOW)
        names = told_by(maps)
        away = told_distances(maps, names, cell_m)
        told = np.flatnonzero(away.ravel() <= FARTHEST_M[1])
        if not len(told):
            continue
        found = draw_samples(denoiser, maps, names, restore.steps, restore.samples, restore.eta, rng)
        for which, name in enumerate(names):
            samples, process = found.of(name)
            drawn = rng.choice(told, min(CELLS, len(told)), replace=False)
            mean, true = samples.mean(axis=0), truth[which]
            parts = (
                mean - true,
                samples.std(axis=0, ddof=1),
                process,
                away,
                np.full_like(mean, true.std()),
                mean - found.process_mean_mm[which],
                np.full_like(mean, np.sqrt(((found.process_mean_mm[which] - true) ** 2).ravel()[told].mean())),
                np.full_like(mean, number),
            )
            gathered[name].append(_Cells(*(np.asarray(part, float).ravel()[drawn] for part in parts)))
    return gathered


def _spread(gathered: dict[str, list[_Cells]]) -> Spread:
    if not gathered["up"] and not gathered["los"]:
        raise InputError("no scene to calibrate on with a point near its middle. Simulate more scenes.")
    # Where no scene tells one, another stands for it.
    parts = {name: gathered[name] or gathered["up"] or gathered["los"] for name in COMPONENTS}
    cells = {name: _Cells(*map(np.concatenate, zip(*own, strict=True))) for name, own in parts.items()}
    components = {name: _fit(own) for name, own in cells.items()}
    spread = Spread(
        distance_m=list(BINS_M),
        components=components,
        farthest_m=_farthest(_weighted(cells["up"], components["up"].gain)),
    )
    said = (
        f"{n} gain {c.gain:.2f}, {c.samples:.2f} x samples, {c.process:.2f} x process" for n, c in components.items()
    )
    log.info("spread: %s; told up to %.0f m from a point", ", ".join(said), spread.farthest_m)
    return spread


def _ratio(spread: Component, cells: _Cells) -> Float:
    """Return each cell's error in its standard deviations."""
    own = _weighted(cells, spread.gain)
    deviation = np.sqrt((spread.samples * own.samples) ** 2 + (spread.process * own.process) ** 2 + LEAST_MM**2)
    return np.asarray(np.abs(own.error) / deviation, float)


def _fit(cells: _Cells) -> Component:
    """Fit the shares by the least continuous ranked probability score, then the reach by quantiles."""
    found = _shares(cells)
    return found.model_copy(update={"reach": _reach(_ratio(found, cells), _bins(cells), _level(cells))})


def _level(cells: _Cells) -> float:
    """Return the quantile that intervals reach to, so that they hold `COVERAGE` in scenes that were not fitted.

    The cells of a scene err together, so that a fit follows its few scenes. Each fold of the scenes is held against a
    fit to the others (Vovk 2015, Cross-conformal predictors).
    """
    numbers = np.unique(cells.scene)
    folds = [cells.scene[:, None] == numbers[fold::FOLDS] for fold in range(min(FOLDS, len(numbers)))]
    if len(folds) < 2:
        return LEVELS[-1]
    held = np.zeros(len(LEVELS))
    for fold in folds:
        out = fold.any(axis=1)
        others, own = (_Cells(*(part[rows] for part in cells)) for rows in (~out, out))
        shares = _shares(others)
        known, ratio = _ratio(shares, others), _ratio(shares, own)
        for number, level in enumerate(LEVELS):
            reach = np.array(_reach(known, _bins(others), level))
            held[number] += (ratio <= reach[_bins(own)]).sum() / len(cells.error)
    return float(np.interp(COVERAGE, held, LEVELS))


def _bins(cells: _Cells) -> NDArray[np.intp]:
    return np.searchsorted(np.array(BINS_M), cells.distance)


def _reach(ratio: Float, number: NDArray[np.intp], level: float) -> list[float]:
    """Return the quantile `level` of the errors in each bin of distance."""
    whole = float(np.quantile(ratio, level))
    reach: list[float] = []
    for place in range(len(BINS_M) + 1):
        own = ratio[number == place]
        reach.append(float(np.quantile(own, level)) if len(own) >= LEAST_CELLS else (reach or [whole])[-1])
    return reach


def _gain(cells: _Cells) -> float:
    """Return the share of the samples' part beyond the Gaussian process that gives least error; scenes count alike."""
    weight = 1 / (cells.missed**2 + LEAST_MISSED_MM**2)
    start = cells.error - cells.beyond
    needed, said = float((-start * cells.beyond * weight).sum()), float((cells.beyond**2 * weight).sum())
    return float(np.clip(needed / max(said, 1e-12), 0, 1.2))


def _weighted(cells: _Cells, gain: float) -> _Cells:
    """Weight what the samples say beyond the Gaussian process by `gain`."""
    return cells._replace(error=cells.error - (1 - gain) * cells.beyond, samples=gain * cells.samples)


def _shares(cells: _Cells) -> Component:
    """Fit gain and shares; the reach is left empty."""
    gain = _gain(cells)
    own = _weighted(cells, gain)

    def score(logs: Float) -> float:
        deviation = np.sqrt((np.exp(logs[0]) * own.samples) ** 2 + (np.exp(logs[1]) * own.process) ** 2 + LEAST_MM**2)
        # Each cell in units of its scene's movement: one that moves much would outweigh all others.
        return float((normal_crps(own.error, deviation) / (own.moved + 0.3)).mean())

    best = optimize.minimize(score, np.log([1.0, 0.3]), method="Nelder-Mead", options={"maxiter": 200})
    samples, process = map(float, np.exp(best.x))
    return Component(gain=gain, samples=samples, process=process, reach=[])


def _farthest(cells: _Cells) -> float:
    """Return the distance up to which the error is at most `KNOWN_SHARE` of the movement, in moving scenes."""
    moving = cells.moved > 1.0
    share = np.abs(cells.error) / cells.moved
    edges = np.arange(0, FARTHEST_M[1] + 1, 20.0)
    for low, high in itertools.pairwise(edges):
        own = share[moving & (cells.distance > low) & (cells.distance <= high)]
        if len(own) >= LEAST_CELLS // 4 and np.quantile(own, MOST) > KNOWN_SHARE and high > FARTHEST_M[0]:
            return float(max(low, FARTHEST_M[0]))
    return FARTHEST_M[1]
