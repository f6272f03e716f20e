"""Fit an adapter to a few labelled buildings, and measure it on held-out ones."""

from __future__ import annotations

import fnmatch
from copy import deepcopy

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.model.diagnosis import Diagnosis
from plumbline.params import Prepare
from plumbline.params.adapt import Adapt
from plumbline.prepare.features.definition import PREPARATION
from plumbline.prepare.features.sequences import Sequences
from plumbline.prepare.split.blocks import number_blocks
from plumbline.prepare.split.split import fold_blocks
from plumbline.train.adapt.adapter import BUFFERS, Adapter, check_size
from plumbline.train.adapt.adapter_file import AboutAdapter
from plumbline.train.adapt.candidates import (
    Fold,
    building_losses,
    first_as_good,
    label_permille,
    made,
    on_scale_of,
    share,
    try_ways,
    unchanged,
)
from plumbline.train.adapt.lora import changes, count_changes
from plumbline.train.calibrate.conformal import RawAnswers, set_or_move
from plumbline.train.calibrate.probabilities import set_probabilities
from plumbline.train.calibrate.temperature import best_temperature
from plumbline.train.data.statistics import FARTHEST, fit_statistics
from plumbline.train.fit.checkpoint_choice import SplitScore, checkpoint_score


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
