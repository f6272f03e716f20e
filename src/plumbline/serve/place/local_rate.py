"""Estimate the share of damaged buildings at each place, from causes and neighbours.

Damage clusters around its cause. The neighbours show this without a file of causes: a building's
share is the likeliest one of its neighbours, weighted by distance and drawn towards the share
without neighbours. The building itself is left out, and the neighbours' odds are those of the
network: shares that were estimated from one another would look too likely (docs/decisions/0048).
The width of the kernel and the weight of the neighbours maximise the likelihood of each building
under the share of the others. If the gain is too small, nothing changes.

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

from plumbline.core.arrays import Array
from plumbline.core.console import log
from plumbline.core.jobs import usable_threads
from plumbline.serve.base_rate import LEAST_RATE, DamageRate, odds_of
from plumbline.serve.place.causes import SharesByCause, shares_by_cause
from plumbline.sources.city.causes import Cause

NEIGHBOURS = (30, 60, 120)
"""Numbers of nearest buildings that are tried; the last neighbour is two standard deviations of the
kernel away."""
FIRMNESS = (3.0, 10.0, 30.0, 100.0)
"""Weights of the share without neighbours that are tried, in buildings."""
SHIFTS = np.linspace(-5, 5, 25)
"""Shifts of the log odds of a share that are tried."""
MIN_GAIN = 6.0
"""Smallest gain in log likelihood with which shares by place are used: buildings that are shuffled
over the places gain less (docs/decisions/0048)."""


class RateVariation(NamedTuple):
    """Ways in which the share of damaged buildings may vary within a city."""

    causes: Sequence[Cause]
    by_place: bool


ONE_SHARE = RateVariation((), False)


def local_rates(
    variation: RateVariation,
    geometry: NDArray[np.object_],
    *,
    p_damaged: NDArray[np.floating[Any]],
    able: NDArray[np.bool_],
    share: float,
    city: DamageRate,
) -> SharesByCause:
    """Return the share of damaged buildings for each of B buildings: first by cause, then by place.

    Args:
        variation: ways in which it may vary. A given share of the city does not vary by place.
        geometry: (B,) footprints, m.
        p_damaged: (B,) probabilities at the share `share` of damaged buildings.
        able: (B,) buildings that count.
        share: share of damaged buildings that the model was calibrated on.
        city: share in the whole city.
    """
    shares = (
        shares_by_cause(
            variation.causes, geometry, p_damaged=p_damaged, able=able, share=share, city=city
        )
        if variation.causes
        else SharesByCause(np.full(len(geometry), city.rate), np.full(len(geometry), None, object))
    )
    if not (variation.by_place and city.estimated):
        return shares
    centres = shapely.get_coordinates(shapely.centroid(geometry[able]))
    rate = shares.rate.copy()
    by_place = shares_by_place(odds_of(p_damaged[able], share), centres, rate[able], share)
    rate[able] = by_place.rate
    if by_place.gain >= MIN_GAIN:
        low, high = 100 * np.quantile(by_place.rate, (0.05, 0.95))
        log.info(
            "Damage gathers at some places: nine tenths of the buildings have a share from %.2g "
            "to %.2g %% "
            "(--damage-rate-by city gives all the same)",
            *(low, high),
        )
    return shares._replace(rate=rate)


class SharesByPlace(NamedTuple):
    """Shares of damaged buildings by place."""

    rate: Array
    """(B,) share of damaged buildings that holds for each building."""
    gain: float
    """Gain in log likelihood over the shares without neighbours, which `rate` has if it is below
    `MIN_GAIN`."""


def shares_by_place(odds: Array, place: Array, rate: Array, max_share: float) -> SharesByPlace:
    """Estimate the share at each of B buildings from the odds of the others.

    Args:
        odds: (B,) likelihood ratio of a building's points: damaged over sound.
        place: (B, 2) m.
        rate: (B,) share without neighbours.
        max_share: largest share that is tried.
    """
    best = SharesByPlace(rate, 0.0)
    if len(odds) <= NEIGHBOURS[0]:
        return best
    base_likelihood = np.log1p(rate * (odds - 1))
    odds_of_share = (rate / (1 - rate))[:, None] * np.exp(SHIFTS)
    low, high = np.minimum(LEAST_RATE, rate)[:, None], np.maximum(max_share, rate)[:, None]
    shares = np.clip(odds_of_share / (1 + odds_of_share), low, high)
    likelihood = np.log1p(shares * (odds[:, None] - 1))
    prior_likelihood = rate[:, None] * np.log(shares) + (1 - rate)[:, None] * np.log1p(-shares)
    rows = np.arange(len(odds))
    for kernel in _kernels(place):
        neighbour_likelihood = kernel @ likelihood
        for firmness in FIRMNESS:
            local_share = shares[
                rows, (neighbour_likelihood + firmness * prior_likelihood).argmax(axis=1)
            ]
            gain = float((np.log1p(local_share * (odds - 1)) - base_likelihood).sum())
            if gain > best.gain:
                best = SharesByPlace(local_share, gain)
    return best if best.gain >= MIN_GAIN else best._replace(rate=rate)


def _kernels(place: Array) -> Iterator[csr_matrix]:
    """Yield the weights (B, B) for each number of `NEIGHBOURS`; the diagonal is 0."""
    count = len(place)
    n_neighbours = min(NEIGHBOURS[-1], count - 1)
    distance, index = cKDTree(place).query(place, n_neighbours + 1, workers=usable_threads())
    is_self = index == np.arange(count)[:, None]
    # With many buildings at one place, the query may leave out the building itself.
    is_self[~is_self.any(axis=1), -1] = True
    distance, index = (
        distance[~is_self].reshape(count, n_neighbours),
        index[~is_self].reshape(count, n_neighbours),
    )
    for number in NEIGHBOURS:
        if number > n_neighbours:
            return
        width = np.maximum(distance[:, number - 1 : number] / 2, 1e-6)
        weight = np.exp(-0.5 * (distance[:, :number] / width) ** 2)
        ends = np.arange(0, count * number + 1, number)
        yield csr_matrix((weight.ravel(), index[:, :number].ravel(), ends), (count, count))
