"""Run the stages `validate` and `package` of fields, and compare with the champion."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from plumbline.core.console import warn
from plumbline.core.errors import GateRefused, InputError, OtherVersion
from plumbline.core.files import atomic_folder, read_json, sha256_folder, write_csv, write_json
from plumbline.export.package import write_folder
from plumbline.fields.model.adapter_files import ADAPTERS, CONFIG, WEIGHTS
from plumbline.fields.model.denoiser import FIELDS, PACKED_SPEC, PACKED_WEIGHTS
from plumbline.fields.model.scores import (
    METRICS,
    Figures,
    ScoreSettings,
    largest_difference,
    process_figures,
    restore_scenes,
)
from plumbline.fields.model.spread import SPREAD, read_spread
from plumbline.fields.prepare.conditions import CHANNELS, SceneSet, load_scenes
from plumbline.fields.release.gates import ALL, SCENES, Table, evaluate, mean_of
from plumbline.fields.release.onnx import ARTIFACTS
from plumbline.fields.release.package import (
    MODELS,
    FieldManifest,
    FieldModel,
    adapters_in,
    open_fields,
    verify_fields,
)
from plumbline.params.fields import DOMAINS, RestorationParams
from plumbline.release.approval import APPROVAL, approved_gate, check_evidence
from plumbline.release.package import code_sha256, describe_origin, record_of_lock
from plumbline.validate.gates.verdict import GATE, failed_rules

PROCESS = "gaussian_process"
DENSE = 1000.0
"""Smallest number of scatterers of a track in a square kilometre of a dense scene."""
REFERENCE = "float32"


def validate(prepared: Path, exported: Path, params: RestorationParams, out: Path) -> None:
    """Write `metrics.json`, `scenes.csv` and `measured.json` into `out`; the stage `gate`
    judges them.

    Raises:
        InputError: an input folder is missing or damaged.
    """
    test = load_scenes(prepared / "test")
    settings = settings_of(params)
    spread = read_spread(exported / SPREAD)
    parts = by_domain(test, params)
    models = {name: FieldModel(exported / f"{name}.onnx") for name in ARTIFACTS}
    table: dict[str, dict[str, list[Figures]]] = {ALL: {name: [] for name in (*models, PROCESS)}}
    for domain, scenes in parts.items():
        by_model = {
            name: restore_scenes(model, spread, scenes, settings, f"{domain}, {name}")
            for name, model in models.items()
        }
        by_model[PROCESS] = process_figures(scenes, spread.farthest_m, settings)
        table[f"domain:{domain}"] = by_model
        for name, figures in by_model.items():
            table[ALL][name] += figures
    for kind, rows in _group_by_density(
        [about for scenes in parts.values() for about in scenes.about]
    ).items():
        table[kind] = {name: [figures[row] for row in rows] for name, figures in table[ALL].items()}
    for name in adapters_in(exported):
        folder = exported / ADAPTERS / name
        if name in parts:
            adapted = FieldModel(exported / f"{REFERENCE}.onnx", [(folder, 1.0)])
            figures = restore_scenes(
                adapted, read_spread(folder / SPREAD), parts[name], settings, f"adapter {name}"
            )
            table[f"adapter:{name}"] = {
                REFERENCE: figures,
                "base": table[f"domain:{name}"][REFERENCE],
            }
    table = {
        part: {name: [_round_figures(row) for row in rows] for name, rows in contenders.items()}
        for part, contenders in table.items()
    }
    fixed = {
        name: {
            "parity_mm": largest_difference(
                models[REFERENCE], models[name], next(iter(parts.values())), settings
            ),
            "size_bytes": float((exported / f"{name}.onnx").stat().st_size),
        }
        for name in ARTIFACTS
    }
    # A model with an answer that is NaN or infinite has no figure, and passes no rule.
    fixed = {
        name: {key: value for key, value in figures.items() if np.isfinite(value)}
        for name, figures in fixed.items()
    }
    measured = {
        "test_data": {"sha256": sha256_folder(prepared / "test"), "scenes": len(test)},
        "exported": {"sha256": sha256_folder(exported)},
    }
    with atomic_folder(out) as folder:
        write_json(folder / "measured.json", measured)
        write_json(folder / "metrics.json", summary(table, fixed))
        write_csv(_list_rows(table), folder / SCENES)


def settings_of(params: RestorationParams) -> ScoreSettings:
    """Return the settings with which this project restores its test scenes."""
    restoring, validation = params.restore, params.validate_
    return ScoreSettings(
        validation.steps or restoring.steps,
        validation.samples or restoring.samples,
        restoring.eta,
        params.train.seed,
        params.simulate.cell_m,
        params.train.crop,
    )


def by_domain(test: SceneSet, params: RestorationParams) -> dict[str, SceneSet]:
    """Return the scenes of each domain that has any, at most `validate.max_scenes` of each.

    Raises:
        InputError: there is none.
    """
    if not len(test):
        raise InputError(
            "prepare.shares.test: no scene to validate on. Give a larger share, or more scenes.",
            key="split.empty",
        )
    parts = {}
    for domain in DOMAINS:
        scenes = test.of_domain(domain)
        if len(scenes):  # spread over the levels of difficulty
            count = min(params.validate_.max_scenes, len(scenes))
            rows = np.unique(np.linspace(0, len(scenes) - 1, count).astype(int))
            parts[domain] = scenes.take(rows.tolist())
    return parts


def summary(table: Table, fixed: Any) -> dict[str, Any]:
    """Return means over scenes: slice -> contender -> metric -> figure; `fixed` is in the
    slice `all`."""
    means: dict[str, Any] = {
        part: {
            name: {"scenes": len(rows), **{metric: mean_of(rows, metric) for metric in METRICS}}
            for name, rows in contenders.items()
        }
        for part, contenders in table.items()
    }
    for name, figures in fixed.items():
        means[ALL][name] |= figures
    return means


def _round_figures(row: Figures) -> Figures:
    """Return a scene's figures as `scenes.csv` has them, by which the gates are judged."""
    return {metric: round(row[metric], 5) for metric in METRICS}


