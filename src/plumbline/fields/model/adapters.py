"""Add a low-rank adapter to a denoiser by `peft`, and save it: one for each domain of degradation.

Hu et al. 2021, LoRA: low-rank adaptation of large language models.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from torch import nn

from plumbline.core.errors import InputError
from plumbline.core.extras import need
from plumbline.fields.model.denoiser import FieldDenoiser


def targets(levels: int) -> str:
    """Return the pattern of the convolutions that adapters change: the middle and the last
    two levels on the way up."""
    last = "|".join(str(level) for level in range(max(0, levels - 2), levels))
    return rf"(mid_block|up_blocks\.({last}))\..*\.(conv1|conv2|conv_shortcut)"


def add_adapter(
    model: FieldDenoiser, name: str, rank: int, alpha: float, unfrozen: Sequence[str] = ()
) -> None:
    """Add a new adapter to the network, in place; it changes no answer yet, and only it is trained.

    Args:
        model: the network. name: name of the adapter. rank, alpha: rank and scale of the low-rank
            changes, which count `alpha / rank` times. unfrozen: names of modules that are trained
            whole, instead of by a low-rank change.

    Raises:
        InputError: a name is of no module, or nothing is left for a low-rank change.
    """
    need("restore", "adapters of the denoiser")
    from peft import LoraConfig, get_peft_model

    pattern, trained_whole = targets(len(model.spec.channels)), _whole_modules(model.unet, unfrozen)
    within = rf"({'|'.join(map(re.escape, trained_whole))})\..+"
    convolutions = [
        module for module, _ in model.unet.named_modules() if re.fullmatch(pattern, module)
    ]
    excluded = [module for module in convolutions if re.fullmatch(within, module)]
    if len(excluded) == len(convolutions):
        raise InputError(
            f"adapt.unfreeze: {', '.join(unfrozen)}: nothing is left for a low-rank change. Name "
            "fewer.",
            key="adapter.all_unfrozen",
        )
    config = LoraConfig(
        r=rank,
        lora_alpha=alpha,
        target_modules=pattern,
        exclude_modules=within if excluded else None,
        modules_to_save=trained_whole or None,
    )
    model.unet = get_peft_model(model.unet, config, adapter_name=name)


def _whole_modules(network: nn.Module, names: Sequence[str]) -> list[str]:
    """Return the names of modules, with the members of a list in its place, because peft
    cannot train a list.

    Raises:
        InputError: a name is of no module that has weights.
    """
    modules = {
        name: module
        for name, module in network.named_modules()
        if name and next(module.parameters(), None) is not None
    }
    whole: list[str] = []
    for name in names:
        if name not in modules:
            parts = ", ".join(module for module in modules if "." not in module)
            raise InputError(
                f"adapt.unfreeze: {name!r} is no module of the network. It has {parts}, and "
                "parts of these.",
                key="adapter.unknown_module",
            )
        members = modules[name].named_children() if isinstance(modules[name], nn.ModuleList) else ()
        whole += [f"{name}.{member}" for member, _ in members] or [name]
    return whole


def unfrozen_parameters(model: FieldDenoiser) -> list[nn.Parameter]:
    """Return the trained copies of the modules that an adapter unfreezes."""
    return [
        parameter
        for name, parameter in model.named_parameters()
        if parameter.requires_grad and ".modules_to_save." in name
    ]


def save_adapter(model: FieldDenoiser, name: str, out: Path) -> None:
    """Write the adapter `name` into the folder `out / name`, in peft's own format and the
    same bytes each time."""
    model.unet.save_pretrained(out, selected_adapters=[name], save_embedding_layers=False)
    (out / "README.md").unlink()  # peft's empty model card
