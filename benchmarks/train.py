"""Training speed and memory on a CPU: ours beside the first generation's way, processes, attention, checkpointing.

    python -m benchmarks.train [--buildings 4000] [--rounds 3]

Every figure is of a process of its own (those of `--smoke`, which mean nothing, are not); cases that are compared take
turns, and medians of the rounds count. Prints Markdown; `docs/benchmarks` keeps dated copies. What a GPU shows, its
precisions and kernels: `benchmarks.gpu`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.common import ROOT, cores, head, line, parse, parser, prepared, project_settings, stamp, toy
from plumbline.prepare.features.shards import load_shards

HERE = Path(__file__).parent
LENGTHS = (32, 128, 512, 2048)
KINDS = ("math", "sdpa")
Case = dict[str, Any]
Compare = Callable[[dict[str, Case], Path], dict[str, dict[str, float]]]


def run(case: Case, folder: Path) -> dict[str, float]:
    """Figures of one case, on the CPU."""
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "MLFLOW_TRACKING_URI": "sqlite:///mlflow.db"}
    environment["CUDA_VISIBLE_DEVICES"] = ""
    command = [sys.executable, str(HERE / "speed" / "cases.py"), json.dumps(case), str(folder)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{case} ended with {done.returncode}:\n{done.stderr}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def run_here(case: Case, folder: Path) -> dict[str, float]:
    """Figures of one case that are of no worth, in this process and so in a moment."""
    from benchmarks.speed.cases import measure

    with contextlib.chdir(folder):
        return measure(case, folder)


def compare(
    cases: dict[str, Case], folder: Path, rounds: int, run: Callable[[Case, Path], dict[str, float]] = run
) -> dict[str, dict[str, float]]:
    """Medians of each case's figures over the rounds; the cases take turns."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, case in cases.items():
            found[name].append(run(case, folder))
    return {
        name: {key: float(np.median([row[key] for row in rows])) for key in rows[0]} for name, rows in found.items()
    }


def make_data(folder: Path, buildings: int) -> Path:
    """Prepare X-band cities of the project's own simulator."""
    content = project_settings()
    city = {"band": "X", "buildings": buildings, "seed": 5, "years": 2.5}
    content["simulate"] |= {"cities": {"x": city}, "showcase": {"band": "X", "buildings": 4, "seed": 6}}
    content["prepare"] |= {"split": {"train": 0.85, "tune": 0.05, "calibrate": 0.05, "test": 0.05}}
    return prepared(folder, content)


def table(title: str, *columns: str) -> None:
    """Head of a table."""
    print(f"\n## {title}\n\n{head(*columns)}")


def feeding(folder: Path, compare: Compare, threads: int) -> None:
    """Ours against the first generation's way, on the CPU."""
    common = {"threads": threads}
    cases: dict[str, Case] = {
        "first generation's way": common | {"case": "first_generation", "torch_layers": True},
        "its way, our layers": common | {"case": "first_generation", "torch_layers": False},
        "ours": common | {"case": "ours"},
    }
    found = compare(cases, folder)
    base = found["first generation's way"]["rate"]
    table(f"The same network, fed two ways, {threads} threads", "way", "buildings/s", "times", "memory, MB")
    for name, row in found.items():
        print(line(name, f"{row['rate']:,.0f}", f"{row['rate'] / base:.2f}", f"{row['memory']:,.0f}"))
    between = found["ours"]["between"]
    print(f"\nBetween the steps, for data and Lightning's own work, ours spends {between:.1%} of the time.")


def processes(folder: Path, compare: Compare, counts: Sequence[int]) -> None:
    """Two processes of one thread against one; each has the same batch, so that a step is twice as large."""
    cases = {str(count): {"case": "ours", "devices": count, "threads": 1} for count in counts}
    found = compare(cases, folder)
    base = found[str(counts[0])]["rate"] / counts[0]
    table("Processes of one thread each (gloo)", "processes", "buildings/s", "efficiency", "memory of the first, MB")
    for name, row in found.items():
        print(line(name, f"{row['rate']:,.0f}", f"{row['rate'] / base / int(name):.2f}", f"{row['memory']:,.0f}"))


def kernels(folder: Path, compare: Compare, scatterers: int, lengths: Sequence[int]) -> None:
    """Attention kernels at several lengths, forward and backward."""
    table(
        f"Attention alone, float32, {scatterers:,} scatterers a batch",
        "scatterers a building",
        *(f"{kind}, {unit}" for kind in KINDS for unit in ("ms", "MB")),
    )
    for length in lengths:
        common = {"case": "attention", "length": length, "scatterers": scatterers, "threads": 1}
        found = compare({kind: common | {"kind": kind} for kind in KINDS}, folder)
        print(line(length, *(cell for row in found.values() for cell in (f"{row['ms']:.1f}", f"{row['memory']:,.0f}"))))


def checkpointing(folder: Path, compare: Compare, scatterers: int, length: int) -> None:
    """Memory for time."""
    common = {"case": "checkpointing", "length": length, "scatterers": scatterers, "threads": 1}
    found = compare({name: common | {"checkpoint": name == "on"} for name in ("off", "on")}, folder)
    title = f"Activation checkpointing, {scatterers // length} buildings of {length}"
    table(title, "checkpoint_activations", "ms", "memory, MB")
    for name, row in found.items():
        print(line(name, f"{row['ms']:,.0f}", f"{row['memory']:,.0f}"))


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    asked = parser("train", __doc__)
    asked.add_argument("--data", type=Path, help="of a `make run`, with its params.yaml beside; simulated by default")
    asked.add_argument("--buildings", type=int, default=4000)
    asked.add_argument("--rounds", type=int, default=3)
    asked.add_argument("--lengths", type=int, nargs="+", default=LENGTHS, help="of a building, for attention alone")
    asked.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    given = parse(asked, argv, rounds=1, lengths=[32], processes=[1])
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if given.data:  # to write beside it
            shutil.copy(given.data.parent / "params.yaml", folder)
            (folder / "data").symlink_to(given.data.resolve())
        else:
            toy(folder) if given.smoke else make_data(folder, given.buildings)
        length = load_shards(folder / "data" / "prepare" / "train").length
        print(f"{stamp(f'torch {torch.__version__}')}\n")
        print(f"{len(length):,} buildings of {length.mean():.0f} points (5 to {length.max()}), model and ", end="")
        print(f"training of params.yaml; median of {given.rounds} runs. Memory: on top of libraries and data.")
        apart, once = partial(compare, rounds=given.rounds), partial(compare, rounds=1)
        feed = apart
        if given.smoke:
            feed = once = partial(compare, rounds=1, run=run_here)
        feeding(folder, feed, 1 if given.smoke else cores())
        processes(folder, apart, given.processes)
        size, long = (256, 1024) if given.smoke else (4096, 8192)
        kernels(folder, once, size, given.lengths)
        checkpointing(folder, once, long, 512)


if __name__ == "__main__":
    main()
