"""What stands between the ground and a product: its sizes, its spectrum, its steps."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from plumbline.fields.simulate.scene import LEVELS, draw_degradation
from plumbline.params.fields import DOMAINS

RANGES = {
    "noise_mm": (1.5, 5.0),
    "gross": (0.004, 0.03),
    "density": (3000, 400),
    "atmosphere_mm": (0.1, 1.2),
    "own_mm": (0.15, 4.0),
    "shared_mm": (0.2, 3.0),
}
OWN = {
    "noise": {"noise_mm": (6, 16), "gross": (0.05, 0.2)},
    "atmosphere": {"atmosphere_mm": (2, 10)},
    "sparse": {"density": (250, 40)},
}


@given(st.integers(0, 1000), st.sampled_from(DOMAINS), st.sampled_from(LEVELS))
def test_a_level_takes_its_third_of_each_range(seed, domain, level):
    found = draw_degradation(np.random.default_rng(seed), domain, level)
    third = LEVELS.index(level)
    for name, (easy, hard) in {**RANGES, **OWN.get(domain, {})}.items():
        ends = sorted(easy * (hard / easy) ** (part / 3) for part in (third, third + 1))
        assert ends[0] <= getattr(found, name) * (1 + 1e-9)
        assert getattr(found, name) <= ends[1] * (1 + 1e-9)
    if domain == "unwrapping":
        assert 1 + third <= found.patches <= 2 + third
    else:
        assert found.patches in (0, 1)
