"""Bound how well the points of a building can determine its strain: the Cramer-Rao bound.

It follows from the number, places, directions and standard errors of the points, beside the rigid
motion, for a known shape of damage (linear model, Kay 1993, Fundamentals of Statistical Signal
Processing: Estimation Theory, section 4). Wrong positions and unknown shapes add to the error.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from plumbline.core.arrays import Float
from plumbline.prepare.response.shapes import (
    ALL,
    CORNER,
    ShapeProfiles,
    displacement,
    strains_per_mm,
)

RESOLVED = 2.93
"""Standard errors of the smallest strain that points could show: found in 9 of 10 cases,
with 1 false alarm in 20 (minimal detectable bias, Baarda 1968, A testing procedure for use
in geodetic networks): 1.645 and 1.282."""
CORNERS = tuple(
    number
    for number, shape in enumerate(ALL)
    if shape.mechanism == CORNER and not shape.form and not shape.pull
)
"""Numbers of one shape for each corner, which drops straight down: they represent the mechanisms
(docs/accuracy.md)."""
UNSEEN_PERMILLE = 20.0
"""Bound, permille, from which on points show nothing of a strain."""


def strain_bounds(
    xy: Float,
    los: Float,
    *,
    error: Float,
    rigid: Float,
    mask: NDArray[np.bool_],
    side: Float,
    shapes: tuple[int, ...] = CORNERS,
) -> Float:
    """Return the bound (b, S) on the standard error of each shape's strain, permille.

    It is infinite without information.

    Args:
        xy: (b, P, 2) m. los: (b, P, 3) along x, y, up. error: (b, P) mm. rigid: (b, P, J)
            see `rigid_design`.
        mask: (b, P) False where padding, which may hold anything. side: (b, 2) m. shapes: S
            of `shapes.ALL`.
    """
    if not len(xy):
        return np.empty((0, len(shapes)))
    weight = mask / np.where(mask, error, 1.0) ** 2
    xy, los, rigid = (np.where(mask[..., None], values, 0.0) for values in (xy, los, rigid))
    inner = np.linalg.pinv((rigid * weight[..., None]).transpose(0, 2, 1) @ rigid, hermitian=True)
    per_mm = strains_per_mm(side)[:, list(shapes)].max(2)
    bound, profiles = np.empty(per_mm.shape), ShapeProfiles(xy[..., 0], xy[..., 1], side)
    for column, number in enumerate(shapes):
        up, (way_x, way_y) = displacement(ALL[number], profiles)
        aside = (los[..., 0] * way_x + los[..., 1] * way_y) * ALL[number].pull
        response = up * (los[..., 2] - aside)
        across = ((weight * response)[:, None, :] @ rigid)[:, 0]
        # Fisher information of the shape's size after the rigid motion is projected out (Schur
        # complement).
        information = (weight * response**2).sum(1) - (
            (across[:, None, :] @ inner)[:, 0] * across
        ).sum(1)
        bound[:, column] = per_mm[:, column] / np.sqrt(np.maximum(information, 1e-12))
    return np.where(bound < UNSEEN_PERMILLE, bound, np.inf)


def strain_resolution(
    xy: Float, los: Float, *, error: Float, rigid: Float, mask: NDArray[np.bool_], side: Float
) -> Float:
    """Return the smallest strain (b,), permille, that the points could show of a corner,
    whichever; NaN: none.

    Arguments as of `strain_bounds`.
    """
    resolution = RESOLVED * np.median(
        strain_bounds(xy, los, error=error, rigid=rigid, mask=mask, side=side), axis=1
    )
    return np.where(np.isfinite(resolution), resolution, np.nan)
