"""Padding strategies compared: what they cost, whether the network sees them, and what it would learn without a mask.

Simulates two small cities in a temporary folder. Prints Markdown; `docs/benchmarks` keeps dated copies.
"""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from torch import Tensor

from benchmarks.settings import project_settings
from plumbline.model.diagnosis import Diagnosis
from plumbline.model.losses import QuadrantLoss, SeverityLoss
from plumbline.model.network import new_spec
from plumbline.params import Model, Train
from plumbline.params.plugins import PADDING
from plumbline.prepare.features.shards import Shards, load_shards
from plumbline.train.data.batches import Batch, Buildings, SimilarLengths, loader
from plumbline.train.data.statistics import fit_statistics
from plumbline.train.fit.checkpoint_choice import checkpoint_score

SOURCE = str(Path(__file__).parents[1] / "src")
LONGEST = 128
ROUNDS, EPOCHS, SEEDS = 5, 15, (0, 1, 2)
NETWORK = Model(channels=16, blocks=2, heads=2, attention_layers=1, hidden=32)
CITIES = {"c_band": {"band": "C", "buildings": 800, "seed": 1}, "x_band": {"band": "X", "buildings": 250, "seed": 2}}


def make_data(folder: Path) -> dict[str, Shards]:
    """Prepared splits of the simulated cities, by the commands a user would type."""
    content = project_settings()
    content["simulate"] |= {"cities": CITIES, "showcase": {"band": "C", "buildings": 4, "seed": 3}, "years": 2.0}
    shares = {"train": 0.6, "tune": 0.02, "calibrate": 0.02, "test": 0.36}
    content["prepare"] |= {"block_m": 60.0, "split": shares, "max_points": LONGEST}
    (folder / "params.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    for stage in ("simulate", "ingest", "prepare"):
        command = [sys.executable, "-m", "plumbline", stage]
        subprocess.run(command, cwd=folder, check=True, capture_output=True, env=os.environ | {"PYTHONPATH": SOURCE})
    return {name: load_shards(folder / "data" / "prepare" / name) for name in ("train", "test")}


def section(strategy: str, seed: int = 0) -> Train:
    """Parameters of a short training."""
    return Train(epochs=EPOCHS, patience=EPOCHS, learning_rate=3e-3, batch_size=32, padding=strategy, seed=seed)  # type: ignore[arg-type]


def epoch_times(data: Shards) -> dict[str, float]:
    """Median over the rounds of the time that one epoch of batches takes without a network, s."""
    times: dict[str, list[float]] = {name: [] for name in PADDING}
    for number in range(ROUNDS + 1):
        for name in PADDING:
            start = time.perf_counter()
            for _ in loader(data, 128, 0, section(name)):
                pass
            if number:  # the first round warms up
                times[name].append(time.perf_counter() - start)
    return {name: float(np.median(values)) for name, values in times.items()}


def batches(
    data: Shards, strategy: str, masked: bool, length: int | None, seed: int | None, epoch: int = 0
) -> Iterator[Batch]:
    """Batches padded to `length` or the longest of them; without `masked`, padding passes for scatterers."""
    buildings, sampler = Buildings(data), SimilarLengths(data.length, 32, seed)
    sampler.set_epoch(epoch)
    for index in sampler:
        padded: dict[str, Any] = dict(data.pad(index, length, strategy))
        mask = padded["mask"] if masked else np.ones_like(padded["mask"])
        distance, slope, geometry = (torch.from_numpy(padded[name]) for name in ("distance", "slope", "geometry"))
        yield buildings[index]._replace(
            distance_BLF=distance, slope_BLF=slope, geometry_BF=geometry, mask_BL=torch.from_numpy(mask)
        )


def trained(data: Shards, strategy: str, masked: bool, seed: int) -> Diagnosis:
    """A small network after a short training, the same but for the padding."""
    losses = section(strategy, seed)
    torch.manual_seed(seed)
    model = Diagnosis(new_spec(NETWORK, LONGEST))
    fit_statistics(model, data)
    optimiser = torch.optim.AdamW(model.parameters(), lr=losses.learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, EPOCHS)
    model.train()
    for epoch in range(EPOCHS):
        for batch in batches(data, strategy, masked, None, seed, epoch):
            answer = model.raw(*batch[:4])
            loss = QuadrantLoss()(answer, batch.quadrant_B)
            loss = loss + 2 * SeverityLoss()(answer, model.standard_severity(batch.severity_B))
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
        schedule.step()
    return model.eval()


def answers(
    model: Diagnosis, data: Shards, strategy: str, masked: bool, length: int | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Probabilities, severities and their truths, in the order of length."""
    parts = []
    with torch.inference_mode():
        for batch in batches(data, strategy, masked, length, None):
            answer = model(*batch[:4])
            parts.append((answer.quadrant_probability, answer.severity_permille, batch.quadrant_B, batch.severity_B))
    probability, severity, quadrant, truth = (torch.cat(tensors) for tensors in zip(*parts, strict=True))
    return probability, severity, quadrant, truth


def compare(models: list[Diagnosis], data: Shards, strategy: str, masked: bool) -> str:
    """Cells of a table row: figures of both padding lengths, means over the models, and what differs between them."""
    near, far = ([answers(model, data, strategy, masked, length) for model in models] for length in (None, LONGEST))
    cells = []
    for place in (0, 1):
        for answered in (near, far):
            values = np.array([checkpoint_score(*(part.numpy() for part in one))[place] for one in answered])
            cells.append(f"{values.mean():.3f} ± {np.abs(values - values.mean()).max():.3f}")
    pairs = list(zip(near, far, strict=True))
    turned = np.mean([(one[0].argmax(1) != other[0].argmax(1)).float().mean() for one, other in pairs])
    moved = np.mean([(one[1] - other[1]).abs().mean() for one, other in pairs])
    return " | ".join([*cells, f"{100 * turned:.1f} %", f"{moved:.3f}"])


def main() -> None:
    """Measure and print."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        data = make_data(Path(folder))
        train, test = data["train"], data["test"]
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
        head = f"{datetime.date.today()}, {os.cpu_count()} cores {platform.machine()}, one thread"
        print(f"{head}, commit {commit.stdout.strip() or 'unknown'}\n")
        points = "{:.0f} to {:.0f} points, median {:.0f}".format(*np.quantile(train.length, [0, 1, 0.5]))
        print(f"{len(train)} training and {len(test)} held-out buildings, {points}; {len(SEEDS)} seeds.\n")

        seconds = epoch_times(train)
        masked = [trained(train, "mask", True, seed) for seed in SEEDS]
        wanted = answers(masked[0], test, "mask", True, None)
        print("| strategy | time of an epoch of batches (x) | largest difference: probability | severity, permille |")
        print("|---|---|---|---|")
        for name in PADDING:
            found = answers(masked[0], test, name, True, LONGEST)
            apart = [float((one - other).abs().max()) for one, other in zip(found[:2], wanted[:2], strict=True)]
            print(f"| {name} | {seconds[name] / seconds['mask']:.2f} | {apart[0]:.1e} | {apart[1]:.1e} |")

        title = ["padding", "counts as", "quadrant accuracy: in batch", "at 128", "severity error: in batch", "at 128",
                 "other quadrant at 128", "severity moved"]  # fmt: skip
        print("\n| " + " | ".join(title) + " |\n" + "|---" * len(title) + "|")
        for name, mask in (("mask", True), *((name, False) for name in PADDING)):
            models = masked if mask else [trained(train, name, False, seed) for seed in SEEDS]
            kind = "nothing" if mask else "scatterers"
            print(f"| {name} | {kind} | {compare(models, test, name, mask)} |")


if __name__ == "__main__":
    main()
