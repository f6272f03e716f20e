"""One case of `benchmarks/train.py` or `benchmarks/gpu`: `python cases.py CASE FOLDER`, where CASE is JSON.

Prints a line of JSON. Peak memory is what came on top of libraries and data: of the process, or of the GPU's tensors.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from benchmarks.speed.network import Result, attention, begin_memory, checkpointing, peak_memory, wait
from plumbline.model.diagnosis import Diagnosis
from plumbline.model.encoder import Convolution, Dropout
from plumbline.model.losses import QuadrantLoss, SeverityLoss
from plumbline.model.spec import new_spec
from plumbline.params import Params, load_params
from plumbline.prepare.features.sequences import Sequences
from plumbline.prepare.features.shards import load_shards
from plumbline.train.data.batches import Batch
from plumbline.train.data.sampler import Example
from plumbline.train.data.splits import fit_statistics
from plumbline.train.distributed.strategies import repeatable
from plumbline.train.fit.module import Optimisation
from plumbline.train.fit.trainer import fit

FIRST_GENERATION_BATCH = 16
EPOCHS = 3
"""The first one warms up. A case may ask for more."""


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
        """What is between the steps: data, their way to the device, and what Lightning does for itself."""
        self.between += wait() - self.last
        super().on_train_batch_start(batch, batch_index)

    def on_train_batch_end(self, outputs: Any, batch: Example, batch_index: int) -> None:
        """One step is done."""
        self.buildings += len(batch.symmetry_B)
        self.last = wait()

    def on_train_epoch_end(self) -> None:
        """Keep the epoch's figures; its evaluation does not count."""
        self.epochs.append((self.buildings, self.last - self.began, self.between))


def ours(params: Params, case: dict[str, Any]) -> Result:
    """As `plumbline train` does it, augmentation, mean of the weights and record included."""
    data = {name: load_shards(Path("data/prepare") / name) for name in ("train", "tune")}
    changed: dict[str, Any] = {
        key: case[key]
        for key in ("devices", "threads", "precision", "compile", "batch_size", "resident")
        if key in case
    }
    network = params.model.model_copy(update={key: case[key] for key in ("attention",) if key in case})
    epochs = case.get("epochs", EPOCHS)
    section = params.train.model_copy(update={"epochs": epochs, "patience": epochs, **changed})
    torch.manual_seed(0)
    model = Diagnosis(new_spec(network, params.prepare.max_points))
    fit_statistics(model, data["train"])
    module = Clocked(model, section, section)
    module.epochs = []
    fit(
        module,
        data["train"],
        data["tune"],
        name="bench",
        key=str(time.time_ns()),
        data_sha256="",
        seed=0,
        settings={},
        start_from=["random"],
    )
    buildings, seconds, between = np.sum(module.epochs[1:], axis=0)
    rate, memory = section.devices * buildings / seconds, peak_memory() - module.base
    return {"rate": rate, "memory": memory, "between": between / seconds}


def first_generation(params: Params, case: dict[str, Any]) -> Result:
    """The same network, fed a sample at a time: batches of 16 at random, padded to their longest, float32.

    With `torch_layers`, of torch's own layers instead of ours that compute the same.
    """
    torch.set_num_threads(case["threads"])
    shards = load_shards(Path("data/prepare/train"))
    data = shards.take(np.arange(len(shards)))
    torch.manual_seed(0)
    model = Diagnosis(new_spec(params.model, params.prepare.max_points)).train()
    fit_statistics(model, data)
    for layer in model.modules():
        if case["torch_layers"] and isinstance(layer, Convolution | Dropout):
            plain: Any = torch.nn.Conv1d if isinstance(layer, Convolution) else torch.nn.Dropout
            layer.__class__ = plain
    optimiser = torch.optim.AdamW(model.parameters(), lr=params.train.learning_rate)
    loader: Any = DataLoader(
        range(len(data)),  # type: ignore[arg-type]
        batch_size=FIRST_GENERATION_BATCH,
        shuffle=True,
        collate_fn=lambda rows: collate(data, rows),
    )
    base, times = begin_memory(), []
    for _ in range(2):
        began = time.perf_counter()
        for batch in loader:
            answer = model.raw(*batch[:4])
            loss = QuadrantLoss()(answer, batch.quadrant_B, batch.accepted_B4)
            loss = loss + 2 * SeverityLoss()(answer, model.standard_severity(batch.severity_B))
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        times.append(time.perf_counter() - began)
    return {"rate": len(data) / times[-1], "memory": peak_memory() - base}


def collate(data: Sequences, rows: list[int]) -> Batch:
    """One sample after another into lists, each padded by itself."""
    width = max(int(data.offsets[row + 1] - data.offsets[row]) for row in rows)
    parts: list[list[torch.Tensor]] = [[] for _ in Batch._fields]
    for row in rows:
        points = slice(int(data.offsets[row]), int(data.offsets[row + 1]))
        missing = width - (points.stop - points.start)
        for part, values in zip(parts[:2], (data.distance, data.slope), strict=False):
            part.append(torch.nn.functional.pad(torch.tensor(np.array(values[points])), (0, 0, 0, missing)))
        parts[2].append(torch.tensor(np.array(data.geometry[row])))
        parts[3].append(torch.arange(width) < width - missing)
        parts[4].append(torch.tensor(float(data.severity[row])))
        parts[5].append(torch.tensor(int(data.quadrant[row])))
        parts[6].append(torch.tensor(np.array(data.accepted[row])))
        parts[7].append(torch.tensor(int(data.mechanism[row])))
        parts[8].append(torch.tensor(1.0))
    return Batch(*(torch.stack(part) for part in parts))


CASES = {"ours": ours, "first_generation": first_generation, "attention": attention, "checkpointing": checkpointing}


def measure(case: dict[str, Any], folder: Path) -> Result:
    """Run a case in this process."""
    if "threads" in case:
        torch.set_num_threads(case["threads"])
    repeatable()  # as training
    result = CASES[case["case"]](load_params(folder / "params.yaml"), case)
    return {key: float(value) for key, value in result.items()}


def main() -> None:
    """Run the case."""
    sys.stdout.write(json.dumps(measure(json.loads(sys.argv[1]), Path(sys.argv[2]))) + "\n")


if __name__ == "__main__":
    main()
