"""Restore windows of a field, and blend them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from plumbline.core.errors import InputError
from plumbline.fields.model.sampling import BOTH, LINE, DenoisingModel, distances, draw_samples, summarise
from plumbline.fields.model.slopes import describe_slopes
from plumbline.fields.model.spread import Float, Spread
from plumbline.fields.prepare.conditions import stack_maps
from plumbline.fields.prepare.covariance import Covariance
from plumbline.fields.prepare.gaussian_process import estimate
from plumbline.fields.prepare.grid import Grid, Observations, bin_observations
from plumbline.fields.release.package import FieldPackage
from plumbline.sources.crs import GLOBE, transformer

BANDS = tuple(f"{name}_{what}" for name in ("up", "east", "los") for what in ("mm", "std_mm", "low_mm", "high_mm"))
"""In the order of `restore_window`; `gradient_mm_m` is made of the blended field."""
WINDOW_BANDS = (*BANDS, "gradient_half_mm_m")
"""Of a window; the last is half of the interval of the slope, of up or of the line of sight where this is told."""


STRIP_M = 50.0
"""Where one direction alone sees a strip that is narrower than this along the rim of the map, nothing is told."""


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
    years: float = 1.0
    """From the first to the last epoch of all tracks; known where a field is written."""
    period: str = ""
    """First and last day of the change."""


@dataclass(frozen=True)
class RestoredWindow:
    """Result of one window."""

    bands: NDArray[np.float32]
    """(len(WINDOW_BANDS), rows, columns) mm, mm/m; NaN where nothing can be told."""
    samples: dict[str, Float]
    """(K, rows, columns) mm of each component that is told somewhere, around its mean; not as wide as its spread."""


def restore_window(found: Observations, grid: Grid, model: DenoisingModel, settings: Settings) -> RestoredWindow | None:
    """Restore the cells of `grid`; return None if every cell is too far from a scatterer.

    The noise is drawn from the seed and the window's place, so that a run that is gone on with gives the same.
    """
    farthest = settings.spread.farthest_m
    near = found.take(grid.near(found.east_north, max(farthest + 2 * STRIP_M, settings.halo_m)))
    margin = int(np.ceil(farthest / grid.cell_m)) + 2 * int(np.ceil(STRIP_M / grid.cell_m))
    wide = grid.window(-margin, -margin, grid.rows + 2 * margin, grid.columns + 2 * margin)
    inner = (slice(margin, margin + grid.rows), slice(margin, margin + grid.columns))
    away = np.stack([distances(side, grid.cell_m) for side in bin_observations(near, wide).count])
    told = away <= farthest
    line = settings.line_side
    alone = _without_rim(told[line], told[1 - line], grid.cell_m)[inner]
    away, told = away[:, *inner], told[:, *inner]
    bands = np.full((len(WINDOW_BANDS), grid.rows, grid.columns), np.nan, np.float32)
    drawn: dict[str, Float] = {}
    both = told[0] & told[1]
    if both.any():
        _tell(BOTH, near, settings.covariance, away.max(axis=0), both, grid, model, settings, bands, drawn)
    if alone.any():
        own = near.take(near.side == line).along_line()
        _tell(LINE, own, settings.line_covariance, away[line], alone, grid, model, settings, bands, drawn)
    return RestoredWindow(bands, drawn) if drawn else None


def _without_rim(seen: NDArray[np.bool_], other: NDArray[np.bool_], cell_m: float) -> NDArray[np.bool_]:
    """Return the cells that one direction sees alone, without narrow strips between the other's and no-data."""
    alone = seen & ~other
    cells = int(STRIP_M / cell_m)
    if cells < 2 or not other.any():
        return alone
    narrow = alone & ~ndimage.binary_opening(alone, np.ones((cells, cells)))
    beside = ndimage.binary_dilation(~seen & ~other, np.ones((2 * cells + 1, 2 * cells + 1)))
    return np.asarray(alone & ~(narrow & beside), bool)


