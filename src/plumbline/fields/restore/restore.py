"""Restore a displacement field from product files: a Cloud Optimized GeoTIFF, with table and picture if wanted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.core.files import atomic_file, atomic_folder, check_writable, read_json, write_json
from plumbline.core.jobs import alone, clear, run_jobs, work_folder
from plumbline.fields.model.adapter_files import asks_auto
from plumbline.fields.model.sampling import inference_steps
from plumbline.fields.prepare.evidence import evidence_of
from plumbline.fields.prepare.gaussian_process import Covariance, fit_covariance
from plumbline.fields.prepare.grid import EAST, Grid, Observations, grid_over, observe
from plumbline.fields.release.package import open_chosen, open_fields
from plumbline.fields.restore.field import (
    BANDS,
    Blend,
    Box,
    Field,
    Settings,
    Window,
    cut_to_box,
    restore_window,
    windows,
)
from plumbline.fields.restore.footprints import write_buildings
from plumbline.fields.restore.outputs import draw, write_style
from plumbline.sources.city.in_memory import AS_THEY_ARE, Reading, read_tracks
from plumbline.sources.files.opened import AnyFile, as_file
from plumbline.sources.points.track import Track

LEAST_POINTS = 8
"""From fewer no covariance can be told."""
LEAST_SPAN_M = 30.0
"""Across the line that points lie along; on less, no field is told beside it."""
MOST_CELLS = 400_000_000
STAGE = "restore"
COVARIANCES = ("covariance", "line_covariance")
BANDS_FILE = "bands.npy"


@dataclass(frozen=True)
class Asked:
    """Options of a user for a field."""

    steps: int | None = None
    """None: as many as the package's spread was calibrated with; so for `samples`."""
    samples: int | None = None
    cell_m: float = 10.0
    adapters: tuple[str, ...] = ()
    """`auto` alone: as the evidence in the points says."""
    seed: int = 0
    bbox: Box | None = None
    """The part to restore; None: all."""


@dataclass(frozen=True)
class WindowJob:
    """A window to restore, in any process with access to the folder of the run."""

    folder: Path
    run: Path
    """Folder with what all windows share."""
    package: Path
    adapters: tuple[str, ...]
    window: Window


@dataclass(frozen=True)
class Plan:
    """Field, windows and working folder of a run."""

    field: Field
    work: Path
    jobs: list[WindowJob]


def restore(
    points: Sequence[AnyFile],
    package: Path,
    output: Path,
    asked: Asked = Asked(),
    reading: Reading = AS_THEY_ARE,
    buildings: Path | None = None,
    buildings_output: Path | None = None,
    picture: Path | None = None,
    workers: int | None = 1,
) -> Field:
    """Write the field, and the table of buildings and the picture if they are wanted.

    Windows that are done are kept in `.plumbline`: a run that was killed goes on with them.

    Args:
        points: product files, each one track.
        package: folder of a model of fields.
        output: GeoTIFF.
        asked: how.
        reading: what the files do not say.
        buildings: footprints.
        buildings_output: table of them, see `footprints.write_buildings`.
        picture: PNG file.
        workers: processes, each on one core; 1: this one, on all cores.

    Raises:
        InputError: anything given is missing, damaged or does not fit together. No file is written then.
    """
    files = [as_file(file) for file in points]
    check_outputs([file.path for file in files], output, buildings, buildings_output, picture)
    with alone(STAGE, patience_seconds=5.0):
        plan = plan_windows(files, package, asked, reading)
        run_jobs(restore_part, plan.jobs, workers, STAGE)
        finish(plan, output, buildings, buildings_output, picture, reading)
    return plan.field


