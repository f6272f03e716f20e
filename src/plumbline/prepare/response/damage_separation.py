"""Separate damage from tilt by its course in time: part of a residual comes from a wrong position.

Scatterers do not lie where a product says. On a building that tilts, a position wrong by metres leaves a residual of
millimetres, but one with the tilt's own course in time, while damage mostly has another. So each scatterer's
coordinates in time (`Courses`) are taken as the sum of three: damage along one course of the dictionary, the tilt's
course times an error of position, and noise. Which course the damage has, how large it is and how far positions err
is asked of all scatterers of a building together, on a grid; answers count by their likelihood (Bayesian model
averaging, Hoeting et al. 1999). Damage has heavy tails (a mixture of two normal distributions, Tukey 1960): most of a
building hardly moves while a corner may sink by 100 mm. With one normal distribution positions wrong by tens of metres
were likelier than that, and large steady damage was lost (docs/decisions/0036).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plumbline.prepare.response.rigid_body import RigidFit, rigid_design
from plumbline.prepare.series.temporal_basis import Courses, dictionary_courses
from plumbline.prepare.series.trend import LEAST_ERROR

Float = NDArray[np.floating[Any]]
ASTRAY_M = (0.0, 0.35, 1.0, 3.0, 10.0)
"""Standard deviations of the positions' errors, m: times the tilt, what they leave. Without a tilt it is nothing."""
DAMAGE_MM = (1.0, 3.0, 10.0)
"""Standard deviations of damage, of most scatterers of a building."""
FEW, TIMES = 0.1, 10.0
"""So many of its scatterers have so many times that."""
LEAST_WEIGHT = 0.05
"""Of the rigid motion's robust weights, as for the local gradients."""
LIKELY_TILT, WEAK_OFFSET = 5.0, 1e4
"""mm/m and mm, on each shape: keeps undetermined systems solvable."""
MOST_MISFIT = 60.0
"""No scatterer says more than this, in chi-square, against an answer."""


class Separated(NamedTuple):
    """(b, P) mm along LOS; 0 and 1 where padding."""

    damage: Float
    """What is left of the change without rigid motion and without what wrong positions make of it."""
    error: Float
    """Its standard error."""


def separate(
    xy: Float,
    height: Float,
    los: Float,
    track: NDArray[np.intp],
    mask: NDArray[np.bool_],
    rigid: RigidFit,
    error: Float,
    courses: Courses,
) -> Separated:
    """Return the damage of each scatterer; in a building with an unknown course, residual and error stay unchanged.

    Args:
        xy: (b, P, 2) m. height: (b, P) m. los: (b, P, 3). track: (b, P). mask: (b, P) False where padding.
        rigid: of these buildings. error: (b, P) standard errors of their changes, mm.
        courses: of (b, P) scatterers.
    """
    plain = Separated(np.where(mask, rigid.residual, 0), np.where(mask, error, 1.0))
    told = (np.isfinite(courses.course).all(-1) | ~mask).all(1)
    if not told.any():
        return plain
    xy, height, los, error = xy[told], height[told], los[told], error[told]
    track, mask = track[told], mask[told]
    trust = np.maximum(rigid.weight[told], LEAST_WEIGHT) * error**2 / (error**2 + rigid.spread[told, None] ** 2)
    course = np.where(mask[..., None], courses.course[told], 0).astype(float)
    root = np.where(mask[..., None, None], courses.course_root[told], 0).astype(float)
    design = rigid_design(xy, height, los, track) * mask[..., None]
    motion = _rigid_course(design, course, root, trust)
    _, strength, turn = np.linalg.svd(motion[:, :2], full_matrices=False)
    per_metre = strength[:, :1] * turn[:, 0]
    left = root @ (course - design @ motion)[..., None]
    astray = root @ per_metre[:, None, :, None]
    found = _average(left[..., 0], astray[..., 0], root @ dictionary_courses().T, mask)
    plain.damage[told], plain.error[told] = found
    return plain


def _rigid_course(design: Float, course: Float, root: Float, trust: Float) -> Float:
    """Fit the course (b, J, K) of each rigid motion: weighted least squares of courses (b, P, K) on design (b, P, J).

    Each scatterer counts by the covariance of its course, times `trust` (b, P).
    """
    buildings, points, motions = design.shape
    shapes = course.shape[2]
    inner = root.transpose(0, 1, 3, 2) @ root * trust[..., None, None]
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


def _average(left: Float, astray: Float, damage: Float, mask: NDArray[np.bool_]) -> Separated:
    """Return mean and standard deviation of each scatterer's damage, over the answers of the grid.

    All vectors are in units of the noise: then its covariance with what wrong positions add is the unit matrix and a
    product of one vector, whose inverse is known (Sherman and Morrison 1950), so that products of pairs are enough.

    Args:
        left: (b, P, K) what rigid motion leaves. astray: (b, P, K) what a position wrong by 1 m leaves.
        damage: (b, P, K, G) the dictionary's. mask: (b, P).
    """
    square = (left**2).sum(-1)
    across = (left * astray).sum(-1)
    strength = (astray**2).sum(-1)
    along = (left[..., None, :] @ damage)[..., 0, :]
    shared = (astray[..., None, :] @ damage)[..., 0, :]
    own = np.maximum((damage**2).sum(-2), 1e-12)

    def amplitude(size: float) -> tuple[Float, Float, Float, Float]:
        """Return for position error `size`: damage (b, P, G) times precision, precision, misfit, log determinant."""
        lost = size**2 / (1 + size**2 * strength)
        precision = np.maximum(own - lost[..., None] * shared**2, 1e-9 * own)
        beside = np.log1p(size**2 * strength)
        return along - (lost * across)[..., None] * shared, precision, square - lost * across**2, beside

    likely = []
    for size in ASTRAY_M:
        product, precision, misfit, beside = amplitude(size)
        for usual in DAMAGE_MM:
            most, few = (
                product**2 / (spread**-2 + precision) - np.log1p(spread**2 * precision)
                for spread in (usual, TIMES * usual)
            )
            explained = np.logaddexp(np.log(1 - FEW) + most / 2, np.log(FEW) + few / 2)
            each = np.maximum(explained - misfit[..., None] / 2, -MOST_MISFIT / 2) - beside[..., None] / 2
            likely.append((each * mask[..., None]).sum(1))
    weight = np.array(likely).reshape(len(ASTRAY_M), len(DAMAGE_MM), len(mask), -1)
    weight = np.exp(weight - weight.max((0, 1, 3), keepdims=True))
    share = (weight / weight.sum((0, 1, 3), keepdims=True)).sum(1)

    mean, mean_square = np.zeros(mask.shape), np.zeros(mask.shape)
    for size, part in zip(ASTRAY_M, share, strict=True):
        product, precision, _, _ = amplitude(size)
        found = product / precision
        mean += (found @ part[..., None])[..., 0]
        mean_square += ((found**2 + 1 / precision) @ part[..., None])[..., 0]
    error = np.sqrt(np.maximum(mean_square - mean**2, LEAST_ERROR**2))
    return Separated(np.where(mask, mean, 0), np.where(mask, error, 1.0))
