"""Draw rare buildings more often, and make buildings worse than they are.

Each perturbed building is fitted and described anew, by the code that prepares buildings. So no input contradicts
another: fits of shapes, gradients and standard errors are those of the scatterers that are left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plumbline.core.strain import category
from plumbline.model.diagnosis import SEVERITY_FLOOR
from plumbline.params import Train
from plumbline.prepare.features.build import recover, redescribe
from plumbline.prepare.features.sequences import Sequences
from plumbline.prepare.scatterers import Scatterers


class Draws(NamedTuple):
    """Random numbers for B buildings of N scatterers; those of a building do not depend on the other ones."""

    chosen_B: NDArray[np.float64]
    """even in 0 to 1: whether it is perturbed"""
    lost_B: NDArray[np.float64]
    """even: which track it may lose"""
    loses_B: NDArray[np.float64]
    """even: whether it loses one"""
    point_N: NDArray[np.float64]
    """even: whether the scatterer is left out"""
    noise_N: NDArray[np.float64]
    """standard normal"""

    def take(self, index: NDArray[np.intp], length: NDArray[np.int64]) -> Draws:
        """Return the numbers of the buildings `index`, ascending; `length` (B,) counts scatterers."""
        own = np.zeros(len(length), dtype=bool)
        own[index] = True
        rows = np.repeat(own, length)
        chosen, lost, loses = (numbers[index] for numbers in self[:3])
        return Draws(chosen, lost, loses, self.point_N[rows], self.noise_N[rows])


def draw_numbers(length: NDArray[np.int64], generator: np.random.Generator) -> Draws:
    """Draw the numbers for buildings with `length` (B,) scatterers."""
    count = int(length.sum())
    chosen, lost, loses = generator.random((3, len(length)))
    return Draws(chosen, lost, loses, generator.random(count), generator.standard_normal(count))


def perturb(sequences: Sequences, losses: Train, least: int, draws: Draws) -> Sequences:
    """Return the same buildings in the same order, a share `losses.perturb` of them perturbed; labels stay.

    Args:
        sequences: in memory.
        losses: `perturb`, `point_dropout`, `track_dropout` and `noise` of it count.
        least: so many scatterers a building keeps, or all that it has.
        draws: numbers of these buildings.
    """
    chosen = np.flatnonzero(draws.chosen_B < losses.perturb)
    if not len(chosen):
        return sequences
    part, draws = sequences.take(chosen), draws.take(chosen, sequences.length)
    scatterers = recover(part)
    keep = drop_tracks(scatterers, losses.track_dropout, least, draws)
    scatterers, draws = (
        _keep(scatterers, keep),
        draws._replace(point_N=draws.point_N[keep], noise_N=draws.noise_N[keep]),
    )
    keep = drop_points(scatterers, losses.point_dropout, least, draws.point_N)
    scatterers = _keep(scatterers, keep)
    noisy = add_noise(scatterers, losses.noise, draws.noise_N[keep])
    return _put(sequences, chosen, redescribe(part, noisy))


def drop_tracks(scatterers: Scatterers, rate: float, least: int, draws: Draws) -> NDArray[np.bool_]:
    """Return (N,) False for the scatterers of one random track, in a share `rate` of the buildings with several.

    A building that would be left with fewer than `least` scatterers keeps all.
    """
    building, track = scatterers.building, scatterers.track
    buildings, tracks = len(draws.lost_B), int(track.max(initial=-1)) + 1
    held = np.zeros((buildings, tracks), dtype=np.intp)
    np.add.at(held, (building, track), 1)
    seen = (held > 0).sum(1)
    # Tracks of a building are numbered from 0 without gaps.
    lost = (draws.lost_B * seen).astype(np.intp)
    left = held.sum(1) - held[np.arange(buildings), lost]
    drops = (draws.loses_B < rate) & (seen > 1) & (left >= least)
    return np.asarray(~(drops[building] & (track == lost[building])))


def drop_points(scatterers: Scatterers, rate: float, least: int, draw_N: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return (N,) False for each scatterer with probability `rate`; each building keeps at least `least`."""
    order = np.lexsort((-draw_N, scatterers.building))
    _, starts, size = np.unique(scatterers.building, return_index=True, return_counts=True)
    rank = np.empty(len(draw_N), dtype=np.intp)
    rank[order] = np.arange(len(draw_N)) - np.repeat(starts, size)
    return (draw_N >= rate) | (rank < least)


def add_noise(scatterers: Scatterers, scale: float, normal_N: NDArray[np.float64]) -> Scatterers:
    """Add normal errors of `scale` standard errors to each scatterer's displacement along the line of sight.

    The standard error grows to that of the sum, by sqrt(1 + scale^2).
    """
    error = scatterers.change_se
    return replace(
        scatterers, change=scatterers.change + scale * error * normal_N, change_se=error * np.hypot(1, scale)
    )


