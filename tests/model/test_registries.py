"""Every name that params allow has its plug-in, and every plug-in its name."""

from itertools import combinations, product
from typing import get_args

import pytest

from plumbline.model.kernels import KERNELS
from plumbline.model.losses import QUADRANT_LOSSES, SEVERITY_LOSSES
from plumbline.model.pooling import POOLINGS
from plumbline.model.position import POSITIONS, Position
from plumbline.model.stream import CONVOLUTIONS
from plumbline.params import model as section
from plumbline.params.train import QuadrantKind, SeverityKind
from tests.model.made import PLUGINS

NAMED = [
    (section.AttentionKind, {"none", *KERNELS}),
    (section.ConvolutionKind, set(CONVOLUTIONS)),
    (section.PoolingKind, set(POOLINGS)),
    (section.PositionKind, {"auto", *POSITIONS}),
    (Position, set(POSITIONS)),
    (QuadrantKind, set(QUADRANT_LOSSES)),
    (SeverityKind, set(SEVERITY_LOSSES)),
]


@pytest.mark.parametrize(("names", "registry"), NAMED, ids=[" ".join(sorted(registry)) for _, registry in NAMED])
def test_names_and_plugins_are_the_same(names, registry):
    assert set(get_args(names)) == registry


def test_every_two_plugins_meet_in_a_tested_network():
    kinds = {
        "attention": {"none", *KERNELS}, "position": set(POSITIONS), "pooling": set(POOLINGS),
        "convolution": set(CONVOLUTIONS),
    }  # fmt: skip
    for one, other in combinations(kinds, 2):
        met = {(network[one], network[other]) for network in PLUGINS}
        assert met == set(product(kinds[one], kinds[other])), (one, other)
