"""Open a package of fields, and run it without torch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import numpy_helper

from plumbline.core.console import log
from plumbline.core.errors import InputError, OtherVersion
from plumbline.core.files import atomic_file
from plumbline.export.package import PackageManifest, family_of, verify_folder
from plumbline.fields.model.adapter_files import SUFFIX, Arrays, combined, parse_adapters, weight_changes
from plumbline.fields.model.adapter_rules import read_rules
from plumbline.fields.model.sampling import alphas_cumulative
from plumbline.fields.model.spread import FILE as SPREAD
from plumbline.fields.model.spread import Float, Spread, read_spread
from plumbline.fields.prepare.conditions import CHANNELS
from plumbline.fields.prepare.evidence import Evidence
from plumbline.params.fields import PrepareFields, Restoring

CPU = "CPUExecutionProvider"
Change = Mapping[str, NDArray[np.float32]]
"""What an adapter adds to the weights of these names."""


class FieldModel:
    """A denoiser that is ready to restore."""

    def __init__(self, path: Path, change: Change | None = None, provider: str = CPU, threads: int = 0) -> None:
        """Open a model.

        Args:
            path: the ONNX file. change: of an adapter, see `adapter_files.weight_changes`. provider: ONNX Runtime's
                name of the device. threads: to compute with; 0: all cores.

        Raises:
            InputError: the file is not a denoiser of this version, or the adapter is of another.
        """
        try:
            model = onnx.load(path)
            spec = json.loads({item.key: item.value for item in model.metadata_props}["spec"])
            self.alphas = alphas_cumulative(spec["schedule"], int(spec["train_steps"]))
            self.multiple = 2 ** (len(spec["channels"]) - 1)
            conditions = tuple(spec["conditions"])
        except Exception as error:  # protobuf, JSON and our own keys fail in classes of their own
            detail = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise InputError(f"{path}: not readable as a denoiser of fields ({detail}).") from None
        if conditions != CHANNELS:
            raise OtherVersion(f"{path}: made for other conditions than this version of Plumbline describes.")
        if change:
            change_weights(model, change, path)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = threads
        # Threads that wait for one another by spinning take the time of whoever else runs on a small machine.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self._session: Any = onnxruntime.InferenceSession(
                model.SerializeToString(), options, providers=[provider], enable_fallback=0
            )
        except Exception as error:
            raise InputError(f"{path}: ONNX Runtime cannot open it ({error}).") from None
        if self._session.get_providers()[0] != provider:
            raise InputError(f"{path}: {provider} did not start. Its libraries are missing or of another version.")

    def denoise(self, noisy: Float, step: int, conditions: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return (B, F, H, W) the clean field; `conditions` (C, H, W) are the same for all samples."""
        batch = np.broadcast_to(conditions, (len(noisy), *conditions.shape))
        steps = np.full(len(noisy), step, np.int64)
        given = {
            "noisy": noisy.astype(np.float32, copy=False),
            "step": steps,
            "conditions": np.ascontiguousarray(batch),
        }
        clean: NDArray[np.float32] = self._session.run(None, given)[0]
        return clean


def change_weights(model: onnx.ModelProto, change: Change, path: Path) -> None:
    """Add an adapter's change to the weights of a graph, in place.

    Raises:
        InputError: a weight of the adapter is not in the graph, as in int8, or has another shape.
    """
    named = {tensor.name: tensor for tensor in model.graph.initializer}
    for name, added in change.items():
        tensor = named.get(name) or named.get(f"{name}.half")
        if tensor is None or tuple(tensor.dims) != added.shape:
            raise InputError(
                f"{path}: has no weights {name} of shape {added.shape}, which the adapter changes. Adapters fit the "
                "float32 and fp16 models of the package that they were trained on."
            )
        values = numpy_helper.to_array(tensor)
        tensor.CopyFrom(numpy_helper.from_array((values + added).astype(values.dtype), tensor.name))


ADAPTERS = "adapters"
FAMILY: Literal["restoration"] = "restoration"
MODELS = {"model.onnx": "fp16", "model.int8.onnx": "int8"}
"""Files of the package and the exported artifact each of them is."""


