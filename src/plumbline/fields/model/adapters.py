"""Add low-rank adapters to a denoiser by `peft`: one for each domain of degradation.

Hu et al. 2021, LoRA: low-rank adaptation of large language models.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from plumbline.core.extras import need
from plumbline.fields.model.adapter_files import DOWN, UP, WHOLE
from plumbline.fields.model.denoiser import FieldDenoiser


def targets(levels: int) -> str:
    """Return the pattern of the convolutions that adapters change: the middle and the last two levels on the way up."""
    last = "|".join(str(level) for level in range(max(0, levels - 2), levels))
    return rf"(mid_block|up_blocks\.({last}))\..*\.(conv1|conv2|conv_shortcut)"


def add_adapter(model: FieldDenoiser, name: str, rank: int, alpha: float) -> None:
    """Add a new adapter to the network, in place; it changes no answer yet, and only it is trained."""
    need("restore", "adapters of the denoiser")
    from peft import LoraConfig, inject_adapter_in_model

    config = LoraConfig(r=rank, lora_alpha=alpha, target_modules=targets(len(model.spec.channels)))
    inject_adapter_in_model(config, model.unet, adapter_name=name)
    for parameter_name, parameter in model.named_parameters():
        parameter.requires_grad_(f".{name}." in parameter_name)


def late_parameters(model: FieldDenoiser, beginnings: Sequence[str]) -> dict[str, Tensor]:
    """Return the base weights that are trained late, by name: those with these prefixes, and their biases."""
    return {
        name: parameter
        for name, parameter in model.named_parameters()
        if any(name.startswith(f"unet.{beginning}.") for beginning in beginnings) and "lora_" not in name
    }


def adapter_parts(
    model: FieldDenoiser, name: str, before: dict[str, Tensor]
) -> tuple[dict[str, NDArray[np.float32]], float]:
    """Return the arrays that `adapter_files.write_adapter` writes, and the scaling.

    Args:
        model: with the adapter. name: of it. before: `late_parameters` before training, copies.
    """
    from peft.tuners.lora import LoraLayer

    parts, scaling = {}, 1.0
    for path, module in model.unet.named_modules():
        if isinstance(module, LoraLayer) and name in module.lora_A:
            scaling = float(module.scaling[name])
            for suffix, factor in ((DOWN, module.lora_A[name]), (UP, module.lora_B[name])):
                parts[f"unet.{path}.weight{suffix}"] = factor.weight.detach().cpu().numpy()
    now = dict(model.named_parameters())
    for parameter_name, old in before.items():
        parts[parameter_name + WHOLE] = (now[parameter_name].detach() - old).cpu().numpy()
    return parts, scaling
