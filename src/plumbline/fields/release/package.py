"""Open a package of fields, and run it without torch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import numpy_helper

from plumbline.core.arrays import Float
from plumbline.core.errors import InputError, OtherVersion
from plumbline.core.files import atomic_file
from plumbline.export.package import PackageManifest, family_of, verify_folder
from plumbline.fields.model.adapter_files import (
    ADAPTERS,
    CONFIG,
    Weighted,
    adapted_weights,
    parse_adapters,
)
from plumbline.fields.model.sampling import alphas_cumulative
from plumbline.fields.model.spread import SPREAD, Spread, read_spread
from plumbline.fields.prepare.conditions import CHANNELS
from plumbline.params.fields import PrepareFields, Restoring

CPU = "CPUExecutionProvider"


class FieldModel:
    """A denoiser that is ready to restore."""

    def __init__(
        self, path: Path, adapters: Sequence[Weighted] = (), provider: str = CPU, threads: int = 0
    ) -> None:
        """Open a model.

        Args:
            path: the ONNX file. adapters: folder and weight of those to apply. provider:
                ONNX Runtime's name of the device. threads: to compute with; 0: all cores.

        Raises:
            InputError: the file is not a denoiser of this version, or the adapter is of another.
        """
        try:
            model = onnx.load(path)
            spec = json.loads({item.key: item.value for item in model.metadata_props}["spec"])
            self.alphas = alphas_cumulative(spec["schedule"], int(spec["train_steps"]))
            self.multiple = 2 ** (len(spec["channels"]) - 1)
            conditions = tuple(spec["conditions"])
        except Exception as error:  # protobuf, JSON and missing keys raise different classes
            detail = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise InputError(
                f"{path}: not readable as a denoiser of fields ({detail}).",
                key="network.unreadable",
            ) from None
        if conditions != CHANNELS:
            raise OtherVersion(
                f"{path}: made for other conditions than this version of Plumbline describes. "
                "Get a package of this "
                "version.",
                key="network.other_conditions",
            )
        add_adapters(model, adapters)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = threads
        # Threads that spin while they wait for each other slow down other processes on a
        # small machine.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self._session: Any = onnxruntime.InferenceSession(
                model.SerializeToString(), options, providers=[provider], enable_fallback=0
            )
        except Exception as error:
            raise InputError(
                f"{path}: ONNX Runtime cannot open it ({error}).", key="onnx.not_opened"
            ) from None
        if self._session.get_providers()[0] != provider:
            raise InputError(
                f"{path}: {provider} did not start. Its libraries are missing or of another "
                "version.",
                key="onnx.provider_not_started",
            )

    def denoise(
        self, noisy: Float, step: int, conditions: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Return (B, F, H, W) the clean field; `conditions` (C, H, W) are the same for all
        samples."""
        batch = np.broadcast_to(conditions, (len(noisy), *conditions.shape))
        inputs = {
            "noisy": noisy.astype(np.float32, copy=False),
            "step": np.full(len(noisy), step, np.int64),
            "conditions": np.ascontiguousarray(batch),
        }
        clean: NDArray[np.float32] = self._session.run(None, inputs)[0]
        return clean


def add_adapters(model: onnx.ModelProto, adapters: Sequence[Weighted]) -> None:
    """Add the changes of adapters to the weights of a graph, in place.

    Raises:
        InputError: an adapter is damaged, or its weights are not in the graph, as in int8,
            or have another shape.
    """
    named = {tensor.name.removesuffix(".half"): tensor for tensor in model.graph.initializer}
    base = {name: numpy_helper.to_array(tensor) for name, tensor in named.items()}
    for name, values in adapted_weights(base, adapters).items():
        named[name].CopyFrom(
            numpy_helper.from_array(values.astype(base[name].dtype), named[name].name)
        )


FAMILY: Literal["restoration"] = "restoration"
MODELS = {"model.onnx": "fp16", "model.int8.onnx": "int8"}
"""Files of the package and the exported artifact each of them is."""


class FieldManifest(PackageManifest):
    """Content of `manifest.json` of a package of fields."""

    family: Literal["restoration"] = FAMILY
    conditions: list[str]
    """Channels that the network is given, in this order; see `prepare.restoration.conditions`."""
    fields: list[str]
    """Channels of its answer."""
    restore: Restoring
    """Sampling of fields with which the spread was calibrated."""
    prepare: PrepareFields


@dataclass(frozen=True)
class FieldPackage:
    """A package that is ready to restore."""

    manifest: FieldManifest
    model: FieldModel
    spread: Spread
    adapters: tuple[str, ...]
    """Adapters that are applied, as the user named them."""


def adapters_in(folder: Path) -> list[str]:
    """List the names of the adapters in a package or a trained model."""
    return sorted(path.parent.name for path in (folder / ADAPTERS).glob(f"*/{CONFIG}"))


def verify_fields(folder: Path) -> FieldManifest:
    """Check that a package of fields is complete and unchanged.

    Raises:
        InputError: as `verify_folder`; or it is of another family.
    """
    family = family_of(folder)
    if family != FAMILY:
        raise InputError(
            f"{folder}: a package of {family}, which restores no fields. Give one of {FAMILY}.",
            key="package.other_family",
        )
    return verify_folder(folder, FieldManifest)


def open_fields(
    folder: Path, adapters: Sequence[str] = (), artifact: str = "model.onnx", threads: int = 0
) -> FieldPackage:
    """Verify a package of fields and open it.

    Args:
        folder: the package. adapters: `NAME` or `NAME=WEIGHT` of those to apply. artifact:
            file of `MODELS`.
        threads: to compute with; 0: all cores.

    Raises:
        InputError: it is damaged, or of another family; or there is no such adapter in it.
    """
    manifest = verify_fields(folder)
    chosen = _find_adapters(folder, adapters)
    main, _ = max(chosen, key=lambda item: item[1], default=(folder, 1.0))
    model = FieldModel(folder / artifact, chosen, threads=threads)
    return FieldPackage(manifest, model, read_spread(main / SPREAD), tuple(adapters))


def merge_adapters(folder: Path, adapters: Sequence[str], out: Path) -> None:
    """Write the package's model with adapters in its weights.

    Raises:
        InputError: the package is damaged, or there is no such adapter in it.
    """
    verify_fields(folder)
    model = onnx.load(folder / "model.onnx")
    add_adapters(model, _find_adapters(folder, adapters))
    with atomic_file(out) as temporary:
        onnx.save(model, temporary)


def _find_adapters(folder: Path, adapters: Sequence[str]) -> list[Weighted]:
    """Return folder and weight of each named adapter of a package."""
    available = adapters_in(folder)
    chosen = parse_adapters(adapters)
    for name, _ in chosen:
        if name not in available:
            raise InputError(
                f"--adapter {name}: no such adapter in {folder}; in it: "
                f"{', '.join(available) or 'none'}.",
                key="adapter.missing",
            )
    return [(folder / ADAPTERS / name, weight) for name, weight in chosen]
