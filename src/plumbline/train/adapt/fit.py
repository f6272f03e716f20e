"""Fit an adapter to few labels: level of severities, temperature and interval; with many
labels, LoRA as well.

Another rule of surveying, another kind of building or a smoothed product changes all
severities alike. Two numbers need few labels.
"""

from __future__ import annotations

import math
from copy import deepcopy
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plumbline.core.errors import InputError
from plumbline.model.diagnosis import SEVERITY_FLOOR, Diagnosis
from plumbline.params import Prepare
from plumbline.params.serve import Adapt
from plumbline.prepare.features.definition import PREPARATION
from plumbline.prepare.features.sequences import Sequences
from plumbline.prepare.split import fold_blocks, number_blocks
from plumbline.train.adapt.adapter import BUFFERS, AboutAdapter, Adapter, Figures
from plumbline.train.adapt.lora import added_tensors, attach, changes, count_changes
from plumbline.train.calibrate.conformal import RawAnswers, set_or_move
from plumbline.train.calibrate.probabilities import best_temperature, raw_answers, set_probabilities
from plumbline.train.data.splits import FARTHEST, fit_statistics
from plumbline.train.fit.checkpoints import SplitScore, checkpoint_score
from plumbline.train.fit.short_run import quick_fit

FACTOR_SD, OFFSET_SD, MIN_FACTOR = 0.15, 0.5, 0.1
"""Prior standard deviations of the factor about 1 and of the offset about 0, in standardised
severities, and smallest factor: more damage never becomes less."""
HUBER = 1.345
"""Robust standard deviations from which on a building has less weight (Huber 1964)."""
ROUNDS = 20
"""Number of solutions, each with the weights of the one before."""


class Level(NamedTuple):
    """Line `factor * severity + offset` on standardised severities."""

    factor: float = 1.0
    offset: float = 0.0

    def times(self, share: float) -> Level:
        """Return the level at this share of the way from no change."""
        return Level(1 + share * (self.factor - 1), share * self.offset)


def fit_level(severity_B: Tensor, true_B: Tensor) -> Level:
    """Return the most probable level for standardised severities, by a robust line with
    normal priors.

    Args:
        severity_B: of the model. true_B: of the labels, on the same scale.
    """
    severity_B, true_B = severity_B.double(), true_B.double()
    design_B2 = torch.stack([severity_B, torch.ones_like(severity_B)], 1)
    precision_2 = torch.tensor([FACTOR_SD, OFFSET_SD], dtype=torch.double) ** -2
    prior_2 = torch.tensor([1.0, 0.0], dtype=torch.double)
    line_2 = prior_2
    for _ in range(ROUNDS):
        residual_B = (true_B - design_B2 @ line_2).abs()
        # The median of absolute residuals times 1.4826 is the standard deviation of a normal
        # distribution.
        spread = torch.clamp(1.4826 * residual_B.median(), min=1e-3)
        weight_B = 1 / torch.clamp(residual_B / (HUBER * spread), min=1.0) / spread**2
        normal_22 = design_B2.T @ (weight_B[:, None] * design_B2) + torch.diag(precision_2)
        line_2 = torch.linalg.solve(
            normal_22, design_B2.T @ (weight_B * true_B) + precision_2 * prior_2
        )
    return Level(max(float(line_2[0]), MIN_FACTOR), float(line_2[1]))


def set_level(model: Diagnosis, level: Level) -> None:
    """Shift the model's severities to that level, by changing the units of its answers and
    their limit."""
    mean, sd, limit = (model.get_buffer(f"severity_{name}") for name in ("mean", "sd", "limit"))
    standard = model.standard_severity(limit)
    mean.add_(sd * level.offset)
    sd.mul_(level.factor)
    limit.copy_((standard * sd + mean).exp() - SEVERITY_FLOOR)


def on_scale_of(base: Diagnosis, model: Diagnosis, raw: RawAnswers) -> RawAnswers:
    """Return the answers of `model` with severities standardised as those of `base`."""
    mean, sd = (base.get_buffer(f"severity_{name}") for name in ("mean", "sd"))
    model_mean, model_sd = (model.get_buffer(f"severity_{name}") for name in ("mean", "sd"))

    def rescale(standard: Tensor) -> Tensor:
        return (standard * model_sd + model_mean - mean) / sd

    return raw._replace(severity_B3=rescale(raw.severity_B3), standard_B=rescale(raw.standard_B))


