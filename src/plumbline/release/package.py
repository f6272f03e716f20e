"""Run the stage `package`, and write the model card."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

import plumbline
from plumbline.core.compass import QUADRANTS
from plumbline.core.errors import InputError
from plumbline.core.files import read_json, sha256_file, sha256_folder, write_json
from plumbline.export.package import MODELS, PREDICTIONS, VECTORS, origin_of, write_package
from plumbline.export.runtime import OnnxModel
from plumbline.export.second_graph import export_predictions
from plumbline.export.vectors import write_vectors
from plumbline.params import Params
from plumbline.prepare.audit.reference import CONDITIONS_FILE as REFERENCE
from plumbline.prepare.audit.reference import describe_conditions
from plumbline.prepare.features.shards import load_shards
from plumbline.release.approval import APPROVAL, approved_gate, check_evidence
from plumbline.validate.gates.verdict import GATE
from plumbline.validate.report.content import METRICS, OF_SLICES, compared_with
from plumbline.validate.report.page import CATEGORIES

NONE = ""
"""A cell without a figure."""
DETAILED = "int8"
"""The released artifact whose slices, confidence and confusion are listed."""


def model_card(report: Mapping[str, Any], audit: Mapping[str, Any]) -> str:
    """Return the card, in Markdown.

    Args:
        report: the content of the stage `gate`'s report.json. audit: that of audit.json of the test data.
    """
    train = audit["statistics"]["splits"]["train"]
    return "\n".join(
        [
            "# Plumbline: damage of buildings from InSAR points",
            "",
            "For each building: the damaged quadrant, the largest principal tensile strain in permille with a 90 % "
            "interval, and the distance from the training data. Buildings with too few scatterers, or unlike the "
            "training data, are not judged. `manifest.json` describes inputs, outputs and units.",
            "",
            f"Trained on {train['buildings']} labelled buildings with {train['points']} scatterers of "
            f"{len(train['cities'])} cities; tested on {report['test_data']['buildings']} buildings of other blocks. "
            "`baseline` is an engineer's least squares. `float32` is the network before pruning. "
            f"Files: {', '.join(f'`{file}` (`{kind}`)' for file, kind in MODELS.items())}.",
            "",
            "## How good",
            "",
            "In brackets: 95 % intervals, by bootstrap over test buildings.",
            "",
            *_metrics(report),
            "",
            *_differences(report),
            "## Gates",
            "",
            f"Verdict: {report['verdict']}.",
            "",
            *(f"- {'met' if rule['passed'] else 'not met'}: {_cell(rule['text'])}" for rule in report["rules"]),
            "",
            "## Size and parity",
            "",
            "Parity compares with torch. Latency depends on the machine.",
            "",
            *_costs(report),
            "",
            "## Slices, confidence and confusion",
            "",
            f"Of `{DETAILED}`. The report of the stage `gate` shows the other files, too. In the last tables, rows "
            "are the truth and columns the answers.",
            "",
            *_slices(report),
            *_reliability(report),
            *_confusions(report),
            "## Limits",
            "",
            "Labels come from simulated structures, and state strain, not cracks. Satellites hardly see movement to "
            "the north or south. A judgement is a reason to look at a building. It does not replace a survey.",
            "",
        ]
    )


def describe_origin(records: Mapping[str, Any]) -> str:
    """Return the last part of a card: the lock of DVC that a package comes from; empty if unknown."""
    md5 = origin_of(records).get("lock_md5")
    if not md5:
        return ""
    command = f"git log --reverse -S {md5} -- '*dvc.lock'"
    sentence = f"`{command}` shows first the commit whose `dvc.lock` describes this run."
    return f"\n## Origin\n\n{sentence}\n"


def _metrics(report: Mapping[str, Any]) -> list[str]:
    names = report["contenders"]
    rows = [[metric, *(_estimate(report["metrics"][metric].get(name)) for name in names)] for metric in METRICS]
    return [*_table(["metric", *names], rows), "", compared_with(report)]


def _estimate(one: Mapping[str, float] | None) -> str:
    if one is None:
        return NONE
    ends = f" ({one['low']:.4g} to {one['high']:.4g})" if "low" in one else ""
    return f"{one['value']:.4g}{ends}"


def _differences(report: Mapping[str, Any]) -> list[str]:
    found = {name: one for name, one in report["from_reference"].items() if one}
    if not found:
        return []
    rows = [
        [metric, *(" to ".join(f"{end:+.4g}" for end in one.get(metric, ())) for one in found.values())]
        for metric in METRICS
    ]
    bound = f"Each end is a bound with {100 * report['confidence']:g} % confidence."
    told = f"Less `{report['reference']}`, on the same buildings. {bound}"
    return [told, "", *_table(["metric", *found], rows), ""]


def _costs(report: Mapping[str, Any]) -> list[str]:
    costs = {name: one for name, one in report["costs"].items() if one}
    keys = list(dict.fromkeys(key for one in costs.values() for key in one))
    return _table(["", *costs], [[key, *(_number(one.get(key)) for one in costs.values())] for key in keys])


def _slices(report: Mapping[str, Any]) -> list[str]:
    keys, rows = OF_SLICES[1:], []
    for part, row in report["slices"].items():
        one = row.get(DETAILED, {})
        if any(one.get(key) is not None for key in keys):
            rows.append([part, f"{one.get('buildings', 0):.0f}", *(_number(one.get(key)) for key in keys)])
    return [*_table(["slice", "buildings", *keys], rows), ""]


def _reliability(report: Mapping[str, Any]) -> list[str]:
    one = report["judged"].get(DETAILED, {})
    if "reliability" not in one:
        return []
    rows = [[_number(row[key]) for key in ("confidence", "accuracy", "share")] for row in one["reliability"]]
    return [*_table([f"{DETAILED}: confidence", "quadrant accuracy", "share"], rows), ""]


def _confusions(report: Mapping[str, Any]) -> list[str]:
    one, lines = report["judged"].get(DETAILED, {}), []
    for key, names in (("quadrant", QUADRANTS), ("category", CATEGORIES)):
        if key in one:
            rows = [[label, *map(str, row)] for label, row in zip(names, one[key], strict=True)]
            lines += [*_table([f"{DETAILED}, {key}", *names], rows), ""]
    return lines


def _number(value: float | None) -> str:
    if value is None:
        return NONE
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [
        "| " + " | ".join(map(_cell, line)) + " |" if line else "|---" * len(heads) + "|" for line in (heads, [], *rows)
    ]


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
"""Sections that no package is made by; the others are the parameters of dvc.yaml's stage `package`."""

