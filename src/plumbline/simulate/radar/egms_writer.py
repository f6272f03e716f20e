"""Writing a track as an EGMS L2b CSV: the product's columns, units and precision.

European Ground Motion Service, product description and format specification. The columns that a producer derives from
a history are derived from it here too (`derived`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plumbline.simulate.radar.csv_cells import Bytes, history_cells, number_cells, rows, word_cells
from plumbline.simulate.radar.derived import derived
from plumbline.sources.egms import CRS
from plumbline.sources.epochs import DAYS_A_YEAR
from plumbline.sources.grid import GLOBE, transformer

Array = NDArray[np.float64]
GEOID_M = 44.0
BASE62 = np.frombuffer(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", dtype="S1")
FIRST_COLUMNS = (
    "pid,mp_type,latitude,longitude,easting,northing,height_ortho,height_ellipse,line,pixel,rmse_ts,temporal_coherence,"
    "amplitude_dispersion,incidence_angle,track_angle,los_east,los_north,los_up,mean_velocity,mean_velocity_std,"
    "acceleration,acceleration_std,seasonality,seasonality_std,gnss_velocity"
)


@dataclass(frozen=True)
class Product:
    """What holds for all points of a product."""

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
class Points:
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

    def take(self, index: NDArray[np.intp]) -> Points:
        """The points `index`."""
        return Points(**{name: values[index] for name, values in vars(self).items()})


def egms_rows(rng: np.random.Generator, product: Product, points: Points, displacement: Array) -> bytes:
    """Lines of the CSV.

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
        *derived(rng, displacement, product.years, product.wavelength_mm),
        ("gnss_velocity", np.full(len(displacement), product.gnss_velocity), 1),
    ]
    columns |= {name: number_cells(values, decimals) for name, values, decimals in fixed}
    return rows([*(columns[name] for name in FIRST_COLUMNS.split(",")), history_cells(displacement)])


def identifiers(number: NDArray[np.int64]) -> NDArray[np.bytes_]:
    """(N,) identifiers of ten letters and digits, in the order of the numbers (N,) from 0 to below 62^10."""
    digits = number[:, None] // 62 ** np.arange(9, -1, -1, dtype=np.int64) % 62
    return np.ascontiguousarray(BASE62[digits]).view("S10").ravel()
