"""Define the shapes of failures: corners, ends, steps, bowls, bending.

All shapes are functions of `u, v`: building-frame coordinates in half sides, turned so that the
failing corner is (1, 1). They are 1 at that corner and vanish towards the opposite one.

An end turns about a hinge across the building, as the longer part of a wall does in
Burland, Broms and de Mello (1977), Behaviour of foundations and structures. A step is the
same movement taken up by one joint or party wall. A bowl is the ground above a void, a leak
or a well: the influence function of Knothe (1957), whose horizontal displacement goes with
the slope (Kratzsch 1983, Mining subsidence engineering), or a raised cosine. Bending is
that over a Gaussian trough (Peck 1969), sagging over its axis and hogging beside it (Mair,
Taylor and Burland 1996).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plumbline.core.arrays import Array
from plumbline.core.strain import MECHANISMS
from plumbline.params.simulate import Mechanisms
from plumbline.simulate.random_numbers import log_uniform
from plumbline.simulate.structure.labels import Strains, strains
from plumbline.simulate.structure.layout import CORNERS

PRODUCT, DIAGONAL, RADIAL, SIGMOID = range(4)
"""Families: two hinges crossing; one oblique hinge; rings about the corner; two crossing
hinges that level off."""
FAMILY_SHARES = (0.35, 0.35, 0.15, 0.15)
OPENING_SHARE, MOST_OPENING = 0.5, 1.0
"""Share of failures that also move away from the building, and how far at most, as a share
of the drop."""


@dataclass(frozen=True)
class Hinges:
    """A failing corner of each of B buildings."""

    family: NDArray[np.intp]
    """(B,) PRODUCT, DIAGONAL, RADIAL or SIGMOID."""
    corner: NDArray[np.intp]
    """(B,) the failing corner, as index into `compass.QUADRANTS`."""
    half: Array
    """(B, 2) half sides, m."""
    start: Array
    """(B, 2) where the hinge starts along x and y, in half sides from the centre."""
    softness: Array
    """(B,) width of the bend at the start, in half sides."""
    power: Array
    """(B, 2) exponents along x and y; 1 is a rigid corner piece, more a bending one."""
    weight: Array
    """(B,) share of x in the direction of an oblique hinge."""
    opening: Array
    """(B,) movement away from the building, along the diagonal of its frame, as a share of
    the drop."""
    drop: Array
    """(B,) vertical displacement of the corner, mm, up positive; 0 without a failure."""

    def field(self, index: NDArray[np.intp], x: Array, y: Array) -> tuple[Array, Array, Array]:
        """Return displacement (vertical, along x and y), mm, at building-frame positions,
        m, of buildings `index`."""
        up = self.up(index, x, y)
        away = (self.opening[index] * np.abs(up) / np.sqrt(2))[..., None] * CORNERS[
            self.corner[index]
        ]
        return up, away[..., 0], away[..., 1]

    def up(self, index: NDArray[np.intp], x: Array, y: Array) -> Array:
        """Return vertical displacement, mm, at building-frame positions, m, of buildings
        `index`."""
        sign, half = CORNERS[self.corner[index]], self.half[index]
        u, v = sign[..., 0] * x / half[..., 0], sign[..., 1] * y / half[..., 1]
        # The ramps' value at the corner, once a building and not once a position.
        full = softplus((1 - self.start) / self.softness[:, None])
        shape = np.zeros_like(u)
        for family in range(len(FAMILY_SHARES)):
            at = np.flatnonzero(self.family[index] == family)
            shape[at] = self._shape(index[at], family, u[at], v[at], full)
        return np.asarray(self.drop[index] * shape, float)

    def _shape(
        self, index: NDArray[np.intp], family: int, u: Array, v: Array, full: Array
    ) -> Array:
        soft = self.softness[index]
        (start_x, start_y), (power_x, power_y), (full_x, full_y) = (
            self.start[index].T,
            self.power[index].T,
            full[index].T,
        )
        if family == DIAGONAL:
            weight = self.weight[index]
            return ramp(weight * u + (1 - weight) * v, start_x, soft, power_x, full_x)
        if family == RADIAL:
            return ramp(1 - np.hypot(1 - u, 1 - v), start_x, soft, power_x, full_x)
        if family == SIGMOID:
            return np.asarray(
                smoothstep(u, start_x) ** power_x * smoothstep(v, start_y) ** power_y, float
            )
        return ramp(u, start_x, soft, power_x, full_x) * ramp(v, start_y, soft, power_y, full_y)


def softplus(value: Array) -> Array:
    """Return `log(1 + exp(value))`."""
    return np.asarray(np.maximum(value, 0) + np.log1p(np.exp(-np.abs(value))), float)


def ramp(u: Array, start: Array, softness: Array, power: Array, full: Array) -> Array:
    """Return a softplus ramp, raised to `power`: near 0 before `start`, 1 at `u = 1`.

    `full` is the softplus at `u = 1`: `softplus((1 - start) / softness)`.
    """
    return np.asarray((softplus((u - start) / softness) / full) ** power, float)


def smoothstep(u: Array, start: Array | float) -> Array:
    """Return `3 s^2 - 2 s^3`, `s` from 0 at `start` to 1 at `u = 1`: steepest half way,
    level at the edge."""
    s = np.clip((u - start) / (1 - start), 0, 1)
    return np.asarray(s * s * (3 - 2 * s), float)


def draw_hinges(rng: np.random.Generator, side: Array, standing: NDArray[np.bool_]) -> Hinges:
    """Draw hinges of a drop of -1 mm for buildings with sides (B, 2) in m.

    Args:
        rng: the generator to draw from.
        side: (B, 2) sides, m.
        standing: (B, 4) which corners of the rectangle the footprint really has; the others
            cannot fail.
    """
    count = len(side)
    start = rng.uniform(0, 0.6, (count, 2))
    together = rng.random(count) < 0.5
    start[together, 1] = start[together, 0]
    power = np.where(rng.random((count, 1)) < 0.4, 1.0, rng.uniform(1, 3, (count, 2)))
    together = rng.random(count) < 0.6
    power[together, 1] = power[together, 0]
    return Hinges(
        family=rng.choice(len(FAMILY_SHARES), size=count, p=FAMILY_SHARES),
        corner=(rng.random((count, 4)) * standing).argmax(axis=1),
        half=side / 2,
        start=start,
        softness=log_uniform(rng, 0.05, 0.25, count),
        power=power,
        weight=rng.uniform(0.3, 0.7, count),
        opening=np.where(
            rng.random(count) < OPENING_SHARE, rng.uniform(0, MOST_OPENING, count), 0.0
        ),
        drop=-np.ones(count),
    )


END, STEP, BOWL, BENDING = (MECHANISMS.index(name) for name in ("end", "step", "bowl", "bending"))
STEP_M = (0.3, 1.5)
"""Width over which a joint takes up a step."""
BOWL_M = (2.0, 15.0)
"""Radius of a bowl; log-uniform, so that small ones, which few points can show, are as
common as large ones."""
BESIDE = 1.25
"""Largest distance of a bowl's middle, in half sides: one in three is beside the footprint."""
TROUGH_M = (3.0, 16.0)
"""Distance of a trough's inflection from its axis."""
OBLIQUE = 0.3
"""Largest angle of hinge and joint against the building, rad; half of them are not turned."""
SIGMAS = 3.0
"""Standard deviations of Knothe's bowl that count as its radius."""


