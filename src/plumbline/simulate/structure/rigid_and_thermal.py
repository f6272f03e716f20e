"""Motion of a building as a whole: settlement and two small tilts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plumbline.simulate.random_numbers import log_uniform

Array = NDArray[np.float64]
MOST_TILT = 5.0
"""mm/m."""
LEANING_SHARE = 0.5
"""Share of the buildings whose tilt is as likely large as small; of the others it is mostly small."""


@dataclass(frozen=True)
class Rigid:
    """Rigid motion of B buildings about the centre of their footprint."""

    settlement: Array
    """(B,) vertical displacement of the centre, mm, up positive."""
    tilt: Array
    """(B, 2) rise along x and y, mm/m."""

    def field(self, index: NDArray[np.intp] | int, x: Array, y: Array, height: Array) -> tuple[Array, Array, Array]:
        """Vertical, along-x and along-y displacement, mm, at heights in m above the foundation.

        A small rotation that lifts the side at +x moves what stands above it towards -x: `-tilt * height`.
        """
        tilt_x, tilt_y = self.tilt[index, 0], self.tilt[index, 1]
        return self.settlement[index] + tilt_x * x + tilt_y * y, -tilt_x * height, -tilt_y * height


def draw_rigid(rng: np.random.Generator, count: int) -> Rigid:
    """Settlement 0 to 100 mm and tilt 0 to 5e-3, log-uniform so that small ones are common; a few rise.

    On half of the buildings any tilt up to the largest is as likely: by some mm/m, points that are not where the
    product says move by more than their noise, and a model has to know that from damage.
    """
    settlement = -log_uniform(rng, 0.5, 100, count)
    settlement[rng.random(count) < 0.07] *= -0.2
    settlement[rng.random(count) < 0.1] = 0
    size, direction = log_uniform(rng, 0.01, MOST_TILT, count), rng.uniform(-np.pi, np.pi, count)
    leaning = rng.random(count) < LEANING_SHARE
    size[leaning] = rng.uniform(0, MOST_TILT, int(leaning.sum()))
    return Rigid(settlement, size[:, None] * np.stack([np.cos(direction), np.sin(direction)], axis=1))
