"""Labels by section 3 of the design: largest principal tensile strain over bays, and the quadrant of that bay."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.makers.seventh.building import Building
from benchmarks.makers.seventh.settings import Array

Field = Callable[[Array, Array], Array]
"""x (N,) and y (N,) in a building's axes, m -> (N, 3) m up, along x and along y."""
BAY_M, STEP_M = 4.0, 0.5


def plane_of(x: Array, y: Array, up: Array) -> Array:
    """(3,) constant and slopes along x and y of the least-squares plane through values at (N,) positions."""
    return np.asarray(np.linalg.lstsq(np.stack([np.ones_like(x), x, y], 1), up, rcond=None)[0])


def strain_of(building: Building, field: Field) -> tuple[float, str]:
    """Strain (no unit) and quadrant of a movement without noise; after Boscardin and Cording (1989)."""
    x, y = building.cells(STEP_M)
    plane = plane_of(x, y, field(x, y)[:, 0])
    strain, middle = 0.0, (0.0, 0.0)
    for axis in (0, 1):
        along, across = building.half[axis], building.half[1 - axis]
        bay = min(BAY_M, along)  # half the side where that is shorter than two bays
        first = np.linspace(-along, along - bay, max(2, int(np.ceil((2 * along - bay) / STEP_M)) + 1))
        line = np.linspace(-across, across, 2 * int(np.ceil(across / STEP_M)) + 1)
        begin, at = (values.ravel() for values in np.meshgrid(first, line))
        start, end = ((begin, at), (begin + bay, at)) if axis == 0 else ((at, begin), (at, begin + bay))
        centre = [(one + other) / 2 for one, other in zip(start, end, strict=True)]
        inside = building.holds(*start) & building.holds(*end) & building.holds(centre[0], centre[1])
        change = (field(*(v[inside] for v in end)) - field(*(v[inside] for v in start))) / bay
        beta, stretch = change[:, 0] - plane[1 + axis], change[:, 1 + axis]
        principal = stretch / 2 + np.sqrt((stretch / 2) ** 2 + (beta / 2) ** 2)
        worst = int(np.argmax(principal))
        if principal[worst] > strain:
            strain, middle = float(principal[worst]), (centre[0][inside][worst], centre[1][inside][worst])
    return strain, quadrant_of(*middle)


def quadrant_of(x: float, y: float) -> str:
    """Name of the quadrant that a position, or its signs, is in."""
    return ("N" if y >= 0 else "S") + ("E" if x >= 0 else "W")
