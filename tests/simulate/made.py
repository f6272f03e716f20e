"""Small towns for tests."""

from __future__ import annotations

import numpy as np

from plumbline.simulate.structure.layout import CityLayout, draw_layout, draw_plan, draw_town


def small_town(rng: np.random.Generator, count: int) -> CityLayout:
    """`count` buildings, all drawn as one part."""
    plan = draw_plan(rng, count)
    return draw_layout(rng, plan, draw_town(rng, count, plan.radius))
