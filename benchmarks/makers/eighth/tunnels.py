"""Settlement troughs of bored tunnels under streets, and how stiff buildings take the bending out of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.makers.eighth.frame import Frame
from benchmarks.makers.eighth.labels import Bays
from benchmarks.makers.eighth.town import Street

Array = NDArray[np.float64]
TUNNELS = 3
FELT_M = 5e-4
"""Settlement of the ground below which a building is left alone."""
PASSING = 0.05
"""How long the settlement takes at one place: standard deviation of its course, as a share of the observation."""
ELSEWHERE = np.array([0.5, 2 * PASSING])
"""The course, as of `passing`, of what little the ground does around buildings that are left alone."""


@dataclass(frozen=True)
class Tunnel:
    """A straight tunnel: trough of Peck (1969), horizontal movement of O'Reilly and New (1982)."""

    point: Array
    """(2,) easting and northing of the axis, m."""
    along: Array
    """(2,) unit vector; the tunnel is driven that way."""
    depth: float
    """z0, m."""
    width: float
    """i, m."""
    largest: float
    """Smax, m."""
    start: float
    """When it passes the point, as a share of the observation."""
    speed: float
    """m in 0.3 of the observation."""

    def settlement(self, east_north: Array) -> Array:
        """(N,) m, downwards."""
        return np.asarray(self.largest * np.exp(-(self._offset(east_north) ** 2) / 2 / self.width**2))

    def greenfield(self, east_north: Array) -> tuple[Array, Array]:
        """(N,) up and (N, 2) east and north, m."""
        settlement = self.settlement(east_north)
        inwards = -self._offset(east_north) * settlement / self.depth
        return -settlement, inwards[:, None] * self._normal

    def passes(self, east_north: Array) -> float:
        """When it passes a place (2,), as a share of the observation."""
        ahead = (east_north - self.point) @ self.along
        return float(np.clip(self.start + ahead / self.speed * 0.3, 0.12, 0.85))

    @property
    def _normal(self) -> Array:
        return np.array([-self.along[1], self.along[0]])

    def _offset(self, east_north: Array) -> Array:
        return np.asarray((east_north - self.point) @ self._normal)


@dataclass(frozen=True)
class Trough:
    """The troughs of all tunnels as one building takes them (modification factors, Potts and Addenbrooke 1997)."""

    tunnels: list[Tunnel]
    frame: Frame
    plane: Array
    """(3,) of the ground's vertical movement: constant, m, and slopes along x and y."""
    mean: Array
    """(2,) of the ground's horizontal movement, east and north, m."""
    deflection: float
    strain: float
    """Shares of the ground's that the building takes."""

    def move(self, xy: Array) -> tuple[Array, Array]:
        """(N,) up and (N, 2) along x and y, m, at positions (N, 2) in the building's axes."""
        ground, sideways = greenfield(self.tunnels, self.frame.to_map(xy))
        rigid = self.plane[0] + xy @ self.plane[1:]
        up = rigid + self.deflection * (ground - rigid)
        return up, (self.mean + self.strain * (sideways - self.mean)) @ self.frame.axes.T


def draw_tunnels(generator: Generator, streets: list[Street]) -> list[Tunnel]:
    """Tunnels under some streets."""
    tunnels = []
    for number in generator.choice(len(streets), TUNNELS, replace=False):
        street = streets[number]
        along = np.array([np.cos(street.angle), np.sin(street.angle)])
        normal = np.array([-along[1], along[0]])
        diameter, depth = generator.uniform(5, 11), generator.uniform(11, 28)
        widening, volume_loss = generator.uniform(0.25, 0.5), generator.uniform(0.005, 0.03)
        depth = max(depth, 1.3 * diameter)
        width = widening * depth
        largest = 0.313 * volume_loss * diameter * diameter / width
        start, speed = 0.35 + generator.uniform(0.05, 0.4), generator.uniform(2500, 6000)
        point = street.centre + normal * street.across
        tunnels.append(Tunnel(point, along, depth, width, largest, start, speed))
    return tunnels


def greenfield(tunnels: list[Tunnel], east_north: Array) -> tuple[Array, Array]:
    """(N,) up and (N, 2) east and north, m, where nothing stands on the ground."""
    up, sideways = zip(*(tunnel.greenfield(east_north) for tunnel in tunnels), strict=True)
    return np.sum(up, axis=0), np.sum(sideways, axis=0)


def find_trough(tunnels: list[Tunnel], frame: Frame, bays: Bays, deflection: float, strain: float) -> Trough | None:
    """What reaches a building, if anything does; `deflection` and `strain` as of `Trough`."""
    up, sideways = greenfield(tunnels, frame.to_map(bays.place))
    if abs(up).max() <= FELT_M:
        return None
    mean = sideways[: bays.fit.shape[1]].mean(0)
    return Trough(tunnels, frame, bays.plane(up), mean, deflection, strain)


def passing(tunnels: list[Tunnel], east_north: Array) -> Array:
    """(2,) when the tunnel passes that settles a place (2,) most, and how long it takes; shares of the observation."""
    nearest = max(tunnels, key=lambda tunnel: float(tunnel.settlement(east_north)))
    return np.array([nearest.passes(east_north), PASSING])
