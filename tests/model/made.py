"""Small networks with all their statistics set, and raw inputs for them."""

from itertools import combinations, product
from typing import Any

import pytest
import torch
from torch import Tensor

from plumbline.core.strain import LEVEL_EDGES_PERMILLE, MECHANISMS
from plumbline.model.attention import Kernel, attention_weights, key_mask
from plumbline.model.diagnosis import Diagnosis
from plumbline.model.network import RawAnswer
from plumbline.model.spec import new_spec
from plumbline.params import Model
from plumbline.params.plugins import ATTENTION, CONVOLUTION, POOLING, POSITION
from plumbline.prepare.features.definition import DISTANCE, GEOMETRY, SLOPE


def formula(query_BHLE: Tensor, key_BHLE: Tensor, value_BHLE: Tensor, keys_B11L: Tensor) -> Tensor:
    """Attention by its formula."""
    return attention_weights(query_BHLE, key_BHLE, keys_B11L) @ value_BHLE


def needs_gpu(test: Any) -> Any:
    """Mark a test that needs a GPU."""
    return pytest.mark.gpu(pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")(test))


FORMULA = Kernel(key_mask, formula)
SMALL: dict[str, Any] = {"channels": 8, "blocks": 2, "heads": 2, "attention_layers": 2, "hidden": 16}
LONGEST = 32
KINDS: dict[str, list[Any]] = {
    "attention": list(ATTENTION),
    "position": list(POSITION),
    "pooling": list(POOLING),
    "convolution": list(CONVOLUTION),
    "max_attention_length": [1024, 8],
}
"""Of section `model`, and what each may be."""


def meeting(kinds: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """Few networks in which every two values of different kinds meet: always the one in which most do for the first
    time."""
    every = [dict(zip(kinds, values, strict=True)) for values in product(*kinds.values())]
    pairs = [set(combinations(network.items(), 2)) for network in every]
    missing, found = set().union(*pairs), []
    while missing:
        best = max(range(len(every)), key=lambda number: len(pairs[number] & missing))
        missing -= pairs[best]
        found.append(every[best])
    return found


PLUGINS = meeting(KINDS)
"""A plug-in that is added to its table is in some of them."""
FIRST = [
    network
    for number, network in enumerate(PLUGINS)
    if network.items() - set().union(*(before.items() for before in PLUGINS[:number]))
]
"""Those of them in which a value is met for the first time."""


def small_model(max_length: int = LONGEST, seed: int = 0, **model: Any) -> Diagnosis:
    """A network with random weights and statistics: nothing is at its neutral value, so nothing hides."""
    torch.manual_seed(seed)
    diagnosis = Diagnosis(new_spec(Model(**{**SMALL, **model}), max_length))
    for parameter in diagnosis.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    for name, buffer in diagnosis.named_buffers():
        if name.endswith(("_sd", "temperature", "_below", "_above", "_scale")):
            buffer.uniform_(0.5, 2)
        elif name.endswith(("_mean", "interval_length", "_shift")):
            buffer.normal_(std=0.3)
    diagnosis.get_buffer("category_share").copy_(torch.randn(5).softmax(0))
    diagnosis.get_buffer("novelty_whitening").normal_()
    diagnosis.get_buffer("novelty_limit").fill_(3.0)
    return diagnosis.eval()


WIDTHS = {
    "logits_B4": 4,
    "severity_B3": 3,
    "accepted_B4": 4,
    "levels_BK": len(LEVEL_EDGES_PERMILLE) + 1,
    "mechanism_BM": len(MECHANISMS),
}
"""Of the parts of a raw answer."""


def raw_answer(**said: Tensor) -> RawAnswer:
    """What a network says: these parts, and nothing (zeros) of the others."""
    like = next(iter(said.values()))
    return RawAnswer(**{name: torch.zeros(len(like), width).to(like) for name, width in WIDTHS.items()} | said)


def inputs(lengths: list[int], width: int | None = None, seed: int = 0) -> list[Tensor]:
    """Distance, slope, geometry and mask of buildings of these lengths, padded with zeros to `width`."""
    generator = torch.Generator().manual_seed(seed)
    mask = torch.arange(width or max(lengths)) < torch.tensor(lengths)[:, None]
    values = [
        torch.randn(*mask.shape, len(columns), generator=generator) * mask[..., None] for columns in (DISTANCE, SLOPE)
    ]
    return [*values, torch.randn(len(lengths), len(GEOMETRY), generator=generator), mask]


def widen(batch: list[Tensor], width: int, garbage: float = 0.0) -> list[Tensor]:
    """The same buildings padded to `width`, with `garbage` wherever there is padding."""
    distance, slope, geometry, mask = batch
    wider = torch.zeros(len(mask), width, dtype=torch.bool)
    wider[:, : mask.shape[1]] = mask
    out = []
    for values in (distance, slope):
        filled = torch.full((*wider.shape, values.shape[-1]), garbage)
        filled[:, : mask.shape[1]] = torch.where(mask[..., None], values, garbage)
        out.append(filled)
    return [*out, geometry, wider]


def rows(batch: list[Tensor], index: list[int]) -> list[Tensor]:
    """Some buildings of a batch, padded to the longest of them."""
    width = int(batch[3][index].sum(1).max())
    distance, slope, geometry, mask = (tensor[index] for tensor in batch)
    return [distance[:, :width], slope[:, :width], geometry, mask[:, :width]]
