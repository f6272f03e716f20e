"""Run the stage `simulate` of restoration: scenes as products, with their truth, on any number of processes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from plumbline.core.console import log
from plumbline.core.files import atomic_folder
from plumbline.core.jobs import alone, run_jobs
from plumbline.params.restoration import SimulateFields
from plumbline.simulate.restoration.degradation import LEVELS
from plumbline.simulate.restoration.products import write_scene
from plumbline.simulate.restoration.scene import SceneAbout, make_scene

STAGE = "simulate"
SCENES, SHOWCASE = "scenes", "showcase"
TRACK_SHARES = (0.15, 0.7, 0.15)
"""Of scenes with one, two and three tracks."""
SHOWCASE_CELLS = 128


@dataclass(frozen=True)
class _Job:
    folder: Path
    about: SceneAbout


def simulate(params: SimulateFields, out: Path, workers: int | None = None) -> None:
    """Write `out/scenes/NAME/` for each scene, and `out/showcase/`; replace `out` as a whole.

    A folder holds EGMS L2b csv files, `truth.npz` and `scene.json`. The same parameters give the same bytes, whatever
    the number of workers; a scene depends on its own name and the seed alone.

    Raises:
        InputError: the points of a borrowed scene are refused.
    """
    with alone(STAGE), atomic_folder(out) as folder:
        jobs = [_Job(folder / SHOWCASE, SceneAbout(SHOWCASE, "plain", "medium", params.seed, 2, SHOWCASE_CELLS, 10.0))]
        for domain, count in params.scenes.items():
            for number in range(count):
                jobs.append(_job(folder / SCENES, f"{domain}-{number:05d}", domain, number, params))
        (folder / SCENES).mkdir()
        run_jobs(_write, jobs, workers, STAGE)
        if params.borrowed:
            from plumbline.simulate.restoration.borrowed import write_borrowed

            for name, borrowed in params.borrowed.items():
                write_borrowed(folder / SCENES, name, borrowed, params)
    log.info("%d scenes of %d x %d cells", len(jobs) - 1, params.cells, params.cells)


def _job(scenes: Path, name: str, domain: str, number: int, params: SimulateFields) -> _Job:
    rng = np.random.default_rng([params.seed, *name.encode(), 1])
    tracks = 1 + int(rng.choice(3, p=TRACK_SHARES))
    level = LEVELS[number % len(LEVELS)]
    return _Job(scenes / name, SceneAbout(name, domain, level, params.seed, tracks, params.cells, params.cell_m))


def _write(job: _Job) -> None:
    write_scene(make_scene(job.about), job.folder)
