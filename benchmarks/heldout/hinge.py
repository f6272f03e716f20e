"""Local failure of one quadrant: the building bends down beyond a hinge, more and more towards the corner."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import shapely
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.heldout.frame import SIGNS, Frame

Array = NDArray[np.float64]
PROFILES = {"power": 0.32, "cosine": 0.28, "raised": 0.12, "exponential": 0.28}
"""How a failure grows from the hinge to the corner, and how often."""
SQUARE = 0.15
"""Share of failures with two hinge lines along the axes, raised ones apart; the others have one across the corner."""
START = (0.0, 0.35)
"""Where a hinge line lies, from the centre to the corner."""
TURN = np.radians(17.0)
"""Largest angle between the line across the corner and the diagonal."""
OPENING = (0.0, 0.35)
"""Sideways movement as a share of the drop, for half of the failures; the others have none."""
MISSING_M = 2.5
"""A corner of the rectangle that is farther from the footprint is no corner of the building."""


@dataclass(frozen=True)
class Hinge:
    """One building's failure for a drop of 1 mm at the corner; `drop` scales it."""

    quadrant: int
    drop: float
    """mm, downwards."""
    way: Array
    """(2, 2) or (1, 2): directions across the hinge lines, towards the corner; of unit length."""
    start: Array
    """(1,) or (2,): distance of each hinge line from the centre, m."""
    reach: Array
    """(1,) or (2,): distance from each hinge line to the corner, m."""
    profile: str
    bend: float
    """Exponent of the power, or growth of the exponential."""
    opening: float
    """Sideways movement away from the building, as a share of the drop."""

    def field(self, xy: Array) -> Array:
        """(N, 3) mm up, along x, along y at positions (N, 2) in the building's axes."""
        towards = np.clip((xy @ self.way.T - self.start) / self.reach, 0, 1)
        down = self.drop * np.prod(self._profile(towards), axis=1)
        outwards = self.way.sum(0) / np.hypot(*self.way.sum(0))
        return np.column_stack([-down, self.opening * down[:, None] * outwards])

    def _profile(self, t: Array) -> Array:
        if self.profile == "power":
            return np.asarray(t**self.bend)
        if self.profile == "cosine":
            return np.asarray(1 - np.cos(np.pi / 2 * t))
        if self.profile == "raised":
            return np.asarray((1 - np.cos(np.pi * t)) / 2)
        return np.asarray((np.expm1(self.bend * t) - self.bend * t) / (np.expm1(self.bend) - self.bend))


def draw_hinge(generator: Generator, polygon: shapely.Polygon, frame: Frame) -> Hinge:
    """A failure with a drop of 1 mm, at a corner that the building has."""
    own = shapely.transform(polygon, frame.to_own)
    corner = SIGNS * frame.side / 2
    away = shapely.distance(own, shapely.points(corner))
    quadrant = int(generator.choice(np.flatnonzero(away <= max(MISSING_M, away.min()))))
    corners = shapely.get_coordinates(own)
    profile = str(generator.choice(list(PROFILES), p=list(PROFILES.values())))
    # Raised is steepest half way: along one straight line that would be in two quadrants alike.
    if profile == "raised" or generator.random() < SQUARE:
        way = np.diag(SIGNS[quadrant])
    else:
        # The line across the corner, turned a little from the diagonal of the footprint.
        diagonal = np.arctan2(frame.side[0], frame.side[1])
        angle = np.clip(diagonal + generator.uniform(-1, 1) * TURN, np.radians(12), np.radians(78))
        way = SIGNS[quadrant : quadrant + 1] * [np.cos(angle), np.sin(angle)]
    # To the building's own corner, which may stand inside of the rectangle's.
    far = way @ corners[np.argmin(np.hypot(*(corners - corner[quadrant]).T))]
    start = far * generator.uniform(*START)
    return Hinge(
        quadrant,
        1.0,
        way,
        start,
        far - start,
        profile,
        generator.uniform(1.4, 3.0),
        generator.uniform(*OPENING) if generator.random() < 0.5 else 0.0,
    )
