"""Fit the width of 90 % intervals on held-out scenes, and the largest distance with a field."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from plumbline.core.arrays import Float
from plumbline.core.console import log, track
from plumbline.core.errors import InputError
from plumbline.fields.model.denoiser import FieldDenoiser
from plumbline.fields.model.sampling import (
    DenoisingModel,
    component_distances,
    draw_samples,
    seen_components,
)
from plumbline.fields.model.scores import middle, normal_crps
from plumbline.fields.model.slopes import FIGURES, Slopes
from plumbline.fields.model.spread import (
    COMPONENTS,
    LEAST_MM,
    LEAST_SCATTER,
    PLACES,
    Component,
    Scale,
    Spread,
    describe_places,
)
from plumbline.fields.prepare.conditions import SceneSet
from plumbline.fields.train.calibrate_slopes import Drawn, fit_slopes, slope_cells
from plumbline.fields.train.quantiles import equal_shares, fit_quantile, held_out_shift
from plumbline.params.fields import Restoring

LEAST_CELLS = 400
MOST_SCENES, WINDOW = 240, 64
"""Largest number of scenes that are restored, and cells of a side of their middle."""
LEAST_MISSED_MM = 0.1
"""Error of the Gaussian process below which the samples cannot improve it."""
CELLS = 400
"""Number of cells of a scene that are fitted, drawn because neighbours are alike."""
MAX_ERROR_SHARE, ERROR_QUANTILE = 0.5, 0.68
"""Largest share of the movement's standard deviation that 68 % of the errors may reach where a
field is written: beyond, a map would show the method rather than the ground."""
LEAST_SCENES = 6
"""Smallest number of scenes by which a component has its gain and reach; below, all are used."""
FARTHEST_M = (40.0, 100.0)
ENDS = (0.005, 0.995)
"""Quantiles of a figure of the place to which its values are clipped."""
REACHES: tuple[float, ...] = tuple(np.arange(1.3, 2.61, 0.05).round(2).tolist())
"""Standard deviations from the mean to the ends of an interval; 1.64 for normal errors."""


class _Scene(NamedTuple):
    """n cells of one component of a scene."""

    number: int
    """Index of the scene."""
    name: str
    """Name of the component."""
    error: Float
    """Error of the samples' mean, mm."""
    beyond: Float
    """Difference of the samples' mean from that of the Gaussian process, mm."""
    process: Float
    """Standard deviation of the Gaussian process, mm."""
    distance: Float
    moved: float
    """Standard deviation of the truth, mm."""
    missed: float
    """Root mean square error of the Gaussian process, mm."""
    places: Float
    """(F, n) see `describe_places`; for the samples' whole scatter."""
    drawn: Drawn | None = None
    """Samples that slopes are fitted to; None for east, whose slope is not written."""


