"""The definition of the label on a rectangle; `simulate.structure.labels`, which is faster, is held to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from plumbline.core.arrays import Array
from plumbline.core.compass import quadrant_code
from plumbline.core.strain import ACCEPTED_SHARE, bay_length, principal_tensile_strain

Field = Callable[[Array, Array], tuple[Array, Array, Array]]
"""(x, y) in m from the centre -> vertical, along-x and along-y displacement in mm, same shape."""


class Strain(NamedTuple):
    """The label of one building."""

    severity_permille: float
    quadrant: int
    """Index into `compass.QUADRANTS`, of the middle of the bay with the largest strain."""
    accepted: tuple[int, ...]
    """Indices of the quadrants whose own largest strain is `ACCEPTED_SHARE` of the severity at least."""


def structure_strain(field: Field, side_x: float, side_y: float, spacing: float = 1.0) -> Strain:
    """Compute severity and quadrant of a noise-free displacement field over a rectangular footprint, by the definition.

    Bays of exactly `bay_length` slide along both axes by at most `spacing` m, from edge to edge, on lines at most
    `spacing` m apart, edges included. The area-weighted least-squares plane of the vertical displacement over the
    rectangle is taken off first, so that rigid motion never counts.

    Args:
        field: displacement in mm at building-frame positions in m.
        side_x, side_y: sides of the rectangle, m, both above 0.
        spacing: largest step, m.
    """
    side = (side_x, side_y)
    tilt = _tilt(field, side, spacing)
    largest, best, by_quadrant = -1.0, 0, np.zeros(4)
    for axis in (0, 1):
        bay = bay_length(side[axis])
        start = _lattice(-side[axis] / 2, side[axis] / 2 - bay, spacing)
        line = _lattice(-side[1 - axis] / 2, side[1 - axis] / 2, spacing)
        near, far = (_sample(field, axis, along, line) for along in (start, start + bay))
        beta = (far[0] - near[0]) / bay - tilt[axis]
        strain = principal_tensile_strain(beta, (far[1 + axis] - near[1 + axis]) / bay)
        middle = np.meshgrid(start + bay / 2, line, indexing="ij")
        code = quadrant_code(middle[axis], middle[1 - axis])
        np.maximum.at(by_quadrant, code, strain)
        at = np.unravel_index(int(np.argmax(strain)), strain.shape)
        if strain[at] > largest:
            largest, best = float(strain[at]), int(code[at])
    return Strain(largest, best, tuple(np.flatnonzero(by_quadrant >= ACCEPTED_SHARE * largest).tolist()))


def _lattice(low: float, high: float, spacing: float) -> Array:
    """Return evenly spaced coordinates from `low` to `high`, at least three, at most `spacing` apart."""
    return np.linspace(low, high, max(2, int(np.ceil((high - low) / spacing - 1e-9))) + 1)


def _sample(field: Field, axis: int, along: Array, line: Array) -> tuple[Array, Array, Array]:
    """Sample the field at positions `along` an axis, on lines across it; each part (A, L)."""
    a, b = np.meshgrid(along, line, indexing="ij")
    up, along_x, along_y = field(a, b) if axis == 0 else field(b, a)
    return np.asarray(up, float), np.asarray(along_x, float), np.asarray(along_y, float)


def _tilt(field: Field, side: tuple[float, float], spacing: float) -> tuple[float, float]:
    """Return the tilts, mm/m, of the area-weighted least-squares plane of the vertical displacement.

    Trapezoidal weights: lattice lines on the edge stand for half the area of inner ones.
    """
    x, y = (_lattice(-length / 2, length / 2, spacing) for length in side)
    up = _sample(field, 0, x, y)[0]
    weight = np.outer(_trapezoid(len(x)), _trapezoid(len(y)))
    # On a symmetric lattice the three columns 1, x, y are orthogonal, so each coefficient stands alone.
    tilt_x = (weight * up * x[:, None]).sum() / (weight * x[:, None] ** 2).sum()
    tilt_y = (weight * up * y[None, :]).sum() / (weight * y[None, :] ** 2).sum()
    return float(tilt_x), float(tilt_y)


def _trapezoid(count: int) -> Array:
    weight = np.ones(count)
    weight[[0, -1]] = 0.5
    return weight
