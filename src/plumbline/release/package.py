"""Run the stage `package`, and write the model card."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined

import plumbline
from plumbline.core.compass import QUADRANTS
from plumbline.core.errors import InputError
from plumbline.core.files import read_json, sha256_file, sha256_folder, write_json
from plumbline.export.package import MODELS, PREDICTIONS, VECTORS, origin_of, write_package
from plumbline.export.runtime import OnnxModel
from plumbline.export.second_graph import export_predictions
from plumbline.export.vectors import write_vectors
from plumbline.params import Params
from plumbline.prepare.audit.reference import CONDITIONS_FILE, describe_conditions
from plumbline.prepare.features.shards import load_shards
from plumbline.release.approval import APPROVAL, approved_gate, check_evidence
from plumbline.validate.gates.verdict import GATE
from plumbline.validate.report.content import METRICS, OF_SLICES, compared_with
from plumbline.validate.report.page import CATEGORIES

DETAILED = "int8"
"""The released artifact whose slices, confidence and confusion are listed."""


def model_card(report: Mapping[str, Any], audit: Mapping[str, Any]) -> str:
    """Return the card, in Markdown.

    Args:
        report: the content of the stage `gate`'s report.json. audit: that of audit.json of
            the test data.
    """
    folder = FileSystemLoader(Path(__file__).parent)
    templates = Environment(  # noqa: S701 - Markdown; what a user names goes through `cell`
        loader=folder, undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True
    )
    templates.filters |= {"cell": _cell, "number": _number}
    return templates.get_template("model_card.md").render(
        **report,
        train=audit["statistics"]["splits"]["train"],
        files=MODELS,
        order=METRICS,
        of_slices=list(OF_SLICES),
        compared_with=compared_with(report),
        detailed=DETAILED,
        confusions={"quadrant": list(QUADRANTS), "category": list(CATEGORIES)},
    )


def describe_origin(records: Mapping[str, Any]) -> str:
    """Return the last part of a card: the lock of DVC that a package comes from; empty if
    unknown."""
    md5 = origin_of(records).get("lock_md5")
    if not md5:
        return ""
    command = f"git log --reverse -S {md5} -- '*dvc.lock'"
    sentence = f"`{command}` shows first the commit whose `dvc.lock` describes this run."
    return f"\n## Origin\n\n{sentence}\n"


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _cell(text: str) -> str:
    """Escape Markdown characters in a city's name."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


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
"""Sections that no package is made by; the others are the parameters of dvc.yaml's stage
`package`."""

LOCK = Path("dvc.lock")
RECORD = "record.json"
RECORDED = ("train", "compress")
"""Stages whose record of the run stands in the manifest."""


def package(
    prepared: Path,
    exported: Path,
    validated: Path,
    gated: Path,
    approved: Path,
    *,
    params: Params,
    out: Path,
) -> None:
    """Write the model package of what the stage `approve` approved.

    The records of the runs are taken from the folders of the stages `RECORDED`, beside that
    of `prepared`.

    Raises:
        GateRefused: a model or the verdict is another than was approved.
        InputError: an input is missing or damaged, or the evidence is of other test data or
            figures.
    """
    files = {name: exported / source for name, source in FILES.items()}
    for path in files.values():
        if not path.is_file():
            raise InputError(
                f"{path}: no such file. Run `plumbline export` first.", key="file.missing"
            )
    gate = approved_gate(approved / APPROVAL, gated / GATE, exported)
    test_data = sha256_folder(prepared / "test")
    check_evidence(gate, gated / GATE, test_data=test_data, validated=sha256_folder(validated))
    figures = read_json(validated / "metrics.json")["all"]
    audit = prepared / "audit" / "audit.json"
    records = {
        stage: read_json(prepared.with_name(stage) / RECORD) for stage in RECORDED
    } | record_of_lock(validated)
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
        "records": records,
    }
    report = read_json(gated / "report.json")
    with TemporaryDirectory() as folder:
        reference = Path(folder) / CONDITIONS_FILE
        write_json(reference, describe_conditions(load_shards(prepared / "train")))
        card = model_card(report, read_json(audit)) + describe_origin(records)
        predictions, vectors = Path(folder) / PREDICTIONS, Path(folder) / VECTORS
        export_predictions(
            params.prepare, about["category_share"], predictions, params.export.opset
        )
        write_vectors(load_shards(prepared / "test"), files["model.onnx"], predictions, vectors)
        generated = {CONDITIONS_FILE: reference, PREDICTIONS: predictions, VECTORS: vectors}
        write_package({**files, **generated}, about, card, out)


def record_of_lock(validated: Path) -> dict[str, dict[str, str]]:
    """Return the manifest's record of `validate`: the MD5 of its output in DVC's lock;
    nothing where DVC runs no stage.

    The lock's own hash would be of no use: DVC writes this stage, and what follows it, into
    the lock afterwards.
    """
    if "DVC_STAGE" not in os.environ or not LOCK.is_file():
        return {}
    stages = yaml.safe_load(LOCK.read_text(encoding="utf-8")).get("stages", {})
    outs = (out for stage in stages.values() for out in stage.get("outs", ()))
    md5 = next(
        (out["md5"] for out in outs if Path(out["path"]) == validated and "md5" in out), None
    )
    return {validated.name: {"lock_md5": md5}} if md5 else {}


def code_sha256(*more: str) -> str:
    """Hash the code that makes and judges a model, and `more` of it; map and command line
    do not count."""
    root = Path(plumbline.__file__).parent
    parts = (root / name for name in (*CODE, *more))
    hashes = (
        sha256_file(part) if part.is_file() else sha256_folder(part, "*.py") for part in parts
    )
    return hashlib.sha256("".join(hashes).encode()).hexdigest()
