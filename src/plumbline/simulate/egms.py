"""Writing a track as an EGMS L2b CSV: the product's columns, units and precision.

European Ground Motion Service, product description and format specification. What a producer derives from a history
is derived from it here too: velocity and season from a linear and a yearly term, acceleration and misfit from a
quadratic one besides, temporal coherence from the phase of what the linear term leaves.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray
from pyproj import Transformer

from plumbline.simulate.acquisition import Acquisition, Band
from plumbline.simulate.los import range_and_azimuth
from plumbline.simulate.thermal import DAYS_A_YEAR

Array = NDArray[np.float64]
CRS = "EPSG:3035"
GEOID_M = 44.0
BASE62 = np.frombuffer(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", dtype="S1")


@dataclass(frozen=True)
class Product:
    """The N points of one track as they are delivered."""

    acquisition: Acquisition
    start: np.datetime64
    """First day of the city's observation."""
    place: tuple[float, float]
    """Easting and northing of the city's centre in EPSG:3035, m."""
    east_north: Array
    """(N, 2) delivered position from that centre, m."""
    height: Array
    """(N,) delivered orthometric height, m."""
    displacement: Array
    """(N, T) mm towards the satellite."""
    gnss_velocity: float
    """Velocity of the reference frame along the line of sight, mm a year."""

    @property
    def name(self) -> str:
        """File name as the service gives it."""
        dates = self.dates.astype("datetime64[Y]").astype(str)
        a = self.acquisition
        return f"EGMS_L2b_{a.track:03d}_{a.burst:04d}_IW{a.swath}_VV_{dates[0]}_{dates[-1]}_1.csv"

    @property
    def dates(self) -> NDArray[np.datetime64]:
        """(T,) dates of the epochs."""
        return np.asarray(self.start + self.acquisition.days.astype(int))


def write_egms(rng: np.random.Generator, folder: Path, product: Product, band: Band) -> Path:
    """Write one product into `folder`, sorted by line and pixel as the service does; return its path.

    Raises:
        OSError: the folder cannot be written.
    """
    displacement = np.round(product.displacement, 1)
    position = product.east_north + np.array(product.place)
    longitude, latitude = Transformer.from_crs(CRS, "EPSG:4326", always_xy=True).transform(*position.T)
    a = product.acquisition
    los = a.los(product.east_north)
    pixel, line = _image_position(product, band)
    order = np.lexsort((pixel, line))
    fixed: list[tuple[str, Array, int]] = [
        ("latitude", latitude, 6),
        ("longitude", longitude, 6),
        ("easting", position[:, 0], 2),
        ("northing", position[:, 1], 2),
        ("height_ortho", product.height, 1),
        ("height_ellipse", product.height + GEOID_M, 1),
        ("line", line, 0),
        ("pixel", pixel, 0),
        *derived(rng, displacement, a.days / DAYS_A_YEAR, band.wavelength_mm),
        ("gnss_velocity", np.full(len(position), product.gnss_velocity), 1),
    ]
    geometry: list[tuple[str, Array, int]] = [
        ("incidence_angle", a.incidence(product.east_north), 2),
        ("track_angle", np.full(len(position), a.track_angle), 2),
        ("los_east", los[:, 0], 3),
        ("los_north", los[:, 1], 3),
        ("los_up", los[:, 2], 3),
    ]
    at = 1 + [name for name, _, _ in fixed].index("amplitude_dispersion")
    epochs = np.char.replace(product.dates.astype("datetime64[D]").astype(str), "-", "")
    series = [(str(epoch), displacement[:, i], 1) for i, epoch in enumerate(epochs)]
    columns: dict[str, pa.Array] = {"pid": pa.array(_identifiers(rng, a, len(position)))}
    columns["mp_type"] = _fixed_point(np.zeros(len(position)), 0)
    for name, values, decimals in fixed[:at] + geometry + fixed[at:] + series:
        columns[name] = _fixed_point(values[order], decimals)
    path = folder / product.name
    with pa.OSFile(str(path), "wb") as stream:
        # The header by hand: the writer puts its names between quotes, and products have none.
        stream.write((",".join(columns) + "\n").encode())
        options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="none")
        pyarrow.csv.write_csv(pa.table(columns), stream, options)
    return path


