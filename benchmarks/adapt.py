"""What an adapter makes of a few labels: `python -m benchmarks.adapt --model FOLDER [--labels N …] CITY…`.

Prints Markdown. A third of a held-out city (`benchmarks.heldout`), by blocks, judges. From the rest labels are drawn,
some times anew; to it, all of it, every parameter is trained for comparison, from the base and from random weights:
the better one by the score is what adapting could reach. `recovered` is the part of the way from the base to there.
"""

from __future__ import annotations

import argparse
import sys
import time
from copy import deepcopy
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from plumbline.errors import InputError
from plumbline.model.diagnosis import Diagnosis
from plumbline.params import Prepare, Train
from plumbline.params.adapt import Adapt
from plumbline.prepare.buildings import prepare_buildings
from plumbline.prepare.sequences import Sequences
from plumbline.prepare.split import split_blocks
from plumbline.prepare.tile import label
from plumbline.serve.predict import read_tracks
from plumbline.sources.buildings import read_buildings
from plumbline.sources.city import find_files
from plumbline.sources.labels import read_labels
from plumbline.train.adapt import adapt
from plumbline.train.adapter import Adapted, base_hash
from plumbline.train.batches import loader
from plumbline.train.quick import quick_fit
from plumbline.train.score import Score, score
from plumbline.train.statistics import fit_statistics

FULL_EPOCHS = 20
Array = NDArray[np.float64]


def prepared(folder: Path) -> tuple[Sequences, Array]:
    """Labelled buildings of a city, and their centres (B, 2)."""
    city = find_files(folder)
    tracks = read_tracks(city.products)
    buildings = read_buildings(city.footprints, tracks[0].crs)
    found = prepare_buildings(tracks, buildings, Prepare())
    sequences, known = label(found.sequences, read_labels(city.labels))
    middle = buildings.geometry.centroid
    centre = np.column_stack([middle.x, middle.y])[found.footprint]
    return sequences.take(np.flatnonzero(known)), centre[known]


def judged(model: Diagnosis, sequences: Sequences) -> tuple[Score, float, float]:
    """Score, share of severities inside of the interval, share of buildings not judged."""
    model.eval()
    parts = []
    with torch.inference_mode():
        for batch in loader(sequences, 512):
            answer = model(batch.distance_BLF, batch.slope_BLF, batch.geometry_BF, batch.mask_BL)
            inside = (answer.severity_low <= batch.severity_B) & (batch.severity_B <= answer.severity_high)
            parts.append(
                (answer.quadrant_probability, answer.severity_permille, batch.quadrant_B, batch.severity_B, inside,
                 answer.novelty > 1)
            )  # fmt: skip
    arrays = [torch.cat(one).numpy() for one in zip(*parts, strict=True)]
    return score(*arrays[:4]), float(arrays[4].mean()), float(arrays[5].mean())


def fully_trained(base: Diagnosis, sequences: Sequences, from_base: bool, threads: int) -> Diagnosis:
    """Every parameter trained on all of a city's labels."""
    torch.manual_seed(0)
    model = deepcopy(base) if from_base else Diagnosis(base.network.spec)
    fit_statistics(model, sequences, standardisation=not from_base)
    losses = Train(
        epochs=FULL_EPOCHS, patience=FULL_EPOCHS, learning_rate=1e-3 if from_base else 3e-3, batch_size=32,
        schedule="cosine", warmup_share=0.1, threads=threads,
    )  # fmt: skip
    quick_fit(model.requires_grad_(True), sequences, losses)
    return model


def measure(folder: Path, model: Path, counts: list[int], draws: int, params: Adapt) -> list[str]:
    """Rows of the table for one city."""
    base, holder = Adapted(model).use(None), Adapted(model)
    sequences, centre = prepared(folder)
    name = split_blocks(centre, np.full(len(centre), ""), {"pool": 2.0, "judge": 1.0}, 200, 0)
    pool, judge = np.flatnonzero(name == "pool"), sequences.take(np.flatnonzero(name == "judge"))
    start = judged(base, judge)
    full = [judged(fully_trained(base, sequences.take(pool), way, params.threads), judge) for way in (True, False)]
    best = max(full, key=lambda one: one[0].score)
    rows = [_row(folder.name, "base", start, "", "")]
    for who, one in zip(("all, from the base", "all, from random weights"), full, strict=True):
        rows.append(_row(folder.name, f"{len(pool)} labels, {who}", one, "", ""))
    for count in counts:
        found, seconds, shares = [], [], []
        for draw in range(draws):
            chosen = np.random.default_rng(draw).permutation(pool)[:count]
            began = time.process_time()
            one = adapt(base, base_hash(model), sequences.take(chosen), centre[chosen], params, "benchmark", Prepare())
            seconds.append(time.process_time() - began)
            shares.append(one.about.share)
            found.append(judged(holder.use(one), judge))
        mean = (
            Score(*np.mean([row[0] for row in found], axis=0).tolist()),
            float(np.mean([row[1] for row in found])),
            float(np.mean([row[2] for row in found])),
        )
        parts = [
            (mean[0][i] - start[0][i]) / (best[0][i] - start[0][i]) if best[0][i] != start[0][i] else np.nan
            for i in range(3)
        ]
        recovered = " / ".join(f"{part:.0%}" for part in parts)
        rows.append(_row(folder.name, f"{count} labels, adapter of {shares[0]:.1%}, mean of {draws}", mean, recovered,
                         f"{np.mean(seconds):.0f}"))  # fmt: skip
    return rows


def _row(city: str, who: str, one: tuple[Score, float, float], recovered: str, seconds: str) -> str:
    of, inside, unjudged = one
    return (
        f"| {city} | {who} | {of.quadrant_accuracy:.3f} | {of.severity_mae:.3f} | {of.score:.3f} | {inside:.3f} "
        f"| {unjudged:.3f} | {recovered} | {seconds} |"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.adapt", description=__doc__)
    parser.add_argument("cities", type=Path, nargs="+", metavar="CITY")
    parser.add_argument("--model", type=Path, required=True, help="folder of the base: model.safetensors, model.json")
    parser.add_argument("--labels", type=int, nargs="+", default=[20, 50, 100])
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--threads", type=int, default=0)
    given = parser.parse_args()
    params = Adapt(threads=given.threads)
    print(
        "| city | who | quadrant accuracy | severity MAE, permille | score | interval coverage | novel "
        "| recovered: quadrant / severity / score | CPU s |\n" + "|---" * 9 + "|"
    )
    try:
        for city in given.cities:
            print("\n".join(measure(city, given.model, given.labels, given.draws, params)), flush=True)
    except InputError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
