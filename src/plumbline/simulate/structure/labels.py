"""Label many buildings at once, by the definition in `plumbline.core.strain`.

The same lattice, bays and order as `structure_strain` there, which is the definition on a rectangle; here the samples
of many buildings stand one after the other in flat arrays, so that numpy works on millions at a time. On a footprint
of another shape the plane is that over the footprint, and bays that leave it do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import shapely
from numpy.typing import NDArray

from plumbline.core.compass import QUADRANTS, quadrant_code
from plumbline.core.strain import ACCEPTED_SHARE, BAY_M, principal_tensile_strain
from plumbline.simulate.structure.footprints import inside, tilts_over

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Fields = Callable[[Index, Array, Array], tuple[Array, Array, Array]]
"""(building, x, y), all (M,) -> vertical, along-x and along-y displacement in mm, each (M,)."""
SPACING_M = 1.0
FINEST = 500
"""A side of more metres than this is sampled at as many places: the square of a longer one would not fit in memory."""
SAMPLES_AT_A_TIME = 100_000
CELL_M = 0.5
"""Largest side of the equal cells whose middles stand for a footprint that is not a rectangle."""
ALONG_A_BAY = np.linspace(0, 1, 9)
"""Places of a bay that have to be on such a footprint."""
OFF = 1e6
"""Permille: more than any strain is."""


@dataclass(frozen=True)
class Strains:
    """Labels of B buildings."""

    severity_permille: Array
    quadrant: Index
    """(B,) index into `compass.QUADRANTS`, of the middle of the bay with the largest strain."""
    by_quadrant: Array
    """(B, 4) largest strain of a bay whose middle lies in each quadrant, permille."""

    @property
    def accepted(self) -> NDArray[np.bool_]:
        """(B, 4) whether a quadrant is strained nearly as much as the worst, and so is a right answer."""
        return np.asarray(self.by_quadrant >= ACCEPTED_SHARE * self.severity_permille[:, None])

    def scaled(self, factor: Array) -> Strains:
        """Return the labels for displacements that are `factor` (B,) times as large; `factor` is at least 0."""
        return Strains(self.severity_permille * factor, self.quadrant, self.by_quadrant * factor[:, None])

    def where(self, these: NDArray[np.bool_], others: Strains) -> Strains:
        """Return these labels at `these` (B,), and `others` elsewhere."""
        return Strains(
            np.where(these, self.severity_permille, others.severity_permille),
            np.where(these, self.quadrant, others.quadrant),
            np.where(these[:, None], self.by_quadrant, others.by_quadrant),
        )


def strains(
    fields: Fields, side: Array, which: Index | None = None, outline: NDArray[np.object_] | None = None
) -> Strains:
    """Compute severity and quadrant of noise-free fields over footprints.

    Args:
        fields: displacement of buildings at building-frame positions in m.
        side: (B, 2) sides of their rectangles, m, all above 0.
        which: buildings to look at; of the others both are 0.
        outline: (B,) footprints as `footprints.own_outlines`; without, all are rectangles.
    """
    result = Strains(np.zeros(len(side)), np.zeros(len(side), np.intp), np.zeros((len(side), 4)))
    shaped = np.zeros(len(side), bool) if outline is None else np.array([one is not None for one in outline], bool)
    which = np.arange(len(side)) if which is None else which
    for part in _parts(side, which[~shaped[which]], SPACING_M):
        plane = _rectangles(-side[part] / 2, side[part] / 2, _spacing(side[part], SPACING_M))
        tilt = _tilts(fields(part[plane.building], *plane.at)[0], plane, len(part))
        _set(result, part, _worst(fields, side[part], part, tilt, None))
    if outline is not None:
        for part in _parts(side, which[shaped[which]], CELL_M):
            tilt = _footprint_tilts(fields, side[part], part, outline)
            _set(result, part, _worst(fields, side[part], part, tilt, outline))
    return result


def _set(result: Strains, part: Index, found: Strains) -> None:
    result.severity_permille[part], result.quadrant[part] = found.severity_permille, found.quadrant
    result.by_quadrant[part] = found.by_quadrant


def _parts(side: Array, which: Index, spacing: float) -> Iterator[Index]:
    samples = np.cumsum((np.minimum(side[which] / spacing, FINEST) + 2).prod(axis=1) * 5)
    number = (samples // SAMPLES_AT_A_TIME).astype(np.intp)
    yield from (part for part in np.split(which, np.flatnonzero(np.diff(number)) + 1) if len(part))


def _spacing(side: Array, spacing: float) -> Array:
    return spacing * np.maximum(side / spacing / FINEST, 1)


def _footprint_tilts(fields: Fields, side: Array, part: Index, outline: NDArray[np.object_]) -> Array:
    """Return tilts (b, 2) of the planes over footprints, by the middles of equal cells."""
    cell = side / np.ceil(side / _spacing(side, CELL_M))
    middle = _rectangles((cell - side) / 2, (side - cell) / 2, cell)
    kept = inside(outline, part[middle.building], *middle.at)
    own, at = middle.building[kept], middle.at[:, kept]
    return tilts_over(fields(part[own], *at)[0], own, at, len(part))


def _worst(fields: Fields, side: Array, part: Index, tilt: Array, outline: NDArray[np.object_] | None) -> Strains:
    """Return the largest strain of any bay of buildings `part`, and the quadrant of that bay's middle."""
    spacing = _spacing(side, SPACING_M)
    building, strain, quadrant = [], [], []
    for axis in (0, 1):
        bay = np.where(side[:, axis] >= 2 * BAY_M, BAY_M, side[:, axis] / 2)
        high = side / 2
        high[:, axis] -= bay
        lattice = _rectangles(-side / 2, high, spacing)
        own, start = lattice.building, lattice.at
        if outline is not None:
            own, start = _with_vertices(own, start, outline[part], axis, bay)
        shift = np.zeros((2, 1)) + (np.arange(2) == axis)[:, None] * bay[own]
        near, far = (fields(part[own], *at) for at in (start, start + shift))
        beta = (far[0] - near[0]) / bay[own] - tilt[own, axis]
        found = principal_tensile_strain(beta, (far[1 + axis] - near[1 + axis]) / bay[own])
        if outline is not None:
            within = [inside(outline, part[own], *(start + share * shift)) for share in ALONG_A_BAY]
            # Behind every bay that lies on the footprint, and alone where none does.
            found = np.where(np.all(within, axis=0), found, found - OFF)
        building.append(own)
        strain.append(found)
        quadrant.append(quadrant_code(*(start + shift / 2)))
    own, every = np.concatenate(building), np.concatenate(strain)
    # The first of the largest, the first axis before the second: as the definition has it.
    order = np.lexsort((np.arange(len(own)), -every, own))
    best = order[np.flatnonzero(np.diff(own[order], prepend=-1))]
    severity = np.where(every[best] < 0, every[best] + OFF, every[best])
    code = np.concatenate(quadrant)
    by_quadrant = np.full((len(part), len(QUADRANTS)), -OFF)
    np.maximum.at(by_quadrant, (own, code), every)
    # Where all bays leave the footprint, the worst of them counts, and its quadrant alone.
    by_quadrant[np.arange(len(part)), code[best]] = severity
    return Strains(severity, np.asarray(code[best], np.intp), np.maximum(by_quadrant, 0))