class TorchDenoiser:
    """The network in torch, as a `sampling.DenoisingModel`."""

    def __init__(self, model: FieldDenoiser) -> None:
        self.model = model.eval()
        self.alphas = model.alphas.double().cpu().numpy()

    def denoise(
        self, noisy: Float, step: int, conditions: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Return the clean field; see `sampling.DenoisingModel`."""
        device = next(self.model.parameters()).device
        conditions_BCHW = (
            torch.from_numpy(conditions).to(device)[None].expand(len(noisy), -1, -1, -1)
        )
        with torch.inference_mode():
            step_B = torch.full((len(noisy),), step, device=device)
            clean_BFHW = self.model(
                torch.from_numpy(noisy.astype(np.float32)).to(device), step_B, conditions_BCHW
            )
        return np.asarray(clean_BFHW.cpu().numpy(), np.float32)


def calibrate(
    model: FieldDenoiser,
    scenes: SceneSet,
    restore: Restoring,
    *,
    seed: int,
    cell_m: float,
    start: Spread | None = None,
) -> Spread:
    """Return the spread with which the intervals hold 90 % of the truth, in calm places and
    lively ones.

    Args:
        model: network. scenes: held-out scenes of all domains, which count by their scenes.
        restore: how fields are sampled. seed: draws the samples and the cells that are fitted.
        cell_m: side of a cell. start: spread of another model, from which few scenes move the
            weights little.

    Raises:
        InputError: no scene has a point near its middle.
    """
    return fit_spread(gather(TorchDenoiser(model), scenes, restore, seed, cell_m), cell_m, start)


def gather(
    model: DenoisingModel, scenes: SceneSet, restore: Restoring, seed: int, cell_m: float
) -> list[_Scene]:
    """Restore the middle of each scene, and return cells of it for each component."""
    gathered: list[_Scene] = []
    chosen = np.random.default_rng(seed).permutation(len(scenes))[:MOST_SCENES]
    for number in track(sorted(chosen.tolist()), len(chosen), "calibrate"):
        rng = np.random.default_rng([seed, number])
        maps, truth = middle(scenes, number, WINDOW)
        names = seen_components(maps)
        distance_m = component_distances(maps, names, cell_m)
        near_cells = np.flatnonzero(distance_m.ravel() <= FARTHEST_M[1])
        if not len(near_cells):
            continue
        window_samples = draw_samples(
            model,
            maps,
            names,
            steps=restore.steps,
            samples=restore.samples,
            eta=restore.eta,
            rng=rng,
        )
        cells = rng.choice(near_cells, min(CELLS, len(near_cells)), replace=False)
        for component, name in enumerate(names):
            samples, process = window_samples.of(name)
            mean, true = samples.mean(axis=0), truth[component]
            places = describe_places(
                maps, component, samples.std(axis=0, ddof=1), distance_m, scenes.covariance(number)
            )
            error, beyond, process_mm, distance = (
                np.asarray(part, float).ravel()[cells]
                for part in (mean - true, mean - maps[component], process, distance_m)
            )
            missed = float(np.sqrt(((maps[component] - true).ravel()[near_cells] ** 2).mean()))
            figures = places.reshape(len(PLACES), -1)[:, cells]
            drawn = Drawn(samples, maps[component], true, number, cells) if component == 0 else None
            gathered.append(
                _Scene(
                    number,
                    name,
                    error,
                    beyond,
                    process_mm,
                    distance,
                    float(true.std()),
                    missed,
                    figures,
                    drawn,
                )
            )
    return gathered


def fit_spread(gathered: list[_Scene], cell_m: float, start: Spread | None = None) -> Spread:
    """Fit the spread to cells of scenes; see `calibrate`.

    Raises:
        InputError: there is no scene.
    """
    if not gathered:
        raise InputError(
            "no scene to calibrate on with a point near its middle. Simulate more scenes.",
            key="scenes.no_near_point",
        )
    gains = {name: _fit_gain(_select_component(gathered, name)) for name in COMPONENTS}
    rows = [_apply_gain(row, gains[row.name]) for row in gathered]
    start = start or _unfitted_spread(rows)
    bases, weights = _fit(rows, start)
    bases = bases + _fit_shift(rows, start)
    parts = {"weights": weights[: len(PLACES)].tolist(), "bends": weights[len(PLACES) :].tolist()}
    spread = Spread(
        scale=Scale(**{**start.scale.model_dump(), **parts}),
        components={
            name: Component(gain=gains[name], base=base, reach=1.0)
            for name, base in zip(COMPONENTS, bases.tolist(), strict=True)
        },
        farthest_m=_fit_farthest(_select_component(rows, "up")),
        slopes=start.slopes,
    )
    for name, component in spread.components.items():
        component.reach = _fit_reach(_select_component(rows, name), spread)
    slope_sets = [
        slope_cells(
            row.drawn,
            spread.components[row.name].gain,
            spread.half_width(row.name, row.process, row.places),
            row.distance <= spread.farthest_m,
            cell_m,
        )
        for row in rows
        if row.drawn
    ]
    spread.slopes = fit_slopes([cells for cells in slope_sets if len(cells.wanted)], spread.slopes)
    summaries = (
        f"{n} gain {c.gain:.2f}, {c.reach:.2f} deviations to the ends"
        for n, c in spread.components.items()
    )
    log.info(
        "spread: %s; fields reach up to %.0f m from a point",
        ", ".join(summaries),
        spread.farthest_m,
    )
    return spread


def _select_component(rows: list[_Scene], name: str) -> list[_Scene]:
    """Return the scenes with a component, or all scenes where these are few."""
    matching = [row for row in rows if row.name == name]
    return matching if len(matching) >= LEAST_SCENES else rows


def _fit_gain(rows: list[_Scene]) -> float:
    """Return the gain of the samples' difference from the process with the least squared error.

    A weighted least squares slope through 0, in which scenes count alike.
    """
    cross_sum = power_sum = 0.0
    for row in rows:
        weight = 1 / (row.missed**2 + LEAST_MISSED_MM**2)
        cross_sum += weight * float((-(row.error - row.beyond) * row.beyond).mean())
        power_sum += weight * float((row.beyond**2).mean())
    return float(np.clip(cross_sum / max(power_sum, 1e-12), 0, 1.2))


def _apply_gain(row: _Scene, gain: float) -> _Scene:
    """Multiply the samples' difference from the Gaussian process by `gain`."""
    places, number = row.places.copy(), PLACES.index("scatter")
    places[number] = np.log(
        np.maximum(gain * (np.exp(places[number]) - LEAST_SCATTER), 0) + LEAST_SCATTER
    )
    return row._replace(
        error=row.error - (1 - gain) * row.beyond, beyond=gain * row.beyond, places=places
    )


def _unfitted_spread(rows: list[_Scene]) -> Spread:
    """Return a spread with range, centre and unit of each figure of a place, and no weight yet."""
    figures = np.concatenate([row.places for row in rows], axis=1)
    low, high = np.quantile(figures, ENDS, axis=1)
    within = np.clip(figures, low[:, None], high[:, None])
    zeros = [0.0] * len(PLACES)
    scale = Scale(
        low=low.tolist(),
        high=high.tolist(),
        centre=within.mean(axis=1).tolist(),
        unit=np.maximum(within.std(axis=1), 1e-3).tolist(),
        weights=zeros,
        bends=zeros,
    )
    components = {name: Component(base=0.0, reach=1.0) for name in COMPONENTS}
    slopes = Slopes(base=0.0, weights=[0.0] * len(FIGURES))
    return Spread(scale=scale, components=components, farthest_m=FARTHEST_M[0], slopes=slopes)


def _needed_log(row: _Scene) -> Float:
    """Return the logarithm of the factor by which the interval would end at the error."""
    half = np.sqrt(np.maximum(row.error**2 - LEAST_MM**2, LEAST_MM**2))
    return np.asarray(np.log(half / np.maximum(row.process, LEAST_MM)), float)


def _fit(rows: list[_Scene], start: Spread) -> tuple[Float, Float]:
    """Return bases of components, and weights, of the quantile `COVERAGE` of needed factors.

    Scenes count alike. The penalty is on changes of the weights of `start`, and on differences
    between the changes of its bases.
    """
    start_bases = np.array([start.components[name].base for name in COMPONENTS])
    sizes = [len(row.error) for row in rows]
    component = np.repeat([COMPONENTS.index(row.name) for row in rows], sizes)
    design = np.concatenate([start.scale.standard(row.places).T for row in rows])
    wanted = np.concatenate([_needed_log(row) for row in rows])
    weights = np.array(start.scale.weights + start.scale.bends)
    residuals = wanted - start_bases[component] - design @ weights
    is_component = np.equal.outer(component, np.arange(len(COMPONENTS))).astype(float)
    base_change, weight_changes = fit_quantile(
        np.hstack([is_component, design]),
        residuals,
        equal_shares(sizes),
        len({row.number for row in rows}),
    )
    return start_bases + base_change + weight_changes[: len(COMPONENTS)], weights + weight_changes[
        len(COMPONENTS) :
    ]


def _fit_shift(rows: list[_Scene], start: Spread) -> float:
    """Return the shift of all bases that gives `COVERAGE` in scenes that were not fitted."""

    def log_residuals(row: _Scene, fitted: tuple[Float, Float]) -> Float:
        bases, weights = fitted
        logarithm = (
            _needed_log(row)
            - bases[COMPONENTS.index(row.name)]
            - weights @ start.scale.standard(row.places)
        )
        return np.asarray(logarithm, float)

    return held_out_shift(
        rows, [row.number for row in rows], lambda some: _fit(some, start), log_residuals
    )


def _fit_reach(rows: list[_Scene], spread: Spread) -> float:
    """Return the standard deviations from mean to end of the interval with the least CRPS."""
    halves = [spread.half_width(row.name, row.process, row.places) for row in rows]
    # Each scene in units of its movement: one that moves much would outweigh all others.
    scores = [
        sum(
            normal_crps(row.error, half / reach).mean() / (row.moved + 0.3)
            for row, half in zip(rows, halves, strict=True)
        )
        for reach in REACHES
    ]
    return REACHES[int(np.argmin(scores))]


def _fit_farthest(rows: list[_Scene]) -> float:
    """Return the distance up to which errors are at most `MAX_ERROR_SHARE` of the movement."""
    moving = [row for row in rows if row.moved > 1.0]
    if not moving:
        return FARTHEST_M[1]
    share = np.concatenate([np.abs(row.error) / row.moved for row in moving])
    distance = np.concatenate([row.distance for row in moving])
    for low, high in itertools.pairwise(np.arange(0, FARTHEST_M[1] + 1, 20.0)):
        ring_share = share[(distance > low) & (distance <= high)]
        if (
            len(ring_share) >= LEAST_CELLS // 4
            and np.quantile(ring_share, ERROR_QUANTILE) > MAX_ERROR_SHARE
            and high > FARTHEST_M[0]
        ):
            return float(max(low, FARTHEST_M[0]))
    return FARTHEST_M[1]
