"""Form the severity interval: stretch each side of the network's interval to its share of every category and kind.

Shape legend: B buildings, F columns of the geometry, C categories, E = C - 1 bounds between them, K kinds of buildings.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from plumbline.prepare.features.definition import GEOMETRY, names

KIND_BOUNDS = (10, 20)
"""Scatterers; bounds between kinds of buildings, which say most about what a sensor shows of them."""
KINDS = len(KIND_BOUNDS) + 1
NOTHING = -1e3
"""Halves; the scale of a category that lets in nothing but what the middle lies in."""
NEAREST = 0.05
"""Halves; no end is closer to the middle, whatever the categories need."""
LEAST_HALF = 0.01
"""Standardised; what a half of the interval counts at least, so that every deviation is a number of halves."""
LEAST_WIDTH = 0.5
"""Standardised; what the network's interval counts at least where a length is added to it: hardly one is narrower."""
_LOG_POINTS = names(GEOMETRY).index("log_points")


def kinds(geometry_BF: Tensor) -> Tensor:
    """Return (B, K) 1 in the column of the building's kind, else 0, from raw geometry."""
    # Half a scatterer less: the logarithm of a bound need not be that of a count, bit by bit.
    bounds_E = torch.tensor([math.log(bound - 0.5) for bound in KIND_BOUNDS]).to(geometry_BF)
    passed_BE = (geometry_BF[:, _LOG_POINTS : _LOG_POINTS + 1] >= bounds_E).to(geometry_BF.dtype)
    one_B1 = torch.ones_like(passed_BE[:, :1])
    return torch.cat([one_B1, passed_BE], -1) - torch.cat([passed_BE, 0 * one_B1], -1)


def halves(severity_B3: Tensor) -> tuple[Tensor, Tensor]:
    """Return the (B, 1) lengths of the network's interval below and above its middle."""
    low_B1, middle_B1, high_B1 = severity_B3[:, :1], severity_B3[:, 1:2], severity_B3[:, 2:]
    return (middle_B1 - low_B1).clamp(min=LEAST_HALF), (high_B1 - middle_B1).clamp(min=LEAST_HALF)


def narrowness(severity_B3: Tensor) -> Tensor:
    """Return (B, 1) one over the length of the network's interval.

    The sides share the length as their halves are. The more the points tell, the narrower the interval is.
    """
    below_B1, above_B1 = halves(severity_B3)
    return (below_B1 + above_B1).clamp(min=LEAST_WIDTH).reciprocal()


def deviations(severity_B3: Tensor, standard_B: Tensor, edges_E: Tensor) -> tuple[Tensor, Tensor]:
    """Return (B,) by how many halves of the network's interval the truth is below its middle, and above; else negative.

    From above, all severities of category 0 are one, its upper edge: an interval lets in all of it, or nothing.
    """
    below_B1, above_B1 = halves(severity_B3)
    beyond_B = standard_B - severity_B3[:, 1]
    short_B = severity_B3[:, 1] - standard_B.clamp(min=float(edges_E[0]))
    return short_B / below_B1[:, 0], beyond_B / above_B1[:, 0]


def distances(severity_B3: Tensor, edges_E: Tensor) -> tuple[Tensor, Tensor]:
    """(B, C) how many halves each category's upper edge is below the middle, and its lower edge above; so a scale that
    is at least 0 and at least this lets the category in. Negative if the edge is not there."""
    below_B1, above_B1 = halves(severity_B3)
    middle_B1, endless_1 = severity_B3[:, 1:2], torch.full_like(edges_E[:1], torch.inf)
    return (
        (middle_B1 - torch.cat([edges_E, endless_1])) / below_B1,
        (torch.cat([-endless_1, edges_E]) - middle_B1) / above_B1,
    )


def stretched(severity_B3: Tensor, below_BC: Tensor, above_BC: Tensor, edges_E: Tensor) -> tuple[Tensor, Tensor]:
    """Return the ends (B, 1): each half times its scale (at least 0), or a category's own scale if it reaches into it.

    The lower end is the least that a category lets in, minus infinity where category 0 is: how little damage there may
    be below category 1 is not told apart. The upper end is the greatest. `NEAREST` the middle there is none.
    """
    half_below_B1, half_above_B1 = halves(severity_B3)
    middle_B1, endless_1 = severity_B3[:, 1:2], torch.full_like(edges_E[:1], torch.inf)
    bottom_C, top_C = torch.cat([-endless_1, edges_E]), torch.cat([edges_E, endless_1])
    nowhere_BC = torch.full_like(below_BC, torch.inf)
    reach_BC = middle_B1 - below_BC.clamp(min=0) * half_below_B1
    whole_C = torch.cat([-endless_1, torch.zeros_like(edges_E)])  # category 0, let in, is let in to its end
    from_BC = torch.where(reach_BC <= top_C, torch.maximum(reach_BC, bottom_C) + whole_C, nowhere_BC)
    reach_BC = middle_B1 + above_BC.clamp(min=0) * half_above_B1
    to_BC = torch.where(reach_BC >= bottom_C, torch.minimum(reach_BC, top_C), -nowhere_BC)
    return (
        torch.minimum(from_BC.amin(-1, keepdim=True), middle_B1 - NEAREST * half_below_B1),
        torch.maximum(to_BC.amax(-1, keepdim=True), middle_B1 + NEAREST * half_above_B1),
    )
