"""Read position, view and coherence of the pixels of a stack from the files beside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plumbline.core.errors import InputError
from plumbline.sources.crs import LATITUDES, LONGITUDES, Box, unwrap_longitudes
from plumbline.sources.points.formats.hdf5 import Hdf5Files, array, has_array
from plumbline.sources.points.missing import Missing
from plumbline.sources.points.source import UNIT_TOLERANCE
from plumbline.sources.points.track import los_from_azimuth, los_from_heading

Floats = NDArray[np.float64]
Arrays = dict[str, NDArray[Any]]
"""Name -> values (P, ...) of the pixels of a window, row by row."""
INCIDENCE, AZIMUTH, COHERENCE = "incidenceAngle", "azimuthAngle", "temporalCoherence"
VECTOR = ("los_east", "los_north", "los_up")
"""Unit vector from ground to satellite, as ISCE's static layers and OPERA's have it; up may
be missing."""
Window = tuple[slice, slice]
BLOCK_ROWS = 256
"""Number of rows of pixels read in one step for their extent."""


@dataclass(frozen=True)
class PixelGrid:
    """Corner and step of a geocoded raster."""

    first: tuple[float, float]
    step: tuple[float, float]

    def places(self, index: NDArray[np.intp], axis: int) -> Floats:
        """Return the middles of pixels: x of columns (axis 0), or y of rows (axis 1)."""
        return np.asarray(self.first[axis] + (index + 0.5) * self.step[axis], float)


@dataclass(frozen=True)
class Geometry:
    """Files beside a time series, and stated values that replace them."""

    shape: tuple[int, int]
    crs: str
    """CRS of the pixels' positions."""
    grid: PixelGrid | None
    """Grid of a geocoded raster. None: radar coordinates; `path` has each pixel's position."""
    path: Path | None
    coherence: Path | None
    angles: tuple[float, float] | None
    """Incidence and heading of all pixels, in degrees, where they are stated."""
    source: str
    """Name of the geometry in messages."""
    missing: Missing
    """Codes of missing values in these arrays."""
    files: Hdf5Files = field(default_factory=Hdf5Files)
    azimuth: float | None = None
    """Direction to the satellite, where the geometry file has none, in degrees."""
    is_from_east: bool = False
    """True if `/azimuthAngle` is GAMMA's `lv_phi`: radians, anti-clockwise from east."""
    vector: tuple[str, ...] = ()
    """Arrays of the line of sight, east, north and perhaps up, where there are no angles."""
    height: str = "height"
    """Name of the array of heights."""
    notes: tuple[str, ...] = ()
    """Decisions about these files, as `PointSource.notes`."""
    warnings: tuple[str, ...] = ()
    """Properties that differ from the usual meaning of these files."""

    @property
    def sight(self) -> str:
        """Source of the line of sight, for messages."""
        if self.angles is not None:
            return f"incidence {self.angles[0]:g}, heading {self.angles[1]:g}, as stated"
        if self.vector:
            return f"{', '.join(self.vector)} of {self.source}"
        azimuth = (
            f"direction {self.azimuth:.0f} by HEADING"
            if self.azimuth is not None
            else f"/{AZIMUTH}"
        )
        return f"/{INCIDENCE} and {azimuth} of {self.source}"

    def box(self) -> Box | None:
        """Return west, south, east, north of the pixels, beyond 180 across the date line;
        None without positions."""
        if self.grid is not None:
            corners = [
                self.grid.places(np.array([0, side - 1]), axis)
                for axis, side in enumerate(self.shape[::-1])
            ]
            (west, east), (south, north) = (sorted(values.tolist()) for values in corners)
            return west, south, east, north
        boxes = []
        about: float | None = None
        for start in range(0, self.shape[0], BLOCK_ROWS):
            pixels = self.read(
                (slice(start, min(start + BLOCK_ROWS, self.shape[0])), slice(0, self.shape[1]))
            )
            x, y = pixels["x"][pixels["is_known"]], pixels["y"][pixels["is_known"]]
            if len(x):
                about = float(x[0]) if about is None else about
                x = unwrap_longitudes(x, about)
                boxes.append((x.min(), y.min(), -x.max(), -y.max()))
        if not boxes:
            return None
        west, south, east, north = np.min(boxes, axis=0)
        return float(west), float(south), float(-east), float(-north)

    def read(self, window: Window) -> Arrays:
        """Return `row`, `column`, `x`, `y`, `height`, `los` and perhaps `coherence` of the
        pixels of a window.

        `is_known` is true where place and line of sight are.

        Raises:
            InputError: a file is damaged, an array is not of the time series' size, or a
                latitude, longitude, angle or coherence is out of range.
        """
        values = self._read_arrays(window)
        row, column = (index.ravel() for index in np.mgrid[window])
        is_known = np.ones(len(row), bool)
        if self.grid is None:
            x, y = values["longitude"], values["latitude"]
            is_known = np.isfinite(x) & np.isfinite(y) & ~((x == 0) & (y == 0))
            self._check_range(
                "latitude",
                y,
                LATITUDES,
                where=is_known,
                window=window,
                hint=" Are latitude and longitude swapped?",
            )
            self._check_range("longitude", x, LONGITUDES, where=is_known, window=window)
        else:
            x, y = self.grid.places(column, 0), self.grid.places(row, 1)
        los, has_sight = self._line_of_sight(values, window, len(row))
        height = values.get(self.height, np.zeros(len(row)))
        pixels = {"row": row, "column": column, "x": x, "y": y, "height": height, "los": los}
        if COHERENCE in values:
            self._check_range(
                COHERENCE,
                values[COHERENCE],
                (0.0, 1.0),
                where=~np.isnan(values[COHERENCE]),
                window=window,
            )
            pixels["coherence"] = values[COHERENCE].astype(np.float32)
        return {**pixels, "is_known": is_known & has_sight}

    def _read_arrays(self, window: Window) -> Arrays:
        """Read the arrays (P,) that are needed, NaN where a pixel has no value."""
        names = [] if self.grid else ["latitude", "longitude"]
        if self.angles is None:
            names += self.vector or ([INCIDENCE, AZIMUTH] if self.azimuth is None else [INCIDENCE])
        values: Arrays = {}
        for path, wanted in ((self.path, [*names, self.height]), (self.coherence, [COHERENCE])):
            if path is None:
                continue
            with self.files.open(path) as file:
                for name in wanted:
                    if name == self.height and not has_array(file, name):
                        continue
                    stored = array(path, file, name, dimensions=2)
                    if stored.shape != self.shape:
                        raise InputError(
                            f"{path}, /{name}: {stored.shape} pixels found, the time series has "
                            f"{self.shape}.",
                            key="geometry.other_size",
                        )
                    values[name] = np.array(stored[window], float).ravel()
                    self.missing.drop_in_column(values[name], name == self.height)
        return values

    def _line_of_sight(
        self, values: Arrays, window: Window, count: int
    ) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the line of sight (P, 3), and whether it is known (P,)."""
        if self.angles is not None:
            return np.tile(los_from_heading(*self.angles), (count, 1)), np.ones(count, bool)
        if self.vector:
            return self._read_vector(values, window)
        incidence, azimuth = (
            values[INCIDENCE],
            values.get(AZIMUTH, np.full(count, self.azimuth, float)),
        )
        is_known = np.isfinite(incidence) & np.isfinite(azimuth) & (incidence != 0)
        self._check_range(
            INCIDENCE,
            incidence,
            (2.0, 89.0),
            where=is_known,
            window=window,
            hint=" Degrees are needed, and these may be radians.",
        )
        self._check_range(
            AZIMUTH,
            azimuth,
            (-360.0, 360.0),
            where=is_known,
            window=window,
            hint=" Degrees are needed.",
        )
        if self.is_from_east:
            azimuth = azimuth * np.degrees(1.0) - 90
        if self.azimuth is None:
            azimuth = (azimuth + 180) % 360 - 180
        return los_from_azimuth(
            np.where(is_known, incidence, 0), np.where(is_known, azimuth, 0)
        ), is_known

    def _read_vector(self, values: Arrays, window: Window) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the file's vector (P, 3), up from the other two if it is missing, and (P,)
        whether it is known."""
        east, north, *stored_up = (values[name] for name in self.vector)
        level = np.hypot(east, north)
        up = stored_up[0] if stored_up else np.sqrt(np.maximum(1 - level**2, 0))
        is_known = np.isfinite(level) & np.isfinite(up) & ~((east == 0) & (north == 0))
        longest = 1 + UNIT_TOLERANCE
        self._check_range(
            self.vector[-1],
            up,
            (0.0, longest),
            where=is_known,
            window=window,
            hint=" The vector points from the ground to the satellite.",
        )
        name, shortest = ", ".join(self.vector), 1 - UNIT_TOLERANCE
        self._check_range(
            name,
            np.hypot(level, up),
            (shortest, longest),
            where=is_known,
            window=window,
            hint=" It is a length: a unit vector is needed.",
        )
        return np.stack(
            [np.where(is_known, east, 0), np.where(is_known, north, 0), np.where(is_known, up, 1)],
            axis=1,
        ), is_known

    def _check_range(
        self,
        name: str,
        values: Floats,
        bounds: tuple[float, float],
        *,
        where: NDArray[np.bool_],
        window: Window,
        hint: str = "",
    ) -> None:
        is_bad = where & ~((values >= bounds[0]) & (values <= bounds[1]))
        if is_bad.any():
            row, column = divmod(int(np.argmax(is_bad)), window[1].stop - window[1].start)
            raise InputError(
                f"{self.coherence if name == COHERENCE else self.source}, /{name}, row "
                f"{window[0].start + row}, column {window[1].start + column}: "
                f"{values[np.argmax(is_bad)]:g} found, {bounds[0]:g} to {bounds[1]:g} is "
                f"possible.{hint}",
                key="geometry.out_of_range",
            )