LOCK = Path("dvc.lock")
RECORD = "record.json"
RECORDED = ("train", "compress")
"""Stages whose record of the run stands in the manifest."""


def package(
    prepared: Path, exported: Path, validated: Path, gated: Path, approved: Path, params: Params, out: Path
) -> None:
    """Write the model package of what the stage `approve` approved.

    The records of the runs are taken from the folders of the stages `RECORDED`, beside that of `prepared`.

    Raises:
        GateRefused: a model or the verdict is another than was approved.
        InputError: an input is missing or damaged, or the evidence is of other test data or figures.
    """
    files = {name: exported / source for name, source in FILES.items()}
    for path in files.values():
        if not path.is_file():
            raise InputError(f"{path}: no such file. Run `plumbline export` first.")
    gate = approved_gate(approved / APPROVAL, gated / GATE, exported)
    test_data = sha256_folder(prepared / "test")
    check_evidence(gate, gated / GATE, test_data=test_data, validated=sha256_folder(validated))
    figures = read_json(validated / "metrics.json")["all"]
    audit = prepared / "audit" / "audit.json"
    records = {stage: read_json(prepared.with_name(stage) / RECORD) for stage in RECORDED} | record_of_lock(validated)
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
        reference = Path(folder) / REFERENCE
        write_json(reference, describe_conditions(load_shards(prepared / "train")))
        card = model_card(report, read_json(audit)) + describe_origin(records)
        predictions, vectors = Path(folder) / PREDICTIONS, Path(folder) / VECTORS
        export_predictions(params.prepare, about["category_share"], predictions, params.export.opset)
        write_vectors(load_shards(prepared / "test"), files["model.onnx"], predictions, vectors)
        made = {REFERENCE: reference, PREDICTIONS: predictions, VECTORS: vectors}
        write_package({**files, **made}, about, card, out)


def record_of_lock(validated: Path) -> dict[str, dict[str, str]]:
    """Return the manifest's record of `validate`: the MD5 of its output in DVC's lock; nothing where DVC runs no stage.

    The lock's own hash would be of no use: DVC writes this stage, and what follows it, into the lock afterwards.
    """
    if "DVC_STAGE" not in os.environ or not LOCK.is_file():
        return {}
    stages = yaml.safe_load(LOCK.read_text(encoding="utf-8")).get("stages", {})
    outs = (out for stage in stages.values() for out in stage.get("outs", ()))
    found = next((out["md5"] for out in outs if Path(out["path"]) == validated and "md5" in out), None)
    return {validated.name: {"lock_md5": found}} if found else {}


def code_sha256(*more: str) -> str:
    """Hash the code that makes and judges a model, and `more` of it; map and command line do not count."""
    root = Path(plumbline.__file__).parent
    parts = (root / name for name in (*CODE, *more))
    hashes = (sha256_file(part) if part.is_file() else sha256_folder(part, "*.py") for part in parts)
    return hashlib.sha256("".join(hashes).encode()).hexdigest()
