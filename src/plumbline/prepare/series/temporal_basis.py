"""Define the dictionary of curves in time, and the few shapes that all courses in time combine.

Many series are fitted to all curves at once. Every curve goes with the same offset and annual term.
The normal matrix of a series is therefore one block of these three, which is factorised once (L D
L'), and one column for each curve; the rest is products of small arrays.

All curves of the dictionary are close to a space of few dimensions, beyond an offset. The few
coordinates there, the course, therefore describe a history along any curve, or along a mixture of
two: of its building's tilt and of a damage that began later.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plumbline.core.arrays import Float
from plumbline.prepare.series.noise import trusted

SEASON = 3
"""Columns that all curves share: offset, sine and cosine of the year."""
LINE = 0
"""Index of the straight line in the dictionary."""
RIDGE = 1e-6
"""Ridge of normal matrices, for each value: a curve that hardly varies over a row's epochs (few
values) must not make the system singular."""


def curves(when: Float) -> Float:
    """Return the dictionary (K, T) of normalised movements g, g(0) = 0 and g(1) = 1,
    sampled at `when` (T,).

    The first is the line; then movements coming to rest, accelerating ones, and onsets,
    most of them late.
    """
    settling = [(1 - np.exp(-when / tau)) / (1 - np.exp(-1 / tau)) for tau in (0.08, 0.2, 0.45)]
    accelerating = [when**2, when**4]
    late = [
        np.clip((when - onset) / (1 - onset), 0, 1) for onset in (0.25, 0.5, 0.75, 0.85, 0.9, 0.95)
    ]
    return np.stack([when, *settling, *accelerating, *late])


class Basis(NamedTuple):
    """Samples of the columns: the season's three, then K curves or shapes; and the products
    that normal matrices need.

    Of curves, each is fitted alone beside the season; of shapes (`course_basis`), all together.
    """

    columns: Float
    """(3 + K, T)"""
    products: Float
    """(6 + 4 K, T): of the season's pairs; of each season's column with all curves; of each
    curve with itself. Of shapes ((3 + K)^2, T): of all pairs of columns."""

    @property
    def curves(self) -> int:
        """K."""
        return len(self.columns) - SEASON


def make_basis(when: Float, years: float, count: int | None = None) -> Basis:
    """Make the basis for epochs `when` (T,), a share of the observation period of `years`
    years, of all curves or the first `count`."""
    annual = 2 * np.pi * when * years
    season = np.stack([np.ones_like(when), np.sin(annual), np.cos(annual)])
    curve = curves(when)[:count]
    pairs = [season[i] * season[j] for i in range(SEASON) for j in range(i, SEASON)]
    cross = [season[i] * g for i in range(SEASON) for g in curve]
    return Basis(np.concatenate([season, curve]), np.stack([*pairs, *cross, *curve**2]))


class Normal(NamedTuple):
    """Factorised normal matrices of N series, or of one for all, for each of K curves."""

    pivot: Float
    """(3, N) D of the season's block."""
    below: Float
    """(3, N) L below its diagonal: rows 1 and 2 of column 0, row 2 of column 1."""
    cross: Float
    """(3, K, N) L^-1 times the season's products with each curve."""
    curve_pivot: Float
    """(K, N) last pivot of each curve's system: the reciprocal of its amplitude's entry in the
    inverse."""


class Amplitudes(NamedTuple):
    """Least squares of N series on each of K curves."""

    season: Float
    """(3, N) L^-1 times the season's right-hand side."""
    amplitude: Float
    """(K, N)"""
    explained: Float
    """(K, N) mm2, what each curve takes from the weighted sum of squares, beside the season."""


def normal_matrices(basis: Basis, weight: Float) -> Normal:
    """Compute the normal matrices of series with the weights `weight` (N, T)."""
    sums = basis.products @ weight.T
    pairs, crossed, squares = np.split(sums, [6, len(sums) - basis.curves])
    ridge = RIDGE * np.maximum(pairs[0], 1)
    first = pairs[0] + ridge
    below_1, below_2 = pairs[1] / first, pairs[2] / first
    second = pairs[3] + ridge - below_1 * pairs[1]
    below_3 = (pairs[4] - below_1 * pairs[2]) / second
    third = pairs[5] + ridge - below_2 * pairs[2] - below_3**2 * second
    pivot, below = np.stack([first, second, third]), np.stack([below_1, below_2, below_3])
    cross = _forward(below, crossed.reshape(SEASON, basis.curves, -1))
    curve_pivot = squares + ridge - (cross**2 / pivot[:, None]).sum(0)
    return Normal(pivot, below, cross, curve_pivot)


def amplitudes(basis: Basis, normal: Normal, weighted: Float) -> Amplitudes:
    """Solve for series; `weighted` (N, T) is each times the weights that `normal` was made with."""
    right = basis.columns @ weighted.T
    season = _forward(normal.below, right[:SEASON])
    scaled = season / normal.pivot
    beyond = right[SEASON:] - (normal.cross * scaled[:, None]).sum(0)
    amplitude = beyond / normal.curve_pivot
    return Amplitudes(season, amplitude, amplitude * beyond)


def residual_squares(normal: Normal, fit: Amplitudes, weighted: Float, y: Float) -> Float:
    """Return the weighted sums of squared residuals (K, N) of series `y` (N, T)."""
    beside_season = np.vecdot(weighted, y) - (fit.season**2 / normal.pivot).sum(0)
    return np.asarray(np.maximum(beside_season - fit.explained, 0))


