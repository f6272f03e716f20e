"""Activations that are computed again change nothing but the memory."""

import pytest
import torch

from tests.model.made import PLUGINS, inputs, small_model


def step(model, batch):
    """Answers and gradients of one training step, dropout included."""
    torch.manual_seed(7)
    answer = model.raw(*batch)
    (answer.logits_B4.square().sum() + answer.severity_B3.square().sum()).backward()
    return [*answer, *(parameter.grad for parameter in model.parameters() if parameter.grad is not None)]


@pytest.mark.parametrize("kind", PLUGINS[::3], ids=lambda kind: "-".join(map(str, kind.values())))
def test_outputs_and_gradients_are_those_without(kind):
    batch = inputs([3, 20, 1])
    kept, again = (small_model(dropout=0.4, checkpoint_activations=on, **kind).train() for on in (False, True))
    for left, right in zip(step(kept, batch), step(again, batch), strict=True):
        torch.testing.assert_close(left, right, atol=1e-5, rtol=1e-5)


def test_parts_run_twice_in_training_and_once_elsewhere():
    model, batch = small_model(checkpoint_activations=True, attention_layers=1, blocks=1), inputs([3, 9])
    ran = []
    parts = [model.network.encoder.slope.blocks[0], model.network.neck.attention[0]]
    for number, part in enumerate(parts):
        part.register_forward_pre_hook(lambda *_, number=number: ran.append(number))
    model.train()
    step(model, batch)
    assert sorted(ran) == [0, 0, 1, 1]
    ran.clear()
    step(model.eval(), batch)
    assert sorted(ran) == [0, 1]
    ran.clear()
    with torch.inference_mode():
        model.train().raw(*batch)
    assert sorted(ran) == [0, 1]


def test_less_is_kept_for_the_gradients():
    def kept(on):
        model, size = small_model(checkpoint_activations=on).train(), []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: size.append(t.numel()) or t, lambda t: t):
            model.raw(*inputs([20] * 16))
        return sum(size)

    assert kept(True) < 0.5 * kept(False)
