"""Local vertical and horizontal movement and its gradient around each scatterer, with standard errors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.floating[Any]]
REACH_M = 4.0
"""Standard deviation of the neighbourhood's weight: the length of a bay of the label."""
PRIOR_SD = np.array([20.0, 2.0, 2.0, 3.0])
"""What is likely before looking: up (mm), gradients (mm/m), east (mm). A building seen from one side, or with few
scatterers, then answers with the prior and its wide standard error instead of nonsense."""


class Local(NamedTuple):
    """(b, P, 4) estimates and standard errors: up (mm), its gradient along x and y (mm/m), east (mm)."""

    estimate: Float
    standard_error: Float


def local_motion(
    xy: Float, los: Float, east: Float, residual: Float, variance: Float, mask: NDArray[np.bool_]
) -> Local:
    """Weighted least squares of up, its gradients and east in the neighbourhood of each scatterer.

    North is taken as zero: the satellites hardly see it. Vertical and east are told apart where ascending and
    descending tracks are both near; elsewhere the standard error of east stays that of the prior.

    Args:
        xy: (b, P, 2) m. los: (b, P, 3) along x, y, up. east: (b, P) LOS response to 1 mm towards the east.
        residual: (b, P) mm along LOS after the rigid body. variance: (b, P) mm2. mask: (b, P).
    """
    apart = xy[:, None, :, :] - xy[:, :, None, :]
    near = np.exp(-(apart**2).sum(-1) / (2 * REACH_M**2))
    weight = near * (mask / variance)[:, None, :]
    up = los[:, None, :, 2] * np.ones_like(near)
    columns = (up, up * apart[..., 0], up * apart[..., 1], east[:, None, :] * np.ones_like(near))
    normal = np.empty((*near.shape[:2], 4, 4))
    right = np.empty((*near.shape[:2], 4))
    for i, left_column in enumerate(columns):
        weighted = weight * left_column
        right[..., i] = (weighted * residual[:, None, :]).sum(-1)
        for j in range(i + 1):
            normal[..., i, j] = normal[..., j, i] = (weighted * columns[j]).sum(-1)
    inverse = np.linalg.inv(normal + np.diag(1 / PRIOR_SD**2))
    estimate = np.einsum("bpij,bpj->bpi", inverse, right)
    error = np.sqrt(np.einsum("bpii->bpi", inverse))
    return Local(np.where(mask[..., None], estimate, 0), np.where(mask[..., None], error, PRIOR_SD))
