"""Let a building fail elsewhere than at a corner: a whole end, a step at a joint, a bowl in the ground, or bending.

An end turns about a hinge across the building, as the longer part of a wall does in Burland, Broms and de Mello (1977),
Behaviour of foundations and structures. A step is the same movement taken up by one joint or party wall. A bowl is the
ground above a void, a leak or a well: the influence function of Knothe (1957), whose horizontal displacement goes with
the slope (Kratzsch 1983, Mining subsidence engineering), or a raised cosine. Bending is that over a Gaussian trough
(Peck 1969), sagging over its axis and hogging beside it (Mair, Taylor and Burland 1996).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plumbline.core.strain import MECHANISMS
from plumbline.simulate.random_numbers import log_uniform
from plumbline.simulate.structure.corner_failures import OPENING_SHARE, smoothstep, softplus

Array = NDArray[np.float64]
END, STEP, BOWL, BENDING = (MECHANISMS.index(name) for name in ("end", "step", "bowl", "bending"))
STEP_M = (0.3, 1.5)
"""Width over which a joint takes up a step."""
BOWL_M = (2.0, 15.0)
"""Radius of a bowl; log-uniform, so that small ones, which few points can show, are as common as large ones."""
BESIDE = 1.25
"""Half sides from the centre up to which a bowl's middle lies: one in three is beside the footprint."""
TROUGH_M = (3.0, 16.0)
"""Distance of a trough's inflection from its axis."""
OBLIQUE = 0.3
"""Radians by which hinge and joint are turned against the building at most; half of them are not."""
SIGMAS = 3.0
"""Standard deviations of Knothe's bowl that count as its radius."""


@dataclass(frozen=True)
class Failures:
    """One failure, not of a corner, of each of B buildings."""

    kind: NDArray[np.intp]
    """(B,) END, STEP, BOWL or BENDING, as index into `strain.MECHANISMS`."""
    at: Array
    """(B, 2) a place in the building's frame, m: on the hinge, the joint or the trough's axis, or the bowl's centre."""
    direction: Array
    """(B, 2) unit vector square to hinge, joint or axis, towards the part that moves."""
    width: Array
    """(B,) m: how softly the hinge bends, of the joint, the bowl's radius, or the trough's inflection."""
    reach: Array
    """(B,) m from the hinge to the end of the building."""
    power: Array
    """(B,) exponent of an end's ramp; of a bowl, 1 for Knothe's and 2 for a raised cosine."""
    pull: Array
    """(B,) horizontal displacement as a share of the vertical: end and joint open, bowl and trough draw inwards."""
    drop: Array
    """(B,) vertical displacement where it is largest, mm, up positive; 0 without a failure."""

    def field(self, index: NDArray[np.intp], x: Array, y: Array) -> tuple[Array, Array, Array]:
        """Return displacement (vertical, along x and y), mm, at building-frame positions, m, of buildings `index`."""
        up, away = np.zeros_like(x), np.zeros((2, len(x)))
        for kind, shape in ((END, self._end), (STEP, self._step), (BOWL, self._bowl), (BENDING, self._bending)):
            at = np.flatnonzero((self.kind[index] == kind) & (self.drop[index] != 0))
            own = index[at]
            from_x, from_y = x[at] - self.at[own, 0], y[at] - self.at[own, 1]
            unit, outward_x, outward_y = shape(own, from_x, from_y)
            up[at] = self.drop[own] * unit
            stretch = self.pull[own] * np.abs(up[at])
            away[:, at] = stretch * outward_x, stretch * outward_y
        return up, away[0], away[1]

    def _beyond(self, own: NDArray[np.intp], x: Array, y: Array) -> Array:
        """Return the distance beyond hinge, joint or axis, m."""
        return np.asarray(self.direction[own, 0] * x + self.direction[own, 1] * y, float)

    def _end(self, own: NDArray[np.intp], x: Array, y: Array) -> tuple[Array, Array, Array]:
        soft = self.width[own]
        unit = softplus(self._beyond(own, x, y) / soft) / softplus(self.reach[own] / soft)
        return unit ** self.power[own], *self.direction[own].T

    def _step(self, own: NDArray[np.intp], x: Array, y: Array) -> tuple[Array, Array, Array]:
        return smoothstep(self._beyond(own, x, y) / self.width[own] + 0.5, 0.0), *self.direction[own].T

    def _bowl(self, own: NDArray[np.intp], x: Array, y: Array) -> tuple[Array, Array, Array]:
        radius = self.width[own]
        share = np.hypot(x, y) / radius
        knothe = np.exp(-0.5 * (SIGMAS * share) ** 2)
        cosine = (1 + np.cos(np.pi * np.minimum(share, 1))) / 2
        return np.where(self.power[own] < 1.5, knothe, cosine), -x / radius, -y / radius

    def _bending(self, own: NDArray[np.intp], x: Array, y: Array) -> tuple[Array, Array, Array]:
        share = self._beyond(own, x, y) / self.width[own]
        return np.exp(-0.5 * share**2), *(-share * self.direction[own].T)


def draw_failures(rng: np.random.Generator, kind: NDArray[np.intp], side: Array) -> Failures:
    """Draw failures of a drop of -1 mm for buildings with sides (B, 2) in m.

    Args:
        rng: the generator to draw from.
        kind: (B,) END, STEP, BOWL or BENDING; what else stands there never moves.
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
        [log_uniform(rng, 0.03, 0.25, count) * reach, rng.uniform(*STEP_M, count), log_uniform(rng, *BOWL_M, count)],
        log_uniform(rng, *TROUGH_M, count),
    )
    power = np.where(
        kind == BOWL, rng.integers(1, 3, count), np.where(rng.random(count) < 0.5, 1.0, rng.uniform(1, 2.5, count))
    )
    opened = np.where(rng.random(count) < OPENING_SHARE, rng.uniform(0, 0.8, count), 0.0)
    # Of a trough's horizontal strain a building follows little (Potts and Addenbrooke 1997); K of 0.25 to 0.5.
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
