"""The Triton kernels, interpreted on the CPU: `make kernel` runs them, as nothing else installs Triton there."""

import pytest
import torch

from plumbline.model.attention import RAGGED
from plumbline.model.attention import kernels as operator
from plumbline.model.attention.kernels import ragged_attention
from plumbline.model.attention.layers import packed_tokens
from tests.model.made import FORMULA

interpreted = operator.runs_triton("cpu")
pytestmark = pytest.mark.skipif(not interpreted, reason="Triton is not installed, or does not interpret: `make kernel`")
LENGTHS = [17, 1, 2, 64, 0, 127, 128]
HALF_ULP = {torch.float16: 2**-11, torch.bfloat16: 2**-8}


def gradients(kind, parts, mask, given):
    """Answers and gradients within the mask."""
    mixed = kind.mix(*(part.transpose(1, 2) for part in parts), kind.keys(mask)).transpose(1, 2)
    mixed = mixed.masked_fill(~mask[..., None, None], 0)
    return [mixed, *torch.autograd.grad(mixed, parts, given.to(mixed.dtype))]


def batch(lengths, width, heads, channels, dtype):
    torch.manual_seed(0)
    mask = torch.arange(width) < torch.tensor(lengths, dtype=torch.int64)[:, None]
    made = [torch.randn(*mask.shape, heads, channels).to(dtype) for _ in range(4)]
    return mask, [part.requires_grad_() for part in made[:3]], made[3]


@pytest.mark.parametrize(
    ("lengths", "channels"),
    [(LENGTHS, 24), ([1], 8), ([2] * 9, 64), ([17, 17], 16), ([64], 8), ([127], 12), ([128], 32), ([5, 0, 0, 3], 8)],
)
def test_the_kernels_are_the_formula(lengths, channels):
    mask, parts, given = batch(lengths, max(lengths) + 3, 2, channels, torch.float32)
    for found, wanted in zip(*(gradients(kind, parts, mask, given) for kind in (RAGGED, FORMULA)), strict=True):
        torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)


def test_float64_is_mixed_in_float64():
    mask, parts, given = batch([17, 2, 5], 20, 2, 8, torch.float64)
    for mixed, wanted in zip(*(gradients(kind, parts, mask, given) for kind in (RAGGED, FORMULA)), strict=True):
        torch.testing.assert_close(mixed, wanted)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("channels", [8, 64])
def test_in_half_precision_they_are_the_formula_rounded(dtype, channels):
    """Of the formula in float32: that in half precision is itself off by more."""
    mask, parts, given = batch([17, 64, 2, 1], 64, 1, channels, dtype)
    found, half = (gradients(kind, parts, mask, given) for kind in (RAGGED, FORMULA))
    wide = [part.detach().float().requires_grad_() for part in parts]
    for one, own, wanted in zip(found, half, gradients(FORMULA, wide, mask, given), strict=True):
        assert one.dtype == dtype
        error, own_error = ((each - wanted.to(dtype)).float().norm() / wanted.norm() for each in (one, own))
        # What the gradients start from, the answer, has been rounded.
        assert error < max(1e-3, HALF_ULP[dtype])
        assert error < own_error


@pytest.mark.parametrize("lengths", [[], [0], [0, 0, 0]])
def test_an_empty_batch_has_empty_answers(lengths):
    parts = [torch.empty(0, 2, 8, requires_grad=True) for _ in range(3)]
    mixed, total = ragged_attention(*parts, *packed_tokens(torch.tensor(lengths, dtype=torch.int64)))
    assert (mixed.shape, total.shape) == ((0, 2, 8), (0, 2))
    assert all(part.shape == (0, 2, 8) for part in torch.autograd.grad(mixed.sum(), parts))


def test_a_batch_of_padding_alone_is_zero():
    mask, parts, given = batch([0, 0], 20, 1, 8, torch.float32)
    for part in gradients(RAGGED, parts, mask, given):
        assert not part.any()


def test_gradients_are_differences():
    """Along a random direction, of an answer with random weights; packed, with several buildings in a tile."""
    torch.manual_seed(0)
    tokens = packed_tokens(torch.tensor([17, 1, 2, 64, 5]))
    weights = torch.randn(89, 1, 8)
    for changed in range(3):
        parts = [torch.randn(89, 1, 8) for _ in range(3)]
        step = torch.randn(89, 1, 8)
        parts[changed].requires_grad_()
        mixed, _ = ragged_attention(*parts, *tokens)
        (slope,) = torch.autograd.grad((mixed * weights).sum(), parts[changed])
        sides = []
        for sign in (1, -1):
            moved = [part.detach() for part in parts]
            moved[changed] = moved[changed] + sign * 1e-2 * step
            sides.append((ragged_attention(*moved, *tokens)[0] * weights).double().sum())
        torch.testing.assert_close((sides[0] - sides[1]) / 2e-2, (slope * step).double().sum(), atol=1e-2, rtol=2e-3)


def test_padding_is_not_read():
    mask, parts, given = batch([17, 2, 40], 48, 1, 8, torch.float32)
    dirty = [part.detach().masked_fill(~mask[..., None, None], torch.nan).requires_grad_() for part in parts]
    for one, other in zip(*(gradients(RAGGED, each, mask, given) for each in (parts, dirty)), strict=True):
        assert torch.equal(one, other)


def test_torch_finds_nothing_wrong_with_the_operator():
    parts = [torch.randn(8, 2, 8, requires_grad=True) for _ in range(3)]
    checks = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(ragged_attention, (*parts, *packed_tokens(torch.tensor([3, 1, 4]))), test_utils=checks)


def test_torch_compiles_around_the_kernels():
    mixed = torch.compile(RAGGED.mix, backend="aot_eager", dynamic=True, fullgraph=True)
    mask, parts, _ = batch([3, 9], 9, 2, 8, torch.float32)
    given = [part.transpose(1, 2) for part in parts]
    found, wanted = (mix(*given, RAGGED.keys(mask)) for mix in (mixed, RAGGED.mix))
    assert torch.equal(found, wanted)
    for one, other in zip(*(torch.autograd.grad(each.square().sum(), parts) for each in (found, wanted)), strict=True):
        assert torch.equal(one, other)
