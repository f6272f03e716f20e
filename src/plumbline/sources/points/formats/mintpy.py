"""Read stacks of MintPy and LiCSBAS, block by block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

from plumbline import params
from plumbline.core.console import warn
from plumbline.core.errors import InputError
from plumbline.sources.crs import GLOBE, Projection, projection
from plumbline.sources.files.opened import AnyFile, OpenedFile, as_file
from plumbline.sources.files.streams import CsvFile
from plumbline.sources.points.epochs import MIN_EPOCHS, average_same_days, find_days, same_day_notes
from plumbline.sources.points.formats.hdf5 import Hdf5Files, array, attributes, has_array
from plumbline.sources.points.formats.mintpy_files import find_geometry
from plumbline.sources.points.formats.mintpy_geometry import Arrays, Geometry, PixelGrid
from plumbline.sources.points.missing import Missing
from plumbline.sources.points.source import (
    HEIGHT_RANGE,
    MAX_DISPLACEMENT_MM,
    OUT_OF_ORDER,
    TO_MM,
    PointSource,
    add_notes,
    describe_displacements,
    stated_angles,
    to_mm,
)
from plumbline.sources.points.track import Track, drop_without_height

SERIES = "timeseries"
BLOCK_POINTS = 32_768
BLOCK_BYTES = 2**27
"""Largest block, if chunks are higher than a block of `BLOCK_POINTS`."""
NO_DATA = "no_data"


def hdf5_format(file: AnyFile) -> str | None:
    """Return the format of an HDF5 file; None if it is not a time series (it may be a file
    beside one).

    Raises:
        InputError: the file is damaged.
    """
    file = as_file(file)
    with file.cached(Hdf5Files).open(file.path) as content:
        if has_array(content, SERIES):
            return "mintpy"
        return "licsbas" if has_array(content, CUMULATIVE) and has_array(content, DATES) else None


def describe_hdf5(file: OpenedFile) -> str | None:
    """Return what MintPy's file without a time series is, and what to give; None of other files."""
    with file.cached(Hdf5Files).open(file.path) as content:
        kind = attributes(content).get("FILE_TYPE")
    advice = "an HDF5 file without /timeseries. Give timeseries*.h5, or S1_*.he5."
    return None if kind is None else f"MintPy's {kind}, {advice}"


def open_mintpy(opened: OpenedFile, about: params.Product, crs: str | None) -> PointSource:
    """Open a time series of MintPy, geocoded or in radar coordinates.

    Geometry and coherence are looked for beside the file and in `inputs/`, by their names
    and their size, or are what `about` names. Blocks are rows of pixels; a point is named
    by its row and column, `y12x345`.

    Raises:
        InputError: a file is damaged, its arrays are not of one size, its days repeat or
            are none, the geometry is not there and not stated in `about`; what concerns
            pixels, where reading gets to them.
    """
    path, files = opened.path, opened.cached(Hdf5Files)
    with files.open(path) as file:
        series = array(path, file, SERIES, dimensions=3, kinds="f")
        order, days, day_notes = _read_epochs(path, file, "date", series)
        attrs = attributes(file)
        geometry = find_geometry(path, files, attrs, series.shape[1:], about)
    notes = [*geometry.notes, *_note_conventions(attrs, about), *day_notes]
    factor = to_mm(about, _read_unit(path, attrs, about))
    return stack_source(Hdf5Stack(path, SERIES, order, days, factor), geometry, about, crs, notes)


@dataclass(frozen=True)
class Hdf5Stack:
    """An array of displacements in an HDF5 file: epochs, rows, columns."""

    path: Path
    array: str
    """Name of the array."""
    order: NDArray[np.intp]
    """(T,) indices of the epochs in time order."""
    days: NDArray[np.datetime64]
    """(T,) in that order; several epochs of one day are averaged."""
    to_mm: float
    """A displacement times this is in mm, positive towards the satellite."""


def stack_source(
    stack: Hdf5Stack, geometry: Geometry, about: params.Product, crs: str | None, notes: list[str]
) -> PointSource:
    """Open the pixels of a stack that have data as points, block by block, with notes on
    how it was read.

    Raises:
        InputError: the CRS does not fit; what concerns pixels, where reading gets to them.
    """
    path, epochs = stack.path, np.unique(stack.days)
    plane = projection(str(path), geometry.crs, crs, geometry.box)
    name = about.track or path.stem

    def blocks() -> Iterator[Track]:
        empty, missing = True, Missing(path, about.missing)
        with geometry.files.open(path) as file:
            series = array(path, file, stack.array, dimensions=3, kinds="f")
            for rows in _row_blocks(series):
                with np.errstate(
                    over="ignore", invalid="ignore"
                ):  # what is too large is refused below
                    values = np.asarray(series[:, rows, :], np.float32)[stack.order]
                    missing.drop(values.reshape(len(values), -1).T)
                    values *= np.float32(stack.to_mm)
                values = average_same_days(values, stack.days, axis=0)
                pixels = geometry.read((rows, slice(0, series.shape[2])))
                series_PT = values.reshape(len(epochs), -1).T
                track = _make_track(
                    pixels,
                    series_PT,
                    source=f"{path}, /{stack.array}",
                    geometry_source=geometry.source,
                    name=name,
                    plane=plane,
                    epochs=epochs,
                )
                empty &= not len(track)
                yield track
        if empty:
            raise InputError(f"{path}: no pixel of it has data. Leave it out.", key="stack.no_data")
        missing.warn_of_codes()

    notes = [*notes, *([OUT_OF_ORDER] if (np.diff(stack.order) < 0).any() else [])]
    origins = {
        "line of sight": geometry.sight,
        "displacements": f"/{stack.array}, {len(epochs)} epochs",
    }
    source = add_notes(
        PointSource(
            name, plane.crs, epochs, blocks, (), origins, describe_displacements(stack.to_mm)
        ),
        path,
        notes,
    )
    for warning in geometry.warnings:
        warn("%s: %s.", path, warning, key="geometry.azimuth_of_gamma")
    return replace(source, notes=(*source.notes, *geometry.warnings))


