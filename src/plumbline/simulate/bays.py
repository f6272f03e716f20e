"""The label definition for many buildings at once.

The same lattice, bays and order as `plumbline.strain.structure_strain`, which is the definition; here the samples of
many buildings stand one after the other in flat arrays, so that numpy works on millions of them at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plumbline.compass import quadrant_code
from plumbline.strain import BAY_M, principal_tensile_strain

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Fields = Callable[[Index, Array, Array], tuple[Array, Array, Array]]
"""(building, x, y), all (M,) -> vertical, along-x and along-y displacement in mm, each (M,)."""
SPACING_M = 1.0
FINEST = 500
"""A side of more metres than this is sampled at as many places: the square of a longer one would not fit in memory."""
SAMPLES_AT_A_TIME = 100_000


@dataclass(frozen=True)
class Strains:
    """The labels of B buildings."""

    severity_permille: Array
    quadrant: Index
    """(B,) index into `compass.QUADRANTS`, of the middle of the bay with the largest strain."""


def strains(fields: Fields, side: Array, which: Index | None = None) -> Strains:
    """Severity and quadrant of noise-free fields over rectangles.

    Args:
        fields: displacement of buildings at building-frame positions in m.
        side: (B, 2) sides, m, all above 0.
        which: buildings to look at; of the others both are 0.
    """
    result = Strains(np.zeros(len(side)), np.zeros(len(side), np.intp))
    for part in _parts(side, np.arange(len(side)) if which is None else which):
        result.severity_permille[part], result.quadrant[part] = _strains(fields, side[part], part)
    return result


def _parts(side: Array, which: Index) -> Iterator[Index]:
    samples = np.cumsum((np.minimum(side[which], FINEST) + 2).prod(axis=1) * 5)
    number = (samples // SAMPLES_AT_A_TIME).astype(np.intp)
    yield from (part for part in np.split(which, np.flatnonzero(np.diff(number)) + 1) if len(part))


def _strains(fields: Fields, side: Array, part: Index) -> tuple[Array, Index]:
    spacing = SPACING_M * np.maximum(side / FINEST, 1)
    plane = _rectangles(-side / 2, side / 2, spacing)
    tilt = _tilts(fields(part[plane.building], plane.at[0], plane.at[1])[0], plane, len(part))
    building, strain, quadrant = [], [], []
    for axis in (0, 1):
        bay = np.where(side[:, axis] >= 2 * BAY_M, BAY_M, side[:, axis] / 2)
        high = side / 2
        high[:, axis] -= bay
        start = _rectangles(-side / 2, high, spacing)
        own = start.building
        shift = np.zeros((2, 1)) + (np.arange(2) == axis)[:, None] * bay[own]
        near, far = (fields(part[own], *at) for at in (start.at, start.at + shift))
        beta = (far[0] - near[0]) / bay[own] - tilt[own, axis]
        building.append(own)
        strain.append(principal_tensile_strain(beta, (far[1 + axis] - near[1 + axis]) / bay[own]))
        quadrant.append(quadrant_code(*(start.at + shift / 2)))
    own, every = np.concatenate(building), np.concatenate(strain)
    # The first of the largest, the first axis before the second: as the definition has it.
    order = np.lexsort((np.arange(len(own)), -every, own))
    best = order[np.flatnonzero(np.diff(own[order], prepend=-1))]
    return every[best], np.asarray(np.concatenate(quadrant)[best], np.intp)


@dataclass(frozen=True)
class _Lattice:
    building: Index
    """(M,) ascending."""
    at: Array
    """(2, M) x and y, m."""
    weight: Array
    """(M,) trapezoidal weight: samples on an edge stand for half the area of inner ones."""


def _rectangles(low: Array, high: Array, spacing: Array) -> _Lattice:
    """Even lattices from `low` to `high` (B, 2), edges included, at least three and at most `spacing` (B, 2) apart."""
    steps = np.maximum(2, np.ceil((high - low) / spacing - 1e-9)).astype(np.intp)
    count = (steps + 1).prod(axis=1)
    building = np.repeat(np.arange(len(low)), count)
    within = np.arange(len(building)) - np.repeat(np.cumsum(count) - count, count)
    across = np.stack(np.divmod(within, (steps[:, 1] + 1)[building]))
    last = steps[building].T
    at = low[building].T + across * ((high - low) / steps)[building].T
    edge = (across == 0) | (across == last)
    return _Lattice(building, at, np.where(edge, 0.5, 1.0).prod(axis=0))


def _tilts(up: Array, plane: _Lattice, count: int) -> Array:
    """(B, 2) tilts in mm/m of the area-weighted least-squares planes; 1, x and y are orthogonal on the lattice."""
    return np.stack(
        [
            np.bincount(plane.building, plane.weight * up * at, count)
            / np.bincount(plane.building, plane.weight * at**2, count)
            for at in plane.at
        ],
        axis=1,
    )
