"""Draw tracks, and the scatterers that each of them sees: on buildings, along streets, few elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.makers.fields.settings import SIDE_M, Array, Domain
from benchmarks.makers.fields.town import Town

NAMES, HEADING_DEG = ("A", "D", "B"), (349.0, 191.0, 349.0)
"""Ascending, descending, and a second ascending one from a neighbouring orbit."""
INCIDENCE_DEG = ((34.0, 40.0), (34.0, 42.0), (41.0, 45.0))
REVISIT = {6: (75, 111), 12: (60, 111)}
"""Days -> fewest and most epochs, the last excluded."""
MISSED = 0.04
"""Share of epochs that a whole track lacks."""
ON_BUILDINGS, ON_STREETS = 0.66, 0.29
STREET_M, ON_OPEN = 4.0, 0.1
"""Half width of a street; share of the points that are kept on open ground."""
ACROSS_M, ALONG_M = 2.5, 1.0
"""Standard deviation of a position error across and along the orbit."""
SPREAD = 0.7
"""Standard deviation of the logarithm of how many points a building has, beside its size."""


@dataclass(frozen=True)
class Orbit:
    """One track with its epochs."""

    name: str
    heading_deg: float
    """Of the flight, clockwise from north."""
    incidence_deg: float
    days: NDArray[np.int64]
    """(E,) since the first day of the maker."""

    @property
    def towards(self) -> Array:
        """Return (2,) unit vector on the ground towards the satellite, which looks to the right."""
        heading = np.radians(self.heading_deg)
        return np.array([-np.cos(heading), np.sin(heading)])

    @property
    def los(self) -> Array:
        """Return (3,) unit vector from ground to satellite: east, north, up."""
        incidence = np.radians(self.incidence_deg)
        return np.array([*np.sin(incidence) * self.towards, np.cos(incidence)])


@dataclass(frozen=True)
class Scatterers:
    """P points of one track, m from the scene's south-west corner."""

    place: Array
    """(P, 2) where they are."""
    reported: Array
    """(P, 2) where the product says they are."""
    height: Array
    """(P,) above the ground."""


def draw_orbits(generator: Generator, count: int) -> list[Orbit]:
    """Draw `count` tracks over about the same time."""
    every = int(generator.choice(list(REVISIT)))
    epochs = int(generator.integers(*REVISIT[every]))
    orbits = []
    for name, heading, incidence in list(zip(NAMES, HEADING_DEG, INCIDENCE_DEG, strict=True))[:count]:
        days = np.arange(epochs) * every + int(generator.integers(every))
        taken = generator.random(epochs) >= MISSED
        taken[[0, -1]] = True
        turned = heading + generator.uniform(-1.5, 1.5)
        orbits.append(Orbit(name, round(turned, 2), round(generator.uniform(*incidence), 2), days[taken]))
    return orbits


def draw_scatterers(generator: Generator, town: Town, orbit: Orbit, density_km2: float) -> Scatterers:
    """Draw as many points as the density asks for on the whole scene."""
    count = int(generator.poisson(density_km2 * (SIDE_M / 1000) ** 2))
    kind = generator.random(count)
    place, height = generator.uniform(0, SIDE_M, (count, 2)), np.zeros(count)
    house = kind < ON_BUILDINGS
    liked = np.sqrt(town.half.prod(1)) * np.exp(generator.normal(0, SPREAD, len(town.half)))
    owner = generator.choice(len(liked), int(house.sum()), p=liked / liked.sum())
    own = generator.uniform(-1, 1, (len(owner), 2)) * town.half[owner]
    place[house] = town.centre[owner] + own @ town.axes
    height[house] = town.height[owner] * generator.choice([1.0, 0.5], len(owner), p=[0.7, 0.3])
    street = ~house & (kind < ON_BUILDINGS + ON_STREETS)
    open_street = town.is_open(town.streets)
    likely = np.where(open_street, ON_OPEN, 1.0)
    chosen = generator.choice(len(town.streets), int(street.sum()), p=likely / likely.sum())
    place[street] = town.streets[chosen] + generator.uniform(-STREET_M, STREET_M, (len(chosen), 2))
    inside = ((place > 0) & (place < SIDE_M)).all(1)
    place, height = place[inside], height[inside]
    error = generator.standard_normal((len(place), 2)) * (ACROSS_M, ALONG_M)
    left = np.array([-orbit.towards[1], orbit.towards[0]])
    reported = place + error @ np.stack([orbit.towards, left])
    return Scatterers(place, reported, height)


def draw_density(generator: Generator, domain: Domain) -> float:
    """Draw points per square kilometre."""
    return float(generator.uniform(*domain.density_km2))
