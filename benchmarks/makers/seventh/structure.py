"""What a house does: it settles and tilts, takes the troughs of tunnels, fails at a corner, and grows in summer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import shapely
from numpy.random import Generator

from benchmarks.makers.seventh.building import Building, Signs
from benchmarks.makers.seventh.hinge import Hinge, draw_hinge
from benchmarks.makers.seventh.settings import Array, Kind, log_uniform
from benchmarks.makers.seventh.strain import strain_of
from benchmarks.makers.seventh.trough import Trough, Tunnel, draw_trough

CAUSES = 3
"""With a course in time of their own: hinge, rigid motion, troughs."""
LARGEST_TILT = 5e-3
SETTLEMENT_MM = (1.0, 100.0)
HEIGHT_M = (5.0, 30.0)
LOWEST_PERMILLE = 0.5
"""Category 1, from which the quadrant is defined."""


@dataclass(frozen=True)
class Structure:
    """One house, its movement at the last epoch, and its label."""

    building: Building
    outline: shapely.Polygon
    hinge: Hinge | None
    target_strain: float
    """That of the hinge alone; NaN without one."""
    troughs: list[Trough]
    severity_permille: float
    quadrant: str
    tilt: Array
    """(2,) slopes along x and y."""
    settlement_m: float
    height_m: float
    position_m: float
    """Standard deviation of its scatterers' positions in range on the ground."""
    expansion: float
    """Strain of everything on the warmest day."""

    def movement(self, x: Array, y: Array, height: Array) -> Array:
        """(N, CAUSES + 1, 3) m east, north, up at positions in own axes, m: by cause, and the thermal one."""
        failed = self.hinge.field(x, y) if self.hinge else np.zeros((len(x), 3))
        # What tilts also leans: high points go sideways.
        tilt_x, tilt_y = self.tilt
        rigid = np.stack([-self.settlement_m + tilt_x * x + tilt_y * y, -tilt_x * height, -tilt_y * height], 1)
        taken = np.zeros((len(x), 3))
        for trough in self.troughs:
            taken += trough.field(x, y) - np.multiply.outer(height, [0, *trough.plane[1:]])
        grown = self.expansion * np.stack([height, x, y], 1)
        along, across = self.building.axes
        to_map = np.array([[0, along[0], across[0]], [0, along[1], across[1]], [1, 0, 0]])
        return np.stack([cause @ to_map.T for cause in (failed, rigid, taken, grown)], 1)


def draw_structure(
    generator: Generator,
    kind: Kind,
    tunnels: list[Tunnel],
    building: Building,
    failing: Signs,
    outline: shapely.Polygon,
) -> Structure:
    """How a house moves, and what follows from that for its label."""
    found = [draw_trough(generator, building, tunnel) for tunnel in tunnels]
    troughs = [trough for trough in found if trough]
    hinge, target = None, np.nan
    if generator.random() < kind.damaged:
        hinge, target = draw_hinge(generator, building, failing, kind.hinge_power)

    def field(x: Array, y: Array) -> Array:
        moved = np.zeros((len(x), 3))
        for part in ([hinge] if hinge else []) + troughs:
            moved += part.field(x, y)
        return moved

    strain, quadrant = strain_of(building, field)
    severity = float(np.round(strain * 1e3, 5))  # as it is written: category and quadrant agree
    slopes = [log_uniform(generator, kind.least_tilt, LARGEST_TILT) for _ in range(2)]
    tilt = np.array(slopes) * generator.choice([-1, 1], 2)
    settlement, height = log_uniform(generator, *SETTLEMENT_MM) / 1e3, log_uniform(generator, *HEIGHT_M)
    position = log_uniform(generator, *kind.position_m)
    expansion = generator.uniform(5e-6, 1.2e-5) * generator.uniform(8, 12)  # a degree, and degrees
    return Structure(
        building,
        outline,
        hinge,
        target,
        troughs,
        severity,
        quadrant if severity >= LOWEST_PERMILLE else "",
        tilt,
        settlement,
        height,
        position,
        expansion,
    )
