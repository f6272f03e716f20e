"""Lay straight and curved lines through a scene: axes of tunnels, faults, embankments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from scipy.special import ndtr

from benchmarks.makers.fields.settings import SIDE_M, Array, draw_place

RADIUS_M = (250.0, 900.0)
LENGTH_M = (350.0, 1500.0)


class Beside(NamedTuple):
    """Where N places are, as a line sees them."""

    across: Array
    """(N,) distance with sign, m."""
    along: Array
    """(N,) m from the line's middle."""
    across_unit: Array
    """(N, 2) east and north, in the direction in which `across` grows."""
    along_unit: Array
    """(N, 2)"""


@dataclass(frozen=True)
class Line:
    """A straight line through `middle`, or an arc of a circle."""

    middle: Array
    """(2,) m."""
    direction: float
    """Along the line at its middle, rad counter-clockwise from east."""
    length: float
    """m"""
    radius: float = np.inf
    """m; the circle's centre is on the left."""

    def beside(self, place: Array) -> Beside:
        """Return where places (N, 2) are."""
        along = np.array([np.cos(self.direction), np.sin(self.direction)])
        left = np.array([-along[1], along[0]])
        if np.isinf(self.radius):
            away = place - self.middle
            shape = (len(place), 1)
            return Beside(away @ -left, away @ along, np.tile(-left, shape), np.tile(along, shape))
        from_centre = place - (self.middle + self.radius * left)
        distance = np.maximum(np.hypot(*from_centre.T), 1e-9)
        outwards = from_centre / distance[:, None]
        turned = np.arctan2(outwards @ along, outwards @ -left)
        tangent = np.column_stack([-outwards[:, 1], outwards[:, 0]])
        return Beside(distance - self.radius, self.radius * turned, outwards, tangent)

    def within(self, along: Array, fade: float) -> Array:
        """Return 1 along the line and 0 beyond its ends, with a normal distribution's course of width `fade`, m."""
        return np.asarray(ndtr((along + self.length / 2) / fade) - ndtr((along - self.length / 2) / fade))

    def about(self) -> dict[str, object]:
        """Describe the line for `scene.json`."""
        return {
            "middle_m": [round(float(value), 2) for value in self.middle],
            "direction_deg": round(float(np.degrees(self.direction)), 2),
            "length_m": round(self.length, 1),
            "radius_m": None if np.isinf(self.radius) else round(self.radius, 1),
        }


def draw_line(generator: Generator, curved: bool, length: tuple[float, float] = LENGTH_M) -> Line:
    """Draw a line whose middle is in the scene."""
    radius = generator.uniform(*RADIUS_M) if curved else np.inf
    most = min(length[1], 1.6 * radius, 1.4 * SIDE_M)
    direction = generator.uniform(0, 2 * np.pi)
    return Line(draw_place(generator, 0.2), direction, generator.uniform(min(length[0], most), most), radius)