def chance_of_less(before_B: Tensor, after_B: Tensor) -> float:
    """Return the probability that mean errors `after_B` are less than `before_B`, on the
    same buildings.

    The mean difference over its standard error is taken as normal, with all means equally
    probable beforehand.
    """
    less_B = (before_B - after_B).double()
    mean, spread = float(less_B.mean()), float(less_B.std()) if len(less_B) > 1 else 0.0
    if not spread:
        return float(mean > 0)
    return 0.5 * (1 + math.erf(mean / spread * (len(less_B) / 2) ** 0.5))


FOLDS, BLOCK_M = 5, 200.0
"""Number of parts in which labelled buildings are held out, and side of the blocks that
stay together, m."""


class TooFewLabels(InputError):
    """Too few labelled buildings to fit an adapter."""


def adapt(
    base: Diagnosis,
    base_sha256: str,
    sequences: Sequences,
    centre: NDArray[np.float64],
    *,
    params: Adapt,
    name: str,
    prepare: Prepare,
) -> Adapter:
    """Fit an adapter of `base`, which is unchanged, to labelled buildings.

    Every building is held out once, with its block: figures, temperature and interval are
    of buildings that were not fitted to. The adapter itself is fitted to all. Of the level,
    the share is used that equals the probability of smaller errors with it: few labels
    seldom prove what their mean shows (Bayesian model averaging, Hoeting et al. 1999).
    Low-rank changes are fitted from `min_lora_labels` on, and kept if held-out buildings
    are answered better.

    Args:
        base: a trained model; `base_sha256` names it, see `base_hash`.
        sequences: B labelled buildings.
        centre: (B, 2) easting and northing, m.
        params: section `adapt`.
        name: of the adapter.
        prepare: how the buildings were prepared.

    Raises:
        TooFewLabels: there are fewer buildings than `min_labels`, or fewer places than folds.
        InputError: the learning rate is too high.
    """
    if len(sequences) < params.min_labels:
        raise TooFewLabels(
            f"{len(sequences)} labelled buildings that can be judged found, {params.min_labels} "
            "needed (adapt.min_labels). Label more buildings.",
            key="labels.too_few",
        )
    fold_B = _folds(centre, params.seed)
    before, levelled = (
        held_out(base, base, sequences, fold_B=fold_B, params=params, level=level)
        for level in (0.0, 1.0)
    )
    level = round(chance_of_less(*(_errors(base, answers) for answers in (before, levelled))), 3)
    start, held = base, held_out(base, base, sequences, fold_B=fold_B, params=params, level=level)
    if len(sequences) >= params.min_lora_labels:
        changeable = with_changes(base, params)
        learned = held_out(base, changeable, sequences, fold_B=fold_B, params=params, level=level)
        if _score(base, learned).score > _score(base, held).score:
            start, held = changeable, learned
    model = fit_copy(start, sequences, params, level)
    _widen(model, sequences)
    held = on_scale_of(model, base, held)
    temperature = int((sequences.quadrant >= 0).sum()) >= params.min_temperature_labels
    interval = len(sequences) >= params.min_interval_labels
    if temperature:
        model.get_buffer("temperature").fill_(
            best_temperature(held.logits_B4, held.quadrant_B, held.accepted_B4)
        )
    if interval:
        set_or_move(model, held)
        set_probabilities(model, held)
    about = AboutAdapter(
        name=name,
        base_sha256=base_sha256,
        labels=len(sequences),
        level=level,
        parameters=count_changes(model.network),
        temperature_calibrated=temperature,
        interval_calibrated=interval,
        before=_figures(base, before),
        after=_figures(model, held),
        prepare=prepare,
        preparation=PREPARATION,
    )
    tensors = {f"network.{key}": value for key, value in added_tensors(model.network).items()}
    return Adapter(
        about, tensors | {f"buffer.{key}": model.get_buffer(key).clone() for key in BUFFERS}
    )


def with_changes(base: Diagnosis, params: Adapt) -> Diagnosis:
    """Return a copy of `base` with changes attached that are still zero; equal for equal seeds."""
    torch.manual_seed(params.seed)  # the first changes are drawn here
    model = deepcopy(base)
    attach(model.network, params.rank)
    return model.eval()


def fit_copy(start: Diagnosis, sequences: Sequences, params: Adapt, level: float) -> Diagnosis:
    """Return a copy of `start` with its level, and its changes if it has any, fitted to
    labelled buildings.

    Args:
        start: a model. sequences: labelled buildings. params: how changes are fitted.
        level: share of the way to the labels' level, 0 to 1.
    """
    model, answers = deepcopy(start), raw_answers(start, sequences)
    set_level(model, fit_level(answers.severity_B3[:, 1], answers.standard_B).times(level))
    if attached := changes(model.network):
        late = [change for change in attached.values() if change.late]
        quick_fit(
            model,
            sequences,
            params.as_train(),
            late=late,
            late_epoch=params.late_epoch,
            section="adapt",
        )
    return model


