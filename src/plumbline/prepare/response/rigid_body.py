"""Fit the motion of a building as a whole, robustly."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from plumbline.core.arrays import Float

FREEDOM = 4.0
"""Degrees of freedom of the assumed Student t distribution of the errors (Lange, Little and
Taylor 1989). The first `START` iterations take 1 and the stated errors alone: otherwise a
corner that broke off as one piece would widen the spread before it loses its weight, and
the plane would settle between both."""
START, ITERATIONS = 4, 10
FIRST_SPREAD = 0.5
"""Spread in the first iterations, mm."""
LEAST_SPREAD = 0.05
"""Smallest spread, mm; keeps the weights finite where a few points fit perfectly."""
BLOCK = 1 << 17
"""Number of values times fits in a block: few enough for their arrays to stay in the processor's
cache."""


class Fit(NamedTuple):
    """Fits of b systems with P values and K parameters; of several fits a system, with an
    axis F after b."""

    solution: Float
    """(b, K)"""
    residual: Float
    """(b, P); 0 outside of the mask."""
    weight: Float
    """(b, P) above 1 for values that fit, towards 0 for outliers."""
    spread: Float
    """(b,) scale of the errors beyond their stated ones; of normal errors, about 0.8 of the
    standard deviation."""
    last_precision: Float
    """(b,) inverse variance of the last parameter, marginal over the others."""


def student_fit(
    design: Float, values: Float, error: Float, mask: NDArray[np.bool_], prior: Float
) -> Fit:
    """Fit the most likely parameters under Student's t errors, by iteratively reweighted
    least squares.

    Args:
        design: (b, P, K). values: (b, P). error: (b, P) stated standard errors. mask: (b, P).
        prior: (K,) or (b, K) prior inverse variances of the parameters.
    """
    shared, last_column = design[..., :-1], design[..., -1][:, None, :]
    priors = np.broadcast_to(prior, (len(values), design.shape[2]))[:, None, :]
    fit = student_fits(shared, last_column, values, error=error, mask=mask, prior=priors)
    return Fit(*(part[:, 0] for part in fit))


def student_fits(
    shared: Float,
    last_column: Float,
    values: Float,
    *,
    error: Float,
    mask: NDArray[np.bool_],
    prior: Float,
) -> Fit:
    """Fit each system F times with one different column; the shared part is computed once.

    Args:
        shared: (b, P, K - 1) columns of all fits. last_column: (b, F, P) the last column of each.
        values, error, mask: (b, P). prior: (b, F, K) prior inverse variances of the parameters.
    """
    buildings, fits, points = last_column.shape
    size = min(max(1, BLOCK // max(fits * points, 1)), max(buildings, 1))
    workspace = _make_workspace(size, points, fits, shared.shape[2])
    fit = Fit(
        solution=np.empty(prior.shape),
        residual=np.empty((buildings, points, fits)),
        weight=np.empty((buildings, points, fits)),
        spread=np.empty((buildings, fits)),
        last_precision=np.empty((buildings, fits)),
    )
    for start in range(0, buildings, size):
        at = slice(start, min(start + size, buildings))
        _fit_block(
            shared[at],
            last_column[at],
            values[at],
            error=error[at],
            mask=mask[at],
            prior=prior[at],
            fit=Fit(*(part[at] for part in fit)),
            workspace=workspace.first(at.stop - start),
        )
    return fit._replace(
        residual=fit.residual.transpose(0, 2, 1), weight=fit.weight.transpose(0, 2, 1)
    )


class _Workspace(NamedTuple):
    """Arrays for intermediate results, used by each block in turn.

    To allocate them again would take as long as the fits.
    """

    cells: Float
    """(3, b, P, F)"""
    systems: Systems

    def first(self, count: int) -> _Workspace:
        """Return the part for `count` systems."""
        return _Workspace(
            self.cells[:, :count], Systems(*(part[:, :count] for part in self.systems))
        )


def _make_workspace(size: int, points: int, fits: int, columns: int) -> _Workspace:
    return _Workspace(np.empty((3, size, points, fits)), make_systems(columns, (size, fits)))


def _fit_block(
    shared: Float,
    last_column: Float,
    values: Float,
    *,
    error: Float,
    mask: NDArray[np.bool_],
    prior: Float,
    fit: Fit,
    workspace: _Workspace,
) -> None:
    """Fit one block into `fit`; arrays are (b, P, F), so that a value's fits are neighbours."""
    systems = workspace.systems
    shared_and_values = np.concatenate(
        [shared * mask[..., None], (values * mask)[..., None]], axis=2
    )
    beside = np.ascontiguousarray(shared_and_values.transpose(0, 2, 1))
    products = np.ascontiguousarray(shared_products(shared_and_values).transpose(0, 2, 1))
    column, precision, lever = workspace.cells
    np.multiply(last_column.transpose(0, 2, 1), mask[..., None], out=column)
    count = np.maximum(mask.sum(1), 1)[:, None]
    # Systems are solved together: a column of zeros in this one, as of a track without points,
    # takes no freedom.
    needed = (beside[:, :-1] != 0).any(2).sum(1)[:, None] + (column != 0).any(1)
    excess = count / np.maximum(count - needed + 1, 1)
    # Values outside of the mask have an infinite error.
    error_2 = error**2
    error_2_or_inf = np.where(mask, error_2, np.inf)[..., None]
    mask_and_error_2 = np.stack([mask, np.where(mask, error_2, 0)], axis=1)
    prior_by_column = np.ascontiguousarray(np.moveaxis(prior, 2, 0))

    residual, weight, spread = fit.residual, fit.weight, fit.spread
    spread[:] = FIRST_SPREAD
    first_variance = error_2_or_inf + FIRST_SPREAD**2
    np.divide(1.0, first_variance, out=precision)
    weight[:] = precision
    of_shared, of_last = systems.shared.swapaxes(0, 1), systems.last[:-1].swapaxes(0, 1)
    solution = systems.solution.swapaxes(0, 1)
    for step in range(ITERATIONS):
        if step > START:
            np.add(error_2_or_inf, (spread**2)[:, None], out=precision)
            np.divide(1.0, precision, out=precision)
            weight *= precision
        np.matmul(products, weight, out=of_shared)
        np.multiply(weight, column, out=lever)
        np.matmul(beside, lever, out=of_last)
        np.einsum("bpf,bpf->bf", lever, column, out=systems.last[-1])
        systems.solve(prior_by_column)
        # The factor of the values is -1: this is what the columns explain, less the values. Only
        # its square and, at the end, its negative are needed.
        np.matmul(shared_and_values, solution[:, :-1], out=residual)
        residual += np.multiply(column, solution[:, -1:], out=lever)
        square = np.multiply(residual, residual, out=lever)
        # Weights of Student's t distribution: (f + 1) / (f + r^2 / variance); f is 1 in the first
        # steps, whose weights are times the precision at once.
        if step < START:
            np.add(square, first_variance, out=weight)
            np.divide(2.0, weight, out=weight)
            continue
        np.multiply(square, precision, out=weight)
        weight += FREEDOM
        np.divide(FREEDOM + 1, weight, out=weight)
        # Each value counts by the square of its precision: one with a large stated error shows
        # little of the spread.
        share = np.multiply(precision, precision, out=precision)
        square *= share
        square_sum = np.einsum("bpf,bpf->bf", square, weight) * excess
        total_share, total_error_2 = (mask_and_error_2 @ share).swapaxes(0, 1)
        beyond = (square_sum - total_error_2) / np.maximum(total_share, np.finfo(float).tiny)
        np.sqrt(np.maximum(beyond, LEAST_SPREAD**2), out=spread)
    np.negative(residual, out=residual)
    fit.solution[..., :-1] = np.moveaxis(systems.solution[:-2], 0, 2)
    fit.solution[..., -1] = systems.solution[-1]
    fit.last_precision[:] = systems.last[-1]


