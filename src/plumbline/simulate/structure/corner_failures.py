"""Let one quadrant of a building fail: a smooth hinge that starts inside the building and grows to the corner.

All shapes live in `u, v`: building-frame coordinates in half sides, turned so that the failing corner is (1, 1). They
are 1 at that corner and vanish towards the opposite one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plumbline.simulate.random_numbers import log_uniform
from plumbline.simulate.structure.footprints import CORNERS

Array = NDArray[np.float64]
PRODUCT, DIAGONAL, RADIAL, SIGMOID = range(4)
"""Families: two hinges crossing; one oblique hinge; rings about the corner; two crossing hinges that level off."""
FAMILY_SHARES = (0.35, 0.35, 0.15, 0.15)
OPENING_SHARE, MOST_OPENING = 0.5, 1.0
"""Share of failures that also move away from the building, and how far at most, as a share of the drop."""


@dataclass(frozen=True)
class Hinges:
    """A failing corner of each of B buildings."""

    family: NDArray[np.intp]
    """(B,) PRODUCT, DIAGONAL, RADIAL or SIGMOID."""
    corner: NDArray[np.intp]
    """(B,) the failing corner, as index into `compass.QUADRANTS`."""
    half: Array
    """(B, 2) half sides, m."""
    start: Array
    """(B, 2) where the hinge starts along x and y, in half sides from the centre."""
    softness: Array
    """(B,) width of the bend at the start, in half sides."""
    power: Array
    """(B, 2) exponents along x and y; 1 is a rigid corner piece, more a bending one."""
    weight: Array
    """(B,) share of x in the direction of an oblique hinge."""
    opening: Array
    """(B,) movement away from the building, along the diagonal of its frame, as a share of the drop."""
    drop: Array
    """(B,) vertical displacement of the corner, mm, up positive; 0 without a failure."""

    def field(self, index: NDArray[np.intp] | int, x: Array, y: Array) -> tuple[Array, Array, Array]:
        """Return displacement (vertical, along x and y), mm, at building-frame positions, m, of buildings `index`."""
        up = self.up(index, x, y)
        away = (self.opening[index] * np.abs(up) / np.sqrt(2))[..., None] * CORNERS[self.corner[index]]
        return up, away[..., 0], away[..., 1]

    def up(self, index: NDArray[np.intp] | int, x: Array, y: Array) -> Array:
        """Return vertical displacement, mm, at building-frame positions, m, of buildings `index`."""
        sign, half = CORNERS[self.corner[index]], self.half[index]
        u, v = sign[..., 0] * x / half[..., 0], sign[..., 1] * y / half[..., 1]
        # The ramps' value at the corner, once a building and not once a position.
        full = softplus((1 - self.start) / self.softness[:, None])
        if isinstance(index, int):
            return np.asarray(self.drop[index] * self._shape(index, int(self.family[index]), u, v, full), float)
        shape = np.zeros_like(u)
        for family in range(len(FAMILY_SHARES)):
            at = np.flatnonzero(self.family[index] == family)
            shape[at] = self._shape(index[at], family, u[at], v[at], full)
        return np.asarray(self.drop[index] * shape, float)

    def _shape(self, index: NDArray[np.intp] | int, family: int, u: Array, v: Array, full: Array) -> Array:
        soft = self.softness[index]
        (start_x, start_y), (power_x, power_y), (full_x, full_y) = (
            self.start[index].T,
            self.power[index].T,
            full[index].T,
        )
        if family == DIAGONAL:
            weight = self.weight[index]
            return ramp(weight * u + (1 - weight) * v, start_x, soft, power_x, full_x)
        if family == RADIAL:
            return ramp(1 - np.hypot(1 - u, 1 - v), start_x, soft, power_x, full_x)
        if family == SIGMOID:
            return np.asarray(smoothstep(u, start_x) ** power_x * smoothstep(v, start_y) ** power_y, float)
        return ramp(u, start_x, soft, power_x, full_x) * ramp(v, start_y, soft, power_y, full_y)


def softplus(value: Array) -> Array:
    """Return `log(1 + exp(value))`."""
    return np.asarray(np.maximum(value, 0) + np.log1p(np.exp(-np.abs(value))), float)


def ramp(u: Array, start: Array, softness: Array, power: Array, full: Array) -> Array:
    """Return a softplus ramp, raised to `power`: near 0 before `start`, 1 at `u = 1`.

    `full` is the softplus at `u = 1`: `softplus((1 - start) / softness)`.
    """
    return np.asarray((softplus((u - start) / softness) / full) ** power, float)


def smoothstep(u: Array, start: Array | float) -> Array:
    """Return `3 s^2 - 2 s^3`, `s` from 0 at `start` to 1 at `u = 1`: steepest half way, level at the edge."""
    s = np.clip((u - start) / (1 - start), 0, 1)
    return np.asarray(s * s * (3 - 2 * s), float)


def draw_hinges(rng: np.random.Generator, side: Array, standing: NDArray[np.bool_]) -> Hinges:
    """Draw hinges of a drop of -1 mm for buildings with sides (B, 2) in m.

    Args:
        rng: the generator to draw from.
        side: (B, 2) sides, m.
        standing: (B, 4) which corners of the rectangle the footprint really has; the others cannot fail.
    """
    count = len(side)
    start = rng.uniform(0, 0.6, (count, 2))
    together = rng.random(count) < 0.5
    start[together, 1] = start[together, 0]
    power = np.where(rng.random((count, 1)) < 0.4, 1.0, rng.uniform(1, 3, (count, 2)))
    together = rng.random(count) < 0.6
    power[together, 1] = power[together, 0]
    return Hinges(
        family=rng.choice(len(FAMILY_SHARES), size=count, p=FAMILY_SHARES),
        corner=(rng.random((count, 4)) * standing).argmax(axis=1),
        half=side / 2,
        start=start,
        softness=log_uniform(rng, 0.05, 0.25, count),
        power=power,
        weight=rng.uniform(0.3, 0.7, count),
        opening=np.where(rng.random(count) < OPENING_SHARE, rng.uniform(0, MOST_OPENING, count), 0.0),
        drop=-np.ones(count),
    )
