"""Restore windows of a field, and blend them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from plumbline.core.arrays import Float
from plumbline.core.errors import InputError
from plumbline.fields.model.sampling import (
    BOTH,
    LINE,
    DenoisingModel,
    distances,
    draw_samples,
    summarise,
)
from plumbline.fields.model.slopes import describe_slopes
from plumbline.fields.model.spread import Spread
from plumbline.fields.prepare.conditions import stack_maps
from plumbline.fields.prepare.covariance import Covariance
from plumbline.fields.prepare.gaussian_process import estimate
from plumbline.fields.prepare.grid import Grid, Observations, bin_observations
from plumbline.fields.release.package import FieldPackage
from plumbline.sources.crs import GLOBE, transformer

BANDS = tuple(
    f"{name}_{what}"
    for name in ("up", "east", "los")
    for what in ("mm", "std_mm", "low_mm", "high_mm")
)
"""Bands of up, east and the line of sight, in the order of `restore_window`."""
WINDOW_BANDS = (*BANDS, "gradient_half_mm_m")
"""Bands of a window. The last is half of the interval of the slope, of up or of the line of
sight."""


STRIP_M = 50.0
"""Width of the narrowest strip along the rim that is restored though one direction alone sees
it."""


@dataclass(frozen=True)
class WindowSettings:
    """Settings that all windows of a run share."""

    covariance: Covariance
    """Covariance of up and east; unused where all scatterers are seen from one direction."""
    line_covariance: Covariance
    """Covariance of the line of sight of `line_side`."""
    line_side: int
    """`WEST` or `EAST`: the direction that has more scatterers. Where it alone sees a
    place, the change along its line of sight is restored; that of the other direction would
    be another quantity."""
    spread: Spread
    steps: int
    samples: int
    eta: float
    seed: int
    halo_m: float


@dataclass(frozen=True)
class Field:
    """A restored field, for drawing it and reading it off."""

    observations: Observations
    full_grid: Grid
    """Grid over all points."""
    grid: Grid
    """Part of `full_grid` that is restored and written."""
    crs: str
    package: FieldPackage
    settings: WindowSettings
    years: float = 1.0
    """Years from the first to the last epoch of all tracks; set where a field is written."""
    period: str = ""
    """First and last day of the change."""


@dataclass(frozen=True)
class RestoredWindow:
    """Result of one window."""

    bands: NDArray[np.float32]
    """(len(WINDOW_BANDS), rows, columns) mm, mm/m; NaN in cells too far from a scatterer."""
    samples: dict[str, Float]
    """(K, rows, columns) mm of each component with a value in any cell, around its mean; they vary
    less than the component's calibrated deviation."""


def restore_window(
    observations: Observations, grid: Grid, model: DenoisingModel, settings: WindowSettings
) -> RestoredWindow | None:
    """Restore the cells of `grid`; return None if every cell is too far from a scatterer.

    The noise depends on the seed and the window's place, so a run that is resumed gives the
    same field.
    """
    farthest_m = settings.spread.farthest_m
    nearby = observations.take(
        grid.near(observations.east_north, max(farthest_m + 2 * STRIP_M, settings.halo_m)),
    )
    # Cells beyond the window: scatterers there count for distances, and strips are complete.
    margin = int(np.ceil(farthest_m / grid.cell_m)) + 2 * int(np.ceil(STRIP_M / grid.cell_m))
    wide = grid.window(-margin, -margin, grid.rows + 2 * margin, grid.columns + 2 * margin)
    inner = (slice(margin, margin + grid.rows), slice(margin, margin + grid.columns))
    distance_m = np.stack(
        [distances(count, grid.cell_m) for count in bin_observations(nearby, wide).count]
    )
    is_near = distance_m <= farthest_m
    line = settings.line_side
    is_one_sided = _without_rim(is_near[line], is_near[1 - line], grid.cell_m)[inner]
    distance_m, is_near = distance_m[:, *inner], is_near[:, *inner]
    bands = np.full((len(WINDOW_BANDS), grid.rows, grid.columns), np.nan, np.float32)
    samples: dict[str, Float] = {}
    for names, scatterers, covariance, nearest_m, cells in (
        (BOTH, nearby, settings.covariance, distance_m.max(axis=0), is_near[0] & is_near[1]),
        (
            LINE,
            nearby.take(nearby.side == line).along_line(),
            settings.line_covariance,
            distance_m[line],
            is_one_sided,
        ),
    ):
        if cells.any():
            part = _restore_components(
                names, scatterers, covariance, nearest_m, grid=grid, model=model, settings=settings
            )
            bands = np.where(cells, part.bands, bands)
            samples |= part.samples
    return RestoredWindow(bands, samples) if samples else None


