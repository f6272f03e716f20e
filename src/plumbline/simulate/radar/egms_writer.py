"""Write EGMS files, fast.

A cell is a row of bytes in which 0 means nothing. A history's cells come from a table of
all numbers with one decimal; other columns are made digit by digit. Ten times as fast as
formatting one number after the other.

European Ground Motion Service, product description and format specification. The columns
that a producer derives from a history are derived from it here too: velocity and season
from a linear and a yearly term, acceleration and misfit from a quadratic one besides,
temporal coherence from the phase of what the linear term leaves.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from plumbline.core.arrays import Array
from plumbline.sources.crs import GLOBE, transformer
from plumbline.sources.points.epochs import DAYS_A_YEAR
from plumbline.sources.points.formats.egms import CRS

Bytes = NDArray[np.uint8]
LARGEST_TENTHS = 99_999
"""Largest tenths of a history, either way: with the comma, a cell is one word of eight bytes."""
SEPARATOR, END = ord(","), ord("\n")


@lru_cache(maxsize=1)
def _table() -> NDArray[np.uint64]:
    """Return the cells of all numbers with one decimal, then the empty cell; each ends with
    a separator."""
    numbers = range(-LARGEST_TENTHS, LARGEST_TENTHS + 1)
    cells = [f"{number / 10:.1f},".rjust(8, "\0") for number in numbers] + [",".rjust(8, "\0")]
    return np.frombuffer("".join(cells).encode(), np.uint64)


def history_cells(values: Array) -> Bytes:
    """Return cells (N, 8 T) of histories (N, T) with one decimal; empty for NaN and beyond
    9,999.9 either way."""
    tenths = np.rint(values * 10)
    is_in_table = np.abs(tenths) <= LARGEST_TENTHS  # false for NaN
    index = np.where(is_in_table, tenths + LARGEST_TENTHS, 2 * LARGEST_TENTHS + 1).astype(np.int64)
    return _table()[index].view(np.uint8)


def number_cells(values: Array, decimals: int) -> Bytes:
    """Return cells (N, W) of finite numbers (N,), exactly `decimals` decimals: no exponent,
    rounding noise or -0.0."""
    scaled = np.rint(np.asarray(values, float) * 10**decimals).astype(np.int64)
    remainder, negative = np.abs(scaled), scaled < 0
    digits = max(len(str(int(remainder.max(initial=0)))), decimals + 1)
    cells = np.zeros((len(remainder), 2 + digits + (decimals > 0)), np.uint8)
    cells[:, -1] = SEPARATOR
    column = cells.shape[1] - 2
    for place in range(digits):
        if place == decimals and decimals:
            cells[:, column] = ord(".")
            column -= 1
        remainder, digit = np.divmod(remainder, 10)
        # Leading zeros are no text, but for the one before the point.
        shown = (np.abs(scaled) >= 10**place) | (place <= decimals)
        cells[:, column] = np.where(shown, ord("0") + digit, 0)
        column -= 1
    cells[:, 0] = np.where(negative, ord("-"), 0)
    return cells


def word_cells(words: NDArray[np.bytes_]) -> Bytes:
    """Return cells (N, W) of ASCII texts (N,) without commas."""
    width = words.dtype.itemsize
    cells = np.zeros((len(words), width + 1), np.uint8)
    cells[:, :width] = np.ascontiguousarray(words).view(np.uint8).reshape(len(words), width)
    cells[:, -1] = SEPARATOR
    return cells


def rows(cells: list[Bytes]) -> bytes:
    """Return the lines of a CSV of N rows, from the cells of its columns."""
    whole = np.concatenate(cells, axis=1)
    whole[:, -1] = END
    return whole.tobytes().translate(None, b"\0")


DECIMALS = {
    "rmse_ts": 1,
    "temporal_coherence": 2,
    "amplitude_dispersion": 2,
    "mean_velocity": 1,
    "mean_velocity_std": 1,
    "acceleration": 2,
    "acceleration_std": 2,
    "seasonality": 1,
    "seasonality_std": 1,
}
LINEAR, YEARLY, FULL = 2, 4, 5
"""Number of columns of the design in a fit: each fit adds columns to the one before."""
LEAST_EPOCHS = 8
"""Smallest number of values to which the five terms are fitted; other histories get zeros."""


def derived_columns(
    rng: np.random.Generator, displacement: Array, years: Array, wavelength_mm: float
) -> list[tuple[str, Array, int]]:
    """Derive columns from the histories (N, T) at times `years` (T,): name, values (N,), decimals.

    Missing values (NaN) are left out of the fits.
    """
    values = {name: np.zeros(len(displacement)) for name in DECIMALS}
    is_observed = np.isfinite(displacement)
    # Histories with the same gaps share their fits' design; those of most products have none.
    _, first, pattern = np.unique(
        np.packbits(is_observed, axis=1), axis=0, return_index=True, return_inverse=True
    )
    for number, at in enumerate(first):
        epochs = is_observed[at]
        if epochs.sum() < LEAST_EPOCHS:
            continue
        rows = np.flatnonzero(pattern.ravel() == number)
        part = displacement[rows] if epochs.all() else displacement[np.ix_(rows, epochs)]
        for name, fitted in _fits(part, years[epochs], wavelength_mm).items():
            values[name][rows] = fitted
    # Amplitudes are not simulated; steady phase goes with steady amplitude.
    steady = 0.45 - 0.4 * (values["temporal_coherence"] - 0.76)
    values["amplitude_dispersion"] = np.clip(steady + rng.normal(0, 0.06, len(steady)), 0.08, 1.5)
    return [(name, values[name], decimals) for name, decimals in DECIMALS.items()]


def _fits(displacement: Array, years: Array, wavelength_mm: float) -> dict[str, Array]:
    wave, time = 2 * np.pi * years, years - years.mean()
    design = np.stack([np.ones_like(time), time, np.cos(wave), np.sin(wave), time**2], axis=1)
    # One orthonormal basis for all fits: the first columns of it span the first columns of
    # the design.
    basis, triangle = np.linalg.qr(design)
    # einsum and not a product of matrices: its sums do not depend on how many threads a
    # library takes.
    along = np.einsum("nt,tp->pn", displacement, basis)
    power = np.einsum("nt,nt->n", displacement, displacement)

    def fit(columns: int) -> tuple[Array, Array, Array]:
        corner = np.linalg.inv(triangle[:columns, :columns])
        rmse = np.sqrt(np.maximum(power - (along[:columns] ** 2).sum(axis=0), 0) / len(years))
        return (
            np.einsum("pq,qn->pn", corner, along[:columns]),
            np.sqrt((corner**2).sum(axis=1))[:, None] * rmse,
            rmse,
        )

    yearly, yearly_error, _ = fit(YEARLY)
    full, full_error, rmse = fit(FULL)
    residual = displacement - np.einsum("pn,tp->nt", along[:LINEAR], basis[:, :LINEAR])
    # In 64 bits: of 32 bits, one cell in a hundred thousand would depend on the processor.
    phase = 4 * np.pi / wavelength_mm * residual
    return {
        "rmse_ts": rmse,
        "temporal_coherence": np.hypot(np.cos(phase).mean(axis=1), np.sin(phase).mean(axis=1)),
        "mean_velocity": yearly[1],
        "mean_velocity_std": yearly_error[1],
        "acceleration": 2 * full[4],
        "acceleration_std": 2 * full_error[4],
        "seasonality": np.hypot(yearly[2], yearly[3]),
        # Root mean square of the errors of cosine and sine.
        "seasonality_std": np.hypot(yearly_error[2], yearly_error[3]) / np.sqrt(2),
    }


GEOID_M = 44.0
BASE62 = np.frombuffer(
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", dtype="S1"
)
FIRST_COLUMNS = (
    "pid,mp_type,latitude,longitude,easting,northing,height_ortho,height_ellipse,line,pixel,"
    "rmse_ts,temporal_coherence,"
    "amplitude_dispersion,incidence_angle,track_angle,los_east,los_north,los_up,mean_velocity,"
    "mean_velocity_std,acceleration,acceleration_std,seasonality,seasonality_std,gnss_velocity"
)


@dataclass(frozen=True)
class EgmsProduct:
    """Properties that all points of a product share."""

    file_name: str
    dates: NDArray[np.datetime64]
    """(T,) of the epochs, ascending."""
    wavelength_mm: float
    gnss_velocity: float = 0.0
    """Velocity of the reference frame along the line of sight, mm a year."""

    @property
    def years(self) -> Array:
        """(T,) from the first epoch."""
        return np.asarray((self.dates - self.dates[0]).astype(int) / DAYS_A_YEAR, float)

    @property
    def header(self) -> bytes:
        """First line of the file."""
        epochs = [str(date).replace("-", "") for date in self.dates.astype("datetime64[D]")]
        return (",".join([FIRST_COLUMNS, *epochs]) + "\n").encode()


@dataclass(frozen=True)
class EgmsPoints:
    """N points of a product as they are delivered."""

    number: NDArray[np.int64]
    """(N,) from which the identifier is made."""
    position: Array
    """(N, 2) easting and northing in EPSG:3035, m."""
    height: Array
    """(N,) orthometric height, m."""
    los: Array
    """(N, 3) from ground to satellite."""
    incidence: Array
    """(N,) degrees."""
    track_angle: Array
    """(N,) degrees."""
    line: Array
    """(N,) place in the radar image along azimuth, a whole number."""
    pixel: Array
    """(N,) place along slant range, a whole number."""

    def take(self, index: NDArray[np.intp]) -> EgmsPoints:
        """Select the points `index`."""
        return EgmsPoints(**{name: values[index] for name, values in vars(self).items()})


def egms_rows(
    rng: np.random.Generator, product: EgmsProduct, points: EgmsPoints, displacement: Array
) -> bytes:
    """Return the lines of the CSV.

    Args:
        rng: for the dispersion of the amplitude, which is not simulated.
        product: of which the points are.
        points: N points.
        displacement: (N, T) mm towards the satellite; NaN becomes an empty cell.
    """
    displacement = np.round(displacement, 1)
    longitude, latitude = transformer(CRS, GLOBE).transform(*points.position.T)
    columns: dict[str, Bytes] = {
        "pid": word_cells(identifiers(points.number)),
        "mp_type": number_cells(np.zeros(len(displacement)), 0),
    }
    fixed: list[tuple[str, Array, int]] = [
        ("latitude", latitude, 6),
        ("longitude", longitude, 6),
        ("easting", points.position[:, 0], 2),
        ("northing", points.position[:, 1], 2),
        ("height_ortho", points.height, 1),
        ("height_ellipse", points.height + GEOID_M, 1),
        ("line", points.line, 0),
        ("pixel", points.pixel, 0),
        ("incidence_angle", points.incidence, 2),
        ("track_angle", points.track_angle, 2),
        ("los_east", points.los[:, 0], 3),
        ("los_north", points.los[:, 1], 3),
        ("los_up", points.los[:, 2], 3),
        *derived_columns(rng, displacement, product.years, product.wavelength_mm),
        ("gnss_velocity", np.full(len(displacement), product.gnss_velocity), 1),
    ]
    columns |= {name: number_cells(values, decimals) for name, values, decimals in fixed}
    return rows(
        [*(columns[name] for name in FIRST_COLUMNS.split(",")), history_cells(displacement)]
    )


def identifiers(number: NDArray[np.int64]) -> NDArray[np.bytes_]:
    """Return identifiers (N,) of ten letters and digits, in the order of the numbers (N,)
    from 0 to below 62^10."""
    digits = number[:, None] // 62 ** np.arange(9, -1, -1, dtype=np.int64) % 62
    return np.ascontiguousarray(BASE62[digits]).view("S10").ravel()
