"""Tracks and observations made up for the tests of fields."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from plumbline.fields.prepare.grid import Observations
from plumbline.sources.points.track import Track

Array = NDArray[np.floating[Any]]
PLACE = np.array([4_321_000.0, 3_210_000.0])
LOS = np.array([[-0.62, -0.11, 0.777], [0.62, -0.11, 0.777]])
"""Towards a satellite in the west, and one in the east."""


def make_track(place: Array, displacement: Array, side: int = 0, name: str = "a", days: int = 12) -> Track:
    """A track of points (N, 2), m from `PLACE`, with displacements (N, T), every `days` days."""
    count, epochs = displacement.shape
    return Track(
        name,
        "EPSG:3035",
        np.datetime64("2020-01-01") + days * np.arange(epochs),
        np.array([f"{name}{number}" for number in range(count)], object),
        place[:, 0] + PLACE[0],
        place[:, 1] + PLACE[1],
        np.full(count, 50.0),
        np.tile(LOS[side], (count, 1)),
        displacement.astype(np.float32),
    )


def make_observations(
    rng: np.random.Generator, count: int, extent: float = 640.0, sides: tuple[int, ...] = (0, 1)
) -> Observations:
    """Points of drawn places, changes and errors."""
    side = np.resize(np.array(sides), count)
    return Observations(
        PLACE + rng.uniform(0, extent, (count, 2)),
        LOS[side],
        rng.normal(0, 10, count),
        rng.uniform(0.5, 3, count),
        np.zeros(count),
        np.full(count, 300.0),
        np.ones(count),
        side.astype(np.intp),
    )
