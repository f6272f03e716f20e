"""The part about fields: time to restore a window at 25 and 50 steps, by torch and by ONNX Runtime."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import onnxruntime
import torch

from benchmarks.gpu.parts import Found, Table, Work
from benchmarks.gpu.runtimes import CUDA
from plumbline import pretrained
from plumbline.fields.model.denoiser import load_denoiser
from plumbline.fields.model.sampling import BOTH, DenoisingModel, draw_samples
from plumbline.fields.prepare.conditions import MAPS
from plumbline.fields.release.package import CPU, FieldModel
from plumbline.fields.train.calibrate import TorchDenoiser

PACKAGE = Path(pretrained.__file__).parent / "fields"
STEPS = (25, 50)


def restore(work: Work) -> Found:
    """Time samples of one window; torch in float32, ONNX Runtime by the package's file."""
    cells, samples = (16, 2) if work.dry else (128, 16)
    # The time does not depend on the values.
    maps = np.random.default_rng(0).uniform(0.5, 1, (len(MAPS), cells, cells)).astype(np.float32)
    columns = ["runtime", "steps", "s a field", "ms a sample and step"]
    table = Table(f"Restoring a field of {cells} x {cells} cells, {samples} samples", columns)
    network = load_denoiser(PACKAGE, "weights.safetensors", "network.json").to(work.device)
    models: dict[str, DenoisingModel] = {"torch": TorchDenoiser(network)}
    provider = CPU if work.dry else CUDA
    if provider in onnxruntime.get_available_providers():
        models[f"ONNX Runtime, {provider}"] = FieldModel(PACKAGE / "model.onnx", provider=provider)
    for name, model in models.items():
        # The first calls choose kernels.
        draw_samples(model, maps, BOTH, steps=1, samples=samples, eta=1.0, rng=np.random.default_rng(0))
        for steps in STEPS:
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            began = time.perf_counter()
            draw_samples(model, maps, BOTH, steps=steps, samples=samples, eta=1.0, rng=np.random.default_rng(0))
            seconds = time.perf_counter() - began
            table.rows.append([name, str(steps), f"{seconds:.2f}", f"{1000 * seconds / steps / samples:.2f}"])
    return Found([table])
