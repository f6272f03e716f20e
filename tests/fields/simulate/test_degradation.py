"""What stands between the ground and a product: more of it in its own domain, and with the level of difficulty."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from plumbline.fields.simulate.scene import LEVELS, draw_degradation

OWN = {"noise": "noise_mm", "atmosphere": "atmosphere_mm", "sparse": "density", "unwrapping": "patches"}
SEED = st.integers(0, 1000)


def drawn(seed, domain, level, name):
    value = getattr(draw_degradation(np.random.default_rng(seed), domain, level), name)
    return -value if name == "density" else value  # fewer scatterers are harder


@given(SEED, SEED, st.sampled_from(sorted(OWN)), st.sampled_from([0, 1]))
def test_a_domain_has_more_of_its_own_and_a_level_more_than_an_easier_one(seed, other, domain, level):
    name, (easier, harder) = OWN[domain], LEVELS[level : level + 2]
    assert drawn(seed, domain, "easy", name) > drawn(other, "plain", harder, name) or domain == "unwrapping"
    assert drawn(seed, domain, "easy", name) >= drawn(seed, "plain", "easy", name)
    for kind in ("plain", domain):
        if name != "patches" or kind != "plain":
            assert drawn(seed, kind, easier, name) <= drawn(other, kind, harder, name) + (name == "patches")
