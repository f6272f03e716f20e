"""Run the stage `ingest` of restoration: the product files of every scene to a points table."""

from __future__ import annotations

import logging
import shutil
from dataclasses import dataclass
from pathlib import Path

from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.core.files import atomic_folder
from plumbline.core.jobs import alone, run_jobs
from plumbline.params import Ingest
from plumbline.sources.in_memory import read_tracks
from plumbline.sources.points.points_table import write_points
from plumbline.sources.restoration.truth import TRUTH

STAGE = "ingest"
POINTS = "points.parquet"
KEPT = (TRUTH, "scene.json")
"""Files of a scene that are handed on as they are."""


@dataclass(frozen=True)
class _Job:
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
        raise InputError(f"{scenes}: no scene found. Run `plumbline simulate` first.")
    with alone(STAGE), atomic_folder(out) as temporary:
        jobs = [_Job(temporary / folder.name, folder, params) for folder in folders]
        run_jobs(_read, jobs, workers, STAGE)
    log.info("%d scenes read", len(jobs))


def _read(job: _Job) -> None:
    for name in KEPT:
        if not (job.scene / name).is_file():
            raise InputError(f"{job.scene / name}: no such file. Run `plumbline simulate` again.")
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
