"""A building's answer depends on that building alone."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from plumbline.model.diagnosis import SEVERITY_FLOOR, Answer
from tests.model.made import FIRST, LONGEST, PLUGINS, inputs, needs_gpu, rows, small_model, widen

TOLERANCE = 1e-5
GARBAGE = [1e6, -1e6, 1e30, -3.4e38, math.inf, math.nan]


def same(one: Answer, other: Answer) -> None:
    for name, left, right in zip(Answer._fields, one, other, strict=True):
        assert torch.isfinite(left).all(), name
        if name.startswith("severity"):
            # As the network says it: those of an untrained one run into millions of permille, and rounding with them.
            left, right = (left + SEVERITY_FLOOR).log(), (right + SEVERITY_FLOOR).log()
        torch.testing.assert_close(left, right, atol=TOLERANCE, rtol=TOLERANCE, msg=lambda said, n=name: f"{n}: {said}")


@pytest.fixture(
    scope="module",
    params=[pytest.param(kind, marks=[] if kind in FIRST else pytest.mark.slow) for kind in PLUGINS],
    ids=["-".join(map(str, kind.values())) for kind in PLUGINS],
)
def model(request):
    return small_model(**request.param)


@settings(max_examples=settings.default.max_examples // 3)  # of four networks and more
@given(lengths=st.lists(st.integers(1, LONGEST), min_size=1, max_size=6), seed=st.integers(0, 99), data=st.data())
def test_alone_in_any_batch_and_at_any_padding_length(model, lengths, seed, data):
    batch = inputs(lengths, seed=seed)
    with torch.inference_mode():
        together = model(*batch)
        for i in range(len(lengths)):
            same(Answer(*(part[i : i + 1] for part in together)), model(*rows(batch, [i])))
        order = data.draw(st.permutations(range(len(lengths))))
        same(Answer(*(part[list(order)] for part in together)), model(*rows(batch, list(order))))
        for extra in (1, 7, 3 * LONGEST):
            same(together, model(*widen(batch, max(lengths) + extra)))


@pytest.mark.parametrize("garbage", GARBAGE)
def test_whatever_stands_in_the_padding(model, garbage):
    batch = inputs([1, 2, 9, 5, 20])
    with torch.inference_mode():
        same(model(*batch), model(*widen(batch, 27, garbage)))


def test_gradients_never_come_from_the_padding_nor_go_there(model):
    clean, dirty = (widen(inputs([3, 8, 1]), 12, garbage) for garbage in (0.0, 1e30))
    found = []
    for batch in (clean, dirty):
        model.zero_grad()
        leaves = [values.clone().requires_grad_() for values in batch[:2]]
        answer = model.raw(*leaves, *batch[2:])
        sum(part.square().sum() for part in answer).backward()
        for leaf in leaves:
            assert not leaf.grad[~batch[3]].any()
            assert leaf.grad[batch[3]].any()
        found.append([parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None])
    for left, right in zip(*found, strict=True):
        torch.testing.assert_close(left, right, atol=1e-4, rtol=1e-4)


def test_both_ways_to_compute_attention_agree():
    plain, other = small_model(attention="sdpa"), small_model(attention="ragged")
    other.load_state_dict(plain.state_dict())
    batch = inputs([1, 5, LONGEST, 17])
    with torch.inference_mode():
        same(plain(*batch), other(*batch))


@pytest.mark.parametrize("kind", ["sdpa", "ragged"])
def test_long_buildings_pass_without_attention_and_short_ones_with_it_whatever_their_batch(kind):
    limited = small_model(max_attention_length=8, attention=kind)
    whole, without = small_model(attention=kind), small_model(attention="none")
    whole.load_state_dict(limited.state_dict())
    without.load_state_dict(limited.state_dict(), strict=False)
    batch = inputs([8, 9, 3, LONGEST])
    with torch.inference_mode():
        answer = limited(*batch)
        same(Answer(*(part[[0, 2]] for part in answer)), Answer(*(part[[0, 2]] for part in whole(*batch))))
        same(Answer(*(part[[1, 3]] for part in answer)), Answer(*(part[[1, 3]] for part in without(*batch))))
        assert (whole.raw(*batch).logits_B4 - limited.raw(*batch).logits_B4)[[1, 3]].abs().amax(1).min() > 1e-3
        for i in range(4):
            same(Answer(*(part[i : i + 1] for part in answer)), limited(*rows(batch, [i])))
        same(answer, limited(*widen(batch, 50, 1e6)))


def test_the_order_of_scatterers_matters_where_there_are_positions():
    batch = inputs([12])
    flipped = [batch[0].flip(1), batch[1].flip(1), *batch[2:]]
    for position, matters in (("none", False), ("learned", True), ("sinusoidal", True)):
        model = small_model(position=position, kernel=1)
        with torch.inference_mode():
            apart = (model.raw(*batch).logits_B4 - model.raw(*flipped).logits_B4).abs().max()
        assert (apart > 1e-4).item() == matters, position


@needs_gpu
@pytest.mark.parametrize("kind", PLUGINS, ids=lambda kind: "-".join(map(str, kind.values())))
def test_a_gpu_gives_the_same_answers_and_gradients(kind, monkeypatch):
    batch, found = inputs([1, 5, LONGEST, 17]), []
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)  # as training does
    for device in ("cpu", "cuda"):
        model = small_model(**kind).to(device)
        there = [tensor.to(device) for tensor in batch]
        with torch.inference_mode():
            answer = model(*there)
        raw = model.raw(*there)
        sum(part.square().sum() for part in raw).backward()
        gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        found.append([tensor.cpu() for tensor in (*answer, *gradients)])
    for left, right in zip(*found, strict=True):
        torch.testing.assert_close(left, right, atol=1e-3, rtol=1e-3)
