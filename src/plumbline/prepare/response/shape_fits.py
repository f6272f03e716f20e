"""Fit one shape of damage at a time, and weigh how well each explains the scatterers.

Each is fitted together with what rigid motion the robust plane may have left. The likeliest shape without a guess of
sideways motion is the engineer's answer. All together, weighted by their evidence (Laplace's approximation, MacKay
1992), are what the network is told: of each quadrant how probable it is and how strained, of each mechanism likewise.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from plumbline.core.strain import FAILURES
from plumbline.prepare.response.rigid_body import rigid_design
from plumbline.prepare.response.robust import Fit, misfit, student_fit, student_fits
from plumbline.prepare.response.shapes import (
    CORNER,
    LOG_PRIOR,
    MECHANISM,
    PLAIN,
    accepted,
    responses,
    strains_per_mm,
)

Float = NDArray[np.floating[Any]]
LIKELY_PERMILLE = 2.0
"""Standard deviation of a shape's strain before looking. Without it, three scatterers near the middle of a house would
tell of corners that dropped by metres (ridge regression, Hoerl and Kennard 1970)."""
LIKELY_TILT, WEAK_OFFSET = 3.0, 1e4
"""mm/m and mm: of the rigid motion that the robust plane may have left."""
WARY = 4.0
LEAST_SHARE = 1e-6
"""Probability that is not looked below."""


class ShapeFits(NamedTuple):
    """Evidence of damage from the scatterers of b buildings; quadrants in the order of `compass.QUADRANTS`."""

    corner_drop: Float
    """(b, 4) vertical movement of each corner by its first shape, mm."""
    corner_log_odds: Float
    """(b, 4) log probability of each corner, given that one is broken, over all its shapes."""
    corner_severity: Float
    """(b, 4) strain averaged over them by their evidence, permille."""
    best_gain: Float
    """(b, 4) how much more probable the best plain shape that strains no quadrant much more than this one is than no
    damage (log odds)."""
    best_severity: Float
    """(b, 4) strain of that fit by the label definition, permille."""
    log_odds: Float
    """(b, 4) log probability of each quadrant, given that there is damage, over all shapes."""
    wary_log_odds: Float
    """(b, 4) the same if the scatterers told but a `WARY` part of what they seem to: no shape is quite the true one."""
    end_log_odds: Float
    """(b, 4) the same as `log_odds`, over ends alone."""
    step_log_odds: Float
    bowl_log_odds: Float
    bending_log_odds: Float
    severity: Float
    """(b, 4) largest strain in each quadrant, averaged over all shapes by their evidence, permille."""
    mechanism_gain: Float
    """(b, 5) log of how much more probable each mechanism makes the scatterers than no damage does."""
    mechanism_severity: Float
    """(b, 5) strain averaged over its shapes by their evidence, permille."""


def fit_shapes(
    xy: Float,
    height: Float,
    los: Float,
    residual: Float,
    error: Float,
    track: NDArray[np.intp],
    mask: NDArray[np.bool_],
    side: Float,
) -> ShapeFits:
    """Fit each shape together with the rigid motion, robustly, to the residuals of the robust plane.

    Args:
        xy: (b, P, 2). height: (b, P). los: (b, P, 3). residual, error: (b, P) mm along LOS.
        track: (b, P). mask: (b, P). side: (b, 2) m.
    """
    rigid = rigid_design(xy, height, los, track)
    likely = np.array([LIKELY_TILT, LIKELY_TILT, *[WEAK_OFFSET] * (rigid.shape[2] - 2)]) ** -2
    undamaged = student_fit(rigid, residual, error, mask, likely)
    variance = error**2 + (undamaged.spread**2)[:, None]
    nothing = _badness(undamaged, variance, mask, likely)

    by_quadrant = strains_per_mm(side)
    per_mm = by_quadrant.max(2)
    prior = np.empty((*per_mm.shape, len(likely) + 1))
    prior[..., :-1], prior[..., -1] = likely, (per_mm / LIKELY_PERMILLE) ** 2
    fit = student_fits(rigid, responses(xy, los, side), residual, error, mask, prior)
    drop = fit.solution[..., -1]
    badness = _badness(fit, variance[:, None, :], mask[:, None, :], prior)
    evidence = nothing[:, None] - badness - np.log(fit.last_precision / prior[..., -1]) / 2 + LOG_PRIOR
    severity = np.abs(drop) * per_mm

    right = accepted(by_quadrant)
    right = right / right.sum(2, keepdims=True)
    share = softmax(evidence, axis=1)
    corner = MECHANISM == CORNER
    of_corner = softmax(evidence[:, corner], axis=1).reshape(len(xy), 4, -1)
    corner_share = of_corner.sum(2)
    own = [number == MECHANISM for number in range(len(FAILURES))]
    # Of the quadrants that a shape strains alike, the one that it strains most.
    worst = np.log(np.maximum(by_quadrant[:, PLAIN], 1e-9) / per_mm[:, PLAIN, None])
    plain = np.where(right[:, PLAIN], evidence[:, PLAIN, None] + worst, -np.inf)
    best = plain.argmax(1)
    return ShapeFits(
        corner_drop=drop[:, corner].reshape(len(xy), 4, -1)[..., 0],
        corner_log_odds=np.log(np.maximum(corner_share, LEAST_SHARE)),
        # A corner that explains nothing has no shape that explains it best: then all count the same.
        corner_severity=_average(severity[:, corner].reshape(len(xy), 4, -1), of_corner),
        best_gain=np.where(np.isfinite(found := np.take_along_axis(plain, best[:, None], 1)[:, 0]), found, 0.0),
        best_severity=np.where(np.isfinite(found), np.take_along_axis(severity[:, PLAIN], best, 1), 0.0),
        log_odds=_log_odds(share, right),
        wary_log_odds=_log_odds(softmax(evidence / WARY, axis=1), right),
        **{
            f"{FAILURES[number]}_log_odds": _log_odds(softmax(evidence[:, own[number]], axis=1), right[:, own[number]])
            for number in range(1, len(FAILURES))
        },
        severity=np.einsum("bs,bs,bsq->bq", share, np.abs(drop), by_quadrant),
        mechanism_gain=np.stack([logsumexp(evidence[:, these], axis=1) for these in own], axis=1),
        mechanism_severity=np.stack(
            [_average(severity[:, these], softmax(evidence[:, these], axis=1)) for these in own], axis=1
        ),
    )


def _log_odds(share: Float, right: Float) -> Float:
    """Return the quadrants' log probability (b, 4) from shapes (b, S) and the quadrants they strain most (b, S, 4)."""
    return np.asarray(np.log(np.maximum(np.einsum("bs,bsq->bq", share, right), LEAST_SHARE)))


def _average(values: Float, share: Float) -> Float:
    return np.asarray(((share + 1e-12) * values).sum(-1) / (share + 1e-12).sum(-1))


def _badness(fit: Fit, variance: Float, mask: NDArray[np.bool_], prior: Float) -> Float:
    """Return the negative log posterior of each fit, up to a constant that all fits of a building share."""
    return np.asarray(misfit(fit.residual, variance, mask) + (prior * fit.solution**2).sum(-1) / 2)
