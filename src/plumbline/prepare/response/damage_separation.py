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
SPREADS_MM = np.array([1.0, 3.0, 10.0, 30.0, 100.0])
"""Standard deviations of damage, mm."""
MOST, FEW = np.s_[:3], np.s_[2:]
"""Places in `SPREADS_MM`: of the damage of most scatterers of a building, and of the larger damage
of a few beside each."""
LARGE_SHARE = 0.1
"""Share of a building's scatterers with the larger damage."""
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
    is_known = np.isfinite(courses.course).all(-1)
    has_course = (is_known | ~mask).all(1) & mask.any(1)
    rows, size = np.flatnonzero(has_course), max(1, ROWS // max(mask.shape[1], 1))
    for at in (rows[start : start + size] for start in range(0, len(rows), size)):
        real, error_2 = mask[at], error[at] ** 2
        trust = np.maximum(rigid.weight[at], LEAST_WEIGHT) * error_2
        trust /= error_2 + rigid.spread[at, None] ** 2
        course = np.where(real[..., None], courses.course[at], 0).astype(float)
        root = np.where(real[..., None, None], courses.course_root[at], 0).astype(float)
        design = rigid_design(xy[at], height[at], los[at], track[at]) * real[..., None]
        information = root.transpose(0, 1, 3, 2) @ root
        motion = _rigid_course(design, course, information * trust[..., None, None])
        # Residual of a position that is wrong by 1 m along the tilt: the dominant course of the
        # tilt's two components, which is their sum along the main axis of their products.
        along_x, along_y = motion[:, 0], motion[:, 1]
        axis = np.arctan2(2 * (along_x * along_y).sum(1), (along_x**2 - along_y**2).sum(1)) / 2
        per_metre = np.cos(axis)[:, None] * along_x + np.sin(axis)[:, None] * along_y
        building, point = np.nonzero(real)
        separated.damage[at[building], point], separated.error[at[building], point] = (
            _average_damage(course - design @ motion, per_metre, information, real)
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
) -> tuple[Float, Float]:
    """Return mean and standard deviation (N,) of each scatterer's damage, over the points of
    the grid.

    In units of the noise, its covariance with what wrong positions add is the unit matrix and
    a product of one vector, whose inverse is known (Sherman and Morrison 1950), so that
    products of pairs are enough. Only the N scatterers of `mask` are computed, by building;
    arrays over the G courses of the dictionary are (G, N).

    Args:
        residual: (b, P, K) course beside rigid motion.
        per_metre: (b, K) residual of a position that is wrong by 1 m.
        information: (b, P, K, K) inverse covariance of each course.
        mask: (b, P), a scatterer or more in each building.
    """
    curves, building = dictionary_courses(), np.nonzero(mask)[0]
    starts = np.flatnonzero(np.diff(building, prepend=-1))
    pairs = (curves[:, :, None] * curves[:, None, :]).reshape(len(curves), -1)
    residual, information, per_metre = residual[mask], information[mask], per_metre[building]
    weighted = (information @ residual[..., None])[..., 0]
    astray = (information @ per_metre[..., None])[..., 0]
    square = (residual * weighted).sum(-1)
    across = (residual * astray).sum(-1)
    strength = (per_metre * astray).sum(-1)
    along, shared = curves @ weighted.T, curves @ astray.T
    power = np.maximum(pairs @ information.reshape(len(information), -1).T, 1e-12)
    shared_2, least_precision = shared**2, 1e-9 * power

    log_weights, products, precisions = [], [], []
    larger = SPREADS_MM[FEW] / SPREADS_MM[MOST]
    # Memory that each point of the grid uses again: to allocate it takes as long as the work.
    variance, explained = np.empty((2, len(SPREADS_MM), *power.shape))
    likelihood = np.empty_like(explained[MOST])
    for size in ASTRAY_M:
        # What the position error takes from a square along the tilt, m2.
        lost = size**2 / (1 + size**2 * strength)
        precisions.append(np.maximum(power - lost * shared_2, least_precision))
        # The damage times its precision.
        products.append(along - (lost * across) * shared)
        half_square, half_misfit = products[-1] ** 2 / 2, (square - lost * across**2) / 2
        beside = np.add.reduceat(np.log1p(size**2 * strength) / 2, starts)
        # Variance of damage of each spread, given its course, and what it explains.
        np.add(precisions[-1], SPREADS_MM[:, None, None] ** -2.0, out=variance)
        np.divide(1, variance, out=variance)
        np.multiply(half_square, variance, out=explained)
        spread = np.sqrt(variance, out=variance)
        # The logarithm of the sum of both likelihoods. The larger spread explains more.
        np.subtract(explained[MOST], explained[FEW], out=likelihood)
        np.exp(likelihood, out=likelihood)
        likelihood *= spread[MOST]
        spread[FEW] *= (LARGE_SHARE / (1 - LARGE_SHARE) / larger)[:, None, None]
        likelihood += spread[FEW]
        np.log(likelihood, out=likelihood)
        likelihood += explained[FEW]
        likelihood -= half_misfit - np.log((1 - LARGE_SHARE) / SPREADS_MM[MOST, None, None])
        np.maximum(likelihood, -MAX_MISFIT / 2, out=likelihood)
        log_weights.append(np.add.reduceat(likelihood, starts, axis=2) - beside)
    weight = np.array(log_weights)
    weight = np.exp(weight - weight.max((0, 1, 2), keepdims=True))
    share = (weight / weight.sum((0, 1, 2), keepdims=True)).sum(1)

    # Mean and mean square over the grid give the variance: that within each point, and that between
    # them.
    mean, mean_square = np.zeros((2, len(building)))
    for product, precision, part in zip(products, precisions, share, strict=True):
        variance_mm2 = np.divide(1, precision, out=precision)
        estimate_mm = np.multiply(product, variance_mm2, out=product)
        of_point = part[:, building]
        mean += (estimate_mm * of_point).sum(0)
        estimate_mm **= 2
        estimate_mm += variance_mm2
        estimate_mm *= of_point
        mean_square += estimate_mm.sum(0)
    return mean, np.sqrt(np.maximum(mean_square - mean**2, LEAST_ERROR**2))
