"""Define the denoiser of fields: `diffusers.UNet2DModel`, with its size from params, saved
without pickle.

Tensors: B windows, F = 2 fields (up, east), C conditions, H rows, W columns.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import Field, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from plumbline.core.errors import InputError
from plumbline.core.extras import need
from plumbline.core.files import read_json, write_json
from plumbline.fields.model.sampling import alphas_cumulative
from plumbline.fields.prepare.conditions import CHANNELS
from plumbline.params.fields import Denoiser

FIELDS = ("up", "east")
WEIGHTS, SPEC = "model.safetensors", "model.json"
PACKED_WEIGHTS, PACKED_SPEC = "weights.safetensors", "network.json"
"""File names of the same two in a package, where `model` is the exported network."""
GROUPS = 8


class DenoiserSpec(Denoiser):
    """Sizes that a network is built from, and the meaning of its weights.

    The diffusion has no default here: a file that lacks it does not show what the weights mean.
    """

    train_steps: int = Field(ge=10, le=10_000)
    schedule: Literal["linear", "squaredcos_cap_v2"]
    conditions: tuple[str, ...] = CHANNELS


class FieldDenoiser(nn.Module):
    """Network from a noisy field, its step and conditions to the clean field; without
    attention, for any extent."""

    alphas: Tensor

    def __init__(self, spec: DenoiserSpec) -> None:
        """Draw the weights; the last layer begins at 0: it answers the process's mean."""
        super().__init__()
        need("restore", "the denoiser")
        from diffusers import UNet2DModel

        self.spec = spec
        levels = len(spec.channels)
        self.unet = UNet2DModel(
            in_channels=len(FIELDS) + len(spec.conditions),
            out_channels=len(FIELDS),
            block_out_channels=tuple(spec.channels),
            layers_per_block=spec.layers,
            down_block_types=("DownBlock2D",) * levels,
            up_block_types=("UpBlock2D",) * levels,
            norm_num_groups=GROUPS,
            add_attention=False,
        )
        nn.init.zeros_(self.unet.conv_out.weight)
        nn.init.zeros_(self.unet.conv_out.bias)
        alphas = torch.from_numpy(alphas_cumulative(spec.schedule, spec.train_steps)).float()
        self.register_buffer("alphas", alphas, persistent=False)

    def forward(self, noisy_BFHW: Tensor, step_B: Tensor, conditions_BCHW: Tensor) -> Tensor:
        """Return the clean field (B, F, H, W), in units of the conditions' scale."""
        clean_BFHW: Tensor = self.unet(
            torch.cat([noisy_BFHW, conditions_BCHW], dim=1), step_B, return_dict=False
        )[0]
        return clean_BFHW

    def noisy(self, clean_BFHW: Tensor, noise_BFHW: Tensor, step_B: Tensor) -> Tensor:
        """Return the field with the noise of a step (Ho et al. 2020, equation 4)."""
        signal_share = self.alphas[step_B][:, None, None, None]
        return signal_share.sqrt() * clean_BFHW + (1 - signal_share).sqrt() * noise_BFHW


def count_parameters(model: nn.Module) -> int:
    """Count all parameters."""
    return sum(parameter.numel() for parameter in model.parameters())


def save_denoiser(model: FieldDenoiser, folder: Path) -> None:
    """Write weights (safetensors) and spec (JSON) into `folder`."""
    save_file(
        {name: value.contiguous() for name, value in model.state_dict().items()}, folder / WEIGHTS
    )
    write_json(folder / SPEC, model.spec.model_dump(mode="json"))


def read_spec(path: Path) -> DenoiserSpec:
    """Read the spec from a JSON file.

    Raises:
        InputError: it is missing, damaged, or of a network with other conditions than these.
    """
    try:
        spec = DenoiserSpec.model_validate(read_json(path))
    except ValidationError as error:
        first = error.errors()[0]
        detail = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise InputError(
            f"{path}: not readable as a denoiser's spec ({detail}).", key="network.unreadable_spec"
        ) from None
    if spec.conditions != CHANNELS:
        raise InputError(
            f"{path}: trained on other conditions than this version makes. Train it anew.",
            key="network.other_conditions",
        )
    return spec


def load_denoiser(folder: Path, weights: str = WEIGHTS, spec: str = SPEC) -> FieldDenoiser:
    """Load a trained denoiser, in evaluation mode on the CPU.

    Raises:
        InputError: a file is missing or damaged.
    """
    model = FieldDenoiser(read_spec(folder / spec))
    try:
        state: dict[str, Any] = load_file(folder / weights)
        model.load_state_dict({name: value.float() for name, value in state.items()})
    except (OSError, SafetensorError, RuntimeError, ValueError) as error:
        detail = str(error).splitlines()[0]
        raise InputError(
            f"{folder / weights}: not readable as the weights of a denoiser ({detail}).",
            key="network.unreadable_weights",
        ) from None
    return model.eval()