@dataclass(frozen=True)
class Failures:
    """One failure, not of a corner, of each of B buildings."""

    kind: NDArray[np.intp]
    """(B,) END, STEP, BOWL or BENDING, as index into `strain.MECHANISMS`."""
    at: Array
    """(B, 2) a place in the building's frame, m: on the hinge, the joint or the trough's
    axis, or the bowl's centre."""
    direction: Array
    """(B, 2) unit vector square to hinge, joint or axis, towards the part that moves."""
    width: Array
    """(B,) m: how softly the hinge bends, of the joint, the bowl's radius, or the trough's
    inflection."""
    reach: Array
    """(B,) m from the hinge to the end of the building."""
    power: Array
    """(B,) exponent of an end's ramp; of a bowl, 1 for Knothe's and 2 for a raised cosine."""
    pull: Array
    """(B,) horizontal displacement as a share of the vertical: end and joint open, bowl and
    trough draw inwards."""
    drop: Array
    """(B,) vertical displacement where it is largest, mm, up positive; 0 without a failure."""

    def field(self, index: NDArray[np.intp], x: Array, y: Array) -> tuple[Array, Array, Array]:
        """Return displacement (vertical, along x and y), mm, at building-frame positions,
        m, of buildings `index`."""
        up, away = np.zeros_like(x), np.zeros((2, len(x)))
        for kind, shape in (
            (END, self._end),
            (STEP, self._step),
            (BOWL, self._bowl),
            (BENDING, self._bending),
        ):
            at = np.flatnonzero((self.kind[index] == kind) & (self.drop[index] != 0))
            building = index[at]
            from_x, from_y = x[at] - self.at[building, 0], y[at] - self.at[building, 1]
            unit, outward_x, outward_y = shape(building, from_x, from_y)
            up[at] = self.drop[building] * unit
            stretch = self.pull[building] * np.abs(up[at])
            away[:, at] = stretch * outward_x, stretch * outward_y
        return up, away[0], away[1]

    def _beyond(self, building: NDArray[np.intp], x: Array, y: Array) -> Array:
        """Return the distance beyond hinge, joint or axis, m."""
        return np.asarray(self.direction[building, 0] * x + self.direction[building, 1] * y, float)

    def _end(self, building: NDArray[np.intp], x: Array, y: Array) -> tuple[Array, Array, Array]:
        soft = self.width[building]
        unit = softplus(self._beyond(building, x, y) / soft) / softplus(self.reach[building] / soft)
        return unit ** self.power[building], *self.direction[building].T

    def _step(self, building: NDArray[np.intp], x: Array, y: Array) -> tuple[Array, Array, Array]:
        return smoothstep(
            self._beyond(building, x, y) / self.width[building] + 0.5, 0.0
        ), *self.direction[building].T

    def _bowl(self, building: NDArray[np.intp], x: Array, y: Array) -> tuple[Array, Array, Array]:
        radius = self.width[building]
        share = np.hypot(x, y) / radius
        knothe = np.exp(-0.5 * (SIGMAS * share) ** 2)
        cosine = (1 + np.cos(np.pi * np.minimum(share, 1))) / 2
        return np.where(self.power[building] < 1.5, knothe, cosine), -x / radius, -y / radius

    def _bending(
        self, building: NDArray[np.intp], x: Array, y: Array
    ) -> tuple[Array, Array, Array]:
        share = self._beyond(building, x, y) / self.width[building]
        return np.exp(-0.5 * share**2), *(-share * self.direction[building].T)