def _note_conventions(attrs: Mapping[str, str], about: params.Product) -> Iterator[str]:
    """Yield notes on the assumed sign and reference."""
    if about.positive is None:
        yield "displacements are taken as positive towards the satellite, as MintPy writes them"
    if "REF_Y" in attrs and "REF_X" in attrs:
        day = f" and to the day {attrs['REF_DATE'][:20]}" if "REF_DATE" in attrs else ""
        pixel = f"y{attrs['REF_Y'][:20]}x{attrs['REF_X'][:20]}"
        yield f"displacements refer to the pixel {pixel}{day}, by its attributes"
    else:
        yield "its attributes name no pixel that displacements refer to (REF_Y, REF_X)"


def _read_unit(path: Path, attrs: Mapping[str, str], about: params.Product) -> str:
    unit = attrs.get("UNIT", "m").strip().lower()
    if unit not in TO_MM and about.units is None:
        raise InputError(
            f"{path}: its attribute UNIT is {unit[:20]!r}; m, cm or mm is needed. Convert it, or "
            "state what the displacements are in: units: {displacement: m} in ingest.products.",
            key="stack.unknown_unit",
        )
    return unit


def _read_epochs(
    path: Path, file: h5py.File, name: str, series: h5py.Dataset
) -> tuple[NDArray[np.intp], NDArray[np.datetime64], list[str]]:
    """Return the order of the epochs in time, their days in that order, and notes on days
    with several.

    Args:
        path: the file, for messages. file: the same, open.
        name: of the array of days YYYYMMDD.
        series: the displacements.
    """
    count = len(series)
    if not series.size:
        raise InputError(
            f"{path}, {series.name}: no pixel in it ({' x '.join(map(str, series.shape))}). "
            "Leave it out.",
            key="stack.no_pixel",
        )
    stored = array(path, file, name, dimensions=1, kinds="S" if name == "date" else "iuS")[:]
    labels = [
        text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
        for text in stored.tolist()
    ]
    texts = [text.partition("T")[0] for text in labels]  # some have the time behind
    if len(texts) != count:
        raise InputError(
            f"{path}, /{name}: {len(texts)} days found, but {count} epochs.", key="stack.day_count"
        )
    day_of = find_days(f"{path}, /{name}", texts, "%Y%m%d")
    for index, text in enumerate(texts):
        if text not in day_of:
            raise InputError(
                f"{path}, /{name}, number {index + 1}: {text[:40]!r} found, a day YYYYMMDD is "
                "needed.",
                key="stack.not_a_day",
            )
        if labels[index] in labels[:index]:
            raise InputError(
                f"{path}, /{name}: {labels[index]} occurs more than once.", key="stack.repeated_day"
            )
    days = np.array([day_of[text] for text in texts], "datetime64[D]")
    order = np.argsort(days, kind="stable")
    if len(np.unique(days)) < MIN_EPOCHS:
        raise InputError(
            f"{path}, /{name}: {count} epochs of one day found, at least {MIN_EPOCHS} days are "
            "needed.",
            key="epochs.too_few",
        )
    return order, days[order], same_day_notes([labels[index] for index in order], days[order])


