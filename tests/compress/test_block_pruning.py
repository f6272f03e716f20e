"""Which blocks go, and that nothing else does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from plumbline.compress.prune import STREAMS, mean_loss, shallower, without_block
from plumbline.compress.search import Pruning, search
from plumbline.model.diagnosis import Diagnosis, load_diagnosis, save_diagnosis
from plumbline.model.network import spec_of
from plumbline.model.spec import new_spec
from plumbline.params import Compress, Model
from plumbline.params.compress import Target
from plumbline.prepare.features.shards import Shards, load_shards
from plumbline.train.data.splits import fit_statistics
from plumbline.validate.measure import torch_answers

LOOK = {"batches": 2, "seed": 0}


@pytest.fixture
def data(tiny):
    return load_shards(tiny.data("prepare") / "train")


@pytest.fixture
def deep(data):
    torch.manual_seed(2)
    model = {"channels": 8, "blocks": 3, "heads": 2, "attention_layers": 1, "hidden": 12, "position": "learned"}
    diagnosis = Diagnosis(new_spec(Model.model_validate(model), 128))
    fit_statistics(diagnosis, data)
    return diagnosis.eval()


def answers(model, data):
    inputs = data.pad(np.arange(12))
    with torch.inference_mode():
        return model(*(torch.from_numpy(np.array(inputs[k])) for k in ("distance", "slope", "geometry", "mask")))


def silence(block):
    """A block that adds nothing."""
    with torch.no_grad():
        block.second.weight.zero_()
        block.second.bias.zero_()


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("gone", [0, 1, 2])
def test_a_block_that_adds_nothing_can_go_and_the_others_stay_in_order(deep, data, stream, gone):
    silence(getattr(deep.network.encoder, stream).blocks[gone])
    found = without_block(deep, stream, gone)
    for left, right in zip(answers(deep, data), answers(found, data), strict=True):
        torch.testing.assert_close(left, right)
    # And it was that one: without another the answers are others.
    other = without_block(deep, stream, (gone + 1) % 3)
    assert not torch.allclose(answers(deep, data).severity_permille, answers(other, data).severity_permille)


def test_the_block_goes_without_which_the_losses_are_lowest(deep, data, tiny):
    losses = tiny.params.train
    found = shallower(deep, 2, data, losses, **LOOK)
    spec = spec_of(found.network)
    assert (len(spec.distance_hidden), len(spec.slope_hidden)) == (2, 2)
    by_hand = deep
    for stream in STREAMS:
        tried = [without_block(by_hand, stream, number) for number in range(3)]
        by_hand = min(tried, key=lambda one: mean_loss(one, data, losses, **LOOK))
    for name, value in by_hand.state_dict().items():
        torch.testing.assert_close(found.state_dict()[name], value)


def test_a_network_that_is_shallow_enough_is_left_alone(deep, data, tiny):
    assert shallower(deep, 3, data, tiny.params.train, **LOOK) is deep


def test_a_shallower_network_is_saved_and_read_again(deep, data, tiny, tmp_path):
    found = shallower(deep, 0, data, tiny.params.train, **LOOK)
    save_diagnosis(found, tmp_path)
    for left, right in zip(answers(found, data), answers(load_diagnosis(tmp_path), data), strict=True):
        torch.testing.assert_close(left, right)


@pytest.fixture
def pruning(deep, data, tiny):
    section = Compress.model_validate(
        {
            "target": {"max_drop": 0.0, "severity": 0.0, "tries": 1},
            "epochs": 1,
            "patience": 1,
            "learning_rate": 1e-3,
            "batch_size": 16,
            "importance_batches": 1,
            "short": {"buildings": 20, "epochs": 1},
            "blocks": 1,
        }
    )
    return Pruning.of(deep, data, section, tiny.params.train)


def test_channels_are_taken_from_what_is_left(pruning, deep):
    spec = spec_of(pruning.at_once(0.5).network)
    assert (spec.distance_hidden, spec.slope_hidden) == ([4], [4])
    assert spec_of(pruning.teacher.network) == spec_of(deep.network)  # who is followed in fine-tuning keeps all


def test_where_nothing_is_within_the_bound_no_block_goes_either(data, tiny, tmp_path):
    teacher = load_diagnosis(tiny.data("train"))
    target = Target(max_drop=0.0, severity=0.0, tries=1, largest_ratio=0.99)
    section = Compress.model_validate(
        {
            "target": target,
            "epochs": 1,
            "patience": 1,
            "learning_rate": 1e-9,
            "batch_size": 16,
            "blocks": 0,
            "importance_batches": 1,
            "short": {"buildings": 20, "epochs": 1, "learning_rate": 1e-9},
        }
    )
    pruning = Pruning.of(teacher, data, section, tiny.params.train)
    # Of labels that are the teacher's own answers no other network loses nothing.
    tune = load_shards(tiny.data("prepare") / "tune")
    said = torch_answers(teacher, tune)
    (part,) = tune.parts
    own = replace(part, severity=said.severity_permille, quadrant=said.quadrant_probability.argmax(1))
    model, rows = search(pruning, target, Shards([own]), tmp_path)
    assert not rows[-1]["within"]
    assert spec_of(model.network) == spec_of(teacher.network) != spec_of(pruning.start.network)
    assert model is not teacher  # the one is trained on, and follows the other
