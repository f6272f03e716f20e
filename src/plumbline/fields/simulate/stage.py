"""Run the stages `simulate` and `ingest` of fields."""

from __future__ import annotations

import logging
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.core.files import atomic_folder
from plumbline.core.jobs import alone, run_jobs
from plumbline.fields.simulate.scene import LEVELS, TRUTH, SceneAbout, make_scene, write_scene
from plumbline.params import Ingest
from plumbline.params.fields import SimulateFields
from plumbline.sources.city.in_memory import read_tracks
from plumbline.sources.points.points_table import write_points

STAGE = "simulate"
SCENES, SHOWCASE = "scenes", "showcase"
TRACK_SHARES = (0.25, 0.6, 0.15)
"""Shares of the scenes with one, two and three tracks."""
SHOWCASE_CELLS = 128


@dataclass(frozen=True)
class _SceneJob:
    folder: Path
    about: SceneAbout


def simulate(params: SimulateFields, out: Path, workers: int | None = None) -> None:
    """Write `out/scenes/NAME/` for each scene, and `out/showcase/`; replace `out` as a whole.

    A folder holds EGMS L2b csv files, `truth.npz` and `scene.json`. The same parameters
    give the same bytes, whatever the number of workers; a scene depends on its own name and
    the seed alone.

    Raises:
        InputError: the points of a borrowed scene are refused.
    """
    with alone(STAGE), atomic_folder(out) as folder:
        jobs = [
            _SceneJob(
                folder / SHOWCASE,
                SceneAbout(SHOWCASE, "plain", "medium", params.seed, 2, SHOWCASE_CELLS, 10.0),
            )
        ]
        jobs += [
            _draw_job(folder / SCENES, f"{domain}-{number:05d}", domain, number, params)
            for domain, count in params.scenes.items()
            for number in range(count)
        ]
        (folder / SCENES).mkdir()
        run_jobs(_write_scene_job, jobs, workers, STAGE)
        if params.borrowed:
            from plumbline.fields.simulate.borrowed import write_borrowed

            for name, borrowed in params.borrowed.items():
                write_borrowed(folder / SCENES, name, borrowed, params)
    log.info("%d scenes of %d x %d cells", len(jobs) - 1, params.cells, params.cells)


def _draw_job(
    scenes: Path, name: str, domain: str, number: int, params: SimulateFields
) -> _SceneJob:
    rng = np.random.default_rng([params.seed, *name.encode(), 1])
    tracks = 1 + int(rng.choice(3, p=TRACK_SHARES))
    level = LEVELS[number % len(LEVELS)]
    return _SceneJob(
        scenes / name,
        SceneAbout(name, domain, level, params.seed, tracks, params.cells, params.cell_m),
    )


def _write_scene_job(job: _SceneJob) -> None:
    write_scene(make_scene(job.about), job.folder)


INGEST = "ingest"
POINTS = "points.parquet"
KEPT = (TRUTH, "scene.json")
"""Files of a scene that are handed on as they are."""


@dataclass(frozen=True)
class _IngestJob:
    folder: Path
    scene: Path
    ingest: Ingest


def ingest(scenes: Path, params: Ingest, out: Path, workers: int | None = None) -> None:
    """Write `out/NAME/points.parquet`, with the truth beside it, for each folder in `scenes`.

    Raises:
        InputError: there is no scene, or a file of one is refused.
    """
    folders = sorted(path for path in scenes.iterdir() if path.is_dir()) if scenes.is_dir() else []
    if not folders:
        raise InputError(
            f"{scenes}: no scene found. Run `plumbline simulate` first.", key="scenes.none"
        )
    with alone(INGEST), atomic_folder(out) as temporary:
        jobs = [_IngestJob(temporary / folder.name, folder, params) for folder in folders]
        run_jobs(_ingest_scene, jobs, workers, INGEST)
    log.info("%d scenes read", len(jobs))


def _ingest_scene(job: _IngestJob) -> None:
    for name in KEPT:
        if not (job.scene / name).is_file():
            raise InputError(
                f"{job.scene / name}: no such file. Run `plumbline simulate` again.",
                key="file.missing",
            )
    before = log.level
    log.setLevel(logging.WARNING)  # two lines a product, of hundreds of scenes
    try:
        tracks = read_tracks(sorted(job.scene.glob("*.csv")), job.ingest)
    finally:
        log.setLevel(before)
    with atomic_folder(job.folder) as folder:
        write_points(tracks, folder / POINTS)
        for name in KEPT:
            shutil.copyfile(job.scene / name, folder / name)