class Systems(NamedTuple):
    """Normal equations of least squares with N shared columns and a last one, and memory to
    solve them."""

    shared: Float
    """(N (N + 3) / 2, ...) for each shared column in turn, its products with itself, with the
    shared columns after it, and with the values: see `shared_products`."""
    last: Float
    """(N + 2, ...) products of the last column with each shared one, with the values, and with
    itself. The last is its pivot once they are solved: the inverse variance of its parameter,
    marginal over the others."""
    ratio: Float
    """(N (N + 3) / 2, ...) rows of L', each followed by those of the values and of the last
    column."""
    spare: Float
    """(N + 1, ...)"""
    solution: Float
    """(N + 2, ...) parameters of the shared columns, -1 for the values, and that of the last."""

    def solve(self, prior: Float) -> None:
        """Solve for `solution`, which holds -1 for the values; the products are overwritten.

        By L D L' (Golub and Van Loan 2013, section 4.1), step by step over all systems: for
        matrices this small, much faster than one call a matrix.

        Args:
            prior: (N + 1, ...) prior inverse variances of the parameters.
        """
        last, columns = self.last, len(self.last) - 2
        ends = np.cumsum(np.arange(columns + 1, 1, -1))
        rows = [slice(end - columns - 1 + i, end) for i, end in enumerate(ends.tolist())]
        of_column = [self.shared[row] for row in rows]
        for column, row in enumerate(rows):
            pivot, after = of_column[column][0], of_column[column][1:]
            pivot += prior[column]
            ratio = self.ratio[row]
            np.divide(after, pivot, out=ratio[:-1])
            np.divide(last[column], pivot, out=ratio[-1])
            for ahead in range(columns - 1 - column):
                products = self.spare[: len(after) - ahead]
                np.multiply(ratio[ahead], after[ahead:], out=products)
                of_column[column + 1 + ahead] -= products
            last[column + 1 :] -= np.multiply(
                ratio, last[column], out=self.spare[: columns + 1 - column]
            )
        last[-1] += prior[-1]
        np.divide(last[-2], last[-1], out=self.solution[-1])
        for column in reversed(range(columns)):
            explained = np.multiply(
                self.ratio[rows[column]],
                self.solution[column + 1 :],
                out=self.spare[: columns + 1 - column],
            )
            np.negative(explained.sum(0, out=self.solution[column]), out=self.solution[column])


