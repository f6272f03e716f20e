"""Failure of one quadrant: beyond two hinge lines along the axes a house goes down, and outwards, up to its corner."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from benchmarks.makers.seventh.building import Building, Signs
from benchmarks.makers.seventh.settings import Array, Range, log_uniform
from benchmarks.makers.seventh.strain import strain_of

TARGET_STRAIN = (1e-4, 6e-3)
START = (-0.5, 0.3)
"""Where a hinge line lies, from the centre towards the corner, as a share of the half side."""
LARGEST_OPENING = 0.5
"""Outward movement along each axis, as a share of the drop."""


@dataclass(frozen=True)
class Hinge:
    """One house's failure."""

    half: tuple[float, float]
    sign: Signs
    start: Array
    """(2,) of the hinge lines from the centre towards the corner, m."""
    power: float
    opening: float
    drop_m: float = 1.0
    """Of the rectangle's corner."""

    def field(self, x: Array, y: Array) -> Array:
        """See `strain.Field`."""
        (a, b), (start_x, start_y), (sign_x, sign_y) = self.half, self.start, self.sign
        share_x = np.clip((sign_x * x - start_x) / (a - start_x), 0, None)
        share_y = np.clip((sign_y * y - start_y) / (b - start_y), 0, None)
        down = self.drop_m * (share_x * share_y) ** self.power
        return np.stack([-down, sign_x * self.opening * down, sign_y * self.opening * down], 1)


def draw_hinge(generator: Generator, building: Building, sign: Signs, power: Range) -> tuple[Hinge, float]:
    """A failure of one quadrant, and the strain that it makes alone."""
    target = log_uniform(generator, *TARGET_STRAIN)
    start = generator.uniform(*START, 2) * np.array(building.half)
    hinge = Hinge(building.half, sign, start, generator.uniform(*power), generator.uniform(0, LARGEST_OPENING))
    # Strain is proportional to the drop, so that of 1 m tells the drop for the target.
    return replace(hinge, drop_m=target / strain_of(building, hinge.field)[0]), target