def _without_rim(
    is_near: NDArray[np.bool_], is_near_opposite: NDArray[np.bool_], cell_m: float
) -> NDArray[np.bool_]:
    """Return the cells that one direction sees alone, without narrow strips at the rim of the
    map."""
    is_alone = is_near & ~is_near_opposite
    cells = int(STRIP_M / cell_m)
    if cells < 2 or not is_near_opposite.any():
        return is_alone
    is_narrow = is_alone & ~ndimage.binary_opening(is_alone, np.ones((cells, cells)))
    is_at_rim = ndimage.binary_dilation(
        ~(is_near | is_near_opposite), np.ones((2 * cells + 1,) * 2)
    )
    return np.asarray(is_alone & ~(is_narrow & is_at_rim), bool)


def _restore_components(
    names: tuple[str, ...],
    observations: Observations,
    covariance: Covariance,
    distance_m: Float,
    *,
    grid: Grid,
    model: DenoisingModel,
    settings: WindowSettings,
) -> RestoredWindow:
    """Restore the components `names` in all cells; the bands of other components are NaN."""
    maps = stack_maps(
        estimate(observations, grid, covariance, settings.halo_m),
        bin_observations(observations, grid),
    )
    place = [round(grid.left / grid.cell_m), round(grid.top / grid.cell_m)]
    rng = np.random.default_rng([settings.seed, *(value % 2**32 for value in place)])
    drawn = draw_samples(
        model,
        maps,
        names,
        steps=settings.steps,
        samples=settings.samples,
        eta=settings.eta,
        rng=rng,
    )
    weighted = drawn.weighted(settings.spread)
    window = RestoredWindow(
        np.full((len(WINDOW_BANDS), grid.rows, grid.columns), np.nan, np.float32), {}
    )
    for name in names:
        summary = summarise(weighted, name, settings.spread, distance_m, covariance)
        first = BANDS.index(f"{name}_mm")
        low, high = summary.mean - summary.half_width, summary.mean + summary.half_width
        window.bands[first : first + 4] = summary.mean, summary.deviation, low, high
        if name == names[0]:
            figures = describe_slopes(weighted.of(name)[0], summary.half_width, grid.cell_m)
            window.bands[-1] = settings.spread.slopes.half_width(figures)
        # Without the gain: the samples show how errors of neighbours are correlated, also
        # where the gain gives them little weight in the mean.
        samples_mm = drawn.of(name)[0]
        window.samples[name] = summary.mean + samples_mm - samples_mm.mean(axis=0)
    return window


WINDOW, OVERLAP, MIN_WINDOW = 64, 16, 32
"""Side of a window, as in training; overlap of two neighbours; smallest side of the last
window in a row or column, which ends with the grid, at a multiple of `OVERLAP` or of the
network's; all in cells."""


def windows(grid: Grid, multiple: int = OVERLAP) -> Iterator[Grid]:
    """Yield windows that cover the grid, row by row; they may reach beyond it.

    Args:
        grid: to cover.
        multiple: number of cells of which the last window's side is a multiple.
    """
    for row, rows in _sides(grid.rows, multiple):
        for column, columns in _sides(grid.columns, multiple):
            yield grid.window(row, column, rows, columns)


