"""Run the stage `package` of restoration: write an immutable folder, if the gates were passed."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from plumbline.core.errors import InputError
from plumbline.core.files import read_json, sha256_folder
from plumbline.export.folder import write_folder
from plumbline.export.restoration.package import ADAPTERS, MODELS, FieldManifest, adapters_in
from plumbline.model.restoration.adapter_files import SUFFIX
from plumbline.model.restoration.denoiser import FIELDS
from plumbline.model.restoration.spread import FILE as SPREAD
from plumbline.params.restoration import RestorationParams
from plumbline.prepare.restoration.conditions import CHANNELS
from plumbline.release.package import code_sha256, require_pass

RECORD = "record.json"


def package(prepared: Path, exported: Path, validated: Path, params: RestorationParams, out: Path) -> None:
    """Write the model package, if the verdict of the stage `validate` is `pass`.

    Raises:
        GateRefused: it is not; the message names every failed rule with its figure and bound.
        InputError: an input is missing or damaged, or the evidence is of other test data or other models.
    """
    gate = read_json(validated / "gate.json")
    require_pass(gate, validated / "gate.json")
    test_data = sha256_folder(prepared / "test")
    for what, key, found in (("test data", "test_data", test_data), ("models", "exported", sha256_folder(exported))):
        if gate.get(key, {}).get("sha256") != found:
            raise InputError(f"{validated / 'gate.json'}: measured on other {what}. Run `plumbline validate` again.")
    metrics = read_json(validated / "metrics.json")
    content = {
        "name": params.package.name,
        "default_model": "model.onnx",
        "conditions": list(CHANNELS),
        "fields": list(FIELDS),
        "restore": params.restore.model_dump(),
        "prepare": params.prepare.model_dump(),
        "hashes": {
            "data": sha256_folder(prepared),
            "test_data": test_data,
            "code": code_sha256(),
            "params": hashlib.sha256(params.model_dump_json().encode()).hexdigest(),
        },
        "metrics": metrics["all"],
        "gate": gate,
        "records": {"train": read_json(prepared.with_name("train") / RECORD)},
    }
    write_folder(package_files(exported), content, model_card(metrics, gate), FieldManifest, out)


def package_files(exported: Path) -> dict[str, Path]:
    """Return name in the package -> file of the stage `export`."""
    files = {name: exported / f"{kind}.onnx" for name, kind in MODELS.items()}
    files |= {name: exported / name for name in ("weights.safetensors", "network.json", SPREAD)}
    for name in adapters_in(exported):
        for end in (SUFFIX, ".json"):
            files[f"{ADAPTERS}/{name}{end}"] = exported / ADAPTERS / f"{name}{end}"
    missing = [path for path in files.values() if not path.is_file()]
    if missing:
        raise InputError(f"{missing[0]}: no such file. Run `plumbline export` first.")
    return files


def model_card(metrics: dict[str, Any], gate: dict[str, Any]) -> str:
    """Return MODEL_CARD.md: what the model is for, what was measured, and where not to trust it."""
    lines = [
        "# Model card: a denoiser of displacement fields",
        "",
        "It restores the displacement between scatterers of InSAR products, with a 90 % interval, by conditional "
        "diffusion. Run it with `plumbline restore`.",
        "",
        "**Not for**: buildings with points of their own (use `plumbline predict`); cells farther from points than "
        "`spread.json` allows (they are no-data); movement to the north or south (satellites hardly see it).",
        "",
        "Means over simulated test scenes:",
        "",
        "| slice | model | scenes | RMSE, mm | PSNR, dB | SSIM | gradient error, mm/m | CRPS, mm | coverage of 90 % |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for part, everyone in metrics.items():
        for who, row in everyone.items():
            names = ("rmse_mm", "psnr_db", "ssim", "gradient_error_mm_m", "crps_mm", "coverage")
            told = " | ".join("–" if row.get(name) is None else f"{row[name]:.3g}" for name in names)
            lines.append(f"| {part} | {who} | {row['scenes']} | {told} |")
    lines += ["", f"Gates: {gate['verdict']}.", ""]
    lines += [f"- {'met' if rule['passed'] else 'not met'}: {rule['text']}" for rule in gate["rules"]]
    lines += [f"- not shipped: adapter {one['adapter']}: {one['reason']}" for one in gate.get("not_shipped", [])]
    return "\n".join(lines) + "\n"