def _group_by_density(scenes: Sequence[Mapping[str, Any]]) -> dict[str, list[int]]:
    """Return the numbers of the scenes with few scatterers and of those with many."""
    density = np.array([about["density"] for about in scenes])
    parts = {
        "density:low": np.flatnonzero(density < DENSE),
        "density:high": np.flatnonzero(density >= DENSE),
    }
    return {name: rows.tolist() for name, rows in parts.items()}


def _list_rows(table: Table) -> list[dict[str, Any]]:
    """Return the rows of `scenes.csv`."""
    return [
        {"slice": part, "model": name, "scene": number, **row}
        for part, contenders in table.items()
        for name, rows in contenders.items()
        for number, row in enumerate(rows)
    ]


CHAMPION = "champion"


def compare_fields(
    candidate: Path, champion: Path, prepared: Path, params: RestorationParams, out: Path
) -> Path:
    """Run both packages on the test scenes and apply the rules with `max_ratio_to: champion`.

    Returns:
        `out`, with `gate.json` and, of scenes that were compared, `scenes.csv`; a refusal
        is written too.

    Raises:
        GateRefused: a rule is not met.
        InputError: a package is damaged, or the scenes are not those that the candidate was
            validated on.
    """
    if sha256_folder(prepared / "test") != verify_fields(candidate).hashes.get("test_data"):
        raise InputError(
            f"{prepared / 'test'}: not the test data that {candidate} was validated on.",
            key="package.other_test_data",
        )
    parts, settings = by_domain(load_scenes(prepared / "test"), params), settings_of(params)
    rules = [rule for rule in params.gate.rules if rule.max_ratio_to == CHAMPION]
    opened = {"fp16": open_fields(candidate)}
    verify_fields(champion)
    try:
        opened[CHAMPION] = open_fields(champion)
    except OtherVersion as error:  # it cannot serve either
        warn(
            "The champion is of another version of Plumbline; it is replaced without a "
            "comparison: %s",
            error,
            key="champion.other_version",
        )
        rules, parts = [], {}
    figures = {
        name: [
            row
            for domain, scenes in parts.items()
            for row in restore_scenes(
                model.model, model.spread, scenes, settings, f"{domain}, {name}"
            )
        ]
        for name, model in opened.items()
    }
    gate = evaluate(rules, {ALL: figures}, {}, params.gate)
    if not rules:
        if parts:
            warn(
                "No rule compares with the champion; it is replaced without a comparison.",
                key="champion.not_compared",
            )
        gate["verdict"] = "not compared"
    rows = [
        {"model": name, "scene": number, **row}
        for name, scenes_of_model in figures.items()
        for number, row in enumerate(scenes_of_model)
    ]
    with atomic_folder(out) as folder:
        write_json(folder / GATE, gate)
        if rows:
            write_csv(rows, folder / SCENES)
    if gate["verdict"] == "fail":
        raise GateRefused(
            f"{candidate}: not promoted. " + "; ".join(failed_rules(gate)) + f". See {out}.",
            key="champion.rule_failed",
        )
    return out


