"""Why the model answered as it did, scatterer by scatterer.

`attention_share`: where the pooled answer looks. `integrated_gradients`: what moved the answer, and by how much.

Shape legend: B buildings, L scatterers, F features.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from plumbline.model.diagnosis import Diagnosis
from plumbline.model.heads import RawAnswer
from plumbline.model.network import Network

Question = Literal["quadrant", "severity"]
FEWEST_STEPS, MOST_STEPS = 32, 1024
TOLERANCE = 0.01
"""Share of the difference of the outputs that attributions may miss before the steps are doubled."""
CELLS = 1 << 14
"""Scatterers, padding included, in one pass through the network: bounds the memory."""
NEGLIGIBLE = 0.1
"""A smaller difference needs no closer attributions than this one."""


class Attribution(NamedTuple):
    """What moved an answer from that to a building all of whose features are average."""

    scatterer_BL: Tensor
    """By each scatterer; 0 outside of the mask."""
    geometry_BF: Tensor
    """By each column of the geometry."""
    difference_B: Tensor
    """The answer less that of the average building; all attributions of a building add up to it."""


class Explanation(NamedTuple):
    """Both views of B buildings."""

    attention_BL: Tensor
    """Share of each scatterer in what the pooled answer looks at; adds up to 1."""
    quadrant: Attribution
    """In logits, of the quadrant that was decided above the mean of the four."""
    severity: Attribution
    """In natural logarithms of the severity (plus `diagnosis.SEVERITY_FLOOR`): 0.1 is about 10 %."""


def explain(model: Diagnosis, distance: Tensor, slope: Tensor, geometry: Tensor, mask: Tensor) -> Explanation:
    """Both views of the answers to raw features, as `Diagnosis.forward` takes them. The model is in evaluation mode."""
    inputs = (distance, slope, geometry, mask)
    return Explanation(
        attention_share(model, *inputs),
        integrated_gradients(model, "quadrant", *inputs),
        integrated_gradients(model, "severity", *inputs),
    )


@torch.no_grad()
def attention_share(model: Diagnosis, distance: Tensor, slope: Tensor, geometry: Tensor, mask: Tensor) -> Tensor:
    """(B, L) share of each scatterer in the pooled answer, through all attention layers: attention rollout.

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
    """Gradients along the straight way from the average building's standardised features (Sundararajan et al. 2017).

    The average building has as many scatterers in the same places of the sequence, with zeros for features. Means over
    the middles of equal steps, doubled in number until the sum is right, for each building by itself.
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
            difference_B = _asked(model, question, ends, mask, decided_B)
            difference_B = difference_B - _asked(model, question, parts, mask, decided_B)
        todo, steps = torch.arange(len(mask), device=mask.device), FEWEST_STEPS
        while len(todo) and steps <= MOST_STEPS:
            these = [end[todo] for end in ends]
            gradients = _mean_gradients(model, question, these, mask[todo], decided_B[todo], steps)
            found = [end * gradient for end, gradient in zip(these, gradients, strict=True)]
            for part, new in zip(parts, found, strict=True):
                part[todo] = new
            gap_B = (sum(part.flatten(1).sum(1) for part in found) - difference_B[todo]).abs()
            todo = todo[gap_B > TOLERANCE * difference_B[todo].abs().clamp(min=NEGLIGIBLE)]
            steps *= 2
    by_distance, by_slope, geometry_BF = parts
    return Attribution(by_distance.sum(-1) + by_slope.sum(-1), geometry_BF, difference_B)


def _asked(model: Diagnosis, question: Question, inputs: list[Tensor], mask_BL: Tensor, decided_B: Tensor) -> Tensor:
    """(B,) the number that is explained, of standardised inputs."""
    answer: RawAnswer = model.network(*inputs, mask_BL)
    if question == "severity":
        return answer.severity_B3[:, 1] * model.get_buffer("severity_sd")
    return answer.logits_B4.gather(1, decided_B[:, None])[:, 0] - answer.logits_B4.mean(1)


def _mean_gradients(
    model: Diagnosis, question: Question, ends: list[Tensor], mask_BL: Tensor, decided_B: Tensor, steps: int
) -> list[Tensor]:
    """Mean gradient of what is asked over the middles of equal steps from zeros to `ends`; many steps in one pass."""
    total = [torch.zeros_like(end) for end in ends]
    places = (torch.arange(steps, device=mask_BL.device) + 0.5) / steps
    for some in torch.split(places, max(1, CELLS // mask_BL.numel())):
        here = [torch.cat([place * end for place in some]).requires_grad_() for end in ends]
        asked = _asked(model, question, here, mask_BL.repeat(len(some), 1), decided_B.repeat(len(some)))
        for part, gradient in zip(total, torch.autograd.grad(asked.sum(), here), strict=True):
            part += torch.stack(gradient.chunk(len(some))).sum(0)
    return [part / steps for part in total]


def _inputs_of(network: Network, model: Diagnosis, *inputs: Tensor) -> dict[nn.Module, Tensor]:
    """What the attentions and the pool are given when the model answers `inputs`."""
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
