"""Read the parameters of restoration from a file."""

from __future__ import annotations

from pathlib import Path

from plumbline.params.load import read_yaml, validated
from plumbline.params.restoration import RestorationParams


def load_restoration(path: Path = Path("params.yaml")) -> RestorationParams:
    """Read and check the `params.yaml` of a restoration project.

    Raises:
        InputError: the file is missing, is not YAML, or a key is unknown, missing, of the wrong type or out of range;
            the message names every such key, what was found and what is allowed.
    """
    return validated(RestorationParams, read_yaml(path), str(path))
