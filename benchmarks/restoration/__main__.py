"""Judge `plumbline restore` on held-out scenes, beside a Gaussian process fitted to the same points in the same run.

python -m benchmarks.restoration --scenes DIR... [--variant NAME=OPTIONS ...] [--process-only]

A scene that is not there is made where its folder's name says how: DOMAIN-SEED, as `atmosphere-7`. A variant is judged
beside the default, with more options for `plumbline restore`: `--variant "noise=--adapter noise"`.
`--process-only` judges the Gaussian process alone, on all cells.
"""

from __future__ import annotations

import re
import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.common import parse, parser, refusing
from benchmarks.makers.fields.scene import make_scene
from benchmarks.makers.fields.settings import DOMAINS
from benchmarks.restoration.changes import take_changes
from benchmarks.restoration.fields import Truth, read_truth, restore
from benchmarks.restoration.gaussian_process import COMPONENTS, CORRELATIONS, fit, predict_grid
from benchmarks.restoration.metrics import Estimate, score
from benchmarks.restoration.report import DEFAULT, PROCESS, Row, markdown
from plumbline.core.errors import InputError
from plumbline.sources.city.in_memory import read_tracks


def main(argv: Sequence[str] | None = None) -> None:
    """Judge, and print the report."""
    asked = parser("restoration", __doc__)
    asked.add_argument("--scenes", type=Path, nargs="+", default=[])
    asked.add_argument("--variant", action="append", default=[], metavar="NAME=OPTIONS")
    asked.add_argument("--process-only", action="store_true", help="judge the Gaussian process alone")
    asked.add_argument("--covariance", choices=["likelier", *CORRELATIONS], default="exponential")
    given = parse(asked, argv, process_only=True)
    with tempfile.TemporaryDirectory() as scratch, refusing():
        if given.smoke and not given.scenes:
            given.scenes = [Path(scratch) / "sparse-0"]
        if not given.scenes:
            asked.error("--scenes is needed; see --help")
        variants = {DEFAULT: ""} | dict(_variant(text) for text in given.variant)
        rows: list[Row] = []
        for scene in given.scenes:
            _make(scene)
            kind = None if given.covariance == "likelier" else given.covariance
            rows += judge(scene, {} if given.process_only else variants, kind)
        print(markdown(rows))


def judge(scene: Path, variants: dict[str, str], kind: str | None) -> list[Row]:
    """Return the scores of each variant and of the Gaussian process; that one on the default's cells.

    Args:
        scene: folder.
        variants: name -> options of `plumbline restore`; none judges the Gaussian process alone.
        kind: of covariance; None takes the likelier one.
    """
    truth, products = read_truth(scene), sorted(scene.glob("EGMS*.csv"))
    points = take_changes(read_tracks(products)).known()
    found = fit(points, kind)
    process = predict_grid(found, points, truth.left, truth.top, truth.cell_m, truth.shape)
    if len(process) != len(COMPONENTS):
        raise InputError(f"{scene}: seen from one side. Give scenes of two tracks or more.")
    answered = np.ones(truth.shape, bool)
    rows = []
    for name, options in variants.items():
        run = restore(products, shlex.split(options))
        estimates = [run.field.on(component, truth) for component in COMPONENTS]
        rows.append(_row(scene.name, name, estimates, truth, run.seconds, run.peak_mb))
        if name == DEFAULT:
            answered = np.isfinite(estimates[0].mean) & np.isfinite(estimates[1].mean)
    rows.append(_row(scene.name, PROCESS, [one.at(answered) for one in process], truth))
    return rows


def _row(
    scene: str,
    who: str,
    estimates: Sequence[Estimate],
    truth: Truth,
    seconds: float = float("nan"),
    peak_mb: float = float("nan"),
) -> Row:
    scores = {
        name: score(one, truth.component[name], truth.cell_m) for name, one in zip(COMPONENTS, estimates, strict=True)
    }
    answered = float(np.isfinite(estimates[0].mean).mean())
    return Row(scene, scene.rpartition("-")[0] or scene, who, answered, scores["up"], scores["east"], seconds, peak_mb)


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