class FieldManifest(PackageManifest):
    """Content of `manifest.json` of a package of fields."""

    family: Literal["restoration"] = FAMILY
    conditions: list[str]
    """Channels that the network is given, in this order; see `prepare.restoration.conditions`."""
    fields: list[str]
    """Channels that it gives."""
    restore: Restoring
    """How fields were sampled when the spread was calibrated."""
    prepare: PrepareFields


@dataclass(frozen=True)
class FieldPackage:
    """A package that is ready to restore."""

    name: str
    version: str
    model: FieldModel
    spread: Spread
    restore: Restoring
    """How the spread was calibrated: what holds if the user says nothing else."""
    halo_m: float
    adapters: tuple[str, ...]
    """That act, as they were asked for."""
    why: str = ""
    """What `auto` chose, and by which figure; empty where a user named the adapters."""


def adapters_in(folder: Path) -> list[str]:
    """List the names of the adapters in a package or a trained model."""
    return sorted(path.name.removesuffix(SUFFIX) for path in (folder / ADAPTERS).glob(f"*{SUFFIX}"))


def verify_fields(folder: Path) -> FieldManifest:
    """Check that a package of fields is complete and unchanged.

    Raises:
        InputError: as `verify_folder`; or it is of another family.
    """
    family = family_of(folder)
    if family != FAMILY:
        raise InputError(f"{folder}: a package of {family}, which restores no fields. Give one of {FAMILY}.")
    return verify_folder(folder, FieldManifest)


def open_fields(
    folder: Path, adapters: Sequence[str] = (), artifact: str = "model.onnx", threads: int = 0
) -> FieldPackage:
    """Verify a package of fields and open it.

    Args:
        folder: the package. adapters: `NAME` or `NAME=WEIGHT` of those that shall act. artifact: file of `MODELS`.
        threads: to compute with; 0: all cores.

    Raises:
        InputError: it is damaged, or of another family; or there is no such adapter in it.
    """
    manifest = verify_fields(folder)
    asked, changes = _changes(folder, adapters)
    main = max(asked, key=lambda item: item[1], default=None)
    spread = folder / SPREAD if main is None else folder / ADAPTERS / f"{main[0]}.json"
    model = FieldModel(folder / artifact, changes or None, threads=threads)
    return FieldPackage(
        manifest.name,
        manifest.version,
        model,
        read_spread(spread),
        manifest.restore,
        manifest.prepare.halo_m,
        tuple(adapters),
    )


def open_chosen(folder: Path, seen: Evidence) -> FieldPackage:
    """Open a package with the adapter that its rules take for a scene, or with none.

    Args:
        folder: the package. seen: evidence of the scene.

    Raises:
        InputError: as `open_fields`.
    """
    choice = read_rules(folder / ADAPTERS).choose(seen)
    found = open_fields(folder, [choice.adapter] if choice.adapter else [])
    log.info("--adapter auto: %s", choice.why)
    return replace(found, why=choice.why)


def merge_adapters(folder: Path, adapters: Sequence[str], out: Path) -> None:
    """Write the package's model with adapters in its weights.

    Raises:
        InputError: the package is damaged, or there is no such adapter in it.
    """
    verify_fields(folder)
    model = onnx.load(folder / "model.onnx")
    change_weights(model, _changes(folder, adapters)[1], out)
    with atomic_file(out) as temporary:
        onnx.save(model, temporary)


def _changes(folder: Path, adapters: Sequence[str]) -> tuple[list[tuple[str, float]], Arrays]:
    """Return the chosen adapters with their weights, and the sum that they add to the network's weights."""
    asked = parse_adapters(adapters)
    there = adapters_in(folder)
    unknown = [name for name, _ in asked if name not in there]
    if unknown:
        raise InputError(f"--adapter {unknown[0]}: no such adapter in {folder}; in it: {', '.join(there) or 'none'}.")
    parts = [(weight_changes(folder / ADAPTERS / f"{name}{SUFFIX}"), weight) for name, weight in asked]
    return asked, combined(parts)