def _tell(
    names: tuple[str, ...],
    near: Observations,
    covariance: Covariance,
    distance_m: Float,
    cells: NDArray[np.bool_],
    grid: Grid,
    model: DenoisingModel,
    settings: Settings,
    bands: NDArray[np.float32],
    drawn: dict[str, Float],
) -> None:
    """Write the restored components into `bands`, in `cells`, and their samples into `drawn`."""
    maps = stack_maps(estimate(near, grid, covariance, settings.halo_m), bin_observations(near, grid))
    place = [round(grid.left / grid.cell_m), round(grid.top / grid.cell_m)]
    rng = np.random.default_rng([settings.seed, *(value % 2**32 for value in place)])
    whole = draw_samples(model, maps, names, settings.steps, settings.samples, settings.eta, rng)
    found = whole.weighted(settings.spread)
    for name in names:
        one = summarise(found, name, settings.spread, distance_m, covariance)
        first = BANDS.index(f"{name}_mm")
        parts = (one.mean, one.deviation, one.mean - one.half_width, one.mean + one.half_width)
        for band, values in enumerate(parts, first):
            bands[band][cells] = values[cells]
        if name == names[0]:
            figures = describe_slopes(found.of(name)[0], one.half_width, grid.cell_m)
            bands[-1][cells] = settings.spread.slopes.half_width(figures)[cells]
        # How errors of neighbours hang together, the samples tell also where they have little weight in the mean.
        own = whole.of(name)[0]
        drawn[name] = one.mean + own - own.mean(axis=0)


WINDOW, OVERLAP, LEAST = 64, 16, 32
"""Cells of a side, as in training; those that two neighbours share; those of a side of the last window in a row or
column, at least: it ends with the grid, at a multiple of `OVERLAP`, or of what the network needs."""


def windows(grid: Grid, part: Grid | None = None, multiple: int = OVERLAP) -> Iterator[Grid]:
    """Yield windows that cover the grid, row by row; they may reach beyond it.

    Args:
        grid: to cover. part: of it; only windows that reach into it count. multiple: of cells, of a side of a window.
    """
    part = part or grid
    first_row, first_column = offset(part, grid)
    for row, rows in _sides(grid.rows, first_row, part.rows, multiple):
        for column, columns in _sides(grid.columns, first_column, part.columns, multiple):
            yield grid.window(row, column, rows, columns)


