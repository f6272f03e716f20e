"""What pruning and int8 cost on every slice, on so many buildings that chance is small.

    python -m benchmarks.slices [PREPARED] [--package FOLDER] [--unpruned FOLDER]

PREPARED is a split of the stage `prepare`, of buildings that neither network was trained on (by default the test split
of the last `make run`, which is small); `--package` a model package, by default the shipped one, and `--unpruned` the
network that it was pruned from. Prints Markdown: for each slice with at least 200 buildings, and as many with a
quadrant, how much macro-F1 falls (points) and the severity error rises (%).
"""

from __future__ import annotations

import tempfile
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import head, line, parse, parser, stamp, toy
from plumbline import pretrained
from plumbline.export.package import verify_package
from plumbline.export.runtime import OnnxModel
from plumbline.model.diagnosis import load_diagnosis
from plumbline.prepare.features.shards import load_shards
from plumbline.validate.gates.bootstrap import of_quadrants, resamples
from plumbline.validate.measure import slices, torch_answers
from plumbline.validate.metrics import Judged
from plumbline.validate.stage import as_judged

RESAMPLES = 200
MOST_POINTS, MOST_PERCENT = 0.5, 2.0
"""The goals: macro-F1 in points, severity error in percent."""
Float = NDArray[np.floating]


def fall_of_f1(whole: Judged, small: Judged, quadrant: NDArray[np.int64]) -> tuple[float, float]:
    """Points of macro-F1 that `small` loses against `whole`, and the standard error by a paired bootstrap."""
    before, after = (of_quadrants("quadrant_macro_f1", said, quadrant) for said in (whole, small))

    def fall(weights: Float) -> Float:
        return 100 * (before(weights) - after(weights))

    drawn = np.concatenate([fall(weights) for weights in resamples(len(quadrant), RESAMPLES)])
    return float(fall(np.ones((1, len(quadrant))))[0]), float(drawn.std())


def rise_of_error(whole: Judged, small: Judged, severity: Float) -> tuple[float, float]:
    """Percent by which the severity error of `small` is above that of `whole`, and its standard error (pairs)."""
    before, after = (np.abs(said.severity.astype(float) - severity) for said in (whole, small))
    change = after - before
    return 100 * change.mean() / before.mean(), 100 * change.std() / np.sqrt(len(change)) / before.mean()


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    asked = parser("slices", __doc__)
    shipped = Path(pretrained.__file__).parent
    asked.add_argument("prepared", type=Path, nargs="?", default=Path("data/prepare/test"))
    asked.add_argument("--package", type=Path, default=shipped / "package")
    asked.add_argument("--unpruned", type=Path, default=shipped / "model")
    asked.add_argument("--least", type=int, default=200, help="buildings of a slice, and of it with a quadrant")
    given = parse(asked, argv, prepared=None, least=5)
    with tempfile.TemporaryDirectory() as scratch:
        measure(given, given.prepared or toy(Path(scratch)) / "data" / "prepare" / "test")


def measure(given: Namespace, prepared: Path) -> None:
    """Print the table."""
    manifest = verify_package(given.package)
    data = load_shards(prepared)
    unpruned = load_diagnosis(given.unpruned)
    whole = as_judged(torch_answers(unpruned, data), unpruned.get_buffer("category_share").tolist(), data)
    artifacts = {"pruned": "model.onnx", "int8": "model.int8.onnx"}
    models = {name: OnnxModel(given.package / file) for name, file in artifacts.items()}
    said = {name: as_judged(model.answer(data), model.category_share, data) for name, model in models.items()}
    quadrant, severity = np.asarray(data.quadrant), np.asarray(data.severity, float)
    print(f"{stamp()}, package {manifest.version}; ", end="")
    print(f"{len(data):,} buildings. Against the unpruned network: points of macro-F1 lost, and percent by which the")
    print(f"severity error rises, with standard errors. Bold: more than {MOST_POINTS} points or {MOST_PERCENT:g} %.\n")
    print(head("slice", "buildings", *(f"{name}, {what}" for name in said for what in ("F1 lost", "error"))))
    beyond = dict.fromkeys(said, 0)
    rows = 0
    for name, inside in slices(data, manifest.prepare.max_strain_error_permille).items():
        if inside.sum() < given.least:
            continue
        rows += 1
        defined = inside & (quadrant >= 0)
        cells = []
        for artifact, answers in said.items():
            fall = (np.nan, np.nan)
            if defined.sum() >= given.least:
                fall = fall_of_f1(whole.take(defined), answers.take(defined), quadrant[defined])
            rise = rise_of_error(whole.take(inside), answers.take(inside), severity[inside])
            beyond[artifact] += fall[0] > MOST_POINTS or rise[0] > MOST_PERCENT
            cells += [_cell(*fall, MOST_POINTS), _cell(*rise, MOST_PERCENT)]
        print(line(name, f"{int(inside.sum()):,}", *cells))
    told = ", ".join(f"{count} of {name}" for name, count in beyond.items())
    print(f"\nSlices beyond the goals, of {rows}: {told}.")


def _cell(value: float, error: float, most: float) -> str:
    if not np.isfinite(value):
        return "–"
    text = f"{value:+.2f} ± {error:.2f}"
    return f"**{text}**" if value > most else text


if __name__ == "__main__":
    main()