def make_systems(columns: int, shape: tuple[int, ...]) -> Systems:
    """Make memory for systems with `columns` shared columns and a last one."""
    triangle = columns * (columns + 3) // 2
    counts = triangle, columns + 2, triangle, columns + 1, columns + 2
    systems = Systems(*(np.empty((count, *shape)) for count in counts))
    systems.solution[-2] = -1
    return systems


def shared_products(shared_and_values: Float) -> Float:
    """Return the products (..., J) that `Systems.shared` sums, of N shared columns and the
    values (..., N + 1)."""
    count = shared_and_values.shape[-1]
    row, column = np.triu_indices(count)
    of_shared = row < count - 1
    return np.asarray(
        shared_and_values[..., row[of_shared]] * shared_and_values[..., column[of_shared]]
    )


def misfit(residual: Float, variance: Float, mask: NDArray[np.bool_]) -> Float:
    """Return the negative log likelihood (...) of residuals (..., P) under the same
    distribution, up to a constant."""
    # The logarithm of a small value is nothing beside the others', so that `log`, which is faster
    # than `log1p`, is precise enough.
    scaled = residual**2 * (mask / (FREEDOM * variance))
    scaled += 1
    return np.asarray((FREEDOM + 1) / 2 * np.log(scaled, out=scaled).sum(-1), float)


def log_density(residual: Float, scale: Float) -> Float:
    """Return the log density of residuals under the same distribution; `scipy.stats` takes
    0.5 s to be imported."""
    constant = gammaln((FREEDOM + 1) / 2) - gammaln(FREEDOM / 2) - np.log(FREEDOM * np.pi) / 2
    return np.asarray(
        constant - (FREEDOM + 1) / 2 * np.log1p((residual / scale) ** 2 / FREEDOM) - np.log(scale)
    )


SCALE_TILT, SCALE_OFFSET = 1.0, 10.0
"""Scales of tilts, mm/m, and of offsets, mm: where scatterers cannot separate the two (all in one
place), these decide the shares."""
LEAST_SHARE = 1e-9
"""Smallest strength of a direction of rigid motion, as a share of the strongest: weaker ones are
not fitted."""
WEAK = 1e6
"""Standard deviation, mm, of a prior so weak that it only keeps undetermined systems solvable."""


class RigidFit(NamedTuple):
    """Rigid motion of b buildings and the residuals, padded to P scatterers."""

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
    *,
    change: Float,
    change_se: Float,
    track: NDArray[np.intp],
    mask: NDArray[np.bool_],
) -> RigidFit:
    """Fit and remove settlement, sideways motion and two tilts, robustly.

    A body tilted by t along x lifts a point by `t x` and moves a point at height h sideways
    by `-t h` along x. Each track has an offset of its own, which contains its unknown
    reference and the building's mean motion.

    Args:
        xy: (b, P, 2) m. height: (b, P) m. los: (b, P, 3) along x, y, up.
        change, change_se: (b, P) mm along LOS.
        track: (b, P) index of the track. mask: (b, P) False where padding.
    """
    scale = np.array([SCALE_TILT, SCALE_TILT] + [SCALE_OFFSET] * (int(track.max(initial=0)) + 1))
    design = rigid_design(xy, height, los, track) * scale * mask[..., None]
    # On an orthonormal basis of the rigid motions the fit is exact to rounding, wherever the
    # scatterers are.
    basis, strength, turn = np.linalg.svd(design, full_matrices=False)
    real = strength > LEAST_SHARE * strength[:, :1]
    basis = basis * real[:, None, :]
    fit = student_fit(basis, change, change_se, mask, np.full(basis.shape[2], 1 / WEAK**2))
    inner = fit.solution * real / np.where(real, strength, 1)
    motion = (inner[:, None, :] @ turn)[:, 0] * scale
    largest = (FREEDOM + 1) / FREEDOM
    return RigidFit(
        fit.residual, np.where(mask, fit.weight / largest, 0), motion[:, :2], fit.spread
    )


