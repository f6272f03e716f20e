"""Settlement troughs of straight tunnels, which a house follows as a plane and damps otherwise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from benchmarks.makers.seventh.building import Building
from benchmarks.makers.seventh.settings import Array, log_uniform
from benchmarks.makers.seventh.strain import plane_of

CELL_M = 1.0
REACH = 3.0
"""In trough widths: a house that can have no corner nearer to the axis does not move."""
DEFLECTION, STRETCH = (0.1, 1.0), (0.01, 0.2)
"""What a house keeps of the ground's bending and of its horizontal strain (Potts and Addenbrooke 1997)."""


@dataclass(frozen=True)
class Tunnel:
    """A straight tunnel and its trough (Peck 1969; O'Reilly and New 1982)."""

    point: Array
    """(2,) easting and northing of a point of the axis, m."""
    angle: float
    """Of the axis, rad counter-clockwise from east."""
    width_m: float
    """From the axis to the steepest place."""
    depth_m: float
    largest_m: float


@dataclass(frozen=True)
class Ground:
    """A tunnel's trough in the axes of one house, as free ground has it."""

    tunnel: Tunnel
    offset_m: float
    """Of the house's centre from the axis."""
    normal: tuple[float, float]
    """Across the tunnel, along x and y."""

    def moved(self, x: Array, y: Array) -> tuple[Array, Array]:
        """m up and across the tunnel, at (N,) positions."""
        away = self.offset_m + x * self.normal[0] + y * self.normal[1]
        settled = self.tunnel.largest_m * np.exp(-away * away / (2 * self.tunnel.width_m * self.tunnel.width_m))
        return -settled, -away * settled / self.tunnel.depth_m


@dataclass(frozen=True)
class Trough:
    """A trough as one house takes it."""

    ground: Ground
    plane: Array
    """(3,) m, and slopes along x and y."""
    across_m: float
    """Mean movement across the tunnel."""
    deflection: float
    stretch: float

    def field(self, x: Array, y: Array) -> Array:
        """See `strain.Field`."""
        up, across = self.ground.moved(x, y)
        flat = self.plane[0] + self.plane[1] * x + self.plane[2] * y
        kept = self.across_m + self.stretch * (across - self.across_m)
        return np.stack([flat + self.deflection * (up - flat), *(kept * share for share in self.ground.normal)], 1)


def draw_tunnel(generator: Generator, origin: Array, plots: int, plot_m: float) -> Tunnel:
    """A tunnel through the middle of a town of plots x plots, whose south-western corner is the origin."""
    diameter, depth = generator.uniform(4, 12), generator.uniform(8, 30)
    depth = max(depth, diameter)
    width = generator.uniform(0.25, 0.5) * depth
    largest = 0.313 * generator.uniform(0.005, 0.03) * diameter * diameter / width
    point = origin + generator.uniform(0.2, 0.8, 2) * plots * plot_m
    return Tunnel(point, generator.uniform(0, np.pi), width, depth, largest)


def draw_trough(generator: Generator, building: Building, tunnel: Tunnel) -> Trough | None:
    """What a tunnel does to a house; None where it is too far away."""
    normal = np.array([-np.sin(tunnel.angle), np.cos(tunnel.angle)])
    offset = (building.centre - tunnel.point) @ normal
    if abs(offset) > REACH * tunnel.width_m + np.hypot(*building.half):
        return None
    along, across = building.axes
    ground = Ground(tunnel, offset, (normal @ along, normal @ across))
    x, y = building.cells(CELL_M)
    up, sideways = ground.moved(x, y)
    deflection, stretch = generator.uniform(*DEFLECTION), log_uniform(generator, *STRETCH)
    return Trough(ground, plane_of(x, y, up), sideways.mean(), deflection, stretch)
