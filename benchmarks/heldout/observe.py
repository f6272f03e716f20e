"""A town's movement as a satellite's product tells it: displaced scatterers, noisy series, gaps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.heldout.courses import course, warmth
from benchmarks.heldout.noise import spoil
from benchmarks.heldout.scatterers import draw_scatterers
from benchmarks.heldout.sensors import Sensor, View
from benchmarks.heldout.structure import PARTS, Structure
from benchmarks.heldout.town import Town

Array = NDArray[np.float64]
Noise = Callable[[NDArray[np.intp], NDArray[np.int64]], Array]
"""Buildings of scatterers (P,), days (E,) -> (P, E) mm."""
GROUND_M = 40.0
"""Height of the town above the sea."""


@dataclass(frozen=True)
class Product:
    """P scatterers of one track."""

    view: View
    owner: NDArray[np.intp]
    """(P,) the building that each is on."""
    east_north: Array
    """(P, 2) as told, m."""
    height: Array
    los: Array
    incidence: Array
    """(P,) rad."""
    displacement: Array
    """(P, E) mm; NaN where there is none."""


@dataclass(frozen=True)
class Moving:
    """What all tracks of a town see."""

    town: Town
    structures: list[Structure]
    kind: NDArray[np.intp]
    """(B, PARTS) and (B, PARTS, 2), see `courses.course`."""
    shape: Array
    length: int
    """Days from the first to the last, at which the labels hold."""
    first_day_of_year: int


def draw_counts(generator: Generator, sensor: Sensor, town: Town, tracks: int) -> NDArray[np.int64]:
    """(B, tracks) scatterers; larger buildings have more."""
    area = np.array([polygon.area for polygon in town.footprint])
    expected = sensor.points * (area / np.median(area)) ** 0.35 * generator.lognormal(0, 0.5, len(area))
    total = np.clip(generator.poisson(expected), *sensor.points_range)
    return generator.multinomial(total, generator.dirichlet(np.full(tracks, 12.0), len(total)))


def draw_positions(generator: Generator, sensor: Sensor, buildings: int) -> Array:
    """(B,) standard deviation of positions in range on the ground, m: most are near the low end of the range."""
    low, high = np.log(sensor.position_m)
    return np.asarray(np.exp(low + (high - low) * generator.beta(1.2, 2.8, buildings)))


def observe(
    generator: Generator,
    sensor: Sensor,
    view: View,
    moving: Moving,
    counts: NDArray[np.int64],
    noise: Noise,
    position: Array,
) -> Product:
    """The product of one track.

    Args:
        generator: of everything drawn here. sensor: see `Sensor`. view: the track. moving: the town.
        counts: (B,) scatterers of each building. noise: the series that are added.
        position: (B,) standard deviation of positions in range on the ground, m.
    """
    owner = np.repeat(np.arange(len(counts)), counts)
    incidence = view.incidence + np.radians(generator.normal(0, 0.15, len(owner)))
    los = view.los(incidence)
    east_north, height, causes, warm = _movement(generator, moving, counts, view)
    towards = _along(moving, owner, causes, los)
    heated = _along(moving, owner, warm[:, None], los)[:, 0]

    share = view.days / moving.length
    series = heated[:, None] * warmth(view.days.astype(float), moving.first_day_of_year)
    for part in range(PARTS):
        series += towards[:, part, None] * course(moving.kind[:, part], moving.shape[:, part], share)[owner]
    series += noise(owner, view.days)
    # Every track has a reference of its own: a constant, and what is left of its orbit, over the whole town.
    series += generator.normal(0, 4.0) + generator.normal(0, 1.0) * share
    series = spoil(generator, sensor, series)
    series[generator.random(series.shape) < generator.uniform(0.025, 0.1)] = np.nan

    # An error of height moves a scatterer along the ground range; what is left of it does not depend on height.
    slant = generator.normal(0, position[owner])
    along = generator.normal(0, position[owner] / 2)
    look = -los[:, :2] / np.hypot(los[:, 0], los[:, 1])[:, None]
    told = east_north + slant[:, None] * look + along[:, None] * np.column_stack([-look[:, 1], look[:, 0]])
    # At one distance from the satellite what lies farther away is higher.
    height = GROUND_M + height + slant * np.tan(incidence)
    return Product(view, owner, told, height, los, incidence, series)


def _movement(
    generator: Generator, moving: Moving, counts: NDArray[np.int64], view: View
) -> tuple[Array, Array, Array, Array]:
    """Places, heights, movements by cause (P, PARTS, 3) and thermal movements (P, 3) in the buildings' axes."""
    mean = view.los(np.array([view.incidence]))[0, :2]
    parts = []
    for number in np.flatnonzero(counts):
        frame, structure = moving.town.frame[number], moving.structures[number]
        found = draw_scatterers(
            generator, moving.town.footprint[number], moving.town.height[number], mean, int(counts[number])
        )
        own = frame.to_own(found.east_north)
        parts.append((*found, structure.parts(own, found.height), structure.expansion(own, found.height)))
    place, height, causes, warm = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return place, height, causes, warm


def _along(moving: Moving, owner: NDArray[np.intp], movement: Array, los: Array) -> Array:
    """(P, K) mm towards the satellite of movements (P, K, 3) in the buildings' axes."""
    angle = np.array([frame.angle for frame in moving.town.frame])[owner]
    cos, sin = np.cos(angle), np.sin(angle)
    own = np.column_stack([los[:, 2], los[:, 0] * cos + los[:, 1] * sin, los[:, 1] * cos - los[:, 0] * sin])
    return np.asarray(np.einsum("pkc,pc->pk", movement, own))
