"""Memory for time: activations that are computed again for the gradients instead of being kept (Chen et al. 2016)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


def run(part: nn.Module, *inputs: Any, recompute: bool) -> Tensor:
    """`part(*inputs)`; with `recompute`, what it computes within is dropped until its gradients are needed.

    Without training there are no gradients to save memory for: evaluation and export never recompute.
    """
    if recompute and part.training and torch.is_grad_enabled():
        # Random numbers are set back for the second pass, so that dropout leaves out the same values.
        kept: Tensor = checkpoint(part, *inputs, use_reentrant=False)
        return kept
    result: Tensor = part(*inputs)
    return result
