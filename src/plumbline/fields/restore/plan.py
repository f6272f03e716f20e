"""Plan the restoring of a field: read the points, fit their covariance, and cut the extent
into windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter

from plumbline.core.console import log, warn
from plumbline.core.errors import InputError
from plumbline.core.files import atomic_folder, write_json
from plumbline.core.jobs import work_folder
from plumbline.fields.model.sampling import inference_steps
from plumbline.fields.prepare.covariance import fit_covariance
from plumbline.fields.prepare.grid import EAST, Grid, Observations, grid_over, observe, years_of
from plumbline.fields.release.package import open_fields
from plumbline.fields.restore.field import (
    OVERLAP,
    Box,
    Field,
    WindowSettings,
    cut_to_box,
    offset,
    windows,
)
from plumbline.fields.restore.periods import (
    PartOfTime,
    calendar_years,
    check_observations,
    cut_to_year,
    period_of,
)
from plumbline.sources.city.in_memory import AS_THEY_ARE, Reading, read_tracks
from plumbline.sources.files.opened import AnyFile, as_file
from plumbline.sources.points.track import Track

MAX_CELLS = 400_000_000
"""Largest number of cells of a field."""
STAGE = "restore"
SETTINGS = TypeAdapter(WindowSettings)
"""Content of `settings.json`: what all windows of a run share, beside the observations."""


@dataclass(frozen=True)
class RestoreOptions:
    """Options of a user for a field."""

    steps: int | None = None
    """Number of steps; None: that with which the spread was calibrated. So for `samples`."""
    samples: int | None = None
    cell_m: float = 10.0
    adapters: tuple[str, ...] = ()
    seed: int = 0
    bbox: Box | None = None
    """Part to restore; None: all."""


AS_CALIBRATED = RestoreOptions()


@dataclass(frozen=True)
class WindowJob:
    """A window to restore, in any process with access to the folder of the run."""

    folder: Path
    run: Path
    """Folder with what all windows share."""
    package: Path
    adapters: tuple[str, ...]
    window: Grid


@dataclass(frozen=True)
class Plan:
    """Field, windows and working folder of a run."""

    field: Field
    work: Path
    jobs: list[WindowJob]


def plan_windows(
    points: Sequence[AnyFile],
    package: Path,
    options: RestoreOptions = AS_CALIBRATED,
    reading: Reading = AS_THEY_ARE,
    *,
    accept: Callable[[list[Track]], None] | None = None,
    part: PartOfTime | None = None,
) -> Plan:
    """Read the points, fit their covariance, and cut the extent into windows; arguments as
    of `restore.restore`.

    Args:
        accept: checks the tracks before anything is computed; may raise, as for too many points.
        part: if set, its tracks are used and none is read; the field has the grid of the
            whole time.

    Raises:
        InputError: as `restore`.
    """
    model = open_fields(package, options.adapters)
    manifest = model.manifest
    restoring = manifest.restore.model_copy(
        update={
            name: n for name in ("steps", "samples") if (n := getattr(options, name)) is not None
        }
    )
    # Raise here, once, what each window would.
    inference_steps(restoring.steps, len(model.model.alphas))
    tracks = (
        part.tracks
        if part
        else read_tracks(points, reading.ingest, reading.format_, window=reading.window)
    )
    if accept is not None:
        accept(tracks)
    observations = observe(tracks)
    check_observations(observations, [track.name for track in tracks])
    full_grid, grid = (
        part.extent(observations)
        if part
        else _make_grids(observations, tracks[0].crs, options, model.spread.farthest_m)
    )
    side = part.field.settings.line_side if part else int((observations.side == EAST).mean() > 0.5)
    line = fit_covariance(
        observations.take(observations.side == side).along_line(), options.cell_m, options.seed
    )
    has_up = observations.directions > 1
    covariance = fit_covariance(observations, options.cell_m, options.seed) if has_up else line
    period = period_of(tracks)
    log.info(
        "%s: %d points; %s varies by %.1f mm over %.0f m, noise of a point %.1f mm",
        period,
        len(observations),
        "up" if has_up else "the line of sight",
        covariance.up_mm,
        covariance.length_m,
        float(
            np.hypot(covariance.noise_scale * np.median(observations.error), covariance.nugget_mm)
        ),
    )
    settings = WindowSettings(
        covariance=covariance,
        line_covariance=line,
        line_side=side,
        spread=model.spread,
        steps=restoring.steps,
        samples=restoring.samples,
        eta=restoring.eta,
        seed=options.seed,
        halo_m=manifest.prepare.halo_m,
    )
    field = Field(
        observations, full_grid, grid, tracks[0].crs, model, settings, years_of(tracks), period
    )
    source = {
        "package": manifest.version,
        "ingest": reading.ingest.model_dump(mode="json"),
        "format": reading.format_,
        "window": reading.window.record(),
        "within": [vars(full_grid), side] if part else None,
    }
    work = work_folder(
        STAGE, [as_file(file).path for file in points], {**asdict(options), **source}, []
    )
    run = work / "run"
    if not (run / "settings.json").exists():
        with atomic_folder(run) as folder:
            np.savez(folder / "observations.npz", **vars(observations))
            write_json(folder / "settings.json", SETTINGS.dump_python(settings, mode="json"))
    jobs = []
    for window in windows(grid, max(OVERLAP, model.model.multiple)):
        row, column = offset(window, grid)
        jobs.append(
            WindowJob(work / f"{row}_{column}", run, package.resolve(), options.adapters, window)
        )
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
    points: Sequence[AnyFile],
    package: Path,
    options: RestoreOptions,
    reading: Reading,
    *,
    tracks: list[Track],
    field: Field,
) -> dict[int, Plan]:
    """Plan the fields of calendar years, on the grid of the whole period; leave out years
    with too few epochs.

    Args:
        points, package, options, reading: as of `restore`. tracks: read from the points.
        field: of their whole time.
    """
    plans = {}
    for year, window in calendar_years(tracks, reading.window).items():
        try:
            part = PartOfTime(cut_to_year(tracks, window), field)
            plans[year] = plan_windows(
                points, package, options, replace(reading, window=window), part=part
            )
        except InputError as error:
            warn("%d: left out: %s", year, error, key="year.left_out")
    log.info(
        "%s: a field of each of %d years: %s",
        STAGE,
        len(plans),
        ", ".join(map(str, plans)) or "none",
    )
    return plans


def _make_grids(
    observations: Observations, crs: str, options: RestoreOptions, farthest_m: float
) -> tuple[Grid, Grid]:
    """Return the grid over all points, and the part of it that is written.

    Raises:
        InputError: the part has too many cells, or no point is in it.
    """
    full = grid_over(observations.east_north, options.cell_m, farthest_m)
    grid = cut_to_box(full, crs, options.bbox, observations.east_north) if options.bbox else full
    if grid.rows * grid.columns > MAX_CELLS:
        raise InputError(
            f"--cell {options.cell_m:g}: {grid.rows} x {grid.columns} cells found, at most "
            f"{MAX_CELLS} allowed. Give "
            "larger cells, or a part with --bbox.",
            key="grid.too_many_cells",
        )
    return full, grid
