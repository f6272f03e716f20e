"""List the plug-ins of a network and its training: a table for each kind, with a line for
each plug-in.

A line is a name for `params.yaml` and, as text, where the plug-in is: parameters are
checked without loading torch, and a name from anybody's file is only ever looked up here.
docs/decisions/0044 says why.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BeforeValidator


class Plugins(Mapping[str, Any]):
    """Names of one kind to plug-ins, each imported when it is asked for."""

    def __init__(self, **places: str | None) -> None:
        self.places = places
        """Name -> `module:attribute`; None for a name that stands for the absence of a plug-in."""

    def __getitem__(self, name: str) -> Any:
        place = self.places[name]
        return None if place is None else _imported(place)

    def __contains__(self, name: object) -> bool:
        return name in self.places  # without importing it

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)

    def name(self, *extra_names: str) -> BeforeValidator:
        """Return a validator: the value must be a name in the table at that time, or one of
        `extra_names`."""

        def check(value: object) -> object:
            names = (*self, *extra_names)
            if value not in names:
                raise ValueError(f"one of {', '.join(names)} needed")
            return value

        return BeforeValidator(check)


@functools.cache
def _imported(place: str) -> Any:
    module, _, attribute = place.partition(":")
    return getattr(importlib.import_module(module), attribute)


ATTENTION = Plugins(
    none=None,
    sdpa="plumbline.model.attention:SDPA",
    ragged="plumbline.model.attention:RAGGED",
)
"""`model.attention.Kernel`s: the same answers from the same weights, in other time or memory."""

CONVOLUTION = Plugins(
    plain="plumbline.model.encoder:plain",
    separable="plumbline.model.encoder:Separable",
)
"""Channels in, channels out and kernel to a module (B, channels in, L) -> (B, channels out,
L) with `out_channels`."""

POSITION = Plugins(
    none=None,
    learned="plumbline.model.spec:Learned",
    sinusoidal="plumbline.model.spec:Sinusoidal",
)
"""Channels and the longest sequence to a module (B, L, D) -> (L, D), a code for each place."""

POOLING = Plugins(
    mean_max="plumbline.model.pooling:MEAN_MAX",
    mean="plumbline.model.pooling:Mean",
    max="plumbline.model.pooling:Max",
    mean_deviation="plumbline.model.pooling:MEAN_DEVIATION",
    attention="plumbline.model.pooling:Attended",
)
"""A class of `model.pooling.Look`, or a tuple of them, which are taken side by side."""

QUADRANT_LOSS = Plugins(
    cross_entropy="plumbline.model.losses:cross_entropy",
    focal="plumbline.model.losses:focal",
)
"""(B,) cross-entropy of each building, and gamma, to its loss (B,)."""

SEVERITY_LOSS = Plugins(
    pinball="torch:abs",
    mse="torch:square",
    huber="plumbline.model.losses:huber",
    charbonnier="plumbline.model.losses:charbonnier",
)
"""(B,) error of the middle of the interval, standardised, to its loss (B,)."""

PADDING = Plugins(
    mask="plumbline.prepare.features.sequences:zeros",
    mean="plumbline.prepare.features.sequences:mean",
    median="plumbline.prepare.features.sequences:median",
    last="plumbline.prepare.features.sequences:last",
    replicate="plumbline.prepare.features.sequences:replicate",
)
"""Values (B, L, F) and mask (B, L) of a batch to what its padding holds, in a shape that
broadcasts to (B, L, F)."""

IMPORTANCE = Plugins(
    taylor="torch_pruning.pruner.importance:GroupTaylorImportance",
    magnitude="torch_pruning.pruner.importance:GroupMagnitudeImportance",
)
"""A class of torch-pruning's `Importance`, without arguments."""
