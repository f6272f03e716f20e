"""Decouple structural response: subtract a building's motion as a whole, and fit the motion around each scatterer."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plumbline.prepare.response.robust import FREEDOM, student_fit

Float = NDArray[np.floating[Any]]
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
