"""Read adapters as peft saves them, and add them to the weights of a network; NumPy only.

An adapter is a folder `adapters/NAME` with peft's `adapter_config.json` and
`adapter_model.safetensors`, and with the spread of the adapted network in `spread.json`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file

from plumbline.core.errors import InputError
from plumbline.core.files import read_json

ADAPTERS = "adapters"
"""Folder of the adapters in a trained model and in a package."""
CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
PREFIX = "base_model.model."
"""Prefix that peft puts before the names of a network's weights."""
Arrays = dict[str, NDArray[np.float32]]
Weighted = tuple[Path, float]
"""Folder of an adapter, and the weight of its change."""


def adapted_weights(
    base: Mapping[str, NDArray[np.float32]], adapters: Sequence[Weighted]
) -> Arrays:
    """Return the weights that adapters change: the base's, plus the weighted sum of the changes.

    A change is low-rank (Hu et al. 2021, equation 3), or the difference between an unfrozen
    weight and the base's.

    Args:
        base: weights of the network, by name. adapters: folder and weight of each.

    Raises:
        InputError: an adapter is missing or damaged, or does not fit the network, as one in int8.
    """
    adapted: Arrays = {}
    for folder, share in adapters:
        for name, change in _read_changes(folder, base).items():
            adapted[name] = adapted.get(name, base[name]) + np.float32(share) * change
    return adapted


def _read_changes(folder: Path, base: Mapping[str, NDArray[np.float32]]) -> Arrays:
    changes: Arrays = {}
    try:
        config = read_json(folder / CONFIG)
        scaling = np.float32(config["lora_alpha"] / config["r"])
        stored = {
            name.removeprefix(PREFIX): values
            for name, values in load_file(folder / WEIGHTS).items()
        }
        for name, values in stored.items():
            module, _, factor = name.partition(".lora_")
            if not factor:
                changes[f"unet.{name}"] = values - base[f"unet.{name}"]
            elif factor == "A.weight":
                up = stored[f"{module}.lora_B.weight"]
                change = (up.reshape(len(up), -1) @ values.reshape(len(values), -1)).reshape(
                    -1, *values.shape[1:]
                )
                changes[f"unet.{module}.weight"] = scaling * change
        for name, change in changes.items():
            if change.shape != base[name].shape:
                raise ValueError(
                    f"{name}: shape {change.shape} found, {base[name].shape} in the network"
                )
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{folder}: not readable as an adapter of this network ({error}). An adapter fits "
            "the float32 and fp16 "
            "models of the package that it was trained for. Get the package again.",
            key="adapter.unreadable",
        ) from None
    return changes


def parse_adapters(texts: Sequence[str]) -> list[tuple[str, float]]:
    """Parse adapters, `NAME` or `NAME=WEIGHT`, as users write them.

    Raises:
        InputError: a weight is no number from 0 to 2, or a name comes twice.
    """
    adapters: dict[str, float] = {}
    for text in texts:
        name, equals, weight = text.partition("=")
        try:
            value = float(weight) if equals else 1.0
        except ValueError:
            value = np.nan
        if not 0 <= value <= 2:
            raise InputError(
                f"--adapter {text}: a weight from 0 to 2 is needed after the =.",
                key="adapter.weight_out_of_range",
            )
        if name in adapters:
            raise InputError(
                f"--adapter {name}: given twice. Give each once, with its weight.",
                key="adapter.given_twice",
            )
        adapters[name] = value
    return list(adapters.items())
