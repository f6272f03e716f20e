"""Attention of tokens in a row, as far as it needs no Triton."""

import subprocess
import sys

import pytest
import torch

from plumbline.model.attention import RAGGED, kernels
from plumbline.model.attention.layers import packed_tokens, padded_tokens
from tests.model.made import FORMULA, inputs, small_model

LENGTHS = [1, 2, 17, 0, 5]
MASK = torch.arange(20) < torch.tensor(LENGTHS)[:, None]


@pytest.fixture(autouse=True)
def without_triton(monkeypatch):
    monkeypatch.setattr(kernels, "IS_INTERPRETED", False)


def test_without_a_gpu_torch_takes_the_kernels_place():
    query = torch.randn(3, 5, 2, 20, 8)
    found, wanted = (kind.mix(*query, kind.keys(MASK)).transpose(1, 2)[MASK] for kind in (RAGGED, FORMULA))
    torch.testing.assert_close(found, wanted)


def test_float64_is_mixed_by_torch_as_the_kernels_have_none():
    parts = torch.randn(3, 5, 2, 20, 8, dtype=torch.float64)
    mixed, wanted = (
        kind.mix(*parts, keys).transpose(1, 2)[MASK]
        for kind, keys in ((RAGGED, padded_tokens(MASK)), (FORMULA, FORMULA.keys(MASK)))
    )
    torch.testing.assert_close(mixed, wanted)


@pytest.mark.slow
def test_the_network_is_imported_without_the_compiler():
    code = "import sys, plumbline.model.network; print('torch._dynamo' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_tokens_of_a_batch_as_it_lies_are_those_without_padding_moved():
    padded, packed = padded_tokens(MASK), packed_tokens(torch.tensor(LENGTHS))
    token = MASK.flatten().nonzero()[:, 0]
    moved = torch.arange(len(token)) - token
    begin, end = (part[MASK.flatten()] for part in padded)
    assert torch.equal(begin + moved, packed.begin_T)
    assert torch.equal(end + moved, packed.end_T)
    assert not torch.cat([part[~MASK.flatten()] for part in padded]).any()


def test_a_batch_is_not_copied(monkeypatch):
    mask, given = torch.ones(3, 4, dtype=torch.bool), []
    monkeypatch.setattr(kernels, "ragged_attention", lambda *parts: given.extend(parts[:3]) or parts[:2])
    layers = [torch.randn(3, 4, 16) for _ in range(3)]
    RAGGED.mix(*(layer.unflatten(-1, (2, 8)).transpose(1, 2) for layer in layers), padded_tokens(mask))
    assert [part.data_ptr() for part in given] == [layer.data_ptr() for layer in layers]
    assert all(part.is_contiguous() for part in given)


@pytest.mark.heavy
def test_an_export_has_the_formula_in_its_place(monkeypatch):
    monkeypatch.setattr(kernels, "runs_triton", lambda device: True)
    model = small_model(attention="ragged", attention_layers=1, blocks=1)
    exported = torch.export.export(model.network, tuple(inputs([3, 5])))
    called = {str(node.target) for node in exported.graph.nodes}
    assert any("softmax" in name for name in called)
    assert not any("plumbline" in name for name in called)
