"""The parts of the network, each against its formula."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from plumbline.model.attention import KERNELS, Attention
from plumbline.model.losses import HIGH, LOW, quadrant_loss, severity_loss
from plumbline.model.network import Network, RawAnswer, count_parameters, new_spec, spec_of
from plumbline.model.pooling import masked_max, masked_mean
from plumbline.model.position import LONGEST_LEARNED, Sinusoidal, build_position, resolve
from plumbline.model.stream import Block, Stream
from plumbline.params import Model
from tests.model.made import SMALL, inputs, small_model


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_pools_are_mean_and_maximum_over_the_mask(lengths):
    x = torch.randn(len(lengths), max(lengths) + 2, 3) - 5
    mask = torch.arange(x.shape[1]) < torch.tensor(lengths)[:, None]
    mean, largest = masked_mean(x, mask[..., None]), masked_max(x, mask[..., None])
    for i, length in enumerate(lengths):
        torch.testing.assert_close(mean[i], x[i, :length].mean(0))
        torch.testing.assert_close(largest[i], x[i, :length].amax(0))


@pytest.mark.parametrize("kind", list(KERNELS))
def test_attention_is_that_of_torch(kind):
    """`nn.MultiheadAttention` with the same weights."""
    torch.manual_seed(0)
    ours, theirs = Attention(8, 8, 2, kind), nn.MultiheadAttention(8, 2, batch_first=True)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([layer.weight for layer in (ours.query, ours.key, ours.value)]))
        theirs.in_proj_bias.copy_(torch.cat([layer.bias for layer in (ours.query, ours.key, ours.value)]))
        theirs.out_proj.load_state_dict(ours.out.state_dict())
    x, mask = torch.randn(3, 6, 8), torch.arange(6) < torch.tensor([[6], [2], [4]])
    wanted = theirs(x, x, x, key_padding_mask=~mask)[0]
    torch.testing.assert_close(ours(x, mask)[mask], wanted[mask], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_a_stream_is_zero_outside_of_the_mask_and_local_within(kernel):
    torch.manual_seed(0)
    stream = Stream(4, 8, [8], kernel)
    x, mask = torch.randn(2, 12, 4), (torch.arange(12) < torch.tensor([[12], [7]]))[..., None]
    out = stream(x, mask)
    assert not out[~mask.expand_as(out)].any()
    changed = x.clone()
    changed[0, 0] += 1
    reach = kernel // 2 * 2  # two convolutions
    moved = (stream(changed, mask) - out).abs().sum(-1)[0] > 1e-7
    assert moved[: reach + 1].all()
    assert not moved[reach + 1 :].any()


def test_a_block_keeps_the_length():
    assert Block(8, 5, 7)(torch.randn(2, 3, 8), torch.ones(2, 3, 1, dtype=torch.bool)).shape == (2, 3, 8)


def test_positions_differ_and_do_not_depend_on_the_values():
    for kind in ("learned", "sinusoidal"):
        code = build_position(kind, 8, 40)
        values = code(torch.randn(2, 40, 8))
        torch.testing.assert_close(values, code(torch.zeros(2, 40, 8)))
        assert (torch.cdist(values, values) + torch.eye(40) > 1e-4).all()
    assert build_position("none", 8, 40) is None


def test_sinusoids_are_those_of_the_formula():
    code = Sinusoidal(8)
    found = torch.linalg.lstsq(code.project.weight, (code(torch.zeros(1, 30, 8)) - code.project.bias).T).solution
    place, rate = np.arange(30)[:, None], 1000.0 ** (-np.arange(0, 16, 2) / 16)
    wanted = np.concatenate([np.sin(place * rate), np.cos(place * rate)], axis=1)
    # Eight outputs tell eight combinations of the sixteen; the projection of the formula's values is the same.
    torch.testing.assert_close(
        code.project.weight @ found, code.project.weight @ torch.tensor(wanted.T, dtype=torch.float32),
        atol=1e-4, rtol=1e-4,
    )  # fmt: skip


def test_auto_learns_positions_of_short_sequences_only():
    assert resolve("auto", LONGEST_LEARNED) == "learned"
    assert resolve("auto", LONGEST_LEARNED + 1) == "sinusoidal"
    assert resolve("learned", 4096) == "learned"


@pytest.mark.parametrize("max_length", [64, 128, 4096])
def test_positions_are_a_small_share_of_the_parameters(max_length):
    counts = count_parameters(Network(new_spec(Model(position="learned" if max_length < 200 else "auto"), max_length)))
    assert counts["position"] < 0.03 * counts["total"]
    assert counts["total"] == sum(count for name, count in counts.items() if name != "total")


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.floats(0.1, 30))
def test_the_ends_of_the_interval_never_cross(seed, scale):
    model = small_model(seed=seed % 7)
    batch = [tensor * scale if tensor.dtype.is_floating_point else tensor for tensor in inputs([3, 9, 1], seed=seed)]
    with torch.inference_mode():
        low, middle, high = model.raw(*batch).severity_B3.T
        answer = model(*batch)
        model.get_buffer("interval_stretch").fill_(-100.0)
        narrow = model(*batch)
    assert (low <= middle).all()
    assert (middle <= high).all()
    for part in (answer, narrow):
        assert (part.severity_low <= part.severity_permille).all()
        assert (part.severity_permille <= part.severity_high).all()
        assert (part.severity_low >= 0).all()
    torch.testing.assert_close(narrow.severity_low, narrow.severity_high)


specs = st.fixed_dictionaries(
    {
        "channels": st.sampled_from([4, 8, 12]), "blocks": st.integers(1, 3), "kernel": st.sampled_from([1, 3, 5]),
        "heads": st.sampled_from([1, 2, 4]), "attention": st.sampled_from(["none", "math", "sdpa"]),
        "attention_layers": st.integers(0, 2), "hidden": st.integers(4, 20),
        "position": st.sampled_from(["none", "learned", "sinusoidal", "auto"]),
    }
)  # fmt: skip


@settings(max_examples=25)
@given(specs)
def test_the_spec_of_a_new_network_is_its_own(content):
    spec = new_spec(Model(**content), 24)
    assert spec_of(Network(spec)) == spec


def raw(logits, severity=((0.0, 0.0, 0.0),)):
    return RawAnswer(torch.tensor(logits), torch.tensor(severity))


def test_quadrant_loss_is_the_mean_over_defined_quadrants():
    logits = [[2.0, 0, 0, 0], [0, 0, 3.0, 0], [9.0, 0, 0, 0]]
    wanted = np.mean([np.log(np.exp(2) + 3) - 2, np.log(np.exp(3) + 3)])
    assert quadrant_loss(raw(logits), torch.tensor([0, 1, -1])).item() == pytest.approx(wanted, rel=1e-6)


def test_quadrant_loss_is_zero_with_gradients_where_none_is_defined():
    logits = torch.randn(3, 4, requires_grad=True)
    loss = quadrant_loss(RawAnswer(logits, torch.zeros(3, 3)), torch.full((3,), -1))
    loss.backward()
    assert loss.item() == 0
    assert not logits.grad.any()


def test_severity_loss_is_absolute_error_and_pinball():
    answer = raw([[0.0] * 4], ((-1.0, 0.5, 2.0),))
    wanted = 0.5 + LOW * 2 + (1 - HIGH) * 1  # truth 1: above the low end by 2, below the high end by 1
    assert severity_loss(answer, torch.tensor([1.0])).item() == pytest.approx(wanted, rel=1e-6)


def test_severity_loss_is_least_at_the_quantiles():
    truth = torch.randn(4_000, generator=torch.Generator().manual_seed(0))
    guess = torch.zeros(3, requires_grad=True)
    optimiser = torch.optim.Adam([guess], lr=0.05)
    for _ in range(150):
        optimiser.zero_grad()
        loss = severity_loss(RawAnswer(torch.zeros(len(truth), 4), guess.expand(len(truth), 3)), truth)
        loss.backward()
        optimiser.step()
    np.testing.assert_allclose(guess.detach(), np.quantile(truth, [LOW, 0.5, HIGH]), atol=0.05)


def test_attention_layers_are_absent_without_attention():
    network = Network(new_spec(Model(**{**SMALL, "attention": "none"}), 24))
    assert len(network.attention) == 0
    assert network.position is None
