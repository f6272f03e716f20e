"""Find the files of a MintPy time series, and determine the convention of their angles."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from plumbline import params
from plumbline.core.errors import InputError
from plumbline.sources.crs import GLOBE
from plumbline.sources.points.formats.hdf5 import (
    Hdf5Files,
    array,
    attributes,
    has_array,
    read_number,
)
from plumbline.sources.points.formats.mintpy_geometry import (
    AZIMUTH,
    COHERENCE,
    INCIDENCE,
    VECTOR,
    Geometry,
    PixelGrid,
)
from plumbline.sources.points.line_of_sight import PASSES, pass_of
from plumbline.sources.points.missing import Missing

FOLDERS = (".", "inputs", "../inputs", "..")
"""Folders in which MintPy leaves the files, relative to the time series."""
GEOMETRIES = ("geometryGeo.h5", "geo_geometryRadar.h5", "geometryRadar.h5")
COHERENCES = ("temporalCoherence.h5", "geo_temporalCoherence.h5")
VIEWS = ((INCIDENCE,), VECTOR[:2])
"""Sets of arrays, each of which gives the line of sight."""
STATE_ANGLES = f"Write incidence_deg and heading_deg (ingest.products) into {params.PARAMS_FILE}."
RIGHT_LOOKING = -1.0
"""Value of MintPy's ANTENNA_SIDE for a look to the right."""
ANGLES_APART_DEG = 30.0
"""Directions to the satellite by azimuthAngle and by HEADING further apart than this
contradict each other."""


def find_geometry(
    path: Path,
    files: Hdf5Files,
    attrs: Mapping[str, str],
    shape: tuple[int, int],
    about: params.Product,
) -> Geometry:
    """Find and inspect the files that belong to the time series `path` with the attributes `attrs`.

    Args:
        path: the time series. files: its open file, to which the others are added.
        attrs: its attributes. shape: its rows and columns. about: what is stated of it.

    Raises:
        InputError: a file that is named is missing; there is no geometry of the right size,
            and `about` does not replace it; the CRS of a raster in metres is not stated.
    """
    grid, crs = _read_grid(path, attrs, about)
    geometry = _find_companion(
        path, files, about.geometry, usual=GEOMETRIES, wanted=VIEWS, shape=shape
    )
    coherence = _find_companion(
        path, files, about.coherence, usual=COHERENCES, wanted=((COHERENCE,),), shape=shape
    )
    angles = None
    if about.incidence_deg is not None and about.heading_deg is not None:
        angles = about.incidence_deg, about.heading_deg + (180.0 if about.look == "left" else 0.0)
    if geometry is None and (grid is None or angles is None):
        raise InputError(
            f"{path}: no geometry file of its size ({shape[0]} x {shape[1]}) beside it or in "
            f"inputs/ ({', '.join(GEOMETRIES)}) with /{INCIDENCE}, or /{VECTOR[0]} and "
            f"/{VECTOR[1]}. Put it there, or write its name (ingest.products: geometry) or, for a "
            f"geocoded file, incidence_deg and heading_deg into {params.PARAMS_FILE}.",
            key="geometry.missing",
        )
    notes = _note_files(path, files, geometry, coherence, about)
    source = geometry or path
    sight: dict[str, Any] = {}
    if angles is None and geometry is not None:
        sight = _vector_fields(path, geometry, files) or _angle_fields(path, geometry, files, attrs)
    notes += sight.pop("notes", ())
    missing = Missing(source, about.missing)
    return Geometry(
        shape,
        crs,
        grid,
        geometry,
        coherence,
        angles,
        str(source),
        missing,
        files,
        notes=tuple(notes),
        **sight,
    )


def _note_files(
    path: Path,
    files: Hdf5Files,
    geometry: Path | None,
    coherence: Path | None,
    about: params.Product,
) -> list[str]:
    """Return notes on files that were chosen without being named, and on what they lack."""
    notes = []
    lacks_height = "all points are taken to be of one height"
    lacks_coherence = f"no {COHERENCES[0]} of its size beside it; points come without coherence"
    for quantity, named, file, lacks in (
        ("its geometry", about.geometry, geometry, f"no geometry file beside it; {lacks_height}"),
        ("coherence", about.coherence, coherence, lacks_coherence),
    ):
        if file is None:
            notes.append(lacks)
        elif named is None and file != path:
            notes.append(
                f"{quantity} is taken from {os.path.relpath(file, path.parent)}, found beside it"
            )
    if geometry is not None:
        with files.open(geometry) as content:
            if not has_array(content, "height"):
                notes.append(f"no /height in {geometry.name}; {lacks_height}")
    return notes


def _read_grid(
    path: Path, attrs: Mapping[str, str], about: params.Product
) -> tuple[PixelGrid | None, str]:
    if "X_FIRST" not in attrs:
        return None, about.crs or GLOBE
    first, step = (
        (read_number(path, attrs, f"X_{end}"), read_number(path, attrs, f"Y_{end}"))
        for end in ("FIRST", "STEP")
    )
    if not step[0] or not step[1]:
        raise InputError(
            f"{path}, attributes X_STEP, Y_STEP: 0 found, the size of a pixel is needed.",
            key="stack.no_step",
        )
    grid = PixelGrid(first, step)
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
        f"{path}: its pixels are in {attrs['X_UNIT']}, but its CRS is unknown (no EPSG, no "
        f"UTM_ZONE). Write these lines into {params.PARAMS_FILE}:\n"
        "ingest:\n"
        "  products:\n"
        f"    {path.name!r}: {{crs: EPSG:32631}}  # yours",
        key="stack.unknown_crs",
    )


