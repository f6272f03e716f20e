"""Attention by all its kernels."""

import pytest
import torch
from torch import nn

from plumbline.model.attention import RAGGED, Attention, key_mask, masked_by_channel
from plumbline.params.plugins import ATTENTION
from tests.model.made import FORMULA, formula, needs_gpu

LENGTHS = torch.tensor([[6], [2], [4]])


@pytest.mark.parametrize("kind", [name for name in ATTENTION if name != "none"])
def test_attention_is_that_of_torch(kind):
    """`nn.MultiheadAttention` with the same weights."""
    torch.manual_seed(0)
    ours, theirs = Attention(8, 8, 2, kind), nn.MultiheadAttention(8, 2, batch_first=True)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([layer.weight for layer in (ours.query, ours.key, ours.value)]))
        theirs.in_proj_bias.copy_(torch.cat([layer.bias for layer in (ours.query, ours.key, ours.value)]))
        theirs.out_proj.load_state_dict(ours.out.state_dict())
    x, mask = torch.randn(3, 6, 8), torch.arange(6) < LENGTHS
    wanted, weights = theirs(x, x, x, key_padding_mask=~mask, average_attn_weights=False)
    torch.testing.assert_close(ours(x, ours.kernel.keys(mask))[mask], wanted[mask], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(ours.weights(x, mask), weights, atol=1e-6, rtol=1e-5)


@needs_gpu
@pytest.mark.parametrize("length", [20, 150, 300])
def test_attention_on_a_gpu_has_the_gradients_of_the_formula(length):
    torch.manual_seed(0)
    mask = (torch.arange(length) < torch.tensor([[length], [1], [7], [length - 15]])).cuda()
    parts = [torch.randn(4, 2, length, 16, device="cuda", requires_grad=True) for _ in range(3)]
    found = []
    for kernel in (FORMULA, RAGGED):
        mixed = kernel.mix(*parts, kernel.keys(mask))
        real = mixed.transpose(1, 2)[mask]
        found.append([real, *torch.autograd.grad(real.square().sum(), parts)])
    for left, right in zip(*found, strict=True):
        torch.testing.assert_close(left, right, atol=1e-3, rtol=1e-3)


@needs_gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("length", [20, 128, 300])
def test_ragged_attention_on_a_gpu_is_the_formula_in_half_precision(dtype, length):
    torch.manual_seed(0)
    mask = (torch.arange(length) < torch.tensor([[length], [1], [7], [length - 15]])).cuda()
    parts = [torch.randn(4, length, 2, 24, device="cuda").to(dtype).requires_grad_() for _ in range(3)]
    found = []
    for kernel, given in ((FORMULA, [part.float() for part in parts]), (RAGGED, parts)):
        real = kernel.mix(*(part.transpose(1, 2) for part in given), kernel.keys(mask)).transpose(1, 2)[mask]
        found.append([real, *torch.autograd.grad(real.float().square().sum(), parts)])
    for left, right in zip(*found, strict=True):
        assert (left.float() - right.float()).norm() < 1e-2 * left.float().norm()


@pytest.mark.parametrize(("precision", "near"), [(torch.float32, 1e-6), (torch.float16, 2e-3)])
def test_a_mask_inside_of_the_product_is_the_formula(precision, near):
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 3, 2, 6, 8).to(precision)
    keys = key_mask(torch.arange(6) < LENGTHS)
    found = masked_by_channel(query, key, value, keys)
    torch.testing.assert_close(found, formula(query, key, value, keys), atol=near, rtol=near)
    # What is hidden has no share at all, whatever stands there.
    hidden = ~keys.transpose(-1, -2)
    other = masked_by_channel(query, key.masked_fill(hidden, 100), value.masked_fill(hidden, 1e4), keys)
    assert torch.equal(found, other)
