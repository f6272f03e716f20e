"""Plan the restoring of a field: read the points, fit their covariance, and cut the extent into windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter

from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.core.files import atomic_folder, write_json
from plumbline.core.jobs import work_folder
from plumbline.fields.model.sampling import inference_steps
from plumbline.fields.prepare.covariance import fit_covariance
from plumbline.fields.prepare.grid import EAST, Grid, Observations, grid_over, observe, years_of
from plumbline.fields.release.package import open_fields
from plumbline.fields.restore.field import OVERLAP, Box, Field, Settings, cut_to_box, offset, windows
from plumbline.fields.restore.periods import PartOfTime, calendar_years, check_found, cut_to_year, period_of
from plumbline.sources.city.in_memory import AS_THEY_ARE, Reading, read_tracks
from plumbline.sources.files.opened import AnyFile, as_file
from plumbline.sources.points.track import Track

MOST_CELLS = 400_000_000
STAGE = "restore"
SETTINGS = TypeAdapter(Settings)
"""Content of `settings.json`: what all windows of a run share, beside the observations."""


@dataclass(frozen=True)
class Asked:
    """Options of a user for a field."""

    steps: int | None = None
    """None: as many as the package's spread was calibrated with; so for `samples`."""
    samples: int | None = None
    cell_m: float = 10.0
    adapters: tuple[str, ...] = ()
    seed: int = 0
    bbox: Box | None = None
    """The part to restore; None: all."""


AS_CALIBRATED = Asked()


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
    asked: Asked = AS_CALIBRATED,
    reading: Reading = AS_THEY_ARE,
    accept: Callable[[list[Track]], None] | None = None,
    part: PartOfTime | None = None,
) -> Plan:
    """Read the points, fit their covariance, and cut the extent into windows; arguments as of `restore.restore`.

    Args:
        accept: refuses points that are too many for somebody, before anything is computed.
        part: if given, its tracks are taken, none is read, and the field has the grid and the directions of the whole.

    Raises:
        InputError: as `restore`.
    """
    model = open_fields(package, asked.adapters)
    manifest = model.manifest
    how = manifest.restore.model_copy(
        update={name: n for name, n in (("steps", asked.steps), ("samples", asked.samples)) if n is not None}
    )
    inference_steps(how.steps, len(model.model.alphas))  # refuse here what each window would
    tracks = part.tracks if part else read_tracks(points, reading.ingest, reading.format_, window=reading.window)
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
    halo_m = manifest.prepare.halo_m
    settings = Settings(covariance, line, side, model.spread, how.steps, how.samples, how.eta, asked.seed, halo_m)
    field = Field(found, whole, grid, tracks[0].crs, model, settings, years_of(tracks), period)
    source = {
        "package": manifest.version,
        "ingest": reading.ingest.model_dump(mode="json"),
        "format": reading.format_,
        "window": reading.window.record(),
        "within": [vars(whole), side] if part else None,
    }
    work = work_folder(STAGE, [as_file(file).path for file in points], {**asdict(asked), **source}, [])
    run = work / "run"
    if not (run / "settings.json").exists():
        with atomic_folder(run) as folder:
            np.savez(folder / "observations.npz", **vars(found))
            write_json(folder / "settings.json", SETTINGS.dump_python(settings, mode="json"))
    jobs = []
    for window in windows(whole, grid, max(OVERLAP, model.model.multiple)):
        row, column = offset(window, whole)
        jobs.append(WindowJob(work / f"{row}_{column}", run, package.resolve(), asked.adapters, window))
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
    found = {}
    for year, window in calendar_years(tracks, reading.window).items():
        try:
            part = PartOfTime(cut_to_year(tracks, window), whole)
            found[year] = plan_windows(points, package, asked, replace(reading, window=window), part=part)
        except InputError as error:
            log.warning("%d: left out: %s", year, error)
    log.info("%s: a field of each of %d years: %s", STAGE, len(found), ", ".join(map(str, found)) or "none")
    return found


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
