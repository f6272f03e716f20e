"""Reader of the European Ground Motion Service's L2a and L2b products, both generations of their header.

Format: EEA, EGMS Product Description and Format Specification. Displacements in mm, positive towards the satellite;
`los_*` points from ground to satellite; positions in ETRS89-LAEA (EPSG:3035).
"""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from plumbline.console import log
from plumbline.errors import InputError
from plumbline.sources.archive import Product, find_csv
from plumbline.sources.points import Track
from plumbline.sources.table import fail_at, read_columns, read_header

CRS = "EPSG:3035"
LOS = ("los_east", "los_north", "los_up")
REQUIRED = ("pid", "easting", "northing", *LOS)
HEIGHTS = ("height_ortho", "height")
"""Name of the height column: since the 2019-2023 release, and before."""
COHERENCE = "temporal_coherence"
RANGES = {
    # Europe from the Azores to the Caucasus, Cyprus to Svalbard; degrees or another projection fall outside.
    "easting": (500_000.0, 8_500_000.0),
    "northing": (500_000.0, 7_500_000.0),
    "height": (-1_000.0, 10_000.0),
    COHERENCE: (0.0, 1.0),
}
MAX_DISPLACEMENT_MM = 100_000.0
"""C-band interferometry cannot follow metres of motion, let alone 100 m: a larger value is a damaged cell."""
UNIT_TOLERANCE = 0.005
"""Of the line of sight's length: components rounded to three decimals are off by up to 0.001."""
MIN_EPOCHS = 2
FIRST_YEAR, LAST_YEAR = 1990, 2100


def is_egms(header: list[str]) -> bool:
    """Whether columns of this name make it an EGMS product, be it of L2 or L3, complete or not."""
    known = {"mp_type", "easting", "northing", "rmse", "rmse_ts", "mean_velocity", "track_angle", COHERENCE, *LOS}
    return len(known.intersection(header)) >= 3 and ("pid" in header or "mp_type" in header)


def read_egms(path: Path) -> Track:
    """Read an EGMS L2a or L2b product, csv or zip. The order of columns does not matter.

    Epochs are sorted. Empty cells of a series become NaN. Of points with one `pid`, the first is kept.

    Raises:
        InputError: the file cannot be read, is L3 (ortho), lacks a column, or a cell is not what it has to be: the
            message names the line in the file, the column and what stands there.
    """
    product = find_csv(path)
    return parse_egms(product, read_header(product))


def parse_egms(product: Product, header: list[str]) -> Track:
    """As `read_egms`, with the csv found and its header read."""
    height = _check_header(product, header)
    epochs = _epochs(product, header)
    types = {"pid": pa.string(), height: pa.float64()}
    types |= dict.fromkeys((*REQUIRED[1:], *([COHERENCE] if COHERENCE in header else [])), pa.float64())
    types |= dict.fromkeys(epochs, pa.float32())
    table = read_columns(product, header, types)
    if not len(table):
        raise InputError(f"{product}: it has a header, but no points. Download it again, or leave it out.")
    easting = _numbers(product, table, "easting", RANGES["easting"])
    northing = _numbers(product, table, "northing", RANGES["northing"])
    coherence = None
    if COHERENCE in header:
        coherence = _numbers(product, table, COHERENCE, RANGES[COHERENCE]).astype(np.float32)
    track = Track(
        name=product.path.stem,
        crs=CRS,
        epochs=np.array([f"{name[:4]}-{name[4:6]}-{name[6:]}" for name in epochs], "datetime64[D]"),
        point_id=_identifiers(product, table),
        easting=easting,
        northing=northing,
        height=_numbers(product, table, height, RANGES["height"]),
        los=_line_of_sight(product, table),
        displacement=_series(product, table, epochs),
        coherence=coherence,
    )
    return _without_duplicates(product, track)


