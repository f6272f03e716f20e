"""Fit an adapter in several ways, compare them over folds, and choose.

Another rule of surveying, another kind of building or a smoothed product changes all severities alike. Two numbers
need few labels.
"""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Sequence
from copy import deepcopy
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from plumbline.core.console import log, track
from plumbline.core.errors import InputError
from plumbline.model.diagnosis import SEVERITY_FLOOR, Diagnosis
from plumbline.model.network import count_parameters
from plumbline.params import Prepare, Train
from plumbline.params.serve import Adapt
from plumbline.prepare.features.definition import PREPARATION
from plumbline.prepare.features.sequences import Sequences
from plumbline.prepare.split import fold_blocks, number_blocks
from plumbline.train.adapt.adapter import BUFFERS, AboutAdapter, Adapter, check_size
from plumbline.train.adapt.lora import attach, blend, changes, count_changes
from plumbline.train.calibrate.conformal import RawAnswers, set_or_move
from plumbline.train.calibrate.probabilities import best_temperature, raw_answers, set_probabilities
from plumbline.train.data.splits import FARTHEST, fit_statistics
from plumbline.train.fit.checkpoints import SplitScore, checkpoint_score
from plumbline.train.fit.short_run import quick_fit

FACTOR_SD, OFFSET_SD, LEAST_FACTOR = 0.15, 0.5, 0.1
"""How far factor and offset lie from 1 and 0, before any label is seen; of standardised severities;
and the smallest factor: more damage is never called less."""
HUBER = 1.345
"""In robust standard deviations: from where a building counts less (Huber 1964)."""
ROUNDS = 20


class Level(NamedTuple):
    """Line `factor * said + offset` on standardised severities."""

    factor: float = 1.0
    offset: float = 0.0

    def times(self, share: float) -> Level:
        """Return the level at this share of the way from no change."""
        return Level(1 + share * (self.factor - 1), share * self.offset)


def fit_level(said_B: Tensor, true_B: Tensor) -> Level:
    """Return the most probable level for standardised severities, by a robust line with normal priors.

    Args:
        said_B: what the model says. true_B: of the labels, on the same scale.
    """
    said_B, true_B = said_B.double(), true_B.double()
    design_B2 = torch.stack([said_B, torch.ones_like(said_B)], 1)
    precision_2 = torch.tensor([FACTOR_SD, OFFSET_SD], dtype=torch.double) ** -2
    prior_2 = torch.tensor([1.0, 0.0], dtype=torch.double)
    found_2 = prior_2
    for _ in range(ROUNDS):
        left_B = (true_B - design_B2 @ found_2).abs()
        spread = torch.clamp(1.4826 * left_B.median(), min=1e-3)
        weight_B = 1 / torch.clamp(left_B / (HUBER * spread), min=1.0) / spread**2
        normal_22 = design_B2.T @ (weight_B[:, None] * design_B2) + torch.diag(precision_2)
        found_2 = torch.linalg.solve(normal_22, design_B2.T @ (weight_B * true_B) + precision_2 * prior_2)
    return Level(max(float(found_2[0]), LEAST_FACTOR), float(found_2[1]))


def set_level(model: Diagnosis, level: Level) -> None:
    """Shift the model's severities to that level, by changing the units of its answers and their limit."""
    mean, sd, limit = (model.get_buffer(f"severity_{name}") for name in ("mean", "sd", "limit"))
    standard = model.standard_severity(limit)
    mean.add_(sd * level.offset)
    sd.mul_(level.factor)
    limit.copy_((standard * sd + mean).exp() - SEVERITY_FLOOR)


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


class TooFewLabels(InputError):
    """Too few labelled buildings to fit an adapter."""


def adapt(
    base: Diagnosis,
    base_sha256: str,
    sequences: Sequences,
    centre: NDArray[np.float64],
    params: Adapt,
    name: str,
    prepare: Prepare,
) -> Adapter:
    """Fit an adapter of `base`, which is unchanged, to labelled buildings.

    Every building is held out once, with its block, while level and changes are fitted to the others: so the choice
    among the ways, figures, temperature and interval are of buildings that were not fitted to. The adapter itself is
    fitted to all. Of the level so much is taken as it is probable that it makes errors smaller: few labels seldom show
    for sure what they show on average (Bayesian model averaging, Hoeting et al. 1999). Of the changes the fewest count
    that are not clearly worse than the best.

    Args:
        base: a trained model; `base_sha256` names it, see `base_hash`.
        sequences: B labelled buildings.
        centre: (B, 2) easting and northing, m.
        params: section `adapt`.
        name: of the adapter.
        prepare: how the buildings were prepared.

    Raises:
        TooFewLabels: there are fewer buildings than `min_labels`, or than folds.
        InputError: a pattern fits nothing, more than `max_share` of the parameters would be trained, or they are more
            bytes than an adapter may have.
    """
    if len(sequences) < params.min_labels:
        raise TooFewLabels(
            f"{len(sequences)} labelled buildings that can be judged found, {params.min_labels} needed "
            "(adapt.min_labels). Label more buildings."
        )
    start = unchanged(base, params)
    _check_share(start, base, params)
    check_size(_tensors(start), "adapt: an adapter of ")  # refused before all the fitting, not after
    number = _folds(centre, params)
    folds = [
        Fold(sequences.take(np.flatnonzero(number != i)), sequences.take(np.flatnonzero(number == i)))
        for i in range(params.folds)
    ]
    before, ways = try_ways(base, start, folds, params)
    found = [building_losses(said, params.quadrant_weight, params.severity_weight) for said in ways.values()]
    way = list(ways)[first_as_good(found, params.caution)]
    model = made(start, sequences, params, way)
    _widen(model, sequences)
    said = on_scale_of(model, base, ways[way])
    temperature = int((sequences.quadrant >= 0).sum()) >= params.min_temperature_labels
    interval = len(sequences) >= params.min_interval_labels
    if temperature:
        model.get_buffer("temperature").fill_(best_temperature(said.logits_B4, said.quadrant_B, said.accepted_B4))
    if interval:
        set_or_move(model, said)
        set_probabilities(model, said)
    about = AboutAdapter(
        name=name,
        base_sha256=base_sha256,
        rank=params.rank,
        alpha=params.alpha,
        parameters=count_changes(start.network),
        share=share(start),
        labels=len(sequences),
        temperature_calibrated=temperature,
        interval_calibrated=interval,
        **way._asdict(),
        before=_figures(base, before),
        after=_figures(model, said),
        prepare=prepare,
        preparation=PREPARATION,
    )
    return Adapter(about, _tensors(model))


