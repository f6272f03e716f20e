"""By which `features.PREPARATION` the points of a trained model were prepared: its file of weights says it."""

from __future__ import annotations

from pathlib import Path

from plumbline import pretrained
from plumbline.core.errors import InputError
from plumbline.core.files import read_json

PREPARED = "preparation"
"""Where a file of weights says it."""


def told_preparation(folder: Path) -> int | None:
    """What the weights in the folder of a trained model say; None for those from before they did.

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
