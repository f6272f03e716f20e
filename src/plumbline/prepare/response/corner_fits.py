"""Fits of one broken corner at a time: what the engineer's least squares would say of each quadrant.

Each corner is fitted together with what rigid motion the robust plane may have left, by three shapes: the product
of the distances from the centre lines, a hinge that starts nearer to the corner, and one across the diagonal. Each of
them straight down, and also away from the building by some share of the drop: what stretches strains more than it
drops. The first shape straight down is the engineer's answer; all together, weighted by how well they explain the
scatterers (Laplace's approximation of the evidence, MacKay 1992), are what the network is told.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plumbline.core.strain import bay_length, principal_tensile_strain
from plumbline.prepare.response.rigid_body import rigid_design
from plumbline.prepare.response.robust import Fit, misfit, student_fit, student_fits

Float = NDArray[np.floating[Any]]
Array = NDArray[np.float64]
SIGNS = np.array([(1, 1), (-1, 1), (-1, -1), (1, -1)])
"""Signs of x and y in the quadrants, in the order of `compass.QUADRANTS`."""
LIKELY_PERMILLE = 2.0
"""Standard deviation of a corner's strain before looking. Without it, three scatterers near the middle of a house would
tell of corners that dropped by metres (ridge regression, Hoerl and Kennard 1970)."""
LATTICE_M = 1.0
"""Largest step of the lattice that the label takes the plane off on."""
LIKELY_TILT, WEAK_OFFSET = 3.0, 1e4
"""mm/m and mm: of the rigid motion that the robust plane may have left."""


def _ramp(towards: Float, start: float) -> Float:
    return np.asarray(np.clip((towards - start) / (1 - start), 0, 1.5))


SHAPES: tuple[Callable[[Float], Float], ...] = (
    lambda towards: np.asarray(_ramp(towards, 0.0).prod(-1)),
    lambda towards: np.asarray(_ramp(towards, 0.4).prod(-1)),
    lambda towards: np.asarray(np.clip(towards.sum(-1) - 0.6, 0, 2.2) / 1.4),
)
"""Shapes of a unit drop: (..., 2) relative distances from the centre towards the corner -> (...)."""

PULLS = {0.0: 0.6, 0.4: 0.25, 0.9: 0.15}
"""How far a corner that drops also moves away along the diagonal of the building's frame, as a share of the drop; and
how probable that is before looking."""
WAYS = [(shape, pull) for pull in PULLS for shape in range(len(SHAPES))]
"""What a corner may do; the first is the engineer's."""
LOG_PRIOR = np.log([PULLS[pull] / len(SHAPES) for _, pull in WAYS])


class Corners(NamedTuple):
    """(b, 4) fits of each corner, in the order of `compass.QUADRANTS`."""

    drop: Float
    """Vertical movement of the corner by the first shape, mm."""
    drop_se: Float
    """Its standard error, mm."""
    gain: Float
    """How much likelier the first shape makes the scatterers than no damage does (log likelihood ratio)."""
    severity: Float
    """Strain of the first shape's fit by the label definition, permille."""
    log_odds: Float
    """Log probability of each corner, given that one is broken, over all of `WAYS`."""
    expected_severity: Float
    """Strain averaged over them by their evidence, permille."""


def corner_shape(xy: Float, side: Float, shape: int = 0) -> Float:
    """(b, P, 4) vertical movement of scatterers for a unit drop of each corner.

    Args:
        xy: (b, P, 2) m from the centre. side: (b, 2) m. shape: index into `SHAPES`.
    """
    relative = 2 * xy / side[:, None, :]
    return SHAPES[shape](relative[:, :, None, :] * SIGNS)


