"""Fit the motion of a building as a whole, robustly."""

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


SCALE_TILT, SCALE_OFFSET = 1.0, 10.0
"""mm/m and mm: where scatterers cannot tell a tilt from an offset (all of them in one place), shares go by these."""
LEAST_SHARE = 1e-9
"""Directions of rigid motion that move scatterers less than this share of the strongest are none."""
WEAK = 1e6
"""Standard deviation, mm, of a prior so weak that it only keeps undetermined systems solvable."""


class RigidFit(NamedTuple):
    """Rigid motion of b buildings and the residuals, padded to P scatterers."""

    residual: Float
    """(b, P) mm along LOS; 0 where padding."""
    weight: Float
    """(b, P) robust weight between 0 and 1."""
    tilt: Float
    """(b, 2) tilt along x and y, mm/m; positive where the far end goes up."""
    spread: Float
    """(b,) standard deviation of the residuals beyond their stated errors, mm."""


def remove_rigid(
    xy: Float,
    height: Float,
    los: Float,
    change: Float,
    change_se: Float,
    track: NDArray[np.intp],
    mask: NDArray[np.bool_],
) -> RigidFit:
    """Fit and remove settlement, sideways motion and two tilts, robustly.

    A body tilted by t along x lifts a point by `t x` and moves a point at height h sideways by `-t h` along x. Each
    track has an offset of its own, which holds its unknown reference and the building's mean motion.

    Args:
        xy: (b, P, 2) m. height: (b, P) m. los: (b, P, 3) along x, y, up.
        change, change_se: (b, P) mm along LOS.
        track: (b, P) index of the track. mask: (b, P) False where padding.
    """
    scale = np.array([SCALE_TILT, SCALE_TILT] + [SCALE_OFFSET] * (int(track.max(initial=0)) + 1))
    design = rigid_design(xy, height, los, track) * scale * mask[..., None]
    # On an orthonormal basis of the rigid motions the fit is exact to rounding, wherever the scatterers are.
    basis, strength, turn = np.linalg.svd(design, full_matrices=False)
    real = strength > LEAST_SHARE * strength[:, :1]
    basis = basis * real[:, None, :]
    fit = student_fit(basis, change, change_se, mask, np.full(basis.shape[2], 1 / WEAK**2))
    inner = fit.solution * real / np.where(real, strength, 1)
    motion = (inner[:, None, :] @ turn)[:, 0] * scale
    largest = (FREEDOM + 1) / FREEDOM
    return RigidFit(fit.residual, np.where(mask, fit.weight / largest, 0), motion[:, :2], fit.spread)


def rigid_design(xy: Float, height: Float, los: Float, track: NDArray[np.intp]) -> Float:
    """Return the LOS response (b, P, 2 + tracks) to tilts (1 mm/m) along x and y and to each track's offset (1 mm)."""
    tilt = los[..., 2:] * xy - los[..., :2] * height[..., None]
    offset = track[..., None] == np.arange(int(track.max(initial=0)) + 1)
    return np.concatenate([tilt, offset.astype(float)], axis=2)


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
    """Fit up, its gradients and east in the neighbourhood of each scatterer by weighted least squares.

    North is taken as zero: the satellites hardly see it. Vertical and east are told apart where ascending and
    descending tracks are both near; elsewhere the standard error of east stays that of the prior.

    Args:
        xy: (b, P, 2) m. los: (b, P, 3) along x, y, up. east: (b, P) LOS response to 1 mm towards the east.
        residual: (b, P) mm along LOS after the rigid body. variance: (b, P) mm2. mask: (b, P).
    """
    weight = neighbourhood_weight(xy) * mask[:, None, :]
    up = los[..., 2]
    # The columns differ from place to place by the distance from it only, so their products are moments about the
    # centre of the building, moved to the place: sums over neighbours are one product of matrices.
    x, y = xy[..., 0], xy[..., 1]
    moments = np.stack(
        [
            up**2,
            up**2 * x,
            up**2 * y,
            up**2 * x**2,
            up**2 * x * y,
            up**2 * y**2,
            up * east,
            up * east * x,
            up * east * y,
            east**2,
            up * residual,
            up * residual * x,
            up * residual * y,
            east * residual,
        ],
        axis=2,
    )
    sums = np.moveaxis(weight @ (moments * (mask / variance)[..., None]), 2, 0)
    uu, uux, uuy, uuxx, uuxy, uuyy, ue, uex, uey, ee, ur, urx, ury, er = sums
    normal = np.empty((*x.shape, 4, 4))
    entries = (
        (uu, uux - x * uu, uuy - y * uu, ue),
        (uuxx - 2 * x * uux + x**2 * uu, uuxy - x * uuy - y * uux + x * y * uu, uex - x * ue),
        (uuyy - 2 * y * uuy + y**2 * uu, uey - y * ue),
        (ee,),
    )
    for i, row in enumerate(entries):
        for j, entry in enumerate(row, start=i):
            normal[..., i, j] = normal[..., j, i] = entry
    right = np.stack([ur, urx - x * ur, ury - y * ur, er], axis=-1)
    inverse = np.linalg.inv(normal + np.diag(1 / PRIOR_SD**2))
    estimate = (inverse @ right[..., None])[..., 0]
    error = np.sqrt(np.diagonal(inverse, axis1=2, axis2=3))
    return Local(np.where(mask[..., None], estimate, 0), np.where(mask[..., None], error, PRIOR_SD))


def neighbourhood_weight(xy: Float) -> Float:
    """Return the weight (b, P, P) of each scatterer in the neighbourhood of each."""
    square = (xy**2).sum(-1)
    apart = square[:, :, None] + square[:, None, :] - 2 * xy @ xy.transpose(0, 2, 1)
    return np.asarray(np.exp(apart / (-2 * REACH_M**2)))
