"""Load the network of a model package in torch, for what an ONNX file cannot do, for
example gradients."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from safetensors import SafetensorError

from plumbline.core.errors import InputError
from plumbline.core.files import read_json
from plumbline.model.weights import read_weights

if TYPE_CHECKING:
    from plumbline.model.diagnosis import Diagnosis

FILES = (("weights.safetensors", "network.json"), ("model.safetensors", "model.json"))
"""Weights and widths in a released package, and in one that `plumbline adapters merge` made."""


def network_files(package: Path) -> tuple[Path, Path]:
    """Return the files with the weights and the widths of a package's network.

    Raises:
        InputError: there are none.
    """
    for names in FILES:
        weights, widths = (package / name for name in names)
        if weights.is_file() and widths.is_file():
            return weights, widths
    raise InputError(
        f"{package}: no {FILES[0][0]} with {FILES[0][1]} in it. The weights are needed here: "
        "give a package that this "
        "version of Plumbline made.",
        key="package.no_weights",
    )


def read_network(weights: Path, widths: Path) -> Diagnosis:
    """Load the network of these files, in evaluation mode.

    Raises:
        InputError: one is damaged, or they do not fit each other.
    """
    from plumbline.model.diagnosis import Diagnosis
    from plumbline.model.spec import NetworkSpec

    try:
        model = Diagnosis(NetworkSpec.model_validate(read_json(widths)))
        model.load_state_dict(read_weights(weights))
    except (SafetensorError, OSError, RuntimeError, ValueError) as error:
        raise InputError(
            f"{weights}: not readable as the network of {widths.name} ({error}).",
            key="network.unreadable_weights",
        ) from None
    return model.eval()


def load_network(package: Path) -> Diagnosis:
    """Load the network of a verified package, in evaluation mode.

    Raises:
        InputError: it holds none, or they do not fit the widths beside them.
    """
    return read_network(*network_files(package))
