"""Separate damage from tilt by its course in time: part of a residual comes from a wrong position.

Scatterers are not where a product places them. On a building that tilts, a position wrong by metres
leaves a residual of millimetres, but one with the tilt's own course in time, while damage mostly
has another. So each scatterer's coordinates in time (`Courses`) are taken as the sum of three:
damage along one course of the dictionary, the tilt's course times an error of position, and noise.
The course and the size of the damage and the size of the position errors are estimated from all
scatterers of a building together, on a grid; the grid's points count by their likelihood (Bayesian
model averaging, Hoeting et al. 1999). Damage has heavy tails (a mixture of two normal
distributions, Tukey 1960): most of a building hardly moves while a corner may sink by 100 mm. With
one normal distribution positions wrong by tens of metres were likelier than that, and large steady
damage was lost (docs/decisions/0036).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plumbline.core.arrays import Float
from plumbline.prepare.response.rigid_body import RigidFit, rigid_design
from plumbline.prepare.series.temporal_basis import Courses, dictionary_courses
from plumbline.prepare.series.trend import LEAST_ERROR

ASTRAY_M = (0.0, 0.35, 1.0, 3.0, 10.0)
"""Standard deviations of position errors, m: times the tilt, this is their residual. Without a tilt
it is 0."""
DAMAGE_MM = (1.0, 3.0, 10.0)
"""Standard deviations of the damage of most scatterers of a building, mm."""
LARGE_SHARE, LARGE_RATIO = 0.1, 10.0
"""Share of a building's scatterers with larger damage, and the ratio of its standard deviation to
that of most."""
LEAST_WEIGHT = 0.05
"""Smallest robust weight of the rigid motion that is used, as for the local gradients."""
LIKELY_TILT, WEAK_OFFSET = 5.0, 1e4
"""Prior standard deviations of tilts, mm/m, and offsets, mm, on each shape: these keep undetermined
systems solvable."""
MAX_MISFIT = 60.0
"""Largest chi-square of one scatterer against a point of the grid."""
ROWS = 1024
"""Number of scatterers that are separated at a time: few enough for their arrays to stay in the
processor's cache."""


class Separated(NamedTuple):
    """(b, P) mm along LOS; 0 and 1 where padding."""

    damage: Float
    """Change without rigid motion and without the residual of wrong positions."""
    error: Float
    """Its standard error."""


