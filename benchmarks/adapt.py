"""What an adapter makes of a few labels: `python -m benchmarks.adapt [--labels N …] [--domain NAME …] [CITY…]`.

Prints Markdown; `docs/benchmarks` keeps dated copies. Each domain of `benchmarks.shifted` is made, unless folders of
labelled cities are given. A third of a city, by blocks, judges. From the rest labels are drawn, some times anew; to
all of it every parameter is trained, from the base. `recovered` is the part of the way from the base to there. Where
that way is shorter than twice its standard error, there is nothing to recover, and no part is given.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.common import head, line, parse, parser, refusing, stamp
from benchmarks.shifted import DOMAINS, make_domain
from plumbline.core.errors import InputError
from plumbline.model.diagnosis import Diagnosis
from plumbline.params import Prepare, Train
from plumbline.params.serve import Adapt
from plumbline.prepare.buildings import prepare_buildings
from plumbline.prepare.features.sequences import Sequences
from plumbline.prepare.split import split_blocks
from plumbline.prepare.tiles import label
from plumbline.serve.adapt import base_of
from plumbline.sources.city.files import find_files
from plumbline.sources.city.in_memory import read_tracks
from plumbline.sources.city.labels import read_labels
from plumbline.sources.footprints.buildings import read_buildings
from plumbline.train.adapt.adapter import MAX_BYTES, Adapted, base_hash
from plumbline.train.adapt.fit import adapt
from plumbline.train.data.batches import loader
from plumbline.train.data.splits import fit_statistics
from plumbline.train.fit.short_run import quick_fit

Array = NDArray[np.float64]


class Hits(NamedTuple):
    """Of each building of a city, in one order."""

    hit: Array
    """1 for the right quadrant, 0 for a wrong one; NaN below category 1."""
    error: Array
    """Of severity, permille."""
    inside: Array
    """Whether the interval holds the severity."""

    def figures(self) -> Array:
        """(3,) quadrant accuracy, severity MAE, interval coverage."""
        return np.array([np.nanmean(self.hit), self.error.mean(), self.inside.mean()])


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


def judged(model: Diagnosis, sequences: Sequences) -> Hits:
    """What a model says of labelled buildings."""
    model.eval()
    parts = []
    with torch.inference_mode():
        for batch in loader(sequences, 512):
            answer = model(batch.distance_BLF, batch.slope_BLF, batch.geometry_BF, batch.mask_BL)
            said_B1 = answer.quadrant_probability.argmax(1, keepdim=True)
            hit = batch.accepted_B4.gather(1, said_B1)[:, 0].double()
            inside = (answer.severity_low <= batch.severity_B) & (batch.severity_B <= answer.severity_high)
            error = (answer.severity_permille - batch.severity_B).abs().double()
            parts.append((hit.masked_fill(batch.quadrant_B < 0, torch.nan), error, inside.double()))
    return Hits(*(torch.cat(one).numpy() for one in zip(*parts, strict=True)))


def fully_trained(base: Diagnosis, sequences: Sequences, epochs: int, threads: int) -> Diagnosis:
    """Every parameter trained on, from the base, on all of a city's labels."""
    torch.manual_seed(0)
    model = deepcopy(base)
    fit_statistics(model, sequences, standardisation=False)
    losses = Train(
        epochs=epochs,
        patience=epochs,
        learning_rate=1e-3,
        batch_size=32,
        schedule="cosine",
        warmup_share=0.1,
        threads=threads,
    )
    quick_fit(model.requires_grad_(True), sequences, losses)
    return model


