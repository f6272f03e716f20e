"""The part about fields: time to restore a window at 25 and 50 steps, by torch and by ONNX Runtime."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from numpy.typing import NDArray

from benchmarks.gpu.results import Found, Table, Work
from benchmarks.gpu.runtimes import CUDA
from plumbline import pretrained
from plumbline.fields.model.denoiser import load_denoiser
from plumbline.fields.model.sampling import BOTH, Denoiser, draw_samples
from plumbline.fields.prepare.conditions import stack_maps
from plumbline.fields.prepare.gaussian_process import Covariance, estimate
from plumbline.fields.prepare.grid import Grid, Observations, bin_observations
from plumbline.fields.release.package import CPU, FieldModel
from plumbline.fields.train.calibrate import TorchDenoiser

PACKAGE = Path(pretrained.__file__).parent / "fields"
STEPS = (25, 50)
CELL_M = 5.0
LOS = 0.6
"""East part of the line of sight, towards either side."""


def window(cells: int, points: int) -> NDArray[np.float32]:
    """Return the raw maps of a trough of 8 mm, seen by so many scatterers from two sides."""
    random, side_m = np.random.default_rng(0), cells * CELL_M
    place = random.uniform(0, side_m, (points, 2))
    up = -8 * np.exp(-(((place - side_m / 2) / (side_m / 4)) ** 2).sum(1))
    east = np.where(np.arange(points) % 2 == 0, LOS, -LOS)
    los = np.stack([east, np.zeros(points), np.full(points, np.sqrt(1 - LOS**2))], axis=1)
    change = los[:, 2] * up + random.normal(0, 1, points)
    still, far = np.zeros(points), np.full(points, 300.0)
    found = Observations(place, los, change, np.ones(points), still, far, np.ones(points), np.arange(points) % 2)
    grid = Grid(0.0, side_m, CELL_M, cells, cells)
    return stack_maps(estimate(found, grid, Covariance(5.0, 2.0, 60.0, 1.0, 0.5)), bin_observations(found, grid))


def restore(work: Work) -> Found:
    """Time samples of one window; torch in float32, ONNX Runtime by the package's file."""
    cells, points, samples = (16, 30, 2) if work.dry else (128, 1500, 16)
    maps = window(cells, points)
    columns = ["runtime", "steps", "s a field", "ms a sample and step"]
    table = Table(f"Restoring a field of {cells} x {cells} cells, {samples} samples", columns)
    network = load_denoiser(PACKAGE, "weights.safetensors", "network.json").to(work.device)
    models: dict[str, Denoiser] = {"torch": TorchDenoiser(network)}
    provider = CPU if work.dry else CUDA
    if provider in onnxruntime.get_available_providers():
        models[f"ONNX Runtime, {provider}"] = FieldModel(PACKAGE / "model.onnx", provider=provider)
    figures = {}
    for name, model in models.items():
        draw_samples(model, maps, BOTH, 1, samples, 1.0, np.random.default_rng(0))  # the first calls choose kernels
        for steps in STEPS:
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            began = time.perf_counter()
            draw_samples(model, maps, BOTH, steps, samples, 1.0, np.random.default_rng(0))
            seconds = time.perf_counter() - began
            figures[f"restore.{name}.{steps}.s"] = seconds
            table.rows.append([name, str(steps), f"{seconds:.2f}", f"{1000 * seconds / steps / samples:.2f}"])
    return Found([table], figures)
