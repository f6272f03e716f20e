"""Greenfield ground movement over a bored tunnel.

Peck (1969), Deep excavations and tunnelling in soft ground, 7th ICSMFE; O'Reilly and New (1982), Settlements above
tunnels in the United Kingdom, Tunnelling '82.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
REACH_WIDTHS = 4.0
"""Distance from the axis, in trough widths, beyond which the settlement is below 0.04 % of its largest."""
CITY_M = 6000.0
"""Extent of a city with one or two tunnels."""


@dataclass(frozen=True)
class Tunnel:
    """A straight tunnel: an axis in plan, and what its driving does to the ground."""

    point: tuple[float, float]
    """Easting and northing of a point of the axis, m."""
    direction: float
    """Direction of driving, rad counter-clockwise from east."""
    depth: float
    """Depth of the axis `z0`, m."""
    diameter: float
    """Excavated diameter `D`, m."""
    volume_loss: float
    """Settled volume over excavated volume `VL`, as a fraction."""
    k: float
    """Trough width parameter `K` of the soil."""

    @property
    def width(self) -> float:
        """Distance `i = K z0` of the inflection point from the axis, m."""
        return self.k * self.depth

    @property
    def largest_settlement(self) -> float:
        """`Smax = 0.313 VL D^2 / i`, mm, positive."""
        return 1000 * 0.313 * self.volume_loss * self.diameter**2 / self.width

    @property
    def normal(self) -> Array:
        """(2,) unit vector to the left of the axis; distances count along it."""
        return np.array([-np.sin(self.direction), np.cos(self.direction)])

    def distance(self, east_north: Array) -> Array:
        """Signed distances (N,) of points (N, 2) from the axis, m."""
        return np.asarray((east_north - np.array(self.point)) @ self.normal, float)

    def vertical(self, distance: Array) -> Array:
        """Vertical displacement `-Smax exp(-d^2 / 2 i^2)`, mm, up positive."""
        return np.asarray(-self.largest_settlement * np.exp(-0.5 * (distance / self.width) ** 2), float)

    def horizontal(self, distance: Array) -> Array:
        """Displacement along the normal `-(d / z0) S`, mm: towards the axis on both sides."""
        return np.asarray(distance / self.depth * self.vertical(distance), float)


def draw_tunnels(rng: np.random.Generator, extent: float) -> list[Tunnel]:
    """One or two tunnels across a city of `extent` m around the origin, and as many more for every `CITY_M` beyond.

    So the share of buildings that a tunnel reaches does not fall with the size of the city.
    """
    tunnels = []
    for _ in range(int(rng.integers(1, 3)) * max(1, round(extent / CITY_M))):
        diameter = float(rng.uniform(4, 12))
        tunnels.append(
            Tunnel(
                point=(float(rng.uniform(-0.25, 0.25) * extent), float(rng.uniform(-0.25, 0.25) * extent)),
                direction=float(rng.uniform(-np.pi, np.pi)),
                # A cover of less than one diameter is not bored under a city.
                depth=float(rng.uniform(max(8.0, 1.5 * diameter), 30.0)),
                diameter=diameter,
                volume_loss=float(rng.uniform(0.005, 0.03)),
                k=float(rng.uniform(0.25, 0.5)),
            )
        )
    return tunnels


def near(tunnels: list[Tunnel], east_north: Array, radius: float) -> list[Tunnel]:
    """The tunnels whose troughs come within `radius` m of one of the places (N, 2); the nearest if none does."""
    gap = [float(np.abs(t.distance(east_north)).min()) - REACH_WIDTHS * t.width for t in tunnels]
    close = [tunnel for tunnel, distance in zip(tunnels, gap, strict=True) if distance < radius]
    return close or [tunnels[int(np.argmin(gap))]]


def greenfield(tunnels: list[Tunnel], east_north: Array) -> Array:
    """Ground displacement (N, 3) in mm at points (N, 2): east, north, up; the tunnels' troughs add up."""
    total = np.zeros((len(east_north), 3))
    for tunnel in tunnels:
        distance = tunnel.distance(east_north)
        total[:, :2] += tunnel.horizontal(distance)[:, None] * tunnel.normal
        total[:, 2] += tunnel.vertical(distance)
    return total


def arrival(tunnels: list[Tunnel], east_north: Array, extent: float) -> Array:
    """When the face of the nearest tunnel passes points (N, 2), as a fraction 0.05 to 0.6 of the observation."""
    distance = np.stack([np.abs(tunnel.distance(east_north)) for tunnel in tunnels])
    along = np.stack(
        [(east_north - np.array(t.point)) @ np.array([np.cos(t.direction), np.sin(t.direction)]) for t in tunnels]
    )
    chainage = np.take_along_axis(along, distance.argmin(axis=0)[None], axis=0)[0]
    return np.asarray(0.05 + 0.55 * np.clip(chainage / extent + 0.5, 0, 1), float)
