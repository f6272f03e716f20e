"""Write and open model packages: one folder with everything an application needs, named by the hash of its content."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.core.files import check_place
from plumbline.export.folder import CARD as CARD
from plumbline.export.folder import FORMAT as FORMAT
from plumbline.export.folder import MANIFEST as MANIFEST
from plumbline.export.folder import PackageManifest, family_of, verify_folder, write_folder
from plumbline.export.interface import interface, same_inputs
from plumbline.export.runtime import OnnxModel
from plumbline.params import Prepare
from plumbline.prepare.features.definition import PREPARATION

FAMILY = "diagnosis"
MODELS = {"model.onnx": "pruned", "model.fp16.onnx": "fp16", "model.int8.onnx": "int8"}
"""Files of the package and the exported artifact each of them is; packages from before fp16 hold the other two."""


class Manifest(PackageManifest):
    """Content of `manifest.json`."""

    inputs: list[dict[str, Any]]
    outputs: list[dict[str, Any]]
    quadrants: list[str]
    category_bounds_permille: list[float]
    category_share: list[float] = Field(default_factory=list)
    """Of the buildings that the default model was calibrated on: what its probabilities of categories stand for."""
    prepare: Prepare
    """How scatterers must be prepared for this model."""
    preparation: int = Field(default=1, ge=1)
    """`features.PREPARATION` of the version of Plumbline that made it; 1 in packages from before there was one."""

    @field_validator("prepare", mode="before")
    @classmethod
    def _as_it_was(cls, found: Any) -> Any:
        """Set the probability limit of an older package to 0, so that it judges the same buildings as before."""
        return {"min_quadrant_confidence": 0.0, **found} if isinstance(found, dict) else found


def write_package(files: Mapping[str, Path], about: Mapping[str, Any], card: str, out: Path) -> Manifest:
    """Write a package folder.

    Args:
        files: name in the package -> file to copy.
        about: `name`, `default_model`, `category_share`, `prepare`, `hashes`, `metrics`, `gate` and `records` of the
            manifest.
        card: text of MODEL_CARD.md.
        out: folder to write.
    """
    return write_folder(files, {"preparation": PREPARATION, **interface(), **about}, card, Manifest, out)


def check_replaced(folder: Path, gate: Mapping[str, Any]) -> None:
    """Refuse to write a package over anything but an unchanged package with this `gate`.

    Raises:
        InputError: something else lies there; it is named.
    """
    if not folder.is_dir() or not any(folder.iterdir()):
        check_place(folder)
        return
    try:
        found = verify_package(folder)
    except InputError as error:
        raise InputError(f"{folder}: holds something that this command did not write ({error}) Give another.") from None
    if found.gate != gate:
        raise InputError(
            f"{folder}: holds the package {found.version}, which came from elsewhere. Give another folder."
        )


def verify_package(folder: Path) -> Manifest:
    """Check that a package of diagnosis is complete and unchanged.

    Raises:
        InputError: as `verify_folder`; or it is of another family.
    """
    family = family_of(folder)
    if family != FAMILY:
        raise InputError(f"{folder}: a package of {family}, which judges no buildings. Give one of {FAMILY}.")
    return verify_folder(folder, Manifest)


def open_package(folder: Path, artifact: str | None = None) -> tuple[Manifest, OnnxModel]:
    """Verify a package and open a model: the default one, or the one of this file or artifact name.

    Raises:
        InputError: as `verify_package`; or there is no such model in it, or it was made for other inputs than this
            version prepares.
    """
    manifest = verify_package(folder)
    if not same_inputs(manifest.inputs):
        raise InputError(
            f"{folder / MANIFEST}: inputs: other columns than this version of Plumbline prepares. Use the "
            "version that made the package, or a package that this version made."
        )
    if manifest.preparation != PREPARATION:
        log.warning(
            "%s: trained on points that were prepared in another way (%d, now %d). It may judge fewer buildings, and "
            "less well; train it anew.",
            folder,
            manifest.preparation,
            PREPARATION,
        )
    names = {**{file: file for file in MODELS}, **{kind: file for file, kind in MODELS.items()}}
    chosen = names.get(artifact, "") if artifact else manifest.default_model
    if chosen not in manifest.files or chosen not in MODELS:
        inside = ", ".join(f"{kind} ({file})" for file, kind in MODELS.items() if file in manifest.files)
        raise InputError(f"{folder}: model {artifact!r} asked for; in it: {inside}.")
    return manifest, OnnxModel(folder / chosen)
