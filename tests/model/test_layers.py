"""Dropout by draws of 16 bits, against what defines it."""

import pytest
import torch

from plumbline.model.layers import LEVELS, Dropout


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_values_are_left_out_by_the_probability_at_every_place(p):
    """Four values share a random number: each of the four is left out as often, and apart from its neighbours."""
    torch.manual_seed(0)
    dropout, count = Dropout(p).train(), 1 << 18
    left_out = (dropout(torch.ones(count)) == 0).double().view(-1, 4)
    bound = 5 * (p * (1 - p) / len(left_out)) ** 0.5  # five standard errors
    assert ((left_out.mean(0) - p).abs() < bound).all()
    together = torch.corrcoef(left_out.T) - torch.eye(4)
    assert together.abs().max() < 5 / len(left_out) ** 0.5


def test_what_is_kept_is_scaled_so_that_the_mean_stays_and_gradients_follow():
    torch.manual_seed(0)
    x = torch.randn(7, 5, 3, requires_grad=True)
    out = Dropout(0.3).train()(x)
    left_out = round(0.3 * LEVELS)
    scale = torch.where(out == 0, 0, LEVELS / (LEVELS - left_out))
    torch.testing.assert_close(out, x * scale)
    (gradient,) = torch.autograd.grad(out.sum(), x)
    torch.testing.assert_close(gradient, scale)
    assert 0 < (out == 0).sum() < out.numel()


def test_the_seed_decides():
    x = torch.ones(1000)
    dropout = Dropout(0.5).train()
    torch.manual_seed(3)
    first, second = dropout(x), dropout(x)
    torch.manual_seed(3)
    assert torch.equal(dropout(x), first)
    assert not torch.equal(first, second)


@pytest.mark.parametrize("p", [0.0, 1e-9, 0.999999])
def test_extreme_probabilities_and_no_values(p):
    out = Dropout(p).train()(torch.ones(10_000))
    assert ((out == 0).double().mean() - p).abs() < 0.01
    assert out.isfinite().all()
    assert Dropout(p).train()(torch.ones(0, 3)).shape == (0, 3)


def test_evaluation_changes_nothing():
    x = torch.randn(50)
    assert Dropout(0.5).eval()(x) is x
