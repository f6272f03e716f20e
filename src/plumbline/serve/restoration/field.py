"""Restore one window: from the observations around it to the bands of the result."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plumbline.model.restoration.sampling import (
    COUNTS,
    Denoiser,
    Float,
    Samples,
    component,
    distances,
    draw_samples,
    mean_view,
    summarise,
)
from plumbline.model.restoration.spread import Spread
from plumbline.prepare.restoration.conditions import stack_maps
from plumbline.prepare.restoration.gaussian_process import Covariance, Estimate, estimate
from plumbline.prepare.restoration.grid import Grid, bin_observations
from plumbline.prepare.restoration.observations import Observations

BANDS = tuple(f"{name}_{what}" for name in ("up", "east", "los") for what in ("mm", "std_mm", "low_mm", "high_mm"))
"""In the order of `restore_window`; `gradient_mm_m` is made of the blended field."""


@dataclass(frozen=True)
class Settings:
    """What all windows of a run share."""

    covariance: Covariance
    spread: Spread
    steps: int
    samples: int
    eta: float
    seed: int
    halo_m: float


@dataclass(frozen=True)
class RestoredWindow:
    """What a window gives."""

    bands: NDArray[np.float32]
    """(len(BANDS), rows, columns) mm; NaN where nothing can be told."""
    samples: Samples
    distance_m: Float
    """(2, rows, columns) to the nearest scatterer of each side."""
    view: tuple[float, float]
    """`los_up`, `los_east` of the side that the `los` bands are of."""


def restore_window(found: Observations, grid: Grid, model: Denoiser, settings: Settings) -> RestoredWindow | None:
    """Restore the cells of `grid`; None where no scatterer is near enough to any of them.

    The noise is drawn from the seed and the window's place, so that a run that is gone on with gives the same.
    """
    farthest = settings.spread.farthest_m
    near = found.take(grid.near(found.east_north, max(farthest, settings.halo_m)))
    margin = int(np.ceil(farthest / grid.cell_m))
    wide = grid.window(-margin, -margin, grid.rows + 2 * margin, grid.columns + 2 * margin)
    inner = (slice(None), slice(margin, margin + grid.rows), slice(margin, margin + grid.columns))
    count = bin_observations(near, wide).count
    away = np.stack([distances(side, grid.cell_m) for side in count])[inner]
    told = away <= farthest
    if not told.any():
        return None
    maps = stack_maps(estimate(near, grid, settings.covariance, settings.halo_m), bin_observations(near, grid))
    place = [round(grid.left / grid.cell_m), round(grid.top / grid.cell_m)]
    rng = np.random.default_rng([settings.seed, *(value % 2**32 for value in place)])
    drawn = draw_samples(model, maps, settings.steps, settings.samples, settings.eta, rng).weighted(settings.spread)
    both, either = told.all(axis=0), told.any(axis=0)
    # Where one side sees a place, the line of sight is that side's; its mean over the window stands for each cell's.
    side = int(told[1].sum() > told[0].sum())
    view = mean_view(maps if maps[COUNTS[side]].any() else _maps_around(near, wide), side)
    nearest = away.min(axis=0)
    bands = np.full((len(BANDS), grid.rows, grid.columns), np.nan, np.float32)
    for number, name in enumerate(("up", "east", "los")):
        rows = both if name != "los" else either & ~both & told[side]
        if not rows.any():
            continue
        one = summarise(
            *component(drawn, name, view), name, settings.spread, away.max(axis=0) if name != "los" else nearest
        )
        parts = (one.mean, one.deviation, one.mean - one.half_width, one.mean + one.half_width)
        for place_in, values in enumerate(parts):
            bands[4 * number + place_in][rows] = values[rows]
    return RestoredWindow(bands, drawn, away, view)


def _maps_around(near: Observations, wide: Grid) -> NDArray[np.float32]:
    """Raw maps of a wider window, of which only counts and lines of sight are asked."""
    binned = bin_observations(near, wide)
    nothing = np.zeros((2, wide.rows, wide.columns))
    return stack_maps(Estimate(nothing, nothing), binned)
