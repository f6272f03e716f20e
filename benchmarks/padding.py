"""Padding strategies compared: what they cost, whether the network sees them, and what it would learn without a mask.

`python -m benchmarks.padding` simulates two small cities in a temporary folder, unless `--data` has some that are
prepared. Prints Markdown; `docs/benchmarks` keeps dated copies.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.common import head, line, parse, parser, prepared, project_settings, stamp, toy
from plumbline.model.diagnosis import Diagnosis
from plumbline.model.losses import QuadrantLoss, SeverityLoss
from plumbline.model.spec import new_spec
from plumbline.params import Model, Train
from plumbline.params.plugins import PADDING
from plumbline.prepare.features.shards import Shards, load_shards
from plumbline.train.data.batches import Batch, Buildings, SimilarLengths, loader
from plumbline.train.data.splits import fit_statistics
from plumbline.train.fit.checkpoints import checkpoint_score

LONGEST = 128
NETWORK = Model(channels=16, blocks=2, heads=2, attention_layers=1, hidden=32)
CITIES = {"c_band": {"band": "C", "buildings": 800, "seed": 1}, "x_band": {"band": "X", "buildings": 250, "seed": 2}}


def make_data(folder: Path) -> Path:
    """Prepare the simulated cities."""
    content = project_settings()
    content["simulate"] |= {"cities": CITIES, "showcase": {"band": "C", "buildings": 4, "seed": 3}, "years": 2.0}
    shares = {"train": 0.6, "tune": 0.02, "calibrate": 0.02, "test": 0.36}
    content["prepare"] |= {"block_m": 60.0, "split": shares, "max_points": LONGEST}
    return prepared(folder, content)


def section(strategy: str, seed: int = 0, epochs: int = 1) -> Train:
    """Parameters of a short training."""
    return Train(epochs=epochs, patience=epochs, learning_rate=3e-3, batch_size=32, padding=strategy, seed=seed)  # type: ignore[arg-type]


def epoch_times(data: Shards, rounds: int) -> dict[str, float]:
    """Median over the rounds of the time that one epoch of batches takes without a network, s."""
    times: dict[str, list[float]] = {name: [] for name in PADDING}
    for number in range(rounds + 1):
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


def trained(data: Shards, strategy: str, masked: bool, seed: int, epochs: int) -> Diagnosis:
    """A small network after a short training, the same but for the padding."""
    losses = section(strategy, seed, epochs)
    torch.manual_seed(seed)
    model = Diagnosis(new_spec(NETWORK, LONGEST))
    fit_statistics(model, data)
    optimiser = torch.optim.AdamW(model.parameters(), lr=losses.learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs)
    model.train()
    for epoch in range(epochs):
        for batch in batches(data, strategy, masked, None, seed, epoch):
            answer = model.raw(*batch[:4])
            loss = QuadrantLoss()(answer, batch.quadrant_B, batch.accepted_B4)
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
            parts.append((answer.quadrant_probability, answer.severity_permille, batch.accepted_B4, batch.severity_B))
    probability, severity, quadrant, truth = (torch.cat(tensors) for tensors in zip(*parts, strict=True))
    return probability, severity, quadrant, truth


def compare(models: list[Diagnosis], data: Shards, strategy: str, masked: bool) -> list[str]:
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
    return [*cells, f"{100 * turned:.1f} %", f"{moved:.3f}"]


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    asked = parser("padding", __doc__)
    asked.add_argument("--data", type=Path, help="of a `make run`, in place of the simulated cities")
    asked.add_argument("--rounds", type=int, default=5, help="of the times")
    asked.add_argument("--epochs", type=int, default=15)
    asked.add_argument("--seeds", type=int, default=3)
    given = parse(asked, argv, rounds=1, epochs=1, seeds=1)
    seeds = range(given.seeds)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        data = given.data or (toy if given.smoke else make_data)(Path(folder)) / "data"
        train, test = (load_shards(data / "prepare" / name) for name in ("train", "test"))
        print(f"{stamp('one thread')}\n")
        points = "{:.0f} to {:.0f} points, median {:.0f}".format(*np.quantile(train.length, [0, 1, 0.5]))
        print(f"{len(train)} training and {len(test)} held-out buildings, {points}; {given.seeds} seeds.\n")

        seconds = epoch_times(train, given.rounds)
        masked = [trained(train, "mask", True, seed, given.epochs) for seed in seeds]
        wanted = answers(masked[0], test, "mask", True, None)
        print(
            head("strategy", "time of an epoch of batches (x)", "largest difference: probability", "severity, permille")
        )
        for name in PADDING:
            found = answers(masked[0], test, name, True, LONGEST)
            apart = [float((one - other).abs().max()) for one, other in zip(found[:2], wanted[:2], strict=True)]
            print(line(name, f"{seconds[name] / seconds['mask']:.2f}", f"{apart[0]:.1e}", f"{apart[1]:.1e}"))

        print(
            "\n"
            + head(
                "padding",
                "counts as",
                "quadrant accuracy: in batch",
                "at 128",
                "severity error: in batch",
                "at 128",
                "other quadrant at 128",
                "severity moved",
            )
        )
        for name, mask in (("mask", True), *((name, False) for name in PADDING)):
            models = masked if mask else [trained(train, name, False, seed, given.epochs) for seed in seeds]
            kind = "nothing" if mask else "scatterers"
            print(line(name, kind, *compare(models, test, name, mask)))


if __name__ == "__main__":
    main()
