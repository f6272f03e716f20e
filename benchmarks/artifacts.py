"""Speed and size of exported artifacts, as ratios to the unpruned network in float32 under ONNX Runtime and torch.

`python benchmarks/artifacts.py [pretrained]`: of the last `make run`, or of the package that is shipped. Either answers
for the test buildings of the last `make run`. Prints Markdown; `docs/benchmarks` keeps dated copies.
"""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from plumbline import pretrained
from plumbline.export.onnx import export_onnx
from plumbline.export.runtime import OnnxModel
from plumbline.export.stage import ARTIFACTS
from plumbline.model.diagnosis import load_diagnosis
from plumbline.params import Export
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
    shipped = sys.argv[1:] == ["pretrained"]
    cores = len(os.sched_getaffinity(0))
    torch.set_num_threads(cores)
    test = load_shards(DATA / "prepare" / "test")
    eager = load_diagnosis(Path(pretrained.__file__).parent / "model" if shipped else DATA / "train")
    with tempfile.TemporaryDirectory() as scratch:
        whole = Path(scratch) / "float32.onnx"
        export_onnx(eager, whole, Export().opset)
        if shipped:
            package = Path(pretrained.__file__).parent / "package"
            files = {"float32": whole} | {path.stem: path for path in sorted(package.glob("*.onnx"))}
        else:
            files = {"float32": whole} | {name: DATA / "export" / f"{name}.onnx" for name in ARTIFACTS[1:]}
        models = {name: OnnxModel(path) for name, path in files.items()}
        sizes = {name: size_figures(path) for name, path in files.items()}
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    print(f"{datetime.date.today()}, {cores} cores {platform.machine()}, commit {commit.stdout.strip() or 'unknown'}\n")
    length = float(np.mean(np.asarray(test.length)))
    print("In brackets: times faster than float32 (the unpruned network) and than torch eager. Test buildings of")
    print(f"{length:.0f} scatterers on average, padded to the longest of a batch.\n")
    print(
        "| artifact | file, bytes | weights, bytes | " + " | ".join(f"B {b}: buildings/s (x)" for b in BATCHES) + " |"
    )
    print("|---" * (3 + len(BATCHES)) + "|")
    rates: dict[str, list[str]] = {name: [] for name in ("torch eager", *models)}
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
            times = " and ".join(f"{seconds[base] / value:.2f}" for base in ("float32", "torch eager"))
            rates[name].append(f"{batch / value:,.0f} ({times})")
    for name, cells in rates.items():
        told = [f"{sizes[name][key]:,.0f}" if name in sizes else "" for key in ("size_bytes", "weight_bytes")]
        print(f"| {name} | " + " | ".join([*told, *cells]) + " |")


if __name__ == "__main__":
    main()
