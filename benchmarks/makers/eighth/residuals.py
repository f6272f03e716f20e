"""Borrowed noise: what real series do besides a smooth course and their neighbours.

A robust fit of each series takes off level, line, parabola and annual course, and with them the slowest part of its
noise. So what its fit departs from those of its neighbours is given back: for a part movements of its own, for the
rest noise. How much of it noise can be is told by the residuals' own covariance in time; what is given back lies in the
middle (geometrically) between that and the whole departure.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from benchmarks.makers.products import DIRECTIONS, read_product
from plumbline.core.errors import InputError

Array = NDArray[np.float64]
NEAR = 60
NEAR_M = 250.0
"""Neighbours whose median fit is what ground does: at most so many, at most so far away."""
REVISIT_DAYS = 6
COVARIANCE_LAGS, OWN_LAGS = 50, 40
"""Longest lag, in revisits, of the covariance of what is left by the fit, and of the noise before it."""
GIVEN_BACK = 0.5
"""Exponent between what noise explains of departures (0) and all of them (1)."""
MANY, MANY_M = 8, 30.0
"""Series of each track around a place that is like a town."""
CHOICE = 25
"""A scatterer has one of so many nearest series."""
FIT = 5
"""Coefficients."""


class Residuals(NamedTuple):
    """Of one track."""

    place: Array
    """(R, 2) easting, northing, m."""
    epochs: pd.DatetimeIndex
    series: NDArray[np.float32]
    """(R, E) mm"""


class Borrowed:
    """Places of a real town, one for each building, and the residuals of its series."""

    def __init__(self, paths: Sequence[Path]) -> None:
        """Read EGMS L2b products, an ascending and a descending one.

        Raises:
            InputError: a path is no such product with values at all epochs, or they have no place in common.
        """
        self.tracks = [read_residuals(*pair) for pair in zip(paths, DIRECTIONS, strict=True)]
        first = self.tracks[0].place
        around = [cKDTree(track.place).query_ball_point(first, MANY_M, return_length=True) for track in self.tracks]
        self._built = first[np.min(around, axis=0) >= MANY]
        if not len(self._built):
            raise InputError(
                f"--residuals: {' and '.join(map(str, paths))} have no place with {MANY} series of each within "
                f"{MANY_M:g} m. Give products of one town."
            )

    def settle(self, generator: Generator, buildings: int) -> None:
        """Draw a place in the real town for each building."""
        self._centre = generator.choice(self._built, buildings) + generator.normal(0, 3, (buildings, 2))
        self._sign = generator.choice([-1.0, 1.0], buildings)

    def noise(self, track: int, owner: NDArray[np.intp], offset: Array) -> Array:
        """(P, E) mm for scatterers of buildings `owner` (P,) at (P, 2) m from their centres.

        Scatterers that stand together get series that stand together, so what neighbours share in reality they share
        here. No two of a building have the same series, as long as there are others near.
        """
        place, _, series = self.tracks[track]
        near = cKDTree(place).query(self._centre[owner] + offset, CHOICE)[1]
        taken: list[set[int]] = [set() for _ in self._centre]
        chosen = np.empty(len(owner), int)
        for point, (building, candidates) in enumerate(zip(owner.tolist(), near.tolist(), strict=True)):
            chosen[point] = next((one for one in candidates if one not in taken[building]), candidates[-1])
            taken[building].add(int(chosen[point]))
        return np.asarray(series[chosen] * self._sign[owner][:, None])


def read_residuals(path: Path, direction: str) -> Residuals:
    """Read an EGMS L2b product, and take off what is no noise.

    Raises:
        InputError: as `read_product`, or it is too small, or has no value at some epoch.
    """
    place, epochs, series = _read(path, direction)
    years = (epochs - pd.Timestamp("2020-01-01")).days.to_numpy() / 365.25
    years = years - years.mean()
    turn = 2 * np.pi * years
    parabola = years**2 - (years**2).mean()
    design = np.column_stack([np.ones_like(years), years, parabola, np.cos(turn), np.sin(turn)])
    fitted = robust_fit(design, series)
    left = series - design @ fitted
    near = cKDTree(place).query(place, NEAR, distance_upper_bound=NEAR_M)[1]
    missing = np.full((FIT, 1), np.nan)  # what the tree gives where there are fewer
    departure = fitted - np.nanmedian(np.column_stack([fitted, missing])[:, near], axis=2)

    spread = left.std(0)
    spread = spread / np.sqrt((spread**2).mean())
    seen = 1.4826 * np.median(abs(departure / spread), axis=1)
    kept = np.minimum(1, explained_spread(design, years, left) / seen) ** (1 - GIVEN_BACK)
    kept[0] = 1  # a level is no movement
    most = 4 * seen[:, None] * spread
    given_back = design @ (kept[:, None] * np.clip(departure, -most, most))
    return Residuals(place, epochs, (left + given_back).T.astype(np.float32))


def _read(path: Path, direction: str) -> tuple[Array, pd.DatetimeIndex, Array]:
    """(R, 2) places, epochs and (E, R) series."""
    table, names = read_product(path, direction)
    place, series = table[["easting", "northing"]].to_numpy(float), table[names].to_numpy(float).T
    if len(place) < CHOICE or len(names) <= 2 * FIT:
        raise InputError(
            f"--residuals: {path} has {len(place)} series of {len(names)} epochs; {CHOICE} of {2 * FIT + 1} needed."
        )
    if not (np.isfinite(series).all() and np.isfinite(place).all()):
        raise InputError(f"--residuals: {path} has empty values. Give a product as the service delivers it.")
    return place, pd.to_datetime(names, format="%Y%m%d"), series


def robust_fit(design: Array, series: Array) -> Array:
    """(K, R) least squares of series (E, R), less what lies beyond two standard deviations."""
    fitted = np.linalg.lstsq(design, series, rcond=None)[0]
    for _ in range(4):
        left = series - design @ fitted
        most = 2 * 1.4826 * np.median(abs(left), axis=0)
        fitted = np.linalg.lstsq(design, design @ fitted + np.clip(left, -most, most), rcond=None)[0]
    return np.asarray(fitted)


def explained_spread(design: Array, years: Array, left: Array) -> Array:
    """(K,) standard deviations of coefficients by noise with the covariance in time of what is left (E, R)."""
    days = np.round(years * 365.25).astype(int)
    lag = abs(days[:, None] - days) // REVISIT_DAYS
    measured = _by_lag(left @ left.T / left.shape[1], lag)
    inverse = np.linalg.pinv(design)
    removing = np.eye(len(years)) - design @ inverse
    # The fit takes slow noise along: look for the covariance that is the measured one after a fit.
    before = measured
    for _ in range(6):
        after = _by_lag(removing @ before[lag] @ removing, lag)
        before = np.where(np.arange(len(measured)) <= OWN_LAGS, before + measured - after, 0.0)
    return np.asarray(np.sqrt(np.diag(inverse @ before[lag] @ inverse.T)))


def _by_lag(covariance: Array, lag: NDArray[np.intp]) -> Array:
    """(L,) means over the entries (E, E) of each lag, 0 where there is none."""
    means = np.zeros(lag.max() + 1)
    for one in np.unique(lag[lag <= COVARIANCE_LAGS]):
        means[one] = covariance[lag == one].mean()
    return means
