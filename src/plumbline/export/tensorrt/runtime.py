"""Write an engine to disk, and run it.

Shape legend: B buildings, L scatterers, F features.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from plumbline.core.errors import InputError, PlumblineError
from plumbline.core.files import atomic_folder, read_json, write_json
from plumbline.export.answers import Answers, Released
from plumbline.export.interface import FLOATS, MASK, NAMES, SEQUENCES, ModelProperties, signature
from plumbline.export.tensorrt.device import Device, Hashed, this_device
from plumbline.params.compress import EngineArtifact, Through

PLAN, ABOUT = "model.engine", "engine.json"
BEST_BATCH, BEST_LENGTH = 64, 32
"""Shape that TensorRT tunes for, where the largest allows it: what most batches of real
buildings are near to."""
MAX_BATCH = 256
"""Largest number of buildings of a batch of an engine."""
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
        return {
            **shapes,
            FLOATS[-1]: tuple((b, columns[FLOATS[-1]]) for b, _ in pairs),
            MASK: tuple(pairs),
        }


def profile(max_length: int) -> Profile:
    """Return a profile for any batch up to `MAX_BATCH` and any length up to `max_length`."""
    return Profile(
        batch=(1, BEST_BATCH, MAX_BATCH), length=(1, min(BEST_LENGTH, max_length), max_length)
    )


class Key(Hashed):
    """All that determines an engine; two engines with one key are interchangeable."""

    artifact: EngineArtifact
    through: Through
    onnx_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    """Hash of the artifact's ONNX file, whichever way the engine was made."""
    device: Device
    profile: Profile


class EngineAbout(BaseModel):
    """Content of `engine.json`."""

    model_config = ConfigDict(extra="forbid")
    format: int = Field(default=1, ge=1, le=1)
    key: Key
    columns: dict[str, int]
    """F of `FLOATS`."""
    said: ModelProperties
    """Metadata of the ONNX file."""
    sha256: str
    """Hash of the plan."""


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


def read_engine(folder: Path) -> tuple[EngineAbout, bytes]:
    """Read what `write_engine` wrote: what `engine.json` states, and the plan.

    Raises:
        InputError: it is no engine's folder, or the plan is not the one that was written.
    """
    try:
        about = EngineAbout.model_validate(read_json(folder / ABOUT))
        plan = (folder / PLAN).read_bytes()
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise InputError(
            f"{folder / ABOUT}: {place}: {first['msg']}. Build the engine again.",
            key="engine.bad_value",
        ) from None
    except OSError as error:
        raise InputError(
            f"{folder / PLAN}: not readable ({error}). Build the engine again.",
            key="engine.unreadable",
        ) from None
    if hashlib.sha256(plan).hexdigest() != about.sha256:
        raise InputError(
            f"{folder / PLAN}: changed since it was built. Build the engine again.",
            key="engine.changed",
        )
    return about, plan


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
            f"{where}: built for {', '.join(differing)}. An engine runs only where it was built; "
            "build one here: `plumbline tensorrt PACKAGE --output FOLDER`.",
            key="engine.other_device",
        )


class TensorRTModel(Released):
    """An engine in TensorRT, with the same interface as `OnnxModel`."""

    def __init__(self, folder: Path) -> None:
        """Open an engine that `plumbline tensorrt` built.

        Raises:
            InputError: it is damaged, was built for another GPU or by other versions, or
                this machine has no GPU.
        """
        self.about, plan = read_engine(folder)
        refuse_other(self.about.key.device, this_device(), folder)
        import tensorrt

        self._runtime = tensorrt.Runtime(tensorrt.Logger(tensorrt.Logger.WARNING))
        self._engine = self._runtime.deserialize_cuda_engine(plan)
        if self._engine is None:
            raise InputError(
                f"{folder / PLAN}: TensorRT cannot open it. Build the engine again.",
                key="engine.not_opened",
            )
        names = [self._engine.get_tensor_name(i) for i in range(self._engine.num_io_tensors)]
        input_names = {
            n for n in names if self._engine.get_tensor_mode(n) == tensorrt.TensorIOMode.INPUT
        }
        # Outputs by their order: torch-tensorrt gives them names of its own.
        self._outputs = [name for name in names if name not in input_names]
        if input_names != set(NAMES) or len(self._outputs) != len(Answers._fields):
            raise InputError(
                f"{folder / PLAN}: tensors {', '.join(names)} found, {', '.join(NAMES)} and "
                f"{len(Answers._fields)} outputs needed.",
                key="engine.other_tensors",
            )
        self._context = self._engine.create_execution_context()
        self.signature = signature(
            self.about.columns,
            self.about.said.inputs,
            max_length=self.about.said.max_length,
            max_batch=self.about.key.profile.batch[-1],
        )

    def execute(self, inputs: Mapping[str, NDArray[Any]]) -> Sequence[NDArray[np.float32]]:
        """Return the outputs in the order of `Answers`.

        Raises:
            PlumblineError: TensorRT failed.
        """
        import torch

        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        with torch.cuda.stream(stream):
            # Kept until the stream is done: TensorRT knows addresses only.
            tensors = {
                name: torch.from_numpy(np.ascontiguousarray(inputs[name])).cuda() for name in NAMES
            }
            for name, value in tensors.items():
                self._context.set_input_shape(name, tuple(value.shape))
                self._context.set_tensor_address(name, value.data_ptr())
            outputs = [
                torch.empty(
                    tuple(self._context.get_tensor_shape(name)), dtype=torch.float32, device="cuda"
                )
                for name in self._outputs
            ]
            for name, value in zip(self._outputs, outputs, strict=True):
                self._context.set_tensor_address(name, value.data_ptr())
            has_answered = self._context.execute_async_v3(stream.cuda_stream)
            stream.synchronize()
        if not has_answered:
            raise PlumblineError(
                "TensorRT did not answer; see its messages above.", key="engine.no_answer"
            )
        return [value.cpu().numpy() for value in outputs]
