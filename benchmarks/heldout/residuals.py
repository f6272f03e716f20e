"""Borrowed noise: series of a real product less their line and annual course.

A series' own line takes its noise's slowest part along, so that damage stands out more than it would on that ground.
The line of its neighbourhood leaves that part in, with whatever single points there really do. The truth lies between.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from plumbline.core.errors import InputError
from plumbline.sources.points.read import read_points

Array = NDArray[np.float64]


class Residuals:
    """Series of a real product, to be given to scatterers building by building."""

    def __init__(self, path: Path, neighbours: int = 1) -> None:
        """Read an EGMS L2b product.

        Args:
            path: the product.
            neighbours: the line taken off a series is the median of those of so many nearest series; 1: its own.

        Raises:
            InputError: it is none, no point of it has a value at every epoch, or fewer than `neighbours` have.
        """
        track = read_points(path)
        self.days = (track.epochs - track.epochs[0]) / np.timedelta64(1, "D")
        full = np.isfinite(track.displacement).all(1)
        if not full.any():
            raise InputError(f"{path}: no point has a value at every epoch. Give a product as the service delivers it.")
        if not 1 <= neighbours <= full.sum():
            raise InputError(f"--neighbours: {neighbours} found, 1 to {full.sum()}, the full series of {path}, needed.")
        self.place = np.column_stack([track.easting, track.northing])[full]
        self.near = cKDTree(self.place)
        turn = 2 * np.pi * self.days / 365.25
        # Of days about their mean: whatever line is taken off, the series has no offset.
        design = np.column_stack([np.ones_like(turn), self.days - self.days.mean(), np.cos(turn), np.sin(turn)])
        series = track.displacement[full].T.astype(float)
        fitted = np.linalg.lstsq(design, series, rcond=None)[0]
        if neighbours > 1:  # of points at one place the nearest is not the point itself
            nearest = self.near.query(self.place, neighbours)[1]
            fitted[1] = np.median(fitted[1][nearest], axis=1)
        self.series = (series - design @ fitted).T

    def borrow(self, generator: Generator, owner: NDArray[np.intp], days: NDArray[np.int64]) -> Array:
        """(P, E) mm for scatterers of buildings `owner` (P,), ascending.

        Scatterers of one building get the series of neighbours somewhere in the real product, so what neighbours share
        in reality they share here. Of each day the series has the value of the nearest real one; where the days
        wanted are longer than the real ones, it goes on backwards.
        """
        longest = self.days[-1]
        when = longest - np.abs(np.mod(days, 2 * longest) - longest)
        epoch = np.abs(self.days[:, None] - when).argmin(0)
        result = np.empty((len(owner), len(days)))
        starts = np.flatnonzero(np.r_[True, np.diff(owner) > 0])[: len(owner)].tolist()
        for start, end in zip(starts, [*starts[1:], len(owner)], strict=True):
            anchor = self.place[generator.integers(len(self.place))]
            count = end - start
            near = self.near.query(anchor, min(2 * count, len(self.place)))[1]
            chosen = generator.permutation(np.atleast_1d(near))
            result[start:end] = self.series[np.resize(chosen, count)][:, epoch]
        return result
