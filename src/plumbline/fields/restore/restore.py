"""Restore a displacement field from product files: a Cloud Optimized GeoTIFF, with table
and picture if wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from plumbline.core.console import log, track
from plumbline.core.errors import InputError
from plumbline.core.files import atomic_file, atomic_folder, check_writable, read_json
from plumbline.core.jobs import (
    alone,
    clear,
    in_threads,
    one_blas_thread,
    run_jobs,
    undone,
    usable_threads,
)
from plumbline.fields.prepare.grid import Observations
from plumbline.fields.release.package import FieldModel, open_fields
from plumbline.fields.restore.areas import field_areas, style_areas
from plumbline.fields.restore.field import (
    WINDOW_BANDS,
    Blend,
    Field,
    WindowSettings,
    restore_window,
)
from plumbline.fields.restore.footprints import save_table, write_buildings
from plumbline.fields.restore.outputs import draw, ends_mm, write_field, write_style
from plumbline.fields.restore.periods import year_path
from plumbline.fields.restore.plan import (
    AS_CALIBRATED,
    SETTINGS,
    STAGE,
    Plan,
    RestoreOptions,
    WindowJob,
    plan_windows,
    plan_years,
)
from plumbline.sources.city.causes import MOVING_AREAS
from plumbline.sources.city.in_memory import AS_THEY_ARE, Reading
from plumbline.sources.files.opened import AnyFile, as_file
from plumbline.sources.points.track import Track

BANDS_FILE = "bands.npy"
THREADS = 4
"""Largest number of windows at once: one needs some 200 MB, and more threads wait for Python."""
OPENING = Lock()


class SideOutputs(NamedTuple):
    """Paths of the outputs that are written beside the field, and of the footprints for one of
    them. None: that output is not written."""

    buildings: Path | None = None
    """File of footprints, an input: `buildings_output` is made from it."""
    buildings_output: Path | None = None
    """Table of the field at each footprint, see `footprints.write_buildings`."""
    picture: Path | None = None
    """PNG file of the field."""
    areas: Path | None = None
    """GeoPackage or GeoJSON of moving areas, see `areas.field_areas`."""


def restore(
    points: Sequence[AnyFile],
    package: Path,
    output: Path,
    options: RestoreOptions = AS_CALIBRATED,
    reading: Reading = AS_THEY_ARE,
    *,
    buildings: Path | None = None,
    buildings_output: Path | None = None,
    picture: Path | None = None,
    workers: int | None = 1,
    areas: Path | None = None,
    yearly: bool = False,
) -> Field:
    """Write the field, and, where set, the table of buildings, the picture, and the fields
    of years.

    Windows that are done stay in `.plumbline`: a run that was killed resumes from them.

    Args:
        points: product files, each one track.
        package: folder of a model of fields.
        output: GeoTIFF.
        options: steps, samples, size of a cell, adapters, seed and part.
        reading: how the files are read.
        buildings: footprints.
        buildings_output: table of them, see `footprints.write_buildings`.
        picture: PNG file.
        workers: processes, each on one core; 1: this process, with up to four windows at once.
        areas: GeoPackage or GeoJSON of moving areas, see `areas.field_areas`.
        yearly: whether to write the fields of years, see `periods.year_path`; none of a
            year with too few epochs.

    Raises:
        InputError: an input is missing or damaged, or inputs do not fit. No file is written then.
    """
    files = [as_file(file) for file in points]
    beside = SideOutputs(buildings, buildings_output, picture, areas)
    check_outputs([file.path for file in files], output, beside)
    with alone(STAGE, patience_seconds=5.0):
        tracks: list[Track] = []
        plan = plan_windows(files, package, options, reading, accept=tracks.extend)
        years = (
            plan_years(files, package, options, reading, tracks=tracks, field=plan.field)
            if yearly
            else {}
        )
        del tracks
        for year in years:
            check_outputs([file.path for file in files], year_path(output, year), beside)
        restore_windows([job for p in (plan, *years.values()) for job in p.jobs], workers)
        finish(plan, output, beside, reading=reading, years=years)
    return plan.field


def check_outputs(
    points: Sequence[Path],
    output: Path,
    beside: SideOutputs,
) -> None:
    """Refuse output paths that cannot be written, before anything is computed.

    Raises:
        InputError: the field is no GeoTIFF, a folder or the footprints are missing, or a
            file that is read would be overwritten.
    """
    buildings, *paths = beside
    if buildings is not None and not buildings.exists():
        raise InputError(f"{buildings}: no such file.", key="file.missing")
    if output.suffix.lower() not in (".tif", ".tiff"):
        raise InputError(
            f"--output {output}: a GeoTIFF is written; give a name that ends in .tif.",
            key="output.other_format",
        )
    outputs = [path for path in (output, *paths) if path is not None]
    inputs = {path.resolve() for path in [*points, *([buildings] if buildings else [])]}
    for path in outputs:
        check_writable(path)
        if path.resolve() in inputs:
            raise InputError(
                f"{path}: is read and would be overwritten. Give another name.",
                key="output.is_input",
            )
        if [p.resolve() for p in outputs].count(path.resolve()) > 1:
            raise InputError(
                f"{path}: the name of two outputs. Give each its own.", key="output.repeated_name"
            )


def restore_windows(jobs: Sequence[WindowJob], workers: int | None = 1) -> None:
    """Restore the windows that are not done yet; arguments as of `run_jobs`.

    In this process, up to `THREADS` windows are restored at once, because solving and
    denoising of one window wait for each other.
    """
    if workers != 1:
        run_jobs(restore_part, jobs, workers, STAGE)
        return
    pending = undone(jobs, STAGE)
    with one_blas_thread():
        for _ in track(
            in_threads(restore_part, pending, THREADS), len(pending), STAGE, finished=True
        ):
            pass


def restore_part(job: WindowJob) -> None:
    """Restore one window into its folder."""
    with OPENING:  # one thread reads; the others wait and get the cached result
        observations, model, settings = _open_run(job.run, job.package, job.adapters)
    window = restore_window(observations, job.window, model, settings)
    with atomic_folder(job.folder) as folder:
        if window is not None:
            np.save(folder / BANDS_FILE, window.bands)


@lru_cache(maxsize=2)  # while windows of one year end, those of the next begin
def _open_run(
    run: Path, package: Path, adapters: tuple[str, ...]
) -> tuple[Observations, FieldModel, WindowSettings]:
    """Read what all windows of a run share, once per process."""
    # Windows share the cores: `restore_windows`.
    threads = max(1, usable_threads() // THREADS)
    model = open_fields(package, adapters, threads=threads).model
    with np.load(run / "observations.npz") as stored:
        observations = Observations(**{name: stored[name] for name in stored.files})
    return observations, model, SETTINGS.validate_python(read_json(run / "settings.json"))


def finish(
    plan: Plan,
    output: Path,
    beside: SideOutputs,
    *,
    reading: Reading = AS_THEY_ARE,
    years: Mapping[int, Plan] = MappingProxyType({}),
) -> None:
    """Blend the windows, write all outputs, and remove the windows."""
    buildings, buildings_output, picture, areas = beside
    blend, table = _blend(plan, plan.work), None
    with ExitStack() as staged:  # all files or none
        if buildings is not None and buildings_output is not None:
            table = write_buildings(
                plan.field, buildings, staged.enter_context(atomic_file(buildings_output)), reading
            )
            log.info(
                "%s: %d of %d footprints are near enough to points",
                buildings_output,
                table["restored"].sum(),
                len(table),
            )
        if areas is not None:
            moving = field_areas(plan.field, blend, table)
            log.info("%s: %d moving areas", areas, len(moving))
            save_table(
                moving, staged_areas := staged.enter_context(atomic_file(areas)), MOVING_AREAS
            )
            if areas.suffix.lower() == ".gpkg":
                style_areas(moving, staged_areas)
        if picture is not None:
            draw(plan.field, blend, staged.enter_context(atomic_file(picture)))
        write_style(ends_mm(plan.field, blend), staged, output)
        write_field(plan.field, blend, plan.work, staged, output)
        _write_years(years, staged, output)
    for finished in (plan, *years.values()):
        clear(finished.work)


def _blend(plan: Plan, folder: Path) -> Blend:
    """Return the blend, on disk in `folder`, of the windows that have a value."""
    blend = Blend(folder, len(WINDOW_BANDS), plan.field.grid)
    for job in plan.jobs:
        path = job.folder / BANDS_FILE
        if path.exists():
            blend.add(job.window, np.load(path))
    return blend


def _write_years(years: Mapping[int, Plan], staged: ExitStack, output: Path) -> None:
    """Write the fields of years with one range of colours, because users compare them by eye."""
    ends = []
    for year, plan in years.items():
        # The sums are larger than the field: only those of one year are on the disk at a time.
        with TemporaryDirectory(dir=plan.work) as folder:
            blend = _blend(plan, Path(folder))
            write_field(plan.field, blend, Path(folder), staged, year_path(output, year))
            ends.append(ends_mm(plan.field, blend))
            del blend
    for year in years:
        write_style(max(ends), staged, year_path(output, year))
