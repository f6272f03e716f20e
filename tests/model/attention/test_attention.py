"""Attention by all its kernels, and what stands in for the one the CPU lacks."""

import logging

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention
from torch.utils._python_dispatch import TorchDispatchMode

from plumbline.core.console import log
from plumbline.model.attention import FLEX, Attention, key_mask, masked_by_channel, written_out
from plumbline.model.attention import kernels as flex
from plumbline.model.attention.kernels import FLEX_CHANNELS, block_mask, blockwise
from plumbline.params.plugins import ATTENTION

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


@pytest.mark.parametrize("channels", [6, 16, 24])
def test_flex_attention_under_its_block_mask_is_the_formula(channels):
    """Not compiled, torch's flex attention runs on the CPU without gradients."""
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 3, 2, 150, channels)
    mask = torch.arange(150) < torch.tensor([[150], [1], [7]])
    with torch.inference_mode():
        found = blockwise(flex_attention, query, key, value, block_mask(mask))
    torch.testing.assert_close(found, written_out(query, key, value, key_mask(mask)), atol=1e-5, rtol=1e-4)


def test_as_many_channels_as_flex_needs_are_not_copied():
    query, key, value = torch.randn(3, 2, 2, 5, FLEX_CHANNELS)
    given = []
    blockwise(lambda *parts, **_: given.extend(parts) or parts[0], query, key, value, keys=None)
    assert all(one is other for one, other in zip(given, (query, key, value), strict=True))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("kind", ["flex", "ragged"])
@pytest.mark.parametrize("length", [20, 150, 300])
def test_attention_on_a_gpu_has_the_gradients_of_the_formula(kind, length):
    torch.manual_seed(0)
    mask = (torch.arange(length) < torch.tensor([[length], [1], [7], [length - 15]])).cuda()
    parts = [torch.randn(4, 2, length, 16, device="cuda", requires_grad=True) for _ in range(3)]
    found = []
    for kernel in (ATTENTION["math"], ATTENTION[kind]):
        mixed = kernel.mix(*parts, kernel.keys(mask))
        real = mixed.transpose(1, 2)[mask]
        found.append([real, *torch.autograd.grad(real.square().sum(), parts)])
    for left, right in zip(*found, strict=True):
        torch.testing.assert_close(left, right, atol=1e-3, rtol=1e-3)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("length", [20, 128, 300])
def test_ragged_attention_on_a_gpu_is_the_formula_in_half_precision(dtype, length):
    """Of 300 scatterers by torch's own kernel."""
    torch.manual_seed(0)
    mask = (torch.arange(length) < torch.tensor([[length], [1], [7], [length - 15]])).cuda()
    parts = [torch.randn(4, length, 2, 24, device="cuda").to(dtype).requires_grad_() for _ in range(3)]
    found = []
    for kernel, given in ((ATTENTION["math"], [part.float() for part in parts]), (ATTENTION["ragged"], parts)):
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
    torch.testing.assert_close(found, written_out(query, key, value, keys), atol=near, rtol=near)
    # What is hidden has no share at all, whatever stands there.
    hidden = ~keys.transpose(-1, -2)
    other = masked_by_channel(query, key.masked_fill(hidden, 100), value.masked_fill(hidden, 1e4), keys)
    assert torch.equal(found, other)


def test_the_block_mask_leaves_out_whole_blocks_of_padding():
    mask = torch.arange(600) < torch.tensor([[600], [100]])
    blocks = block_mask(mask)
    assert isinstance(blocks, BlockMask)
    assert blocks.kv_num_blocks[:, 0, 0].tolist() == [1, 1]  # in part, since 600 is no multiple of the block
    assert blocks.full_kv_num_blocks[:, 0, 0].tolist() == [4, 0]


@pytest.mark.parametrize("length", [1, 40, 128, 129, 256, 600])
def test_the_block_mask_is_that_of_torch(length):
    torch.manual_seed(0)
    mask = torch.arange(length) < torch.tensor([length, 1, length // 2 + 1, 128, 300])[:, None]
    mask = torch.cat([mask, torch.rand(1, length) < 0.5, torch.arange(length)[None] >= length // 2])  # and with holes
    wanted = create_block_mask(lambda b, _head, _query, key: mask[b, key], len(mask), None, length, length, "cpu")
    found = block_mask(mask)
    assert (found.seq_lengths, found.BLOCK_SIZE) == (wanted.seq_lengths, wanted.BLOCK_SIZE)
    for one, two in zip(found.as_tuple(), wanted.as_tuple(), strict=True):
        if isinstance(one, torch.Tensor):
            assert (one.dtype, one.stride()) == (two.dtype, two.stride())
            assert torch.equal(one, two)


def test_the_block_mask_writes_out_no_pairs_of_scatterers():
    class Largest(TorchDispatchMode):
        size = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            made = func(*args, **(kwargs or {}))
            for one in made if isinstance(made, (tuple, list)) else [made]:
                if isinstance(one, torch.Tensor):
                    self.size = max(self.size, one.numel())
            return made

    mask = torch.ones(8, 1024, dtype=torch.bool)
    with Largest() as largest:
        block_mask(mask)
    assert 0 < largest.size <= mask.numel()


def test_without_a_gpu_flex_says_once_what_takes_its_place():
    flex._say_replaced.cache_clear()
    mask, said, handler = torch.ones(2, 3, dtype=torch.bool), [], logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())
    level = log.level
    log.setLevel(logging.INFO)
    log.addHandler(handler)
    try:
        for _ in range(3):
            assert torch.equal(FLEX.keys(mask), key_mask(mask))
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
    assert len(said) == 1
    assert "sdpa takes its place" in said[0]


@pytest.mark.slow
def test_flex_attention_is_compiled_for_every_kind_of_batch(monkeypatch):
    """Beyond its limit torch compiles no more: from then on the whole matrix of scores would be kept, without a word.

    What is compiled is counted, not run on a GPU: on the CPU there are no gradients, and the formula stands in.
    """
    compile_ = torch.compile
    monkeypatch.setattr(torch, "compile", lambda *given, **options: compile_(*given, **options, backend="eager"))
    monkeypatch.setattr(torch.nn.attention.flex_attention, "_validate_device", lambda *_: None)
    flex._compiled_flex.cache_clear()
    torch._dynamo.reset()
    counters.clear()
    try:
        attend = flex._compiled_flex()
        for training in (True, False):
            for batch, length in [(3, 150), (2, 40), (1, 60), (5, 1), (4, 300), (2, 700), (1, 500)]:
                query = torch.randn(batch, 2, length, 16, requires_grad=training)
                if training:
                    query = query.bfloat16()
                with torch.enable_grad() if training else torch.inference_mode():
                    blockwise(attend, query, query, query, block_mask(torch.ones(batch, length, dtype=torch.bool)))
        assert counters["frames"]["total"] == counters["frames"]["ok"] > 8
    finally:
        flex._compiled_flex.cache_clear()
        torch._dynamo.reset()
