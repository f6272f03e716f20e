"""Write, verify and open package folders."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from plumbline.core.console import warn
from plumbline.core.errors import InputError
from plumbline.core.files import atomic_folder, check_place, read_json, sha256_file, write_json
from plumbline.export.interface import interface, predictions_interface, same_inputs
from plumbline.export.runtime import OnnxModel
from plumbline.model.weights import MANIFEST as MANIFEST
from plumbline.params import RecordedPrepare
from plumbline.prepare.features.definition import PREPARATION

CARD = "MODEL_CARD.md"
FORMAT = 2
EVIDENCE = ("metrics", "gate", "records")
"""Keys of the manifest about how the model was trained and measured."""


class File(BaseModel):
    """One file of a package."""

    model_config = ConfigDict(extra="forbid")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    bytes: int = Field(ge=0)


class PackageManifest(BaseModel):
    """Content of `manifest.json` that all families share."""

    model_config = ConfigDict(extra="forbid")
    format: int = Field(ge=FORMAT, le=FORMAT)
    name: str
    version: str
    """First 12 hex digits of the SHA-256 of what the package *is*: of all in the manifest
    but what was measured or noted about it (`EVIDENCE`), and of every file but the card.
    Measured again, the same model keeps its version."""
    evidence: str = Field(default="", pattern=r"^([0-9a-f]{64})?$")
    """SHA-256 of the rest: metrics, gate, records, card."""
    default_model: str
    hashes: dict[str, str]
    """SHA-256 of the data, the test data, the code and the parameters that the model comes from."""
    metrics: dict[str, Any]
    """On the whole test split, per artifact, and of the baseline."""
    gate: dict[str, Any]
    records: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Stage -> record of its run: data, params, parameters, versions, curve, metrics. Of `validate`
    only the MD5 of its output in DVC's lock (`lock_md5`). MLflow has commit, machine and time,
    under the same `run_key`."""
    files: dict[str, File]


