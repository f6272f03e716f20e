"""What strains a building by itself: one corner fails, or the whole sags or hogs without harm."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import shapely
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.makers.eighth.frame import Frame
from benchmarks.makers.eighth.labels import Bays

Array = NDArray[np.float64]
SHAPES = {"product": 0.25, "diagonal": 0.25, "bowl": 0.2, "gauss": 0.12, "block": 0.18}
"""How a failure grows towards its corner, and how often."""
LEAST_SHARE = 0.18
"""Of the footprint, in a quadrant that can fail."""
TRIALS = 14
RIVAL = (0.4, 0.8)
"""At most so much of the largest strain is in other quadrants, if one of the trials gives it."""
HARMLESS_PERMILLE = 0.1


@dataclass(frozen=True)
class Hinge:
    """A corner that goes down, or up."""

    shape: str
    corner: Array
    """(2,) half of each side, m, with the signs of the quadrant."""
    hinge: Array
    """(2,) where products and blocks begin, from the centre towards the corner, m."""
    power: Array
    """(2,) of products, along x and y."""
    turn: float
    """Of diagonals: direction across the hinge line, rad."""
    begin: float
    """Of diagonals: the hinge line, from 0 at the centre to 1 at the corner."""
    soft: float
    """Of diagonals: width of the bend at the hinge line."""
    reach: Array
    """(2,) of bowls, from the corner along x and y, m."""
    outwards: Array
    """(2,) movement along x and y away from the centre, as a share of the drop."""
    drop: float
    """m, upwards, at the corner."""

    def move(self, xy: Array) -> tuple[Array, Array]:
        """(N,) up and (N, 2) along x and y, m, at positions (N, 2) in the building's axes."""
        share = self._share(np.sign(self.corner) * xy)
        up = self.drop * share
        # What goes outwards does so whether the corner goes down or up.
        return up, abs(self.drop) * (np.sign(self.corner) * self.outwards * share[:, None])

    def _share(self, towards: Array) -> Array:
        """(N,) of the drop, at positions (N, 2) in axes that point towards the corner."""
        far = abs(self.corner)
        along = np.maximum((towards - self.hinge) / (far - self.hinge), 0)
        if self.shape == "product":
            return np.asarray(along[:, 0] ** self.power[0] * along[:, 1] ** self.power[1])
        if self.shape == "block":
            along = np.clip(along, 0, 1)
            return np.asarray(np.prod(along**2 * (3 - 2 * along), axis=1))
        if self.shape == "diagonal":
            cos, sin = np.cos(self.turn), np.sin(self.turn)
            beyond = (towards[:, 0] / far[0] * cos + towards[:, 1] / far[1] * sin) / (cos + sin)
            beyond = (beyond - self.begin) / (1 - self.begin)
            return np.asarray(self._softened(beyond) / self._softened(np.ones(1)))
        radius = np.hypot(*((far - towards) / self.reach).T)
        if self.shape == "bowl":
            return np.where(radius < 1, np.cos(np.pi / 2 * np.minimum(radius, 1)) ** 2, 0)
        return np.asarray(np.exp(-0.5 * (radius * 2.2) ** 2))

    def _softened(self, beyond: Array) -> Array:
        """The positive part, with a round bend instead of the kink at 0."""
        return np.asarray(self.soft * np.logaddexp(0, beyond / self.soft))


@dataclass(frozen=True)
class Sag:
    """The middle goes down against the ends, or up."""

    side: Array
    """(2,) m"""
    rise: float
    """Of the middle of each side against the centre, m."""
    shape = "sag"
    outwards = np.zeros(2)

    def move(self, xy: Array) -> tuple[Array, Array]:
        """As of `Hinge`."""
        return self.rise * ((2 * xy / self.side) ** 2).sum(1), np.zeros_like(xy)


def draw_failure(generator: Generator, own: shapely.Polygon, frame: Frame, bays: Bays, target: float) -> Hinge:
    """A failure with a largest strain of `target`, permille, of a footprint in its own axes.

    One quadrant fails, the others clearly less: hinges are drawn until that is so, or the best of them is taken.
    """
    x, y = frame.side
    boxes = {"NE": (0, 0, x, y), "NW": (-x, 0, 0, y), "SW": (-x, -y, 0, 0), "SE": (0, -y, x, 0)}
    large = [name for name, box in boxes.items() if own.intersection(shapely.box(*box)).area > LEAST_SHARE * own.area]
    quadrant = generator.choice(large)
    enough = generator.uniform(*RIVAL)
    least = np.inf
    for _ in range(TRIALS):
        trial = draw_hinge(generator, frame.side, quadrant)
        label = bays.label(*trial.move(bays.place))
        # One that strains another quadrant most is worse than any that does not.
        rival = label.rival + 5 * (label.quadrant != quadrant)
        if label.severity > 0 and rival < least:
            least, hinge = rival, replace(trial, drop=trial.drop * target / label.severity)
        if least < enough:
            break
    return hinge


def draw_hinge(generator: Generator, side: Array, quadrant: str) -> Hinge:
    """A failure of 1 m at a corner of a building with sides (2,), m."""
    half = side / 2
    shape = generator.choice(list(SHAPES), p=list(SHAPES.values()))
    hinge = np.array([generator.uniform(-0.6, 0.35), generator.uniform(-0.6, 0.35)]) * half
    power = generator.uniform(1.4, 4.0, 2)
    turn, begin, soft = generator.uniform(25, 65), generator.uniform(-0.05, 0.5), generator.uniform(0.05, 0.2)
    reach = np.array([generator.uniform(1.0, 1.9), generator.uniform(1.0, 1.9)]) * half
    drop = -1.0 if generator.random() < 0.92 else 1.0
    pull = generator.uniform(0, 1.3) if generator.random() < 0.8 else 0.0
    way = generator.uniform(0, np.pi / 2)
    corner = np.array([1 if "E" in quadrant else -1, 1 if "N" in quadrant else -1]) * half
    outwards = pull * np.array([np.cos(way), np.sin(way)])
    return Hinge(shape, corner, hinge, power, np.radians(turn), begin, soft, reach, outwards, drop)


def draw_sag(generator: Generator, frame: Frame, bays: Bays) -> Sag:
    """A movement of the whole building with a strain of at most `HARMLESS_PERMILLE`."""
    sag = Sag(frame.side, generator.choice([-1.0, 1.0]))
    strain = bays.label(*sag.move(bays.place)).severity
    return replace(sag, rise=sag.rise * (generator.uniform(0, HARMLESS_PERMILLE) / strain))
