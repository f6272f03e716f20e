"""Speed and size of every exported artifact, as ratios to torch eager running the unpruned network.

Needs a finished `make run`. Prints Markdown; `docs/benchmarks` keeps dated copies.
"""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from plumbline.export.runtime import OnnxModel
from plumbline.export.stage import ARTIFACTS
from plumbline.model.diagnosis import load_diagnosis
from plumbline.prepare.shards import load_shards
from plumbline.validate.measure import size_figures

DATA = Path("data")
BATCHES = (1, 64, 256)
ROUNDS = 7
"""Rounds in which every contender runs once, so that a change of the machine's speed meets all of them."""


def median_times(contenders: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median over the rounds of the mean time of a call, s."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(ROUNDS + 1):
        for name, call in contenders.items():
            start = time.perf_counter()
            for _ in range(repeats):
                call()
            if number:  # the first round warms up
                times[name].append((time.perf_counter() - start) / repeats)
    return {name: float(np.median(values)) for name, values in times.items()}


def main() -> None:
    """Measure and print."""
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    test = load_shards(DATA / "prepare" / "test")
    eager = load_diagnosis(DATA / "train")
    models = {name: OnnxModel(DATA / "export" / f"{name}.onnx") for name in ARTIFACTS}
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    cores = len(os.sched_getaffinity(0))
    print(f"{datetime.date.today()}, {cores} cores {platform.machine()}, commit {commit.stdout.strip() or 'unknown'}\n")
    print("Baseline: torch eager, unpruned network, float32, the same batch of test buildings.\n")
    print(
        "| artifact | file, bytes | weights, bytes | " + " | ".join(f"B {b}: buildings/s (x)" for b in BATCHES) + " |"
    )
    print("|---" * (3 + len(BATCHES)) + "|")
    rates: dict[str, list[str]] = {name: [] for name in ("torch eager", *ARTIFACTS)}
    for batch in BATCHES:
        inputs = test.pad(np.random.default_rng(0).permutation(len(test))[:batch])
        tensors = [torch.from_numpy(np.ascontiguousarray(inputs[n])) for n in ("distance", "slope", "geometry", "mask")]

        def run_eager(tensors: list[torch.Tensor] = tensors) -> object:
            with torch.inference_mode():
                return eager(*tensors)

        contenders: dict[str, Callable[[], object]] = {"torch eager": run_eager}
        for name, model in models.items():
            contenders[name] = lambda model=model, inputs=inputs: model.run(inputs)
        seconds = median_times(contenders, 20 if batch == 1 else 4)
        for name, value in seconds.items():
            rates[name].append(f"{batch / value:,.0f} ({seconds['torch eager'] / value:.2f})")
    for name, cells in rates.items():
        figures = size_figures(DATA / "export" / f"{name}.onnx") if name in models else {}
        sizes = [f"{figures[key]:,.0f}" if key in figures else "" for key in ("size_bytes", "weight_bytes")]
        print(f"| {name} | " + " | ".join([*sizes, *cells]) + " |")


if __name__ == "__main__":
    main()
