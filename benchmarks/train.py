"""Training speed and memory on a CPU, in one process with all cores and in processes of one thread.

    python -m benchmarks.train [--buildings 4000] [--rounds 3] [--processes 1 2]

Each figure is of a process of its own; the ways take turns, and medians of the rounds count. Prints Markdown;
`docs/benchmarks` keeps dated copies. What a GPU shows, its precisions and kernels: `benchmarks.gpu`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.common import ROOT, cores, head, line, parse, parser, prepared, project_settings, stamp, toy
from benchmarks.memory import begin_memory, peak_memory, wait
from plumbline.model.diagnosis import Diagnosis
from plumbline.model.spec import new_spec
from plumbline.params import load_params
from plumbline.prepare.features.shards import load_shards
from plumbline.train.data.sampler import Example
from plumbline.train.data.splits import fit_statistics
from plumbline.train.distributed.strategies import repeatable
from plumbline.train.fit.module import Optimisation
from plumbline.train.fit.trainer import RunInputs, fit

EPOCHS = 3
"""The first one warms up. A case may ask for more."""
Case = dict[str, Any]
"""Parameters of training or of the network that differ from `params.yaml`."""
Figures = dict[str, float]
"""`rate`, buildings/s; `memory`, MB on top of libraries and data; `between`, share of the time between the steps."""


class Clocked(Optimisation):
    """The optimisation that `plumbline train` runs, with a clock: buildings, seconds and seconds between steps."""

    epochs: list[tuple[int, float, float]]
    base: float

    def on_train_start(self) -> None:
        """Everything is imported and in its place."""
        self.base = begin_memory()

    def on_train_epoch_start(self) -> None:
        """Begin to count."""
        self.began = self.last = wait()
        self.buildings, self.between = 0, 0.0

    def on_train_batch_start(self, batch: Example, batch_index: int) -> None:
        """Count what is between the steps: data, their way to the device, and what Lightning does for itself."""
        self.between += wait() - self.last
        super().on_train_batch_start(batch, batch_index)

    def on_train_batch_end(self, outputs: Any, batch: Example, batch_index: int) -> None:
        """One step is done."""
        self.buildings += len(batch.symmetry_B)
        self.last = wait()

    def on_train_epoch_end(self) -> None:
        """Keep the epoch's figures; its evaluation does not count."""
        self.epochs.append((self.buildings, self.last - self.began, self.between))


def measure(case: Case, folder: Path) -> Figures:
    """Train as `plumbline train` does, augmentation, mean of the weights and record included, in this process.

    Args:
        case: what differs from the folder's `params.yaml`.
        folder: with `params.yaml` and `data/prepare`.
    """
    params, case = load_params(folder / "params.yaml"), {"epochs": EPOCHS} | case
    torch.set_num_threads(case["threads"])
    repeatable()
    data = {name: load_shards(folder / "data" / "prepare" / name) for name in ("train", "tune")}
    network = params.model.model_copy(update={key: case.pop(key) for key in ("attention",) if key in case})
    section = params.train.model_copy(update={**case, "patience": case["epochs"]})
    torch.manual_seed(0)
    model = Diagnosis(new_spec(network, params.prepare.max_points))
    fit_statistics(model, data["train"])
    module = Clocked(model, section, section)
    module.epochs = []
    key = str(time.time_ns())
    with contextlib.chdir(folder):
        fit(module, data["train"], data["tune"], RunInputs("bench", key, "", 0, {}), ["random"])
    buildings, seconds, between = np.sum(module.epochs[1:], axis=0)
    rate, memory = section.devices * buildings / seconds, peak_memory() - module.base
    return {"rate": float(rate), "memory": float(memory), "between": float(between / seconds)}


def run(case: Case, folder: Path) -> Figures:
    """Measure one case in a process of its own, on the CPU."""
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "MLFLOW_TRACKING_URI": "sqlite:///mlflow.db"}
    environment["CUDA_VISIBLE_DEVICES"] = ""
    command = [sys.executable, "-m", "benchmarks.train", "--case", json.dumps(case), str(folder)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{case} ended with {done.returncode}:\n{done.stderr}")
    found: Figures = json.loads(done.stdout.splitlines()[-1])
    return found


def make_data(folder: Path, buildings: int) -> Path:
    """Prepare X-band cities of the project's own simulator."""
    content = project_settings()
    city = {"band": "X", "buildings": buildings, "seed": 5, "years": 2.5}
    content["simulate"] |= {"cities": {"x": city}, "showcase": {"band": "X", "buildings": 4, "seed": 6}}
    content["prepare"] |= {"split": {"train": 0.85, "tune": 0.05, "calibrate": 0.05, "test": 0.05}}
    return prepared(folder, content)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    asked = parser("train", __doc__)
    asked.add_argument("--data", type=Path, help="of a `make run`, with its params.yaml beside; simulated by default")
    asked.add_argument("--buildings", type=int, default=4000)
    asked.add_argument("--rounds", type=int, default=3)
    asked.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    asked.add_argument("--case", nargs=2, help=argparse.SUPPRESS)
    given = parse(asked, argv, rounds=1, processes=[1])
    if given.case:
        print(json.dumps(measure(json.loads(given.case[0]), Path(given.case[1]))))
        return
    cases: dict[tuple[int, int], Case] = {} if given.smoke else {(1, cores()): {"threads": cores()}}
    cases |= {(count, 1): {"devices": count, "threads": 1} for count in given.processes}
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
        print(f"training of params.yaml; median of {given.rounds} runs. Memory: on top of libraries and data.\n")
        found = [{name: run(case, folder) for name, case in cases.items()} for _ in range(given.rounds)]
    print(head("processes", "threads of each", "buildings/s", "memory of the first, MB", "time between the steps"))
    for name in cases:
        rate, memory, between = (np.median([one[name][key] for one in found]) for key in ("rate", "memory", "between"))
        print(line(*name, f"{rate:,.0f}", f"{memory:,.0f}", f"{between:.1%}"))


if __name__ == "__main__":
    main()
