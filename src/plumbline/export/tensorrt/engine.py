"""Read and write engines: TensorRT's plan, with a record of its sources and device.

Shape legend: B buildings, L scatterers, F features.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from plumbline.core.errors import InputError
from plumbline.core.files import atomic_folder, read_json, write_json
from plumbline.export.inputs import FLOATS, MASK, SEQUENCES
from plumbline.export.interface import About
from plumbline.export.tensorrt.device import Device
from plumbline.params.export import EngineArtifact, Through

PLAN, ABOUT = "model.engine", "engine.json"
BEST_BATCH, BEST_LENGTH = 64, 32
"""Shape that TensorRT tunes for, where the largest allows it: what most batches of real buildings are near to."""
Range = tuple[int, int, int]
"""Least, best and most."""


class Profile(BaseModel):
    """Shapes that an engine accepts, and those it is tuned for."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    batch: Range
    length: Range

    def shapes(self, columns: Mapping[str, int]) -> dict[str, tuple[tuple[int, ...], ...]]:
        """Return least, best and largest shape of each input; `columns` are F of `FLOATS`."""
        pairs = list(zip(self.batch, self.length, strict=True))
        shapes = {name: tuple((b, n, columns[name]) for b, n in pairs) for name in SEQUENCES}
        return {**shapes, FLOATS[-1]: tuple((b, columns[FLOATS[-1]]) for b, _ in pairs), MASK: tuple(pairs)}


def profile(max_batch: int, max_length: int) -> Profile:
    """Return a profile for any batch up to `max_batch` and any length up to `max_length`."""
    return Profile(
        batch=(1, min(BEST_BATCH, max_batch), max_batch), length=(1, min(BEST_LENGTH, max_length), max_length)
    )


class Key(BaseModel):
    """All that determines an engine; two engines with one key are interchangeable."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    artifact: EngineArtifact
    through: Through
    onnx_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    """Of the artifact's ONNX file, whichever way the engine was made."""
    device: Device
    profile: Profile

    @property
    def short(self) -> str:
        """Return the first 12 hex digits of its SHA-256."""
        return hashlib.sha256(json.dumps(self.model_dump(), sort_keys=True).encode()).hexdigest()[:12]


class EngineAbout(BaseModel):
    """Content of `engine.json`."""

    model_config = ConfigDict(extra="forbid")
    format: int = Field(default=1, ge=1, le=1)
    key: Key
    columns: dict[str, int]
    """F of `FLOATS`."""
    said: About
    """What the ONNX file says of itself."""
    sha256: str
    """Of the plan."""


class Engine(NamedTuple):
    """Engine that `read_engine` read."""

    about: EngineAbout
    plan: bytes


def engine_folder(out: Path, key: Key) -> Path:
    """Return the folder of a key's engine, below a folder for many."""
    return out / f"{key.artifact}-{key.through}-{key.short}"


def write_engine(folder: Path, plan: bytes, about: Mapping[str, Any]) -> EngineAbout:
    """Write an engine's folder; `about` is the content of `engine.json` except the plan's hash."""
    described = EngineAbout.model_validate({**about, "sha256": hashlib.sha256(plan).hexdigest()})
    with atomic_folder(folder) as temporary:
        (temporary / PLAN).write_bytes(plan)
        write_json(temporary / ABOUT, described.model_dump(mode="json"))
    return described


def read_engine(folder: Path) -> Engine:
    """Read what `write_engine` wrote.

    Raises:
        InputError: it is no engine's folder, or the plan is not the one that was written.
    """
    try:
        about = EngineAbout.model_validate(read_json(folder / ABOUT))
        plan = (folder / PLAN).read_bytes()
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise InputError(f"{folder / ABOUT}: {place}: {first['msg']}. Build the engine again.") from None
    except OSError as error:
        raise InputError(f"{folder / PLAN}: not readable ({error}). Build the engine again.") from None
    if hashlib.sha256(plan).hexdigest() != about.sha256:
        raise InputError(f"{folder / PLAN}: changed since it was built. Build the engine again.")
    return Engine(about, plan)


def refuse_other(built: Device, here: Device, where: Path) -> None:
    """Refuse an engine that was built for another GPU or by other versions.

    Raises:
        InputError: the message names all that differs.
    """
    differing = [
        f"{name.replace('_', ' ')} {getattr(built, name)} (here {getattr(here, name)})"
        for name in Device.model_fields
        if getattr(built, name) != getattr(here, name)
    ]
    if differing:
        raise InputError(
            f"{where}: built for {', '.join(differing)}. An engine runs only where it was built; build "
            "one here: `plumbline tensorrt PACKAGE --output FOLDER`."
        )