def fitted(basis: Basis, normal: Normal, fit: Amplitudes, chosen: NDArray[np.intp]) -> Float:
    """Return the fit (N, T) of each series by its curve `chosen` (N,), at all epochs, gaps
    included."""
    rows = np.arange(len(chosen))
    amplitude = fit.amplitude[chosen, rows]
    cross = np.broadcast_to(normal.cross, (SEASON, *fit.amplitude.shape))[:, chosen, rows]
    low = (fit.season - cross * amplitude) / normal.pivot
    coefficients = np.zeros((len(basis.columns), len(chosen)))
    coefficients[2] = low[2]
    coefficients[1] = low[1] - normal.below[2] * low[2]
    coefficients[0] = low[0] - normal.below[0] * coefficients[1] - normal.below[1] * low[2]
    coefficients[SEASON + chosen, rows] = amplitude
    return np.asarray(coefficients.T @ basis.columns)


def residuals(
    basis: Basis, normal: Normal, fit: Amplitudes, chosen: NDArray[np.intp], y: Float
) -> Float:
    """Return what the fit of each series by its curve `chosen` (N,) leaves of `y` (N, T)."""
    fit_of_curve = fitted(basis, normal, fit, chosen)
    return np.subtract(y, fit_of_curve, out=fit_of_curve)


def _forward(below: Float, right: Float) -> Float:
    """Return L^-1 times `right` (3, ..., N), and overwrite it."""
    right[1] -= below[0] * right[0]
    right[2] -= below[1] * right[0] + below[2] * right[1]
    return right


SHAPES = 5
"""K, the number of shapes: they contain 99.6 % of the dictionary's variance. With a sixth, damage
that begins late is missed more often (docs/decisions/0047)."""
GRID = np.linspace(0, 1, 401)
"""Times at which shapes are tabulated."""


class Courses(NamedTuple):
    """Courses of N scatterers."""

    course: Float
    """(N, K) mm: coordinates on the shapes; NaN where they are unknown."""
    course_root: Float
    """(N, K, K) 1/mm: R such that R' R is the inverse of the coordinates' covariance."""


def unknown_courses(count: int) -> Courses:
    """Return the courses of `count` scatterers without a history."""
    unknown = np.full((count, SHAPES), np.nan, dtype=np.float32)
    return Courses(unknown, np.zeros((count, SHAPES, SHAPES), dtype=np.float32))


@lru_cache(maxsize=1)
def _shapes() -> tuple[Float, Float]:
    """Return orthogonal shapes (K, grid), mean 0, mean square 1, and the dictionary's
    coordinates (curves, K) on them.

    The first is the line, because most of a large movement is one, and little of it must be lost.
    The others are the principal shapes of the dictionary beside the line.
    """
    dictionary = curves(GRID)
    centred = dictionary - dictionary.mean(1, keepdims=True)
    line = centred[:1] / np.linalg.norm(centred[0])
    bent = np.linalg.svd(centred - centred @ line.T * line, full_matrices=False)[2][: SHAPES - 1]
    shapes = np.concatenate([line, bent]) * np.sqrt(len(GRID))
    return shapes, centred @ shapes.T / len(GRID)


def dictionary_courses() -> Float:
    """Return the coordinates (curves, K) of each curve of the dictionary, for a total
    change of 1 mm."""
    return _shapes()[1]


def shape_coordinates(when: Float, courses: Float) -> Float:
    """Return the coordinates (C, K) of courses (C, G) that are tabulated at `when` (G,)."""
    tabulated = np.array([np.interp(GRID, when, course) for course in courses])
    return np.asarray((tabulated - tabulated.mean(1, keepdims=True)) @ _shapes()[0].T / len(GRID))


def course_basis(basis: Basis, when: Float) -> Basis:
    """Make the course basis for epochs `when` (T,), a share of the period; `basis` has the
    offset and annual term."""
    shapes = np.stack([np.interp(when, GRID, shape) for shape in _shapes()[0]])
    columns = np.concatenate([basis.columns[:SEASON], shapes])
    products = columns[:, None] * columns
    return Basis(columns, products.reshape(-1, len(when)))


def fit_courses(
    basis: Basis, y: Float, is_finite: NDArray[np.bool_], weight: Float, noise: Float
) -> Courses:
    """Fit each history on all columns by robust least squares.

    Args:
        basis: see `course_basis`.
        y: (N, T) mm, 0 where unknown. is_finite: (N, T).
        weight: (N, T) weights from the fit of one curve, to begin with.
        noise: (N,) mm2, variance of independent values with as much information as these.
    """
    coefficients = np.linalg.solve(*_normal(basis, weight, y))[..., 0]
    weight = trusted(y - coefficients @ basis.columns, is_finite)
    normal, right = _normal(basis, weight, y)
    course = np.linalg.solve(normal, right)[:, SEASON:, 0]
    # With the season first, the last block of the triangle is the root of the shapes' information
    # beside the season.
    root = np.linalg.cholesky(normal)[:, SEASON:, SEASON:].transpose(0, 2, 1)
    scaled = root / np.sqrt(noise)[:, None, None]
    return Courses(course.astype(np.float32), scaled.astype(np.float32))


def _normal(basis: Basis, weight: Float, y: Float) -> tuple[Float, Float]:
    """Return normal matrices (N, 3 + K, 3 + K) and right-hand sides (N, 3 + K, 1) of series
    with weights (N, T)."""
    columns = len(basis.columns)
    normal = (weight @ basis.products.T).reshape(-1, columns, columns)
    at = np.arange(columns)
    # Epochs that do not separate two shapes leave them uncertain, not infinite.
    normal[:, at, at] += RIDGE * np.maximum(normal[:, :1, 0], 1)
    return normal, ((weight * y) @ basis.columns.T)[..., None]
