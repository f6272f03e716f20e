"""Let scatterers attend to each other; a plug-in computes the attention.

The plug-ins have the same weights and the same answers, and need other memory and time.

Shape legend: B buildings, L scatterers, D channels, H heads, E channels a head.
"""

from __future__ import annotations

from torch import Tensor, nn

from plumbline.model.attention.kernel import Kernel, Keys, attention_weights, key_mask
from plumbline.model.layers import Dropout, Linear
from plumbline.params.plugins import ATTENTION


class Attention(nn.Module):
    """Multi-head self-attention; query, key and value are separate layers so that channels can be pruned."""

    def __init__(self, width: int, inner: int, heads: int, kind: str) -> None:
        super().__init__()
        self.heads = heads
        self.kernel: Kernel = ATTENTION[kind]
        self.query = Linear(width, inner)
        self.key = Linear(width, inner)
        # It adds the same to all that a scatterer looks at, which the softmax takes off again. So its gradient is
        # rounding errors alone, of which Adam would make whole steps, in each process others.
        self.key.bias.requires_grad_(False)
        self.value = Linear(width, inner)
        self.out = Linear(inner, width)

    def forward(self, x_BLD: Tensor, keys: Keys) -> Tensor:
        """Mix the scatterers of each building; positions outside of `keys` are neither read nor meaningful."""
        query, key, value = (self._split(layer(x_BLD)) for layer in (self.query, self.key, self.value))
        mixed_BHLE = self.kernel.mix(query, key, value, keys)
        mixed: Tensor = self.out(mixed_BHLE.transpose(1, 2).flatten(-2))
        return mixed

    def weights(self, x_BLD: Tensor, mask_BL: Tensor) -> Tensor:
        """Return the attention weights (B, H, L, L) of each scatterer (row) on each (column), with any kernel."""
        return attention_weights(self._split(self.query(x_BLD)), self._split(self.key(x_BLD)), key_mask(mask_BL))

    def _split(self, x_BLD: Tensor) -> Tensor:
        """Split the channels into heads: (B, H, L, E)."""
        parts_BLHE: Tensor = x_BLD.unflatten(-1, (self.heads, -1))  # type: ignore[no-untyped-call]
        return parts_BLHE.transpose(1, 2)


class AttentionLayer(nn.Module):
    """Attention and a feed-forward part, each normalised before and added after (Xiong et al. 2020)."""

    def __init__(self, width: int, inner: int, feedforward: int, heads: int, kind: str, dropout: float) -> None:
        super().__init__()
        self.norm_attention = nn.LayerNorm(width)
        self.attention = Attention(width, inner, heads, kind)
        self.norm_feedforward = nn.LayerNorm(width)
        self.widen = Linear(width, feedforward)
        self.narrow = Linear(feedforward, width)
        self.dropout = Dropout(dropout)

    def forward(self, x_BLD: Tensor, keys: Keys) -> Tensor:
        """Return features shaped as `x_BLD`; values outside of `keys` never reach a position inside."""
        x_BLD = x_BLD + self.dropout(self.attention(self.norm_attention(x_BLD), keys))
        inner = nn.functional.gelu(self.widen(self.norm_feedforward(x_BLD)))
        added_BLD: Tensor = self.dropout(self.narrow(inner))
        return x_BLD + added_BLD
