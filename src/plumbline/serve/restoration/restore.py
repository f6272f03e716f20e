"""Restore a displacement field from product files: a Cloud Optimized GeoTIFF, and what else is asked beside it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from plumbline.core.console import log, track
from plumbline.core.errors import InputError
from plumbline.core.files import atomic_folder
from plumbline.core.jobs import alone, clear, work_folder
from plumbline.export.restoration.package import FieldPackage, open_fields
from plumbline.model.restoration.scores import gradient
from plumbline.params import Ingest
from plumbline.prepare.restoration.gaussian_process import fit_covariance
from plumbline.prepare.restoration.grid import Grid, grid_over
from plumbline.prepare.restoration.observations import Observations, observe
from plumbline.serve.restoration.field import BANDS, Settings, restore_window
from plumbline.serve.restoration.windows import Blend, windows
from plumbline.sources.in_memory import NOTHING, read_tracks

LEAST_POINTS = 8
"""From fewer no covariance can be told."""
LEAST_SPAN_M = 30.0
"""Across the line that points lie along; on less, no field is told beside it."""
GRADIENT = "gradient_mm_m"
MOST_CELLS = 400_000_000
STAGE = "restore"


@dataclass(frozen=True)
class Asked:
    """What a user wants of a field."""

    steps: int = 25
    samples: int = 16
    cell_m: float = 10.0
    adapters: tuple[str, ...] = ()
    seed: int = 0


@dataclass(frozen=True)
class Field:
    """What was restored, for those who draw it or read it off."""

    found: Observations
    grid: Grid
    crs: str
    package: FieldPackage
    settings: Settings


def restore(
    points: Sequence[Path],
    package: Path,
    output: Path,
    asked: Asked = Asked(),
    ingest: Ingest = NOTHING,
    format_: str | None = None,
    buildings: Path | None = None,
    buildings_output: Path | None = None,
    picture: Path | None = None,
) -> Field:
    """Write the field, and the figures of buildings and a picture where they are wanted.

    Windows that are done are kept in `.plumbline`: a run that was killed goes on with them.

    Args:
        points: product files, each one track. package: of a model of fields. output: GeoTIFF.
        asked: how. ingest, format_: see `read_tracks`.
        buildings: footprints. buildings_output: table of them, see `footprints.write_buildings`.
        picture: PNG file.

    Raises:
        InputError: anything given is missing, damaged or does not fit together. No file is written then.
    """
    if output.suffix.lower() not in (".tif", ".tiff"):
        raise InputError(f"--output {output}: a GeoTIFF is written; give a name that ends in .tif.")
    model = open_fields(package, asked.adapters)
    tracks = read_tracks(points, ingest, format_)
    names = [track.name for track in tracks]
    found = observe(tracks)
    _check(found, names)
    grid = grid_over(found.east_north, asked.cell_m, model.spread.farthest_m)
    if grid.rows * grid.columns > MOST_CELLS:
        raise InputError(
            f"--cell {asked.cell_m:g}: {grid.rows} x {grid.columns} cells; give larger cells, or fewer points."
        )
    covariance = fit_covariance(found, asked.cell_m, asked.seed)
    log.info(
        "%d points; up varies by %.1f mm over %.0f m, noise of a point %.1f mm",
        len(found),
        covariance.up_mm,
        covariance.length_m,
        float(np.hypot(covariance.noise_scale * np.median(found.error), covariance.nugget_mm)),
    )
    settings = Settings(covariance, model.spread, asked.steps, asked.samples, model.eta, asked.seed, model.halo_m)
    field = Field(found, grid, tracks[0].crs, model, settings)
    told = {**asdict(asked), "package": model.version, "covariance": list(covariance)}
    with alone(STAGE, patience_seconds=5.0), ExitStack() as staged:
        work = work_folder(STAGE, [*points], told, [])
        blend = _restore_windows(field, work, staged)
        if buildings is not None and buildings_output is not None:
            from plumbline.serve.restoration.footprints import write_buildings

            write_buildings(field, buildings, buildings_output)
        if picture is not None:
            from plumbline.serve.restoration.picture import draw

            draw(field, blend, picture)
        _write(field, blend, work, output)
        clear(work)
    return field


def _check(found: Observations, names: Sequence[str]) -> None:
    """Refuse what no field can be made of.

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
    boxes = [
        (own.min(axis=0), own.max(axis=0))
        for number in np.unique(found.track)
        for own in [found.east_north[found.track == number]]
    ]
    for number, (low, high) in enumerate(boxes[1:], 1):
        if (high < boxes[0][0]).any() or (low > boxes[0][1]).any():
            raise InputError(f"{names[0]} and {names[number]}: points of different places. Give products of one place.")


