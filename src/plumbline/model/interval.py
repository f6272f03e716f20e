"""The severity interval: the network's own, stretched until it holds its share of every category and kind of building.

Shape legend: B buildings, F columns of the geometry, C categories, E = C - 1 bounds between them, K steps.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from plumbline.prepare.features import GEOMETRY, names

INTERVAL_SHARE = 0.9
"""Of the true severities, that an interval is to hold."""
POINT_BOUNDS = (10, 20, 50)
AREA_BOUNDS_M2 = (100, 250, 600)
"""Bounds between kinds of buildings, by scatterers and by area of the footprint: what says most about a sensor."""
# Half a scatterer less: the logarithm of a bound need not be that of a count, bit by bit.
_STEPS = [("log_points", math.log(bound - 0.5)) for bound in POINT_BOUNDS] + [
    ("log_area", math.log(bound)) for bound in AREA_BOUNDS_M2
]
STEPS = len(_STEPS)
LEAST_HALF = 0.01
"""Standardised; what a half of the interval counts at least, so that every deviation is a number of halves."""
LEAST_WIDTH = 0.5
"""Standardised; what the network's interval counts at least where a length is added to it: hardly one is narrower."""


def passed_bounds(geometry_BF: Tensor) -> Tensor:
    """(B, K) 1 for each bound between kinds of buildings that the building reaches, else 0; of raw geometry."""
    columns = [names(GEOMETRY).index(name) for name, _ in _STEPS]
    bounds_K = torch.tensor([bound for _, bound in _STEPS]).to(geometry_BF)
    return (geometry_BF[:, columns] >= bounds_K).to(geometry_BF.dtype)


def halves(severity_B3: Tensor) -> tuple[Tensor, Tensor]:
    """(B, 1) lengths of the network's interval below and above its middle."""
    low_B1, middle_B1, high_B1 = severity_B3[:, :1], severity_B3[:, 1:2], severity_B3[:, 2:]
    return (middle_B1 - low_B1).clamp(min=LEAST_HALF), (high_B1 - middle_B1).clamp(min=LEAST_HALF)


def narrowness(severity_B3: Tensor) -> Tensor:
    """(B, 1) one over the length of the network's interval: what a length of 1 that is added to it scales it by.

    The sides share the length as their halves are. The more the points tell, the narrower the interval is.
    """
    below_B1, above_B1 = halves(severity_B3)
    return (below_B1 + above_B1).clamp(min=LEAST_WIDTH).reciprocal()


def deviation(severity_B3: Tensor, standard_B: Tensor) -> Tensor:
    """(B,) how many halves of the network's interval the truth is from its middle, on its side."""
    below_B1, above_B1 = halves(severity_B3)
    beyond_B = standard_B - severity_B3[:, 1]
    return torch.where(beyond_B > 0, beyond_B / above_B1[:, 0], -beyond_B / below_B1[:, 0])


def stretched(severity_B3: Tensor, scale_BC: Tensor, add_C: Tensor, edges_E: Tensor) -> tuple[Tensor, Tensor]:
    """(B, 1) ends: each half times `scale_BC` (at least 0) plus `add_C`, by each category's own as they reach into it.

    All severities of a category count that its stretch lets in; the interval is what lies between the least and the
    greatest. Where none is let in, the ends are plus and minus infinity.
    """
    below_B1, above_B1 = halves(severity_B3)
    middle_B1 = severity_B3[:, 1:2]
    scale_BC = scale_BC.clamp(min=0)
    endless = torch.full_like(edges_E[:1], torch.inf)
    from_BC = torch.maximum(middle_B1 - scale_BC * below_B1 - add_C, torch.cat([-endless, edges_E]))
    to_BC = torch.minimum(middle_B1 + scale_BC * above_B1 + add_C, torch.cat([edges_E, endless]))
    nowhere = torch.full_like(from_BC, torch.inf)
    return (
        torch.where(from_BC <= to_BC, from_BC, nowhere).amin(-1, keepdim=True),
        torch.where(from_BC <= to_BC, to_BC, -nowhere).amax(-1, keepdim=True),
    )
