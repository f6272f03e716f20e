"""Fit an adapter to a few labelled buildings, and say what it is worth on buildings that it was not fitted to."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plumbline.console import track
from plumbline.errors import InputError
from plumbline.model.diagnosis import SEVERITY_FLOOR, Diagnosis
from plumbline.model.heads import RawAnswer
from plumbline.model.losses import quadrant_loss
from plumbline.model.network import count_parameters
from plumbline.params import Prepare
from plumbline.params.adapt import Adapt
from plumbline.prepare.blocks import number_blocks
from plumbline.prepare.folds import fold_blocks
from plumbline.prepare.sequences import Sequences
from plumbline.strain import CATEGORY_BOUNDS_PERMILLE
from plumbline.train.adapter import BUFFERS, About, Adapter
from plumbline.train.calibrate import RawAnswers, best_temperature, interval_stretches, raw_answers
from plumbline.train.lowrank import attach, changes, count_changes, set_strength, settle
from plumbline.train.quick import quick_fit
from plumbline.train.score import Score, score
from plumbline.train.statistics import FARTHEST, fit_statistics

STRENGTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Parts of the fitted changes that are tried on held-out buildings; the first is the base."""


def adapt(
    base: Diagnosis, base_sha256: str, sequences: Sequences, centre: NDArray[np.float64], params: Adapt,
    name: str, prepare: Prepare,
) -> Adapter:  # fmt: skip
    """Fit an adapter of `base`, which stays as it is, to labelled buildings.

    Every building is held out once, with its block, while changes are fitted to the others: so figures, temperature
    and interval are of buildings that were not fitted to. The adapter itself is fitted to all. Of its changes that part
    is kept which is best on held-out buildings: where labels say nothing new, none.

    Args:
        base: a trained model; `base_sha256` names it, see `base_hash`.
        sequences: B labelled buildings.
        centre: (B, 2) easting and northing, m.
        params: section `adapt`.
        name: of the adapter.
        prepare: how the buildings were prepared.

    Raises:
        InputError: there are fewer buildings than `min_labels`, a pattern fits nothing, or more than `max_share` of the
            parameters would be trained.
    """
    if len(sequences) < params.min_labels:
        raise InputError(
            f"{len(sequences)} labelled buildings that can be judged found, {params.min_labels} needed "
            "(adapt.min_labels). Label more buildings."
        )
    parameters, share = _check_share(base, params)
    fold = _folds(centre, params)
    held_out: list[list[RawAnswers]] = [[] for _ in STRENGTHS]
    for number in track(range(params.folds), params.folds, "adapt: folds"):
        model = changed(base, sequences.take(np.flatnonzero(fold != number)), params)
        own = sequences.take(np.flatnonzero(fold == number))
        for answers, strength in zip(held_out, STRENGTHS, strict=True):
            set_strength(model.network, strength)
            answers.append(raw_answers(model, own))
    said_by = [RawAnswers(*(torch.cat(parts) for parts in zip(*answers, strict=True))) for answers in held_out]
    best = int(np.argmin([_loss(said, params) for said in said_by]))
    said, strength = said_by[best], STRENGTHS[best]
    model = changed(base, sequences, params)
    set_strength(model.network, strength)
    settle(model.network)
    _widen(model, sequences)
    temperature = int((sequences.quadrant >= 0).sum()) >= params.min_temperature_labels
    interval = len(sequences) >= params.min_interval_labels
    if temperature:
        model.get_buffer("temperature").fill_(best_temperature(said.logits_B4, said.quadrant_B))
    if interval:
        edges = model.standard_severity(torch.tensor(CATEGORY_BOUNDS_PERMILLE))
        model.get_buffer("interval_stretch").copy_(interval_stretches(said.severity_B3, said.standard_B, edges))
    about = About(
        name=name, base_sha256=base_sha256, rank=params.rank, alpha=params.alpha, parameters=parameters, share=share,
        labels=len(sequences), temperature_calibrated=temperature, interval_calibrated=interval,
        strength=strength, before=_figures(base, said_by[0]), after=_figures(model, said), prepare=prepare,
    )  # fmt: skip
    return Adapter(about, _tensors(model))


def changed(base: Diagnosis, sequences: Sequences, params: Adapt) -> Diagnosis:
    """A copy of `base` with changes attached that are fitted to labelled buildings; its statistics are the base's."""
    torch.manual_seed(params.seed)  # the first changes are drawn here
    model = deepcopy(base)
    attach(model.network, params.targets, params.unfreeze, params.rank, params.alpha)
    late = [change for change in changes(model.network).values() if change.late]
    quick_fit(model, sequences, params.as_train(), late, round(params.unfreeze_at * params.epochs))
    return model


def _check_share(base: Diagnosis, params: Adapt) -> tuple[int, float]:
    """Number of trained values, and their share of the network's."""
    model = deepcopy(base)
    attach(model.network, params.targets, params.unfreeze, params.rank, params.alpha)
    trained, total = count_changes(model.network), count_parameters(base.network)["total"]
    if trained > params.max_share * total:
        raise InputError(
            f"adapt: {trained} of {total} parameters would be trained, {trained / total:.1%}; at most "
            f"{params.max_share:.0%} may be (adapt.max_share). Lower adapt.rank, or name fewer adapt.targets."
        )
    return trained, trained / total


def _folds(centre: NDArray[np.float64], params: Adapt) -> NDArray[np.int64]:
    """(B,) fold of each building, by the largest blocks of which there are enough."""
    city = np.full(len(centre), "")
    block_m = params.block_m
    while len(number_blocks(centre, city, block_m).size) < params.folds and block_m > 1:
        block_m /= 2
    return fold_blocks(centre, city, params.folds, block_m, params.seed)


def _widen(model: Diagnosis, sequences: Sequences) -> None:
    """Let the model answer for buildings like these as well as for those that the base was trained on."""
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


def _loss(raw: RawAnswers, params: Adapt) -> float:
    """What training makes small, of the middle and the quadrant: smoother than shares of right answers."""
    answer = RawAnswer(raw.logits_B4, raw.severity_B3)
    middle = (raw.severity_B3[:, 1] - raw.standard_B).abs().mean()
    return float(params.quadrant_weight * quadrant_loss(answer, raw.quadrant_B) + params.severity_weight * middle)


def _figures(model: Diagnosis, raw: RawAnswers) -> dict[str, float]:
    """`Score` of raw answers, in the units of `model`."""
    severity = model.permille(raw.severity_B3[:, 1]).numpy()
    # Not `permille`, which bounds what the model may say.
    true = ((raw.standard_B * model.severity_sd + model.severity_mean).exp() - SEVERITY_FLOOR).numpy()  # type: ignore[operator]
    found: Score = score(raw.logits_B4.softmax(-1).numpy(), severity, raw.quadrant_B.numpy(), true)
    return {key: round(value, 4) for key, value in found._asdict().items()}


def _tensors(model: Diagnosis) -> dict[str, Tensor]:
    tensors = {
        f"network.{name}.{kind}": value.detach().clone()
        for name, change in changes(model.network).items()
        for kind, value in change.named_parameters()
    }
    return tensors | {f"buffer.{name}": model.get_buffer(name).clone() for name in BUFFERS}
