"""Settlement troughs of bored tunnels, and how the stiffness of a building takes the bending out of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.heldout.frame import Frame
from benchmarks.heldout.labels import plane_of

Array = NDArray[np.float64]
LARGEST_MM = 80.0
"""Tunnels that settle more are stopped; a draw of the design's ranges can give half a metre."""
REACH = 3.0
"""Distance from the axis, in widths i, beyond which a building is left alone."""


@dataclass(frozen=True)
class Tunnel:
    """A straight tunnel: trough of Peck (1969), horizontal movement of O'Reilly and New (1982)."""

    point: Array
    """(2,) easting and northing of the axis, m."""
    normal: Array
    """(2,) unit vector across the axis."""
    depth: float
    """z0, m."""
    width: float
    """i, m."""
    largest: float
    """Smax, mm."""

    def offset(self, east_north: Array) -> Array:
        """(N,) distance from the axis, m, with sign."""
        return (east_north - self.point) @ self.normal

    def greenfield(self, east_north: Array) -> Array:
        """(N, 3) mm up, east, north."""
        x = self.offset(east_north)
        settlement = self.largest * np.exp(-(x**2) / (2 * self.width**2))
        return np.column_stack([-settlement, (-x * settlement / self.depth)[:, None] * self.normal])


@dataclass(frozen=True)
class Trough:
    """A tunnel's trough as one building takes it (modification factors, Potts and Addenbrooke 1997)."""

    tunnel: Tunnel
    frame: Frame
    plane: Array
    """(3, 3) rows: constant, slopes along x and y; columns: up, along x, along y, mm."""
    deflection: float
    strain: float

    def field(self, xy: Array) -> Array:
        """(N, 3) mm up, along x, along y at positions (N, 2) in the building's axes."""
        free = _own(self.tunnel, self.frame, xy)
        rigid = np.column_stack([np.ones(len(xy)), xy]) @ self.plane
        # Up: the building goes with the plane, and a share of the bending is left. Sideways: with the mean.
        up = rigid[:, 0] + self.deflection * (free[:, 0] - rigid[:, 0])
        return np.column_stack([up, self.plane[0, 1:] + self.strain * (free[:, 1:] - self.plane[0, 1:])])


def draw_tunnels(generator: Generator, places: Array, count: int) -> list[Tunnel]:
    """Tunnels through the town, whose buildings stand at places (B, 2)."""
    result: list[Tunnel] = []
    while len(result) < count:
        diameter, depth = generator.uniform(4, 12), generator.uniform(8, 30)
        width = generator.uniform(0.25, 0.5) * depth
        largest = 313.0 * generator.uniform(0.005, 0.03) * diameter**2 / width
        if depth >= 1.3 * diameter and largest <= LARGEST_MM:
            angle = generator.uniform(0, np.pi)
            normal = np.array([np.cos(angle), np.sin(angle)])
            result.append(Tunnel(places[generator.integers(len(places))], normal, depth, width, largest))
    return result


def draw_trough(generator: Generator, tunnels: list[Tunnel], frame: Frame, cell: Array) -> Trough | None:
    """The trough of the nearest tunnel, if it reaches the building; `cell` (C, 2) are equal cells of its footprint."""
    away = [abs(float(tunnel.offset(frame.centre[None])[0])) / tunnel.width for tunnel in tunnels]
    if not away or min(away) > REACH:
        return None
    tunnel = tunnels[int(np.argmin(away))]
    plane = plane_of(cell, _own(tunnel, frame, cell))
    # The mean, about the middle of the cells rather than the rectangle's.
    plane[0, 1:] = _own(tunnel, frame, cell)[:, 1:].mean(0)
    return Trough(tunnel, frame, plane, generator.uniform(0.1, 1.0), generator.uniform(0.01, 0.2))


def _own(tunnel: Tunnel, frame: Frame, xy: Array) -> Array:
    cos, sin = np.cos(frame.angle), np.sin(frame.angle)
    back = xy @ np.array([[cos, sin], [-sin, cos]]) + frame.centre
    free = tunnel.greenfield(back)
    return np.column_stack([free[:, 0], frame.turn(free[:, 1:])])
