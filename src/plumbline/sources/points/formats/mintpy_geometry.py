"""Find position, view and coherence beside a stack of MintPy."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from plumbline import params
from plumbline.core.errors import InputError
from plumbline.sources.crs import GLOBE, LATITUDES, LONGITUDES, Box, is_globe, unrolled
from plumbline.sources.points.formats.hdf5 import Hdf5Files, array, attributes, has_array, read_number
from plumbline.sources.points.line_of_sight import PASSES, pass_of
from plumbline.sources.points.missing import drop_codes, drop_height_codes
from plumbline.sources.points.source import UNIT_TOLERANCE
from plumbline.sources.points.track import los_from_azimuth, los_from_heading

Floats = NDArray[np.float64]
INCIDENCE, AZIMUTH, COHERENCE = "incidenceAngle", "azimuthAngle", "temporalCoherence"
VECTOR = ("los_east", "los_north", "los_up")
"""Unit vector from ground to satellite, as ISCE's static layers and OPERA's have it; up may be missing."""
Window = tuple[slice, slice]


@dataclass(frozen=True)
class Pixels:
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
class Convention:
    """Convention of a file for an angle: times `scale`, plus `offset_deg`, it is MintPy's, in degrees."""

    scale: float = 1.0
    offset_deg: float = 0.0
    called: str = "MintPy's"

    def degrees(self, values: Floats) -> Floats:
        """Convert angles to MintPy's convention, from -180 to 180."""
        turned = values * self.scale + self.offset_deg
        return np.asarray((turned + 180) % 360 - 180)


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
    azimuth_as: Convention = Convention()
    """How `/azimuthAngle` is written."""
    incidence_to_deg: float = 1.0
    """What `/incidenceAngle` times this is in degrees."""
    warnings: tuple[str, ...] = ()
    """What was recognised against the usual meaning of these files."""
    notes: tuple[str, ...] = ()
    """What was decided about these files; as of `PointSource`."""
    height: str = "height"
    """Name of the array of heights."""
    vector: tuple[str, ...] = ()
    """Arrays of the line of sight, east, north and perhaps up, where there are no angles."""
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
        boxes = []
        about: float | None = None
        with self.open() as opened:
            for start in range(0, self.shape[0], 256):
                pixels = opened.read(slice(start, min(start + 256, self.shape[0])), slice(0, self.shape[1]))
                x, y = pixels.x[pixels.known], pixels.y[pixels.known]
                if len(x):
                    about = float(x[0]) if about is None else about
                    x = unrolled(x, about)
                    boxes.append((x.min(), y.min(), -x.max(), -y.max()))
        if not boxes:
            return None
        west, south, east, north = np.min(boxes, axis=0)
        return float(west), float(south), float(-east), float(-north)

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
            height = self._values(self.height, window)
            drop_height_codes(height)
        coherence = None
        if COHERENCE in self.arrays:
            values = self._values(COHERENCE, window)
            drop_codes(values)
            self._check(COHERENCE, values, (0.0, 1.0), ~np.isnan(values), window)
            coherence = values.astype(np.float32)
        return Pixels(x, y, height, sight, coherence, known & sees)

    def _line_of_sight(self, window: Window, count: int) -> tuple[Floats, NDArray[np.bool_]]:
        if self.angles is not None:
            return np.tile(los_from_heading(*self.angles), (count, 1)), np.ones(count, bool)
        if self.vector:
            return self._given_vector(window)
        incidence = self._values(INCIDENCE, window) * self.incidence_to_deg
        azimuth = np.full(count, self.azimuth) if self.azimuth is not None else self._values(AZIMUTH, window)
        sees = np.isfinite(incidence) & np.isfinite(azimuth) & (incidence != 0)
        self._check(INCIDENCE, incidence, (1.0, 89.0), sees, window, " Degrees are needed.")
        self._check(AZIMUTH, azimuth, (-360.0, 360.0), sees, window, " Degrees are needed.")
        if self.azimuth is None:
            azimuth = self.azimuth_as.degrees(azimuth)
        return los_from_azimuth(np.where(sees, incidence, 0), np.where(sees, azimuth, 0)), sees

    def _given_vector(self, window: Window) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the file's vector (P, 3), up from the other two if it is missing, and (P,) whether it is known."""
        east, north, *rest = (self._values(name, window) for name in self.vector)
        sees = np.isfinite(east) & np.isfinite(north) & ~((east == 0) & (north == 0))
        level = np.hypot(east, north)
        up = rest[0] if rest else np.sqrt(np.maximum(1 - level**2, 0))
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

    def _values(self, name: str, window: Window) -> Floats:
        return np.asarray(self.arrays[name][window], float).ravel()

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