def draw_failures(rng: np.random.Generator, kind: NDArray[np.intp], side: Array) -> Failures:
    """Draw failures of a drop of -1 mm for buildings with sides (B, 2) in m.

    Args:
        rng: the generator to draw from.
        kind: (B,) END, STEP, BOWL or BENDING; a failure of another kind is never moved.
        side: (B, 2) sides, m.
    """
    count, half = len(kind), side / 2
    axis = rng.integers(0, 2, count)
    sign = rng.choice([-1.0, 1.0], count)
    turn = np.where(rng.random(count) < 0.5, 0.0, rng.uniform(-OBLIQUE, OBLIQUE, count))
    turn = np.where(kind == BENDING, rng.uniform(-np.pi, np.pi, count), turn + axis * np.pi / 2)
    direction = sign[:, None] * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    reach = (np.abs(direction) * half).sum(axis=1)
    # Along the way from one end of the building to the other, in half of it.
    along = np.select(
        [kind == END, kind == STEP],
        [rng.uniform(-0.3, 0.6, count), rng.uniform(-0.7, 0.7, count)],
        rng.uniform(-1.5, 1.5, count),
    )
    at = (along * reach)[:, None] * direction
    at = np.where((kind == BOWL)[:, None], rng.uniform(-BESIDE, BESIDE, (count, 2)) * half, at)
    width = np.select(
        [kind == END, kind == STEP, kind == BOWL],
        [
            log_uniform(rng, 0.03, 0.25, count) * reach,
            rng.uniform(*STEP_M, count),
            log_uniform(rng, *BOWL_M, count),
        ],
        log_uniform(rng, *TROUGH_M, count),
    )
    power = np.where(
        kind == BOWL,
        rng.integers(1, 3, count),
        np.where(rng.random(count) < 0.5, 1.0, rng.uniform(1, 2.5, count)),
    )
    opened = np.where(rng.random(count) < OPENING_SHARE, rng.uniform(0, 0.8, count), 0.0)
    # A building follows little of a trough's horizontal strain (Potts and Addenbrooke 1997).
    # The width parameter K is 0.25 to 0.5.
    damped = log_uniform(rng, 0.01, 0.2, count) * rng.uniform(0.25, 0.5, count)
    return Failures(
        kind=kind,
        at=at,
        direction=direction,
        width=width,
        reach=np.maximum((1 - along) * reach, 0.1),
        power=power.astype(float),
        pull=np.where(kind == BENDING, damped, opened),
        drop=-np.ones(count),
    )


