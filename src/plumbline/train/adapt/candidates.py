"""Try the ways to change a base model on held-out buildings, and choose among them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy
from typing import NamedTuple

import torch
from torch import Tensor, nn

from plumbline.core.console import track
from plumbline.model.diagnosis import SEVERITY_FLOOR, Diagnosis
from plumbline.model.network import count_parameters
from plumbline.params import Train
from plumbline.params.adapt import Adapt
from plumbline.prepare.features.sequences import Sequences
from plumbline.train.adapt.lora import attach, blend, changes, count_changes
from plumbline.train.adapt.severity_shift import fit_level, set_level
from plumbline.train.calibrate.conformal import RawAnswers
from plumbline.train.calibrate.temperature import best_temperature, raw_answers
from plumbline.train.fit.short_run import quick_fit

PARTS = (0.25, 0.5, 1.0)
"""Of what is learned from the labels, tried on held-out buildings."""


def on_scale_of(base: Diagnosis, model: Diagnosis, raw: RawAnswers) -> RawAnswers:
    """Return the answers of `model` with severities standardised as those of `base`."""
    mean, sd = (base.get_buffer(f"severity_{name}") for name in ("mean", "sd"))
    own_mean, own_sd = (model.get_buffer(f"severity_{name}") for name in ("mean", "sd"))

    def moved(standard: Tensor) -> Tensor:
        return (standard * own_sd + own_mean - mean) / sd

    return raw._replace(severity_B3=moved(raw.severity_B3), standard_B=moved(raw.standard_B))


def building_losses(raw: RawAnswers, quadrant_weight: float, severity_weight: float) -> Tensor:
    """Return (B,) training loss of each building: it is smoother than shares of right answers.

    Quadrants at their best temperature, which is set anew anyway; of severities the error of the middle.
    """
    defined = raw.quadrant_B >= 0
    found_B = severity_weight * (raw.severity_B3[:, 1] - raw.standard_B).abs()
    if defined.any():
        logits = raw.logits_B4[defined] / best_temperature(raw.logits_B4, raw.quadrant_B, raw.accepted_B4)
        target = raw.accepted_B4[defined].to(logits)
        own = nn.functional.cross_entropy(logits, target / target.sum(1, keepdim=True), reduction="none")
        found_B[defined] += quadrant_weight * own / defined.float().mean()
    return found_B


def chance_of_less(before_B: Tensor, after_B: Tensor) -> float:
    """Return the probability that mean errors `after_B` are less than `before_B`, on the same buildings.

    The mean difference over its standard error is taken as normal, with all means equally probable beforehand.
    """
    less_B = (before_B - after_B).double()
    mean, spread = float(less_B.mean()), float(less_B.std()) if len(less_B) > 1 else 0.0
    if not spread:
        return float(mean > 0)
    return 0.5 * (1 + math.erf(mean / spread * (len(less_B) / 2) ** 0.5))


def first_as_good(found: Sequence[Tensor], errors: float) -> int:
    """Return the simplest way that is not worse than the best by more than `errors` standard errors.

    The error is that of the mean difference between the two, building by building (the one-standard-error rule of
    Breiman et al. 1984, for pairs).

    Args:
        found: losses (B,) of each way, of the same buildings, the simplest way first.
        errors: 0 takes the best.
    """
    best = min(range(len(found)), key=lambda number: float(found[number].mean()))
    for number, own in enumerate(found[:best]):
        if float(own.mean()) > float(found[0].mean()):
            continue  # not clearly worse than the best, and yet worse than no change
        more_B = own - found[best]
        if float(more_B.mean()) <= errors * float(more_B.std()) / len(more_B) ** 0.5:
            return number
    return best


class Way(NamedTuple):
    """Changes of an adapter to its base; each way is tried on held-out buildings, the simplest first."""

    level: float = 0.0
    """How far severities are put to the level of the labels, 0 to 1."""
    part: float = 0.0
    """How much is kept of low-rank changes that are fitted to the labels."""


WHOLE = Way(level=1.0)


class Fold(NamedTuple):
    """One held-out fold, and the others."""

    others: Sequences
    own: Sequences


def unchanged(base: Diagnosis, params: Adapt) -> Diagnosis:
    """Return a copy of `base` with changes attached that are still zero; equal for equal seeds.

    Of the default targets it has the first ones, as many as `params.max_share` allows; at least one.
    """
    if "targets" in params.model_fields_set:
        return _attached(base, params, params.targets)
    for number in range(len(params.targets), 0, -1):
        model = _attached(base, params, params.targets[:number], lenient=True)
        if share(model) <= params.max_share:
            break
    return model


def _attached(base: Diagnosis, params: Adapt, targets: list[str], lenient: bool = False) -> Diagnosis:
    torch.manual_seed(params.seed)  # the first changes are drawn here
    model = deepcopy(base)
    attach(model.network, targets, params.unfreeze, params.rank, params.alpha, lenient=lenient)
    return model.eval()


def share(model: Diagnosis) -> float:
    """Return the number of values in the changes, as a share of the network's own parameters."""
    trained = count_changes(model.network)
    return trained / (count_parameters(model.network)["total"] - trained)


