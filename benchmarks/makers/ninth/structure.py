"""Draw what a building does until the last day: up to two failures scaled to a strain, rigid motion, a summer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator, SeedSequence
from numpy.typing import NDArray

from benchmarks.makers.ninth.failures import FAILURES, MECHANISMS, NONE, SEVERAL, Field
from benchmarks.makers.ninth.line import Line
from benchmarks.makers.ninth.series import Course, draw_course
from benchmarks.makers.ninth.settings import EXPANSION, SETTLEMENT_M, SWING_K, TARGET_PERMILLE, TILT, Array, log_uniform
from benchmarks.makers.ninth.strain import Label, Lattice, lay_lattice
from benchmarks.makers.ninth.town import Building

CAUSES = 4
"""Two failures, and two halves of the rigid motion."""
SECOND = (0.5, 1.0)
"""Strain of the second failure alone, as a share of that of the first alone."""
SHARED = 0.5
"""Share of the rigid motion that goes with the first failure in time."""
WARMEST, WARMEST_SPREAD = 0.55, 0.03
"""Share of the year, and its standard deviation over buildings."""


@dataclass(frozen=True)
class Structure:
    """One building's movement."""

    building: Building
    mechanism: str
    parts: tuple[str, ...]
    """Names in `FAILURES`; none: sound."""
    fields: tuple[Field, ...]
    scales: tuple[float, ...]
    """Of the fields."""
    planes: tuple[Array, ...]
    """(3,) of each field's vertical movement, scaled."""
    rigid: Array
    """(3,) movement up at the centre, m, and slopes along x and y."""
    courses: tuple[Course, ...]
    """Of `CAUSES`."""
    thermal: Array
    """(2,) strain at the warmest day against the year's mean, and that day as a share of the year."""
    label: Label

    @property
    def plane(self) -> Array:
        """Return (3,) the least-squares plane of all that moves the footprint: up at the centre, m, and both slopes."""
        return np.asarray(self.rigid + sum(self.planes, np.zeros(3)))

    def failing(self, xy: Array) -> Array:
        """Return movements (N, 3) along x, along y and up, m, at the ground, of all failures on the last day."""
        moved = np.zeros((len(xy), 3))
        for field, scale in zip(self.fields, self.scales, strict=True):
            moved += scale * field(xy)
        return moved

    def causes(self, xy: Array, height: Array) -> Array:
        """Return movements (N, CAUSES, 3) east, north and up, m, on the last day.

        A building leans with its plane: what is high goes sideways.

        Args:
            xy: (N, 2) own positions, m.
            height: (N,) above the ground, m.
        """
        moved = np.zeros((len(xy), CAUSES, 3))
        for part, (field, scale, plane) in enumerate(zip(self.fields, self.scales, self.planes, strict=True)):
            moved[:, part] = scale * field(xy)
            moved[:, part, :2] -= height[:, None] * plane[1:]
        whole = np.column_stack([-height[:, None] * self.rigid[1:], self.rigid[0] + xy @ self.rigid[1:]])
        moved[:, 2], moved[:, 3] = SHARED * whole, (1 - SHARED) * whole
        moved[:, :, :2] = moved[:, :, :2] @ self.building.axes
        return moved

    def summer(self, xy: Array, height: Array) -> Array:
        """Return movements (N, 3) east, north and up, m, at the warmest day; arguments as of `causes`."""
        return np.asarray(self.thermal[0] * np.column_stack([xy @ self.building.axes, height]))


def draw_structures(
    seed: SeedSequence, town: list[Building], sound: float, courses: str = "any", line: Line | None = None
) -> list[Structure]:
    """Draw the movements of a town.

    Args:
        seed: of everything drawn; each building has its own part of it.
        town: its buildings.
        sound: share of them in which nothing fails; mechanisms have equal shares of the others.
        courses: of the failures, one of `series.COURSES`.
        line: along which failures gather; None: they are anywhere.
    """
    own, *each = seed.spawn(len(town) + 1)
    generator = np.random.default_rng(own)
    healthy = round(sound * len(town))
    dealt = np.resize(generator.permutation(MECHANISMS), len(town) - healthy)
    mechanisms = generator.permutation(np.concatenate([np.full(healthy, NONE, dealt.dtype), dealt]))
    if line is not None:
        mechanisms = line.gather(generator, mechanisms, mechanisms != NONE, town)
    return [
        draw_structure(np.random.default_rng(one), building, str(mechanism), courses)
        for one, building, mechanism in zip(each, town, mechanisms, strict=True)
    ]


def draw_structure(generator: Generator, building: Building, mechanism: str, courses: str = "any") -> Structure:
    """Draw one building's movement; `mechanism` is one of `MECHANISMS`, or `NONE`."""
    parts: NDArray[np.str_] | list[str] = [] if mechanism == NONE else [mechanism]
    if mechanism == SEVERAL:
        parts = generator.choice(list(FAILURES), 2, replace=False)
    lattice = lay_lattice(building)
    fields = tuple(FAILURES[str(name)](generator, building, lattice) for name in parts)
    moved, scales = _scaled(generator, lattice, fields)
    towards, lean = generator.uniform(0, 2 * np.pi), TILT * generator.random() ** 2
    settlement = SETTLEMENT_M * generator.random() ** 2
    first, second = (draw_course(generator, courses) for _ in range(2))
    own = draw_course(generator)
    return Structure(
        building,
        mechanism,
        tuple(str(name) for name in parts),
        fields,
        scales,
        tuple(scale * lattice.plane(field(lattice.place)[:, 2]) for field, scale in zip(fields, scales, strict=True)),
        np.array([-settlement, lean * np.cos(towards), lean * np.sin(towards)]),
        (first, second, first, own),
        np.array(
            [generator.uniform(*EXPANSION) * generator.uniform(*SWING_K), generator.normal(WARMEST, WARMEST_SPREAD)]
        ),
        lattice.label(moved),
    )


def _scaled(generator: Generator, lattice: Lattice, fields: tuple[Field, ...]) -> tuple[Array, tuple[float, ...]]:
    """Scale fields to a strain that is drawn here; return their movement at the lattice, and the scales."""
    target = 1e-3 * float(log_uniform(generator, TARGET_PERMILLE))
    beside = (1.0, generator.uniform(*SECOND))[: len(fields)]
    moved = [field(lattice.place) for field in fields]
    scales = np.array([share / lattice.strains(one).max() for share, one in zip(beside, moved, strict=True)])
    total = np.zeros((len(lattice.place), 3)) + sum(one * scale for one, scale in zip(moved, scales, strict=True))
    if fields:
        # Strain is proportional to the size of a movement.
        factor = target / lattice.strains(total).max()
        scales, total = scales * factor, total * factor
    return total, tuple(float(scale) for scale in scales)