def derived(
    rng: np.random.Generator, displacement: Array, years: Array, wavelength_mm: float
) -> list[tuple[str, Array, int]]:
    """Columns that follow from the histories (N, T) at times `years` (T,): name, values (N,), decimals."""
    wave = 2 * np.pi * years
    time = years - years.mean()
    yearly = [np.ones_like(time), time, np.cos(wave), np.sin(wave)]
    linear_fit = _fit(np.stack(yearly[:2], axis=1), displacement)
    yearly_fit = _fit(np.stack(yearly, axis=1), displacement)
    full_fit = _fit(np.stack([*yearly, time**2], axis=1), displacement)
    season = np.hypot(yearly_fit.value[2], yearly_fit.value[3])
    season_error = np.hypot(yearly_fit.error[2], yearly_fit.error[3]) / np.sqrt(2)
    phase = 4 * np.pi / wavelength_mm * linear_fit.residual
    coherence = np.hypot(np.cos(phase).mean(axis=1), np.sin(phase).mean(axis=1))
    # Amplitudes are not simulated; steady phase goes with steady amplitude.
    dispersion = np.clip(0.45 - 0.4 * (coherence - 0.76) + rng.normal(0, 0.06, len(coherence)), 0.08, 1.5)
    return [
        ("rmse_ts", full_fit.rmse, 1),
        ("temporal_coherence", coherence, 2),
        ("amplitude_dispersion", dispersion, 2),
        ("mean_velocity", yearly_fit.value[1], 1),
        ("mean_velocity_std", yearly_fit.error[1], 1),
        ("acceleration", 2 * full_fit.value[4], 2),
        ("acceleration_std", 2 * full_fit.error[4], 2),
        ("seasonality", season, 1),
        ("seasonality_std", season_error, 1),
    ]


@dataclass(frozen=True)
class _Fit:
    value: Array
    error: Array
    residual: Array
    rmse: Array


def _fit(design: Array, displacement: Array) -> _Fit:
    """Least squares of histories (N, T) on a design (T, P): values and standard errors (P, N), residuals (N, T)."""
    value = np.linalg.lstsq(design, displacement.T, rcond=None)[0]
    residual = displacement - (design @ value).T
    rmse = np.asarray(np.sqrt((residual**2).mean(axis=1)), float)
    spread = np.sqrt(np.diag(np.linalg.pinv(design.T @ design)))
    return _Fit(np.asarray(value, float), spread[:, None] * rmse, np.asarray(residual, float), rmse)


def _image_position(product: Product, band: Band) -> tuple[Array, Array]:
    """Pixel (in slant range) and line (in azimuth) of each point in the radar image, whole numbers."""
    in_range, in_azimuth = range_and_azimuth(product.acquisition.heading_deg) @ product.east_north.T
    slant = in_range * np.sin(np.deg2rad(product.acquisition.incidence_deg))
    azimuth_m, slant_m = band.pixel_m
    line, pixel = np.floor(in_azimuth / azimuth_m), np.floor(slant / slant_m)
    return pixel - pixel.min() + 1000, line - line.min() + 100


def _identifiers(rng: np.random.Generator, acquisition: Acquisition, count: int) -> list[str]:
    """Unique identifiers of ten letters and digits, ascending; two tracks share none."""
    number = np.cumsum(rng.integers(1, 30, count)) + (acquisition.track * 1000 + acquisition.burst) * 62**6
    digits = number[:, None] // 62 ** np.arange(9, -1, -1, dtype=np.int64) % 62
    text = np.ascontiguousarray(BASE62[digits]).view("S10").ravel().astype(str)
    return [str(item) for item in text]


def _fixed_point(values: Array, decimals: int) -> pa.Array:
    """Numbers with exactly `decimals` decimals, written as they are: no exponent, no rounding noise, no -0.0."""
    scaled = np.rint(np.asarray(values, float) * 10**decimals).astype(np.int64)
    # A decimal128 is a little-endian 128-bit integer: the low word, and the sign spread over the high one.
    words = np.ascontiguousarray(np.stack([scaled, scaled >> 63], axis=1))
    return pa.Array.from_buffers(pa.decimal128(18, decimals), len(scaled), [None, pa.py_buffer(words)])
