"""How many channels of each kind of layer go."""

from __future__ import annotations

import pytest
import torch

from plumbline.compress.prune import channel_groups, channel_shares, kind_of, step_shares
from plumbline.model.diagnosis import Diagnosis
from plumbline.model.spec import new_spec
from plumbline.params import Compress, Model
from plumbline.params.compress import Powers


def network(**settings: object) -> Diagnosis:
    torch.manual_seed(0)
    model = {"channels": 16, "blocks": 2, "heads": 2, "attention_layers": 2, "hidden": 24, **settings}
    return Diagnosis(new_spec(Model.model_validate(model), 40)).eval()


def section(**settings: object) -> Compress:
    needed = {"pruning_ratio": 0.5, "epochs": 1, "patience": 1, "learning_rate": 0.1}
    return Compress.model_validate({**needed, **settings})


@pytest.mark.parametrize("settings", [{}, {"attention": "none"}, {"convolution": "separable"}, {"position": "none"}])
def test_every_kind_has_a_power_and_every_power_a_kind(settings):
    kinds = {kind_of(group) for group in channel_groups(network(**settings))}
    unused = {"attention", "feedforward"} if settings == {"attention": "none"} else set()
    assert kinds == set(Powers.model_fields) - unused


@pytest.mark.parametrize("kind", Powers.model_fields)
def test_a_power_acts_on_its_kind_alone(kind):
    model = network()
    found = channel_shares(model, 0.5, section(powers={kind: 2.0}))
    assert {group: share for group, share in found.items() if share != pytest.approx(0.5)} == {
        group: pytest.approx(0.75) for group in channel_groups(model) if kind_of(group) == kind
    }


def test_widths_are_rounded_to_multiples_and_never_to_nothing():
    model = network()
    found = channel_shares(model, 0.45, section(), 8)
    left = {group: 1 - share for group, share in found.items()}
    kinds = {kind_of(group): share for group, share in left.items()}
    # 32 shared * 0.55 = 17.6, 16 between convolutions: 8.8, 64 behind attention: 35.2, 24 of a building: 13.2
    assert kinds["shared"] == pytest.approx(16 / 32)
    assert kinds["convolution"] == pytest.approx(8 / 16)
    assert kinds["feedforward"] == pytest.approx(32 / 64)
    assert kinds["joined"] == pytest.approx(16 / 24)
    assert kinds["attention"] == pytest.approx(0.55)
    smallest = channel_shares(model, 0.99, section(), 8)
    assert 1 - smallest["geometry.0"] == pytest.approx(8 / 24)
    assert 1 - channel_shares(model, 0.1, section(), 64)["geometry.0"] == pytest.approx(1)


def test_a_ratio_of_zero_takes_nothing():
    assert set(channel_shares(network(), 0.0, section(powers={"shared": 3.0}), 8).values()) == {0.0}


@pytest.mark.parametrize("part", [0.25, 0.5])
def test_a_step_takes_its_part_of_the_ratio_and_nothing_that_the_last_one_leaves(part):
    model = network()
    plain = step_shares(model, model, part, 0.5, section())
    assert plain == pytest.approx(dict.fromkeys(channel_groups(model), 0.5 * part))
    rounded = step_shares(model, model, part, 0.5, section(multiple=64))
    assert {share for group, share in rounded.items() if kind_of(group) != "attention"} == {0.0}
    assert step_shares(model, model, 1.0, 0.5, section(multiple=8)) == pytest.approx(
        channel_shares(model, 0.5, section(), 8)
    )
