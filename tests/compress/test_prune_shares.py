"""How many channels of each kind of layer go."""

import pytest
import torch

from plumbline.compress.prune import channel_groups, channel_shares, kind_of
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
    found = channel_shares(model, section(powers={kind: 2.0}))
    assert {group: share for group, share in found.items() if share != pytest.approx(0.5)} == {
        group: pytest.approx(0.75) for group in channel_groups(model) if kind_of(group) == kind
    }


def test_widths_are_rounded_to_multiples_and_never_to_nothing():
    model = network()
    found = channel_shares(model, section(pruning_ratio=0.45, multiple=8))
    left = {group: 1 - share for group, share in found.items()}
    kinds = {kind_of(group): share for group, share in left.items()}
    # 32 shared * 0.55 = 17.6, 16 between convolutions: 8.8, 64 behind attention: 35.2, 24 of a building: 13.2
    assert kinds["shared"] == pytest.approx(16 / 32)
    assert kinds["convolution"] == pytest.approx(8 / 16)
    assert kinds["feedforward"] == pytest.approx(32 / 64)
    assert kinds["joined"] == pytest.approx(16 / 24)
    assert kinds["attention"] == pytest.approx(0.55)
    smallest = channel_shares(model, section(pruning_ratio=0.99, multiple=8))
    assert 1 - smallest["geometry.0"] == pytest.approx(8 / 24)
    assert 1 - channel_shares(model, section(pruning_ratio=0.1, multiple=64))["geometry.0"] == pytest.approx(1)


def test_a_ratio_of_zero_takes_nothing():
    nothing = section(pruning_ratio=0.0, powers={"shared": 3.0}, multiple=8)
    assert set(channel_shares(network(), nothing).values()) == {0.0}
