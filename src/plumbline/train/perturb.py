"""Examples as they would be with fewer or worse scatterers: point dropout, track dropout and noise.

Each perturbed building is fitted and described anew, by the code that prepares buildings. So no input contradicts
another: corner fits, gradients and standard errors are those of the scatterers that are left.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from plumbline.params import Train
from plumbline.prepare.redescribe import recover, redescribe
from plumbline.prepare.scatterers import Scatterers
from plumbline.prepare.sequences import Sequences


def perturbs(losses: Train) -> bool:
    """Whether the section asks for any of it."""
    return losses.perturb > 0 and max(losses.point_dropout, losses.track_dropout, losses.noise) > 0


def perturb(sequences: Sequences, losses: Train, least: int, generator: np.random.Generator) -> Sequences:
    """The same buildings in the same order, a share `losses.perturb` of them perturbed; labels stay.

    Args:
        sequences: in memory.
        losses: `perturb`, `point_dropout`, `track_dropout` and `noise` of it count.
        least: so many scatterers a building keeps, or all that it has.
        generator: of the random numbers.
    """
    chosen = np.flatnonzero(generator.random(len(sequences)) < losses.perturb)
    if not len(chosen):
        return sequences
    part = sequences.take(chosen)
    scatterers = recover(part)
    keep = drop_tracks(scatterers, losses.track_dropout, least, generator)
    scatterers = _keep(scatterers, keep)
    scatterers = _keep(scatterers, drop_points(scatterers, losses.point_dropout, least, generator))
    return _put(sequences, chosen, redescribe(part, add_noise(scatterers, losses.noise, generator)))


def drop_tracks(scatterers: Scatterers, rate: float, least: int, generator: np.random.Generator) -> NDArray[np.bool_]:
    """(N,) False for the scatterers of one track, drawn evenly, of a share `rate` of the buildings with several.

    A building that would be left with fewer than `least` scatterers keeps all.
    """
    building, track = scatterers.building, scatterers.track
    buildings, tracks = int(building.max(initial=-1)) + 1, int(track.max(initial=-1)) + 1
    held = np.zeros((buildings, tracks), dtype=np.intp)
    np.add.at(held, (building, track), 1)
    seen = (held > 0).sum(1)
    # Tracks of a building are numbered from 0 without gaps.
    lost = (generator.random(buildings) * seen).astype(np.intp)
    left = held.sum(1) - held[np.arange(buildings), lost]
    drops = (generator.random(buildings) < rate) & (seen > 1) & (left >= least)
    return np.asarray(~(drops[building] & (track == lost[building])))


def drop_points(scatterers: Scatterers, rate: float, least: int, generator: np.random.Generator) -> NDArray[np.bool_]:
    """(N,) False for each scatterer with probability `rate`; of each building, `least` stay in any case."""
    draw = generator.random(len(scatterers))
    order = np.lexsort((-draw, scatterers.building))
    _, starts, size = np.unique(scatterers.building, return_index=True, return_counts=True)
    rank = np.empty(len(draw), dtype=np.intp)
    rank[order] = np.arange(len(draw)) - np.repeat(starts, size)
    return (draw >= rate) | (rank < least)


def add_noise(scatterers: Scatterers, scale: float, generator: np.random.Generator) -> Scatterers:
    """Normal errors of `scale` times each scatterer's standard error on its displacement along the line of sight.

    The standard error grows to that of the sum, by sqrt(1 + scale^2).
    """
    error = scatterers.change_se
    noise = scale * error * generator.standard_normal(len(error))
    return replace(scatterers, change=scatterers.change + noise, change_se=error * np.hypot(1, scale))


def _keep(scatterers: Scatterers, keep: NDArray[np.bool_]) -> Scatterers:
    """The scatterers that stay; heights count from the lowest of them, as far as they did before."""
    if keep.all():
        return scatterers
    _, starts = np.unique(scatterers.building, return_index=True)
    before = np.minimum.reduceat(scatterers.height, starts)
    after = np.minimum.reduceat(np.where(keep, scatterers.height, np.inf), starts)
    return replace(scatterers, height=scatterers.height - (after - before)[scatterers.building]).take(keep)


def _put(sequences: Sequences, index: NDArray[np.intp], part: Sequences) -> Sequences:
    """`sequences` with the buildings `index` (ascending) replaced by those of `part`."""
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
