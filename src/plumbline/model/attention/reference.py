"""Compute attention within buildings in torch, forward and backward: where the Triton kernels do not run.

Shape legend: T tokens, H heads, E channels a head; B buildings, L the scatterers of the longest.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from plumbline.model.attention.tokens import Tokens


class _Rows:
    """Move tokens to a row for each building, and back."""

    def __init__(self, tokens: Tokens, dtype: torch.dtype) -> None:
        place_T = torch.arange(len(tokens.begin_T), device=tokens.begin_T.device)
        begin_B = place_T[(tokens.begin_T == place_T) & (tokens.end_T > place_T)]
        end_B = tokens.end_T[begin_B]
        longest = int((end_B - begin_B).max()) if len(begin_B) else 0
        token_BL = begin_B[:, None] + torch.arange(longest, device=begin_B.device)
        self.mask_BL = token_BL < end_B[:, None]
        self.token_BL = token_BL.where(self.mask_BL, begin_B[:, None])
        self.dtype = dtype

    def __call__(self, x_THE: Tensor) -> Tensor:
        """(B, H, L, E); padding repeats a building's first token, and is masked."""
        return x_THE[self.token_BL].transpose(1, 2).to(self.dtype)

    def scores(self, query_BHLE: Tensor, key_BHLE: Tensor) -> Tensor:
        """(B, H, L, L), -inf where the key is padding."""
        score_BHLL = query_BHLE @ key_BHLE.transpose(-1, -2) / math.sqrt(query_BHLE.shape[-1])
        return score_BHLL.masked_fill(~self.mask_BL[:, None, None], -torch.inf)

    def back(self, x_BHLE: Tensor, like_THE: Tensor) -> Tensor:
        """Tokens as in `like_THE`; padding is 0."""
        x_THE = torch.zeros(like_THE.shape, dtype=like_THE.dtype, device=like_THE.device)
        x_THE[self.token_BL[self.mask_BL]] = x_BHLE.transpose(1, 2)[self.mask_BL].to(like_THE.dtype)
        return x_THE


def forward(query_THE: Tensor, key_THE: Tensor, value_THE: Tensor, tokens: Tokens) -> tuple[Tensor, Tensor]:
    """Mix the tokens of each building.

    Returns:
        tuple: (T, H, E) as `query_THE`, and (T, H) the logarithm of the sum of exponentials of each token's scores, in
        float32 or more. Both are 0 for padding.
    """
    rows = _Rows(tokens, torch.promote_types(query_THE.dtype, torch.float32))
    score_BHLL = rows.scores(rows(query_THE), rows(key_THE))
    total_BHL1 = score_BHLL.logsumexp(-1, keepdim=True)
    mixed_BHLE = (score_BHLL - total_BHL1).exp() @ rows(value_THE)
    total_TH1 = torch.empty((*query_THE.shape[:2], 1), dtype=rows.dtype, device=query_THE.device)
    return rows.back(mixed_BHLE, query_THE), rows.back(total_BHL1, total_TH1)[..., 0]


def backward(
    grad_THE: Tensor,
    query_THE: Tensor,
    key_THE: Tensor,
    value_THE: Tensor,
    mixed_THE: Tensor,
    total_TH: Tensor,
    tokens: Tokens,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the gradients of query, key and value from that of the answer: Dao et al. 2022, algorithm 4, untiled."""
    rows = _Rows(tokens, torch.promote_types(query_THE.dtype, torch.float32))
    query, key, value, grad, mixed = map(rows, (query_THE, key_THE, value_THE, grad_THE, mixed_THE))
    # Rows of padding count for nothing.
    grad = grad * rows.mask_BL[:, None, :, None]
    share_BHLL = (rows.scores(query, key) - rows(total_TH[..., None])).exp()
    change_BHLL = share_BHLL * (grad @ value.transpose(-1, -2) - (grad * mixed).sum(-1, keepdim=True))
    change_BHLL = change_BHLL / math.sqrt(query.shape[-1])
    return (
        rows.back(change_BHLL @ key, query_THE),
        rows.back(change_BHLL.transpose(-1, -2) @ query, key_THE),
        rows.back(share_BHLL.transpose(-1, -2) @ grad, value_THE),
    )
