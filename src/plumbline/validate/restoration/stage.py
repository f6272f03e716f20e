"""Run the stage `validate` of restoration: every artifact on the test scenes, every adapter on its own, the verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from plumbline.core.console import log
from plumbline.core.files import atomic_folder, read_json, sha256_folder, write_csv, write_json
from plumbline.export.restoration.package import adapters_in
from plumbline.export.restoration.runtime import FieldModel
from plumbline.export.restoration.stage import ADAPTERS, ARTIFACTS
from plumbline.model.restoration.adapter_files import CHOICES, SUFFIX, weight_changes
from plumbline.model.restoration.measure import (
    METRICS,
    Figures,
    Settings,
    largest_difference,
    process_figures,
    restore_scenes,
)
from plumbline.model.restoration.spread import FILE as SPREAD
from plumbline.model.restoration.spread import read_spread
from plumbline.params.restoration import DOMAINS, FieldGate, RestorationParams
from plumbline.prepare.restoration.scenes import SceneSet, load_scenes
from plumbline.validate.restoration.gates import Table, evaluate, mean_of, split_rules

PROCESS = "gaussian_process"
ALL, BASE_DOMAIN = "all", "plain"
DENSE = 1000.0
"""Scatterers of a track a square kilometre, from which on a scene counts as dense."""
REFERENCE = "float32"


def validate(prepared: Path, exported: Path, params: RestorationParams, out: Path) -> None:
    """Write `gate.json`, `metrics.json` and `scenes.csv` into `out`, also if the verdict is `fail`.

    Raises:
        InputError: an input folder is missing or damaged.
    """
    test = load_scenes(prepared / "test")
    how = settings_of(params)
    spread = read_spread(exported / SPREAD)
    plain = limited(test.of_domain(BASE_DOMAIN), params)
    models = {name: FieldModel(exported / f"{name}.onnx") for name in ARTIFACTS}
    everyone = {name: restore_scenes(model, spread, plain, how, name) for name, model in models.items()}
    everyone[PROCESS] = process_figures(plain, spread.farthest_m, how)
    table: dict[str, dict[str, list[Figures]]] = {ALL: everyone}
    for kind, rows in _densities(plain).items():
        table[kind] = {name: [figures[row] for row in rows] for name, figures in everyone.items()}
    for domain in DOMAINS[1:]:
        scenes = limited(test.of_domain(domain), params)
        if len(scenes):
            base = restore_scenes(models[REFERENCE], spread, scenes, how, f"{domain}, no adapter")
            table[f"domain:{domain}"] = {REFERENCE: base, PROCESS: process_figures(scenes, spread.farthest_m, how)}
    names = adapters_in(exported)
    for name in names:
        model = FieldModel(exported / "float32.onnx", weight_changes(exported / ADAPTERS / f"{name}{SUFFIX}"))
        own = read_spread(exported / ADAPTERS / f"{name}.json")
        for domain in names:
            scenes = limited(test.of_domain(domain), params)
            if len(scenes):
                figures = restore_scenes(model, own, scenes, how, f"{domain}, adapter {name}")
                part = f"adapter:{name}" if name == domain else f"adapter:{name} on {domain}"
                table[part] = {REFERENCE: figures, "base": table[f"domain:{domain}"][REFERENCE]}
    fixed = {
        name: {
            "parity_mm": largest_difference(models[REFERENCE], models[name], plain, how),
            "size_bytes": float((exported / f"{name}.onnx").stat().st_size),
        }
        for name in ARTIFACTS
    }
    # A model that answers with what is no number has no figure, and passes no rule.
    fixed = {name: {key: one for key, one in own.items() if np.isfinite(one)} for name, own in fixed.items()}
    choices = read_json(exported / CHOICES)
    left_out = {name: about["reason"] for name, about in choices.items() if not about["shipped"] and name not in names}
    rules, unshipped = split_rules(params.validate_.gates, left_out)
    gate = evaluate(rules, table, fixed, params.validate_)
    gate["not_shipped"] = [
        {"adapter": name, "reason": reason, "rules": [_dumped(rule) for rule in unshipped.get(name, [])]}
        for name, reason in left_out.items()
    ]
    gate["test_data"] = {"sha256": sha256_folder(prepared / "test"), "scenes": len(test)}
    gate["exported"] = {"sha256": sha256_folder(exported)}
    with atomic_folder(out) as folder:
        write_json(folder / "gate.json", gate)
        write_json(folder / "metrics.json", summary(table, fixed))
        write_csv(_rows(table), folder / "scenes.csv")
    for rule in gate["rules"]:
        (log.info if rule["passed"] else log.warning)("%s: %s", "met" if rule["passed"] else "not met", rule["text"])
    for one in gate["not_shipped"]:
        log.info("not shipped: adapter %s: %s", one["adapter"], one["reason"])
    log.info("verdict: %s", gate["verdict"])


def settings_of(params: RestorationParams) -> Settings:
    """Return the settings with which this project restores its test scenes."""
    given, asked = params.restore, params.validate_
    return Settings(
        asked.steps or given.steps,
        asked.samples or given.samples,
        given.eta,
        params.train.seed,
        params.simulate.cell_m,
        params.train.crop,
    )


def limited(scenes: SceneSet, params: RestorationParams) -> SceneSet:
    """Return at most `validate.max_scenes` of the scenes, spread over the levels of difficulty."""
    most = params.validate_.max_scenes
    if not len(scenes):
        return scenes.take([])
    rows = np.unique(np.linspace(0, len(scenes) - 1, min(most, len(scenes))).astype(int))
    return scenes.take(rows.tolist())


def summary(table: Table, fixed: Any) -> dict[str, Any]:
    """Return means over scenes: slice -> contender -> metric -> figure; `fixed` go to the slice of all."""
    found: dict[str, Any] = {
        part: {
            who: {"scenes": len(rows), **{metric: mean_of(rows, metric) for metric in METRICS}}
            for who, rows in everyone.items()
        }
        for part, everyone in table.items()
    }
    for name, figures in fixed.items():
        found[ALL][name] |= figures
    return found


def _dumped(rule: FieldGate) -> dict[str, Any]:
    return rule.model_dump(exclude_none=True)


def _densities(scenes: SceneSet) -> dict[str, list[int]]:
    density = np.array([about["density"] for about in scenes.about])
    parts = {"density:low": np.flatnonzero(density < DENSE), "density:high": np.flatnonzero(density >= DENSE)}
    return {name: rows.tolist() for name, rows in parts.items()}


def _rows(table: Table) -> list[dict[str, Any]]:
    return [
        {"slice": part, "model": who, "scene": number, **{metric: round(row[metric], 5) for metric in METRICS}}
        for part, everyone in table.items()
        for who, rows in everyone.items()
        for number, row in enumerate(rows)
    ]
