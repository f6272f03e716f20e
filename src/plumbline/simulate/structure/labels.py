"""Compute the labels: strain over bays, and the difficulty of seeing it.

Bays of exactly `bay_length` slide along both axes on a lattice. The samples of many
buildings follow one another in flat arrays, so that numpy works on millions at a time. On a
footprint of another shape the plane is fitted over the footprint, and bays that leave it do
not count.

From the fit of a straight line over the observation, a point's vertical change has the
variance `12 sigma^2 / (T_eff los_up^2)` with `T_eff = T (1 - rho) / (1 + rho)` epochs that
count, for first-order autoregressive noise; `noise.Law` has it for noise with a long
memory. A quarter of n such points against the other three quarters gives a quadrant's drop
with the variance `(4 + 4/3) / n` of that; points that differ count by their precision. The
strain's drop is that of an angular distortion of twice the strain (`plumbline.core.strain`,
without horizontal strain) over half a side: strain times side. A point that is not at the
product's place shows the drop of another place: that distortion times the position error,
once a point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import shapely
from numpy.typing import NDArray

from plumbline.core.arrays import Array, Index
from plumbline.core.compass import QUADRANTS, quadrant_code
from plumbline.core.strain import (
    ACCEPTED_SHARE,
    BAY_M,
    CATEGORY_BOUNDS_PERMILLE,
    principal_tensile_strain,
)
from plumbline.simulate.structure.layout import EDGE_M, inside, tilts_over

Fields = Callable[[Index, Array, Array], tuple[Array, Array, Array]]
"""(building, x, y), all (M,) -> vertical, along-x and along-y displacement in mm, each (M,)."""
SPACING_M = 1.0
FINEST = 500
"""Largest number of samples along a side: the square of a larger one would not fit in memory."""
SAMPLES_AT_A_TIME = 100_000
CELL_M = 0.5
"""Largest side of the equal cells by whose middles a footprint of another shape is sampled."""
ALONG_A_BAY = np.linspace(0, 1, 9)
"""Places along a bay, as shares of it, that have to be on such a footprint."""
OFF = 1e6
"""Offset in permille, more than any strain, of bays that leave the footprint."""
TIE_SHARE = 1e-9
"""Share of the largest strain by which a bay may be below it and still have the same
strain. Under a shape that does not vary along an axis all bays of a row do: the last bit
would choose the quadrant."""
AXIS_DECIMALS = 6
"""Decimals, m, of a bay's middle when its quadrant is taken: one on an axis is exactly on it."""


@dataclass(frozen=True)
class Strains:
    """Labels of B buildings."""

    severity_permille: Array
    quadrant: Index
    """(B,) index into `compass.QUADRANTS`, of the middle of the bay with the largest strain."""
    by_quadrant: Array
    """(B, 4) largest strain of a bay whose middle is in each quadrant, permille."""

    @property
    def accepted(self) -> NDArray[np.bool_]:
        """(B, 4) whether a quadrant is strained nearly as much as the worst, and so is a
        right answer."""
        return np.asarray(self.by_quadrant >= ACCEPTED_SHARE * self.severity_permille[:, None])

    def scaled(self, factor: Array) -> Strains:
        """Return the labels for displacements that are `factor` (B,) times as large;
        `factor` is at least 0."""
        return Strains(
            self.severity_permille * factor, self.quadrant, self.by_quadrant * factor[:, None]
        )

    def where(self, mask: NDArray[np.bool_], elsewhere: Strains) -> Strains:
        """Return these labels where `mask` (B,) is true, and those of `elsewhere` for the rest."""
        return Strains(
            np.where(mask, self.severity_permille, elsewhere.severity_permille),
            np.where(mask, self.quadrant, elsewhere.quadrant),
            np.where(mask[:, None], self.by_quadrant, elsewhere.by_quadrant),
        )


def strains(
    fields: Fields,
    side: Array,
    index: Index | None = None,
    outline: NDArray[np.object_] | None = None,
) -> Strains:
    """Compute severity and quadrant of noise-free fields over footprints.

    Args:
        fields: displacement of buildings at building-frame positions in m.
        side: (B, 2) sides of their rectangles, m, all above 0.
        index: of the buildings to label; both are 0 for the others.
        outline: (B,) footprints as `footprints.own_outlines`; without, all are rectangles.
    """
    labels = Strains(np.zeros(len(side)), np.zeros(len(side), np.intp), np.zeros((len(side), 4)))
    shaped = (
        np.zeros(len(side), bool)
        if outline is None
        else np.array([shape is not None for shape in outline], bool)
    )
    index = np.arange(len(side)) if index is None else index
    for part in _split_buildings(side, index[~shaped[index]], SPACING_M):
        plane = _rectangles(-side[part] / 2, side[part] / 2, _spacing(side[part], SPACING_M))
        tilt = _tilts(fields(part[plane.building], *plane.at)[0], plane, len(part))
        _store_part(labels, part, _find_worst_bay(fields, side[part], part, tilt, None))
    if outline is not None:
        for part in _split_buildings(side, index[shaped[index]], CELL_M):
            tilt = _footprint_tilts(fields, side[part], part, outline)
            _store_part(labels, part, _find_worst_bay(fields, side[part], part, tilt, outline))
    return labels