CORNER, SEVERAL = (MECHANISMS.index(name) for name in ("corner", "several"))
NONE = -1
TARGET_PERMILLE = (0.1, 6.0)
"""Range of the strain of a local failure by itself; log-uniform."""
MOST_DROP_MM = 600.0
"""Largest drop of a failure. One that needs more for its strain hardly touches the footprint and is
left out: a bowl far beside it, or a corner where a borrowed footprint has a thin wing or none."""
UPWARD_SHARE = 0.03
"""Share of failures that are lifted, as by swelling clay; the others drop."""
SECOND_SHARE = 0.5
"""Smallest strain of a second failure by itself, as a share of that of the first."""


class Failure(NamedTuple):
    """One failure of each of B buildings: of a corner, of another kind, or none."""

    corner: Hinges
    other: Failures

    @property
    def drop(self) -> Array:
        """(B,) mm; 0 where nothing fails."""
        return np.asarray(self.corner.drop + self.other.drop, float)

    def field(self, index: NDArray[np.intp], x: Array, y: Array) -> tuple[Array, Array, Array]:
        """Return displacement (vertical, along x and y), mm, at building-frame positions,
        m, of buildings `index`."""
        displacement = np.stack(self.other.field(index, x, y))
        at = np.flatnonzero(self.corner.drop[index] != 0)
        displacement[:, at] += np.stack(self.corner.field(index[at], x[at], y[at]))
        return displacement[0], displacement[1], displacement[2]

    def scaled(self, factor: Array) -> Failure:
        """Return failures `factor` (B,) times as large; their strain grows in proportion."""
        corner = replace(self.corner, drop=self.corner.drop * factor)
        return Failure(corner, replace(self.other, drop=self.other.drop * factor))


