"""Estimate the share of damaged buildings at each place, from causes that are known and from the neighbours' odds.

Damage gathers where its cause is. The neighbours show that without a file of causes: a building's share is the
likeliest one of its neighbours, weighted by distance and drawn towards the share that holds without them. Its own
answer is left out, and the neighbours' odds are those of the network: shares that feed one another flatter themselves
(docs/decisions/0048). How far and how firmly neighbours count is chosen by the likelihood of each building under the
share of the others. Where that gains too little, nothing changes.

Shape legend: B buildings, K neighbours, G shifts of the log odds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import shapely
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.spatial import cKDTree

from plumbline.core.console import log
from plumbline.serve.base_rate import LEAST_RATE, DamageRate, odds_of
from plumbline.serve.place.causes import SharesByCause, shares_by_cause
from plumbline.sources.city.causes import Cause

Array = NDArray[np.float64]
NEIGHBOURS = (30, 60, 120)
"""Numbers of nearest buildings that are tried; the last one lies at two standard deviations of the kernel."""
FIRMNESS = (3.0, 10.0, 30.0, 100.0)
"""Numbers of buildings that are tried, with the share that holds without neighbours."""
SHIFTS = np.linspace(-5, 5, 25)
"""Of the log odds of a share, that are tried."""
LEAST_GAIN = 6.0
"""In log likelihood. Shuffled over the places, the same buildings gain less (docs/decisions/0048)."""


class Where(NamedTuple):
    """What the share may differ by within a city."""

    causes: Sequence[Cause]
    by_place: bool


ONE_SHARE = Where((), False)


def local_rates(
    where: Where,
    geometry: NDArray[np.object_],
    p_damaged: NDArray[np.floating[Any]],
    able: NDArray[np.bool_],
    share: float,
    city: DamageRate,
) -> SharesByCause:
    """Return the share of damaged buildings for each of B buildings: first by cause, then by place.

    Args:
        where: what it may differ by. A given share of the city is not changed by place.
        geometry: (B,) footprints, m.
        p_damaged: (B,) probabilities at the share `share` of damaged buildings.
        able: (B,) which of them count.
        share: of the buildings that the model was calibrated on. city: of all that count.
    """
    found = SharesByCause(np.full(len(geometry), city.rate), np.full(len(geometry), None, object))
    if where.causes:
        found = shares_by_cause(where.causes, geometry, p_damaged, able, share, city)
    if not (where.by_place and city.estimated):
        return found
    place = shapely.get_coordinates(shapely.centroid(geometry[able]))
    rate = found.rate.copy()
    local = shares_by_place(odds_of(p_damaged[able], share), place, rate[able], share)
    rate[able] = local.rate
    if local.gain >= LEAST_GAIN:
        low, high = 100 * np.quantile(local.rate, (0.05, 0.95))
        log.info(
            "Damage gathers at some places: nine tenths of the buildings have a share from %.2g to %.2g %% "
            "(--damage-rate-by city gives all the same)",
            *(low, high),
        )
    return found._replace(rate=rate)


class Shares(NamedTuple):
    """Shares of damaged buildings by place."""

    rate: Array
    """(B,)"""
    gain: float
    """In log likelihood over the shares that hold without neighbours; below `LEAST_GAIN`, `rate` holds those."""


def shares_by_place(odds: Array, place: Array, rate: Array, most: float) -> Shares:
    """Estimate the share at each of B buildings from the odds of the others.

    Args:
        odds: (B,) likelihood of a building's points if it is damaged over that if it is sound.
        place: (B, 2) m.
        rate: (B,) share that holds without neighbours.
        most: no share is larger.
    """
    best = Shares(rate, 0.0)
    if len(odds) <= NEIGHBOURS[0]:
        return best
    before = np.log1p(rate * (odds - 1))
    odds_of_share = (rate / (1 - rate))[:, None] * np.exp(SHIFTS)
    low, high = np.minimum(LEAST_RATE, rate)[:, None], np.maximum(most, rate)[:, None]
    tried = np.clip(odds_of_share / (1 + odds_of_share), low, high)
    likelihood = np.log1p(tried * (odds[:, None] - 1))
    held = rate[:, None] * np.log(tried) + (1 - rate)[:, None] * np.log1p(-tried)
    rows = np.arange(len(odds))
    for kernel in _kernels(place):
        of_others = kernel @ likelihood
        for firmness in FIRMNESS:
            found = tried[rows, (of_others + firmness * held).argmax(axis=1)]
            gain = float((np.log1p(found * (odds - 1)) - before).sum())
            if gain > best.gain:
                best = Shares(found, gain)
    return best if best.gain >= LEAST_GAIN else best._replace(rate=rate)


def _kernels(place: Array) -> Iterator[csr_matrix]:
    """Yield the weights (B, B) of each of `NEIGHBOURS`; a building has none for itself."""
    count = len(place)
    most = min(NEIGHBOURS[-1], count - 1)
    distance, index = cKDTree(place).query(place, most + 1)
    own = index == np.arange(count)[:, None]
    own[~own.any(axis=1), -1] = True  # beside enough others at the same place
    distance, index = distance[~own].reshape(count, most), index[~own].reshape(count, most)
    for number in NEIGHBOURS:
        if number > most:
            return
        width = np.maximum(distance[:, number - 1 : number] / 2, 1e-6)
        weight = np.exp(-0.5 * (distance[:, :number] / width) ** 2)
        ends = np.arange(0, count * number + 1, number)
        yield csr_matrix((weight.ravel(), index[:, :number].ravel(), ends), (count, count))
