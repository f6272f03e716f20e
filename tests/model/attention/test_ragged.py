"""Attention of tokens in a row: the operator, with torch in the place of the Triton kernels, and what uses it."""

import logging
import math

import pytest
import torch

from plumbline.core.console import log
from plumbline.model.attention import RAGGED
from plumbline.model.attention import kernels as operator
from plumbline.model.attention import kernels as ragged
from plumbline.model.attention.kernels import ragged_attention
from plumbline.model.attention.layers import packed_tokens, padded_tokens
from tests.model.made import FORMULA, inputs, small_model

LENGTHS = [1, 2, 17, 0, 5]


@pytest.fixture(autouse=True)
def without_triton(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)


def by_the_formula(query_PHE, key_PHE, value_PHE, lengths):
    """Building by building."""
    mixed = [(query_PHE * key_PHE * value_PHE)[:0]]
    for query, key, value in zip(*(part.split(lengths) for part in (query_PHE, key_PHE, value_PHE)), strict=True):
        share = (torch.einsum("qhe,khe->hqk", query, key) / math.sqrt(query.shape[-1])).softmax(-1)
        mixed.append(torch.einsum("hqk,khe->qhe", share, value))
    return torch.cat(mixed)


def made(count, heads=2, channels=8, dtype=torch.float64):
    torch.manual_seed(0)
    return [torch.randn(count, heads, channels, dtype=dtype, requires_grad=True) for _ in range(3)]


@pytest.mark.parametrize("lengths", [LENGTHS, [1], [40], [], [0, 0]])
def test_a_token_sees_the_tokens_of_its_building_alone(lengths):
    parts, tokens = made(sum(lengths)), packed_tokens(torch.tensor(lengths, dtype=torch.int64))
    found, _ = ragged_attention(*parts, *tokens)
    wanted = by_the_formula(*parts, lengths)
    torch.testing.assert_close(found, wanted)
    given = torch.randn_like(wanted)
    for one, other in zip(*(torch.autograd.grad(mixed, parts, given) for mixed in (found, wanted)), strict=True):
        torch.testing.assert_close(one, other)


def test_its_gradients_are_differences():
    tokens = packed_tokens(torch.tensor([3, 1, 4]))
    parts = made(8, heads=1, channels=3)
    assert torch.autograd.gradcheck(lambda *given: ragged_attention(*given, *tokens)[0], parts)


def test_torch_finds_nothing_wrong_with_the_operator():
    tokens = packed_tokens(torch.tensor([3, 1, 4]))
    checks = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(ragged_attention, (*made(8, dtype=torch.float32), *tokens), test_utils=checks)


def test_padding_is_neither_read_nor_written():
    mask = torch.arange(20) < torch.tensor(LENGTHS)[:, None]
    parts = [part.unflatten(0, mask.shape).detach() for part in made(mask.numel())]
    clean = [part.transpose(1, 2).requires_grad_() for part in parts]
    dirty = [part.masked_fill(~mask[..., None, None], torch.nan).transpose(1, 2).requires_grad_() for part in parts]
    found = []
    for given in (clean, dirty):
        mixed = RAGGED.mix(*given, RAGGED.keys(mask))
        found.append([mixed, *torch.autograd.grad(mixed.square().sum(), given)])
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)
        assert not one.transpose(1, 2)[~mask].any()


def test_tokens_of_a_batch_as_it_lies_are_those_without_padding_moved():
    mask = torch.arange(20) < torch.tensor(LENGTHS)[:, None]
    padded, packed = padded_tokens(mask), packed_tokens(torch.tensor(LENGTHS))
    token = mask.flatten().nonzero()[:, 0]
    moved = torch.arange(len(token)) - token
    begin, end = (part[mask.flatten()] for part in padded)
    assert torch.equal(begin + moved, packed.begin_T)
    assert torch.equal(end + moved, packed.end_T)
    assert not torch.cat([part[~mask.flatten()] for part in padded]).any()


def test_a_batch_is_not_copied(monkeypatch):
    mask, given = torch.ones(3, 4, dtype=torch.bool), []
    monkeypatch.setattr(ragged, "ragged_attention", lambda *parts: given.extend(parts[:3]) or parts[:2])
    layers = [torch.randn(3, 4, 16) for _ in range(3)]
    RAGGED.mix(*(layer.unflatten(-1, (2, 8)).transpose(1, 2) for layer in layers), RAGGED.keys(mask))
    assert [part.data_ptr() for part in given] == [layer.data_ptr() for layer in layers]
    assert all(part.is_contiguous() for part in given)


def test_a_model_in_half_precision_has_answers_in_it():
    mask = torch.ones(2, 5, dtype=torch.bool)
    for dtype in (torch.float16, torch.bfloat16):
        query = torch.randn(2, 2, 5, 8, dtype=dtype)
        found, wanted = (kind.mix(query, query, query, kind.keys(mask)) for kind in (RAGGED, FORMULA))
        assert found.dtype == dtype
        torch.testing.assert_close(found, wanted, atol=2e-2, rtol=2e-2)


def test_without_a_gpu_it_says_once_what_takes_the_kernels_place():
    operator._say_without_triton.cache_clear()
    said, handler = [], logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())
    level = log.level
    log.setLevel(logging.INFO)
    log.addHandler(handler)
    try:
        for _ in range(3):
            ragged_attention(*made(4), *packed_tokens(torch.tensor([4])))
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
    assert len(said) == 1
    assert "torch computes it" in said[0]


@pytest.mark.heavy
def test_torch_compiles_it_once_for_all_lengths():
    mixed = torch.compile(RAGGED.mix, backend="aot_eager", dynamic=True, fullgraph=True)
    for batch, length in ((3, 6), (2, 9), (4, 5)):
        mask = torch.arange(length) < torch.randint(1, length + 1, (batch, 1))
        parts = [torch.randn(batch, 2, length, 8, requires_grad=True) for _ in range(3)]
        found = [mix(*parts, RAGGED.keys(mask)) for mix in (mixed, RAGGED.mix)]
        torch.testing.assert_close(*found)
        for one, other in zip(*(torch.autograd.grad(each.square().sum(), parts) for each in found), strict=True):
            torch.testing.assert_close(one, other)


@pytest.mark.heavy
def test_an_export_has_the_formula_in_its_place():
    model = small_model(attention="ragged", attention_layers=1, blocks=1)
    exported = torch.export.export(model.network, tuple(inputs([3, 5])))
    called = {str(node.target) for node in exported.graph.nodes}
    assert any("softmax" in name for name in called)
    assert not any("plumbline" in name for name in called)
