"""Register attention within buildings as an operator of torch, `plumbline::ragged_attention`, with its gradients.

torch then neither looks inside when it compiles a network nor needs the values of a batch to know the shapes.

Shape legend: T tokens, H heads, E channels a head.
"""

from __future__ import annotations

import functools
import os
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from plumbline.core.console import log
from plumbline.core.extras import is_installed
from plumbline.model.attention import reference
from plumbline.model.attention.tokens import Tokens


def runs_triton(x: Tensor) -> bool:
    """Say whether the Triton kernels compute `x`: on a GPU, or where `TRITON_INTERPRET=1` was set before the start."""
    able = x.is_cuda or os.environ.get("TRITON_INTERPRET") == "1"
    return able and x.dtype != torch.float64 and _triton_is_there()


@functools.cache
def _triton_is_there() -> bool:
    return is_installed("triton.language")  # an empty folder of that name is taken for a package, too


def _by(x: Tensor) -> ModuleType:
    """Choose the module that computes `x`."""
    if not runs_triton(x):
        _say_without_triton()
        return reference
    from plumbline.model.attention import triton_kernels  # Triton is not there where torch is a CPU build

    return triton_kernels


@functools.cache
def _say_without_triton() -> None:
    """Say it once a process."""
    log.info("attention ragged: without a GPU and Triton, torch computes it, with the same weights and answers")


@torch.library.custom_op("plumbline::ragged_attention", mutates_args=())
def ragged_attention(
    query_THE: Tensor, key_THE: Tensor, value_THE: Tensor, begin_T: Tensor, end_T: Tensor
) -> tuple[Tensor, Tensor]:
    """Mix the tokens of each building: softmax(query key^T / sqrt(E)) value, within the building alone.

    Args:
        query_THE: tokens of all buildings, one building after another; float.
        key_THE: same shape.
        value_THE: same shape.
        begin_T: first token of each token's building, int32; see `tokens.Tokens`.
        end_T: token after its last, int32.

    Returns:
        tuple: (T, H, E), and (T, H) the logarithm of the sum of exponentials of each token's scores, which the
        gradients need. Both are 0 for padding.
    """
    given = [part.contiguous() for part in (query_THE, key_THE, value_THE)]
    mixed_THE, total_TH = _by(query_THE).forward(*given, Tokens(begin_T, end_T))
    return mixed_THE, total_TH


@ragged_attention.register_fake
def _shapes(
    query_THE: Tensor, key_THE: Tensor, value_THE: Tensor, begin_T: Tensor, end_T: Tensor
) -> tuple[Tensor, Tensor]:
    total_dtype = torch.promote_types(query_THE.dtype, torch.float32)
    return query_THE.new_empty(query_THE.shape), query_THE.new_empty(query_THE.shape[:2], dtype=total_dtype)


@torch.library.custom_op("plumbline::ragged_attention_backward", mutates_args=())
def ragged_attention_backward(
    grad_THE: Tensor,
    query_THE: Tensor,
    key_THE: Tensor,
    value_THE: Tensor,
    mixed_THE: Tensor,
    total_TH: Tensor,
    begin_T: Tensor,
    end_T: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the gradients of query, key and value from that of the answer, `grad_THE`."""
    parts = (grad_THE, query_THE, key_THE, value_THE, mixed_THE, total_TH)
    given = [part.contiguous() for part in parts]
    to_query_THE, to_key_THE, to_value_THE = _by(query_THE).backward(*given, Tokens(begin_T, end_T))
    return to_query_THE, to_key_THE, to_value_THE


@ragged_attention_backward.register_fake
def _shapes_of_gradients(
    grad_THE: Tensor,
    query_THE: Tensor,
    key_THE: Tensor,
    value_THE: Tensor,
    mixed_THE: Tensor,
    total_TH: Tensor,
    begin_T: Tensor,
    end_T: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    made = [part.new_empty(part.shape) for part in (query_THE, key_THE, value_THE)]
    return made[0], made[1], made[2]


def _keep(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor]) -> None:
    query_THE, key_THE, value_THE, begin_T, end_T = inputs
    ctx.save_for_backward(query_THE, key_THE, value_THE, *output, begin_T, end_T)


def _gradients(ctx: Any, grad_THE: Tensor, _grad_TH: Tensor) -> tuple[Tensor | None, ...]:
    # The logarithms are for this function alone: nothing else reads them.
    return (*ragged_attention_backward(grad_THE, *ctx.saved_tensors), None, None)


ragged_attention.register_autograd(_gradients, setup_context=_keep)
