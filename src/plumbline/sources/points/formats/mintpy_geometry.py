"""Find position, view and coherence beside a stack of MintPy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np
from numpy.typing import NDArray

from plumbline.core.errors import InputError
from plumbline.sources.crs import LATITUDES, LONGITUDES, Box, unrolled
from plumbline.sources.points.formats.hdf5 import Hdf5Files, array, has_array
from plumbline.sources.points.missing import Missing
from plumbline.sources.points.source import UNIT_TOLERANCE
from plumbline.sources.points.track import los_from_azimuth, los_from_heading

Floats = NDArray[np.float64]
INCIDENCE, AZIMUTH, COHERENCE = "incidenceAngle", "azimuthAngle", "temporalCoherence"
VECTOR = ("los_east", "los_north", "los_up")
"""Unit vector from ground to satellite, as ISCE's static layers and OPERA's have it; up may be missing."""
Window = tuple[slice, slice]


class Pixels(NamedTuple):
    """P pixels of a block."""

    x: Floats
    y: Floats
    height: Floats
    los: Floats
    coherence: NDArray[np.float32] | None
    known: NDArray[np.bool_]
    """(P,) whether place and line of sight are known."""

    def take(self, rows: NDArray[np.bool_]) -> Pixels:
        """Select the pixels where `rows` (P,) is true."""
        coherence = None if self.coherence is None else self.coherence[rows]
        return Pixels(self.x[rows], self.y[rows], self.height[rows], self.los[rows], coherence, self.known[rows])


@dataclass(frozen=True)
class Grid:
    """Corner and step of a geocoded raster."""

    first: tuple[float, float]
    step: tuple[float, float]


@dataclass(frozen=True)
class Geometry:
    """Files beside a time series, and stated values that replace them."""

    shape: tuple[int, int]
    crs: str
    """Of the pixels' places."""
    grid: Grid | None
    """None: in radar coordinates, each pixel's place is in `path`."""
    path: Path | None
    coherence: Path | None
    angles: tuple[float, float] | None
    """Incidence and heading of all pixels, in degrees, where they are stated."""
    azimuth: float | None
    """Direction to the satellite, where the geometry file has none, in degrees."""
    source: str
    """Names the geometry in messages."""
    warnings: tuple[str, ...] = ()
    """What was recognised against the usual meaning of these files."""
    is_from_east: bool = False
    """Whether `/azimuthAngle` is GAMMA's `lv_phi`: radians, anti-clockwise from east."""
    notes: tuple[str, ...] = ()
    """What was decided about these files; as of `PointSource`."""
    height: str = "height"
    """Name of the array of heights."""
    vector: tuple[str, ...] = ()
    """Arrays of the line of sight, east, north and perhaps up, where there are no angles."""
    missing: Missing = field(default_factory=lambda: Missing("", None))
    """What stands for no value in these arrays."""
    files: Hdf5Files = field(default_factory=Hdf5Files)
    arrays: Mapping[str, h5py.Dataset] = field(default_factory=dict)

    @property
    def sight(self) -> str:
        """Source of the line of sight, for messages."""
        if self.angles is not None:
            return f"incidence {self.angles[0]:g}, heading {self.angles[1]:g}, as stated"
        if self.vector:
            return f"{', '.join(self.vector)} of {self.source}"
        azimuth = f"direction {self.azimuth:.0f} by HEADING" if self.azimuth is not None else f"/{AZIMUTH}"
        return f"/{INCIDENCE} and {azimuth} of {self.source}"

    @contextmanager
    def open(self) -> Iterator[Geometry]:
        """Open the files, for `read`.

        Raises:
            InputError: one is damaged, or its arrays are not of the time series' size.
        """
        with ExitStack() as opened:
            arrays = {}
            if self.path is not None:
                file = opened.enter_context(self.files.open(self.path))
                named = [] if self.grid else ["latitude", "longitude"]
                named += self.vector
                named += (
                    [] if self.angles or self.vector else [INCIDENCE, *([] if self.azimuth is not None else [AZIMUTH])]
                )
                named += [self.height] if has_array(file, self.height) else []
                arrays = {name: self._array(self.path, file, name) for name in named}
            if self.coherence is not None:
                file = opened.enter_context(self.files.open(self.coherence))
                arrays[COHERENCE] = self._array(self.coherence, file, COHERENCE)
            yield replace(self, arrays=arrays)

    def box(self) -> Box | None:
        """Return west, south, east, north of the pixels, beyond 180 across the date line; None without positions."""
        if self.grid is not None:
            corners = [self._on_grid(np.array([0, side - 1]), axis) for axis, side in enumerate(self.shape[::-1])]
            (west, east), (south, north) = (sorted(values.tolist()) for values in corners)
            return west, south, east, north
        with self.open() as opened:
            pixels = opened.read(slice(0, self.shape[0]), slice(0, self.shape[1]))
        y = pixels.y[pixels.known]
        if not len(y):
            return None
        x = pixels.x[pixels.known]
        x = unrolled(x, float(x[0]))
        return float(x.min()), float(y.min()), float(x.max()), float(y.max())

    def read(self, rows: slice, columns: slice) -> Pixels:
        """Read the pixels of a window, row by row.

        Raises:
            InputError: a latitude, longitude, angle or coherence is out of range.
        """
        window = (rows, columns)
        count = (rows.stop - rows.start) * (columns.stop - columns.start)
        if self.grid is None:
            x, y = self._values("longitude", window), self._values("latitude", window)
            known = np.isfinite(x) & np.isfinite(y) & ~((x == 0) & (y == 0))
            self._check("latitude", y, LATITUDES, known, window, " Are latitude and longitude swapped?")
            self._check("longitude", x, LONGITUDES, known, window)
        else:
            row, column = (index.ravel() for index in np.mgrid[rows, columns])
            x, y = self._on_grid(column, 0), self._on_grid(row, 1)
            known = np.ones(count, bool)
        sight, sees = self._line_of_sight(window, count)
        height = np.zeros(count)
        if self.height in self.arrays:
            height = self._values(self.height, window, is_height=True)
        coherence = None
        if COHERENCE in self.arrays:
            values = self._values(COHERENCE, window)
            self._check(COHERENCE, values, (0.0, 1.0), ~np.isnan(values), window)
            coherence = values.astype(np.float32)
        return Pixels(x, y, height, sight, coherence, known & sees)

    def _line_of_sight(self, window: Window, count: int) -> tuple[Floats, NDArray[np.bool_]]:
        if self.angles is not None:
            return np.tile(los_from_heading(*self.angles), (count, 1)), np.ones(count, bool)
        if self.vector:
            return self._given_vector(window)
        incidence = self._values(INCIDENCE, window)
        azimuth = np.full(count, self.azimuth) if self.azimuth is not None else self._values(AZIMUTH, window)
        sees = np.isfinite(incidence) & np.isfinite(azimuth) & (incidence != 0)
        self._check(INCIDENCE, incidence, (2.0, 89.0), sees, window, " Degrees are needed, and these may be radians.")
        self._check(AZIMUTH, azimuth, (-360.0, 360.0), sees, window, " Degrees are needed.")
        if self.is_from_east:
            azimuth = azimuth * np.degrees(1.0) - 90
        if self.azimuth is None:
            azimuth = (azimuth + 180) % 360 - 180
        return los_from_azimuth(np.where(sees, incidence, 0), np.where(sees, azimuth, 0)), sees

    def _given_vector(self, window: Window) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the file's vector (P, 3), up from the other two if it is missing, and (P,) whether it is known."""
        east, north, *rest = (self._values(name, window) for name in self.vector)
        level = np.hypot(east, north)
        up = rest[0] if rest else np.sqrt(np.maximum(1 - level**2, 0))
        sees = np.isfinite(level) & np.isfinite(up) & ~((east == 0) & (north == 0))
        most = 1 + UNIT_TOLERANCE
        self._check(
            self.vector[-1], up, (0.0, most), sees, window, " The vector points from the ground to the satellite."
        )
        name, least = ", ".join(self.vector), 1 - UNIT_TOLERANCE
        self._check(name, np.hypot(level, up), (least, most), sees, window, " It is a length: a unit vector is needed.")
        return np.stack([np.where(sees, east, 0), np.where(sees, north, 0), np.where(sees, up, 1)], axis=1), sees

    def _on_grid(self, index: NDArray[np.intp], axis: int) -> Floats:
        if self.grid is None:
            raise ValueError("pixels in radar coordinates lie on no grid")
        return np.asarray(self.grid.first[axis] + (index + 0.5) * self.grid.step[axis], float)

    def _array(self, path: Path, file: h5py.File, name: str) -> h5py.Dataset:
        values = array(path, file, name, dimensions=2)
        if values.shape != self.shape:
            raise InputError(f"{path}, /{name}: {values.shape} pixels found, the time series has {self.shape}.")
        return values

    def _values(self, name: str, window: Window, is_height: bool = False) -> Floats:
        values = np.array(self.arrays[name][window], float).ravel()
        self.missing.drop_in_column(values, is_height)
        return values

    def _check(
        self,
        name: str,
        values: Floats,
        bounds: tuple[float, float],
        where: NDArray[np.bool_],
        window: Window,
        hint: str = "",
    ) -> None:
        bad = where & ~((values >= bounds[0]) & (values <= bounds[1]))
        if bad.any():
            row, column = divmod(int(np.argmax(bad)), window[1].stop - window[1].start)
            raise InputError(
                f"{self.coherence if name == COHERENCE else self.source}, /{name}, row {window[0].start + row}, column "
                f"{window[1].start + column}: {values[np.argmax(bad)]:g} found, {bounds[0]:g} to {bounds[1]:g} is "
                f"possible.{hint}"
            )
