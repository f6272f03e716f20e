"""Add a low-rank adapter to a denoiser by `peft`, and save it: one for each domain of degradation.

Hu et al. 2021, LoRA: low-rank adaptation of large language models.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torch import nn

from plumbline.core.extras import need
from plumbline.fields.model.denoiser import FieldDenoiser


def targets(levels: int) -> str:
    """Return the pattern of the convolutions that adapters change: the middle and the last two levels on the way up."""
    last = "|".join(str(level) for level in range(max(0, levels - 2), levels))
    return rf"(mid_block|up_blocks\.({last}))\..*\.(conv1|conv2|conv_shortcut)"


def add_adapter(model: FieldDenoiser, name: str, rank: int, alpha: float, unfrozen: Sequence[str] = ()) -> None:
    """Add a new adapter to the network, in place; it changes no answer yet, and only it is trained.

    Args:
        model: the network. name: of the adapter. rank, alpha: of the low-rank changes, which count `alpha / rank`
            times. unfrozen: names of modules that are trained whole.
    """
    need("restore", "adapters of the denoiser")
    from peft import LoraConfig, get_peft_model

    pattern = targets(len(model.spec.channels))
    config = LoraConfig(r=rank, lora_alpha=alpha, target_modules=pattern, modules_to_save=list(unfrozen) or None)
    model.unet = get_peft_model(model.unet, config, adapter_name=name)


def unfrozen_parameters(model: FieldDenoiser) -> list[nn.Parameter]:
    """Return the trained copies of the modules that an adapter unfreezes."""
    return [
        parameter
        for name, parameter in model.named_parameters()
        if parameter.requires_grad and ".modules_to_save." in name
    ]


def save_adapter(model: FieldDenoiser, name: str, out: Path) -> None:
    """Write the adapter `name` into the folder `out / name`, in peft's own format and the same bytes each time."""
    model.unet.save_pretrained(out, selected_adapters=[name], save_embedding_layers=False)
    (out / "README.md").unlink()  # peft's empty model card
