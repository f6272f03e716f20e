"""Read and write the low-rank changes of an adapter, and turn them into changes of weights; NumPy only."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from plumbline.core.errors import InputError

DOWN, UP, WHOLE = ".lora_A", ".lora_B", ".added"
"""Behind a weight's name: the two factors of a low-rank change, or a change as it is."""
SCALING = "scaling"
SUFFIX = ".safetensors"
AUTO = "auto"
"""In place of a name: by evidence, see `adapter_rules`."""
CHOICES = "adapters.json"
"""Which of the trained adapters are shipped, and why."""
Arrays = dict[str, NDArray[np.float32]]


def write_adapter(parts: Mapping[str, NDArray[Any]], scaling: float, path: Path) -> None:
    """Write factors and changes by the names above, in 16 bits; `scaling` is `alpha / rank`."""
    half = {name: np.ascontiguousarray(values, np.float16) for name, values in parts.items()}
    save_file(half, path, {SCALING: json.dumps(scaling)})  # two entries would be written in any order


def weight_changes(path: Path) -> Arrays:
    """Return the change of each weight by an adapter, by name in the network (Hu et al. 2021, equation 3).

    Raises:
        InputError: the file is missing or damaged.
    """
    try:
        with safe_open(path, "numpy") as stored:
            scaling = float(json.loads((stored.metadata() or {})[SCALING]))
            parts = {name: np.asarray(stored.get_tensor(name), np.float32) for name in stored.keys()}  # noqa: SIM118
        found = {name.removesuffix(WHOLE): values for name, values in parts.items() if name.endswith(WHOLE)}
        for name, down in parts.items():
            if name.endswith(DOWN):
                weight = name.removesuffix(DOWN)
                up = parts[weight + UP]
                product = up.reshape(len(up), -1) @ down.reshape(len(down), -1)
                found[weight] = scaling * product.reshape(len(up), *down.shape[1:])
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: not readable as an adapter ({error}). Get the package again.") from None
    return found


def combined(changes: Sequence[tuple[Arrays, float]]) -> Arrays:
    """Return the weighted sum of several adapters' changes."""
    total: Arrays = {}
    for change, weight in changes:
        for name, values in change.items():
            total[name] = total.get(name, np.zeros_like(values)) + np.float32(weight) * values
    return total


def asks_auto(given: Sequence[str]) -> bool:
    """Return whether a user leaves the choice to the evidence in the points, by `auto`.

    Raises:
        InputError: other adapters are given, too, or a weight.
    """
    found = [text for text in given if text.partition("=")[0] == AUTO]
    if found and list(given) != [AUTO]:
        raise InputError(
            f"--adapter {', '.join(given)}: `{AUTO}` chooses by itself. Give it alone and without a weight, or name "
            "the adapters."
        )
    return bool(found)


def parse_adapters(given: Sequence[str]) -> list[tuple[str, float]]:
    """Parse adapters, `NAME` or `NAME=WEIGHT`, as users write them.

    Raises:
        InputError: a weight is no number from 0 to 2, or a name comes twice.
    """
    found = []
    for text in given:
        name, equals, weight = text.partition("=")
        try:
            value = float(weight) if equals else 1.0
        except ValueError:
            value = np.nan
        if not 0 <= value <= 2:
            raise InputError(f"--adapter {text}: a weight from 0 to 2 is needed after the =.")
        found.append((name, value))
    twice = {name for name, _ in found if sum(name == other for other, _ in found) > 1}
    if twice:
        raise InputError(f"--adapter {', '.join(sorted(twice))}: given twice. Give each once, with its weight.")
    return found
