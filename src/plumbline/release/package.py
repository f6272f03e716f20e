"""Run the stage `package`: write an immutable folder, if the gates were passed."""

from __future__ import annotations

import hashlib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import plumbline
from plumbline.core.errors import GateRefused, InputError
from plumbline.core.files import read_json, sha256_file, sha256_folder, write_json
from plumbline.export.package import write_package
from plumbline.export.runtime import OnnxModel
from plumbline.params import Params
from plumbline.prepare.audit.reference import CONDITIONS_FILE as REFERENCE
from plumbline.prepare.audit.reference import describe_conditions
from plumbline.prepare.features.shards import load_shards
from plumbline.release.card import model_card
from plumbline.validate.gates.rules import check_format, failed_rules

FILES = {
    "model.onnx": "pruned.onnx",
    "model.fp16.onnx": "fp16.onnx",
    "model.int8.onnx": "int8.onnx",
    "weights.safetensors": "weights.safetensors",
    "network.json": "network.json",
}
"""Name in the package -> name in the folder of the stage `export`."""

CODE = (
    "core/compass.py",
    "core/strain.py",
    "simulate",
    "sources",
    "prepare",
    "model",
    "train",
    "compress",
    "export",
    "validate",
    "release",
)
"""Source that the manifest's hash of the code is taken over: that of dvc.yaml's stage `package`."""

NO_PART = {"adapt", "score", "tidy"}
"""Sections that no package is made by; the others are the parameters of dvc.yaml's stage `package`."""

RECORD = "record.json"
RECORDED = ("train", "compress")
"""Stages whose record of the run stands in the manifest."""


def package(prepared: Path, exported: Path, validated: Path, params: Params, out: Path) -> None:
    """Write the model package, if the verdict of the stage `validate` is `pass`.

    The records of the runs are taken from the folders of the stages `RECORDED`, beside that of `prepared`.

    Raises:
        GateRefused: it is not; the message names every failed rule with its figure and bound.
        InputError: an input is missing or damaged, or the evidence is of other test data or other models.
    """
    gate = read_json(validated / "gate.json")
    require_pass(gate, validated / "gate.json")
    files = {name: exported / source for name, source in FILES.items()}
    for path in files.values():
        if not path.is_file():
            raise InputError(f"{path}: no such file. Run `plumbline export` first.")
    test_data = sha256_folder(prepared / "test")
    for what, key, found in (("test data", "test_data", test_data), ("models", "exported", sha256_folder(exported))):
        if gate.get(key, {}).get("sha256") != found:
            raise InputError(f"{validated / 'gate.json'}: measured on other {what}. Run `plumbline validate` again.")
    figures = read_json(validated / "metrics.json")["all"]
    audit = prepared / "audit" / "audit.json"
    about = {
        "name": params.package.name,
        "default_model": "model.onnx",
        "category_share": OnnxModel(files["model.onnx"]).category_share,
        "prepare": params.prepare.model_dump(),
        "hashes": {
            "data": sha256_folder(prepared),
            "test_data": test_data,
            "code": code_sha256(),
            "params": hashlib.sha256(params.model_dump_json(exclude=NO_PART).encode()).hexdigest(),
        },
        "metrics": figures,
        "gate": gate,
        "records": {stage: read_json(prepared.with_name(stage) / RECORD) for stage in RECORDED},
    }
    report = read_json(validated / "report.json")
    with TemporaryDirectory() as folder:
        reference = Path(folder) / REFERENCE
        write_json(reference, describe_conditions(load_shards(prepared / "train")))
        write_package({**files, REFERENCE: reference}, about, model_card(report, read_json(audit)), out)


def code_sha256() -> str:
    """Hash the code that makes and judges a model; map and command line do not count."""
    root = Path(plumbline.__file__).parent
    parts = (root / name for name in CODE)
    hashes = (sha256_file(part) if part.is_file() else sha256_folder(part, "*.py") for part in parts)
    return hashlib.sha256("".join(hashes).encode()).hexdigest()


def require_pass(gate: Any, path: Path) -> None:
    """Refuse every verdict but `pass`.

    Raises:
        GateRefused: the verdict is another one, or there is none.
        InputError: it is of a format that this version does not know.
    """
    if not isinstance(gate, dict) or gate.get("verdict") != "pass":
        reasons = failed_rules(gate) if isinstance(gate, dict) and "rules" in gate else ["no verdict found"]
        raise GateRefused(f"{path}: not released. " + "; ".join(reasons) + ".")
    check_format(gate, path)
