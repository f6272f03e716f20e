"""Which blocks go, and that nothing else does."""

import pytest
import torch

from plumbline.compress.prune import STREAMS, mean_loss, shallower, without_block
from plumbline.model.diagnosis import Diagnosis, load_diagnosis, save_diagnosis
from plumbline.model.network import spec_of
from plumbline.model.spec import new_spec
from plumbline.params import Model
from plumbline.train.data.splits import fit_statistics
from tests.compress.test_prune import answers

LOOK = {"batches": 2, "seed": 0}


@pytest.fixture
def deep(data):
    torch.manual_seed(2)
    model = {"channels": 8, "blocks": 3, "heads": 2, "attention_layers": 1, "hidden": 12, "position": "learned"}
    diagnosis = Diagnosis(new_spec(Model.model_validate(model), 128))
    fit_statistics(diagnosis, data)
    return diagnosis.eval()


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
