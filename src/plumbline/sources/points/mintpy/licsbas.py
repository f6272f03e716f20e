"""Read LiCSBAS's cum.h5 and cum_filt.h5: series, heights and line of sight in one file."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

from plumbline import params
from plumbline.core.errors import InputError
from plumbline.sources.crs import GLOBE
from plumbline.sources.files.archive import CsvFile
from plumbline.sources.points.epochs import find_days
from plumbline.sources.points.mintpy.geometry import Geometry, Grid
from plumbline.sources.points.mintpy.hdf5 import array, has_array, open_hdf5
from plumbline.sources.points.mintpy.series import Stack, check_shape, stack_source
from plumbline.sources.points.reader_base import MIN_EPOCHS, PointSource, to_mm
from plumbline.sources.points.stated import stated_angles

CUMULATIVE, DATES = "cum", "imdates"
HEIGHT = "hgt"
VECTOR = ("E.geo", "N.geo", "U.geo")
"""Unit vector from ground to satellite."""
CORNER, STEP = ("corner_lon", "corner_lat"), ("post_lon", "post_lat")


def is_licsbas(path: Path) -> bool:
    """Return whether an HDF5 file is a time series of LiCSBAS.

    Raises:
        InputError: the file is damaged.
    """
    with open_hdf5(path) as file:
        return has_array(file, CUMULATIVE) and has_array(file, DATES)


def open_licsbas(path: Path, about: params.Product, crs: str | None) -> PointSource:
    """Open a time series of LiCSBAS: mm, positive towards the satellite (shorter line of sight).

    Layout: LiCSBAS13_sb_inv.py and LiCSBAS133_write_h5.py. `corner_lat` and `corner_lon` are the middle of the first
    pixel. `coh_avg`, of interferograms, is no temporal coherence and is not taken.

    Raises:
        InputError: the file is damaged or not geocoded, its arrays are not of one size, its days repeat or are none, or
            it lacks the line of sight and `about` does not say it; what concerns pixels, where reading gets to them.
    """
    with open_hdf5(path) as file:
        series = array(path, file, CUMULATIVE, dimensions=3, kinds="f")
        check_shape(path, series)
        days = _days(path, file, series.shape[0])
        shape = series.shape[1:]
        if not all(has_array(file, name) for name in (*CORNER, *STEP)):
            raise InputError(
                f"{path}: not geocoded: it has no {', '.join((*CORNER, *STEP))}. Process LiCSAR's geocoded frames."
            )
        first, step = ([float(array(path, file, name, dimensions=0)[()]) for name in pair] for pair in (CORNER, STEP))
        has_vector = all(has_array(file, name) for name in VECTOR)
        has_heights = has_array(file, HEIGHT)
    if not np.isfinite([*first, *step]).all() or 0 in step:
        raise InputError(
            f"{path}, {', '.join((*CORNER, *STEP))}: {first + step} found, numbers other than 0 are needed."
        )
    angles = None
    if not has_vector or about.incidence_deg is not None:
        stated = stated_angles(CsvFile(path), about)
        angles = float(stated.incidence), float(stated.heading) + (180.0 if stated.look == "left" else 0.0)
    geometry = Geometry(
        shape=shape,
        crs=GLOBE,
        grid=Grid((first[0] - step[0] / 2, first[1] - step[1] / 2), (step[0], step[1])),
        path=path,
        coherence=None,
        angles=angles,
        azimuth=None,
        source=str(path),
        height=HEIGHT,
        vector=() if angles else VECTOR,
    )
    order = np.argsort(days)
    notes = ["points come without coherence: LiCSBAS gives none of time"]
    notes += [] if has_heights else [f"no /{HEIGHT} in it; all points are taken to be of one height"]
    stack = Stack(path, CUMULATIVE, order, days[order], to_mm(about, "mm"))
    return stack_source(stack, geometry, about, crs, notes)


def _days(path: Path, file: h5py.File, count: int) -> NDArray[np.datetime64]:
    read = array(path, file, DATES, dimensions=1, kinds="iuS")[:]
    texts = [value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value) for value in read.tolist()]
    if len(texts) != count or count < MIN_EPOCHS:
        raise InputError(
            f"{path}, /{DATES}: {len(texts)} days found and {count} epochs in /{CUMULATIVE}; as many, and at least "
            f"{MIN_EPOCHS}, are needed."
        )
    known = find_days(f"{path}, /{DATES}", texts, "%Y%m%d")
    for index, text in enumerate(texts):
        if text not in known or text in texts[:index]:
            raise InputError(
                f"{path}, /{DATES}, number {index + 1}: {text[:40]!r} found, a day YYYYMMDD that stands there once is "
                "needed."
            )
    return np.array([known[text] for text in texts], "datetime64[D]")
