"""Learning curves of the diagnosis network: error against epochs, buildings and weights.

    python -m benchmarks.curves PROJECT CITY... [--epochs 12] [--shares 1] [--weights 1] [--threads 1]

PROJECT has `params.yaml` and `data/prepare`, as `make pretrained` leaves them. Each combination is trained from random
weights with the params' schedule, and scored on the split `test` by the first letter of its cities, and on each CITY
(points, footprints and `labels.csv`). Prints Markdown, a row a combination as soon as it is there:

- `cpu`: seconds of the processor for the training. `tune`: best score of the split `tune`.
- of each test: share of accepted quadrants from category 1 up; share of 1.5 permille and more that has category 0;
  mean absolute error, permille. Of all prepared buildings, also those on which the released model would not answer.
"""

from __future__ import annotations

import contextlib
import itertools
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from benchmarks.common import head, line, parse, parser, refusing, toy
from benchmarks.makers.ninth.city import make_city
from plumbline.model.diagnosis import Diagnosis
from plumbline.model.network import count_parameters
from plumbline.model.spec import new_spec
from plumbline.params import Params, load_params
from plumbline.prepare.buildings import prepare_buildings
from plumbline.prepare.features.sequences import Sequences
from plumbline.prepare.features.shards import SequenceSet, load_shards
from plumbline.prepare.tiles import label
from plumbline.sources.city.files import find_files
from plumbline.sources.city.in_memory import read_tracks
from plumbline.sources.city.labels import read_labels
from plumbline.sources.footprints.buildings import read_buildings
from plumbline.train.calibrate.probabilities import calibrate
from plumbline.train.data.splits import fit_statistics
from plumbline.train.fit.module import Optimisation
from plumbline.train.fit.trainer import RunInputs, fit
from plumbline.validate.measure import torch_answers
from plumbline.validate.metrics import JudgedAnswers, accuracy_figures


class Case(NamedTuple):
    """One training."""

    weights: float
    """Number of weights, in that of the params."""
    share: float
    """Of the buildings of the split `train`."""
    epochs: int


def prepare_city(folder: Path, params: Params) -> Sequences:
    """Prepare a labelled city as the pipeline does."""
    city = find_files(folder)
    tracks = read_tracks(city.products)
    made = prepare_buildings(tracks, read_buildings(city.footprints, tracks[0].crs), params.prepare).sequences
    sequences, is_labelled = label(made, read_labels(city.labels))
    return sequences.take(np.flatnonzero(is_labelled))


def train(case: Case, params: Params, splits: dict[str, SequenceSet]) -> tuple[Diagnosis, float]:
    """Train one network, and calibrate it; return it, and its best score of the split `tune`."""
    rng = np.random.default_rng(params.train.seed)
    chosen = rng.permutation(len(splits["train"]))[: round(case.share * len(splits["train"]))]
    buildings = splits["train"].take(np.sort(chosen))
    wider = np.sqrt(case.weights)
    channels = params.model.heads * round(params.model.channels * wider / params.model.heads)
    network = params.model.model_copy(update={"channels": channels, "hidden": round(params.model.hidden * wider)})
    section = params.train.model_copy(
        update={"epochs": case.epochs, "patience": case.epochs, "threads": torch.get_num_threads()}
    )
    torch.manual_seed(section.seed)
    model = Diagnosis(new_spec(network, params.prepare.max_points))
    fit_statistics(model, buildings)
    fitted = fit(
        Optimisation(model, section, section),
        buildings,
        splits["tune"],
        RunInputs("curves", str(time.time_ns()), "", section.seed, {}),
        ["random"],
    )
    calibrate(fitted.module.model, splits["calibrate"])
    return fitted.module.model, max(row["score"] for row in fitted.module.history)


def judge(model: Diagnosis, test: SequenceSet) -> str:
    """Return accepted quadrants; missed; severity error, of one test."""
    answers = torch_answers(model, test)
    judged = JudgedAnswers(
        answers.quadrant_probability,
        answers.severity_permille,
        answers.severity_low,
        answers.severity_high,
        accepted=np.asarray(test.accepted),
    )
    found = accuracy_figures(judged, np.asarray(test.quadrant), np.asarray(test.severity))
    names = ("quadrant_accuracy", "missed_share", "severity_mae")
    return "; ".join(f"{found.get(name, float('nan')):.3f}" for name in names)


def main(argv: Sequence[str] | None = None) -> None:
    """Train, score and print."""
    asked = parser("curves", __doc__)
    asked.add_argument("project", type=Path, nargs="?", help="folder with params.yaml and data/prepare")
    asked.add_argument("cities", type=Path, nargs="*", metavar="CITY")
    asked.add_argument("--epochs", type=int, nargs="+", default=[12])
    asked.add_argument("--shares", type=float, nargs="+", default=[1.0], help="of the buildings to train on")
    asked.add_argument("--weights", type=float, nargs="+", default=[1.0], help="number of weights; 1: as params.yaml")
    asked.add_argument("--threads", type=int, default=1)
    given = parse(asked, argv, epochs=[1])
    with tempfile.TemporaryDirectory() as scratch, refusing():
        if given.smoke and given.project is None:
            given.project, given.cities = toy(Path(scratch)), [Path(scratch) / "xband-smoke"]
            make_city(given.cities[0], "X", 40, 1)
        if given.project is None:
            asked.error("PROJECT is needed; see --help")
        torch.set_num_threads(given.threads)
        params = load_params(given.project / "params.yaml")
        splits = {
            name: load_shards(given.project / "data" / "prepare" / name) for name in ("train", "tune", "calibrate")
        }
        test = load_shards(given.project / "data" / "prepare" / "test")
        first = np.array([name[0] for name in test.city])
        tests: dict[str, SequenceSet] = {
            f"test {letter}": test.take(np.flatnonzero(first == letter)) for letter in np.unique(first)
        }
        tests |= {folder.name: prepare_city(folder, params) for folder in given.cities}
        print(head("weights", "buildings", "epochs", "cpu", "tune", *tests), flush=True)
        for case in itertools.starmap(Case, itertools.product(given.weights, given.shares, given.epochs)):
            began = time.process_time()
            with contextlib.chdir(scratch):
                model, score = train(case, params, splits)
            cells = [
                f"{count_parameters(model.network)['total']:,}",
                f"{case.share * len(splits['train']):,.0f}",
                case.epochs,
                f"{time.process_time() - began:.0f}",
                f"{score:.4f}",
                *(judge(model, one) for one in tests.values()),
            ]
            print(line(*cells), flush=True)


if __name__ == "__main__":
    main()