def check_outputs(
    points: Sequence[Path], output: Path, buildings: Path | None, buildings_output: Path | None, picture: Path | None
) -> None:
    """Refuse output paths that cannot be written, before anything is computed.

    Raises:
        InputError: the field is no GeoTIFF, a folder or the footprints are missing, or a file that is read would be
            overwritten.
    """
    if buildings is not None and not buildings.exists():
        raise InputError(f"{buildings}: no such file.")
    if output.suffix.lower() not in (".tif", ".tiff"):
        raise InputError(f"--output {output}: a GeoTIFF is written; give a name that ends in .tif.")
    outputs = [path for path in (output, buildings_output, picture) if path is not None]
    inputs = {path.resolve() for path in [*points, *([buildings] if buildings else [])]}
    for path in outputs:
        check_writable(path)
        if path.resolve() in inputs:
            raise InputError(f"{path}: is read and would be overwritten. Give another name.")
    if len({path.resolve() for path in outputs}) < len(outputs):
        raise InputError("two outputs have one name. Give each its own.")


def plan_windows(
    points: Sequence[AnyFile],
    package: Path,
    asked: Asked = Asked(),
    reading: Reading = AS_THEY_ARE,
    accept: Callable[[list[Track]], None] | None = None,
) -> Plan:
    """Read the points, fit their covariance, and cut the extent into windows; arguments as of `restore`.

    Args:
        accept: refuses points that are too many for somebody, before anything is computed.

    Raises:
        InputError: as `restore`.
    """
    auto = asks_auto(asked.adapters)
    model = open_fields(package, () if auto else asked.adapters)
    how = model.restore.model_copy(
        update={name: n for name, n in (("steps", asked.steps), ("samples", asked.samples)) if n is not None}
    )
    inference_steps(how.steps, len(model.model.alphas))  # refuse here what each window would
    tracks = read_tracks(points, reading.ingest, reading.format_, reading.window)
    if accept is not None:
        accept(tracks)
    found = observe(tracks)
    _check(found, [track.name for track in tracks])
    whole, grid = _extent(found, tracks[0].crs, asked, model.spread.farthest_m)
    side = int((found.side == EAST).mean() > 0.5)
    line = fit_covariance(found.take(found.side == side).along_line(), asked.cell_m, asked.seed)
    covariance = fit_covariance(found, asked.cell_m, asked.seed) if found.directions > 1 else line
    log.info(
        "%d points; %s varies by %.1f mm over %.0f m, noise of a point %.1f mm",
        len(found),
        "up" if found.directions > 1 else "the line of sight",
        covariance.up_mm,
        covariance.length_m,
        float(np.hypot(covariance.noise_scale * np.median(found.error), covariance.nugget_mm)),
    )
    if auto:
        model = open_chosen(package, evidence_of(found, covariance))
        asked = replace(asked, adapters=model.adapters)
        whole, grid = _extent(found, tracks[0].crs, asked, model.spread.farthest_m)
    settings = Settings(covariance, line, side, model.spread, how.steps, how.samples, how.eta, asked.seed, model.halo_m)
    field = Field(found, whole, grid, tracks[0].crs, model, settings)
    source = {
        "package": model.version,
        "ingest": reading.ingest.model_dump(mode="json"),
        "format": reading.format_,
        "window": reading.window.record(),
    }
    work = work_folder(STAGE, [as_file(file).path for file in points], {**asdict(asked), **source}, [])
    run = work / "run"
    if not run.exists():
        with atomic_folder(run) as folder:
            np.savez(folder / "observations.npz", **vars(found))
            told = {"grid": vars(whole), "settings": {**vars(settings), **_plain(covariance, line)}}
            told["settings"].pop("spread")
            write_json(folder / "run.json", told)
    jobs = [WindowJob(work / w.name, run, package.resolve(), asked.adapters, w) for w in windows(whole, grid)]
    log.info(
        "%s: %d windows for %.2f km x %.2f km (%d x %d cells)",
        STAGE,
        len(jobs),
        grid.columns * grid.cell_m / 1000,
        grid.rows * grid.cell_m / 1000,
        grid.columns,
        grid.rows,
    )
    return Plan(field, work, jobs)


