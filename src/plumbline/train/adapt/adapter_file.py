"""Read the two files of an adapter, from any source, and define the content of `adapter.json`."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from plumbline.core.errors import InputError
from plumbline.params import Prepare

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
"""None: there is no such figure, as of quadrants where no label has one. Earlier versions wrote 0 for it."""


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
    """Of all else that stands here, see `about_hash`; earlier versions wrote none."""
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
    prepare: Prepare = Prepare()
    """How scatterers were prepared, and must be for the adapted model."""
    preparation: int = Field(default=1, ge=1)
    """`features.PREPARATION` of the version of Plumbline that prepared them."""
    made: dict[str, Any] | None = None
    """The record of its making, see `serve.adapt`; earlier versions wrote none."""
