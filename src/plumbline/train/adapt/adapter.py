"""Write an adapter to disk, and read it again.

A folder `adapters/NAME` has `adapter.safetensors` (`PARAMETER.lora_A`, `.lora_B` and
`.shift`, and the statistics as `buffer.NAME`) and `adapter.json` (`AboutAdapter`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors.torch import load_file, save
from torch import Tensor

from plumbline.core.console import warn
from plumbline.core.errors import InputError
from plumbline.core.files import atomic_folder, read_json, sha256_file, write_bytes, write_json
from plumbline.model.diagnosis import Diagnosis, load_diagnosis
from plumbline.params import RecordedPrepare

AGAIN = "Copy the adapter's folder again, or run `plumbline adapt` again."
Figures = dict[str, float | None]
"""`SplitScore` by its keys; None where there is no such figure, as of quadrants where no
label has one."""


def shown(figure: float | None) -> str:
    """Format a figure for tables."""
    return "-" if figure is None else f"{figure:.3f}"


class AboutAdapter(BaseModel):
    """Content of `adapter.json`."""

    model_config = ConfigDict(extra="forbid")
    name: str
    base_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    """Hash of the model that it changes, see `base_hash`."""
    weights_sha256: str = ""
    """Hash of `adapter.safetensors`."""
    labels: int
    """Number of buildings that it was fitted to."""
    level: float = Field(ge=0, le=1)
    """Share of the way that severities are brought to the labels' level."""
    parameters: int = Field(ge=0)
    """Number of values of the low-rank changes and unfrozen parameters; 0: none are changed."""
    temperature_calibrated: bool
    interval_calibrated: bool
    before: Figures
    """Figures of the base on those buildings."""
    after: Figures
    """Figures of the adapted model on each of them while it was held out."""
    prepare: RecordedPrepare
    """Preparation of the scatterers, which the adapted model needs as well."""
    preparation: int = Field(ge=1)
    """`features.PREPARATION` of the version of Plumbline that prepared them."""
    made: dict[str, Any] | None = None
    """Record of how the adapter was made, see `serve.adapt`."""


ADAPTERS = Path("adapters")
"""Folder of all adapters, with one folder for each."""
WEIGHTS, ABOUT = "adapter.safetensors", "adapter.json"
BUFFERS = (
    "temperature",
    "quadrant_scale",
    "accepted_scale",
    "accepted_shift",
    "level_scale",
    "level_shift",
    "category_share",
    "mechanism_scale",
    "interval_below",
    "interval_above",
    "severity_mean",
    "severity_sd",
    "severity_limit",
    "novelty_limit",
    "geometry_middle",
    "geometry_reach",
    "least_years",
)
"""Statistics that an adapter brings along. The standardisation of the inputs stays: the frozen
weights were trained with it. That of the answers is the level of the city's severities."""


@dataclass(frozen=True)
class Adapter:
    """Content of an adapter folder."""

    about: AboutAdapter
    tensors: dict[str, Tensor]

    def applied(self, base: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the state of the base with the adapter's changes; the base's own tensors
        are unchanged."""
        state = dict(base)
        for name, value in self.tensors.items():
            parameter, _, kind = name.rpartition(".")
            if parameter == "buffer":
                state[kind] = value
            elif kind == "shift":
                state[parameter] = base[parameter] + value
            elif kind == "lora_B":
                state[parameter] = base[parameter] + value @ self.tensors[f"{parameter}.lora_A"]
        return state


def base_hash(folder: Path) -> str:
    """Return the SHA-256 of a trained model, over its weights and widths."""
    return hashlib.sha256(
        f"{sha256_file(folder / 'model.safetensors')}{read_json(folder / 'model.json')}".encode()
    ).hexdigest()


def save_adapter(adapter: Adapter, folder: Path) -> None:
    """Write an adapter folder, atomically."""
    with atomic_folder(folder) as out:
        write_bytes(
            out / WEIGHTS,
            save({name: value.contiguous() for name, value in adapter.tensors.items()}),
        )
        about = adapter.about.model_copy(update={"weights_sha256": sha256_file(out / WEIGHTS)})
        write_json(out / ABOUT, about.model_dump(mode="json"))


def load_adapter(folder: Path) -> Adapter:
    """Read what `save_adapter` wrote.

    Raises:
        InputError: a file is missing or damaged, or the two files do not belong together.
    """
    content, weights = read_json(folder / ABOUT), folder / WEIGHTS
    try:
        about = AboutAdapter.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise InputError(
            f"{folder / ABOUT}: {place}: {first['msg']}. {AGAIN}", key="adapter.bad_value"
        ) from None
    if not weights.is_file() or sha256_file(weights) != about.weights_sha256:
        raise InputError(
            f"{weights}: missing, or not as it was written. {AGAIN}", key="adapter.changed"
        )
    return Adapter(about, load_file(weights))


def list_adapters(root: Path) -> list[AboutAdapter]:
    """Return the record of each adapter below `root`, under the name of its folder, which
    may have been renamed.

    A damaged adapter is left out with a warning, so that the others are still listed.
    """
    adapters = []
    for folder in sorted(
        path for path in root.glob("*") if path.is_dir() and not path.name.startswith(".")
    ):
        try:
            adapters.append(load_adapter(folder).about.model_copy(update={"name": folder.name}))
        except InputError as error:
            warn("not listed: %s", error, key=error.key)
    return adapters


def check_name(name: str) -> None:
    """Refuse a name that is unfit for a folder.

    Raises:
        InputError: it has other characters than letters, digits, `_`, `-` and `.`, or
            begins with one of the last two.
    """
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", name):
        raise InputError(
            f"{name!r}: no name of an adapter; give up to 64 letters, digits, '_', '-' or '.', "
            "not beginning with '-' "
            "or '.'.",
            key="adapter.unfit_name",
        )


class Adapted:
    """One base model in memory, and any number of adapters to switch among."""

    def __init__(self, base: Path) -> None:
        """Load the trained model in the folder `base`.

        Raises:
            InputError: it is not readable.
        """
        self.folder = base
        self.model: Diagnosis = load_diagnosis(base)
        self._base = {name: value.clone() for name, value in self.model.state_dict().items()}
        self._hash = base_hash(base)

    def use(self, adapter: Adapter | None) -> Diagnosis:
        """Return the model with the adapter applied; with None, the base.

        Raises:
            InputError: the adapter is of another base.
        """
        if adapter is not None and adapter.about.base_sha256 != self._hash:
            raise InputError(
                f"adapter {adapter.about.name}: made for the model "
                f"{adapter.about.base_sha256[:12]}…; {self.folder} is {self._hash[:12]}…. Give "
                "--model the model that it was adapted from, or adapt this one.",
                key="adapter.other_model",
            )
        with torch.no_grad():
            self.model.load_state_dict(adapter.applied(self._base) if adapter else self._base)
        return self.model.eval()