def fit_corners(
    xy: Float,
    height: Float,
    los: Float,
    residual: Float,
    error: Float,
    track: NDArray[np.intp],
    mask: NDArray[np.bool_],
    side: Float,
) -> Corners:
    """Robust least squares of each corner's ways together with the rigid motion, on what the robust plane left.

    Args:
        xy: (b, P, 2). height: (b, P). los: (b, P, 3). residual, error: (b, P) mm along LOS.
        track: (b, P). mask: (b, P). side: (b, 2) m.
    """
    rigid = rigid_design(xy, height, los, track)
    likely = np.array([LIKELY_TILT, LIKELY_TILT, *[WEAK_OFFSET] * (rigid.shape[2] - 2)]) ** -2
    undamaged = student_fit(rigid, residual, error, mask, likely)
    variance = error**2 + (undamaged.spread**2)[:, None]
    nothing = _badness(undamaged, variance, mask, likely)

    ways = len(WAYS)
    per_mm = np.stack([_strain_per_mm(side, *way) for way in WAYS], axis=1)
    away = (los[..., None, :2] * SIGNS).sum(-1) / np.sqrt(2)
    response = np.stack(
        [corner_shape(xy, side, shape) * (los[..., 2, None] - pull * away) for shape, pull in WAYS], axis=-1
    )
    prior = np.empty((len(xy), 4 * ways, len(likely) + 1))
    prior[..., :-1], prior[..., -1] = likely, np.tile((per_mm / LIKELY_PERMILLE) ** 2, 4)
    own = np.ascontiguousarray(np.moveaxis(response.reshape(*mask.shape, 4 * ways), 1, 2))
    fit = student_fits(rigid, own, residual, error, mask, prior)
    apart = (len(xy), 4, ways)
    drop: Float = fit.solution[..., -1].reshape(apart)
    badness = _badness(fit, variance[:, None, :], mask[:, None, :], prior)
    evidence = (-badness - np.log(fit.last_precision / prior[..., -1]) / 2).reshape(apart) + LOG_PRIOR
    badness = badness.reshape(apart)

    severity = np.abs(drop) * per_mm[:, None, :]
    share = np.exp(evidence - evidence.max((1, 2), keepdims=True))
    corner_share = share.sum(2)
    return Corners(
        drop=drop[..., 0],
        drop_se=1 / np.sqrt(fit.last_precision.reshape(apart)[..., 0]),
        gain=nothing[:, None] - badness[..., 0],
        severity=severity[..., 0],
        log_odds=np.log(np.maximum(corner_share / corner_share.sum(1, keepdims=True), 1e-6)),
        # A corner that explains nothing has no shape that explains it best: then all count the same.
        expected_severity=((share + 1e-12) * severity).sum(2) / (share + 1e-12).sum(2),
    )


def _badness(fit: Fit, variance: Float, mask: NDArray[np.bool_], prior: Float) -> Float:
    """Negative log posterior of each fit, up to a constant that all fits of a building share."""
    return np.asarray(misfit(fit.residual, variance, mask) + (prior * fit.solution**2).sum(-1) / 2)


def _strain_per_mm(side: Float, shape: int, pull: float) -> Float:
    # To 0.5 m, so that a city asks for few different pairs; the strain of a shape hardly changes in between.
    rounded = np.maximum(np.round(2 * side) / 2, 0.5)
    return np.array([strain_per_mm(*pair, shape, pull) for pair in np.sort(rounded, axis=1).tolist()])


@lru_cache(maxsize=65536)
def strain_per_mm(side_x: float, side_y: float, shape: int = 0, pull: float = 0.0) -> float:
    """Severity in permille of a unit drop (1 mm) of a corner on a building with these sides, m.

    It is what `structure_strain` says, from few bays: every shape is convex and level beyond the centre, so the
    steepest bay of an axis is the outermost on the edge, and on the level ones the tilt that is taken off acts alone.
    """
    (x, weight_x), (y, weight_y) = _lattice(side_x), _lattice(side_y)
    up = SHAPES[shape](np.stack(np.broadcast_arrays(x[:, None], y), axis=-1))
    tilt_x = (weight_x * x) @ (up @ weight_y) / (weight_x @ x**2) / (side_x / 2)
    tilt_y = (weight_x @ up) @ (weight_y * y) / (weight_y @ y**2) / (side_y / 2)
    bay_x, bay_y = bay_length(side_x), bay_length(side_y)
    end, before_x, before_y = SHAPES[shape](
        np.array([[1, 1], [1 - 2 * bay_x / side_x, 1], [1, 1 - 2 * bay_y / side_y]])
    )
    rise, tilt = np.array([(end - before_x) / bay_x, (end - before_y) / bay_y]), np.array([tilt_x, tilt_y])
    stretched = principal_tensile_strain(rise - tilt, pull / np.sqrt(2) * rise)
    return float(max(stretched.max(), principal_tensile_strain(tilt, 0.0).max()))


@lru_cache(maxsize=4096)
def _lattice(side: float) -> tuple[Array, Array]:
    """Places along a side, from -1 to 1, that the label takes the plane off on, and their weights, with sum 1."""
    places = np.linspace(-1, 1, max(2, int(np.ceil(side / LATTICE_M - 1e-9))) + 1)
    weight = np.ones(len(places))
    weight[[0, -1]] = 0.5
    return places, weight / weight.sum()
