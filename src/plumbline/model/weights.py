"""Read files of weights, and check that they are unchanged since they were written.

Models saved when the network was one module without parts, an interval simpler, and no time of observation short
are brought to the names and buffers of now. What needs torch is imported where it is used.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from plumbline import pretrained
from plumbline.core.errors import InputError
from plumbline.core.files import read_json, sha256_file

if TYPE_CHECKING:
    from torch import Tensor, nn


MANIFEST = "manifest.json"
"""Beside the weights of a model package: it lists the hashes of its files."""


def read_weights(path: Path, broken: bool = False) -> dict[str, Tensor]:
    """Read the tensors of a file; with `broken`, accept values that are not numbers, so that these can be measured.

    Raises:
        InputError: they are not those of the manifest beside them, or no numbers.
        SafetensorError, OSError: the file is missing or cannot be read.
    """
    # Here: torch takes a second and 200 MB, and who wants the name of the manifest, as `predict`, needs none of it.
    from safetensors.torch import load_file

    found = load_file(path)
    _check_released(path)
    for name, value in found.items():
        if not broken and value.is_floating_point() and bool(value.isnan().any()):
            raise InputError(
                f"{path}: {name} holds values that are no numbers: the file is damaged, or its training went wrong. "
                "Get the model again, or train it anew."
            )
    return found


def _check_released(path: Path) -> None:
    manifest = path.with_name(MANIFEST)
    if not manifest.is_file():
        return
    content: Any = read_json(manifest)
    files = content.get("files") if isinstance(content, dict) else None
    listed = files.get(path.name) if isinstance(files, dict) else None
    if isinstance(listed, dict) and listed.get("sha256") != (actual := sha256_file(path)):
        raise InputError(
            f"{path}: changed since it was released (SHA-256 {actual[:12]}… found, {str(listed.get('sha256'))[:12]}… "
            "in the manifest). Get the model again."
        )


PREPARED = "preparation"
"""Where a file of weights says it."""


def told_preparation(folder: Path) -> int | None:
    """Read the preparation version in the weights of a trained model; None if they are older than this entry.

    Raises:
        InputError: they are not readable, or say no number.
    """
    # Here: who reads the name of the manifest from this module has perhaps no libraries for weights.
    from safetensors import SafetensorError, safe_open

    path = folder / "model.safetensors"
    try:
        with safe_open(path, "pt") as file:
            said = (file.metadata() or {}).get(PREPARED)
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path}: not readable ({error}).") from None
    if said is None and folder.resolve() == pretrained.MODEL.resolve():
        said = read_json(pretrained.PACKAGE / "manifest.json").get(PREPARED)  # made by the same run
    if said is not None and not str(said).isdecimal():
        raise InputError(f"{path}: {PREPARED} {said!r} found, a number is needed. Get the model again.")
    return None if said is None else int(said)


RENAMED = {
    "distance.": "encoder.distance.",
    "slope.": "encoder.slope.",
    "position.": "neck.position.",
    "attention.": "neck.attention.",
    "norm.": "neck.norm.",
    "join_mean.": "heads.join_pooled.0.",
    "join_max.": "heads.join_pooled.1.",
    "join_geometry.": "heads.join_geometry.",
    "quadrant_head.": "heads.quadrant_head.",
    "severity_head.": "heads.severity_head.",
}
"""Name within the network then, and now."""


def take_older_buffers(model: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Add the buffers that older models lack, as a pre-hook of `load_state_dict`.

    An interval of then had one scale of each category, for both sides and all kinds of buildings, with steps between
    kinds, and lengths that were added; without the steps and those it is nearly that. Whoever goes on from such a model
    calibrates its interval anew. No time was too short for the first models.
    """
    import torch

    if f"{prefix}severity_limit" in state:  # not a part of a model alone
        state.setdefault(f"{prefix}least_years", torch.zeros_like(model.get_buffer("least_years")))
    if not any(f"{prefix}interval_{name}" in state for name in ("stretch", "scale")):
        return
    for name in ("steps", "stretch"):
        state.pop(f"{prefix}interval_{name}", None)
    scale = state.pop(f"{prefix}interval_scale", torch.ones(()))
    for side in ("below", "above"):
        state[f"{prefix}interval_{side}"] = scale.expand_as(model.get_buffer(f"interval_{side}")).clone()
    state.setdefault(f"{prefix}interval_length", torch.zeros_like(model.get_buffer("interval_length")))


def take_older_names(_network: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Rename weights of older models to the present names, as a pre-hook of `load_state_dict`."""
    for old, new in RENAMED.items():
        for name in [name for name in state if name.startswith(prefix + old)]:
            state[prefix + new + name.removeprefix(prefix + old)] = state.pop(name)