def separate(
    xy: Float,
    height: Float,
    los: Float,
    *,
    track: NDArray[np.intp],
    mask: NDArray[np.bool_],
    rigid: RigidFit,
    error: Float,
    courses: Courses,
) -> Separated:
    """Return the damage of each scatterer; in a building with an unknown course, residual
    and error stay unchanged.

    Args:
        xy: (b, P, 2) m. height: (b, P) m. los: (b, P, 3). track: (b, P). mask: (b, P) False
            where padding.
        rigid: of these buildings. error: (b, P) standard errors of their changes, mm.
        courses: of (b, P) scatterers.
    """
    separated = Separated(np.where(mask, rigid.residual, 0), np.where(mask, error, 1.0))
    has_course = (np.isfinite(courses.course).all(-1) | ~mask).all(1)
    if not has_course.any():
        return separated
    xy, height, los, error = xy[has_course], height[has_course], los[has_course], error[has_course]
    track, mask = track[has_course], mask[has_course]
    trust = (
        np.maximum(rigid.weight[has_course], LEAST_WEIGHT)
        * error**2
        / (error**2 + rigid.spread[has_course, None] ** 2)
    )
    course = np.where(mask[..., None], courses.course[has_course], 0).astype(float)
    root = np.where(mask[..., None, None], courses.course_root[has_course], 0).astype(float)
    design = rigid_design(xy, height, los, track) * mask[..., None]
    information = root.transpose(0, 1, 3, 2) @ root
    motion = _rigid_course(design, course, information * trust[..., None, None])
    _, strength, turn = np.linalg.svd(motion[:, :2], full_matrices=False)
    # Residual of a position that is wrong by 1 m along the tilt: the dominant course of the tilt's
    # two components.
    per_metre = strength[:, :1] * turn[:, 0]
    residual = course - design @ motion
    size = max(1, ROWS // mask.shape[1])
    parts = [
        _average_damage(residual[at], per_metre[at], information[at], mask[at])
        for at in (slice(start, start + size) for start in range(0, len(mask), size))
    ]
    separated.damage[has_course], separated.error[has_course] = (
        np.concatenate(part) for part in zip(*parts, strict=True)
    )
    return separated


def _rigid_course(design: Float, course: Float, inner: Float) -> Float:
    """Fit the course (b, J, K) of each rigid motion: least squares of courses (b, P, K) on
    design (b, P, J), weighted by `inner` (b, P, K, K)."""
    buildings, points, motions = design.shape
    shapes = course.shape[2]
    pairs = (design[..., :, None] * design[..., None, :]).reshape(buildings, points, motions**2)
    normal = pairs.transpose(0, 2, 1) @ inner.reshape(buildings, points, shapes**2)
    normal = normal.reshape(buildings, motions, motions, shapes, shapes).transpose(0, 1, 3, 2, 4)
    normal = normal.reshape(buildings, motions * shapes, motions * shapes)
    prior = np.repeat([LIKELY_TILT] * 2 + [WEAK_OFFSET] * (motions - 2), shapes) ** -2.0
    at = np.arange(motions * shapes)
    normal[:, at, at] += prior + 1e-9 * normal[:, at, at].max(1, initial=0, keepdims=True)
    right = design.transpose(0, 2, 1) @ (inner @ course[..., None])[..., 0]
    solution = np.linalg.solve(normal, right.reshape(buildings, motions * shapes, 1))
    return np.asarray(solution.reshape(buildings, motions, shapes))


def _average_damage(
    residual: Float, per_metre: Float, information: Float, mask: NDArray[np.bool_]
) -> Separated:
    """Return mean and standard deviation of each scatterer's damage, over the points of the grid.

    In units of the noise, its covariance with what wrong positions add is the unit matrix and
    a product of one vector, whose inverse is known (Sherman and Morrison 1950), so that
    products of pairs are enough.

    Args:
        residual: (b, P, K) course beside rigid motion.
        per_metre: (b, K) residual of a position that is wrong by 1 m.
        information: (b, P, K, K) inverse covariance of each course. mask: (b, P).
    """
    curves = dictionary_courses()
    pairs = (curves[:, :, None] * curves[:, None, :]).reshape(len(curves), -1).T
    weighted = (information @ residual[..., None])[..., 0]
    astray = (information @ per_metre[:, None, :, None])[..., 0]
    square = (residual * weighted).sum(-1)
    across = (residual * astray).sum(-1)
    strength = (per_metre[:, None] * astray).sum(-1)
    along, shared = weighted @ curves.T, astray @ curves.T
    power = np.maximum(information.reshape(*mask.shape, -1) @ pairs, 1e-12)
    shared_2 = shared**2

    def amplitude(size: float) -> tuple[Float, Float, Float]:
        """Return for position error `size`: damage (b, P, G) times precision, precision, and
        the share (b, P) of the residual along the tilt that it explains."""
        lost = size**2 / (1 + size**2 * strength)
        precision = np.maximum(power - lost[..., None] * shared_2, 1e-9 * power)
        return along - (lost * across)[..., None] * shared, precision, lost

    log_weights = []
    for size in ASTRAY_M:
        product, precision, lost = amplitude(size)
        half_square, half_misfit = product**2 / 2, (square - lost * across**2)[..., None] / 2
        beside = (np.log1p(size**2 * strength) / 2 * mask).sum(1)[:, None]
        explained = {
            spread: half_square / (spread**-2 + precision) - np.log(1 + spread**2 * precision) / 2
            for spread in {*DAMAGE_MM, *(LARGE_RATIO * most_mm for most_mm in DAMAGE_MM)}
        }
        for most_mm in DAMAGE_MM:
            most = explained[most_mm] + np.log(1 - LARGE_SHARE)
            few = explained[LARGE_RATIO * most_mm] + np.log(LARGE_SHARE)
            # The logarithm of the sum of both likelihoods.
            beyond = np.exp(-np.abs(most - few))
            likelihood = np.maximum(most, few) + np.log(1 + beyond)
            likelihood = np.maximum(likelihood - half_misfit, -MAX_MISFIT / 2)
            log_weights.append(np.einsum("bpg,bp->bg", likelihood, mask) - beside)
    weight = np.array(log_weights).reshape(len(ASTRAY_M), len(DAMAGE_MM), len(mask), -1)
    weight = np.exp(weight - weight.max((0, 1, 3), keepdims=True))
    share = (weight / weight.sum((0, 1, 3), keepdims=True)).sum(1)

    # Mean and mean square over the grid give the variance: that within each point, and that between
    # them.
    mean, mean_square = np.zeros(mask.shape), np.zeros(mask.shape)
    for size, part in zip(ASTRAY_M, share, strict=True):
        product, precision, _ = amplitude(size)
        estimate_mm = product / precision
        mean += (estimate_mm @ part[..., None])[..., 0]
        mean_square += ((estimate_mm**2 + 1 / precision) @ part[..., None])[..., 0]
    error = np.sqrt(np.maximum(mean_square - mean**2, LEAST_ERROR**2))
    return Separated(np.where(mask, mean, 0), np.where(mask, error, 1.0))