FOLDERS = (".", "inputs", "../inputs", "..")
"""Where MintPy leaves the files, from the time series."""
GEOMETRIES = ("geometryGeo.h5", "geo_geometryRadar.h5", "geometryRadar.h5")
COHERENCES = ("temporalCoherence.h5", "geo_temporalCoherence.h5")
VIEWS = ((INCIDENCE,), VECTOR[:2])
"""Arrays that say how the satellite looked."""
STATE_ANGLES = f"Write incidence_deg and heading_deg (ingest.products) into {params.PARAMS_FILE}."
RIGHT_LOOKING = -1.0
"""MintPy's ANTENNA_SIDE."""
ANGLES_APART_DEG = 30.0
"""Directions to the satellite by azimuthAngle and by HEADING further apart than this contradict each other."""
FITS_DEG = 15.0
"""Within which another convention agrees with HEADING."""
CLEARLY_DEG = 5.0
"""By which it agrees better than any other."""
LEAST_INCIDENCE_DEG = 1.6
"""No satellite looks so steeply: these are radians."""
DEGREES = float(np.degrees(1))
CONVENTIONS = tuple(
    Convention(scale * sign, offset, f"{unit}, {direction}, {target}")
    for scale, unit in ((1.0, "degrees"), (DEGREES, "radians"))
    for sign, zero, direction in (
        (1.0, 0.0, "anti-clockwise from north"),
        (-1.0, 0.0, "clockwise from north"),
        (1.0, -90.0, "anti-clockwise from east"),
    )
    for offset, target in ((zero, "to the satellite"), (zero + 180.0, "from the satellite"))
)
"""Ways in which programs write the direction, each as what makes it MintPy's."""


def find_geometry(
    path: Path, files: Hdf5Files, attrs: Mapping[str, str], shape: tuple[int, int], about: params.Product
) -> Geometry:
    """Find and inspect the files that belong to the time series `path` with the attributes `attrs`.

    Args:
        path: the time series. files: it, open; what belongs to it is opened in the same. attrs: its attributes.
        shape: its rows and columns. about: what is stated of it.

    Raises:
        InputError: a file that is named is missing; no geometry of the right size is there and `about` does not say
            what it would; the CRS of a raster in metres is not said.
    """
    grid, crs = _grid(path, attrs, about)
    geometry = _companion(path, files, about.geometry, GEOMETRIES, VIEWS, shape)
    coherence = _companion(path, files, about.coherence, COHERENCES, ((COHERENCE,),), shape)
    angles = None
    if about.incidence_deg is not None and about.heading_deg is not None:
        angles = about.incidence_deg, about.heading_deg + (180.0 if about.look == "left" else 0.0)
    if geometry is None and (grid is None or angles is None):
        raise InputError(
            f"{path}: no geometry file of its size ({shape[0]} x {shape[1]}) beside it or in inputs/ "
            f"({', '.join(GEOMETRIES)}).{_without_view(path, files, shape)} Put it there, or write its name "
            "(ingest.products: geometry) or, for a geocoded file, incidence_deg and heading_deg into "
            f"{params.PARAMS_FILE}."
        )
    notes = _chosen(path, files, geometry, coherence, about)
    vector = () if angles is not None or geometry is None else _vector(geometry, files)
    look: dict[str, Any] = {"azimuth": None, "vector": vector, "notes": ()}
    if vector:
        place = os.path.relpath(geometry or path, path.parent)
        look["notes"] = (f"the line of sight is that of {', '.join(vector)} in {place}",)
    elif angles is None and geometry is not None:
        look |= _look(path, geometry, files, attrs)
    look["notes"] = (*notes, *look["notes"])
    found = Geometry(shape, crs, grid, geometry, coherence, angles, source=str(geometry or path), files=files, **look)
    if grid is not None and is_globe(str(path), crs):
        _check_degrees(path, found)
    return found