def rigid_design(xy: Float, height: Float, los: Float, track: NDArray[np.intp]) -> Float:
    """Return the LOS response (b, P, 2 + tracks) to tilts (1 mm/m) along x and y and to
    each track's offset (1 mm)."""
    tilt = los[..., 2:] * xy - los[..., :2] * height[..., None]
    offset = track[..., None] == np.arange(int(track.max(initial=0)) + 1)
    return np.concatenate([tilt, offset.astype(float)], axis=2)


REACH_M = 4.0
"""Standard deviation of the neighbourhood's weight: the length of a bay of the label."""
PRIOR_SD = np.array([20.0, 2.0, 2.0, 3.0])
"""Prior standard deviations: up (mm), gradients (mm/m), east (mm). A building that is seen from one
side, or with few scatterers, then gets the prior and its wide standard error."""


class Local(NamedTuple):
    """(b, P, 4) estimates and standard errors: up (mm), its gradient along x and y (mm/m),
    east (mm)."""

    estimate: Float
    standard_error: Float


def local_motion(
    xy: Float, los: Float, *, east: Float, residual: Float, variance: Float, mask: NDArray[np.bool_]
) -> Local:
    """Fit up, its gradients and east in the neighbourhood of each scatterer by weighted
    least squares.

    North is taken as zero: the satellites hardly see it. Vertical and east are separated where
    ascending and descending tracks are both near; elsewhere the standard error of east stays that
    of the prior.

    Args:
        xy: (b, P, 2) m. los: (b, P, 3) along x, y, up. east: (b, P) LOS response to 1 mm
            towards the east.
        residual: (b, P) mm along LOS after the rigid body. variance: (b, P) mm2. mask: (b, P).
    """
    weight = neighbourhood_weight(xy) * mask[:, None, :]
    up = los[..., 2]
    # The columns differ from place to place by the distance from it only, so their products
    # are moments about the centre of the building, moved to the place: sums over neighbours
    # are one product of matrices.
    x, y = xy[..., 0], xy[..., 1]
    moments = np.stack(
        [
            up**2,
            up**2 * x,
            up**2 * y,
            up**2 * x**2,
            up**2 * x * y,
            up**2 * y**2,
            up * east,
            up * east * x,
            up * east * y,
            east**2,
            up * residual,
            up * residual * x,
            up * residual * y,
            east * residual,
        ],
        axis=2,
    )
    sums = np.moveaxis(weight @ (moments * (mask / variance)[..., None]), 2, 0)
    uu, uux, uuy, uuxx, uuxy, uuyy, ue, uex, uey, ee, ur, urx, ury, er = sums
    normal = np.empty((*x.shape, 4, 4))
    entries = (
        (uu, uux - x * uu, uuy - y * uu, ue),
        (uuxx - 2 * x * uux + x**2 * uu, uuxy - x * uuy - y * uux + x * y * uu, uex - x * ue),
        (uuyy - 2 * y * uuy + y**2 * uu, uey - y * ue),
        (ee,),
    )
    for i, row in enumerate(entries):
        for j, entry in enumerate(row, start=i):
            normal[..., i, j] = normal[..., j, i] = entry
    right = np.stack([ur, urx - x * ur, ury - y * ur, er], axis=-1)
    inverse = np.linalg.inv(normal + np.diag(1 / PRIOR_SD**2))
    estimate = (inverse @ right[..., None])[..., 0]
    error = np.sqrt(np.diagonal(inverse, axis1=2, axis2=3))
    return Local(np.where(mask[..., None], estimate, 0), np.where(mask[..., None], error, PRIOR_SD))


def neighbourhood_weight(xy: Float) -> Float:
    """Return the weight (b, P, P) of each scatterer in the neighbourhood of each."""
    square = (xy**2).sum(-1)
    apart = square[:, :, None] + square[:, None, :] - 2 * xy @ xy.transpose(0, 2, 1)
    return np.asarray(np.exp(apart / (-2 * REACH_M**2)))
