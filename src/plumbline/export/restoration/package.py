"""Open a package of fields: its manifest, its model with the chosen adapters, and its spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import onnx

from plumbline.core.errors import InputError
from plumbline.core.files import atomic_file
from plumbline.export.folder import PackageManifest, family_of, verify_folder
from plumbline.export.restoration.runtime import FieldModel, change_weights
from plumbline.model.restoration.adapter_files import SUFFIX, Arrays, combined, parse_adapters, weight_changes
from plumbline.model.restoration.spread import FILE as SPREAD
from plumbline.model.restoration.spread import Spread, read_spread
from plumbline.params.restoration import PrepareFields, Restoring

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
    eta: float
    halo_m: float
    adapters: tuple[str, ...]
    """That act, as they were asked for."""


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


def open_fields(folder: Path, adapters: Sequence[str] = (), artifact: str = "model.onnx") -> FieldPackage:
    """Verify a package of fields and open it.

    Args:
        folder: the package. adapters: `NAME` or `NAME=WEIGHT` of those that shall act. artifact: file of `MODELS`.

    Raises:
        InputError: it is damaged, or of another family; or there is no such adapter in it.
    """
    manifest = verify_fields(folder)
    asked, changes = _changes(folder, adapters)
    main = max(asked, key=lambda item: item[1], default=None)
    spread = folder / SPREAD if main is None else folder / ADAPTERS / f"{main[0]}.json"
    model = FieldModel(folder / artifact, changes or None)
    return FieldPackage(
        manifest.name,
        manifest.version,
        model,
        read_spread(spread),
        manifest.restore.eta,
        manifest.prepare.halo_m,
        tuple(adapters),
    )


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
