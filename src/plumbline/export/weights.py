"""Load the network of a model package in torch, for what an ONNX file cannot do, for example gradients."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from numpy.typing import NDArray
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
        f"{package}: no {FILES[0][0]} with {FILES[0][1]} in it. The weights are needed here: give a package that this "
        "version of Plumbline made."
    )


class Trained(NamedTuple):
    """Statistics of the training data, from the weights of a package."""

    longest: int
    """Most scatterers of a building."""
    statistics: dict[str, NDArray[Any]]
    """`distance_mean`, `distance_sd` and the like: a value a feature."""


def read_trained(package: Path) -> Trained:
    """Read the statistics of the training data from a verified package, without torch.

    Raises:
        InputError: the package holds no weights, or they are damaged.
    """
    from safetensors.numpy import load_file

    weights, widths = network_files(package)
    told = read_json(widths)
    longest = told.get("max_length") if isinstance(told, dict) else None
    if not isinstance(longest, int):
        raise InputError(f"{widths}: max_length: {longest!r} found, a number is needed. Get the package again.")
    try:
        found = load_file(weights)
    except (SafetensorError, OSError) as error:
        raise InputError(f"{weights}: not readable ({error}). Get the package again.") from None
    return Trained(longest, {name: value for name, value in found.items() if name.endswith(("_mean", "_sd"))})


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
        raise InputError(f"{weights}: not readable as the network of {widths.name} ({error}).") from None
    return model.eval()


def load_network(package: Path) -> Diagnosis:
    """Load the network of a verified package, in evaluation mode.

    Raises:
        InputError: it holds none, or they do not fit the widths beside them.
    """
    return read_network(*network_files(package))
