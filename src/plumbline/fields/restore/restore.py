"""Restore a displacement field from product files: a Cloud Optimized GeoTIFF, with table and picture if wanted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType

import numpy as np

from plumbline.core.console import log, track
from plumbline.core.errors import InputError
from plumbline.core.files import atomic_file, atomic_folder, check_writable, read_json, write_json
from plumbline.core.jobs import alone, clear, in_threads, one_blas_thread, run_jobs, undone, work_folder
from plumbline.fields.model.adapter_files import asks_auto
from plumbline.fields.model.sampling import inference_steps
from plumbline.fields.prepare.covariance import Covariance, fit_covariance
from plumbline.fields.prepare.evidence import evidence_of
from plumbline.fields.prepare.grid import EAST, Grid, Observations, grid_over, observe, years_of
from plumbline.fields.release.package import open_chosen, open_fields
from plumbline.fields.restore.areas import field_areas, style_areas
from plumbline.fields.restore.field import (
    WINDOW_BANDS,
    Blend,
    Box,
    Field,
    Settings,
    Window,
    cut_to_box,
    restore_window,
    windows,
)
from plumbline.fields.restore.footprints import save_table, write_buildings
from plumbline.fields.restore.outputs import draw, ends_mm, write_field, write_style
from plumbline.fields.restore.periods import PartOfTime, calendar_years, check_found, cut_to_year, period_of, year_path
from plumbline.sources.city.causes import MOVING_AREAS
from plumbline.sources.city.in_memory import AS_THEY_ARE, Reading, read_tracks
from plumbline.sources.files.opened import AnyFile, as_file
from plumbline.sources.points.track import Track

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
    areas: Path | None = None,
    yearly: bool = False,
) -> Field:
    """Write the field; if they are wanted, the table of buildings, the picture, and a field of each calendar year.

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
        areas: GeoPackage or GeoJSON of moving areas, see `areas.field_areas`.
        yearly: whether to write the fields of years, see `periods.year_path`; none of a year with too few epochs.

    Raises:
        InputError: anything given is missing, damaged or does not fit together. No file is written then.
    """
    files = [as_file(file) for file in points]
    check_outputs([file.path for file in files], output, buildings, buildings_output, picture, areas)
    with alone(STAGE, patience_seconds=5.0):
        tracks: list[Track] = []
        plan = plan_windows(files, package, asked, reading, tracks.extend)
        years = plan_years(files, package, asked, reading, tracks, plan.field) if yearly else {}
        del tracks
        for year in years:
            beside = year_path(output, year)
            check_outputs([file.path for file in files], beside, buildings, buildings_output, picture, areas)
        restore_windows([job for own in (plan, *years.values()) for job in own.jobs], workers)
        finish(plan, output, buildings, buildings_output, picture, reading, areas, years)
    return plan.field


def check_outputs(
    points: Sequence[Path],
    output: Path,
    buildings: Path | None,
    buildings_output: Path | None,
    picture: Path | None,
    areas: Path | None = None,
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
    outputs = [path for path in (output, buildings_output, picture, areas) if path is not None]
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
    part: PartOfTime | None = None,
) -> Plan:
    """Read the points, fit their covariance, and cut the extent into windows; arguments as of `restore`.

    Args:
        accept: refuses points that are too many for somebody, before anything is computed.
        part: if given, its tracks are taken, none is read, and the field has the grid and the directions of the whole.

    Raises:
        InputError: as `restore`.
    """
    auto = asks_auto(asked.adapters)
    model = open_fields(package, () if auto else asked.adapters)
    how = model.restore.model_copy(
        update={name: n for name, n in (("steps", asked.steps), ("samples", asked.samples)) if n is not None}
    )
    inference_steps(how.steps, len(model.model.alphas))  # refuse here what each window would
    tracks = part.tracks if part else read_tracks(points, reading.ingest, reading.format_, reading.window)
    if accept is not None:
        accept(tracks)
    found = observe(tracks)
    check_found(found, [track.name for track in tracks])
    whole, grid = part.extent(found) if part else _extent(found, tracks[0].crs, asked, model.spread.farthest_m)
    side = part.whole.settings.line_side if part else int((found.side == EAST).mean() > 0.5)
    line = fit_covariance(found.take(found.side == side).along_line(), asked.cell_m, asked.seed)
    covariance = fit_covariance(found, asked.cell_m, asked.seed) if found.directions > 1 else line
    period = period_of(tracks)
    log.info(
        "%s: %d points; %s varies by %.1f mm over %.0f m, noise of a point %.1f mm",
        period,
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
    field = Field(found, whole, grid, tracks[0].crs, model, settings, years_of(tracks), period)
    source = {
        "package": model.version,
        "ingest": reading.ingest.model_dump(mode="json"),
        "format": reading.format_,
        "window": reading.window.record(),
        "within": [vars(whole), side] if part else None,
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
    if part:
        return Plan(field, work, jobs)
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


def plan_years(
    points: Sequence[AnyFile], package: Path, asked: Asked, reading: Reading, tracks: list[Track], whole: Field
) -> dict[int, Plan]:
    """Plan the fields of calendar years, on the grid of the whole period; leave out years with too few epochs.

    Args:
        points, package, asked, reading: as of `restore`. tracks: read from the points. whole: field of all their time.
    """
    asked, found = replace(asked, adapters=whole.package.adapters), {}
    for year, window in calendar_years(tracks, reading.window).items():
        try:
            part = PartOfTime(cut_to_year(tracks, window), whole)
            found[year] = plan_windows(points, package, asked, replace(reading, window=window), part=part)
        except InputError as error:
            log.warning("%d: left out: %s", year, error)
    log.info("%s: a field of each of %d years: %s", STAGE, len(found), ", ".join(map(str, found)) or "none")
    return found


def restore_windows(jobs: Sequence[WindowJob], workers: int | None = 1) -> None:
    """Restore the windows that are not done yet; arguments as of `run_jobs`.

    In this process, each core has a window of its own: solving and denoising wait for each other within a window.
    """
    if workers != 1:
        run_jobs(restore_part, jobs, workers, STAGE)
        return
    left = undone(jobs, STAGE)
    with one_blas_thread():
        for _ in track(in_threads(restore_part, left), len(left), STAGE, finished=True):
            pass


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
    model = open_fields(package, adapters, threads=1)  # windows share the cores: `restore_windows`
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
    areas: Path | None = None,
    years: Mapping[int, Plan] = MappingProxyType({}),
) -> None:
    """Blend the windows, write all outputs, and remove the windows."""
    blend, table = _blend(plan, plan.work), None
    with ExitStack() as staged:  # all files or none
        if buildings is not None and buildings_output is not None:
            table = write_buildings(plan.field, buildings, staged.enter_context(atomic_file(buildings_output)), reading)
            near = int(table["restored"].sum())
            log.info("%s: %d of %d footprints are near enough to points", buildings_output, near, len(table))
        if areas is not None:
            moving = field_areas(plan.field, blend, table)
            log.info("%s: %d moving areas", areas, len(moving))
            save_table(moving, there := staged.enter_context(atomic_file(areas)), MOVING_AREAS)
            if areas.suffix.lower() == ".gpkg":
                style_areas(moving, there)
        if picture is not None:
            draw(plan.field, blend, staged.enter_context(atomic_file(picture)))
        write_style(ends_mm(plan.field, blend), staged, output)
        write_field(plan.field, blend, plan.work, staged, output)
        _write_years(years, staged, output)
    for own in (plan, *years.values()):
        clear(own.work)


def _blend(plan: Plan, folder: Path) -> Blend:
    blend = Blend(folder, len(WINDOW_BANDS), plan.field.grid)
    for job in plan.jobs:
        path = job.folder / BANDS_FILE
        if path.exists():
            blend.add(job.window.of(plan.field.whole), np.load(path))
    return blend


def _write_years(years: Mapping[int, Plan], staged: ExitStack, output: Path) -> None:
    """Write the fields of years, in one range of colours: they are compared by eye."""
    ends = []
    for year, own in years.items():
        # The sums are larger than the field: on the disk are those of one year at a time.
        with TemporaryDirectory(dir=own.work) as folder:
            blend = _blend(own, Path(folder))
            write_field(own.field, blend, Path(folder), staged, year_path(output, year))
            ends.append(ends_mm(own.field, blend))
            del blend
    for year in years:
        write_style(max(ends), staged, year_path(output, year))
