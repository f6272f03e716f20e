"""Fit a Gaussian process to points' changes along the line of sight, and predict up and east: co-kriging.

Up and east are independent fields, each with a constant mean that is not known, a standard deviation and a range. A
point's change is what its line of sight has of both, and noise: its own standard error times a scale, and a nugget.
All are fitted by maximum likelihood (Rasmussen and Williams 2006, chapter 5; Wackernagel 2003, chapter 24). Where all
points are seen from one side there is one field, along the line of sight.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.optimize import minimize
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from benchmarks.restoration.changes import Changes
from benchmarks.restoration.metrics import Estimate, gaussian

Array = NDArray[np.float64]
BLOCK, NEIGHBOURS, TILE = 320, 900, 16
"""Points of a block of the likelihood, nearest points for a prediction, and cells along a tile predicted at once."""
STARTS_M = (40.0, 200.0)
"""Ranges from which the likelihood's maximum is looked for."""
BOUNDS = {"std": (0.05, 300.0), "range": (5.0, 5000.0), "scale": (0.3, 10.0), "nugget": (0.02, 30.0)}
COMPONENTS = ("up", "east")


def exponential(scaled: Array) -> tuple[Array, Array]:
    """Return the correlation at a distance by the range, and its derivative by the range's logarithm."""
    value = np.exp(-scaled)
    return value, scaled * value


def matern32(scaled: Array) -> tuple[Array, Array]:
    """Return the same of Matérn's class with smoothness 3/2."""
    root = np.sqrt(3) * scaled
    value = np.exp(-root)
    return (1 + root) * value, root**2 * value


CORRELATIONS = {"exponential": exponential, "matern32": matern32}


class Fit(NamedTuple):
    """What was fitted; C fields."""

    kind: str
    std: Array
    """(C,) mm"""
    range_m: Array
    """(C,)"""
    scale: float
    """Of the points' own standard errors."""
    nugget: float
    """mm"""
    mean: Array
    """(C,) mm, by generalised least squares."""
    mean_covariance: Array
    """(C, C) mm2, of these."""
    likelihood: float
    """Logarithm."""

    def covariance(self, distance: Array, first: Array, second: Array) -> Array:
        """Return that of points with weights (N, C) and (M, C), at distances (N, M)."""
        total = first @ self.mean_covariance @ second.T
        for c, (std, span) in enumerate(zip(self.std, self.range_m, strict=True)):
            total += np.outer(std**2 * first[:, c], second[:, c]) * CORRELATIONS[self.kind](distance / span)[0]
        return total

    def noise(self, error: Array) -> Array:
        """Return the standard deviation (N,) of points' noise, mm, by their own standard errors."""
        return np.asarray(np.hypot(self.scale * error, self.nugget))


def weights(points: Changes, part: Changes) -> Array:
    """Return (N, C): what the lines of sight of `part` have of up and of east; 1 where `points` have one side alone."""
    return part.los[:, [2, 0]] if points.directions > 1 else np.ones((len(part.los), 1))


def fit(points: Changes, kind: str | None = None, most: int = BLOCK) -> Fit:
    """Fit by maximum likelihood; without a `kind`, the more likely covariance is taken.

    The likelihood is the product over blocks of at most `most` neighbours (composite likelihood: Varin, Reid and Firth
    2011).
    """
    if kind is None:
        return max((fit(points, one, most) for one in CORRELATIONS), key=lambda found: found.likelihood)
    parts = [points.take(rows) for rows in split(points.place, most)]
    data = [_Block(part, weights(points, part), cdist(part.place, part.place)) for part in parts]
    fields = data[0].weight.shape[1]
    spread = max(float(np.std(points.change)), 0.5)
    names = ["std"] * fields + ["range"] * fields + ["scale", "nugget"]
    bounds = [tuple(np.log(BOUNDS[name])) for name in names]
    best = None
    for start in STARTS_M:
        first = np.log([*[spread] * fields, *[start] * fields, 1.0, 0.5])
        found = minimize(_badness, first, (kind, data), "L-BFGS-B", True, bounds=bounds, options={"maxiter": 40})
        best = found if best is None or found.fun < best.fun else best
    made = _unpack(best.x, kind, fields)
    mean, spread_of_mean = _means(data, [_root(made, one.part, one.weight, one.distance) for one in data])
    return made._replace(mean=mean, mean_covariance=spread_of_mean, likelihood=-float(best.fun))