RECORD = "record.json"


def package(
    prepared: Path,
    exported: Path,
    validated: Path,
    gated: Path,
    approved: Path,
    *,
    params: RestorationParams,
    out: Path,
) -> None:
    """Write the package of the models that the stage `approve` approved.

    Raises:
        GateRefused: a model or the verdict differs from what was approved.
        InputError: an input is missing or damaged, or the evidence is of other test data or
            figures.
    """
    gate = approved_gate(approved / APPROVAL, gated / GATE, exported)
    test_data = sha256_folder(prepared / "test")
    check_evidence(gate, gated / GATE, test_data=test_data, validated=sha256_folder(validated))
    metrics = read_json(validated / "metrics.json")
    records = {"train": read_json(prepared.with_name("train") / RECORD)} | record_of_lock(validated)
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
            "code": code_sha256("fields"),
            "params": hashlib.sha256(params.model_dump_json().encode()).hexdigest(),
        },
        "metrics": metrics["all"],
        "gate": gate,
        "records": records,
    }
    card = model_card(metrics, gate) + describe_origin(records)
    write_folder(package_files(exported, gate), content, card, FieldManifest, out)


def package_files(exported: Path, gate: Mapping[str, Any]) -> dict[str, Path]:
    """Return name in the package -> file of the stage `export`; an adapter that no rule has
    judged is left out."""
    files = {name: exported / f"{kind}.onnx" for name, kind in MODELS.items()}
    files |= {name: exported / name for name in (PACKED_WEIGHTS, PACKED_SPEC, SPREAD)}
    judged = {rule["slice"] for rule in gate["rules"] if rule["metric"] in METRICS}
    for name in adapters_in(exported):
        if f"adapter:{name}" not in judged:
            warn(
                "adapter %s: not shipped, because no rule of gate.rules has the slice adapter:%s",
                name,
                name,
                key="adapter.not_judged",
            )
            continue
        for end in (CONFIG, WEIGHTS, SPREAD):
            files[f"{ADAPTERS}/{name}/{end}"] = exported / ADAPTERS / name / end
    missing = [path for path in files.values() if not path.is_file()]
    if missing:
        raise InputError(
            f"{missing[0]}: no such file. Run `plumbline export` first.", key="file.missing"
        )
    return files


def model_card(metrics: dict[str, Any], gate: dict[str, Any]) -> str:
    """Return MODEL_CARD.md: what the model is for, what was measured, and where not to trust it."""
    lines = [
        "# Model card: a denoiser of displacement fields",
        "",
        "It restores the displacement between scatterers of InSAR products, with a 90 % "
        "interval, by conditional "
        "diffusion. Run it with `plumbline restore`.",
        "",
        "**Not for**: buildings with points of their own (use `plumbline predict`); cells "
        "farther from points than "
        "`spread.json` allows (they are no-data); movement to the north or south (satellites "
        "hardly see it).",
        "",
        "Means over simulated test scenes:",
        "",
        "| slice | model | scenes | RMSE, mm | PSNR, dB | SSIM | gradient error, mm/m | CRPS, mm "
        "| coverage of 90 % |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for part, contenders in metrics.items():
        for contender, row in contenders.items():
            names = ("rmse_mm", "psnr_db", "ssim", "gradient_error_mm_m", "crps_mm", "coverage")
            cells = " | ".join(
                "–" if row.get(name) is None else f"{row[name]:.3g}" for name in names
            )
            lines.append(f"| {part} | {contender} | {row['scenes']} | {cells} |")
    lines += ["", f"Gates: {gate['verdict']}.", ""]
    lines += [
        f"- {'met' if rule['passed'] else 'not met'}: {rule['text']}" for rule in gate["rules"]
    ]
    return "\n".join(lines) + "\n"