def changed(start: Diagnosis, sequences: Sequences, losses: Train, late_epoch: int) -> Diagnosis:
    """Return a copy of `start` with its changes fitted to labelled buildings.

    Args:
        start: a model with changes attached. sequences: labelled buildings. losses: how to fit.
        late_epoch: from which on whole changes join the low-rank ones.
    """
    model = deepcopy(start)
    late = [change for change in changes(model.network).values() if change.late]
    quick_fit(model, sequences, losses, late, late_epoch, section="adapt")
    return model


def try_ways(
    base: Diagnosis, start: Diagnosis, folds: list[Fold], params: Adapt
) -> tuple[RawAnswers, dict[Way, RawAnswers]]:
    """Return the answers of base and of each way for held-out buildings, on the base's scale, simplest way first."""
    said: dict[Way, list[RawAnswers]] = {}

    def answer(way: Way, model: Diagnosis, own: Sequences) -> None:
        said.setdefault(way, []).append(on_scale_of(base, model, raw_answers(model, own)))

    for fold in folds:
        for way in (Way(), WHOLE):
            answer(way, made(start, fold.others, params, way), fold.own)
    before, after = (_joined(said.pop(way)) for way in (Way(), WHOLE))
    level = round(chance_of_less(*(_errors(base, raw) for raw in (before, after))), 3)
    for fold in track(folds, len(folds), "adapt: folds"):
        model = made(start, fold.others, params, Way(level))
        answer(Way(level), model, fold.own)
        fitted = changed(model, fold.others, params.as_train(), params.late_epoch)
        for part in PARTS:
            answer(Way(level, part), _blended(fitted, model, part), fold.own)
    return before, {way: _joined(own) for way, own in said.items()}


def _joined(said: list[RawAnswers]) -> RawAnswers:
    return RawAnswers(*(torch.cat(parts) for parts in zip(*said, strict=True)))


def _errors(base: Diagnosis, raw: RawAnswers) -> Tensor:
    """Return (B,) absolute errors of severity, permille."""
    return (base.permille(raw.severity_B3[:, 1]) - label_permille(base, raw.standard_B)).abs()


def label_permille(model: Diagnosis, standard_B: Tensor) -> Tensor:
    """Return labels in permille, without the upper bound that `Diagnosis.permille` sets for answers."""
    mean, sd = model.get_buffer("severity_mean"), model.get_buffer("severity_sd")
    return (standard_B * sd + mean).exp() - SEVERITY_FLOOR


def made(start: Diagnosis, sequences: Sequences, params: Adapt, way: Way) -> Diagnosis:
    """Return the model that a way makes from labelled buildings."""
    model = deepcopy(start)
    if way.level:
        raw = raw_answers(start, sequences)
        set_level(model, fit_level(raw.severity_B3[:, 1], raw.standard_B).times(way.level))
    if not way.part:
        return model
    return _blended(changed(model, sequences, params.as_train(), params.late_epoch), model, way.part)


def _blended(fitted: Diagnosis, before: Diagnosis, part: float) -> Diagnosis:
    model = deepcopy(fitted)
    blend(model.network, before.network, part)
    return model