def _chosen(
    path: Path, files: Hdf5Files, geometry: Path | None, coherence: Path | None, about: params.Product
) -> list[str]:
    """Return notes on files that were chosen without being named, and on what they lack."""
    notes = []
    if geometry is None:
        notes.append("no geometry file beside it; all points are taken to be of one height")
    else:
        if about.geometry is None and geometry != path:
            notes.append(f"its geometry is taken from {os.path.relpath(geometry, path.parent)}, found beside it")
        with files.open(geometry) as file:
            if not has_array(file, "height"):
                notes.append(f"no /height in {geometry.name}; all points are taken to be of one height")
    if coherence is None:
        notes.append(f"no {COHERENCES[0]} of its size beside it; points come without coherence")
    elif about.coherence is None and coherence != path:
        notes.append(f"coherence is taken from {os.path.relpath(coherence, path.parent)}, found beside it")
    return notes


def _check_degrees(path: Path, geometry: Geometry) -> None:
    box = geometry.box()
    if box is not None:
        west, south, east, north = box
        if not (LATITUDES[0] <= south <= north <= LATITUDES[1] and LONGITUDES[0] <= west <= east <= LONGITUDES[1]):
            raise InputError(
                f"{path}, attributes X_FIRST, Y_FIRST, X_STEP, Y_STEP: longitudes {west:g} to {east:g} and latitudes "
                f"{south:g} to {north:g} found, which cannot be. Are latitude and longitude swapped?"
            )


def _grid(path: Path, attrs: Mapping[str, str], about: params.Product) -> tuple[Grid | None, str]:
    if "X_FIRST" not in attrs:
        return None, about.crs or GLOBE
    first, step = (
        (read_number(path, attrs, f"X_{end}"), read_number(path, attrs, f"Y_{end}")) for end in ("FIRST", "STEP")
    )
    if not step[0] or not step[1]:
        raise InputError(f"{path}, attributes X_STEP, Y_STEP: 0 found, the size of a pixel is needed.")
    grid = Grid(first, step)
    if about.crs is not None:
        return grid, about.crs
    if attrs.get("X_UNIT", "degrees").lower().startswith("deg"):
        return grid, GLOBE
    zone = attrs.get("UTM_ZONE", "")
    if "EPSG" in attrs:
        return grid, f"EPSG:{attrs['EPSG'].upper().removeprefix('EPSG:')}"
    if zone[:-1].isdigit() and zone[-1:].upper() in ("N", "S"):
        return grid, f"EPSG:{(32600 if zone[-1].upper() == 'N' else 32700) + int(zone[:-1])}"
    raise InputError(
        f"{path}: its pixels are in {attrs['X_UNIT']}, but neither EPSG nor UTM_ZONE says of which CRS. Write "
        f"these lines into {params.PARAMS_FILE}:\ningest:\n  products:\n    {path.name!r}: {{crs: EPSG:32631}}  # yours"
    )


def _companion(
    path: Path,
    files: Hdf5Files,
    named: str | None,
    usual: tuple[str, ...],
    wanted: tuple[tuple[str, ...], ...],
    shape: tuple[int, int],
) -> Path | None:
    """Return the named file, or the first of the usual ones with all arrays of one of `wanted`, of this size."""
    if named is not None:
        chosen = path.parent / named
        if not chosen.is_file():
            raise InputError(f"{chosen}: no such file; params.yaml names it for {path.name}.")
        return chosen
    for candidate in _candidates(path, usual):
        with files.open(candidate) as file:
            for names in wanted:
                found = all(has_array(file, name) for name in names)
                if found and all(array(candidate, file, name, dimensions=2).shape == shape for name in names):
                    return candidate
    return None


def _candidates(path: Path, usual: tuple[str, ...]) -> Iterator[Path]:
    """Yield the time series itself, and the files of the usual names beside it."""
    yield path
    yield from (found for folder in FOLDERS for name in usual if (found := path.parent / folder / name).is_file())


def _vector(geometry: Path, files: Hdf5Files) -> tuple[str, ...]:
    """Return the names of the arrays of the line of sight, if the file lacks an incidence angle; up may be missing."""
    with files.open(geometry) as file:
        if has_array(file, INCIDENCE) or not all(has_array(file, name) for name in VECTOR[:2]):
            return ()
        return VECTOR if has_array(file, VECTOR[2]) else VECTOR[:2]


