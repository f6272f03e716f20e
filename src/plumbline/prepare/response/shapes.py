"""Define shapes of damage, and fit them.

They are simpler and fewer than the failures of the simulation: an engineer's hypotheses. Each is a
vertical displacement for a unit drop, and a horizontal one beside it. The set is closed under the
eight symmetries of a rectangle's frame, so that a mirrored building has mirrored evidence.

Each is fitted together with the rigid motion that the robust plane may have left. The likeliest
shape without a guess of sideways motion is the engineer's answer. All together, weighted by their
evidence (Laplace's approximation, MacKay 1992), give the network's inputs: probability and strain
of each quadrant and of each mechanism.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from plumbline.core.arrays import Array, Float
from plumbline.core.strain import ACCEPTED_SHARE, FAILURES, bay_length, principal_tensile_strain
from plumbline.prepare.response.rigid_body import Fit, misfit, student_fit, student_fits

CORNER, END, STEP, BOWL, BENDING = range(len(FAILURES))
SIGNS = np.array([(1, 1), (-1, 1), (-1, -1), (1, -1)])
"""Signs of x and y in the quadrants, in the order of `compass.QUADRANTS`."""
SIDES = np.array([(1, 0), (0, 1), (-1, 0), (0, -1)])
"""Directions of the four ends."""
JOINT_M = 1.0
"""Width of a fitted step."""
LONG_M, LINES = 16.0, (9, 13)
"""Largest side, m, of buildings whose strains are computed on a lattice of the smaller number of
lines."""
PAIRS = 64
"""Number of buildings of which strains are computed at a time."""
_STRAINS: dict[tuple[float, float], Array] = {}
"""Strains by the sides of a building, m: a city has few different pairs."""
_STRAINS_LOCK = Lock()


class Shape(NamedTuple):
    """One hypothesis."""

    mechanism: int
    form: int
    """Number among the corners' three forms, the bowls' radii, or the troughs."""
    towards: tuple[float, float]
    """Corner, end or direction in which the step goes or the trough is crossed; relative
    place of a bowl."""
    start: float
    """Beginning of a ramp, or place of a joint or of a trough's axis: in half sides from the
    centre."""
    pull: float
    """Horizontal displacement as a share of the drop: outwards, but towards the middle of
    bowls and troughs."""
    prior: float
    """Prior probability among all shapes."""


PULLS = {0.0: 0.6, 0.4: 0.25, 0.9: 0.15}
"""Horizontal displacements of a dropping corner, outwards along the diagonal of the building's
frame, as a share of the drop, with their prior probabilities."""
OPENINGS = {0.0: 0.6, 0.5: 0.4}
"""Openings of ends and steps as a share of the drop, with their prior probabilities."""
STARTS = (0.0, 0.45)
"""Hinges of an end."""
JOINTS = (-0.6, -0.3, 0.0, 0.3, 0.6)
RADII_M = (3.5, 8.0)
PLACES = ((-0.9, -0.54, -0.18, 0.18, 0.54, 0.9), (-0.8, 0.0, 0.8))
"""Middles of bowls of each radius along either axis, in half sides."""
SIGMAS = 3.0
"""Standard deviations of a bowl that are its radius."""
TROUGHS = ((0.0, 0.45), (-0.6, 0.45), (0.6, 0.45), (0.0, 0.9))
"""Axis and inflection of a trough, in half extents of the building across it."""
TROUGH_PULL = 0.05
"""Horizontal displacement that a building takes over from a trough, as a share of the vertical
one."""
PRIOR = (0.4, 0.15, 0.15, 0.2, 0.1)
"""Prior probabilities of the mechanisms."""


def _shapes() -> tuple[Shape, ...]:
    half = float(np.sqrt(0.5))
    corners, ends = ([(float(x), float(y)) for x, y in ways] for ways in (SIGNS, SIDES))
    across = [(1.0, 0.0), (0.0, 1.0), (half, half), (half, -half)]
    # In this order: corner by corner, and the first of each is the engineer's.
    shapes = [
        Shape(CORNER, form, c, 0.0, pull, p)
        for c in corners
        for pull, p in PULLS.items()
        for form in range(3)
    ]
    shapes += [
        Shape(END, 0, e, start, pull, p)
        for e in ends
        for start in STARTS
        for pull, p in OPENINGS.items()
    ]
    # A step that opens is another shape if the other part drops. Without an opening both are the
    # same, but for rigid motion: then two of the four directions are enough.
    shapes += [
        Shape(STEP, 0, e, start, pull, p / (2 if pull else 1))
        for pull, p in OPENINGS.items()
        for e in ends[: 4 if pull else 2]
        for start in JOINTS
    ]
    shapes += [
        Shape(BOWL, form, (x, y), 0.0, 0.0, len(at) ** -2.0)
        for form, at in enumerate(PLACES)
        for x in at
        for y in at
    ]
    shapes += [
        Shape(BENDING, form, way, at, TROUGH_PULL, 1.0)
        for way in across
        for form, (at, _) in enumerate(TROUGHS)
    ]
    total = np.bincount([shape.mechanism for shape in shapes], [shape.prior for shape in shapes])
    return tuple(
        shape._replace(prior=PRIOR[shape.mechanism] * shape.prior / total[shape.mechanism])
        for shape in shapes
    )


ALL = _shapes()
MECHANISM = np.array([shape.mechanism for shape in ALL])
LOG_PRIOR = np.log([shape.prior for shape in ALL])
PLAIN = np.flatnonzero([shape.pull < 0.1 for shape in ALL])
"""Shapes that an engineer would try: without a guess of sideways motion."""


class ShapeProfiles:
    """Places in the frames of b buildings, with the profiles along an axis that shapes share.

    Most shapes are a profile along an axis, or a product of two: each profile is computed once.
    """

    def __init__(self, x: Float, y: Float, side: Float) -> None:
        """Prepare.

        Args:
            x, y: (b, ...) m from the centre; of a lattice (b, X, 1) and (b, 1, Y).
            side: (b, 2) m.
        """
        half_m = (side / 2).T.reshape(2, len(side), *[1] * (x.ndim - 1))
        self.place_m, self.half_m = (x, y), (half_m[0], half_m[1])
        self.relative = x / half_m[0], y / half_m[1]
        self._uplifts: dict[tuple[object, ...], Float] = {}

    def uplift(self, shape: Shape) -> Float:
        """Return the vertical displacement for a unit drop."""
        return self._once(shape[:4], lambda: self._uplift(shape))

    def across_share(self, shape: Shape) -> Float:
        """Return the distance from the axis of a trough, as a share of that of its inflection."""
        return self._once(("across", *shape[2:4], shape.form), lambda: self._across_share(shape))

    def _once(self, key: tuple[object, ...], compute: Callable[[], Float]) -> Float:
        if key not in self._uplifts:
            self._uplifts[key] = compute()
        return self._uplifts[key]

    def _uplift(self, shape: Shape) -> Float:
        way, (x, y) = shape.towards, self.relative
        if shape.mechanism == BOWL:
            along_x, along_y = (self._bell(axis, way[axis], shape.form) for axis in (0, 1))
            return along_x * along_y
        if shape.mechanism == BENDING:
            return np.asarray(np.exp(-0.5 * self.across_share(shape) ** 2))
        if shape.mechanism == CORNER and shape.form == 2:
            return np.asarray(np.clip(way[0] * x + way[1] * y - 0.6, 0, 2.2) / 1.4)
        if shape.mechanism == CORNER:
            start = (0.0, 0.4)[shape.form]
            return self._ramp(0, way[0], start) * self._ramp(1, way[1], start)
        axis = int(way[0] == 0)
        if shape.mechanism == END:
            return self._ramp(axis, way[axis], shape.start)
        towards = way[axis] * self.relative[axis]
        share = np.clip((towards - shape.start) * (self.half_m[axis] / JOINT_M) + 0.5, 0, 1)
        return np.asarray(share * share * (3 - 2 * share))

    def _ramp(self, axis: int, sign: float, start: float) -> Float:
        def compute() -> Float:
            return np.asarray(np.clip((sign * self.relative[axis] - start) / (1 - start), 0, 1.5))

        return self._once(("ramp", axis, sign, start), compute)

    def _bell(self, axis: int, middle: float, form: int) -> Float:
        def compute() -> Float:
            from_middle_m = self.place_m[axis] - middle * self.half_m[axis]
            return np.asarray(np.exp(from_middle_m**2 * (-0.5 * (SIGMAS / RADII_M[form]) ** 2)))

        return self._once(("bell", axis, middle, form), compute)

    def _across_share(self, shape: Shape) -> Float:
        way, (x, y), (half_x, half_y) = shape.towards, self.place_m, self.half_m
        extent_m = half_x * abs(way[0]) + half_y * abs(way[1])
        # Without the axis that it does not cross, so that it stays a profile.
        across_m = sum(part * share for part, share in zip((x, y), way, strict=True) if share)
        return np.asarray((across_m / extent_m - shape.start) / TROUGHS[shape.form][1])


def displacement(shape: Shape, profiles: ShapeProfiles) -> tuple[Float, tuple[Float, Float]]:
    """Return the vertical displacement for a unit drop, and the direction along x and y of
    the horizontal displacement; arrays that broadcast to the places."""
    up, way = profiles.uplift(shape), shape.towards
    if shape.mechanism == BOWL:
        radius = RADII_M[shape.form]
        parts = zip(profiles.place_m, way, profiles.half_m, strict=True)
        x, y = ((middle * half_m - place_m) / radius for place_m, middle, half_m in parts)
        return up, (x, y)
    if shape.mechanism == BENDING:
        share = profiles.across_share(shape)
        return up, (-share * way[0], -share * way[1])
    length = np.sqrt(2) if shape.mechanism == CORNER else 1.0
    return up, (np.asarray(way[0] / length), np.asarray(way[1] / length))


def responses(xy: Float, los: Float, side: Float) -> Float:
    """Return scatterers' LOS displacement (b, S, P), mm, for 1 mm up of each of `ALL`.

    Args:
        xy: (b, P, 2) m from the centre. los: (b, P, 3) x, y, up. side: (b, 2) m.
    """
    response = np.empty((len(ALL), len(xy), xy.shape[1]))
    x, y = np.ascontiguousarray(np.moveaxis(xy, -1, 0))
    profiles, (los_x, los_y, los_up) = (
        ShapeProfiles(x, y, side),
        np.ascontiguousarray(np.moveaxis(los, 2, 0)),
    )
    for number, shape in enumerate(ALL):
        if not shape.pull:
            np.multiply(profiles.uplift(shape), los_up, out=response[number])
            continue
        up, (way_x, way_y) = displacement(shape, profiles)
        along = los_up - shape.pull * (los_x * way_x + los_y * way_y)
        np.multiply(up, along, out=response[number])
    return response.swapaxes(0, 1)


def strains_per_mm(side: Float) -> Array:
    """Return the largest strain (b, S, 4) of each quadrant, permille, for 1 mm of each of
    `ALL`; `side` (b, 2) m.

    Sides are rounded as in `compute_strains`.
    """
    keys, place = compute_strains(side)
    return np.stack([_STRAINS[key] for key in keys])[place]


def compute_strains(side: Float) -> tuple[list[tuple[float, float]], NDArray[np.intp]]:
    """Compute the strains of buildings with sides (b, 2), m, once; the more at a time, the faster.

    Sides are rounded to 1 m, longer ones to 2 m, so that a city has few different pairs.

    Returns:
        The different pairs of rounded sides, and the number (b,) of each building's pair.
    """
    rounded = np.where(side < LONG_M, np.maximum(np.round(side), 1.0), 2 * np.round(side / 2))
    pairs, place = np.unique(rounded, axis=0, return_inverse=True)
    keys = [(x, y) for x, y in pairs.tolist()]
    with _STRAINS_LOCK:
        for long in (False, True):
            fresh = [key for key in keys if key not in _STRAINS and (max(key) > LONG_M) == long]
            for start in range(0, len(fresh), PAIRS):
                batch = fresh[start : start + PAIRS]
                _STRAINS.update(zip(batch, _strains(np.array(batch), LINES[long]), strict=True))
    return keys, place.ravel()


def accepted(by_quadrant: Float) -> NDArray[np.bool_]:
    """Return (..., 4) whether the strain (..., 4) of each quadrant is nearly the largest."""
    return np.asarray(by_quadrant >= ACCEPTED_SHARE * by_quadrant.max(-1, keepdims=True))


class _Mirrored(NamedTuple):
    """The shapes without their mirror images: of a corner, one of four."""

    shapes: tuple[Shape, ...]
    """Shapes towards the north-east."""
    of: NDArray[np.intp]
    """(S,) number of the shape of which each of `ALL` is a mirror image."""
    quadrant: NDArray[np.intp]
    """(S, 4) quadrant of that shape for each quadrant of the mirror image."""


def _mirrored() -> _Mirrored:
    images = [
        shape._replace(towards=(abs(shape.towards[0]), abs(shape.towards[1])), prior=0.0)
        for shape in ALL
    ]
    shapes = list(dict.fromkeys(images))
    sign = np.where(np.array([shape.towards for shape in ALL]) < 0, -1, 1)
    quadrant = ((SIGNS * sign[:, None])[:, :, None] == SIGNS).all(-1).argmax(-1)
    return _Mirrored(tuple(shapes), np.array([shapes.index(image) for image in images]), quadrant)


MIRRORED = _mirrored()


def _strains(side: Array, lines: int) -> Array:
    """Compute strains (b, S, 4) by the label's definition, on a lattice of `lines` lines
    along each axis.

    A shape that does not vary along an axis needs no more than the two edges there.
    """
    strain = np.empty((len(side), len(MIRRORED.shapes), 4))
    for axes in ((0,), (1,), (0, 1)):
        numbers = [number for number, shape in enumerate(MIRRORED.shapes) if _axes(shape) == axes]
        lattice = tuple(lines if axis in axes else 2 for axis in (0, 1))
        strain[:, numbers] = _strains_on(
            side, [MIRRORED.shapes[number] for number in numbers], lattice
        )
    return np.asarray(strain[:, MIRRORED.of[:, None], MIRRORED.quadrant])


def _axes(shape: Shape) -> tuple[int, ...]:
    """Return the axes along which a shape varies."""
    return (
        (0, 1)
        if shape.mechanism in (CORNER, BOWL)
        else tuple(np.flatnonzero(shape.towards).tolist())
    )


def _strains_on(side: Array, shapes: list[Shape], lattice: tuple[int, ...]) -> Array:
    """Compute strains (b, shapes, 4) on a lattice of `lattice` lines in x and in y."""
    largest = np.zeros((len(side), len(shapes), 4))
    lines = [np.linspace(-0.5, 0.5, count) for count in lattice]
    weights = [np.r_[0.5, np.ones(count - 2), 0.5] for count in lattice]
    level = [length[:, None] * line for length, line in zip(side.T, lines, strict=True)]
    up, _ = _fields(shapes, level, side)
    # A bay on the middle line counts on both sides, so that a mirrored shape has mirrored strains.
    halves = [{1: np.s_[count // 2 :], -1: np.s_[: (count + 1) // 2]} for count in lattice]
    for axis in (0, 1):
        weighted = weights[axis] * level[axis]
        arms = (
            np.einsum("bx,y->bxy", weighted, weights[1])
            if axis == 0
            else np.einsum("x,by->bxy", weights[0], weighted)
        )
        moment = (weighted * level[axis]).sum(1) * weights[1 - axis].sum()
        tilt = np.einsum("bsxy,bxy->bs", up, arms) / moment[:, None]
        bay_m = np.array([bay_length(length) for length in side[:, axis]])[:, None]
        low, high = level.copy(), level.copy()
        low[axis] = lines[axis] * (side[:, axis, None] - bay_m) - bay_m / 2
        high[axis] = low[axis] + bay_m
        (low_up, low_along), (high_up, high_along) = (
            _fields(shapes, low, side, axis),
            _fields(shapes, high, side, axis),
        )
        bay_m = bay_m[..., None, None]
        # Slope of the bay less the building's tilt, and its stretch: the label's angular distortion
        # and strain.
        strain = principal_tensile_strain(
            (high_up - low_up) / bay_m - tilt[..., None, None], (high_along - low_along) / bay_m
        )
        for quadrant, (sign_x, sign_y) in enumerate(SIGNS.tolist()):
            in_quadrant = strain[:, :, halves[0][sign_x], halves[1][sign_y]].max((2, 3))
            largest[..., quadrant] = np.maximum(largest[..., quadrant], in_quadrant)
    return largest


def _fields(
    shapes: list[Shape], lattice_m: list[Float], side: Float, axis: int = 0
) -> tuple[Float, Float]:
    """Return vertical displacement (b, shapes, X, Y) for a unit drop on the lattice of lines
    (b, X) and (b, Y), m, and that along an axis."""
    x, y = lattice_m
    up, away = np.zeros((2, len(x), len(shapes), x.shape[1], y.shape[1]))
    profiles = ShapeProfiles(x[:, :, None], y[:, None, :], side)
    for number, shape in enumerate(shapes):
        up[:, number], way = displacement(shape, profiles)
        if shape.pull:
            np.multiply(shape.pull * up[:, number], way[axis], out=away[:, number])
    return up, away


LIKELY_PERMILLE = 2.0
"""Prior standard deviation of a shape's strain. Without it, three scatterers near the middle of a
house would give corners that dropped by metres (ridge regression, Hoerl and Kennard 1970)."""
LIKELY_TILT, WEAK_OFFSET = 3.0, 1e4
"""Prior standard deviations of the rigid motion that the robust plane may have left: tilts, mm/m,
and offsets, mm."""
WARY = 4.0
CELLS = 1 << 18
"""Number of scatterers times shapes that are fitted at a time: bounds the memory."""
LEAST_SHARE = 1e-6
"""Smallest probability of which a logarithm is taken."""


class ShapeFits(NamedTuple):
    """Evidence of damage from the scatterers of b buildings; quadrants in the order of
    `compass.QUADRANTS`."""

    corner_drop: Float
    """(b, 4) vertical movement of each corner by its first shape, mm."""
    corner_log_odds: Float
    """(b, 4) log probability of each corner, given that one is broken, over all its shapes."""
    corner_severity: Float
    """(b, 4) strain averaged over them by their evidence, permille."""
    best_gain: Float
    """(b, 4) how much more probable the best plain shape that strains no quadrant much more
    than this one is than no damage (log odds)."""
    best_severity: Float
    """(b, 4) strain of that fit by the label definition, permille."""
    log_odds: Float
    """(b, 4) log probability of each quadrant, given that there is damage, over all shapes."""
    wary_log_odds: Float
    """(b, 4) the same with the evidence divided by `WARY`: no shape is quite the true one."""
    end_log_odds: Float
    """(b, 4) the same as `log_odds`, over ends alone."""
    step_log_odds: Float
    bowl_log_odds: Float
    bending_log_odds: Float
    severity: Float
    """(b, 4) largest strain in each quadrant, averaged over all shapes by their evidence,
    permille."""
    mechanism_gain: Float
    """(b, 5) log of how much more probable each mechanism makes the scatterers than no damage
    does."""
    mechanism_severity: Float
    """(b, 5) strain averaged over its shapes by their evidence, permille."""


def fit_shapes(
    xy: Float,
    los: Float,
    residual: Float,
    *,
    error: Float,
    rigid: Float,
    mask: NDArray[np.bool_],
    side: Float,
) -> ShapeFits:
    """Fit each shape together with the rigid motion, robustly, to the residuals of the
    robust plane.

    Args:
        xy: (b, P, 2). los: (b, P, 3). residual, error: (b, P) mm along LOS.
        rigid: (b, P, 2 + tracks) see `rigid_design`. mask: (b, P). side: (b, 2) m.
    """
    size = max(1, CELLS // (len(ALL) * max(xy.shape[1], 1)))
    parts = [
        _describe_fits(
            xy[at],
            los[at],
            residual[at],
            error=error[at],
            rigid=rigid[at],
            mask=mask[at],
            side=side[at],
        )
        for at in (slice(start, start + size) for start in range(0, len(xy), size))
    ]
    return ShapeFits(*(np.concatenate(part) for part in zip(*parts, strict=True)))


class _FittedShapes(NamedTuple):
    """All shapes, fitted to b buildings."""

    drop: Float
    """(b, S) mm."""
    evidence: Float
    """(b, S) log of how much more probable it makes the scatterers than no damage does."""
    by_quadrant: Float
    """(b, S, 4) strain for 1 mm."""
    responses: Float
    """(b, S, P)"""
    variance: Float
    """(b, P) variance of a scatterer's residual beside its building's rigid motion, mm2."""


def _fit_all(
    xy: Float,
    los: Float,
    residual: Float,
    *,
    error: Float,
    rigid: Float,
    mask: NDArray[np.bool_],
    side: Float,
) -> _FittedShapes:
    """Fit all shapes to some buildings; `rigid` is their `rigid_design`."""
    rigid_prior = np.array([LIKELY_TILT, LIKELY_TILT, *[WEAK_OFFSET] * (rigid.shape[2] - 2)]) ** -2
    undamaged = student_fit(rigid, residual, error, mask, rigid_prior)
    variance = error**2 + (undamaged.spread**2)[:, None]
    undamaged_loss = _negative_log_posterior(undamaged, variance, mask, rigid_prior)

    by_quadrant = strains_per_mm(side)
    prior = np.empty((*by_quadrant.shape[:2], len(rigid_prior) + 1))
    prior[..., :-1], prior[..., -1] = rigid_prior, (by_quadrant.max(2) / LIKELY_PERMILLE) ** 2
    shape_response = responses(xy, los, side)
    fit = student_fits(rigid, shape_response, residual, error=error, mask=mask, prior=prior)
    loss = _negative_log_posterior(fit, variance[:, None, :], mask[:, None, :], prior)
    # Laplace's approximation: the likeliest fit, and the width of the drop's posterior by that of
    # its prior.
    evidence = (
        undamaged_loss[:, None] - loss - np.log(fit.last_precision / prior[..., -1]) / 2 + LOG_PRIOR
    )
    return _FittedShapes(fit.solution[..., -1], evidence, by_quadrant, shape_response, variance)


def damage_pattern(
    xy: Float,
    los: Float,
    residual: Float,
    *,
    error: Float,
    rigid: Float,
    mask: NDArray[np.bool_],
    side: Float,
) -> tuple[Float, Float]:
    """Return the LOS displacement (b, P) by damage, mm, averaged over all shapes by their evidence.

    Beside it the variance (b, P), mm2, of a scatterer's residual. Arguments as of `fit_shapes`.
    """
    fits = _fit_all(xy, los, residual, error=error, rigid=rigid, mask=mask, side=side)
    share = softmax(fits.evidence, axis=1) * fits.drop
    return np.einsum("bs,bsp->bp", share, fits.responses), fits.variance


def _describe_fits(
    xy: Float,
    los: Float,
    residual: Float,
    *,
    error: Float,
    rigid: Float,
    mask: NDArray[np.bool_],
    side: Float,
) -> ShapeFits:
    """Fit some buildings; `rigid` is their `rigid_design`."""
    drop, evidence, by_quadrant, _, _ = _fit_all(
        xy, los, residual, error=error, rigid=rigid, mask=mask, side=side
    )
    per_mm = by_quadrant.max(2)
    severity = np.abs(drop) * per_mm

    accepted_share = accepted(by_quadrant)
    accepted_share = accepted_share / accepted_share.sum(2, keepdims=True)
    share = softmax(evidence, axis=1)
    corner = MECHANISM == CORNER
    of_corner = softmax(evidence[:, corner], axis=1).reshape(len(xy), 4, -1)
    corner_share = of_corner.sum(2)
    of_mechanism = [number == MECHANISM for number in range(len(FAILURES))]
    # Among the quadrants that a shape strains alike, the one with the largest strain gets the full
    # evidence.
    worst = np.log(np.maximum(by_quadrant[:, PLAIN], 1e-9) / per_mm[:, PLAIN, None])
    plain = np.where(accepted_share[:, PLAIN], evidence[:, PLAIN, None] + worst, -np.inf)
    best = plain.argmax(1)
    return ShapeFits(
        corner_drop=drop[:, corner].reshape(len(xy), 4, -1)[..., 0],
        corner_log_odds=np.log(np.maximum(corner_share, LEAST_SHARE)),
        # A corner that explains nothing has no shape that explains it best: then all count
        # the same.
        corner_severity=_average(severity[:, corner].reshape(len(xy), 4, -1), of_corner),
        best_gain=np.where(
            np.isfinite(gain := np.take_along_axis(plain, best[:, None], 1)[:, 0]), gain, 0.0
        ),
        best_severity=np.where(
            np.isfinite(gain), np.take_along_axis(severity[:, PLAIN], best, 1), 0.0
        ),
        log_odds=_log_odds(share, accepted_share),
        wary_log_odds=_log_odds(softmax(evidence / WARY, axis=1), accepted_share),
        **{
            f"{FAILURES[number]}_log_odds": _log_odds(
                softmax(evidence[:, of_mechanism[number]], axis=1),
                accepted_share[:, of_mechanism[number]],
            )
            for number in range(1, len(FAILURES))
        },
        severity=np.einsum("bs,bs,bsq->bq", share, np.abs(drop), by_quadrant),
        mechanism_gain=np.stack(
            [logsumexp(evidence[:, members], axis=1) for members in of_mechanism], axis=1
        ),
        mechanism_severity=np.stack(
            [
                _average(severity[:, members], softmax(evidence[:, members], axis=1))
                for members in of_mechanism
            ],
            axis=1,
        ),
    )


def _log_odds(share: Float, accepted_share: Float) -> Float:
    """Return the quadrants' log probability (b, 4) from shapes (b, S) and the quadrants
    they strain most (b, S, 4)."""
    return np.asarray(
        np.log(np.maximum(np.einsum("bs,bsq->bq", share, accepted_share), LEAST_SHARE))
    )


def _average(values: Float, share: Float) -> Float:
    return np.asarray(((share + 1e-12) * values).sum(-1) / (share + 1e-12).sum(-1))


def _negative_log_posterior(
    fit: Fit, variance: Float, mask: NDArray[np.bool_], prior: Float
) -> Float:
    """Return the negative log posterior of each fit, up to a constant that all fits of a
    building share."""
    return np.asarray(misfit(fit.residual, variance, mask) + (prior * fit.solution**2).sum(-1) / 2)
