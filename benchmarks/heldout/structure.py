"""What a building does: rigid motion, a tunnel's trough and the failure of a quadrant, each with its course in time."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.heldout.frame import Frame
from benchmarks.heldout.hinge import Hinge, draw_hinge
from benchmarks.heldout.labels import LOWEST_PERMILLE, Bays, Label, label_of, lay_bays
from benchmarks.heldout.town import Town
from benchmarks.heldout.trough import Trough, Tunnel, draw_trough, draw_tunnels

Array = NDArray[np.float64]
PARTS = 3
"""Rigid motion, trough, failure."""
DAMAGED = 0.8
LEAST_PERMILLE, MOST_PERMILLE = 0.1, 6.0
SETTLEMENT_MM, TILT_MM_PER_M = 100.0, 5.0
TUNNELS = 5


@dataclass(frozen=True)
class Structure:
    """One building's movement at the end of the observation."""

    frame: Frame
    rigid: Array
    """(3,) settlement, mm; slopes of the vertical movement along x and y, mm/m."""
    trough: Trough | None
    hinge: Hinge | None
    thermal: Array
    """(2,) expansion at the warmest day, mm a m: of height, and of the distance from the centre."""

    def field(self, xy: Array) -> Array:
        """(N, 3) mm up, along x, along y at the ground."""
        return np.asarray(self.parts(xy, np.zeros(len(xy))).sum(1))

    def parts(self, xy: Array, height: Array) -> Array:
        """(N, PARTS, 3) the same by its causes, for scatterers at a height (N,) above the ground, m."""
        result = np.zeros((len(xy), PARTS, 3))
        result[:, 0, 0] = -self.rigid[0] + xy @ self.rigid[1:]
        # A tilted house leans: high points go sideways.
        result[:, 0, 1:] = -height[:, None] * self.rigid[1:]
        for number, part in enumerate((self.trough, self.hinge), 1):
            if part is not None:
                result[:, number] = part.field(xy)
        return result

    def expansion(self, xy: Array, height: Array) -> Array:
        """(N, 3) mm up, along x, along y at the warmest day, against the mean of the year."""
        return np.column_stack([self.thermal[0] * height, self.thermal[1] * xy])


def draw_structures(generator: Generator, town: Town) -> tuple[list[Structure], list[Label]]:
    """Structures of a town and their labels."""
    places = np.array([frame.centre for frame in town.frame])
    tunnels = draw_tunnels(generator, places, TUNNELS)
    structures, labels = [], []
    for polygon, frame in zip(town.footprint, town.frame, strict=True):
        bays = lay_bays(polygon, frame)
        structure = _draw(generator, tunnels, frame, bays, polygon)
        found = label_of(structure.field, bays)
        found = found._replace(severity=round(found.severity, 5))  # as it is written: category and quadrant agree
        structures.append(structure)
        labels.append(found if found.severity >= LOWEST_PERMILLE else found._replace(quadrant=""))
    return structures, labels


def _draw(generator: Generator, tunnels: list[Tunnel], frame: Frame, bays: Bays, polygon: object) -> Structure:
    hinge = None
    if generator.random() < DAMAGED:
        hinge = draw_hinge(generator, polygon, frame)
        target = np.exp(generator.uniform(np.log(LEAST_PERMILLE), np.log(MOST_PERMILLE)))
        # Strain is proportional to the drop, so one trial tells the drop for the target.
        hinge = replace(hinge, drop=float(target / label_of(hinge.field, bays).severity))
    tilt = generator.uniform(-1, 1, 2) * generator.choice([0.3, 1.0]) * TILT_MM_PER_M
    expansion = generator.uniform(5e-6, 1.2e-5) * generator.uniform(8, 12) * 1000 / 2
    return Structure(
        frame,
        np.array([generator.uniform(0, SETTLEMENT_MM), *tilt]),
        draw_trough(generator, tunnels, frame, bays.cell),
        hinge,
        np.array([expansion, expansion]),
    )