def _row_blocks(series: h5py.Dataset) -> Iterator[slice]:
    """Yield the rows of each block: whole chunks if they fit, as a part costs as much as all."""
    count, height, width = series.shape
    step = max(BLOCK_POINTS // width, 1)
    chunk = series.chunks[1] if series.chunks else 1
    whole = -(-step // chunk) * chunk
    if whole * width * count * series.dtype.itemsize <= BLOCK_BYTES:
        step = whole
    for start in range(0, height, step):
        yield slice(start, min(start + step, height))


def _make_track(
    pixels: Arrays,
    series: NDArray[np.float32],
    *,
    source: str,
    geometry_source: str,
    name: str,
    plane: Projection,
    epochs: NDArray[np.datetime64],
) -> Track:
    """Make a track of the pixels (P,) of a block that have data; `series` (P, T) in mm."""
    has_data = ~(np.isnan(series) | (series == 0)).all(axis=1) & pixels["is_known"]
    series, pixels = series[has_data], {name: values[has_data] for name, values in pixels.items()}
    row, column = pixels["row"], pixels["column"]
    bad = np.abs(series) > MAX_DISPLACEMENT_MM  # false for NaN, which is a missing value
    if bad.any():
        point, epoch = np.argwhere(bad)[0]
        raise InputError(
            f"{source}, epoch {epochs[epoch]}, row {row[point]}, column {column[point]}: "
            f"{series[point, epoch]:g} mm found, at most {MAX_DISPLACEMENT_MM:g} mm either way is "
            "possible.",
            key="points.impossible_displacement",
        )
    easting, northing = plane(pixels["x"], pixels["y"])
    # NaN is an unknown height and no fault; pixels of unknown position were left out above.
    height = pixels["height"]
    for quantity, values, is_wrong, key in (
        (f"easting in {plane.crs}", easting, ~np.isfinite(easting), "points.outside_crs"),
        (f"northing in {plane.crs}", northing, ~np.isfinite(northing), "points.outside_crs"),
        (
            "height",
            height,
            (height < HEIGHT_RANGE[0]) | (height > HEIGHT_RANGE[1]),
            "geometry.out_of_range",
        ),
    ):
        if is_wrong.any():
            point = int(np.argmax(is_wrong))
            raise InputError(
                f"{geometry_source}, row {row[point]}, column {column[point]}: {quantity} of "
                f"{values[point]:g} found, which cannot be.",
                key=key,
            )
    track = Track(
        name=name,
        crs=plane.crs,
        epochs=epochs,
        point_id=np.array(
            [f"y{y}x{x}" for y, x in zip(row.tolist(), column.tolist(), strict=True)], object
        ),
        easting=easting,
        northing=northing,
        height=height,
        los=pixels["los"],
        displacement=np.ascontiguousarray(series, np.float32),
        coherence=pixels.get("coherence"),
        dropped={NO_DATA: int(np.count_nonzero(~has_data))},
    )
    return drop_without_height(track)


CUMULATIVE, DATES = "cum", "imdates"
HEIGHT = "hgt"
VECTOR = ("E.geo", "N.geo", "U.geo")
"""Unit vector from ground to satellite."""
CORNER, STEP = ("corner_lon", "corner_lat"), ("post_lon", "post_lat")


def open_licsbas(opened: OpenedFile, about: params.Product, crs: str | None) -> PointSource:
    """Open a time series of LiCSBAS: mm, positive towards the satellite (shorter line of sight).

    Layout: LiCSBAS13_sb_inv.py and LiCSBAS133_write_h5.py. `corner_lat` and `corner_lon`
    are the middle of the first pixel. `coh_avg`, of interferograms, is no temporal
    coherence and is not taken.

    Raises:
        InputError: the file is damaged or not geocoded, its arrays are not of one size, its
            days repeat or are none, or it lacks the line of sight and `about` does not
            state it; what concerns pixels, where reading gets to them.
    """
    path, files = opened.path, opened.cached(Hdf5Files)
    with files.open(path) as file:
        series = array(path, file, CUMULATIVE, dimensions=3, kinds="f")
        order, days, day_notes = _read_epochs(path, file, DATES, series)
        shape = series.shape[1:]
        if not all(has_array(file, name) for name in (*CORNER, *STEP)):
            raise InputError(
                f"{path}: not geocoded: it has no {', '.join((*CORNER, *STEP))}. Process "
                "LiCSAR's geocoded frames.",
                key="stack.not_geocoded",
            )
        first, step = (
            [float(array(path, file, name, dimensions=0)[()]) for name in pair]
            for pair in (CORNER, STEP)
        )
        has_vector = all(has_array(file, name) for name in VECTOR)
        has_heights = has_array(file, HEIGHT)
    if not np.isfinite([*first, *step]).all() or 0 in step:
        raise InputError(
            f"{path}, {', '.join((*CORNER, *STEP))}: {first + step} found, numbers other than 0 "
            "are needed.",
            key="stack.no_step",
        )
    angles = None
    if not has_vector or about.incidence_deg is not None:
        stated = stated_angles(CsvFile(path), about)
        angles = (
            float(stated.incidence),
            float(stated.heading) + (180.0 if stated.look == "left" else 0.0),
        )
    geometry = Geometry(
        shape=shape,
        crs=GLOBE,
        grid=PixelGrid((first[0] - step[0] / 2, first[1] - step[1] / 2), (step[0], step[1])),
        path=path,
        coherence=None,
        angles=angles,
        source=str(path),
        missing=Missing(path, about.missing),
        files=files,
        vector=() if angles else VECTOR,
        height=HEIGHT,
    )
    notes = ["points come without coherence: LiCSBAS gives none of time", *day_notes]
    notes += (
        [] if has_heights else [f"no /{HEIGHT} in it; all points are taken to be of one height"]
    )
    stack = Hdf5Stack(path, CUMULATIVE, order, days, to_mm(about, "mm"))
    return stack_source(stack, geometry, about, crs, notes)
