"""How a building follows the ground over a tunnel: rigid motion whole, bending and stretching damped.

Modification factors after Potts and Addenbrooke (1997), A structure's influence on tunnelling-induced ground
movements, Proc. ICE Geotech. Eng. 125(2).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plumbline.core.compass import Frames
from plumbline.simulate.random_numbers import log_uniform
from plumbline.simulate.structure.tunnels import REACH_WIDTHS, Tunnel

Array = NDArray[np.float64]
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
    """(B,) whether any trough reaches the building; the others stay at rest."""
    deflection: Array
    """(B,) share of the greenfield deflection that the building follows."""
    strain: Array
    """(B,) share of the greenfield horizontal strain that the building follows."""
    mean: Array
    """(B, 3) greenfield mean over the footprint: along x, along y, up, mm."""
    tilt: Array
    """(B, 2) greenfield least-squares tilt of the vertical displacement along x and y, mm/m."""

    def field(self, index: NDArray[np.intp] | int, x: Array, y: Array) -> tuple[Array, Array, Array]:
        """Vertical, along-x and along-y displacement, mm, at foundation level of buildings `index`."""
        along_x, along_y, up = self._greenfield(index, x, y)
        plane = self.mean[index, 2] + self.tilt[index, 0] * x + self.tilt[index, 1] * y
        share = self.strain[index]
        return (
            plane + self.deflection[index] * (up - plane),
            self.mean[index, 0] + share * (along_x - self.mean[index, 0]),
            self.mean[index, 1] + share * (along_y - self.mean[index, 1]),
        )

    def _greenfield(self, index: NDArray[np.intp] | int, x: Array, y: Array) -> tuple[Array, Array, Array]:
        along_x, along_y, up = np.zeros_like(x), np.zeros_like(x), np.zeros_like(x)
        for k, tunnel in enumerate(self.tunnels):
            normal_x, normal_y = self.normal[index, k, 0], self.normal[index, k, 1]
            distance = self.distance[index, k] + normal_x * x + normal_y * y
            horizontal = tunnel.horizontal(distance)
            along_x += normal_x * horizontal
            along_y += normal_y * horizontal
            up += tunnel.vertical(distance)
        return along_x, along_y, up


def building_response(tunnels: list[Tunnel], frames: Frames, deflection: Array, strain: Array) -> Response:
    """Response of buildings with modification factors `deflection` (B,) and `strain` (B,).

    The plane that a building follows whole is the area-weighted least-squares plane over its rectangle.
    """
    count = len(frames.angle)
    every = np.arange(count)
    normal = np.stack([frames.rotate(every, np.tile(t.normal, (count, 1))) for t in tunnels], axis=1)
    distance = np.stack([t.distance(frames.centre) for t in tunnels], axis=1)
    reach = REACH_WIDTHS * np.array([t.width for t in tunnels])
    reached = (np.abs(distance) < reach + np.hypot(*frames.side.T)[:, None] / 2).any(axis=1)
    rest = Response(tunnels, distance, normal, reached, deflection, strain, np.zeros((count, 3)), np.zeros((count, 2)))

    # Gauss-Legendre nodes over the rectangle; 1, x and y are orthogonal there, so each coefficient stands alone.
    at = np.flatnonzero(reached)
    node_x, node_y = (part.ravel() for part in np.meshgrid(NODES, NODES, indexing="ij"))
    weight = np.outer(WEIGHTS, WEIGHTS).ravel() / 4
    x, y = frames.side[at, :1] / 2 * node_x, frames.side[at, 1:] / 2 * node_y
    along_x, along_y, up = (
        part.reshape(x.shape) for part in rest._greenfield(np.repeat(at, x.shape[1]), x.ravel(), y.ravel())
    )
    rest.mean[at] = np.stack([along_x @ weight, along_y @ weight, up @ weight], axis=1)
    rest.tilt[at, 0] = (up * x) @ weight / (x**2 @ weight)
    rest.tilt[at, 1] = (up * y) @ weight / (y**2 @ weight)
    return rest


def draw_response(rng: np.random.Generator, tunnels: list[Tunnel], frames: Frames) -> Response:
    """Modification factors over the published ranges: deflection 0.1 to 1, horizontal strain 0.01 to 0.2."""
    count = len(frames.angle)
    deflection = rng.uniform(0.1, 1.0, count)
    strain = log_uniform(rng, 0.01, 0.2, count)
    return building_response(tunnels, frames, deflection, strain)