def _store_part(labels: Strains, part: Index, of_part: Strains) -> None:
    labels.severity_permille[part], labels.quadrant[part] = (
        of_part.severity_permille,
        of_part.quadrant,
    )
    labels.by_quadrant[part] = of_part.by_quadrant


def _split_buildings(side: Array, index: Index, spacing: float) -> Iterator[Index]:
    samples = np.cumsum((np.minimum(side[index] / spacing, FINEST) + 2).prod(axis=1) * 5)
    number = (samples // SAMPLES_AT_A_TIME).astype(np.intp)
    yield from (part for part in np.split(index, np.flatnonzero(np.diff(number)) + 1) if len(part))


def _spacing(side: Array, spacing: float) -> Array:
    return spacing * np.maximum(side / spacing / FINEST, 1)


def _footprint_tilts(
    fields: Fields, side: Array, part: Index, outline: NDArray[np.object_]
) -> Array:
    """Return tilts (b, 2) of the planes over footprints, by the middles of equal cells."""
    cell = side / np.ceil(side / _spacing(side, CELL_M) - 1e-9)
    middle = _rectangles((cell - side) / 2, (side - cell) / 2, cell)
    is_inside = inside(outline, part[middle.building], *middle.at)
    building, at = middle.building[is_inside], middle.at[:, is_inside]
    return tilts_over(fields(part[building], *at)[0], building, at, len(part))


def _find_worst_bay(
    fields: Fields, side: Array, part: Index, tilt: Array, outline: NDArray[np.object_] | None
) -> Strains:
    """Return the largest strain of any bay of buildings `part`, and the quadrant of that
    bay's middle."""
    spacing = _spacing(side, SPACING_M)
    buildings, strain_of_bays, quadrants = [], [], []
    for axis in (0, 1):
        bay = np.where(side[:, axis] >= 2 * BAY_M, BAY_M, side[:, axis] / 2)
        high = side / 2
        high[:, axis] -= bay
        lattice = _rectangles(-side / 2, high, spacing)
        building, start = (
            (lattice.building, lattice.at)
            if outline is None
            else _with_vertices(lattice.building, lattice.at, outline[part], axis, bay)
        )
        shift = np.zeros((2, 1)) + (np.arange(2) == axis)[:, None] * bay[building]
        begin, end = (fields(part[building], *at) for at in (start, start + shift))
        # Angular distortion of the bay against the building's plane, mm/m.
        beta = (end[0] - begin[0]) / bay[building] - tilt[building, axis]
        strain = principal_tensile_strain(beta, (end[1 + axis] - begin[1 + axis]) / bay[building])
        if outline is not None:
            within = [
                inside(outline, part[building], *(start + share * shift)) for share in ALONG_A_BAY
            ]
            # Below every bay on the footprint, so that it counts only where no bay is on it.
            strain = np.where(np.all(within, axis=0), strain, strain - OFF)
        buildings.append(building)
        strain_of_bays.append(strain)
        quadrants.append(quadrant_code(*np.round(start + shift / 2, AXIS_DECIMALS)))
    building, strain = np.concatenate(buildings), np.concatenate(strain_of_bays)
    largest = np.full(len(part), -np.inf)
    np.maximum.at(largest, building, strain)
    # The first of the largest, the first axis before the second: as the definition has it.
    equal = np.flatnonzero(strain >= (largest - TIE_SHARE * np.abs(largest))[building])
    best = equal[np.unique(building[equal], return_index=True)[1]]
    severity = np.where(largest < 0, largest + OFF, largest)
    code = np.concatenate(quadrants)
    by_quadrant = np.full((len(part), len(QUADRANTS)), -OFF)
    np.maximum.at(by_quadrant, (building, code), strain)
    # Where all bays leave the footprint, the worst of them counts, and its quadrant alone.
    by_quadrant[np.arange(len(part)), code[best]] = severity
    return Strains(severity, np.asarray(code[best], np.intp), np.maximum(by_quadrant, 0))


def _with_vertices(
    building: Index, start: Array, outline: NDArray[np.object_], axis: int, bay: Array
) -> tuple[Index, Array]:
    """Add bays that begin or end at a vertex, because the lattice may miss the corner with
    the largest strain."""
    # Within the outline: of a bay along its very edge, the last bit would decide whether it counts.
    within = shapely.buffer(outline, -EDGE_M / 2, join_style="mitre")
    vertex, owner = shapely.get_coordinates(within, return_index=True)
    back = vertex.T - (np.arange(2) == axis)[:, None] * bay[owner]
    return np.concatenate([building, owner, owner]), np.concatenate([start, vertex.T, back], axis=1)


@dataclass(frozen=True)
class _Lattice:
    building: Index
    """(M,) ascending."""
    at: Array
    """(2, M) x and y, m."""
    weight: Array
    """(M,) trapezoidal weight: samples on an edge have half the area of inner ones."""


def _rectangles(low: Array, high: Array, spacing: Array) -> _Lattice:
    """Return even lattices from `low` to `high` (B, 2) with edges, at least three, at most
    `spacing` (B, 2) apart."""
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
    """Return tilts (B, 2), mm/m, of area-weighted least-squares planes; 1, x and y are
    orthogonal on the lattice."""
    return np.stack(
        [
            np.bincount(plane.building, plane.weight * up * at, count)
            / np.bincount(plane.building, plane.weight * at**2, count)
            for at in plane.at
        ],
        axis=1,
    )


EASY_FROM, MEDIUM_FROM = 20.0, 8.0
"""Smallest signal to noise of an easy and a medium building: noise of a twentieth, an eighth of the
strain."""
VISIBLE_PERMILLE = CATEGORY_BOUNDS_PERMILLE[0]
"""Strain of a damage that is just visible: a building with less is as hard as that damage
would be on it."""


def point_precision(sigma: Array, los_up: Array, line_variance: Array | float) -> Array:
    """Return the inverse variance (N,) of points' vertical change over the observation, 1/mm2.

    Args:
        sigma: (N,) standard deviation of one epoch, mm.
        los_up: (N,) vertical component of the line of sight.
        line_variance: of a straight line's change, in that of one epoch; see `noise.line_variance`.
    """
    return np.asarray(los_up**2 / (line_variance * sigma**2), float)


class PointEvidence(NamedTuple):
    """Evidence of change from the points of B buildings: sums over points, so that tracks
    and parts add up."""

    precision: Array
    """(B,) sum of `point_precision`, 1/mm2."""
    points: Array
    """(B,) number of points."""
    astray: Array
    """(B,) sum of the squares of position errors along one axis, m2."""

    def plus(self, other: PointEvidence) -> PointEvidence:
        """Return the sum of both."""
        return PointEvidence(*(a + b for a, b in zip(self, other, strict=True)))


def gather_evidence(
    building: NDArray[np.intp], precision: Array, error: Array, buildings: int
) -> PointEvidence:
    """Gather the evidence of points on buildings (N,), with precision (N,) and position
    errors (N, 2) in m."""
    squares = (error**2).mean(axis=1)
    sums = [
        np.bincount(building, weight, buildings)
        for weight in (precision, np.ones(len(error)), squares)
    ]
    return PointEvidence(*(np.asarray(part, float) for part in sums))


def no_evidence(buildings: int) -> PointEvidence:
    """Return the evidence without points."""
    return PointEvidence(np.zeros(buildings), np.zeros(buildings), np.zeros(buildings))


def signal_to_noise(severity_permille: Array, side: Array, evidence: PointEvidence) -> Array:
    """Return (B,) the drop that causes the strain over the standard error of a quadrant's
    drop; 0 without points.

    Args:
        severity_permille: (B,) strain.
        side: (B, 2) sides, m.
        evidence: of the buildings' points.
    """
    strain = np.maximum(severity_permille, VISIBLE_PERMILLE)
    drop = strain * np.sqrt(side.prod(axis=1))
    has_points = evidence.points > 0
    count, precision = (
        np.where(has_points, evidence.points, 1),
        np.where(has_points, evidence.precision, 1),
    )
    misplaced = (2 * strain) ** 2 * evidence.astray / count
    variance = (4 + 4 / 3) * (1 / precision + misplaced / count)
    return np.asarray(has_points * drop / np.sqrt(variance), float)


def difficulty(severity_permille: Array, side: Array, evidence: PointEvidence) -> NDArray[np.intp]:
    """Return the index (B,) into `strain.DIFFICULTIES`; arguments as `signal_to_noise`.

    More points, less noise or more strain never make a building harder.
    """
    ratio = signal_to_noise(severity_permille, side, evidence)
    return np.select([ratio >= EASY_FROM, ratio >= MEDIUM_FROM], [0, 1], default=2)
