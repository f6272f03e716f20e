"""Keep an adapter on disk, and read it again.

A folder `adapters/NAME` has `adapter.safetensors` (`PARAMETER.lora_A`, `.lora_B` and `.shift`, and the statistics as
`buffer.NAME`) and `adapter.json` (`adapter_file.AboutAdapter`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.core.files import atomic_folder, read_json, sha256_file, write_bytes, write_json
from plumbline.model.diagnosis import Diagnosis, load_diagnosis
from plumbline.params import Prepare, RecordedPrepare
from plumbline.prepare.features.definition import PREPARATION

MAX_BYTES = 100_000
"""Of either file."""
OWN_HASH = "about_sha256"
AGAIN = "Copy the adapter's folder again, or run `plumbline adapt` again."


def read_about(path: Path) -> Any:
    """Return the content of `adapter.json`.

    Raises:
        InputError: it is missing, larger than `MAX_BYTES`, no JSON, or says something else than was written.
    """
    try:
        content = json.loads(_bytes(path))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not readable as JSON ({error}). {AGAIN}") from None
    told = content.get(OWN_HASH) if isinstance(content, dict) else None
    if told is not None and told != about_hash(content):
        raise InputError(f"{path}: changed since it was written: its content has another hash than it says. {AGAIN}")
    return content


def about_hash(content: dict[str, Any]) -> str:
    """Return the SHA-256 of the content of `adapter.json` without this hash."""
    others = {key: value for key, value in content.items() if key != OWN_HASH}
    return hashlib.sha256(json.dumps(others, sort_keys=True).encode()).hexdigest()


def read_tensors(path: Path, sha256: str) -> dict[str, Tensor]:
    """Return the tensors of `adapter.safetensors`, after a check of its hash.

    Raises:
        InputError: it is missing, larger than `MAX_BYTES`, another file than was written, or no file of tensors.
    """
    content = _bytes(path)
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise InputError(
            f"{path}: changed or cut off since it was written ({len(content)} bytes of SHA-256 {found[:12]}… found, "
            f"{sha256[:12]}… in adapter.json). {AGAIN}"
        )
    try:
        return load(content)
    except (SafetensorError, KeyError, ValueError, RuntimeError) as error:  # also of a type that torch does not know
        raise InputError(f"{path}: not a file of tensors ({error}). {AGAIN}") from None


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; an adapter has one. {AGAIN}") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}). {AGAIN}") from None
    if len(content) > MAX_BYTES:
        raise InputError(f"{path}: more than {MAX_BYTES} bytes, which no adapter has. {AGAIN}")
    return content


def _judged(figures: dict[str, float | None]) -> dict[str, float | None]:
    missing = [key for key in ("quadrant_accuracy", "severity_mae") if key not in figures]
    if missing:
        raise ValueError(f"{missing[0]} is missing")
    return figures


Figures = Annotated[dict[str, float | None], AfterValidator(_judged)]
"""None: there is no such figure, as of quadrants where no label has one."""


def shown(figure: float | None) -> str:
    """Format a figure for tables."""
    return "-" if figure is None else f"{figure:.3f}"


class AboutAdapter(BaseModel):
    """Content of `adapter.json`."""

    model_config = ConfigDict(extra="forbid")
    format: int = Field(default=1, ge=1, le=1)
    name: str
    base_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    """Of the model that it changes, see `base_hash`."""
    weights_sha256: str = Field(default="0" * 64, pattern=r"^[0-9a-f]{64}$")
    """Of `adapter.safetensors`."""
    about_sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    """Of all else that stands here, see `about_hash`."""
    rank: int = Field(ge=1)
    alpha: float = Field(gt=0, allow_inf_nan=False)
    parameters: int
    """Values that were trained."""
    share: float
    """The same, of the network's parameters."""
    labels: int
    """Buildings it was fitted to."""
    level: float = Field(ge=0, le=1)
    part: float
    """What held-out buildings chose of it, see `candidates.Way`; hardly anything: the base, with other statistics."""
    temperature_calibrated: bool
    interval_calibrated: bool
    before: Figures
    """Figures of the base on those buildings."""
    after: Figures
    """Figures of the adapted model on each of them while it was held out."""
    prepare: RecordedPrepare = Prepare()
    """How scatterers were prepared, and must be for the adapted model."""
    preparation: int = Field(default=1, ge=1)
    """`features.PREPARATION` of the version of Plumbline that prepared them."""
    made: dict[str, Any] | None = None
    """The record of its making, see `serve.adapt`."""


ADAPTERS = Path("adapters")
"""Where adapters are kept, one folder each."""
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
"""Statistics that an adapter brings along. The standardisation of what is read stays: the frozen weights were trained
with it. That of what is said is the level of the city's severities."""