def _sides(cells: int, first: int, count: int, multiple: int) -> list[tuple[int, int]]:
    """Return first cell and number of cells of the windows that reach into the cells from `first` on."""
    starts = range(0, max(1, cells - OVERLAP), WINDOW - OVERLAP)
    sides = [(start, int(np.clip(-(-(cells - start) // multiple) * multiple, LEAST, WINDOW))) for start in starts]
    return [(start, size) for start, size in sides if first - size < start < first + count]


def offset(part: Grid, grid: Grid) -> tuple[int, int]:
    """Return row and column of the grid at which a part of it begins."""
    return round((grid.top - part.top) / grid.cell_m), round((part.left - grid.left) / grid.cell_m)


def ramp() -> NDArray[np.float32]:
    """Return (WINDOW, WINDOW) weights that fall over the overlap towards the edges; those of neighbours add up to 1."""
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
        self._weight = np.lib.format.open_memmap(folder / "weight.npy", "w+", np.float32, self._shape)
        self._ramp = ramp()

    def add(self, window: Grid, values: NDArray[np.float32]) -> None:
        """Add (bands, rows, columns) of a window, which may reach beyond the grid; NaN is ignored."""
        row, column = offset(window, self._grid)
        # Cells of the window that lie in the grid.
        rows = slice(max(0, -row), min(window.rows, self._shape[1] - row))
        columns = slice(max(0, -column), min(window.columns, self._shape[2] - column))
        own = values[:, rows, columns]
        weight = np.where(np.isfinite(own), self._ramp[rows, columns], 0)
        place = (
            slice(None),
            slice(row + rows.start, row + rows.stop),
            slice(column + columns.start, column + columns.stop),
        )
        self._sum[place] += weight * np.nan_to_num(own)
        self._weight[place] += weight

    def rows(self, first: int, last: int) -> NDArray[np.float32]:
        """Return (bands, rows, columns) of some rows; NaN where all windows are NaN."""
        weight = np.asarray(self._weight[:, first:last])
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(weight > 0, np.asarray(self._sum[:, first:last]) / weight, np.nan).astype(np.float32)

    def thinned(self, bands: list[int], most: int) -> NDArray[np.float32]:
        """Return (bands, rows, columns) of every n-th row and column, so that a side has about `most` at the most."""
        thin = max(1, max(self._grid.rows, self._grid.columns) // most)
        rows = range(0, self._grid.rows, thin)
        return np.concatenate([self.rows(row, row + 1)[bands, :, ::thin] for row in rows], axis=1)


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

    def turned(self, other: Box) -> Box:
        """Return the box with its longitudes counted as those of another: 181 is -179, too."""
        turns = 360 * np.round((other.west + other.east - self.west - self.east) / 720)
        return self._replace(west=self.west + turns, east=self.east + turns)


def parse_box(text: str) -> Box:
    """Read `WEST,SOUTH,EAST,NORTH`.

    Raises:
        InputError: it is no box.
    """
    try:
        box = Box(*(float(part) for part in text.split(",")))
    except (ValueError, TypeError):
        raise _refused(text, "four numbers are needed") from None
    if not np.isfinite(box).all() or not (abs(box.west) <= 360 and abs(box.east) <= 360):
        raise _refused(text, "degrees of WGS 84 are needed")
    if not (abs(box.south) <= 90 and abs(box.north) <= 90):
        raise _refused(text, "latitudes lie between -90 and 90; SOUTH is second and NORTH is last")
    if box.west - box.east > 180:  # across 180 degrees, as RFC 7946 writes it
        box = box._replace(east=box.east + 360)
    if not (box.west < box.east and box.south < box.north):
        raise _refused(text, "WEST must be less than EAST, and SOUTH less than NORTH")
    return box


def _refused(text: str, why: str) -> InputError:
    return InputError(f"--bbox {text}: {why}. Give {FORM} in degrees, as {EXAMPLE}.")


def _in_degrees(crs: str, left: float, bottom: float, right: float, top: float) -> Box:
    """Return bounds in m as degrees, the east beyond 180 where they lie across it."""
    west, south, east, north = transformer(crs, GLOBE).transform_bounds(left, bottom, right, top)
    return Box(west, south, east + 360 * (east < west), north)


def cut_to_box(grid: Grid, crs: str, box: Box, east_north: NDArray[np.floating]) -> Grid:
    """Return the part of a grid that covers a box, as far as the grid reaches.

    Args:
        grid: over all points. crs: of its coordinates. box: what is asked for.
        east_north: (N, 2) m, positions of the points.

    Raises:
        InputError: no point lies in the box.
    """
    to_plane = transformer(GLOBE, crs)
    bottom, right = grid.top - grid.rows * grid.cell_m, grid.left + grid.columns * grid.cell_m
    whole = _in_degrees(crs, grid.left, bottom, right, grid.top)
    there = _in_degrees(crs, *east_north.min(axis=0), *east_north.max(axis=0)).turned(whole)
    asked = box.turned(whole)
    if asked.west < there.east and asked.east > there.west and box.south < there.north and box.north > there.south:
        # Far from the points the CRS may have no coordinates: never reproject a box larger than the grid.
        near = Box(*np.maximum(asked, whole)[:2], *np.minimum(asked, whole)[2:])
        part = grid.cut(*to_plane.transform_bounds(*near))
        if part.near(east_north, 0).any():
            return part
    raise InputError(f"--bbox {box}: no point lies in it. The points lie in {there} ({FORM}).")