def held_out(
    base: Diagnosis,
    start: Diagnosis,
    sequences: Sequences,
    *,
    fold_B: NDArray[np.int64],
    params: Adapt,
    level: float,
) -> RawAnswers:
    """Return the answers, by fold, of models that are fitted to the other folds, on the
    scale of `base`.

    Args:
        base: see `on_scale_of`. start, params, level: see `fit_copy`.
        sequences: B labelled buildings. fold_B: fold of each.
    """
    parts = []
    for fold in range(FOLDS):
        fitting, testing = (
            sequences.take(np.flatnonzero(mask)) for mask in (fold_B != fold, fold_B == fold)
        )
        model = fit_copy(start, fitting, params, level)
        parts.append(on_scale_of(base, model, raw_answers(model, testing)))
    return RawAnswers(*(torch.cat(tensors) for tensors in zip(*parts, strict=True)))


def _errors(base: Diagnosis, raw: RawAnswers) -> Tensor:
    """Return (B,) absolute errors of severity, permille."""
    return (base.permille(raw.severity_B3[:, 1]) - label_permille(base, raw.standard_B)).abs()


def label_permille(model: Diagnosis, standard_B: Tensor) -> Tensor:
    """Return labels in permille, without the upper bound that `Diagnosis.permille` sets for
    answers."""
    mean, sd = model.get_buffer("severity_mean"), model.get_buffer("severity_sd")
    return (standard_B * sd + mean).exp() - SEVERITY_FLOOR


def _folds(centre: NDArray[np.float64], seed: int) -> NDArray[np.int64]:
    """Return (B,) fold of each building, by the largest blocks that are numerous enough.

    Raises:
        TooFewLabels: there are not enough of any size.
    """
    city, block_m = np.full(len(centre), ""), BLOCK_M
    while (count := len(number_blocks(centre, city, block_m).size)) < FOLDS and block_m > 1:
        block_m /= 2
    if count < FOLDS:
        raise TooFewLabels(
            f"{len(centre)} labelled buildings in {count} places, {FOLDS} places needed. Label "
            "more.",
            key="labels.too_few_places",
        )
    return fold_blocks(centre, city, FOLDS, block_m, seed)


def _widen(model: Diagnosis, sequences: Sequences) -> None:
    """Extend the model's novelty limits to buildings like these, beside those of the base's
    training."""
    refitted = deepcopy(model)
    fit_statistics(refitted, sequences, standardisation=False)
    model.get_buffer("severity_limit").clamp_(min=float(refitted.get_buffer("severity_limit")))
    geometry = torch.from_numpy(np.array(sequences.geometry, np.float32))
    farthest = FARTHEST * torch.quantile(model.novelty_distance(geometry), 0.999)
    model.get_buffer("novelty_limit").clamp_(min=float(farthest))
    middle, reach = model.get_buffer("geometry_middle"), model.get_buffer("geometry_reach")
    city_middle, city_reach = (
        refitted.get_buffer("geometry_middle"),
        refitted.get_buffer("geometry_reach"),
    )
    lowest = torch.minimum(middle - reach, city_middle - city_reach)
    highest = torch.maximum(middle + reach, city_middle + city_reach)
    bounded = reach.isfinite()
    middle[bounded], reach[bounded] = (
        ((lowest + highest) / 2)[bounded],
        ((highest - lowest) / 2)[bounded],
    )
    model.get_buffer("least_years").clamp_(max=float(refitted.get_buffer("least_years")))


def _score(model: Diagnosis, raw: RawAnswers) -> SplitScore:
    severity = model.permille(raw.severity_B3[:, 1]).numpy()
    true = label_permille(model, raw.standard_B).numpy()
    return checkpoint_score(
        raw.logits_B4.softmax(-1).numpy(), severity, raw.accepted_B4.numpy(), true
    )


def _figures(model: Diagnosis, raw: RawAnswers) -> Figures:
    """Return the `SplitScore` of raw answers, in the units of `model`; only the error if
    labels lack quadrants."""
    any_quadrant = bool((raw.quadrant_B >= 0).any())
    return {
        key: round(value, 4) if any_quadrant or key == "severity_mae" else None
        for key, value in _score(model, raw)._asdict().items()
    }