def measure(folder: Path, model: Path, counts: list[int], draws: int, epochs: int, params: Adapt) -> list[str]:
    """Rows of the table for one city."""
    holder, name = Adapted(model), folder.name
    base = Adapted(model).use(None)
    sequences, centre = prepared(folder)
    part = split_blocks(centre, np.full(len(centre), ""), {"pool": 2.0, "judge": 1.0}, 200, 0)
    pool, judge = np.flatnonzero(part == "pool"), sequences.take(np.flatnonzero(part == "judge"))
    start = judged(base, judge)
    full = judged(fully_trained(base, sequences.take(pool), epochs, params.threads), judge)
    # Building by building: both models see the same ones.
    apart = [one - other for one, other in zip(full[:2], start[:2], strict=True)]
    error = np.array([np.nanstd(one) / np.sqrt(np.isfinite(one).sum()) for one in apart])
    way = (full.figures() - start.figures())[:2]
    rows = [
        _row(name, "base", start.figures()),
        _row(
            name,
            f"{len(pool):,} labels, every parameter",
            full.figures(),
            " / ".join(f"gap {a:+.3f} ± {b:.3f}" for a, b in zip(way, error, strict=True)),
        ),
    ]
    for count in counts:
        found, seconds, ways = [], [], []
        for draw in range(draws):
            chosen = np.random.default_rng(draw).permutation(pool)[:count]
            began = time.process_time()
            one = adapt(base, base_hash(model), sequences.take(chosen), centre[chosen], params, "benchmark", Prepare())
            seconds.append(time.process_time() - began)
            if one.about.share > params.max_share or 4 * one.about.parameters > MAX_BYTES:
                raise InputError(f"{name}: an adapter of {one.about.parameters} parameters is too large.")
            ways.append("+".join([f"{one.about.level:.0%}", *[f"{one.about.part:g}"] * (one.about.part > 0)]))
            found.append(judged(holder.use(one), judge).figures())
        recovered = (np.array(found)[:, :2] - start.figures()[:2]) / np.where(way == 0, np.nan, way)
        said = [
            f"{part.mean():.0%} ± {part.std(ddof=1) / np.sqrt(draws):.0%}" if abs(gap) > 2 * noise else "no gap"
            for part, gap, noise in zip(recovered.T, way, error, strict=True)
        ]
        rows.append(
            _row(
                name,
                f"{count} labels, mean of {draws}",
                np.mean(found, axis=0),
                " / ".join(said),
                f"{np.mean(seconds):.0f}",
                ", ".join(ways),
            )
        )
    return rows


def _row(city: str, who: str, figures: Array, recovered: str = "", seconds: str = "", ways: str = "") -> str:
    quadrant, severity, inside = figures
    return line(city, who, f"{quadrant:.3f}", f"{severity:.3f}", f"{inside:.3f}", recovered, seconds, ways)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    asked = parser("adapt", __doc__)
    asked.add_argument("cities", type=Path, nargs="*", metavar="CITY")
    asked.add_argument("--domain", nargs="+", choices=list(DOMAINS), default=list(DOMAINS))
    asked.add_argument("--model", default="pretrained", help="`pretrained`, or the folder of a trained model")
    asked.add_argument("--labels", type=int, nargs="+", default=[50])
    asked.add_argument("--draws", type=int, default=5)
    asked.add_argument("--buildings", type=int, default=2600)
    asked.add_argument("--seed", type=int, default=11)
    asked.add_argument("--epochs", type=int, default=8, help="of the full training")
    asked.add_argument("--threads", type=int, default=0)
    asked.add_argument("--fitting", type=int, default=Adapt().epochs, help="epochs of an adapter")
    given = parse(asked, argv, domain=["filtered"], labels=[20], draws=2, buildings=150, epochs=1, fitting=1, threads=1)
    print(f"# Adapting: what a few labels recover\n\nMade by `python -m benchmarks.adapt`; model: {given.model}.\n")
    print(f"{stamp()}\n")
    print(
        head(
            "city",
            "who",
            "quadrant accuracy",
            "severity MAE, permille",
            "interval coverage",
            "recovered: quadrant / severity",
            "CPU s",
            "chosen",
        )
    )
    with tempfile.TemporaryDirectory() as scratch, refusing():
        for city in given.cities or [Path(scratch) / name for name in given.domain]:
            if not given.cities:
                make_domain(city, city.name, given.buildings, given.seed)
            rows = measure(
                city,
                base_of(given.model),
                given.labels,
                given.draws,
                given.epochs,
                Adapt(threads=given.threads, epochs=given.fitting),
            )
            print("\n".join(rows), flush=True)
    if not given.cities:
        print("\n" + "\n".join(f"- `{name}`: {DOMAINS[name].why}." for name in given.domain))


if __name__ == "__main__":
    main()