def _check_header(product: Product, header: list[str]) -> str:
    if not any(name in header for name in LOS) and "incidence_angle" not in header and is_egms(header):
        raise InputError(
            f"{product}: an EGMS L3 (ortho) product: a 100 m grid without line of sight. L2a or L2b is needed."
        )
    missing = [name for name in REQUIRED if name not in header]
    height = next((name for name in HEIGHTS if name in header), None)
    if height is None:
        missing.append(" or ".join(HEIGHTS))
    if missing or height is None:
        shown = ", ".join(name for name in header if not _is_day(name))
        raise InputError(
            f"{product}, line 1: column {', '.join(missing)} is missing; the header has {shown[:600] or 'none'}. "
            "An EGMS L2a or L2b product is needed."
        )
    return height


def _is_day(name: str) -> bool:
    return re.fullmatch(r"[0-9]{8}", name) is not None


def _epochs(product: Product, header: list[str]) -> list[str]:
    """Names of the columns YYYYMMDD, ascending."""
    days = sorted(name for name in header if _is_day(name))
    for name in days:
        try:
            year = date(int(name[:4]), int(name[4:6]), int(name[6:])).year
        except ValueError:
            year = 0
        if not FIRST_YEAR <= year <= LAST_YEAR:
            raise InputError(f"{product}, line 1: column {name} is no date YYYYMMDD.")
    if len(days) < MIN_EPOCHS:
        raise InputError(
            f"{product}, line 1: {len(days)} columns named by a date YYYYMMDD found, the displacements of at least "
            f"{MIN_EPOCHS} epochs are needed."
        )
    return days


def _numbers(product: Product, table: pa.Table, column: str, bounds: tuple[float, float]) -> NDArray[np.float64]:
    values = np.asarray(table[column].to_numpy(), float)
    low, high = bounds
    bad = ~((values >= low) & (values <= high))
    if bad.any():
        row = int(np.argmax(bad))
        found = "no value" if np.isnan(values[row]) else f"{values[row]:.10g}"
        fail_at(product, row, column, found, f"a number from {low:g} to {high:g} is needed")
    return values


def _identifiers(product: Product, table: pa.Table) -> NDArray[np.object_]:
    names = np.asarray(table["pid"].to_pylist(), object)
    empty = names == ""
    if empty.any():
        fail_at(product, int(np.argmax(empty)), "pid", "no value", "an identifier is needed")
    return names


def _line_of_sight(product: Product, table: pa.Table) -> NDArray[np.float64]:
    los = np.stack([_numbers(product, table, name, (-1.001, 1.001)) for name in LOS], axis=1)
    length = np.linalg.norm(los, axis=1)
    bad = np.abs(length - 1) > UNIT_TOLERANCE
    if bad.any():
        row = int(np.argmax(bad))
        fail_at(product, row, ", ".join(LOS), f"a vector of length {length[row]:.3f}", "a unit vector is needed")
    down = los[:, 2] <= 0
    if down.any():
        row = int(np.argmax(down))
        fail_at(product, row, LOS[2], f"{los[row, 2]:g}", "a vector from ground to satellite points up")
    return los


def _series(product: Product, table: pa.Table, epochs: list[str]) -> NDArray[np.float32]:
    displacement = np.empty((len(table), len(epochs)), np.float32)
    for index, name in enumerate(epochs):
        displacement[:, index] = table[name].to_numpy()
        bad = np.abs(displacement[:, index]) > MAX_DISPLACEMENT_MM  # false for NaN, which is a missing value
        if bad.any():
            row = int(np.argmax(bad))
            wanted = f"at most {MAX_DISPLACEMENT_MM:g} mm either way is possible"
            fail_at(product, row, name, f"{displacement[row, index]:g}", wanted)
    return displacement


def _without_duplicates(product: Product, track: Track) -> Track:
    _, first = np.unique(track.point_id.astype(str), return_index=True)
    if len(first) == len(track):
        return track
    rows = np.zeros(len(track), bool)
    rows[first] = True
    repeated = track.point_id[int(np.argmin(rows))]
    log.warning(
        "%s: %d points repeat the pid of an earlier one (%s for one) and are left out.",
        product, len(track) - len(first), repeated,
    )  # fmt: skip
    return track.keep(rows, "duplicate_id")
