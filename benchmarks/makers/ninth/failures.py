"""Draw how a building fails: shapes of a movement along x, along y and up, at the ground, in its own axes.

Sizes are arbitrary: a structure scales them to its strain.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.random import Generator

from benchmarks.makers.ninth.settings import Array, log_uniform
from benchmarks.makers.ninth.strain import Lattice
from benchmarks.makers.ninth.town import Building

Field = Callable[[Array], Array]
"""From own positions (N, 2) to movements (N, 3) along x, along y and up, m."""
OPENING = (0.0, 0.3)
"""How far a failing part goes outwards, as a share of its drop."""
CORNER, ONSET = (0.35, 0.7), (0.3, 1.0)
"""Where the hinge of a corner meets the sides, from the corner on; share of the way on which it becomes steep."""
END, END_ONSET, SKEW = (0.25, 0.5), (0.1, 0.6), 0.1
"""The same of a whole end; and the largest slope of its hinge against the building's axis."""
JOINT, JOINT_M = (0.25, 0.75), (0.3, 1.5)
"""Where along a side a joint is, and how wide."""
BOWL_M, PULL = (2.5, 9.0), (0.0, 0.3)
"""Radius, and inward movement as a share of the drop."""
DEPTH_M, WIDTH_K, DIAMETER_M, LOSS = (8.0, 30.0), (0.25, 0.5), (4.0, 12.0), (0.005, 0.03)
SAGGING, HOGGING = (0.0, 0.6), (1.1, 2.2)
"""Distance of the building's centre from the tunnel's axis, in widths i of the trough."""
DEFLECTION, STRETCH = (0.1, 1.0), (0.01, 0.2)
"""What a building takes of the ground's curvature and horizontal strain (Potts and Addenbrooke 1997)."""


def peck(distance: Array, width: float, depth: float, most: float) -> tuple[Array, Array]:
    """Return settlement and movement away from the axis of a trough (Peck 1969; O'Reilly and New 1982), m.

    Args:
        distance: from the axis, m.
        width: i, m.
        depth: of the tunnel's axis, m.
        most: largest settlement, m.
    """
    settlement = most * np.exp(-(distance**2) / (2 * width**2))
    return settlement, -distance / depth * settlement


def largest_settlement(loss: float, diameter: float, width: float) -> float:
    """Return the largest settlement of a tunnel's trough, m, by volume loss, diameter and width i."""
    return 0.313 * loss * diameter**2 / width


def _ramp(way: Array, onset: float) -> Array:
    """Go from 0 at 0 to 1 at 1: a parabola up to `onset`, then its tangent."""
    way = np.maximum(way, 0)
    low = way**2 / (2 * onset)
    return np.asarray(np.where(way < onset, low, way - onset / 2) / (1 - onset / 2))


def draw_corner(generator: Generator, building: Building, lattice: Lattice) -> Field:
    """Draw a wedge at a corner that turns about an oblique hinge."""
    there = building.notch.any()
    corners = [
        signs
        for signs in np.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]])
        if not (there and (signs == building.corner).all())
    ]
    signs = corners[int(generator.integers(len(corners)))]
    reach = generator.uniform(*CORNER, 2) * 2 * building.half
    onset, opening = generator.uniform(*ONSET), generator.uniform(*OPENING)
    outwards = signs / reach / np.linalg.norm(1 / reach)

    def field(xy: Array) -> Array:
        drop = _ramp(1 - ((building.half - xy * signs) / reach).sum(1), onset)
        return np.column_stack([drop[:, None] * opening * outwards, -drop])

    return field


