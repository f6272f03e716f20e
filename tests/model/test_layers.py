"""Dropout by draws of 16 bits, and activations that are computed again for the gradients."""

import pytest
import torch

from plumbline.model.encoder import LEVELS, Dropout
from tests.model.made import PLUGINS, inputs, small_model


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


def step(model, batch):
    """Answers and gradients of one training step, dropout included."""
    torch.manual_seed(7)
    answer = model.raw(*batch)
    sum(part.square().sum() for part in answer).backward()
    return [*answer, *(parameter.grad for parameter in model.parameters() if parameter.grad is not None)]


@pytest.mark.parametrize("kind", PLUGINS[::3], ids=lambda kind: "-".join(map(str, kind.values())))
def test_outputs_and_gradients_are_those_without(kind):
    batch = inputs([3, 20, 1])
    kept, again = (small_model(dropout=0.4, checkpoint_activations=on, **kind).train() for on in (False, True))
    for left, right in zip(step(kept, batch), step(again, batch), strict=True):
        torch.testing.assert_close(left, right, atol=1e-5, rtol=1e-5)


def test_less_is_kept_for_the_gradients_in_training_alone():
    def kept(on, training=True):
        model, size = small_model(checkpoint_activations=on).train(training), []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: size.append(t.numel()) or t, lambda t: t):
            model.raw(*inputs([20] * 16))
        return sum(size)

    assert kept(True) < 0.5 * kept(False)
    assert kept(True, training=False) == kept(False, training=False)