def _with_vertices(
    own: Index, start: Array, outline: NDArray[np.object_], axis: int, bay: Array
) -> tuple[Index, Array]:
    """Add bays that begin or end at a vertex, because the lattice may miss the corner with the largest strain."""
    vertex, building = shapely.get_coordinates(outline, return_index=True)
    back = vertex.T - (np.arange(2) == axis)[:, None] * bay[building]
    return np.concatenate([own, building, building]), np.concatenate([start, vertex.T, back], axis=1)


@dataclass(frozen=True)
class _Lattice:
    building: Index
    """(M,) ascending."""
    at: Array
    """(2, M) x and y, m."""
    weight: Array
    """(M,) trapezoidal weight: samples on an edge stand for half the area of inner ones."""


def _rectangles(low: Array, high: Array, spacing: Array) -> _Lattice:
    """Return even lattices from `low` to `high` (B, 2) with edges, at least three, at most `spacing` (B, 2) apart."""
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
    """Return tilts (B, 2), mm/m, of area-weighted least-squares planes; 1, x and y are orthogonal on the lattice."""
    return np.stack(
        [
            np.bincount(plane.building, plane.weight * up * at, count)
            / np.bincount(plane.building, plane.weight * at**2, count)
            for at in plane.at
        ],
        axis=1,
    )
