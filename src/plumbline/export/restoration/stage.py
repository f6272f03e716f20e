"""Run the stage `export` of restoration: the denoiser as ONNX in float32, fp16 and int8, adapters and spread beside."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from plumbline.core.console import log
from plumbline.core.files import atomic_folder, read_json, write_json
from plumbline.export.restoration.onnx import export_denoiser, halve_weights, quantize_weights
from plumbline.model.restoration.adapter_files import CHOICES, SUFFIX
from plumbline.model.restoration.denoiser import SPEC, WEIGHTS, FieldDenoiser, load_denoiser
from plumbline.model.restoration.spread import FILE as SPREAD
from plumbline.params.restoration import RestorationParams
from plumbline.prepare.restoration.conditions import describe
from plumbline.prepare.restoration.scenes import SceneSet, load_scenes

ARTIFACTS = ("float32", "fp16", "int8")
"""`float32` is what training made, and what the others are measured against."""
ADAPTERS = "adapters"
BATCH = 8


def export(prepared: Path, trained: Path, params: RestorationParams, out: Path) -> None:
    """Write the models of `ARTIFACTS`, the weights in 16 bits, the spread and the chosen adapters into `out`.

    Raises:
        InputError: an input folder is missing or damaged.
    """
    model = load_denoiser(trained)
    scenes = load_scenes(prepared / "train")
    with atomic_folder(out) as folder:
        export_denoiser(model, folder / "float32.onnx", params.export.opset)
        halve_weights(folder / "float32.onnx", folder / "fp16.onnx")
        batches = _batches(model, scenes, params)
        quantize_weights(folder / "float32.onnx", folder / "int8.onnx", batches)
        weights = {name: values.astype(np.float16) for name, values in load_file(trained / WEIGHTS).items()}
        save_file(weights, folder / "weights.safetensors")
        shutil.copyfile(trained / SPEC, folder / "network.json")
        shutil.copyfile(trained / SPREAD, folder / SPREAD)
        _copy_adapters(trained, folder)
        for name in ARTIFACTS:
            log.info("%s.onnx: %d bytes", name, (folder / f"{name}.onnx").stat().st_size)


def _copy_adapters(trained: Path, out: Path) -> None:
    """Copy the adapters that training chose, and why the others are left out."""
    choices = {
        name: {"shipped": about["shipped"], "reason": about["reason"]}
        for name, about in read_json(trained / CHOICES).items()
    }
    (out / ADAPTERS).mkdir()
    for name, about in choices.items():
        if not about["shipped"]:
            log.info("adapter %s is left out: %s", name, about["reason"])
            continue
        for end in (SUFFIX, ".json"):
            shutil.copyfile(trained / ADAPTERS / f"{name}{end}", out / ADAPTERS / f"{name}{end}")
    write_json(out / CHOICES, choices)


def _batches(model: FieldDenoiser, scenes: SceneSet, params: RestorationParams) -> list[dict[str, NDArray[Any]]]:
    """Return inputs as in restoration, at steps from the first to the last; each batch from other scenes."""
    rng = np.random.default_rng(params.train.seed)
    alphas = model.alphas.double().numpy()
    crop, count = params.train.crop, params.export.calibration_batches
    found = []
    for step in np.linspace(len(alphas) - 1, 0, count).round().astype(int):
        noisy, conditions = [], []
        for scene in rng.integers(0, len(scenes), BATCH):
            cut = (slice(None), slice(0, crop), slice(0, crop))
            told = describe(np.asarray(scenes.maps[scene])[cut])
            clean = (np.asarray(scenes.truth[scene])[cut] - told.mean) / told.scale[:, None, None]
            noise = rng.standard_normal(clean.shape)
            noisy.append(np.sqrt(alphas[step]) * clean + np.sqrt(1 - alphas[step]) * noise)
            conditions.append(told.channels)
        given: dict[str, NDArray[Any]] = {
            "noisy": np.stack(noisy).astype(np.float32),
            "step": np.full(BATCH, step, np.int64),
            "conditions": np.stack(conditions),
        }
        found.append(given)
    return found
