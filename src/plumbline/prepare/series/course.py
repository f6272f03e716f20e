"""The course of each scatterer in time: its history in the few shapes that courses of buildings are made of.

All curves of the dictionary lie close to a space of few dimensions, beyond an offset. A history is therefore known by
its few coordinates there, whichever curve it follows, or whichever mixture of two: of its building's tilt and of a
damage that began later.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plumbline.prepare.series.noise_part import trusted
from plumbline.prepare.series.temporal_basis import RIDGE, SEASON, Basis, curves

Float = NDArray[np.floating[Any]]
SHAPES = 4
"""K; so many hold 99.9 % of the dictionary's variance."""
GRID = np.linspace(0, 1, 401)
"""Times at which shapes are tabulated."""


class Courses(NamedTuple):
    """Courses of N scatterers."""

    course: Float
    """(N, K) mm: coordinates on the shapes; NaN where they are not known."""
    course_root: Float
    """(N, K, K) 1/mm: R such that R' R is the inverse of the coordinates' covariance."""


class CourseBasis(NamedTuple):
    """Samples of offset, annual term and shapes, and the products that normal matrices need."""

    columns: Float
    """(3 + K, T)"""
    products: Float
    """(T, (3 + K) (4 + K) / 2) of pairs of columns."""


def unknown_courses(count: int) -> Courses:
    """Of `count` scatterers without a history."""
    unknown = np.full((count, SHAPES), np.nan, dtype=np.float32)
    return Courses(unknown, np.zeros((count, SHAPES, SHAPES), dtype=np.float32))


@lru_cache(maxsize=1)
def _shapes() -> tuple[Float, Float]:
    """(K, grid) shapes, orthogonal, of mean 0 and mean square 1; (curves, K) the dictionary's coordinates on them.

    The first is the line, for most of a large movement is one, and little of it must be lost; the others are the
    principal shapes of what is left of the dictionary.
    """
    dictionary = curves(GRID)
    centred = dictionary - dictionary.mean(1, keepdims=True)
    line = centred[:1] / np.linalg.norm(centred[0])
    bent = np.linalg.svd(centred - centred @ line.T * line, full_matrices=False)[2][: SHAPES - 1]
    shapes = np.concatenate([line, bent]) * np.sqrt(len(GRID))
    return shapes, centred @ shapes.T / len(GRID)


def dictionary_courses() -> Float:
    """(curves, K) coordinates of each curve of the dictionary, of a total change of 1 mm."""
    return _shapes()[1]


def course_basis(basis: Basis, when: Float) -> CourseBasis:
    """For epochs `when` (T,), a share of the observation period; `basis` has the offset and annual term."""
    shapes = np.stack([np.interp(when, GRID, shape) for shape in _shapes()[0]])
    columns = np.concatenate([basis.columns[:SEASON], shapes])
    one, other = np.tril_indices(len(columns))
    return CourseBasis(columns, np.ascontiguousarray((columns[one] * columns[other]).T))


def fit_courses(basis: CourseBasis, y: Float, known: NDArray[np.bool_], weight: Float, noise: Float) -> Courses:
    """Robust least squares of each history on all columns.

    Args:
        basis: see `course_basis`.
        y: (N, T) mm, 0 where unknown. known: (N, T).
        weight: (N, T) how far the fit of one curve trusts each value: to begin with, because it may be another's.
        noise: (N,) mm2, variance of a value such that independent values would tell as little as these.
    """
    residual = y - np.linalg.solve(*_normal(basis, weight, y))[..., 0] @ basis.columns
    weight = trusted(residual * known, known)
    normal, right = _normal(basis, weight, y)
    course = np.linalg.solve(normal, right)[:, SEASON:, 0]
    # With the season first, the last block of the triangle is that of what the shapes have of their own.
    root = np.linalg.cholesky(normal)[:, SEASON:, SEASON:].transpose(0, 2, 1)
    scaled = root / np.sqrt(noise)[:, None, None]
    return Courses(course.astype(np.float32), scaled.astype(np.float32))


def _normal(basis: CourseBasis, weight: Float, y: Float) -> tuple[Float, Float]:
    """(N, 3 + K, 3 + K) normal matrices and (N, 3 + K, 1) right-hand sides of series with weights (N, T)."""
    columns = len(basis.columns)
    one, other = np.tril_indices(columns)
    normal = np.empty((len(y), columns, columns))
    normal[:, one, other] = normal[:, other, one] = weight @ basis.products
    at = np.arange(columns)
    # Epochs that do not tell two shapes apart leave them unknown, not infinite.
    normal[:, at, at] += RIDGE * np.maximum(weight.sum(1), 1)[:, None]
    return normal, ((weight * y) @ basis.columns.T)[..., None]