def _without_view(path: Path, files: Hdf5Files, shape: tuple[int, int]) -> str:
    """Return a message if a file has the right size but lacks viewing angles; else empty."""
    for candidate in _candidates(path, GEOMETRIES):
        with files.open(candidate) as file:
            if has_array(file, "height") and array(candidate, file, "height", dimensions=2).shape == shape:
                return (
                    f" {os.path.relpath(candidate, path.parent)} has that size, but neither /{INCIDENCE} nor "
                    f"/{VECTOR[0]} and /{VECTOR[1]}; it holds {', '.join(list(file.keys())[:8])}."
                )
    return ""


def _look(path: Path, geometry: Path, files: Hdf5Files, attrs: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of `Geometry` on the viewing direction, and notes, by its arrays and by HEADING.

    Raises:
        InputError: neither says it, or they contradict each other in a way that is no known convention.
    """
    with files.open(geometry) as file:
        attrs = {**attributes(file), **attrs}
        azimuth = _middle(geometry, file, AZIMUTH)
        incidence = _middle(geometry, file, INCIDENCE)
    found: dict[str, Any] = {"notes": (), "warnings": ()}
    if incidence is not None and 0 < incidence < LEAST_INCIDENCE_DEG:
        found["incidence_to_deg"] = DEGREES
        found["warnings"] += (f"/{INCIDENCE} of {incidence:.3f} in {geometry.name} is taken as radians",)
    if "HEADING" not in attrs:
        if azimuth is None:
            raise InputError(
                f"{geometry}: neither an array /{AZIMUTH} nor an attribute HEADING says from where the satellite "
                f"looked. {STATE_ANGLES}"
            )
        return found
    heading = read_number(path, attrs, "HEADING")
    flown = attrs.get("ORBIT_DIRECTION", "").strip().lower()
    if flown in PASSES and flown != pass_of(heading):
        raise InputError(
            f"{path}: its attribute ORBIT_DIRECTION says {flown}, HEADING {heading:g} is {pass_of(heading)}. "
            f"{STATE_ANGLES}"
        )
    side = read_number(path, attrs, "ANTENNA_SIDE") if "ANTENNA_SIDE" in attrs else RIGHT_LOOKING
    # MintPy, utils0.heading2azimuth_angle: 90 degrees to the right of the flight, seen from the ground; or to the left.
    by_heading = (90.0 if side == RIGHT_LOOKING else -90.0) - heading
    if azimuth is None:
        said = f"no /{AZIMUTH} in {geometry.name}; the direction to the satellite is that by HEADING {heading:g}"
        return found | {"azimuth": by_heading % 360, "notes": (said,)}
    if not np.isfinite(azimuth) or not azimuth or _apart(azimuth, by_heading) <= ANGLES_APART_DEG:
        return found
    apart = {
        one: _apart(float(one.degrees(np.array(azimuth))), by_heading)
        for one in CONVENTIONS
        if abs(one.scale) == 1 or abs(azimuth) <= 2 * np.pi
    }
    best, second = sorted(apart, key=lambda one: apart[one])[:2]
    if apart[best] > FITS_DEG or apart[second] - apart[best] < CLEARLY_DEG:
        raise InputError(
            f"{geometry}: /{AZIMUTH} of {azimuth:.4g} and HEADING {heading:g} ({by_heading % 360:.0f} by MintPy's "
            f"convention: to the satellite, anti-clockwise from north, in degrees) contradict each other. Correct one. "
            f"Or: {STATE_ANGLES}"
        )
    said = f"/{AZIMUTH} of {azimuth:.4g} in {geometry.name} is taken as {best.called}: HEADING {heading:g} confirms it"
    return found | {"azimuth_as": best, "warnings": (*found["warnings"], said)}


def _middle(path: Path, file: h5py.File, name: str) -> float | None:
    """Return the median of an array without 0 and NaN, which programs write beside the image; None without array."""
    if not has_array(file, name):
        return None
    values = array(path, file, name, dimensions=2)
    rows, columns = (max(1, side // 64) for side in values.shape)
    some = np.asarray(values[::rows, ::columns], float)
    known = some[np.isfinite(some) & (some != 0)]
    return float(np.median(known)) if len(known) else 0.0


def _apart(one: float, other: float) -> float:
    return float(abs((one - other + 180) % 360 - 180))