def _keep(scatterers: Scatterers, keep: NDArray[np.bool_]) -> Scatterers:
    """Return the kept scatterers; heights count from the lowest of them, to the same degree as before."""
    if keep.all():
        return scatterers
    _, starts = np.unique(scatterers.building, return_index=True)
    before = np.minimum.reduceat(scatterers.height, starts)
    after = np.minimum.reduceat(np.where(keep, scatterers.height, np.inf), starts)
    return replace(scatterers, height=scatterers.height - (after - before)[scatterers.building]).take(keep)


def _put(sequences: Sequences, index: NDArray[np.intp], part: Sequences) -> Sequences:
    """Return `sequences` with the buildings `index` (ascending) replaced by those of `part`."""
    length = sequences.length
    length[index] = part.length
    offsets = np.r_[0, np.cumsum(length)].astype(np.int64)
    inside = np.zeros(len(sequences), dtype=bool)
    inside[index] = True
    new, old = np.repeat(inside, length), np.repeat(~inside, sequences.length)
    rows = {}
    for name in ("distance", "slope"):
        source = getattr(sequences, name)
        rows[name] = np.empty((offsets[-1], source.shape[1]), dtype=source.dtype)
        rows[name][new], rows[name][~new] = getattr(part, name), source[old]
    geometry = np.array(sequences.geometry)
    geometry[index] = part.geometry
    return replace(sequences, offsets=offsets, geometry=geometry, **rows)


BIN = 0.05
"""Width of the bins of log severity; a bin is about 5 % of strain."""
SMOOTH = 2.0
"""Standard deviation of the kernel that smooths the density of severities, bins."""


def _by_category(severity: NDArray[np.float32], quadrant: NDArray[np.int64]) -> NDArray[np.float64]:
    return _share(category(severity))


def _by_quadrant(severity: NDArray[np.float32], quadrant: NDArray[np.int64]) -> NDArray[np.float64]:
    return _share(quadrant + 1)  # the undefined ones are a class of their own


def _by_both(severity: NDArray[np.float32], quadrant: NDArray[np.int64]) -> NDArray[np.float64]:
    return _share(5 * category(severity) + quadrant + 1)


def _by_severity(severity: NDArray[np.float32], quadrant: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the smoothed density of labels (Yang et al. 2021, Delving into deep imbalanced regression, equation 1).

    On the scale of the loss: the logarithm of permille. A kernel that reaches beyond the first or last bin is divided
    by what of it lies inside, so that even labels get even weights up to their ends.
    """
    log_severity = np.log(np.asarray(severity, float) + SEVERITY_FLOOR)
    place = np.floor((log_severity - log_severity.min()) / BIN).astype(np.int64)
    count = np.bincount(place)
    offset = np.arange(-int(4 * SMOOTH), int(4 * SMOOTH) + 1)
    kernel = np.exp(-((offset / SMOOTH) ** 2) / 2)
    # `full` and cut, because `same` answers with the longer of both.
    inner = slice(len(offset) // 2, len(offset) // 2 + len(count))
    density = np.convolve(count, kernel)[inner] / np.convolve(np.ones(len(count)), kernel)[inner]
    return np.asarray(density[place])


def _share(code: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the size of each building's class."""
    return np.asarray(np.bincount(code).astype(float)[code])


RARITIES: dict[str, Callable[[NDArray[np.float32], NDArray[np.int64]], NDArray[np.float64]]] = {
    "category": _by_category,
    "quadrant": _by_quadrant,
    "both": _by_both,
    "severity": _by_severity,
}
"""`train.balance_by` -> (B,) how common each building's kind is, on any scale."""


def building_weights(severity: NDArray[np.float32], quadrant: NDArray[np.int64], losses: Train) -> NDArray[np.float32]:
    """Return (B,) inverse frequency of each building's kind to the power `balance_strength`; 1 on average.

    At strength 1 all classes have the same sum of weights, `B / classes` (King and Zeng 2001, section 4).

    Args:
        severity: (B,) permille. quadrant: (B,) code or -1.
        losses: `balance_by` and `balance_strength` of it count.
    """
    common = RARITIES[losses.balance_by](severity, quadrant)
    weight = common**-losses.balance_strength
    return np.asarray(weight / weight.mean(), dtype=np.float32)


def draw_by_weight(weight: NDArray[np.float32], generator: np.random.Generator) -> NDArray[np.int32]:
    """Draw (B,) indices in random order, building b `B weight[b] / sum(weight)` times.

    Systematic sampling (Madow and Madow 1944): evenly spaced places on the cumulative weights of a shuffled list, so
    each building comes that often, rounded down or up, and exactly that often on average. Drawing each place for
    itself would leave out a third of equal buildings every epoch.
    """
    count = len(weight)
    order = generator.permutation(np.arange(count, dtype=np.int32))
    cumulative = np.cumsum(weight[order], dtype=float)
    place = (np.arange(count) + generator.random()) * (cumulative[-1] / count)
    chosen = order[np.minimum(np.searchsorted(cumulative, place, side="right"), count - 1)]
    return generator.permutation(chosen)
