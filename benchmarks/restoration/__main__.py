"""Judge `plumbline restore` on held-out scenes.

python -m benchmarks.restoration --scenes DIR... [--variant NAME=OPTIONS ...]

A scene that is not there is made where its folder's name says how: DOMAIN-SEED, as `atmosphere-7`. A variant is judged
beside the default, with more options for `plumbline restore`: `--variant "noise=--adapter noise"`. Figures count the
cells that are answered; `both` is the mean of up and east. `validate` compares with a Gaussian process.
"""

from __future__ import annotations

import math
import re
import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.common import head, line, parse, parser, refusing, stamp
from benchmarks.makers.fields.scene import make_scene
from benchmarks.makers.fields.settings import DOMAINS
from benchmarks.restoration.fields import read_truth, restore
from benchmarks.restoration.metrics import Scores, mean_of, score
from plumbline.core.errors import InputError

DEFAULT, COMPONENTS, DIGITS = "restore", ("up", "east"), (2, 1, 3, 4, 3, 3)
FIGURES = ("RMSE, mm", "PSNR, dB", "SSIM", "gradient, mm/m", "CRPS, mm", "coverage")


def main(argv: Sequence[str] | None = None) -> None:
    """Judge, and print Markdown."""
    asked = parser("restoration", __doc__)
    asked.add_argument("--scenes", type=Path, nargs="+", default=[])
    asked.add_argument("--variant", action="append", default=[], metavar="NAME=OPTIONS")
    given = parse(asked, argv)
    with tempfile.TemporaryDirectory() as scratch, refusing():
        if given.smoke and not given.scenes:
            given.scenes = [Path(scratch) / "sparse-0"]
        if not given.scenes:
            asked.error("--scenes is needed; see --help")
        variants = {DEFAULT: "--steps 1 --samples 2" * given.smoke} | dict(_variant(text) for text in given.variant)
        rows, cost, means = [], [], {name: list[Scores]() for name in variants}
        for scene in given.scenes:
            _make(scene)
            for name, options in variants.items():
                scores, figures = judge(scene, options)
                rows += [line(scene.name, name, part, *_cells(found)) for part, found in scores.items()]
                cost.append(line(scene.name, name, *figures))
                means[name].append(scores["both"])
        if len(given.scenes) > 1:
            rows += [line("mean", name, "both", *_cells(mean_of(found))) for name, found in means.items()]
    print("\n".join([stamp(), "", head("scene", "who", "component", *FIGURES), *rows, ""]))
    print("\n".join([head("scene", "who", "answered", "s", "peak memory, MB"), *cost]))


def judge(scene: Path, options: str) -> tuple[dict[str, Scores], tuple[str, ...]]:
    """Restore a scene; return the scores of up, east and both, and the cells of its cost."""
    truth = read_truth(scene)
    run = restore(sorted(scene.glob("EGMS*.csv")), shlex.split(options))
    estimates = {name: run.field.on(name, truth) for name in COMPONENTS}
    scores = {name: score(one, truth.component[name], truth.cell_m) for name, one in estimates.items()}
    answered = float(np.isfinite(estimates["up"].mean).mean())
    cost = f"{answered:.1%}", f"{run.seconds:.1f}", f"{run.peak_mb:.0f}"
    return {**scores, "both": mean_of(list(scores.values()))}, cost


def _cells(scores: Scores) -> list[str]:
    return ["–" if math.isnan(value) else f"{value:.{count}f}" for value, count in zip(scores, DIGITS, strict=True)]


def _make(scene: Path) -> None:
    """Make a scene that is not there."""
    if scene.exists():
        return
    named = re.fullmatch(rf"({'|'.join(DOMAINS)})-(\d+)", scene.name)
    if not named:
        raise InputError(f"{scene}: no such folder. Name it DOMAIN-SEED to have it made, for example plain-1.")
    make_scene(scene, named[1], int(named[2]))


def _variant(text: str) -> tuple[str, str]:
    name, separator, options = text.partition("=")
    if not separator or not name:
        raise InputError(f"--variant {text}: write NAME=OPTIONS.")
    return name, options


if __name__ == "__main__":
    main()
