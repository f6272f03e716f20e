"""Read files of weights, and check that they are unchanged. What needs torch is imported where it is used."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from plumbline.core.errors import InputError
from plumbline.core.files import read_json, sha256_file

if TYPE_CHECKING:
    from torch import Tensor


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
    """Read the preparation version in the weights of a trained model; None if they do not say it.

    Raises:
        InputError: they are not readable.
    """
    # Here: who reads the name of the manifest from this module has perhaps no libraries for weights.
    from safetensors import SafetensorError, safe_open

    path = folder / "model.safetensors"
    try:
        with safe_open(path, "pt") as file:
            said = (file.metadata() or {}).get(PREPARED)
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path}: not readable ({error}).") from None
    return None if said is None else int(said)
