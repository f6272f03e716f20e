"""Explain the model's answers, scatterer by scatterer.

`attention_share`: where the pooled answer looks. `integrated_gradients`: what moved the answer, and by how much.

Shape legend: B buildings, L scatterers, F features, S stretches of the way from the average building to one of them.
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
"""Equal stretches that the way begins as, and how often one may be halved where the answer changes steeply."""
TOLERANCE = 0.01
"""Share of the difference of the answers that attributions may miss."""
CELLS = 1 << 14
"""Scatterers, padding included, in one pass through the network: bounds the memory."""
NEGLIGIBLE = 0.1
"""A smaller difference needs no closer attributions than this one."""


class Attribution(NamedTuple):
    """Contribution of each feature to the difference from the answer for the average building."""

    scatterer_BL: Tensor
    """By each scatterer; 0 outside of the mask."""
    geometry_BF: Tensor
    """By each column of the geometry."""
    difference_B: Tensor
    """The answer less that of the average building; all attributions of a building add up to it."""


class Explanation(NamedTuple):
    """Attention shares and attributions of B buildings."""

    attention_BL: Tensor
    """Share of each scatterer in what the pooled answer looks at; adds up to 1."""
    quadrant: Attribution
    """In logits, of the quadrant that was decided above the mean of the four."""
    severity: Attribution
    """In natural logarithms of the severity (plus `diagnosis.SEVERITY_FLOOR`): 0.1 is about 10 %."""


def explain(model: Diagnosis, distance: Tensor, slope: Tensor, geometry: Tensor, mask: Tensor) -> Explanation:
    """Explain the answers to raw features, as `Diagnosis.forward` takes them. The model is in evaluation mode."""
    inputs = (distance, slope, geometry, mask)
    return Explanation(
        attention_share(model, *inputs),
        integrated_gradients(model, "quadrant", *inputs),
        integrated_gradients(model, "severity", *inputs),
    )


@torch.no_grad()
def attention_share(model: Diagnosis, distance: Tensor, slope: Tensor, geometry: Tensor, mask: Tensor) -> Tensor:
    """Return the share (B, L) of each scatterer in the pooled answer, through all attention layers (attention rollout).

    Abnar and Zuidema 2020: heads are averaged, and each layer's residual connection counts as half. Without attention,
    and for buildings too long for it, it is the pooling's share alone. Convolutions reach a few neighbours further.
    """
    network = model.network
    seen = _inputs_of(network, model, distance, slope, geometry, mask)
    layers = network.neck.layers
    most = seen[layers[0].attention].shape[1] if layers else 0
    looks_BLL = torch.eye(most, device=mask.device).expand(len(mask), most, most)
    attends_B11 = network.neck.attends(mask)[:, None, None]
    for layer in layers:
        weights_BLL = layer.attention.weights(seen[layer.attention], mask[:, :most]).mean(1)
        mixed_BLL = (weights_BLL @ looks_BLL + looks_BLL) / 2
        looks_BLL = torch.where(attends_B11, mixed_BLL, looks_BLL)
    share_BL: Tensor = network.pool.share(seen[network.pool], mask)
    near_BL = (share_BL[:, None, :most] @ looks_BLL)[:, 0]
    return torch.cat([near_BL, share_BL[:, most:]], dim=1)


def integrated_gradients(
    model: Diagnosis, question: Question, distance: Tensor, slope: Tensor, geometry: Tensor, mask: Tensor
) -> Attribution:
    """Integrate gradients on the straight way from the average building's features (Sundararajan et al. 2017).

    The average building has as many scatterers in the same places of the sequence, with zeros for features. The
    gradient in the middle of a stretch stands for all of it. A stretch is halved where that misses by how much the
    answer changes along it: a network with normalisations and maxima changes steeply in some places.
    """
    with torch.inference_mode(False), torch.enable_grad():
        # Copies, because what was made in inference mode never has gradients; padding may hold what is no number.
        mask = mask.clone()
        ends = [
            model.standardise("distance", distance.clone()).masked_fill(~mask[..., None], 0),
            model.standardise("slope", slope.clone()).masked_fill(~mask[..., None], 0),
            model.standardise("geometry", geometry.clone()),
        ]
        parts = [torch.zeros_like(end) for end in ends]
        with torch.no_grad():
            decided_B = model.network(*ends, mask).logits_B4.argmax(1)
            way = _Way(model, question, ends, mask, decided_B)
            todo = _first_stretches(way)
        difference_B = todo.after_S.view(FIRST, -1)[-1] - todo.before_S.view(FIRST, -1)[0]
        # An equal part of what may be missed for each of the first stretches, and half of it for those that are halved.
        allowed_B = TOLERANCE * difference_B.abs().clamp(min=NEGLIGIBLE) / FIRST
        for depth in range(HALVINGS + 1):
            width, halved = 1 / (FIRST << depth), [todo.take(slice(0))]
            for some in todo.split(max(1, CELLS // mask.shape[1])):
                gradients, middle_S = way.gradients(some.owner_S, some.place_S + width / 2)
                found = [width * ends_S * own for ends_S, own in zip(way.ends(some.owner_S), gradients, strict=True)]
                gap_S = sum(part.flatten(1).sum(1) for part in found) - (some.after_S - some.before_S)
                missed_S = (gap_S.abs() > allowed_B[some.owner_S] * 0.5**depth) & (depth < HALVINGS)
                for part, own in zip(parts, found, strict=True):
                    part.index_add_(0, some.owner_S[~missed_S], own[~missed_S])
                halved += some.take(missed_S).halves(middle_S[missed_S], width / 2)
            todo = _Stretches(*(torch.cat(part) for part in zip(*halved, strict=True)))
    by_distance, by_slope, geometry_BF = parts
    return Attribution(by_distance.sum(-1) + by_slope.sum(-1), geometry_BF, difference_B)


class _Stretches(NamedTuple):
    """S stretches of the ways to buildings, all of one width."""

    owner_S: Tensor
    """Index of the building."""
    place_S: Tensor
    """Where it begins: 0 is the average building, 1 the building itself."""
    before_S: Tensor
    after_S: Tensor
    """The answer at its beginning and at its end."""

    def take(self, index: Tensor | slice) -> _Stretches:
        return _Stretches(*(part[index] for part in self))

    def split(self, size: int) -> Iterator[_Stretches]:
        return map(_Stretches._make, zip(*(torch.split(part, size) for part in self), strict=True))

    def halves(self, middle_S: Tensor, width: float) -> list[_Stretches]:
        """Return both halves of each stretch; the answer between them is known."""
        return [self._replace(after_S=middle_S), self._replace(place_S=self.place_S + width, before_S=middle_S)]


class _Way(NamedTuple):
    """From the average building to each of B, in standardised features."""

    model: Diagnosis
    question: Question
    whole: list[Tensor]
    mask_BL: Tensor
    decided_B: Tensor

    def ends(self, owner_S: Tensor) -> list[Tensor]:
        return [end[owner_S] for end in self.whole]

    def asked(self, inputs: list[Tensor], owner_S: Tensor) -> Tensor:
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
        """Return the gradients of the explained number at places on the ways, and that number (S,) there."""
        here = [part.requires_grad_() for part in self.at(owner_S, place_S)]
        asked_S = self.asked(here, owner_S)
        return list(torch.autograd.grad(asked_S.sum(), here)), asked_S.detach()


def _first_stretches(way: _Way) -> _Stretches:
    """Return the `FIRST` stretches of each building, in rows of equal places."""
    buildings = torch.arange(len(way.mask_BL), device=way.mask_BL.device)
    edges = [step / FIRST for step in range(FIRST + 1)]
    asked = [way.asked(way.at(buildings, torch.full_like(way.whole[0][:, 0, 0], edge)), buildings) for edge in edges]
    place_S = torch.tensor(edges[:-1], device=buildings.device).repeat_interleave(len(buildings))
    return _Stretches(buildings.repeat(FIRST), place_S, torch.cat(asked[:-1]), torch.cat(asked[1:]))


def _inputs_of(network: Network, model: Diagnosis, *inputs: Tensor) -> dict[nn.Module, Tensor]:
    """Record the inputs of the attention layers and of the pool while the model answers `inputs`."""
    seen: dict[nn.Module, Tensor] = {}

    def note(module: nn.Module, arguments: tuple[Any, ...]) -> None:
        seen[module] = arguments[0]

    watched = [network.pool, *(layer.attention for layer in network.neck.layers)]
    hooks = [module.register_forward_pre_hook(note) for module in watched]
    try:
        model.raw(*inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return seen
