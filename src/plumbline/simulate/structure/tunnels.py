"""Compute the settlement over bored tunnels, and that of buildings.

A building follows the rigid motion of the ground wholly, and its bending and stretching damped.

Peck (1969), Deep excavations and tunnelling in soft ground, 7th ICSMFE; O'Reilly and New
(1982), Settlements above tunnels in the United Kingdom, Tunnelling '82. Modification
factors after Potts and Addenbrooke (1997), A structure's influence on tunnelling-induced
ground movements, Proc. ICE Geotech. Eng. 125(2).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plumbline.core.arrays import Array
from plumbline.core.compass import Frames
from plumbline.simulate.random_numbers import log_uniform

REACH_WIDTHS = 4.0
"""Distance from the axis, in trough widths, beyond which the settlement is below 0.04 % of
its largest."""
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
        """Return signed distances (N,) of points (N, 2) from the axis, m."""
        return np.asarray((east_north - np.array(self.point)) @ self.normal, float)

    def vertical(self, distance: Array) -> Array:
        """Return vertical displacement `-Smax exp(-d^2 / 2 i^2)`, mm, up positive."""
        return np.asarray(
            -self.largest_settlement * np.exp(-0.5 * (distance / self.width) ** 2), float
        )

    def horizontal(self, distance: Array) -> Array:
        """Return displacement along the normal `-(d / z0) S`, mm: towards the axis on both
        sides."""
        return np.asarray(distance / self.depth * self.vertical(distance), float)


def draw_tunnels(rng: np.random.Generator, extent: float) -> list[Tunnel]:
    """Draw one or two tunnels across a city of `extent` m around the origin, and as many
    for every `CITY_M` beyond.

    So the share of buildings that a tunnel reaches does not fall with the size of the city.
    """
    tunnels = []
    for _ in range(int(rng.integers(1, 3)) * max(1, round(extent / CITY_M))):
        diameter = float(rng.uniform(4, 12))
        tunnels.append(
            Tunnel(
                point=(
                    float(rng.uniform(-0.25, 0.25) * extent),
                    float(rng.uniform(-0.25, 0.25) * extent),
                ),
                direction=float(rng.uniform(-np.pi, np.pi)),
                # A cover of less than one diameter is not bored under a city.
                depth=float(rng.uniform(max(8.0, 1.5 * diameter), 30.0)),
                diameter=diameter,
                volume_loss=float(rng.uniform(0.005, 0.03)),
                k=float(rng.uniform(0.25, 0.5)),
            )
        )
    return tunnels


def tunnels_near(tunnels: list[Tunnel], east_north: Array, radius: float) -> list[Tunnel]:
    """Return the tunnels with troughs within `radius` m of one of the places (N, 2), or
    else the nearest tunnel."""
    gap = [float(np.abs(t.distance(east_north)).min()) - REACH_WIDTHS * t.width for t in tunnels]
    close = [tunnel for tunnel, distance in zip(tunnels, gap, strict=True) if distance < radius]
    return close or [tunnels[int(np.argmin(gap))]]


def greenfield(tunnels: list[Tunnel], east_north: Array) -> Array:
    """Return ground displacement (N, 3), mm, at points (N, 2): east, north, up; the
    tunnels' troughs add up."""
    total = np.zeros((len(east_north), 3))
    for tunnel in tunnels:
        distance = tunnel.distance(east_north)
        total[:, :2] += tunnel.horizontal(distance)[:, None] * tunnel.normal
        total[:, 2] += tunnel.vertical(distance)
    return total


def arrival(tunnels: list[Tunnel], east_north: Array, extent: float) -> Array:
    """Return when the face of the nearest tunnel passes points (N, 2), as a fraction 0.05
    to 0.6 of the observation."""
    distance = np.stack([np.abs(tunnel.distance(east_north)) for tunnel in tunnels])
    along = np.stack(
        [
            (east_north - np.array(t.point)) @ np.array([np.cos(t.direction), np.sin(t.direction)])
            for t in tunnels
        ]
    )
    chainage = np.take_along_axis(along, distance.argmin(axis=0)[None], axis=0)[0]
    return np.asarray(0.05 + 0.55 * np.clip(chainage / extent + 0.5, 0, 1), float)


NODES, WEIGHTS = np.polynomial.legendre.leggauss(24)


