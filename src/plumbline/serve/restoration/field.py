"""Restore one window: from the observations around it to the bands of the result."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plumbline.export.restoration.package import FieldPackage
from plumbline.model.restoration.sampling import (
    BOTH,
    LINE,
    Denoiser,
    Float,
    distances,
    draw_samples,
    summarise,
)
from plumbline.model.restoration.spread import Spread
from plumbline.prepare.restoration.conditions import stack_maps
from plumbline.prepare.restoration.gaussian_process import Covariance, estimate
from plumbline.prepare.restoration.grid import Grid, bin_observations
from plumbline.prepare.restoration.observations import Observations

BANDS = tuple(f"{name}_{what}" for name in ("up", "east", "los") for what in ("mm", "std_mm", "low_mm", "high_mm"))
"""In the order of `restore_window`; `gradient_mm_m` is made of the blended field."""


@dataclass(frozen=True)
class Settings:
    """Settings that all windows of a run share."""

    covariance: Covariance
    """Of up and east; unused where all scatterers are seen from one direction."""
    line_covariance: Covariance
    """Of the line of sight of `line_side`."""
    line_side: int
    """`WEST` or `EAST`: the direction that has more scatterers. Where it alone sees a place, its line of sight is told;
    that of the other would be another figure under the same name."""
    spread: Spread
    steps: int
    samples: int
    eta: float
    seed: int
    halo_m: float


@dataclass(frozen=True)
class Field:
    """A restored field, for drawing it and reading it off."""

    found: Observations
    whole: Grid
    """Over all points; its windows are restored, whatever part is asked for."""
    grid: Grid
    """The part of it that is written."""
    crs: str
    package: FieldPackage
    settings: Settings


@dataclass(frozen=True)
class RestoredWindow:
    """Result of one window."""

    bands: NDArray[np.float32]
    """(len(BANDS), rows, columns) mm; NaN where nothing can be told."""
    samples: dict[str, Float]
    """(K, rows, columns) mm of each component that is told somewhere."""


def restore_window(found: Observations, grid: Grid, model: Denoiser, settings: Settings) -> RestoredWindow | None:
    """Restore the cells of `grid`; return None if every cell is too far from a scatterer.

    The noise is drawn from the seed and the window's place, so that a run that is gone on with gives the same.
    """
    farthest = settings.spread.farthest_m
    near = found.take(grid.near(found.east_north, max(farthest, settings.halo_m)))
    margin = int(np.ceil(farthest / grid.cell_m))
    wide = grid.window(-margin, -margin, grid.rows + 2 * margin, grid.columns + 2 * margin)
    inner = (slice(None), slice(margin, margin + grid.rows), slice(margin, margin + grid.columns))
    away = np.stack([distances(side, grid.cell_m) for side in bin_observations(near, wide).count])[inner]
    told = away <= farthest
    bands = np.full((len(BANDS), grid.rows, grid.columns), np.nan, np.float32)
    drawn: dict[str, Float] = {}
    line = settings.line_side
    both = told[0] & told[1]
    alone = told[line] & ~both
    if both.any():
        _tell(BOTH, near, settings.covariance, away.max(axis=0), both, grid, model, settings, bands, drawn)
    if alone.any():
        own = near.take(near.side == line).along_line()
        _tell(LINE, own, settings.line_covariance, away[line], alone, grid, model, settings, bands, drawn)
    return RestoredWindow(bands, drawn) if drawn else None


def _tell(
    names: tuple[str, ...],
    near: Observations,
    covariance: Covariance,
    distance_m: Float,
    cells: NDArray[np.bool_],
    grid: Grid,
    model: Denoiser,
    settings: Settings,
    bands: NDArray[np.float32],
    drawn: dict[str, Float],
) -> None:
    """Write the restored components into `bands`, in `cells`, and their samples into `drawn`."""
    maps = stack_maps(estimate(near, grid, covariance, settings.halo_m), bin_observations(near, grid))
    place = [round(grid.left / grid.cell_m), round(grid.top / grid.cell_m)]
    rng = np.random.default_rng([settings.seed, *(value % 2**32 for value in place)])
    found = draw_samples(model, maps, names, settings.steps, settings.samples, settings.eta, rng)
    found = found.weighted(settings.spread)
    for name in names:
        one = summarise(found, name, settings.spread, distance_m)
        first = BANDS.index(f"{name}_mm")
        parts = (one.mean, one.deviation, one.mean - one.half_width, one.mean + one.half_width)
        for band, values in enumerate(parts, first):
            bands[band][cells] = values[cells]
        drawn[name] = found.of(name)[0]
