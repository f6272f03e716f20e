"""Remove whole blocks of convolutions: a removed operator takes no time at any width."""

from __future__ import annotations

import itertools

import torch

from plumbline.compress.importance import BATCH, loss_of
from plumbline.core.console import log
from plumbline.model.diagnosis import Diagnosis
from plumbline.model.network import spec_of
from plumbline.params import Train
from plumbline.prepare.features.shards import SequenceSet
from plumbline.train.data.batches import loader

STREAMS = ("distance", "slope")


def shallower(model: Diagnosis, most: int, data: SequenceSet, losses: Train, batches: int, seed: int) -> Diagnosis:
    """Return `model` with at most `most` blocks in each stream; `model` itself if it has no more.

    Blocks are removed one after another: from a stream with too many, the one whose removal leaves the lowest measured
    loss.

    Args:
        model: in evaluation mode; left as it is.
        most: blocks of a stream that may stay.
        data: training buildings.
        losses: which losses, and their weights.
        batches: batches of 128 buildings to measure on.
        seed: of their choice.
    """
    for stream in STREAMS:
        while (count := len(_hidden(model, stream))) > most:
            without = {number: without_block(model, stream, number) for number in range(count)}
            found = {number: mean_loss(one, data, losses, batches, seed) for number, one in without.items()}
            gone = min(found, key=found.__getitem__)
            log.info(
                "block %d of %d of the stream %s goes: the loss is then %.3f", gone + 1, count, stream, found[gone]
            )
            model = without[gone]
    return model


def without_block(model: Diagnosis, stream: str, gone: int) -> Diagnosis:
    """Return a copy of `model` without block number `gone` (from 0) of a stream; later blocks move up."""
    hidden = _hidden(model, stream)
    kept = [number for number in range(len(hidden)) if number != gone]
    widths = {f"{stream}_hidden": [hidden[number] for number in kept]}
    copy = Diagnosis(spec_of(model.network).model_copy(update=widths))
    blocks = f"network.encoder.{stream}.blocks."
    state = {name: value for name, value in model.state_dict().items() if not name.startswith(blocks)}
    for place, number in enumerate(kept):
        own = f"{blocks}{number}."
        state |= {
            f"{blocks}{place}.{name.removeprefix(own)}": value
            for name, value in model.state_dict().items()
            if name.startswith(own)
        }
    copy.load_state_dict(state)
    copy.preparation = model.preparation
    return copy.eval()


@torch.inference_mode()
def mean_loss(model: Diagnosis, data: SequenceSet, losses: Train, batches: int, seed: int) -> float:
    """Return `loss_of`, averaged over `batches` batches of buildings."""
    found = [float(loss_of(model, batch, losses)) for batch in itertools.islice(loader(data, BATCH, seed), batches)]
    return sum(found) / len(found)


def _hidden(model: Diagnosis, stream: str) -> list[int]:
    return list(getattr(spec_of(model.network), f"{stream}_hidden"))