@dataclass(frozen=True)
class LocalFailures:
    """Failures of B buildings, and the strain of each by itself."""

    first: Failure
    second: Failure
    """Failure at the same time; in most buildings none."""
    strains: Strains
    """(B,) of both together."""
    mechanism: NDArray[np.intp]
    """(B,) index into `strain.MECHANISMS`, or NONE."""

    @property
    def failing(self) -> NDArray[np.bool_]:
        """(B,) where anything fails."""
        return np.asarray(self.mechanism != NONE)

    def field(self, index: NDArray[np.intp], x: Array, y: Array) -> tuple[Array, Array, Array]:
        """Return displacement (vertical, along x and y), mm, at building-frame positions,
        m, of buildings `index`."""
        up, along_x, along_y = self.first.field(index, x, y)
        at = np.flatnonzero(self.second.drop[index] != 0)
        for total, part in zip(
            (up, along_x, along_y), self.second.field(index[at], x[at], y[at]), strict=True
        ):
            total[at] += part
        return up, along_x, along_y


def draw_local_failures(
    rng: np.random.Generator,
    side: Array,
    standing: NDArray[np.bool_],
    damaged: float,
    mechanisms: Mechanisms,
    *,
    outline: NDArray[np.object_] | None = None,
) -> LocalFailures:
    """Draw failures of a share `damaged` of the buildings, each with a log-uniform strain.

    Args:
        rng: the generator to draw from.
        side: (B, 2) m. standing: (B, 4) see `draw_hinges`.
        damaged: share of the buildings.
        mechanisms: how often each fails.
        outline: (B,) footprints as `footprints.own_outlines`; without, all are rectangles.
    """
    count = len(side)
    failed = rng.random(count) < damaged
    target = log_uniform(rng, *TARGET_PERMILLE, count)
    kind = _draw_kinds(rng, mechanisms, count)
    first, first_strains = _scale_to_target(
        rng, _draw_unit_failure(rng, kind, side, standing, failed), target, side, outline
    )
    failed = first.drop != 0

    twice = failed & (rng.random(count) < mechanisms.twice)
    share = rng.uniform(SECOND_SHARE, 1, count)
    unit = _draw_unit_failure(rng, _draw_kinds(rng, mechanisms, count), side, standing, twice)
    second, _ = _scale_to_target(rng, unit, target * share, side, outline)
    twice = second.drop != 0
    mechanism = np.where(failed, np.where(twice, SEVERAL, kind), NONE)
    failures = LocalFailures(first, second, first_strains, mechanism)
    strains_of_both = strains(failures.field, side, np.flatnonzero(twice), outline)
    return replace(failures, strains=strains_of_both.where(twice, first_strains))


def _draw_kinds(rng: np.random.Generator, mechanisms: Mechanisms, count: int) -> NDArray[np.intp]:
    shares = np.array(mechanisms.shares)
    return rng.choice(len(shares), size=count, p=shares / shares.sum())


def _draw_unit_failure(
    rng: np.random.Generator,
    kind: NDArray[np.intp],
    side: Array,
    standing: NDArray[np.bool_],
    failed: NDArray[np.bool_],
) -> Failure:
    """Draw one failure of -1 mm for each building that `failed`."""
    hinges, failures = draw_hinges(rng, side, standing), draw_failures(rng, kind, side)
    is_corner = kind == CORNER
    return Failure(
        replace(hinges, drop=hinges.drop * (is_corner & failed)),
        replace(failures, drop=failures.drop * (~is_corner & failed)),
    )


def _scale_to_target(
    rng: np.random.Generator,
    failure: Failure,
    target: Array,
    side: Array,
    outline: NDArray[np.object_] | None,
) -> tuple[Failure, Strains]:
    """Scale each failure to strain its building by `target` (B,) permille; return it and
    its strain.

    The field and its strain are proportional to the drop, so one evaluation is enough. Up and down
    differ, since only tension counts: the sign is drawn before.
    """
    sign = np.where(rng.random(len(target)) < UPWARD_SHARE, -1.0, 1.0)
    failure = failure.scaled(sign)
    failed = failure.drop != 0
    unit = strains(failure.field, side, np.flatnonzero(failed), outline)
    failed &= unit.severity_permille > target / MOST_DROP_MM
    factor = np.divide(target, unit.severity_permille, out=np.zeros(len(target)), where=failed)
    return failure.scaled(factor), unit.scaled(factor)
