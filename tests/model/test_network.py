"""The parts of the network, each against its formula."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from plumbline.model.encoder import Convolution, Separable, Stream
from plumbline.model.network import Network, count_parameters, spec_of
from plumbline.model.spec import LONGEST_LEARNED, build_position, new_spec, resolve_position
from plumbline.params import Model
from plumbline.params.plugins import CONVOLUTION, POSITION
from tests.model.made import PLUGINS, SMALL, inputs, small_model


@pytest.mark.parametrize("kind", list(CONVOLUTION))
@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_a_stream_is_zero_outside_of_the_mask_and_local_within(kernel, kind):
    torch.manual_seed(0)
    stream = Stream(4, 8, [8], kernel=kernel, kind=kind)
    x, mask = torch.randn(2, 12, 4), (torch.arange(12) < torch.tensor([[12], [7]]))[..., None]
    out = stream(x, mask)
    assert not out[~mask.expand_as(out)].any()
    changed = x.clone()
    changed[0, 0] += 1
    reach = kernel // 2 * 2  # two convolutions
    moved = (stream(changed, mask) - out).abs().sum(-1)[0] > 1e-7
    assert moved[: reach + 1].all()
    assert not moved[reach + 1 :].any()


def test_a_separable_convolution_is_a_plain_one_whose_weights_are_products():
    torch.manual_seed(0)
    separable, x = Separable(6, 4, 5), torch.randn(2, 6, 9)
    weight = separable.pointwise.weight * separable.depthwise.weight[None, :, 0]  # (out, in, kernel)
    wanted = nn.functional.conv1d(x, weight, separable.pointwise.bias, padding=2)
    torch.testing.assert_close(separable(x), wanted, atol=1e-5, rtol=1e-5)
    assert sum(parameter.numel() for parameter in separable.parameters()) == 6 * (5 + 4) + 4


@pytest.mark.parametrize(("kernel", "groups"), [(1, 1), (3, 1), (5, 6)])
@pytest.mark.parametrize("turned", [False, True])
def test_a_convolution_is_that_of_torch_however_the_sequence_lies_in_memory(kernel, groups, turned):
    torch.manual_seed(0)
    ours, theirs = Convolution(6, 6, kernel, groups), nn.Conv1d(6, 6, kernel, padding=kernel // 2, groups=groups)
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(2, 9, 6).transpose(1, 2) if turned else torch.randn(2, 6, 9)
    results = []
    for layer in (ours, theirs):
        out = layer(x.requires_grad_())
        results.append((out, *torch.autograd.grad(out.square().sum(), (x, *layer.parameters()))))
    for found, wanted in zip(*results, strict=True):
        torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-5)


def test_positions_differ_and_do_not_depend_on_the_values():
    for kind in [name for name in POSITION if name != "none"]:
        code = build_position(kind, 8, 40)
        values = code(torch.randn(2, 40, 8))
        torch.testing.assert_close(values, code(torch.zeros(2, 40, 8)))
        assert (torch.cdist(values, values) + torch.eye(40) > 1e-4).all()
    assert build_position("none", 8, 40) is None


def test_auto_learns_positions_of_short_sequences_only():
    assert resolve_position("auto", LONGEST_LEARNED) == "learned"
    assert resolve_position("auto", LONGEST_LEARNED + 1) == "sinusoidal"
    assert resolve_position("learned", 4096) == "learned"


def test_parameters_are_counted_by_part():
    network = Network(new_spec(Model(channels=8, hidden=16, pooling="attention"), 128))
    counts = count_parameters(network)
    assert {"encoder.slope", "neck.position", "geometry", "pool.looks"} < set(counts)
    assert counts["heads.quadrant_head"] == 4 * 17
    total = counts.pop("total")
    assert total == sum(counts.values()) == sum(parameter.numel() for parameter in network.parameters())


@given(st.integers(0, 10_000), st.floats(0.1, 30))
def test_the_ends_of_the_interval_never_cross(seed, scale):
    model = small_model(seed=seed % 7)
    batch = [tensor * scale if tensor.dtype.is_floating_point else tensor for tensor in inputs([3, 9, 1], seed=seed)]
    with torch.inference_mode():
        low, middle, high = model.raw(*batch).severity_B3.T
        answer = model(*batch)
        for name in ("below", "above", "length"):
            model.get_buffer(f"interval_{name}").fill_(-100.0)
        narrow = model(*batch)
    assert (low <= middle).all()
    assert (middle <= high).all()
    for part in (answer, narrow):
        assert (part.severity_low <= part.severity_permille).all()
        assert (part.severity_permille <= part.severity_high).all()
        assert (part.severity_low >= 0).all()
    assert (narrow.severity_high <= answer.severity_high + 1e-4).all()


OTHER_SIZES = {"kernel": 5, "blocks": 3, "heads": 1, "hidden": 7, "position": "auto", "checkpoint_activations": True}


@pytest.mark.parametrize("content", [*PLUGINS, OTHER_SIZES, {"attention_layers": 0, "kernel": 1}], ids=str)
def test_the_spec_of_a_new_network_is_its_own(content):
    spec = new_spec(Model(**{**SMALL, **content}), 24)
    assert spec_of(Network(spec)) == spec