def _sides(cells: int, multiple: int) -> list[tuple[int, int]]:
    """Return first cell and number of cells of the windows that cover a side."""
    starts = range(0, max(1, cells - OVERLAP), WINDOW - OVERLAP)
    return [
        (start, int(np.clip(-(-(cells - start) // multiple) * multiple, MIN_WINDOW, WINDOW)))
        for start in starts
    ]


def offset(part: Grid, grid: Grid) -> tuple[int, int]:
    """Return row and column of the grid at which a part of it begins."""
    return round((grid.top - part.top) / grid.cell_m), round((part.left - grid.left) / grid.cell_m)


def ramp() -> NDArray[np.float32]:
    """Return (WINDOW, WINDOW) weights that fall over the overlap towards the edges; those
    of neighbours add up to 1."""
    rise = (np.arange(OVERLAP) + 0.5) / OVERLAP
    line = np.concatenate([rise, np.ones(WINDOW - 2 * OVERLAP), rise[::-1]])
    return np.outer(line, line).astype(np.float32)


class Blend:
    """Weighted means over windows, on disk."""

    def __init__(self, folder: Path, bands: int, grid: Grid) -> None:
        """Create the arrays in `folder`, which exists and is the caller's to remove."""
        self._grid = grid
        self._shape = (bands, grid.rows, grid.columns)
        self._sum = np.lib.format.open_memmap(folder / "sum.npy", "w+", np.float32, self._shape)
        self._weight = np.lib.format.open_memmap(
            folder / "weight.npy", "w+", np.float32, self._shape
        )
        self._ramp = ramp()

    def add(self, window: Grid, values: NDArray[np.float32]) -> None:
        """Add (bands, rows, columns) of a window, which may reach beyond the grid; NaN is
        ignored."""
        row, column = offset(window, self._grid)
        # Cells of the window that are in the grid.
        rows = slice(max(0, -row), min(window.rows, self._shape[1] - row))
        columns = slice(max(0, -column), min(window.columns, self._shape[2] - column))
        inside = values[:, rows, columns]
        weight = np.where(np.isfinite(inside), self._ramp[rows, columns], 0)
        cells = (
            slice(None),
            slice(row + rows.start, row + rows.stop),
            slice(column + columns.start, column + columns.stop),
        )
        self._sum[cells] += weight * np.nan_to_num(inside)
        self._weight[cells] += weight

    def rows(self, first: int, last: int) -> NDArray[np.float32]:
        """Return (bands, rows, columns) of some rows; NaN where all windows are NaN."""
        weight = np.asarray(self._weight[:, first:last])
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(
                weight > 0, np.asarray(self._sum[:, first:last]) / weight, np.nan
            ).astype(np.float32)

    def thinned(self, bands: list[int], max_side: int) -> NDArray[np.float32]:
        """Return (bands, rows, columns) of every n-th row and column, with about `max_side`
        on a side at most."""
        step = max(1, max(self._grid.rows, self._grid.columns) // max_side)
        rows = range(0, self._grid.rows, step)
        return np.concatenate([self.rows(row, row + 1)[bands, :, ::step] for row in rows], axis=1)


FORM = "WEST,SOUTH,EAST,NORTH"
EXAMPLE = "13.16,38.70,13.18,38.71"


class Box(NamedTuple):
    """Part of the ground, degrees in WGS 84."""

    west: float
    south: float
    east: float
    north: float

    def __str__(self) -> str:
        return ",".join(f"{value:.6g}" for value in self)

    def turned(self, reference: Box) -> Box:
        """Return the box with its longitudes turned by whole circles to those of a reference
        box."""
        # The centres (west + east) / 2 then differ by at most half a circle.
        turns = 360 * np.round((reference.west + reference.east - self.west - self.east) / 720)
        return self._replace(west=self.west + turns, east=self.east + turns)


def parse_box(text: str) -> Box:
    """Read `WEST,SOUTH,EAST,NORTH`.

    Raises:
        InputError: it is no box.
    """
    try:
        box = Box(*(float(part) for part in text.split(",")))
    except (ValueError, TypeError):
        raise _box_error(text, "four numbers are needed", key="bbox.not_four_numbers") from None
    if not np.isfinite(box).all() or not (abs(box.west) <= 360 and abs(box.east) <= 360):
        raise _box_error(text, "degrees of WGS 84 are needed", key="bbox.not_degrees")
    if not (abs(box.south) <= 90 and abs(box.north) <= 90):
        raise _box_error(
            text,
            "latitudes are between -90 and 90; SOUTH is second and NORTH is last",
            key="bbox.latitude_out_of_range",
        )
    if box.west - box.east > 180:  # across 180 degrees, as RFC 7946 writes it
        box = box._replace(east=box.east + 360)
    if not (box.west < box.east and box.south < box.north):
        raise _box_error(
            text, "WEST must be less than EAST, and SOUTH less than NORTH", key="bbox.reversed"
        )
    return box


def _box_error(text: str, why: str, *, key: str) -> InputError:
    return InputError(f"--bbox {text}: {why}. Give {FORM} in degrees, as {EXAMPLE}.", key=key)


def _to_degrees(crs: str, left: float, bottom: float, right: float, top: float) -> Box:
    """Return bounds, m, as a box in degrees; its east is beyond 180 if they cross 180 degrees."""
    west, south, east, north = transformer(crs, GLOBE).transform_bounds(left, bottom, right, top)
    return Box(west, south, east + 360 * (east < west), north)


def cut_to_box(grid: Grid, crs: str, box: Box, east_north: NDArray[np.floating]) -> Grid:
    """Return the part of a grid that covers a box, as far as the grid reaches.

    Args:
        grid: over all points. crs: of its coordinates. box: part to restore.
        east_north: (N, 2) m, positions of the points.

    Raises:
        InputError: no point is in the box.
    """
    to_plane = transformer(GLOBE, crs)
    bottom, right = grid.top - grid.rows * grid.cell_m, grid.left + grid.columns * grid.cell_m
    full = _to_degrees(crs, grid.left, bottom, right, grid.top)
    points = _to_degrees(crs, *east_north.min(axis=0), *east_north.max(axis=0)).turned(full)
    part = box.turned(full)
    if (
        part.west < points.east
        and part.east > points.west
        and part.south < points.north
        and part.north > points.south
    ):
        # Far from the points the CRS may have no coordinates: never reproject a box larger
        # than the grid.
        common = Box(*np.maximum(part, full)[:2], *np.minimum(part, full)[2:])
        cells = grid.cut(*to_plane.transform_bounds(*common))
        if cells.near(east_north, 0).any():
            return cells
    raise InputError(
        f"--bbox {box}: no point is in it. The points are in {points} ({FORM}). Give a box of "
        "that place.",
        key="bbox.no_points",
    )
