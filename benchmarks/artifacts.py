"""Speed and size of exported artifacts, as ratios to the unpruned network in float32 under ONNX Runtime and torch.

`python -m benchmarks.artifacts [pretrained]`: of the last `make run`, or of the package that is shipped. Either answers
for the test buildings of the last `make run`, once as Plumbline runs a file and once in a bare session of ONNX Runtime.
Prints Markdown; `docs/benchmarks` keeps dated copies.
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
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch

from plumbline import pretrained
from plumbline.export.onnx import export_onnx
from plumbline.export.runtime import OnnxModel
from plumbline.export.stage import ARTIFACTS
from plumbline.model.diagnosis import Diagnosis, load_diagnosis
from plumbline.params import Export
from plumbline.prepare.features.shards import SequenceSet, load_shards
from plumbline.validate.measure import run_torch, size_figures
from plumbline.validate.metrics import Figures

DATA = Path("data")
BATCHES = (1, 64, 256)
EAGER = "torch eager"
ROUNDS = 15
"""Rounds in which every contender has a turn, so that a change of the machine's speed meets all of them."""
PAUSE_S = 0.05
"""Before a turn: the threads of the one before wait for more work for a while, and keep a core busy with it."""


def least_times(contenders: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Least over the rounds of the mean time of a call, s: what else a machine does only adds to it."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(ROUNDS + 1):
        for name, call in contenders.items():
            time.sleep(PAUSE_S)
            call()
            start = time.perf_counter()
            for _ in range(repeats):
                call()
            if number:  # the first round warms up
                times[name].append((time.perf_counter() - start) / repeats)
    return {name: float(np.min(values)) for name, values in times.items()}


def bare_session(path: Path, threads: int) -> onnxruntime.InferenceSession:
    """As anybody would open the file."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


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
        models = {name: OnnxModel(path, threads=cores) for name, path in files.items()}
        bare = {name: bare_session(path, cores) for name, path in files.items()}
        sizes = {name: size_figures(path) for name, path in files.items()}
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    print(f"{datetime.date.today()}, {cores} cores {platform.machine()}, commit {commit.stdout.strip() or 'unknown'}\n")
    length = float(np.mean(np.asarray(test.length)))
    print("In brackets: times faster than float32 (the unpruned network), run the same way, and than torch eager;")
    print(f"{cores} threads each. Test buildings of {length:.0f} scatterers on average, drawn at random, padded to the")
    print("longest of a batch.")
    for title, contenders in (
        ("As Plumbline runs a file: in parts of similar length", {name: model.run for name, model in models.items()}),
        ("A bare session of ONNX Runtime", {name: partial(one.run, None) for name, one in bare.items()}),
    ):
        table(title, eager, contenders, test, sizes)


def table(
    title: str, eager: Diagnosis, ways: dict[str, Callable[[Any], object]], test: SequenceSet, sizes: dict[str, Figures]
) -> None:
    """One row for torch eager and one for each way to run a file."""
    print(f"\n### {title}\n")
    print(
        "| artifact | file, bytes | weights, bytes | " + " | ".join(f"B {b}: buildings/s (x)" for b in BATCHES) + " |"
    )
    print("|---" * (3 + len(BATCHES)) + "|")
    rates: dict[str, list[str]] = {name: [] for name in (EAGER, *ways)}
    for batch in BATCHES:
        inputs = test.pad(np.random.default_rng(0).permutation(len(test))[:batch])
        contenders = {EAGER: partial(run_torch, eager, inputs)} | {n: partial(way, inputs) for n, way in ways.items()}
        seconds = least_times(contenders, 20 if batch == 1 else 5)
        for name, value in seconds.items():
            times = " and ".join(f"{seconds[base] / value:.2f}" for base in ("float32", EAGER))
            rates[name].append(f"{batch / value:,.0f} ({times})")
    for name, cells in rates.items():
        told = [f"{sizes[name][key]:,.0f}" if name in sizes else "" for key in ("size_bytes", "weight_bytes")]
        print(f"| {name} | " + " | ".join([*told, *cells]) + " |")


if __name__ == "__main__":
    main()
