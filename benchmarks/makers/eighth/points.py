"""The scatterers of a city that one track sees, and how each moves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import shapely
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.makers.eighth.scatterers import draw_scatterers
from benchmarks.makers.eighth.sensors import Sensor
from benchmarks.makers.eighth.structures import Structure
from benchmarks.makers.eighth.town import Town
from benchmarks.makers.eighth.tunnels import Tunnel, greenfield

Array = NDArray[np.float64]
CLUTTER, AROUND_M = 0.06, 6.0
"""Scatterers on the ground as a share of those on buildings, and how far away from those they are."""


@dataclass(frozen=True)
class City:
    """What all tracks see."""

    town: Town
    structures: list[Structure]
    tunnels: list[Tunnel]
    first: pd.Timestamp
    last: pd.Timestamp
    """Day at which the labels hold."""


@dataclass(frozen=True)
class Points:
    """P scatterers."""

    owner: NDArray[np.intp]
    """(P,) the building that each is on; of clutter, any."""
    east_north: Array
    height: Array
    """(P,) m above the ground."""
    up: Array
    """(P, 3) m, of the parts of a structure, see there."""
    sideways: Array
    """(P, 3, 2) m, east and north."""
    clutter: NDArray[np.bool_]
    """(P,) those on the ground."""


def draw_counts(generator: Generator, sensor: Sensor, town: Town) -> NDArray[np.int64]:
    """(B, 2) scatterers that the tracks see; large and high buildings have more."""
    area = np.array([polygon.area for polygon in town.footprint])
    seen = (np.sqrt(area) * (town.height + 8)) ** 0.55
    total = seen / np.median(seen) * np.exp(generator.normal(0, 0.3, len(area))) * sensor.points
    total = np.clip(np.round(total), *sensor.points_range).astype(int)
    share = np.clip(generator.normal(0.5, 0.1, len(area)), 0.2, 0.8)
    first = np.maximum(1, np.round(total * share)).astype(int)
    return np.column_stack([first, np.maximum(1, total - first)])


def draw_points(generator: Generator, sensor: Sensor, city: City, counts: NDArray[np.int64], towards: Array) -> Points:
    """Scatterers on all buildings, and then those on the ground about them.

    Args:
        generator: of everything drawn. sensor: see `Sensor`. city: what is seen.
        counts: (B,) scatterers of each building. towards: (2,) unit vector to the satellite, east and north.
    """
    town = city.town
    places, heights, ups, sideways = [], [], [], []
    for number, structure in enumerate(city.structures):
        place, height = draw_scatterers(
            generator, town.footprint[number], town.height[number], towards, int(counts[number]), sensor.cell_m
        )
        up, along = structure.move(structure.frame.to_own(place), height)
        places.append(place)
        heights.append(height)
        ups.append(up)
        sideways.append(along)
    place, owner = np.concatenate(places), np.repeat(np.arange(len(counts)), [len(one) for one in heights])

    beside = generator.integers(0, len(place), int(CLUTTER * len(place)))
    ground = place[beside] + generator.normal(0, AROUND_M, (len(beside), 2))
    free = ~shapely.contains_xy(shapely.union_all(town.footprint), ground)
    ground = ground[free]
    # Not the buildings that they are at: a slip of the maker's, kept so that the judged cities can be made again. What
    # is on the ground shares noise, the tunnel's time and the year with a building somewhere else.
    taken_for = owner[beside[: len(ground)]]
    still = np.zeros((len(ground), 2, 3))
    up, along = greenfield(city.tunnels, ground)
    return Points(
        np.concatenate([owner, taken_for]),
        np.concatenate([place, ground]),
        np.concatenate([*heights, generator.uniform(0, 4, len(ground))]),
        np.concatenate([*ups, np.column_stack([still[:, 0, :2], up])]),
        np.concatenate([*sideways, np.concatenate([still[:, :, :2], along[:, None]], axis=1)]),
        np.repeat([False, True], [len(place), len(ground)]),
    )