def restore_part(job: WindowJob) -> None:
    """Restore one window into its folder."""
    field = _open(job.run, job.package, job.adapters)
    one = restore_window(field.found, job.window.of(field.whole), field.package.model, field.settings)
    with atomic_folder(job.folder) as folder:
        if one is not None:
            np.save(folder / BANDS_FILE, one.bands)


def _extent(found: Observations, crs: str, asked: Asked, farthest_m: float) -> tuple[Grid, Grid]:
    """Return the grid over all points, and the part of it that is asked for.

    Raises:
        InputError: it has too many cells, or no point lies in the part.
    """
    whole = grid_over(found.east_north, asked.cell_m, farthest_m)
    grid = cut_to_box(whole, crs, asked.bbox, found.east_north) if asked.bbox else whole
    if grid.rows * grid.columns > MOST_CELLS:
        raise InputError(
            f"--cell {asked.cell_m:g}: {grid.rows} x {grid.columns} cells; give larger cells, or a part with --bbox."
        )
    return whole, grid


def _plain(*covariances: Covariance) -> dict[str, dict[str, float]]:
    return {name: one._asdict() for name, one in zip(COVARIANCES, covariances, strict=True)}


@lru_cache(maxsize=1)
def _open(run: Path, package: Path, adapters: tuple[str, ...]) -> Field:
    """Read what all windows of a run share, once per process."""
    model = open_fields(package, adapters)
    told = read_json(run / "run.json")
    with np.load(run / "observations.npz") as stored:
        found = Observations(**{name: stored[name] for name in stored.files})
    given = told["settings"]
    covariances = {name: Covariance(**given[name]) for name in COVARIANCES}
    settings = Settings(**{**given, **covariances, "spread": model.spread})
    whole = Grid(**told["grid"])
    return Field(found, whole, whole, "", model, settings)


def finish(
    plan: Plan,
    output: Path,
    buildings: Path | None,
    buildings_output: Path | None,
    picture: Path | None,
    reading: Reading = AS_THEY_ARE,
) -> None:
    """Blend the windows, write all outputs, and remove the windows."""
    from plumbline.fields.restore.outputs import write_field

    blend = Blend(plan.work, len(BANDS), plan.field.grid)
    for job in plan.jobs:
        path = job.folder / BANDS_FILE
        if path.exists():
            blend.add(job.window.of(plan.field.whole), np.load(path))
    with ExitStack() as staged:  # all files or none
        if buildings is not None and buildings_output is not None:
            table = write_buildings(plan.field, buildings, staged.enter_context(atomic_file(buildings_output)), reading)
            near = int(table["restored"].sum())
            log.info("%s: %d of %d footprints are near enough to points", buildings_output, near, len(table))
        if picture is not None:
            draw(plan.field, blend, staged.enter_context(atomic_file(picture)))
        write_style(plan.field, blend, staged, output)
        write_field(plan.field, blend, plan.work, output)
    clear(plan.work)


def _check(found: Observations, names: Sequence[str]) -> None:
    """Refuse observations that cannot make a field.

    Raises:
        InputError: too few points, all of them in a line, or tracks of different places.
    """
    if len(found) < LEAST_POINTS:
        raise InputError(
            f"{', '.join(names)}: {len(found)} points with a change found, {LEAST_POINTS} needed for a field."
        )
    middle = found.east_north - found.east_north.mean(axis=0)
    across = np.linalg.svd(middle, full_matrices=False)[1][-1] / np.sqrt(len(found))
    if 4 * across < LEAST_SPAN_M:
        raise InputError(
            f"{', '.join(names)}: all points lie along one line, {4 * across:.0f} m wide; {LEAST_SPAN_M:.0f} m are "
            "needed for a field."
        )
    first, *others = np.unique(found.track)
    whole = found.east_north[found.track == first]
    for number in others:
        own = found.east_north[found.track == number]
        if (own.max(axis=0) < whole.min(axis=0)).any() or (own.min(axis=0) > whole.max(axis=0)).any():
            raise InputError(
                f"{names[first]} and {names[number]}: points of different places. Give products of one place."
            )