def _restore_windows(field: Field, work: Path, staged: ExitStack) -> Blend:
    """Restore every window, those excepted that are there from before, and blend them."""
    work.mkdir(parents=True, exist_ok=True)
    parts = list(windows(field.grid))
    left = [window for window in parts if not (work / window.name).exists()]
    if len(left) < len(parts):
        log.info("%s: going on, %d of %d windows are there from before", STAGE, len(parts) - len(left), len(parts))
    for window in track(left, len(left), STAGE):
        one = restore_window(field.found, window.of(field.grid), field.package.model, field.settings)
        with atomic_folder(work / window.name) as folder:
            if one is not None:
                np.save(folder / "bands.npy", one.bands)
    blend = Blend(work, len(BANDS), field.grid)
    for window in parts:
        path = work / window.name / "bands.npy"
        if path.exists():
            blend.add(window, np.load(path))
    return blend


def _write(field: Field, blend: Blend, work: Path, output: Path) -> None:
    from plumbline.serve.restoration.raster import write_cog

    grid, found = field.grid, field.found
    both = len(np.unique(found.side)) > 1
    kept = [number for number, name in enumerate(BANDS) if both or name.startswith("los")]
    bands = [*(BANDS[number] for number in kept), GRADIENT]
    main = 0 if both else BANDS.index("los_mm")

    def rows(first: int, last: int) -> NDArray[np.float32]:
        start, end = max(0, first - 1), min(grid.rows, last + 1)
        values = blend.rows(start, end)
        slope = (
            gradient(values[main], grid.cell_m)
            if values.shape[1] > 1 and values.shape[2] > 1
            else values[main] * np.nan
        )
        whole = np.concatenate([values[kept], slope[None].astype(np.float32)])
        return whole[:, first - start : first - start + last - first]

    west = found.los[found.side == 0].mean(axis=0) if (found.side == 0).any() else None
    east = found.los[found.side == 1].mean(axis=0) if (found.side == 1).any() else None
    tags = {
        "PLUMBLINE_MODEL": f"{field.package.name} {field.package.version}",
        "PLUMBLINE_ADAPTERS": ", ".join(field.package.adapters) or "none",
        "PLUMBLINE_STEPS": str(field.settings.steps),
        "PLUMBLINE_SAMPLES": str(field.settings.samples),
        "PLUMBLINE_FARTHEST_M": f"{field.settings.spread.farthest_m:g}",
        "PLUMBLINE_LOS": json.dumps(
            {k: np.round(v, 4).tolist() for k, v in (("west", west), ("east", east)) if v is not None}
        ),
        "PLUMBLINE_MEANING": "change from the first to the last epoch of all tracks, mm; low and high: 90 % interval",
    }
    write_cog(rows, bands, grid, field.crs, tags, work, output)
    told = sum(
        int(np.isfinite(blend.rows(r, min(r + 512, grid.rows))).any(axis=0).sum()) for r in range(0, grid.rows, 512)
    )
    log.info(
        "%s: %d x %d cells of %g m, %.0f %% of them within %.0f m of a point and told",
        output,
        grid.rows,
        grid.columns,
        grid.cell_m,
        100 * told / (grid.rows * grid.columns),
        field.settings.spread.farthest_m,
    )