def _check_share(start: Diagnosis, base: Diagnosis, params: Adapt) -> None:
    """Refuse to train more than the allowed share; log the default targets that are left out for it."""
    found = changes(start.network)
    if share(start) > params.max_share:
        trained = count_changes(start.network)
        raise InputError(
            f"adapt: {trained} of {round(trained / share(start))} parameters would be trained, {share(start):.1%}; at "
            f"most {params.max_share:.0%} may be. Lower adapt.rank (from 4 on), name fewer adapt.targets or "
            "adapt.unfreeze, or raise adapt.max_share."
        )
    if "targets" not in params.model_fields_set:
        names = [name for name, _ in base.network.named_parameters()]
        out = [one for one in params.targets if fnmatch.filter(names, one) and not fnmatch.filter(found, one)]
        if out:
            log.info(
                "adapt: no change of %s at rank %d: at most %.0f %% of the parameters may be trained (adapt.max_share)",
                ", ".join(out),
                params.rank,
                100 * params.max_share,
            )


def _folds(centre: NDArray[np.float64], params: Adapt) -> NDArray[np.int64]:
    """Return (B,) fold of each building, by the largest blocks that are numerous enough.

    Raises:
        TooFewLabels: there are not enough of any size.
    """
    city = np.full(len(centre), "")
    block_m = params.block_m
    while (count := len(number_blocks(centre, city, block_m).size)) < params.folds and block_m > 1:
        block_m /= 2
    if count < params.folds:
        raise TooFewLabels(
            f"adapt.folds: {params.folds} found, but the {len(centre)} labelled buildings stand in {count} blocks, "
            "however small, and a fold needs one of its own. Ask for fewer folds, or label more buildings."
        )
    return fold_blocks(centre, city, params.folds, block_m, params.seed)


def _widen(model: Diagnosis, sequences: Sequences) -> None:
    """Extend the model's novelty limits to buildings like these, beside those of the base's training."""
    own = deepcopy(model)
    fit_statistics(own, sequences, standardisation=False)
    limit = model.get_buffer("severity_limit")
    limit.clamp_(min=float(own.get_buffer("severity_limit")))
    geometry = torch.from_numpy(np.array(sequences.geometry, np.float32))
    farthest = FARTHEST * torch.quantile(model.novelty_distance(geometry), 0.999)
    model.get_buffer("novelty_limit").clamp_(min=float(farthest))
    middle, reach = model.get_buffer("geometry_middle"), model.get_buffer("geometry_reach")
    lowest = torch.minimum(middle - reach, own.get_buffer("geometry_middle") - own.get_buffer("geometry_reach"))
    highest = torch.maximum(middle + reach, own.get_buffer("geometry_middle") + own.get_buffer("geometry_reach"))
    bounded = reach.isfinite()
    middle[bounded], reach[bounded] = ((lowest + highest) / 2)[bounded], ((highest - lowest) / 2)[bounded]
    model.get_buffer("least_years").clamp_(max=float(own.get_buffer("least_years")))


def _figures(model: Diagnosis, raw: RawAnswers) -> dict[str, float | None]:
    """Return the `SplitScore` of raw answers, in the units of `model`; only the error if labels lack quadrants."""
    severity = model.permille(raw.severity_B3[:, 1]).numpy()
    true = label_permille(model, raw.standard_B).numpy()
    found: SplitScore = checkpoint_score(raw.logits_B4.softmax(-1).numpy(), severity, raw.accepted_B4.numpy(), true)
    any_quadrant = bool((raw.quadrant_B >= 0).any())
    return {
        key: round(value, 4) if any_quadrant or key == "severity_mae" else None
        for key, value in found._asdict().items()
    }


def _tensors(model: Diagnosis) -> dict[str, Tensor]:
    tensors = {
        f"network.{name}.{kind}": value.detach().clone()
        for name, change in changes(model.network).items()
        for kind, value in change.named_parameters()
    }
    return tensors | {f"buffer.{name}": model.get_buffer(name).clone() for name in BUFFERS}
