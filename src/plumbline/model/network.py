"""Join encoder, neck, pooling and heads into the network.

Shape legend: B buildings, L scatterers, F features.
"""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn

from plumbline.model.encoder import Encoder
from plumbline.model.heads import Heads, RawAnswer
from plumbline.model.neck import Neck
from plumbline.model.pooling import Pool
from plumbline.model.spec import LayerSpec, NetworkSpec, new_spec
from plumbline.model.weights import take_older_names
from plumbline.prepare.features.definition import GEOMETRY

__all__ = ["Network", "NetworkSpec", "RawAnswer", "count_parameters", "new_spec", "spec_of"]


class Network(nn.Module):
    """Standardised inputs in, raw answers out. A building's answer depends on that building alone."""

    def __init__(self, spec: NetworkSpec) -> None:
        super().__init__()
        self.spec = spec
        joined = spec.distance_channels + spec.slope_channels
        self.encoder = Encoder(spec)
        self.neck = Neck(spec)
        self.pool = Pool(spec.pooling, joined)
        self.geometry = nn.Sequential(nn.Linear(len(GEOMETRY), spec.geometry_width), nn.GELU())
        self.heads = Heads(joined, len(self.pool.looks), spec.geometry_width, spec.hidden, spec.dropout)
        self.register_load_state_dict_pre_hook(take_older_names)  # type: ignore[no-untyped-call]

    def forward(self, distance_BLF: Tensor, slope_BLF: Tensor, geometry_BF: Tensor, mask_BL: Tensor) -> RawAnswer:
        """Judge B buildings of up to L scatterers; values outside of `mask_BL` have no influence."""
        x_BLD = self.neck(self.encoder(distance_BLF, slope_BLF, mask_BL), mask_BL)
        answer: RawAnswer = self.heads(self.pool(x_BLD, mask_BL), self.geometry(geometry_BF))
        return answer

    @property
    def attention(self) -> nn.ModuleList:
        """The attention layers."""
        return self.neck.attention


def spec_of(network: Network) -> NetworkSpec:
    """Return the spec with the present widths of the layers; after pruning it differs from `network.spec`."""
    distance, slope = network.encoder.distance, network.encoder.slope
    return network.spec.model_copy(
        update={
            "distance_channels": distance.stem.out_features,
            "distance_hidden": distance.hidden,
            "slope_channels": slope.stem.out_features,
            "slope_hidden": slope.hidden,
            "attention_layers": [
                LayerSpec(
                    inner=layer.attention.value.out_features,
                    feedforward=layer.widen.out_features,
                    heads=None if layer.attention.heads == network.spec.heads else layer.attention.heads,
                )
                for layer in network.neck.layers
            ],
            "geometry_width": cast(nn.Linear, network.geometry[0]).out_features,
            "hidden": network.heads.join_geometry.out_features,
        }
    )


def count_parameters(network: nn.Module) -> dict[str, int]:
    """Count the parameters of each part, as `encoder.slope` or `geometry`, and in `total`.

    Parts without parameters are left out.
    """
    parts: dict[str, int] = {}
    for name, parameter in network.named_parameters():
        part = ".".join(word for word in name.split(".")[:2] if not word.isdigit())
        parts[part] = parts.get(part, 0) + parameter.numel()
    return {**parts, "total": sum(parts.values())}
