"""Read files of weights, and check that they are unchanged. What needs torch is imported
where it is used."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from plumbline.core.errors import InputError
from plumbline.core.files import read_json, sha256_file

if TYPE_CHECKING:
    from torch import Tensor


MANIFEST = "manifest.json"
"""Name of the file beside the weights of a model package that lists the hashes of its files."""


def read_weights(path: Path, broken: bool = False) -> dict[str, Tensor]:
    """Read the tensors of a file; with `broken`, accept values that are not numbers, so
    that these can be measured.

    Raises:
        InputError: the file is not that of the manifest beside it, or contains values that are no
            numbers.
        SafetensorError, OSError: the file is missing or cannot be read.
    """
    # Here: torch takes a second and 200 MB, and who wants the name of the manifest, as
    # `predict`, needs none of it.
    from safetensors.torch import load_file

    tensors = load_file(path)
    _check_released(path)
    for name, value in tensors.items():
        if not broken and value.is_floating_point() and bool(value.isnan().any()):
            raise InputError(
                f"{path}: {name} holds values that are no numbers: the file is damaged, or its "
                "training went wrong. "
                "Get the model again, or train it anew.",
                key="weights.not_a_number",
            )
    return tensors


def _check_released(path: Path) -> None:
    manifest = path.with_name(MANIFEST)
    if not manifest.is_file():
        return
    content: Any = read_json(manifest)
    files = content.get("files") if isinstance(content, dict) else None
    listed = files.get(path.name) if isinstance(files, dict) else None
    if isinstance(listed, dict) and listed.get("sha256") != (actual := sha256_file(path)):
        raise InputError(
            f"{path}: changed since it was released (SHA-256 {actual[:12]}… found, "
            f"{str(listed.get('sha256'))[:12]}… in the manifest). Get the model again.",
            key="package.changed_file",
        )


PREPARED = "preparation"
"""Key of the preparation version in the metadata of a file of weights."""


def read_preparation(folder: Path) -> int | None:
    """Read the preparation version in the weights of a trained model; None if they name none.

    Raises:
        InputError: they are not readable, or the version is no whole number.
    """
    # Here: who reads the name of the manifest from this module has perhaps no libraries for
    # weights.
    from safetensors import SafetensorError, safe_open

    path = folder / "model.safetensors"
    try:
        with safe_open(path, "pt") as file:
            version = (file.metadata() or {}).get(PREPARED)
    except (SafetensorError, OSError) as error:
        raise InputError(
            f"{path}: not readable ({error}).", key="network.unreadable_weights"
        ) from None
    if version is None:
        return None
    if not version.isdecimal():
        raise InputError(
            f"{path}: preparation version {version!r} found, where a whole number is needed. Get "
            "the model again, or "
            "train it anew.",
            key="weights.bad_preparation",
        )
    return int(version)
