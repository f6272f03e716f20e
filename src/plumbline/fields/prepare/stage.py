"""Run the stage `prepare` of restoration: each scene's maps beside its truth, split by scene."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, ValidationError

from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.core.files import atomic_folder, read_json, write_json
from plumbline.core.jobs import WORK, alone, remove, run_jobs
from plumbline.fields.prepare.conditions import (
    MAPS,
    MAPS_FILE,
    SCENES_FILE,
    SPLITS,
    TRUTH_FILE,
    stack_maps,
)
from plumbline.fields.prepare.covariance import fit_covariance
from plumbline.fields.prepare.gaussian_process import estimate
from plumbline.fields.prepare.grid import Grid, bin_observations, observe
from plumbline.fields.simulate.scene import TRUTH, round_map
from plumbline.params.fields import PrepareFields, Shares
from plumbline.sources.files.streams import FAULTS
from plumbline.sources.points.points_table import read_points_table

STAGE = "prepare"
POINTS, ABOUT = "points.parquet", "scene.json"


@dataclass(frozen=True)
class _PrepareJob:
    folder: Path
    scene: Path
    halo_m: float


class _SceneRecord(BaseModel):
    """What `scenes.json` repeats of a `scene.json`."""

    name: str
    domain: str
    level: str
    tracks: int = Field(ge=1)


def prepare(ingested: Path, params: PrepareFields, out: Path, workers: int | None = None) -> None:
    """Write `maps.npy`, `truth.npy` and `scenes.json` for each of `SPLITS` into `out`.

    Raises:
        InputError: there is no scene, one is damaged, or their sizes differ.
    """
    scenes = (
        sorted(path for path in ingested.iterdir() if path.is_dir()) if ingested.is_dir() else []
    )
    if not scenes:
        raise InputError(
            f"{ingested}: no scene found. Run `plumbline ingest` first.", key="scenes.none"
        )
    with alone(STAGE), atomic_folder(out) as folder:
        work = WORK.resolve() / STAGE / folder.name
        jobs = [_PrepareJob(work / scene.name, scene, params.halo_m) for scene in scenes]
        run_jobs(_prepare, jobs, workers, STAGE)
        for name, part in _split([scene.name for scene in scenes], params.shares).items():
            _gather(folder / name, [work / scene for scene in part])
            log.info("%s: %d scenes", name, len(part))
        remove(work)


def _prepare(job: _PrepareJob) -> None:
    truth, grid = _read_truth(job.scene / TRUTH)
    about = _read_about(job.scene / ABOUT)
    observations = observe(read_points_table(job.scene / POINTS))
    if observations.directions == 1:
        east, _, up = observations.los.mean(axis=0)
        truth, observations = (
            np.stack([up * truth[0] + east * truth[1], 0 * truth[0]]),
            observations.along_line(),
        )
    covariance = fit_covariance(observations, grid.cell_m)
    maps = stack_maps(
        estimate(observations, grid, covariance, job.halo_m), bin_observations(observations, grid)
    )
    record = {
        **about.model_dump(),
        "density": 1e6
        * len(observations)
        / about.tracks
        / (grid.rows * grid.columns * grid.cell_m**2),
        "covariance": _round_figures(covariance._asdict()),
    }
    with atomic_folder(job.folder) as folder:
        np.save(folder / MAPS_FILE, round_map(maps))
        np.save(folder / TRUTH_FILE, round_map(truth))
        write_json(folder / SCENES_FILE, record)


def _read_truth(path: Path) -> tuple[NDArray[np.float32], Grid]:
    """Read up and east (2, rows, columns), mm, of a scene, and their grid.

    Raises:
        InputError: the file is missing or damaged.
    """
    try:
        with np.load(path) as stored:
            truth = np.stack([stored[name] for name in ("up_mm", "east_mm")])
            west_m, north_m, cell_m = (float(stored[name]) for name in ("left", "top", "cell_m"))
            return truth, Grid(west_m, north_m, cell_m, *truth.shape[1:])
    except (OSError, KeyError, TypeError, *FAULTS) as error:
        raise InputError(
            f"{path}: not readable as the truth of a scene ({error}). Run `plumbline simulate` and "
            "`plumbline ingest` again.",
            key="truth.unreadable",
        ) from None


def _read_about(path: Path) -> _SceneRecord:
    """Read the record of a scene.

    Raises:
        InputError: the file is missing or no JSON, or a value is missing or of another type.
    """
    try:
        return _SceneRecord.model_validate(read_json(path))
    except ValidationError as error:
        fault = error.errors()[0]
        raise InputError(
            f"{path}: {'.'.join(map(str, fault['loc'])) or 'record'}: {fault['msg']}. Run "
            "`plumbline simulate` and `plumbline ingest` again.",
            key="scene.bad_value",
        ) from None


def _round_figures(figures: dict[str, float]) -> dict[str, float]:
    """Round figures to five digits, so that the file is the same on any processor."""
    return {name: float(f"{value:.5g}") for name, value in figures.items()}


def _split(names: list[str], shares: Shares) -> dict[str, list[str]]:
    """Return the scenes of each split; every domain has the same shares, spread over its
    difficulties."""
    splits: dict[str, list[str]] = {name: [] for name in SPLITS}
    for domain in sorted({name.rpartition("-")[0] for name in names}):
        scene_names = [name for name in names if name.rpartition("-")[0] == domain]
        order = np.random.default_rng(len(scene_names)).permutation(len(scene_names))
        cuts = np.cumsum(
            [
                round(share * len(scene_names))
                for share in (shares.test, shares.calibrate, shares.tune)
            ]
        )
        for split, part in zip(
            ("test", "calibrate", "tune", "train"), np.split(order, cuts), strict=True
        ):
            splits[split] += sorted(scene_names[number] for number in part)
    return splits


def _gather(out: Path, parts: list[Path]) -> None:
    out.mkdir()
    records = [read_json(part / SCENES_FILE) for part in parts]
    write_json(out / SCENES_FILE, records)
    for name in (MAPS_FILE, TRUTH_FILE):
        _stack(out / name, [part / name for part in parts])


def _stack(out: Path, parts: list[Path]) -> None:
    """Write all arrays as one, piece by piece, because they may not fit into memory."""
    if not parts:
        np.save(out, np.zeros((0, len(MAPS) if out.name == MAPS_FILE else 2, 1, 1), np.float32))
        return
    first: NDArray[np.float32] = np.load(parts[0])
    stacked = np.lib.format.open_memmap(out, "w+", np.float32, (len(parts), *first.shape))
    for number, part in enumerate(parts):
        array = np.load(part)
        if array.shape != first.shape:
            sizes = f"{array.shape[-2:]} cells found, {first.shape[-2:]} in {parts[0].parent.name}"
            raise InputError(
                f"{part.parent.name}: {sizes}. Scenes of one training need one size.",
                key="scenes.unequal_sizes",
            )
        stacked[number] = array
    stacked.flush()