@dataclass(frozen=True)
class Adapter:
    """Content of an adapter folder."""

    about: AboutAdapter
    tensors: dict[str, Tensor]

    def applied(self, base: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the state of the base with the adapter's changes; the base's own tensors are unchanged.

        Raises:
            InputError: a tensor of the adapter is of a kind that is not known.
        """
        state = dict(base)
        for name, value in self.tensors.items():
            if name.startswith("buffer."):
                state[name.removeprefix("buffer.")] = value
                continue
            parameter, _, kind = name.rpartition(".")
            if kind == "shift":
                state[parameter] = base[parameter] + value
            elif kind == "lora_B":
                scaled = self.about.alpha / self.about.rank * value  # as `LowRank` computes it
                state[parameter] = base[parameter] + (scaled @ self.tensors[f"{parameter}.lora_A"]).view_as(
                    base[parameter]
                )
            elif kind != "lora_A":
                raise InputError(f"adapter: tensor {name!r} found, which says no change that this version knows of.")
        return state


def base_hash(folder: Path) -> str:
    """Return the SHA-256 of a trained model, over its weights and widths."""
    return hashlib.sha256(
        f"{sha256_file(folder / 'model.safetensors')}{read_json(folder / 'model.json')}".encode()
    ).hexdigest()


def save_adapter(adapter: Adapter, folder: Path) -> None:
    """Write an adapter folder, atomically.

    Raises:
        InputError: see `check_size`.
    """
    check_size(adapter.tensors, f"{folder / WEIGHTS}: ")
    with atomic_folder(folder) as out:
        write_bytes(out / WEIGHTS, _saved(adapter.tensors))
        about = adapter.about.model_copy(update={"weights_sha256": sha256_file(out / WEIGHTS)})
        content = about.model_dump(mode="json")
        write_json(out / ABOUT, content | {OWN_HASH: about_hash(content)})


def check_size(tensors: Mapping[str, Tensor], where: str = "") -> None:
    """Refuse an adapter that is too large to be read again.

    Args:
        tensors: of the adapter; their shapes say it, so that nobody need wait for their values.
        where: the file and a colon, for the message.

    Raises:
        InputError: the weights are larger than `MAX_BYTES`.
    """
    size = len(_saved(tensors))
    if size > MAX_BYTES:
        raise InputError(
            f"{where}{size} bytes, {MAX_BYTES} allowed. Lower adapt.rank or name fewer adapt.targets or adapt.unfreeze."
        )


def _saved(tensors: Mapping[str, Tensor]) -> bytes:
    return save({name: value.contiguous() for name, value in tensors.items()})


def load_adapter(folder: Path) -> Adapter:
    """Read what `save_adapter` wrote.

    Raises:
        InputError: a file is missing, damaged, or not of the other.
    """
    content = read_about(folder / ABOUT)
    try:
        about = AboutAdapter.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = "".join(f"{part}: " for part in first["loc"])
        raise InputError(f"{folder / ABOUT}: {place}{first['msg'].removeprefix('Value error, ')}. {AGAIN}") from None
    if about.preparation > PREPARATION:
        raise InputError(
            f"{folder / ABOUT}: preparation {about.preparation} found, {PREPARATION} known: a later version of "
            "Plumbline made it. Use that one, or adapt anew."
        )
    return Adapter(about, read_tensors(folder / WEIGHTS, about.weights_sha256))


def list_adapters(root: Path) -> list[AboutAdapter]:
    """Return the record of each adapter below `root`, under the name of its folder, which may have been renamed.

    A damaged adapter is left out with a warning, so that the others are still listed.
    """
    found = []
    for folder in sorted(path for path in root.glob("*") if path.is_dir() and not path.name.startswith(".")):
        try:
            found.append(load_adapter(folder).about.model_copy(update={"name": folder.name}))
        except InputError as error:
            log.warning("not listed: %s", error)
    return found


def check_name(name: str) -> None:
    """Refuse a name that is unfit for a folder.

    Raises:
        InputError: it has other characters than letters, digits, `_`, `-` and `.`, or begins with one of the last two.
    """
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", name):
        raise InputError(
            f"{name!r}: no name of an adapter; give up to 64 letters, digits, '_', '-' or '.', not beginning with '-' "
            "or '.'."
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
            InputError: the adapter is of another base, or its tensors do not fit.
        """
        if adapter is None:
            self._take(self._base)
            return self.model.eval()
        about = adapter.about
        if about.base_sha256 != self._hash:
            raise InputError(
                f"adapter {about.name}: made for the model {about.base_sha256[:12]}…; {self.folder} is "
                f"{self._hash[:12]}…. Give --model the model that it was adapted from, or adapt this one."
            )
        try:
            self._take(_fitting(adapter, self._base))
        except RuntimeError as error:
            self._take(self._base)
            raise _unlike(adapter, error) from None
        return self.model.eval()

    def _take(self, state: dict[str, Tensor]) -> None:
        with torch.no_grad():
            self.model.load_state_dict(state)


def _fitting(adapter: Adapter, base: Mapping[str, Tensor]) -> dict[str, Tensor]:
    try:
        state = adapter.applied(base)
    except (KeyError, RuntimeError) as error:
        raise _unlike(adapter, error) from None
    broken = [name for name, value in state.items() if value.isnan().any()]
    if broken:
        raise InputError(f"adapter {adapter.about.name}: {broken[0]}: NaN found. {AGAIN}")
    return state


def _unlike(adapter: Adapter, error: Exception) -> InputError:
    return InputError(
        f"adapter {adapter.about.name}: does not fit its base ({' '.join(str(error).split())}). It was changed since "
        f"it was written, or by another version of Plumbline. {AGAIN}"
    )
