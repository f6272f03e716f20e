"""Draw the failure of each building, by one mechanism or two at once, and scale it to a drawn strain."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plumbline.core.strain import MECHANISMS
from plumbline.params.simulate import Mechanisms
from plumbline.simulate.random_numbers import log_uniform
from plumbline.simulate.structure.corner_failures import Hinges, draw_hinges
from plumbline.simulate.structure.labels import Strains, strains
from plumbline.simulate.structure.other_failures import Failures, draw_failures

Array = NDArray[np.float64]
CORNER, BENDING, SEVERAL = (MECHANISMS.index(name) for name in ("corner", "bending", "several"))
NONE = -1
TARGET_PERMILLE = (0.1, 6.0)
"""Range of the strain of a local failure by itself; log-uniform."""
MOST_DROP_MM = 600.0
"""What would have to move further for its strain does not fail: it hardly bears on the footprint, as a bowl far beside
it, or a corner where a borrowed footprint has a thin wing or none."""
UPWARD_SHARE = 0.03
"""Failures that are lifted, as by swelling clay; the others drop."""
SECOND_SHARE = 0.5
"""A second failure is one that by itself strains the building by this share of the first at least."""


class Failure(NamedTuple):
    """One failure of each of B buildings: of a corner, of another kind, or none."""

    corner: Hinges
    other: Failures

    @property
    def drop(self) -> Array:
        """(B,) mm; 0 where nothing fails."""
        return np.asarray(self.corner.drop + self.other.drop, float)

    def field(self, index: NDArray[np.intp], x: Array, y: Array) -> tuple[Array, Array, Array]:
        """Return displacement (vertical, along x and y), mm, at building-frame positions, m, of buildings `index`."""
        found = np.stack(self.other.field(index, x, y))
        at = np.flatnonzero(self.corner.drop[index] != 0)
        found[:, at] += np.stack(self.corner.field(index[at], x[at], y[at]))
        return found[0], found[1], found[2]

    def scaled(self, factor: Array) -> Failure:
        """Return failures `factor` (B,) times as large; their strain grows in proportion."""
        corner = replace(self.corner, drop=self.corner.drop * factor)
        return Failure(corner, replace(self.other, drop=self.other.drop * factor))


@dataclass(frozen=True)
class LocalFailures:
    """Failures of B buildings, and the strain of each by itself."""

    first: Failure
    second: Failure
    """At the same time; in most buildings none."""
    strains: Strains
    """(B,) of both together."""
    mechanism: NDArray[np.intp]
    """(B,) index into `strain.MECHANISMS`, or NONE."""

    @property
    def failing(self) -> NDArray[np.bool_]:
        """(B,) where anything fails."""
        return np.asarray(self.mechanism != NONE)

    def field(self, index: NDArray[np.intp], x: Array, y: Array) -> tuple[Array, Array, Array]:
        """Return displacement (vertical, along x and y), mm, at building-frame positions, m, of buildings `index`."""
        up, along_x, along_y = self.first.field(index, x, y)
        at = np.flatnonzero(self.second.drop[index] != 0)
        for total, part in zip((up, along_x, along_y), self.second.field(index[at], x[at], y[at]), strict=True):
            total[at] += part
        return up, along_x, along_y


def draw_local_failures(
    rng: np.random.Generator,
    side: Array,
    standing: NDArray[np.bool_],
    damaged: float,
    mechanisms: Mechanisms,
    outline: NDArray[np.object_] | None = None,
) -> LocalFailures:
    """Let a share `damaged` of the buildings fail, each by a log-uniform strain.

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
    kind = _kinds(rng, mechanisms, count)
    first, alone = _scaled(rng, _draw(rng, kind, side, standing, failed), target, side, outline)
    failed = first.drop != 0

    twice = failed & (rng.random(count) < mechanisms.twice)
    share = rng.uniform(SECOND_SHARE, 1, count)
    again = _draw(rng, _kinds(rng, mechanisms, count), side, standing, twice)
    second, _ = _scaled(rng, again, target * share, side, outline)
    twice = second.drop != 0
    mechanism = np.where(failed, np.where(twice, SEVERAL, kind), NONE)
    both = LocalFailures(first, second, alone, mechanism)
    together = strains(both.field, side, np.flatnonzero(twice), outline)
    return replace(both, strains=together.where(twice, alone))


def _kinds(rng: np.random.Generator, mechanisms: Mechanisms, count: int) -> NDArray[np.intp]:
    shares = np.array(mechanisms.shares)
    return rng.choice(len(shares), size=count, p=shares / shares.sum())


def _draw(
    rng: np.random.Generator,
    kind: NDArray[np.intp],
    side: Array,
    standing: NDArray[np.bool_],
    failed: NDArray[np.bool_],
) -> Failure:
    """Draw one failure of -1 mm for each building that `failed`."""
    corner, other = draw_hinges(rng, side, standing), draw_failures(rng, kind, side)
    is_corner = kind == CORNER
    return Failure(
        replace(corner, drop=corner.drop * (is_corner & failed)),
        replace(other, drop=other.drop * (~is_corner & failed)),
    )


def _scaled(
    rng: np.random.Generator, failure: Failure, target: Array, side: Array, outline: NDArray[np.object_] | None
) -> tuple[Failure, Strains]:
    """Scale each failure to strain its building by `target` (B,) permille; return it and its strain.

    The strain grows in proportion to the drop, which all of the field is a multiple of: one evaluation is enough. Only
    the way up is another than the way down, since what strains most is stretched and not pressed.
    """
    sign = np.where(rng.random(len(target)) < UPWARD_SHARE, -1.0, 1.0)
    failure = failure.scaled(sign)
    failed = failure.drop != 0
    unit = strains(failure.field, side, np.flatnonzero(failed), outline)
    failed &= unit.severity_permille > target / MOST_DROP_MM
    factor = np.divide(target, unit.severity_permille, out=np.zeros(len(target)), where=failed)
    return failure.scaled(factor), unit.scaled(factor)
