"""Ask whether the 90 % intervals of `plumbline restore` hold in each of many held-out scenes.

python -m benchmarks.restoration.intervals [--scenes DIR ...] [--options "..."]

A scene that is not there is made where its folder's name says how: DOMAIN-SEED-TRACKS, as `atmosphere-7-1`. Without
`--scenes`, those of `USUAL` are made in a temporary folder: calm and lively ones, from one and from two directions.
"""

from __future__ import annotations

import re
import resource
import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import head, line, parse, parser, refusing, stamp
from benchmarks.makers.fields.scene import make_scene
from benchmarks.makers.fields.settings import DOMAINS
from benchmarks.restoration.fields import read_truth, restore
from benchmarks.restoration.metrics import score
from plumbline.core.errors import InputError
from plumbline.sources.city.in_memory import read_tracks

USUAL = (
    *(f"plain-{seed}-2" for seed in range(801, 807)),
    *(f"plain-{seed}-1" for seed in range(807, 810)),
    *(f"{domain}-{seed}-2" for domain in ("noise", "atmosphere", "unwrapping", "sparse") for seed in (811, 812)),
    "atmosphere-813-1",
)
WANTED = (0.85, 0.94)


class Held(NamedTuple):
    """A component of a scene."""

    scene: str
    component: str
    moved_mm: float
    """Standard deviation of the truth where there is an answer."""
    coverage: float
    crps_mm: float
    width_mm: float
    """Mean width of the interval."""
    reach: float
    """Half of the interval in standard deviations, median."""
    rmse_mm: float
    seconds: float
    """Of CPU, of the whole command."""


def main(argv: Sequence[str] | None = None) -> None:
    """Judge, and print the table."""
    asked = parser("restoration.intervals", __doc__)
    asked.add_argument("--scenes", type=Path, nargs="+", default=[])
    asked.add_argument("--options", default="", help="more options for `plumbline restore`")
    given = parse(asked, argv)
    with tempfile.TemporaryDirectory() as scratch, refusing():
        usual = ["sparse-0-1"] if given.smoke else USUAL
        found: list[Held] = []
        for scene in given.scenes or [Path(scratch) / name for name in usual]:
            found += judge(scene, shlex.split(given.options))
        print(markdown(found))


def judge(scene: Path, options: Sequence[str]) -> list[Held]:
    """Make the scene if it is not there, restore it, and return the figures of its components.

    Raises:
        InputError: its name does not say how it is made.
    """
    named = re.fullmatch(rf"({'|'.join(DOMAINS)})-(\d+)-([123])", scene.name)
    if not scene.exists():
        if not named:
            raise InputError(f"{scene}: no such folder. Name it DOMAIN-SEED-TRACKS to have it made, as plain-1-2.")
        make_scene(scene, named[1], int(named[2]), int(named[3]))
    truth, products = read_truth(scene), sorted(scene.glob("EGMS*.csv"))
    before = _cpu_seconds()
    run = restore(products, options)
    seconds = _cpu_seconds() - before
    true = dict(truth.component)
    east, _, up = np.concatenate([track.los for track in read_tracks(products)]).mean(axis=0)
    true["los"] = up * true["up"] + east * true["east"]
    found = []
    # Beside two directions a few cells at the edge are seen from one; they are not judged.
    for name in ("up", "east") if "up" in run.field.names() else ("los",):
        one = run.field.on(name, truth)
        known = np.isfinite(one.mean)
        scores = score(one, true[name], truth.cell_m)
        width = (one.high - one.low)[known]
        found.append(
            Held(
                scene.name,
                name,
                float(true[name][known].std()),
                scores.coverage,
                scores.crps,
                float(width.mean()),
                float(np.median(width / 2 / one.std[known])),
                scores.rmse,
                seconds,
            )
        )
    return found


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def markdown(found: Sequence[Held]) -> str:
    """Return the page."""
    lines = [
        head("scene", "of", "moves, mm", "coverage", "CRPS, mm", "width, mm", "reach", "RMSE, mm", "CPU, s"),
        *(
            line(
                one.scene,
                one.component,
                f"{one.moved_mm:.1f}",
                _told(one.coverage),
                *(f"{value:.2f}" for value in (one.crps_mm, one.width_mm, one.reach, one.rmse_mm)),
                f"{one.seconds:.0f}",
            )
            for one in found
        ),
    ]
    groups = [head("scenes", "n", "mean coverage", f"in {WANTED[0]} to {WANTED[1]}", "CRPS, mm", "width, mm")]
    for name, own in _groups(found).items():
        held = np.array([one.coverage for one in own])
        inside = float(((held >= WANTED[0]) & (held <= WANTED[1])).mean())
        means: list[NDArray[np.float64]] = [
            np.mean([getattr(one, key) for one in own]) for key in ("crps_mm", "width_mm")
        ]
        groups.append(line(name, len(own), f"{held.mean():.3f}", f"{inside:.0%}", *(f"{value:.2f}" for value in means)))
    return "\n\n".join(["# Intervals in held-out scenes", stamp(), "\n".join(groups), "\n".join(lines)])


def _told(share: float) -> str:
    return f"{share:.3f}" if WANTED[0] <= share <= WANTED[1] else f"**{share:.3f}**"


def _groups(found: Sequence[Held]) -> dict[str, list[Held]]:
    """Return the scenes of each domain, of calm and lively halves, of directions, and all."""
    median = float(np.median([one.moved_mm for one in found]))
    groups: dict[str, list[Held]] = {}
    for one in found:
        lines = "one direction" if one.component == "los" else "two directions"
        calm = "calmer half" if one.moved_mm <= median else "livelier half"
        for name in (one.scene.partition("-")[0], calm, lines, "all"):
            groups.setdefault(name, []).append(one)
    return groups


if __name__ == "__main__":
    main()
