"""Structural-response decoupling: what moves within a building after the building as a whole is taken off."""

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
    """The rigid motion of b buildings and what it leaves, padded to P scatterers."""

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
    """(b, P, 2 + tracks) LOS response to unit tilts (1 mm/m) along x and y and to each track's offset (1 mm)."""
    tilt = los[..., 2:] * xy - los[..., :2] * height[..., None]
    offset = track[..., None] == np.arange(int(track.max(initial=0)) + 1)
    return np.concatenate([tilt, offset.astype(float)], axis=2)
