"""Which of the channels that both streams share go, so that each stream's own width runs fast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn


class Split:
    """An importance that leaves each stream a multiple of `multiple` of the channels that both streams share.

    How many each keeps is what `scores` would keep, rounded; which ones, they say.
    """

    def __init__(self, scores: Any, first: nn.Module, multiple: int, share_of: Callable[[nn.Module], float]) -> None:
        """`first`: the layer that makes the first stream's channels. `share_of`: what goes, by a group's first."""
        self.scores, self.first, self.multiple, self.share_of = scores, first, multiple, share_of

    def __call__(self, group: Any) -> Any:
        """(C,) of the group's channels."""
        score_C = self.scores(group)
        places = [item.root_idxs for item in group if item.dep.target.module is self.first]
        if score_C is None or not places or len(places[0]) == len(score_C):
            return score_C
        is_first_C = torch.zeros(len(score_C), dtype=torch.bool)
        is_first_C[places[0]] = True
        left = int(len(score_C) * (1 - self.share_of(group[0].dep.target.module)))
        best = score_C.topk(left).indices
        most, other = int(is_first_C.sum()), int((~is_first_C).sum())
        wanted = self.multiple * round(int(is_first_C[best].sum()) / self.multiple)
        # Also of a stream of which all would go, or all would stay: what is left over is the other's width.
        least = self.multiple if left >= 2 * self.multiple else 1
        lowest, highest = max(left - other, least), min(most, left - least)
        # The nearest multiple that both can have.
        able = range(-(-lowest // self.multiple) * self.multiple, highest + 1, self.multiple)
        number = min(able, key=lambda one: abs(one - wanted), default=min(max(wanted, lowest), highest))
        kept_C = torch.zeros_like(is_first_C)
        for part_C, count in ((is_first_C, number), (~is_first_C, left - number)):
            kept_C[score_C.masked_fill(~part_C, -torch.inf).topk(count).indices] = True
        # Those that stay are to be ahead of all others, in whatever order.
        return score_C + kept_C * (2 * score_C.abs().max() + 1)
