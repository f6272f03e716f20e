"""Structural-response decoupling: what moves within a building after the building as a whole is taken off."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plumbline.prepare.robust import FREEDOM, student_fit

Float = NDArray[np.floating[Any]]
WEAK_TILT, WEAK_OFFSET = 1e3, 1e4
"""Standard deviations, mm/m and mm, of a prior so weak that it only keeps undetermined systems solvable."""


class Rigid(NamedTuple):
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
) -> Rigid:
    """Fit and remove settlement, sideways motion and two tilts, robustly.

    A body tilted by t along x lifts a point by `t x` and moves a point at height h sideways by `-t h` along x. Each
    track has an offset of its own, which holds its unknown reference and the building's mean motion.

    Args:
        xy: (b, P, 2) m. height: (b, P) m. los: (b, P, 3) along x, y, up.
        change, change_se: (b, P) mm along LOS.
        track: (b, P) index of the track. mask: (b, P) False where padding.
    """
    design = rigid_design(xy, height, los, track)
    weak = np.array([WEAK_TILT, WEAK_TILT, *[WEAK_OFFSET] * (design.shape[2] - 2)])
    fit = student_fit(design, change, change_se, mask, np.diag(1 / weak**2))
    largest = (FREEDOM + 1) / FREEDOM
    return Rigid(fit.residual, np.where(mask, fit.weight / largest, 0), fit.solution[:, :2], fit.spread)


def rigid_design(xy: Float, height: Float, los: Float, track: NDArray[np.intp]) -> Float:
    """(b, P, 2 + tracks) LOS response to unit tilts (1 mm/m) along x and y and to each track's offset (1 mm)."""
    tilt = los[..., 2:] * xy - los[..., :2] * height[..., None]
    offset = track[..., None] == np.arange(int(track.max(initial=0)) + 1)
    return np.concatenate([tilt, offset.astype(float)], axis=2)