def origin_of(records: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return the `run_key` of the training, and the MD5 of `validate` in DVC's lock (`lock_md5`).

    What is not known is left out.

    Args:
        records: those of a manifest.
    """
    origin = {
        "run_key": records.get("train", {}).get("run_key"),
        "lock_md5": records.get("validate", {}).get("lock_md5"),
    }
    return {name: str(value) for name, value in origin.items() if value}


class SharedManifest(PackageManifest):
    """What all families share, beside what a family states for itself, which is kept as it is."""

    model_config = ConfigDict(extra="allow")


AnyManifest = TypeVar("AnyManifest", bound=PackageManifest)


def write_folder(
    files: Mapping[str, Path],
    content: Mapping[str, Any],
    card: str,
    kind: type[AnyManifest],
    out: Path,
) -> AnyManifest:
    """Write a package folder.

    Args:
        files: name in the package -> file to copy; a name may have a folder before it.
        content: of the manifest, all but `version`, `evidence` and `files`.
        card: text of MODEL_CARD.md.
        kind: of the manifest.
        out: folder to write.
    """
    with atomic_folder(out) as folder:
        for name, source in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, folder / name)
        (folder / CARD).write_text(card, encoding="utf-8")
        listed = {name: _file(folder / name) for name in _names(folder)}
        manifest = kind.model_validate(
            {"format": FORMAT, **content, "files": listed, "version": ""}
        )
        content_sha256, evidence = _identity(manifest.model_dump(mode="json"))
        manifest = manifest.model_copy(
            update={"version": version_of(content_sha256), "evidence": evidence}
        )
        write_json(folder / MANIFEST, manifest.model_dump(mode="json"))
        return verify_folder(folder, kind)


def _names(folder: Path) -> list[str]:
    return sorted(
        item.relative_to(folder).as_posix() for item in folder.rglob("*") if not item.is_dir()
    )


def family_of(folder: Path) -> str:
    """Return the family in a package's manifest; `diagnosis` if it has none.

    Raises:
        InputError: there is no manifest, or it is not readable.
    """
    return str(_content(folder).get("family", "diagnosis"))


def _content(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        raise InputError(
            f"{folder}: no such folder; a model package is a folder with a {MANIFEST}.",
            key="package.missing",
        )
    path = folder / MANIFEST
    if not path.exists():
        trained = (folder / "model.safetensors").is_file()
        description = "a trained model, and no model package" if trained else "no model package"
        raise InputError(
            f"{folder}: {description}: {MANIFEST} is missing. Give the folder of a package, as "
            "data/package, which `plumbline package` makes of a trained model that passes the "
            "gates.",
            key="package.no_manifest",
        )
    content = read_json(path)
    if not isinstance(content, dict):
        raise InputError(
            f"{path}: not readable as a manifest. Get the package again.", key="manifest.unreadable"
        )
    return content


def verify_folder(folder: Path, kind: type[AnyManifest]) -> AnyManifest:
    """Check that a package is complete and unchanged.

    Raises:
        InputError: the folder or its manifest is missing, a file is missing, added or
            changed, or the manifest itself does not belong to its version.
    """
    content, path = _content(folder), folder / MANIFEST
    try:
        manifest = kind.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise InputError(
            f"{path}: {place}: {first['msg']}. Get the package again.", key="manifest.bad_value"
        ) from None
    present = set(_names(folder)) - {MANIFEST}
    for name in sorted(present ^ set(manifest.files)):
        if name in present:
            raise InputError(
                f"{folder / name}: is not in the manifest. Get the package again.",
                key="package.unlisted_file",
            )
        raise InputError(
            f"{folder / name}: is missing. Get the package again.", key="package.missing_file"
        )
    for name, listed in manifest.files.items():
        if not (folder / name).is_file():  # a link to nowhere, as an emptied cache leaves it
            raise InputError(
                f"{folder / name}: is missing. Get the package again.", key="package.missing_file"
            )
        actual = _file(folder / name)
        if actual != listed.model_dump():
            raise InputError(
                f"{folder / name}: changed since it was released (SHA-256 "
                f"{actual['sha256'][:12]}… found, {listed.sha256[:12]}… in the manifest). Get the "
                "package again.",
                key="package.changed_file",
            )
    # The text too, as `write_json` makes it: a changed space in JSON leaves the content as it was.
    text = json.dumps(content, indent=2) + "\n"
    content_sha256, evidence = _identity(content)
    is_unchanged = (manifest.version, manifest.evidence) == (version_of(content_sha256), evidence)
    if not is_unchanged or path.read_bytes() != text.encode():
        raise InputError(
            f"{path}: changed since it was released (its content is not that of version "
            f"{manifest.version}). Get the package again.",
            key="package.changed_manifest",
        )
    return manifest


def _file(path: Path) -> dict[str, Any]:
    return {"sha256": sha256_file(path), "bytes": path.stat().st_size}


def version_of(content_sha256: str) -> str:
    """Return the first 12 hash digits in a row that pandas or a spreadsheet cannot read as
    a number.

    Otherwise 777267e60777 would become infinity, and 012345678901 lose its 0; 1 in 140
    hashes begins so.
    """
    places = range(len(content_sha256) - 11)
    parts = (content_sha256[place : place + 12] for place in places)
    return next(
        (part for part in parts if not re.fullmatch(r"\d+(e\d+)?", part)), content_sha256[:12]
    )


def _identity(manifest: Mapping[str, Any]) -> tuple[str, str]:
    """Return SHA-256 of all that defines a version, and that of the evidence, from a
    manifest's content."""
    defining = {key: value for key, value in manifest.items() if key not in ("version", "evidence")}
    evidence = {key: defining.pop(key) for key in EVIDENCE if key in defining}
    defining["files"] = dict(defining["files"])
    evidence["card"] = defining["files"].pop(CARD, None)
    return _sha256(defining), _sha256(evidence)


def _sha256(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


FAMILY = "diagnosis"
PREDICTIONS, VECTORS = "predictions.onnx", "vectors.json"
"""Second graph of a package, and its reference vectors."""
MODELS = {"model.onnx": "pruned", "model.fp16.onnx": "fp16", "model.int8.onnx": "int8"}
"""Files of the package and the exported artifact each of them is."""


class Manifest(PackageManifest):
    """Content of `manifest.json`."""

    inputs: list[dict[str, Any]]
    outputs: list[dict[str, Any]]
    predictions: dict[str, list[dict[str, Any]]]
    """Inputs and outputs of `predictions.onnx`."""
    quadrants: list[str]
    category_bounds_permille: list[float]
    category_share: list[float] = Field(default_factory=list)
    """Shares of the categories in calibration, to which the default model's probabilities refer."""
    prepare: RecordedPrepare
    """Preparation of scatterers that this model needs."""
    preparation: int = Field(ge=1)
    """`features.PREPARATION` of the version of Plumbline that made it."""


def write_package(
    files: Mapping[str, Path], about: Mapping[str, Any], card: str, out: Path
) -> Manifest:
    """Write a package folder.

    Args:
        files: name in the package -> file to copy.
        about: `name`, `default_model`, `category_share`, `prepare`, `hashes`, `metrics`,
            `gate` and `records` of the manifest.
        card: text of MODEL_CARD.md.
        out: folder to write.
    """
    declared = {**interface(), "predictions": predictions_interface()}
    return write_folder(
        files, {"preparation": PREPARATION, **declared, **about}, card, Manifest, out
    )


def check_replaced(folder: Path, gate: Mapping[str, Any]) -> None:
    """Refuse to write a package over anything but an unchanged package with this `gate`.

    Raises:
        InputError: the folder contains something else, which is named.
    """
    if not folder.is_dir() or not any(folder.iterdir()):
        check_place(folder)
        return
    try:
        replaced = verify_package(folder)
    except InputError as error:
        raise InputError(
            f"{folder}: holds something that this command did not write ({error}) Give another.",
            key="output.foreign_files",
        ) from None
    if replaced.gate != gate:
        raise InputError(
            f"{folder}: holds the package {replaced.version}, which came from elsewhere. Give "
            "another folder.",
            key="output.other_package",
        )


def verify_package(folder: Path) -> Manifest:
    """Check that a package of diagnosis is complete and unchanged.

    Raises:
        InputError: as `verify_folder`; or it is of another family.
    """
    family = family_of(folder)
    if family != FAMILY:
        raise InputError(
            f"{folder}: a package of {family}, which judges no buildings. Give one of {FAMILY}.",
            key="package.other_family",
        )
    return verify_folder(folder, Manifest)


def open_package(folder: Path, artifact: str | None = None) -> tuple[Manifest, OnnxModel]:
    """Verify a package and open a model: the default one, or the one of this file or artifact name.

    Raises:
        InputError: as `verify_package`; or there is no such model in it, or it was made for
            other inputs than this version prepares.
    """
    manifest = verify_package(folder)
    if not same_inputs(manifest.inputs):
        raise InputError(
            f"{folder / MANIFEST}: inputs: other columns than this version of Plumbline "
            "prepares. Use the "
            "version that made the package, or a package that this version made.",
            key="package.other_columns",
        )
    if manifest.preparation != PREPARATION:
        warn(
            "%s: trained on points that were prepared in another way (%d, now %d). It may judge "
            "fewer buildings, and "
            "less well; train it anew.",
            folder,
            manifest.preparation,
            PREPARATION,
            key="model.old_preparation",
        )
    names = {**{file: file for file in MODELS}, **{kind: file for file, kind in MODELS.items()}}
    file_name = names.get(artifact, "") if artifact else manifest.default_model
    if file_name not in manifest.files or file_name not in MODELS:
        available = ", ".join(
            f"{kind} ({file})" for file, kind in MODELS.items() if file in manifest.files
        )
        raise InputError(
            f"{folder}: model {artifact!r} asked for; in it: {available}.",
            key="package.no_such_model",
        )
    return manifest, OnnxModel(folder / file_name)
