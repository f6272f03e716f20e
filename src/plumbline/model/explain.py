"""Explain the model's answers, scatterer by scatterer.

`attention_share`: where the pooled answer looks. `integrated_gradients`: what moved the
answer, and by how much.

Shape legend: B buildings, L scatterers, F features, S stretches of the way from the average
building to one of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from plumbline.model.diagnosis import Diagnosis
from plumbline.model.network import Network, RawAnswer

Question = Literal["quadrant", "severity"]
FIRST, HALVINGS = 8, 12
"""Number of equal stretches at first, and of halvings of one where the answer changes steeply."""
TOLERANCE = 0.01
"""Share of the difference of the answers that attributions may miss."""
CELLS = 1 << 14
"""Largest number of scatterers in one pass, padding included: bounds the memory."""
NEGLIGIBLE = 0.1
"""Difference of answers below which attributions need not be more exact."""


class Attribution(NamedTuple):
    """Contribution of each feature to the difference from the answer for the average building."""

    scatterer_BL: Tensor
    """Contribution of each scatterer; 0 outside of the mask."""
    geometry_BF: Tensor
    """Contribution of each column of the geometry."""
    difference_B: Tensor
    """The answer less that of the average building; all attributions of a building add up to it."""


class Explanation(NamedTuple):
    """Attention shares and attributions of B buildings."""

    attention_BL: Tensor
    """Share of each scatterer in what the pooled answer looks at; adds up to 1."""
    quadrant: Attribution
    """Attribution of the decided quadrant's logit, less the mean of the four."""
    severity: Attribution
    """Attribution of the natural logarithm of the severity (plus `diagnosis.SEVERITY_FLOOR`): 0.1
    is about 10 %."""


def explain(
    model: Diagnosis, distance: Tensor, slope: Tensor, geometry: Tensor, mask: Tensor
) -> Explanation:
    """Explain the answers to raw features, as `Diagnosis.forward` takes them. The model is
    in evaluation mode."""
    inputs = (distance, slope, geometry, mask)
    return Explanation(
        attention_share(model, *inputs),
        integrated_gradients(model, "quadrant", inputs),
        integrated_gradients(model, "severity", inputs),
    )


@torch.no_grad()
def attention_share(
    model: Diagnosis, distance: Tensor, slope: Tensor, geometry: Tensor, mask: Tensor
) -> Tensor:
    """Return the share (B, L) of each scatterer in the pooled answer, through all attention
    layers (attention rollout).

    Abnar and Zuidema 2020: heads are averaged, and each layer's residual connection counts
    as half. Without attention, and for buildings too long for it, it is the pooling's share
    alone. Convolutions reach a few neighbours further.
    """
    network = model.network
    inputs_of = _record_inputs(network, model, distance, slope, geometry, mask)
    layers = network.neck.layers
    longest = inputs_of[layers[0].attention].shape[1] if layers else 0
    looks_BLL = torch.eye(longest, device=mask.device).expand(len(mask), longest, longest)
    attends_B11 = network.neck.attends(mask)[:, None, None]
    for layer in layers:
        weights_BLL = layer.attention.weights(inputs_of[layer.attention], mask[:, :longest]).mean(1)
        mixed_BLL = (weights_BLL @ looks_BLL + looks_BLL) / 2
        looks_BLL = torch.where(attends_B11, mixed_BLL, looks_BLL)
    share_BL: Tensor = network.pool.share(inputs_of[network.pool], mask)
    near_BL = (share_BL[:, None, :longest] @ looks_BLL)[:, 0]
    return torch.cat([near_BL, share_BL[:, longest:]], dim=1)


