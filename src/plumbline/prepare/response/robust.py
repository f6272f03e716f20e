"""Solve thousands of small least-squares systems at once, robust to outliers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.floating[Any]]
FREEDOM = 4.0
"""Degrees of freedom of the assumed Student t distribution of the errors (Lange, Little and Taylor 1989). The first
`START` iterations take 1 and the stated errors alone: otherwise a corner that broke off as one piece would widen the
spread before it is let go, and the plane would settle between both."""
START, ITERATIONS = 4, 10
LEAST_SPREAD = 0.05
"""mm; keeps the weights finite where a few points fit perfectly."""
BLOCK = 1 << 15
"""Values times fits worked on at a time: few enough for their arrays to stay in the processor's cache."""


class Fit(NamedTuple):
    """Fits of b systems with P values and K parameters; of several fits a system, with an axis F after b."""

    solution: Float
    """(b, K)"""
    residual: Float
    """(b, P); 0 outside of the mask."""
    weight: Float
    """(b, P) above 1 for values that fit, towards 0 for outliers."""
    spread: Float
    """(b,) scale of the errors beyond their stated ones; of normal errors, about 0.8 of the standard deviation."""
    last_precision: Float
    """(b,) inverse variance of the last parameter, whatever the others are."""


def student_fit(design: Float, values: Float, error: Float, mask: NDArray[np.bool_], prior: Float) -> Fit:
    """Fit the most likely parameters under Student's t errors, by iteratively reweighted least squares.

    Args:
        design: (b, P, K). values: (b, P). error: (b, P) stated standard errors. mask: (b, P).
        prior: (K,) or (b, K) inverse variances of the parameters before looking.
    """
    shared, own = design[..., :-1], design[..., -1][:, None, :]
    each = np.broadcast_to(prior, (len(values), design.shape[2]))[:, None, :]
    fit = student_fits(shared, own, values, error, mask, each)
    return Fit(*(part[:, 0] for part in fit))


def student_fits(shared: Float, own: Float, values: Float, error: Float, mask: NDArray[np.bool_], prior: Float) -> Fit:
    """Fit each system F times with one different column; the shared part is computed once.

    Args:
        shared: (b, P, K - 1) columns of all fits. own: (b, F, P) the last column of each.
        values, error, mask: (b, P). prior: (b, F, K) inverse variances of the parameters before looking.
    """
    size = max(1, BLOCK // max(own[0].size, 1)) if len(own) else 1
    blocks = [slice(start, start + size) for start in range(0, len(values), size)] or [slice(0, 0)]
    parts = [_fits(shared[at], own[at], values[at], error[at], mask[at], prior[at]) for at in blocks]
    return Fit(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def _fits(shared: Float, own: Float, values: Float, error: Float, mask: NDArray[np.bool_], prior: Float) -> Fit:
    columns = shared.shape[2]
    lower = np.tril_indices(columns)
    shared = shared * mask[..., None]
    products = np.concatenate([shared[..., lower[0]] * shared[..., lower[1]], shared * values[..., None]], axis=2)
    beside = np.concatenate([shared, (values * mask)[..., None]], axis=2)
    own = own * mask[:, None, :]
    count = np.maximum(mask.sum(1), 1)[:, None]
    # Systems are solved together: a column that only others need, of a track for one, takes no freedom from this one.
    needed = (shared != 0).any(1).sum(1)[:, None] + (own != 0).any(2)
    freedom = np.maximum(count - needed + 1, 1)
    known, held = mask[:, None, :].astype(float), (values * mask)[:, None, :]
    given = np.where(mask, error**2, 1.0)[:, None, :]

    spread, weight = np.full(own.shape[:2], 0.5), np.ones(own.shape)
    normal = np.empty((columns + 1, columns + 1, *own.shape[:2]))
    right = np.empty((columns + 1, *own.shape[:2]))
    diagonal = np.arange(columns + 1)
    for step in range(ITERATIONS):
        variance = given + (spread**2)[..., None]
        scaled = weight * known / variance
        sums = np.moveaxis(scaled @ products, 2, 0)
        lever = scaled * own
        across = np.moveaxis(lever @ beside, 2, 0)
        normal[lower] = sums[: len(lower[0])]
        normal[lower[1], lower[0]] = sums[: len(lower[0])]
        normal[-1, :-1] = normal[:-1, -1] = across[:-1]
        normal[-1, -1] = np.einsum("bfp,bfp->bf", lever, own)
        normal[diagonal, diagonal] += np.moveaxis(prior, 2, 0)
        right[:-1], right[-1] = sums[len(lower[0]) :], across[-1]
        solution, last = _solve(normal, right)
        residual = held - np.moveaxis(solution[:-1], 0, 2) @ shared.transpose(0, 2, 1) - solution[-1][..., None] * own
        square = residual**2
        if step < START:
            weight = 2 / (1 + square / variance)
            continue
        weight = (FREEDOM + 1) / (FREEDOM + square / variance)
        # Each value counts as far as it could tell: one with a large error of its own says little of the others'.
        share = known / variance**2
        seen = np.einsum("bfp,bfp->bf", share, weight * square) * (count / freedom)
        beyond = (seen - np.einsum("bfp,bfp->bf", share, given)) / np.maximum(share.sum(2), 1e-300)
        spread = np.sqrt(np.maximum(beyond, LEAST_SPREAD**2))
    return Fit(np.moveaxis(solution, 0, 2), residual, weight, spread, last)


def _solve(normal: Float, right: Float) -> tuple[Float, Float]:
    """Solve positive definite systems (K, K, ...), overwriting them; return solutions (K, ...) and last pivots.

    Elimination step by step over all systems: for matrices this small, much faster than one call a matrix.
    """
    count = len(right)
    for i in range(count - 1):
        factor = normal[i + 1 :, i] / normal[i, i]
        normal[i + 1 :, i + 1 :] -= factor[:, None] * normal[i, i + 1 :][None]
        right[i + 1 :] -= factor * right[i]
    solution = np.empty_like(right)
    for i in range(count - 1, -1, -1):
        known = (normal[i, i + 1 :] * solution[i + 1 :]).sum(0)
        solution[i] = (right[i] - known) / normal[i, i]
    return solution, normal[-1, -1].copy()


def misfit(residual: Float, variance: Float, mask: NDArray[np.bool_]) -> Float:
    """Return the negative log likelihood (...) of residuals (..., P) under the same distribution, up to a constant."""
    scaled = residual**2 / (FREEDOM * variance)
    return np.asarray(((FREEDOM + 1) / 2 * np.log1p(scaled) * mask).sum(-1), float)