@dataclass(frozen=True)
class Response:
    """Response of B buildings to K tunnels, in the buildings' frames, mm and m."""

    tunnels: list[Tunnel]
    distance: Array
    """(B, K) signed distance of the building's centre from each axis, m."""
    normal: Array
    """(B, K, 2) the axis normals in the building's frame."""
    reached: NDArray[np.bool_]
    """(B,) whether any trough reaches the building; the others do not move."""
    deflection: Array
    """(B,) share of the greenfield deflection that the building follows."""
    strain: Array
    """(B,) share of the greenfield horizontal strain that the building follows."""
    mean: Array
    """(B, 3) greenfield mean over the footprint: along x, along y, up, mm."""
    tilt: Array
    """(B, 2) greenfield least-squares tilt of the vertical displacement along x and y, mm/m."""

    def field(
        self, index: NDArray[np.intp] | int, x: Array, y: Array
    ) -> tuple[Array, Array, Array]:
        """Return vertical, along-x and along-y displacement, mm, at foundation level of
        buildings `index`."""
        along_x, along_y, up = self._greenfield(index, x, y)
        plane = self.mean[index, 2] + self.tilt[index, 0] * x + self.tilt[index, 1] * y
        share = self.strain[index]
        return (
            plane + self.deflection[index] * (up - plane),
            self.mean[index, 0] + share * (along_x - self.mean[index, 0]),
            self.mean[index, 1] + share * (along_y - self.mean[index, 1]),
        )

    def _greenfield(
        self, index: NDArray[np.intp] | int, x: Array, y: Array
    ) -> tuple[Array, Array, Array]:
        along_x, along_y, up = np.zeros_like(x), np.zeros_like(x), np.zeros_like(x)
        for k, tunnel in enumerate(self.tunnels):
            normal_x, normal_y = self.normal[index, k, 0], self.normal[index, k, 1]
            distance = self.distance[index, k] + normal_x * x + normal_y * y
            horizontal = tunnel.horizontal(distance)
            along_x += normal_x * horizontal
            along_y += normal_y * horizontal
            up += tunnel.vertical(distance)
        return along_x, along_y, up


def building_response(
    tunnels: list[Tunnel], frames: Frames, deflection: Array, strain: Array
) -> Response:
    """Compute the response of buildings with modification factors `deflection` (B,) and
    `strain` (B,).

    The plane that a building follows whole is the area-weighted least-squares plane over
    its rectangle.
    """
    count = len(frames.angle)
    buildings = np.arange(count)
    normal = np.stack(
        [frames.rotate(buildings, np.tile(t.normal, (count, 1))) for t in tunnels], axis=1
    )
    distance = np.stack([t.distance(frames.centre) for t in tunnels], axis=1)
    reach = REACH_WIDTHS * np.array([t.width for t in tunnels])
    reached = (np.abs(distance) < reach + np.hypot(*frames.side.T)[:, None] / 2).any(axis=1)
    response = Response(
        tunnels,
        distance,
        normal,
        reached,
        deflection,
        strain,
        np.zeros((count, 3)),
        np.zeros((count, 2)),
    )

    # Gauss-Legendre nodes over the rectangle: 1, x and y are orthogonal there, so each coefficient
    # is found alone.
    at = np.flatnonzero(reached)
    node_x, node_y = (part.ravel() for part in np.meshgrid(NODES, NODES, indexing="ij"))
    weight = np.outer(WEIGHTS, WEIGHTS).ravel() / 4
    x, y = frames.side[at, :1] / 2 * node_x, frames.side[at, 1:] / 2 * node_y
    along_x, along_y, up = (
        part.reshape(x.shape)
        for part in response._greenfield(np.repeat(at, x.shape[1]), x.ravel(), y.ravel())
    )
    response.mean[at] = np.stack([along_x @ weight, along_y @ weight, up @ weight], axis=1)
    response.tilt[at, 0] = (up * x) @ weight / (x**2 @ weight)
    response.tilt[at, 1] = (up * y) @ weight / (y**2 @ weight)
    return response


def draw_response(rng: np.random.Generator, tunnels: list[Tunnel], frames: Frames) -> Response:
    """Draw modification factors over the published ranges: deflection 0.1 to 1, horizontal
    strain 0.01 to 0.2."""
    count = len(frames.angle)
    deflection = rng.uniform(0.1, 1.0, count)
    strain = log_uniform(rng, 0.01, 0.2, count)
    return building_response(tunnels, frames, deflection, strain)