def integrated_gradients(
    model: Diagnosis, question: Question, inputs: tuple[Tensor, Tensor, Tensor, Tensor]
) -> Attribution:
    """Integrate gradients on the straight way from the average building's features
    (Sundararajan et al. 2017).

    The average building has as many scatterers in the same places of the sequence, with
    zeros for features. The gradient in the middle of a stretch stands for all of it. A
    stretch is halved where that misses by how much the answer changes along it: a network
    with normalisations and maxima changes steeply in some places.

    Args:
        model: in evaluation mode. question: whose answer is explained.
        inputs: distance, slope, geometry and mask, as `Diagnosis.forward` takes them.
    """
    distance, slope, geometry, mask = inputs
    with torch.inference_mode(False), torch.enable_grad():
        # Copies, because what was made in inference mode never has gradients; padding may
        # hold what is no number.
        mask = mask.clone()
        ends = [
            model.standardise("distance", distance.clone()).masked_fill(~mask[..., None], 0),
            model.standardise("slope", slope.clone()).masked_fill(~mask[..., None], 0),
            model.standardise("geometry", geometry.clone()),
        ]
        parts = [torch.zeros_like(end) for end in ends]
        with torch.no_grad():
            way = _Way(model, question, ends, mask, model.network(*ends, mask).logits_B4.argmax(1))
            stretches = _first_stretches(way)
        difference_B = stretches.after_S.view(FIRST, -1)[-1] - stretches.before_S.view(FIRST, -1)[0]
        # An equal part of what may be missed for each of the first stretches, and half of it
        # for those that are halved.
        allowed_B = TOLERANCE * difference_B.abs().clamp(min=NEGLIGIBLE) / FIRST
        for depth in range(HALVINGS + 1):
            width, halved = 1 / (FIRST << depth), [stretches.select(slice(0))]
            for chunk in stretches.split(max(1, CELLS // mask.shape[1])):
                gradients, middle_S = way.gradients(chunk.owner_S, chunk.place_S + width / 2)
                shares = [
                    width * end_S * slope_S
                    for end_S, slope_S in zip(way.ends(chunk.owner_S), gradients, strict=True)
                ]
                gap_S = sum(part_S.flatten(1).sum(1) for part_S in shares) - (
                    chunk.after_S - chunk.before_S
                )
                missed_S = (gap_S.abs() > allowed_B[chunk.owner_S] * 0.5**depth) & (
                    depth < HALVINGS
                )
                for part, share_S in zip(parts, shares, strict=True):
                    part.index_add_(0, chunk.owner_S[~missed_S], share_S[~missed_S])
                halved += chunk.select(missed_S).halves(middle_S[missed_S], width / 2)
            stretches = _Stretches(*(torch.cat(part) for part in zip(*halved, strict=True)))
    by_distance, by_slope, geometry_BF = parts
    return Attribution(by_distance.sum(-1) + by_slope.sum(-1), geometry_BF, difference_B)


class _Stretches(NamedTuple):
    """S stretches of the ways to buildings, all of one width."""

    owner_S: Tensor
    """Index of the building."""
    place_S: Tensor
    """Beginning of the stretch: 0 is the average building, 1 the building itself."""
    before_S: Tensor
    after_S: Tensor
    """The answer at its beginning and at its end."""

    def select(self, index: Tensor | slice) -> _Stretches:
        return _Stretches(*(part[index] for part in self))

    def split(self, size: int) -> Iterator[_Stretches]:
        return map(_Stretches._make, zip(*(torch.split(part, size) for part in self), strict=True))

    def halves(self, middle_S: Tensor, width: float) -> list[_Stretches]:
        """Return both halves of each stretch; `middle_S` is the answer between them."""
        return [
            self._replace(after_S=middle_S),
            self._replace(place_S=self.place_S + width, before_S=middle_S),
        ]


class _Way(NamedTuple):
    """From the average building to each of B, in standardised features."""

    model: Diagnosis
    question: Question
    whole: list[Tensor]
    mask_BL: Tensor
    decided_B: Tensor

    def ends(self, owner_S: Tensor) -> list[Tensor]:
        return [end[owner_S] for end in self.whole]

    def explained(self, inputs: list[Tensor], owner_S: Tensor) -> Tensor:
        """(S,) the number that is explained."""
        answer: RawAnswer = self.model.network(*inputs, self.mask_BL[owner_S])
        if self.question == "severity":
            return answer.severity_B3[:, 1] * self.model.get_buffer("severity_sd")
        decided_S1 = self.decided_B[owner_S, None]
        return answer.logits_B4.gather(1, decided_S1)[:, 0] - answer.logits_B4.mean(1)

    def at(self, owner_S: Tensor, place_S: Tensor) -> list[Tensor]:
        """Return the features at places on the ways."""
        return [place_S.view(-1, *[1] * (end.dim() - 1)) * end for end in self.ends(owner_S)]

    def gradients(self, owner_S: Tensor, place_S: Tensor) -> tuple[list[Tensor], Tensor]:
        """Return the gradients of the explained number at places on the ways, and that
        number (S,) there."""
        features = [part.requires_grad_() for part in self.at(owner_S, place_S)]
        explained_S = self.explained(features, owner_S)
        return list(torch.autograd.grad(explained_S.sum(), features)), explained_S.detach()


def _first_stretches(way: _Way) -> _Stretches:
    """Return the `FIRST` stretches of each building, in rows of equal places."""
    buildings = torch.arange(len(way.mask_BL), device=way.mask_BL.device)
    edges = [step / FIRST for step in range(FIRST + 1)]
    answers = [
        way.explained(way.at(buildings, torch.full_like(way.whole[0][:, 0, 0], edge)), buildings)
        for edge in edges
    ]
    place_S = torch.tensor(edges[:-1], device=buildings.device).repeat_interleave(len(buildings))
    return _Stretches(
        buildings.repeat(FIRST), place_S, torch.cat(answers[:-1]), torch.cat(answers[1:])
    )


def _record_inputs(network: Network, model: Diagnosis, *inputs: Tensor) -> dict[nn.Module, Tensor]:
    """Record the inputs of the attention layers and of the pool while the model answers
    `inputs`."""
    inputs_of: dict[nn.Module, Tensor] = {}

    def record_input(module: nn.Module, arguments: tuple[Any, ...]) -> None:
        inputs_of[module] = arguments[0]

    watched = [network.pool, *(layer.attention for layer in network.neck.layers)]
    hooks = [module.register_forward_pre_hook(record_input) for module in watched]
    try:
        model.raw(*inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return inputs_of
