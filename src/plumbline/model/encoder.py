"""Build the blocks of convolutions.

Shape legend: B buildings, L scatterers, C channels.

Padding never reaches what a stream gives of a building.

Shape legend: B buildings, L scatterers, F features, C channels, D channels of both streams
together.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from plumbline.model.spec import NetworkSpec
from plumbline.params.plugins import CONVOLUTION
from plumbline.prepare.features.definition import DISTANCE, SLOPE


class Linear(nn.Linear):
    """`nn.Linear` for sequences; exported as a product of two matrices, so that runtimes
    fuse it with the bias.

    A product of a matrix with a stack of them leaves the bias to a pass of its own over all places.
    """

    def forward(self, x_BLC: Tensor) -> Tensor:
        """Return features (B, L, channels out)."""
        if not torch.compiler.is_exporting():
            return super().forward(x_BLC)
        batch, length, _ = x_BLC.shape
        return super().forward(x_BLC.flatten(0, 1)).view(batch, length, self.out_features)


LEVELS = 1 << 16
"""Number of values that one draw can have."""


class Dropout(nn.Dropout):
    """`nn.Dropout` (Srivastava et al. 2014); on a CPU, each random number gives four draws
    of 16 bits.

    torch draws the values on a CPU one by one, which takes longer than the layer whose
    outputs they are. The probability is rounded to a multiple of `1 / LEVELS`, and the
    scale is that of the rounded one, so that the mean stays.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` of any shape; in training, some values become 0 and the others larger."""
        drawn_by_torch = x.device.type != "cpu" or torch.compiler.is_compiling()
        if not self.training or not self.p or drawn_by_torch:
            return super().forward(x)
        left_out = min(round(self.p * LEVELS), LEVELS - 1)
        count = x.numel()
        words = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None)
        draws = words.view(torch.int16)[:count].view(x.shape)
        mask = (draws >= left_out - LEVELS // 2).to(x.dtype)
        return x * (mask * (LEVELS / (LEVELS - left_out)))


def run_checkpointed(part: nn.Module, *inputs: Any, recompute: bool) -> Tensor:
    """Return `part(*inputs)`; with `recompute`, drop its intermediate values and compute
    them again for the gradients.

    Without training there are no gradients to save memory for: evaluation and export never
    recompute.
    """
    if recompute and part.training and torch.is_grad_enabled():
        # Random numbers are set back for the second pass, so that dropout leaves out the
        # same values.
        recomputed: Tensor = checkpoint(part, *inputs, use_reentrant=False)
        return recomputed
    output: Tensor = part(*inputs)
    return output


class Convolution(nn.Conv1d):
    """`nn.Conv1d` for sequences that are (B, L, C) in memory, without copies before or after.

    torch has that for images only, of which a sequence is one of height 1. Export takes the
    operator for sequences. Compiled, it is a product: torch compiles the gradient of a
    convolution anew for each length of a batch, and after eight of them no more.
    """

    def __init__(
        self, channels_in: int, channels_out: int, kernel: int, groups: int = 1, bias: bool = True
    ) -> None:
        super().__init__(
            channels_in, channels_out, kernel, padding=kernel // 2, groups=groups, bias=bias
        )

    def forward(self, x_BCL: Tensor) -> Tensor:
        """(B, channels out, L)."""
        if torch.compiler.is_exporting():
            return super().forward(x_BCL)
        if torch.compiler.is_compiling() and self.groups in (1, self.in_channels):
            return self._as_product(x_BCL.transpose(1, 2)).transpose(1, 2)
        image_BC1L, weight_OI1K = x_BCL.unsqueeze(2), self.weight.unsqueeze(2)
        padding = (0, self.kernel_size[0] // 2)
        out_BC1L = nn.functional.conv2d(
            image_BC1L, weight_OI1K, self.bias, padding=padding, groups=self.groups
        )
        return out_BC1L.squeeze(2)

    def _as_product(self, x_BLC: Tensor) -> Tensor:
        """Compute (B, L, channels out) as one product: the places under the kernel, side by
        side, times the weights."""
        length, kernel = x_BLC.shape[1], self.kernel_size[0]
        padded_BLC = nn.functional.pad(x_BLC, (0, 0, kernel // 2, kernel // 2))
        under = [padded_BLC[:, place : place + length] for place in range(kernel)]
        if self.groups == 1:
            weight_OKI = self.weight.transpose(1, 2)
            return nn.functional.linear(torch.cat(under, dim=-1), weight_OKI.flatten(1), self.bias)
        # Each channel by itself (`Separable`), as often as there are channels out of it; in
        # float32, where the operator would be rounded to the precision of products.
        times = self.out_channels // self.in_channels
        parts = [
            part.repeat_interleave(times, -1) * self.weight[:, 0, i] for i, part in enumerate(under)
        ]
        out_BLC = torch.stack(parts).sum(0)
        return out_BLC if self.bias is None else out_BLC + self.bias


def plain(channels_in: int, channels_out: int, kernel: int) -> nn.Module:
    """Build a plain convolution: each output channel sees all input channels at all places
    under the kernel."""
    return Convolution(channels_in, channels_out, kernel)


class Separable(nn.Module):
    """Convolution along the sequence within each channel, then across channels at each
    place (Chollet 2017).

    `kernel + channels_out` weights a channel in, where a plain convolution has `kernel *
    channels_out`.
    """

    def __init__(self, channels_in: int, channels_out: int, kernel: int) -> None:
        super().__init__()
        # The second convolution's bias does what one here could.
        self.depthwise = Convolution(
            channels_in, channels_in, kernel, groups=channels_in, bias=False
        )
        self.pointwise = Convolution(channels_in, channels_out, 1)

    @property
    def out_channels(self) -> int:
        """Channels out, as a plain convolution names them."""
        return self.pointwise.out_channels

    def forward(self, x_BCL: Tensor) -> Tensor:
        """(B, channels out, L)."""
        mixed: Tensor = self.pointwise(self.depthwise(x_BCL))
        return mixed


class Block(nn.Module):
    """Two convolutions along the sequence, added to what came in.

    The mask is applied before each convolution, because a normalisation's bias and a
    convolution's overlap would otherwise carry values from beyond the end of one building's
    sequence back into it.
    """

    def __init__(self, channels: int, hidden: int, kernel: int, kind: str = "plain") -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels)
        self.first = CONVOLUTION[kind](channels, hidden, kernel)
        self.second = CONVOLUTION[kind](hidden, channels, kernel)

    def forward(self, x_BLC: Tensor, mask_BL1: Tensor) -> Tensor:
        """Return features shaped as `x_BLC`; values outside of the mask never reach a place
        inside."""
        mask_B1L = mask_BL1.transpose(1, 2)
        x_BCL = (self.norm(x_BLC) * mask_BL1).transpose(1, 2)
        x_BCL = nn.functional.gelu(self.first(x_BCL)) * mask_B1L
        added_BLC: Tensor = self.second(x_BCL).transpose(1, 2)
        return x_BLC + added_BLC


class Stream(nn.Module):
    """Features of each scatterer to channels, then blocks along the sequence."""

    def __init__(
        self,
        features: int,
        channels: int,
        hidden: list[int],
        *,
        kernel: int,
        kind: str = "plain",
        recompute: bool = False,
    ) -> None:
        super().__init__()
        self.recompute = recompute
        self.stem = Linear(features, channels)
        self.blocks = nn.ModuleList(Block(channels, width, kernel, kind) for width in hidden)
        self.norm = nn.LayerNorm(channels)

    @property
    def hidden(self) -> list[int]:
        """Channels between the two convolutions of each block."""
        return [block.first.out_channels for block in self.blocks]  # type: ignore[union-attr, misc]

    def forward(self, x_BLF: Tensor, mask_BL1: Tensor) -> Tensor:
        """Return features (B, L, C), zero outside of the mask."""
        # Filled, not multiplied: a value in the padding may be infinite, and 0 times infinity
        # is no number. What an export standardises of numbers is finite, and filling takes 5
        # to 8 % of a pruned network's time in ONNX Runtime, wherever it is done: so there
        # alone the padding must not be NaN (`interface.MASK_MEANING`).
        if not torch.compiler.is_exporting():
            x_BLF = x_BLF.masked_fill(~mask_BL1, 0)
        x_BLC: Tensor = self.stem(x_BLF)
        for block in self.blocks:
            x_BLC = run_checkpointed(block, x_BLC, mask_BL1, recompute=self.recompute)
        normal_BLC: Tensor = self.norm(x_BLC) * mask_BL1
        return normal_BLC


class Encoder(nn.Module):
    """Two convolution streams, side by side."""

    def __init__(self, spec: NetworkSpec) -> None:
        super().__init__()
        stream = partial(
            Stream, kernel=spec.kernel, kind=spec.convolution, recompute=spec.checkpoint_activations
        )
        self.distance = stream(len(DISTANCE), spec.distance_channels, spec.distance_hidden)
        self.slope = stream(len(SLOPE), spec.slope_channels, spec.slope_hidden)

    def forward(self, distance_BLF: Tensor, slope_BLF: Tensor, mask_BL: Tensor) -> Tensor:
        """Return features (B, L, D), zero outside of the mask."""
        mask_BL1 = mask_BL[..., None]
        return torch.cat(
            [self.distance(distance_BLF, mask_BL1), self.slope(slope_BLF, mask_BL1)], dim=-1
        )
