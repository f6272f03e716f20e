"""Outlines of single buildings and of rows, m, about their middle."""

from __future__ import annotations

import numpy as np
import shapely
from numpy.random import Generator
from numpy.typing import NDArray

Array = NDArray[np.float64]
SHARES = {"rectangle": 0.42, "l": 0.22, "t": 0.12, "u": 0.13, "trapezoid": 0.08, "courtyard": 0.03}
"""Of detached buildings that are large enough; the rest are rectangles."""
LEAST_WINGED_M = 15.0
"""Shorter side from which a building may have wings."""
WING_M = 5.5
"""A wing is at least this wide."""


def rectangle(length: float, width: float) -> shapely.Polygon:
    """A rectangle with its longer side along x."""
    return shapely.box(-length / 2, -width / 2, length / 2, width / 2)


def detached(generator: Generator, length: float, width: float) -> tuple[str, shapely.Polygon]:
    """A building that fits its sides, m, and the name of its shape."""
    names = list(SHARES)
    shape = names[generator.choice(len(names), p=np.array(list(SHARES.values())))]
    if shape == "courtyard" and width < 3.2 * WING_M:
        shape = "u"
    if shape != "trapezoid" and width < LEAST_WINGED_M:
        shape = "rectangle"
    a, b = length / 2, width / 2
    if shape == "rectangle":
        return shape, rectangle(length, width)
    if shape == "trapezoid":
        return shape, shapely.Polygon(
            [
                (-a, -b),
                (a, -b),
                (a - 0.12 * length * generator.random(), b),
                (-a + 0.12 * length * generator.random(), b),
            ]
        )
    x = max(WING_M, length * generator.uniform(0.3, 0.5))
    y = max(WING_M, width * generator.uniform(0.35, 0.6))
    if shape == "l":
        cut = [shapely.box(-a + x, -b + y, a, b)]
    elif shape == "t":
        stem = max(x, 0.45 * length)
        start = -stem / 2 + generator.uniform(-0.5, 0.5) * (a - stem / 2)
        cut = [shapely.box(-a, -b + y, start, b), shapely.box(start + stem, -b + y, a, b)]
    elif shape == "u":
        x = max(WING_M, length * generator.uniform(0.2, 0.36))
        cut = [shapely.box(-a + x, -b + y, a - x, b)]
    else:
        deep = max(WING_M, 0.3 * width)
        cut = [shapely.box(-a + deep, -b + deep, a - deep, b - deep)]
    outline = rectangle(length, width).difference(shapely.union_all(cut))
    turned = shapely.affinity.scale(outline, *generator.choice([-1.0, 1.0], 2), origin=(0, 0))
    return shape, turned


def row(generator: Generator, houses: int) -> list[shapely.Polygon]:
    """Row houses side by side along an arc of a street: each is a wedge of a ring; about the row's middle."""
    depth = generator.uniform(9.0, 14.0)
    frontage = generator.uniform(8.0, 12.0) * generator.uniform(0.95, 1.05, houses)
    radius = generator.uniform(70.0, 300.0)
    edge = (np.r_[0.0, np.cumsum(frontage)] - frontage.sum() / 2) / radius
    inner, outer = (np.column_stack([r * np.sin(edge), r * np.cos(edge) - radius]) for r in (radius, radius + depth))
    step = generator.uniform(-0.8, 0.8, houses)
    ring = [
        np.array([inner[i], inner[i + 1], outer[i + 1], outer[i]]) + s * np.array([np.sin(m), np.cos(m)])
        for i, (s, m) in enumerate(zip(step, (edge[:-1] + edge[1:]) / 2, strict=True))
    ]
    return [shapely.Polygon(corners) for corners in ring]