def _find_companion(
    path: Path,
    files: Hdf5Files,
    named: str | None,
    *,
    usual: tuple[str, ...],
    wanted: tuple[tuple[str, ...], ...],
    shape: tuple[int, int],
) -> Path | None:
    """Return the named file, or the first of the usual ones with all arrays of one of
    `wanted`, of this size."""
    if named is not None:
        chosen = path.parent / named
        if not chosen.is_file():
            raise InputError(
                f"{chosen}: no such file; it is the one in params.yaml for {path.name}.",
                key="file.missing",
            )
        return chosen
    for candidate in (path, *(path.parent / folder / name for folder in FOLDERS for name in usual)):
        if not candidate.is_file():
            continue
        with files.open(candidate) as file:
            for names in wanted:
                if all(has_array(file, name) for name in names) and all(
                    array(candidate, file, name, dimensions=2).shape == shape for name in names
                ):
                    return candidate
    return None


def _vector_fields(path: Path, geometry: Path, files: Hdf5Files) -> dict[str, Any]:
    """Return the fields of `Geometry` on arrays of the line of sight; none if the file has
    an incidence angle."""
    with files.open(geometry) as file:
        if has_array(file, INCIDENCE) or not all(has_array(file, name) for name in VECTOR[:2]):
            return {}
        vector = VECTOR if has_array(file, VECTOR[2]) else VECTOR[:2]  # up may be missing
    place = os.path.relpath(geometry, path.parent)
    return {
        "vector": vector,
        "notes": (f"the line of sight is that of {', '.join(vector)} in {place}",),
    }


def _angle_fields(
    path: Path, geometry: Path, files: Hdf5Files, attrs: Mapping[str, str]
) -> dict[str, Any]:
    """Return the fields of `Geometry` on the viewing direction, and notes, by its arrays
    and by HEADING.

    Raises:
        InputError: neither gives it, or they contradict each other, also if the array is GAMMA's.
    """
    with files.open(geometry) as file:
        attrs = {**attributes(file), **attrs}
        azimuth = _median_of(geometry, file, AZIMUTH)
    if "HEADING" not in attrs:
        if azimuth is None:
            raise InputError(
                f"{geometry}: the direction to the satellite is unknown (no array /{AZIMUTH}, no "
                f"attribute HEADING). {STATE_ANGLES}",
                key="geometry.no_azimuth",
            )
        return {}
    heading = read_number(path, attrs, "HEADING")
    flight = attrs.get("ORBIT_DIRECTION", "").strip().lower()
    if flight in PASSES and flight != pass_of(heading):
        raise InputError(
            f"{path}: its attribute ORBIT_DIRECTION is {flight}, but HEADING {heading:g} is "
            f"{pass_of(heading)}. {STATE_ANGLES}",
            key="geometry.contradictory_orbit",
        )
    antenna_side = (
        read_number(path, attrs, "ANTENNA_SIDE") if "ANTENNA_SIDE" in attrs else RIGHT_LOOKING
    )
    # MintPy, utils0.heading2azimuth_angle: 90 degrees to the right of the flight, seen from
    # the ground; or to the left.
    by_heading = (90.0 if antenna_side == RIGHT_LOOKING else -90.0) - heading
    if azimuth is None:
        note = (
            f"no /{AZIMUTH} in {geometry.name}; the direction to the satellite is that by "
            f"HEADING {heading:g}"
        )
        return {"azimuth": by_heading % 360, "notes": (note,)}
    if (
        not np.isfinite(azimuth)
        or not azimuth
        or _angle_between(azimuth, by_heading) <= ANGLES_APART_DEG
    ):
        return {}
    if (
        abs(azimuth) <= 2 * np.pi
        and _angle_between(np.degrees(azimuth) - 90, by_heading) <= ANGLES_APART_DEG
    ):
        note = (
            f"/{AZIMUTH} of {azimuth:.4g} in {geometry.name} is taken as GAMMA's (radians, "
            "anti-clockwise from east)"
        )
        return {"is_from_east": True, "warnings": (f"{note}: HEADING {heading:g} confirms it",)}
    raise InputError(
        f"{geometry}: /{AZIMUTH} of {azimuth:.4g} and HEADING {heading:g} ({by_heading % 360:.0f} "
        "by MintPy's convention: to the satellite, anti-clockwise from north, in degrees) "
        f"contradict each other. Correct one. Or: {STATE_ANGLES}",
        key="geometry.contradictory_azimuth",
    )


def _median_of(path: Path, file: h5py.File, name: str) -> float | None:
    """Return the median of an array without 0 and NaN, which programs write beside the
    image; None without array."""
    if not has_array(file, name):
        return None
    values = array(path, file, name, dimensions=2)
    rows, columns = (max(1, side // 64) for side in values.shape)
    sample = np.asarray(values[::rows, ::columns], float)
    nonzero = sample[np.isfinite(sample) & (sample != 0)]
    return float(np.median(nonzero)) if len(nonzero) else 0.0


def _angle_between(first_deg: float, second_deg: float) -> float:
    return float(abs((first_deg - second_deg + 180) % 360 - 180))