def draw_end(generator: Generator, building: Building, lattice: Lattice) -> Field:
    """Draw a whole end that turns about a hinge across the building; along the longer side more often."""
    axis, across = _axis(generator, building, 1.5)
    sign, part = generator.choice([-1.0, 1.0]), generator.uniform(*END) * 2 * building.half[axis]
    skew = generator.uniform(-1, 1) * min(SKEW, 0.4 * part / building.half[across])
    onset, opening = generator.uniform(*END_ONSET), generator.uniform(*OPENING)
    outwards = sign * np.eye(2)[axis]

    def field(xy: Array) -> Array:
        hinge = building.half[axis] - part + skew * xy[:, across]
        drop = _ramp((sign * xy[:, axis] - hinge) / part, onset)
        return np.column_stack([drop[:, None] * opening * outwards, -drop])

    return field


def draw_step(generator: Generator, building: Building, lattice: Lattice) -> Field:
    """Draw a joint across the building, beyond which all goes down alike."""
    axis, _ = _axis(generator, building, 1.0)
    place = (2 * generator.uniform(*JOINT) - 1) * building.half[axis]
    width, sign = generator.uniform(*JOINT_M), generator.choice([-1.0, 1.0])
    opening = generator.uniform(*OPENING)
    outwards = sign * np.eye(2)[axis]

    def field(xy: Array) -> Array:
        way = np.clip(sign * (xy[:, axis] - place) / width + 0.5, 0, 1)
        drop = way**2 * (3 - 2 * way)
        return np.column_stack([drop[:, None] * opening * outwards, -drop])

    return field


def draw_bowl(generator: Generator, building: Building, lattice: Lattice) -> Field:
    """Draw a round bowl about a place on the footprint: a raised cosine, or a paraboloid with a smooth edge."""
    trials = generator.uniform(-1, 1, (64, 2)) * building.half  # at most a fifth of them is beside the footprint
    centre, radius = trials[int(np.argmax(building.holds(trials)))], generator.uniform(*BOWL_M)
    cosine, pull = generator.random() < 0.5, generator.uniform(*PULL)

    def field(xy: Array) -> Array:
        offset = (xy - centre) / radius
        away = np.minimum(np.hypot(*offset.T), 1)
        drop = (1 + np.cos(np.pi * away)) / 2 if cosine else (1 - away**2) ** 2
        return np.column_stack([-2 * pull * drop[:, None] * offset, -drop])

    return field


def draw_bending(generator: Generator, building: Building, lattice: Lattice) -> Field:
    """Draw what a building takes of a tunnel's trough beside its plane and its mean, in any direction."""
    depth = log_uniform(generator, DEPTH_M)
    width = generator.uniform(*WIDTH_K) * depth
    most = largest_settlement(generator.uniform(*LOSS), generator.uniform(*DIAMETER_M), width)
    towards = generator.uniform(0, 2 * np.pi)
    normal = np.array([np.cos(towards), np.sin(towards)])
    centre = width * generator.uniform(*(SAGGING if generator.random() < 0.5 else HOGGING))
    deflection, stretch = generator.uniform(*DEFLECTION), log_uniform(generator, STRETCH)

    def ground(xy: Array) -> Array:
        settlement, away = peck(centre + xy @ normal, width, depth, most)
        return np.column_stack([away[:, None] * normal, -settlement])

    at_cells = ground(lattice.place[: lattice.cells])
    plane, mean = lattice.fit @ at_cells[:, 2], at_cells[:, :2].mean(0)

    def field(xy: Array) -> Array:
        moved = ground(xy)
        bent = moved[:, 2] - plane[0] - xy @ plane[1:]
        return np.column_stack([stretch * (moved[:, :2] - mean), deflection * bent])

    return field


def _axis(generator: Generator, building: Building, power: float) -> tuple[int, int]:
    """Draw an axis, the longer one more often, and return the other one beside it."""
    likely = building.half**power
    first = int(generator.random() < likely[1] / likely.sum())
    return first, 1 - first


FAILURES: dict[str, Callable[[Generator, Building, Lattice], Field]] = {
    "corner": draw_corner,
    "end": draw_end,
    "step": draw_step,
    "bowl": draw_bowl,
    "bending": draw_bending,
}
SEVERAL, NONE = "several", "none"
MECHANISMS = (*FAILURES, SEVERAL)
