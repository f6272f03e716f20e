"""A network that torch compiles for its training steps: the same answers, and one graph for all lengths."""

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

from plumbline.model.encoder import Convolution
from tests.model.made import inputs, small_model

KINDS = (
    {"convolution": "plain", "attention": "sdpa", "position": "sinusoidal", "pooling": "mean_max"},
    # Each takes 20 s to compile.
    pytest.param({"convolution": "separable", "attention": "sdpa", "position": "learned"}, marks=pytest.mark.chaos),
    pytest.param({"convolution": "plain", "attention": "ragged", "position": "learned"}, marks=pytest.mark.chaos),
)
LENGTHS = ([5, 3, 9], [12, 7, 2], [4, 3, 6], [17, 20, 1], [11, 2, 2])


@pytest.fixture(autouse=True)
def nothing_compiled_yet():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def gradients(raw, model, batch):
    """Answers and gradients of one training step."""
    model.zero_grad()
    answer = raw(*batch)
    sum(part.square().sum() for part in answer).backward()
    return [*answer, *(parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind.values())))
def test_answers_and_gradients_are_those_of_the_network_as_it_stands(kind):
    model = small_model(dropout=0.0, blocks=1, attention_layers=1, **kind).train()
    counter, graphs = CompileCounterWithBackend("aot_eager"), set()
    compiled = torch.compile(model.raw, backend=counter, dynamic=True, fullgraph=True)
    for lengths in LENGTHS:
        batch = inputs(lengths)
        for left, right in zip(gradients(compiled, model, batch), gradients(model.raw, model, batch), strict=True):
            torch.testing.assert_close(left, right, atol=1e-4, rtol=1e-4)
        graphs.add(counter.frame_count)
    assert len(graphs) == 1
    assert min(graphs) > 0


@pytest.mark.slow
@pytest.mark.parametrize(("channels_out", "kernel", "groups", "bias"), [(6, 3, 1, True), (8, 5, 4, False)])
def test_a_convolution_is_traced_once_for_all_lengths(channels_out, kernel, groups, bias):
    """As torch compiles its own, the gradient of a convolution is another one for each length."""
    layer, counter = Convolution(4, channels_out, kernel, groups, bias), CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(layer, backend=counter, dynamic=True)
    for length in (5, 12, 9):
        x_BCL = torch.randn(3, length, 4).transpose(1, 2).requires_grad_()
        found, wanted = (
            torch.autograd.grad(answer(x_BCL).square().sum(), [x_BCL, *layer.parameters()])
            for answer in (compiled, layer)
        )
        torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)
    assert counter.frame_count == 1
