"""Training speed and memory: ours beside the first generation's way, processes, and on a GPU precisions and kernels.

    python -m benchmarks.train [--buildings 4000] [--rounds 3]

Every figure is of a process of its own; cases that are compared take turns, and medians of the rounds count. Prints
Markdown; `docs/benchmarks` keeps dated copies.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

from benchmarks.settings import project_settings
from plumbline.prepare.features.shards import load_shards

HERE = Path(__file__).parent
LENGTHS = (32, 128, 512, 2048)
Case = dict[str, Any]


def run(case: Case, folder: Path) -> dict[str, float]:
    """Figures of one case; those of one that the GPU's memory does not hold are no numbers."""
    environment = os.environ | {"PYTHONPATH": str(HERE.parent / "src"), "MLFLOW_TRACKING_URI": "sqlite:///mlflow.db"}
    if case.get("cpu"):
        environment["CUDA_VISIBLE_DEVICES"] = ""
    command = [sys.executable, str(HERE / "speed" / "cases.py"), json.dumps(case), str(folder)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode and "torch.OutOfMemoryError" in done.stderr:
        return dict.fromkeys(("ms", "rate", "between", "memory"), float("nan"))
    if done.returncode:
        sys.exit(f"{case} ended with {done.returncode}:\n{done.stderr}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def compare(cases: dict[str, Case], folder: Path, rounds: int) -> dict[str, dict[str, float]]:
    """Medians of each case's figures over the rounds; the cases take turns."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, case in cases.items():
            found[name].append(run(case, folder))
    return {
        name: {key: float(np.median([row[key] for row in rows])) for key in rows[0]} for name, rows in found.items()
    }


def make_data(folder: Path, buildings: int) -> None:
    """X-band cities of the project's own simulator, prepared, by the commands a user would type."""
    content = project_settings()
    city = {"band": "X", "buildings": buildings, "seed": 5, "years": 2.5}
    content["simulate"] |= {"cities": {"x": city}, "showcase": {"band": "X", "buildings": 4, "seed": 6}}
    content["prepare"] |= {"split": {"train": 0.85, "tune": 0.05, "calibrate": 0.05, "test": 0.05}}
    (folder / "params.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    for stage in ("simulate", "ingest", "prepare"):
        command = [sys.executable, "-m", "plumbline", stage]
        environment = os.environ | {"PYTHONPATH": str(HERE.parent / "src")}
        subprocess.run(command, cwd=folder, check=True, capture_output=True, env=environment)


def table(title: str, *columns: str) -> None:
    """Head of a table."""
    print(f"\n## {title}\n\n| " + " | ".join(columns) + " |\n|---" + "|---:" * (len(columns) - 1) + "|")


def feeding(folder: Path, cores: int, rounds: int) -> None:
    """Ours against the first generation's way, on the CPU."""
    common = {"threads": cores, "cpu": True}
    cases: dict[str, Case] = {
        "first generation's way": common | {"case": "first_generation", "torch_layers": True},
        "its way, our layers": common | {"case": "first_generation", "torch_layers": False},
        "ours": common | {"case": "ours"},
    }
    found = compare(cases, folder, rounds)
    base = found["first generation's way"]["rate"]
    table(f"The same network, fed two ways, {cores} threads", "way", "buildings/s", "times", "memory, MB")
    for name, row in found.items():
        print(f"| {name} | {row['rate']:,.0f} | {row['rate'] / base:.2f} | {row['memory']:,.0f} |")
    between = found["ours"]["between"]
    print(f"\nBetween the steps, for data and Lightning's own work, ours spends {between:.1%} of the time.")


def processes(folder: Path, rounds: int) -> None:
    """Two processes of one thread against one; each has the same batch, so that a step is twice as large."""
    cases = {
        str(count): {"case": "ours", "devices": count, "threads": 1, "cpu": True} for count in (1, 2)
    }  # fmt: skip
    found = compare(cases, folder, rounds)
    base = found["1"]["rate"]
    table("Processes of one thread each (gloo)", "processes", "buildings/s", "efficiency", "memory of the first, MB")
    for name, row in found.items():
        print(f"| {name} | {row['rate']:,.0f} | {row['rate'] / base / int(name):.2f} | {row['memory']:,.0f} |")


def precisions(folder: Path, rounds: int) -> None:
    """On the GPU: float32, bf16, and bf16 compiled; and where every batch is sent to it, as for large data."""
    common = {"case": "ours", "threads": 1, "batch_size": 1024, "epochs": 30}
    cases: dict[str, Case] = {
        "float32": common | {"precision": 32},
        "bf16": common | {"precision": "bf16"},
        "bf16 compiled": common | {"precision": "bf16", "compile": True},
        "bf16, data sent batch by batch": common | {"precision": "bf16", "resident": "never"},
    }
    table("Precisions, batches of 1,024", "precision", "buildings/s", "between the steps", "memory, MB")
    for name, row in compare(cases, folder, rounds).items():
        print(f"| {name} | {row['rate']:,.0f} | {row['between']:.1%} | {row['memory']:,.0f} |")


def kernels(folder: Path, rounds: int, scatterers: int, kinds: list[str], precision: str = "float32") -> None:
    """Attention kernels at several lengths, forward and backward."""
    table(f"Attention alone, {precision}, {scatterers:,} scatterers a batch", "scatterers a building",
          *(f"{kind}, {unit}" for kind in kinds for unit in ("ms", "MB")))  # fmt: skip
    for length in LENGTHS:
        common = {
            "case": "attention", "length": length, "scatterers": scatterers, "threads": 1, "precision": precision,
        }  # fmt: skip
        found = compare({kind: common | {"kind": kind} for kind in kinds}, folder, rounds)
        cells = [f"{row['ms']:.1f} | {row['memory']:,.0f}" for row in found.values()]
        print(f"| {length} | " + " | ".join(cells) + " |")


def checkpointing(folder: Path, rounds: int, scatterers: int) -> None:
    """Memory for time."""
    common = {"case": "checkpointing", "length": 512, "scatterers": scatterers, "threads": 1}
    found = compare({name: common | {"checkpoint": name == "on"} for name in ("off", "on")}, folder, rounds)
    table(
        f"Activation checkpointing, {scatterers // 512} buildings of 512", "checkpoint_activations", "ms", "memory, MB"
    )
    for name, row in found.items():
        print(f"| {name} | {row['ms']:,.0f} | {row['memory']:,.0f} |")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--buildings", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    gpu = torch.cuda.is_available()
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        make_data(folder, arguments.buildings)
        length = load_shards(folder / "data" / "prepare" / "train").length
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
        device = torch.cuda.get_device_name() if gpu else "no GPU"
        print(f"{datetime.date.today()}, {cores} cores {platform.machine()}, {device}, ", end="")
        print(f"torch {torch.__version__}, commit {commit.stdout.strip() or 'unknown'}\n")
        print(
            f"{len(length):,} X-band buildings of {length.mean():.0f} points (5 to {length.max()}), model and ", end=""
        )
        print(f"training of params.yaml; median of {arguments.rounds} runs. Memory: on top of libraries and data.")
        feeding(folder, cores, arguments.rounds)
        processes(folder, arguments.rounds)
        if gpu:
            precisions(folder, arguments.rounds)
        for precision in ("float32", *(["bf16"] if gpu else [])):
            kernels(folder, 1, 1 << 18 if gpu else 4096, ["math", "sdpa", *(["flex"] if gpu else [])], precision)
        checkpointing(folder, 1, 1 << 16 if gpu else 8192)
        if not gpu:
            print("\nNot measured, for want of a GPU: precisions, compilation, flex attention, the share of its time "
                  "that a GPU waits for data.")  # fmt: skip


if __name__ == "__main__":
    main()