def split(place: Array, most: int) -> list[NDArray[np.intp]]:
    """Return rows of blocks of at most `most` neighbours: halved at the median of the longer side."""
    blocks, done = [np.arange(len(place))], []
    while blocks:
        rows = blocks.pop()
        if len(rows) <= most:
            done.append(rows)
            continue
        axis = int(np.argmax(np.ptp(place[rows], axis=0)))
        order = rows[np.argsort(place[rows, axis], kind="stable")]
        blocks += [order[: len(order) // 2], order[len(order) // 2 :]]
    return done


def predict_grid(
    found: Fit, points: Changes, left: float, top: float, cell_m: float, shape: tuple[int, int]
) -> list[Estimate]:
    """Predict each field at the centres of a grid's cells, tile by tile from the nearest points.

    Returns:
        an estimate (rows, columns) a field: up and east, or the line of sight.
    """
    fields = len(found.std)
    mean, std = np.empty((2, fields, *shape))
    for row in range(0, shape[0], TILE):
        for column in range(0, shape[1], TILE):
            rows, columns = np.arange(row, min(row + TILE, shape[0])), np.arange(column, min(column + TILE, shape[1]))
            east, north = np.meshgrid(left + (columns + 0.5) * cell_m, top - (rows + 0.5) * cell_m)
            place = np.column_stack([east.ravel(), north.ravel()])
            asked = np.repeat(np.eye(fields), len(place), axis=0)
            value, error = predict(found, points, np.tile(place, (fields, 1)), asked)
            block = np.ix_(range(fields), rows, columns)
            mean[block], std[block] = value.reshape(mean[block].shape), error.reshape(mean[block].shape)
    return [gaussian(mean[c], std[c]) for c in range(fields)]


def predict(
    found: Fit, points: Changes, place: Array, asked: Array, neighbours: int = NEIGHBOURS
) -> tuple[Array, Array]:
    """Predict mean and standard deviation (M,) of what `asked` (M, C) has of the fields at places (M, 2), mm.

    Places are close together: one set of nearest points serves all of them.
    """
    if len(points.change) > neighbours:
        near, _ = cKDTree(place).query(points.place)
        keep = np.argpartition(near, neighbours)[:neighbours]
    else:
        keep = np.arange(len(points.change))
    part = points.take(keep)
    weight = weights(points, part)
    root = _root(found, part, weight, cdist(part.place, part.place))
    cross = found.covariance(cdist(part.place, place), weight, asked)
    white = solve_triangular(root, np.column_stack([cross, part.change - weight @ found.mean]), lower=True)
    own = (asked**2 * found.std**2).sum(1) + np.einsum("mi,ij,mj->m", asked, found.mean_covariance, asked)
    variance = own - (white[:, :-1] ** 2).sum(0)
    return asked @ found.mean + white[:, :-1].T @ white[:, -1], np.sqrt(np.maximum(variance, 1e-6))


class _Block(NamedTuple):
    part: Changes
    weight: Array
    distance: Array


def _unpack(theta: Array, kind: str, fields: int) -> Fit:
    values = np.exp(theta)
    std, span = values[:fields], values[fields : 2 * fields]
    return Fit(kind, std, span, float(values[-2]), float(values[-1]), np.zeros(fields), np.zeros((fields, fields)), 0.0)


def _root(found: Fit, part: Changes, weight: Array, distance: Array) -> Array:
    covariance = found.covariance(distance, weight, weight)
    covariance[np.diag_indices_from(covariance)] += found.noise(part.error) ** 2
    return np.asarray(cholesky(covariance, lower=True, overwrite_a=True))


def _means(data: Sequence[_Block], roots: Sequence[Array]) -> tuple[Array, Array]:
    """Return the means (C,) by generalised least squares, and their covariance (C, C)."""
    solved = [cho_solve((root, True), one.weight) for one, root in zip(data, roots, strict=True)]
    normal = sum(one.weight.T @ part for one, part in zip(data, solved, strict=True))
    right = sum(part.T @ one.part.change for one, part in zip(data, solved, strict=True))
    return np.linalg.solve(normal, right), np.linalg.inv(normal)


def _badness(theta: Array, kind: str, data: Sequence[_Block]) -> tuple[float, Array]:
    """Return the negative logarithm of the likelihood, means at their best, and its gradient."""
    fields = data[0].weight.shape[1]
    found = _unpack(theta, kind, fields)
    roots, slopes = [], []
    for one in data:
        covariance, by = np.zeros_like(one.distance), []
        for c in range(fields):
            both = found.std[c] ** 2 * np.outer(one.weight[:, c], one.weight[:, c])
            value, slope = CORRELATIONS[kind](one.distance / found.range_m[c])
            by.append((2 * both * value, both * slope))
            covariance += both * value
        covariance[np.diag_indices_from(covariance)] += found.noise(one.part.error) ** 2
        roots.append(cholesky(covariance, lower=True, overwrite_a=True))
        slopes.append(by)
    mean, _ = _means(data, roots)
    badness, gradient = 0.0, np.zeros(len(theta))
    for one, root, by in zip(data, roots, slopes, strict=True):
        residual = one.part.change - one.weight @ mean
        solved = cho_solve((root, True), residual)
        inner = cho_solve((root, True), np.eye(len(root))) - np.outer(solved, solved)
        diagonal = np.diag(inner)
        gradient += [
            *(float((inner * std).sum()) for std, _ in by),
            *(float((inner * span).sum()) for _, span in by),
            2 * float((diagonal * (found.scale * one.part.error) ** 2).sum()),
            2 * float(diagonal.sum()) * found.nugget**2,
        ]
        badness += float(np.log(np.diag(root)).sum() + residual @ solved / 2 + len(root) * np.log(2 * np.pi) / 2)
    return badness, gradient / 2
