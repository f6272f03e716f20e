"""Estimate the share of damaged buildings near to each possible cause, and far from all.

The buildings that a cause reaches have one share, those that nothing reaches another. Each is estimated as that of a
city, and drawn towards it. How far a cause reaches is the likeliest of a few distances. A cause beside which no more is
damaged than elsewhere, beyond what chance makes, changes nothing.

Shape legend: B buildings, G shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import geopandas
import numpy as np
import shapely
from numpy.typing import NDArray

from plumbline.core.console import log
from plumbline.serve.base_rate import HALVINGS, LEAST_RATE, DamageRate, Prior, doubted_rate, odds_of
from plumbline.sources.city.causes import Cause

Array = NDArray[np.float64]
REACHES_M = (10.0, 25.0, 50.0, 75.0, 100.0, 150.0, 200.0, 300.0, 500.0)
"""Distances that are tried for a cause without a reach of its own."""
PSEUDO = 5.0
"""Buildings with the city's share that count beside those of a group."""
NEAR_M, KM = 5_000.0, 2_000.0
"""Swapped coordinates that are within the first of a building are right; from the second on, distances are in km."""
FEWEST = 10
"""Judged buildings that a cause must reach, to tell anything."""
LEAST_GAIN = 3.0
"""In log likelihood, of two shares over one, from which a cause counts (docs/decisions/0048)."""
SHARES = 61
"""Number of shares that are tried for a group."""


Near = tuple[NDArray[np.intp], Array]
"""Rows of the buildings near to a cause, and their distances, m."""


class FoundCause(NamedTuple):
    """What was found of a cause."""

    name: str
    reach_m: float
    reach_given: bool
    """False: it is the likeliest one."""
    judged_buildings: int
    """Of those that count, how many it reaches, and no other cause is nearer."""
    damage_rate: float
    """Share that its buildings have; where it changes nothing, that of the others."""
    damage_rate_low: float
    damage_rate_high: float
    """90 % interval."""
    counts: bool
    """False: it changes nothing."""
    geometry: Any


class SharesByCause(NamedTuple):
    """Shares of damaged buildings near to causes, and far from them."""

    rate: Array
    """(B,)"""
    cause: NDArray[np.object_]
    """(B,) name, or None."""
    found: Sequence[FoundCause] = ()
    """Of each cause; empty without any."""


def found_table(found: Sequence[FoundCause], crs: Any) -> geopandas.GeoDataFrame:
    """Return what was found of the causes as a table. `crs`: of their places."""
    return geopandas.GeoDataFrame(found, columns=FoundCause._fields, geometry="geometry", crs=crs)


class _Reach(NamedTuple):
    m: float
    judged_buildings: int
    counts: bool


def shares_by_cause(
    causes: Sequence[Cause],
    geometry: NDArray[np.object_],
    p_damaged: NDArray[np.floating[Any]],
    able: NDArray[np.bool_],
    share: float,
    city: DamageRate,
) -> SharesByCause:
    """Estimate the share of each group of B buildings, with a line in the log for each, and say what was found.

    Args:
        causes: in the CRS of `geometry`.
        geometry: (B,) footprints, m.
        p_damaged: (B,) probabilities at the share `share` of damaged buildings.
        able: (B,) which of them count.
        share: of the buildings that the model was calibrated on.
        city: of all of them. If it is given rather than estimated, it stays their mean.
    """
    near = _near(causes, geometry)
    if causes and not any(len(rows) for rows, _ in near):
        _warn_of_far(causes, geometry)
    reach = _reaches(causes, near, _Evidence(p_damaged, able, share, Prior(city.rate, PSEUDO)))
    owner = _owners(near, [one.m if one.counts else -1.0 for one in reach], len(geometry))
    groups = {} if (owner < 0).all() else _group_rates(p_damaged, able, share, owner, city)
    rate, name = np.full(len(geometry), city.rate), np.full(len(geometry), None, object)
    for i, own in groups.items():
        number = int((able & (owner == i)).sum())
        rate[owner == i] = own.rate
        if i >= 0:
            name[owner == i], reach[i] = causes[i].name, reach[i]._replace(judged_buildings=number)
        log.info(
            "%s: %d judged buildings, about %.2g %% of them damaged (90 %% interval %.2g to %.2g %%)",
            f"{causes[i].name}, within {reach[i].m:g} m" if i >= 0 else "away from the causes",
            *(number, 100 * own.rate, 100 * own.low, 100 * own.high),
        )
    others = groups.get(-1, city)
    return SharesByCause(
        rate, name, [_found(*one, groups.get(i, others)) for i, one in enumerate(zip(causes, reach, strict=True))]
    )


def _warn_of_far(causes: Sequence[Cause], geometry: NDArray[np.object_]) -> None:
    """Say how far the nearest cause is from any building, and whether swapped coordinates bring one near."""
    city = shapely.multipoints(shapely.centroid(geometry))
    away = np.nan_to_num(shapely.distance(city, [one.geometry for one in causes]), nan=np.inf)
    least = int(away.argmin())
    swapped = any(shapely.distance(city, one.swapped) <= NEAR_M for one in causes)
    log.warning(
        "no cause reaches any building: the nearest, %s, is %s away. They change nothing.%s",
        causes[least].name,
        f"{away[least] / 1000:,.0f} km" if away[least] >= KM else f"{away[least]:,.0f} m",
        " With both coordinates swapped they lie among the buildings: swap them in the file." if swapped else "",
    )


def _found(cause: Cause, reach: _Reach, rate: DamageRate) -> FoundCause:
    return FoundCause(
        cause.name,
        reach.m,
        cause.reach_m is not None,
        reach.judged_buildings,
        rate.rate,
        rate.low,
        rate.high,
        reach.counts,
        cause.geometry,
    )


def _reaches(causes: Sequence[Cause], near: Sequence[Near], evidence: _Evidence) -> list[_Reach]:
    """Return how far each cause reaches, m, as given or estimated; with a line in the log if it changes nothing."""
    widest = _owners(near, [one.reach_m or REACHES_M[-1] for one in causes], len(evidence.able))
    far = evidence.of(widest < 0)
    reach_m = [one.reach_m or evidence.likeliest_reach(near[i], widest == i, far) for i, one in enumerate(causes)]
    owner = _owners(near, reach_m, len(evidence.able))
    far = evidence.of(owner < 0)
    found = []
    for i, cause in enumerate(causes):
        number, gain = int((evidence.able & (owner == i)).sum()), evidence.gain(evidence.of(owner == i), far)
        if cause.reach_m is None and not gain:  # at no distance: then the widest says most
            number = int((evidence.able & (widest == i)).sum())
        one = _Reach(
            reach_m[i] if cause.reach_m or gain else REACHES_M[-1], number, number >= FEWEST and gain >= LEAST_GAIN
        )
        found.append(one)
        if not one.counts:
            why = "are too few to tell" if number < FEWEST else "show no more damage than the others"
            said = f"the {number} judged buildings within {one.m:g} m {why}, and share theirs"
            log.info("%s: %s", cause.name, said if number else f"no judged building is within {one.m:g} m")
    return found


def _group_rates(
    p_damaged: NDArray[np.floating[Any]],
    able: NDArray[np.bool_],
    share: float,
    owner: NDArray[np.intp],
    city: DamageRate,
) -> dict[int, DamageRate]:
    """Return the share of each group; the mean over all is that of the city, if it is given."""
    parts = {int(i): p_damaged[able & (owner == i)] for i in np.unique(owner)}
    found = {i: doubted_rate(p, share, Prior(city.rate, PSEUDO)) for i, p in parts.items()}
    if city.estimated:
        return found
    low, high = -20.0, 20.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        mean = np.average(
            [_shifted(one.rate, middle) for one in found.values()], weights=list(map(len, parts.values()))
        )
        low, high = (middle, high) if mean < city.rate else (low, middle)
    return {
        i: DamageRate(_shifted(own.rate, low), _shifted(own.low, low), _shifted(own.high, low), True)
        for i, own in found.items()
    }


def _shifted(rate: float, shift: float) -> float:
    """Return a share with other log odds."""
    odds = rate / max(1 - rate, 1e-12) * np.exp(shift)
    return float(odds / (1 + odds))


def _near(causes: Sequence[Cause], geometry: NDArray[np.object_]) -> list[Near]:
    """Return, for each cause, the buildings within its reach, or within the widest that is tried."""
    tree = shapely.STRtree(geometry)
    rows = [tree.query(one.geometry, "dwithin", one.reach_m or REACHES_M[-1]) for one in causes]
    return [(own, shapely.distance(geometry[own], one.geometry)) for own, one in zip(rows, causes, strict=True)]


def _owners(near: Sequence[Near], reach_m: Sequence[float], count: int) -> NDArray[np.intp]:
    """Return (B,) the number of the nearest cause that reaches each building; -1 if none does."""
    owner, least = np.full(count, -1), np.full(count, np.inf)
    for i, ((rows, distance), reach) in enumerate(zip(near, reach_m, strict=True)):
        nearer = (distance <= reach) & (distance < least[rows])
        owner[rows[nearer]], least[rows[nearer]] = i, distance[nearer]
    return owner


class _Evidence:
    """Log likelihood of each building's points under each of G shares; 0 for those that do not count."""

    def __init__(self, p_damaged: NDArray[np.floating[Any]], able: NDArray[np.bool_], share: float, prior: Prior):
        """Take the arguments of `shares_by_cause`, and what is held of the share near to a cause."""
        self.able = able
        tried = np.geomspace(LEAST_RATE, share, SHARES)
        held = prior.rate * np.log(tried) + (1 - prior.rate) * np.log1p(-tried)
        self._held = prior.buildings * (held - held.max())
        odds = np.where(able, odds_of(p_damaged, share), 1.0)
        self._of_each = np.log1p(tried * (odds[:, None] - 1))

    def of(self, rows: NDArray[Any]) -> Array:
        """Return the log likelihood (G,) of some buildings together."""
        return np.asarray(self._of_each[rows].sum(axis=0))

    def gain(self, near: Array, far: Array) -> float:
        """Return what two shares gain over one, in log likelihood; 0 if the nearer one is not the larger."""
        drawn = near + self._held
        if drawn.argmax() <= far.argmax():
            return 0.0
        return float(drawn.max() + far.max() - (near + far).max())

    def likeliest_reach(self, near: Near, mine: NDArray[np.bool_], far: Array) -> float:
        """Return the distance at which two shares gain most, of buildings to which no other cause is nearer."""
        rows, distance = (values[mine[near[0]]] for values in near)
        whole = far + self.of(rows)
        within = [self.of(rows[distance <= reach]) for reach in REACHES_M]
        return REACHES_M[int(np.argmax([self.gain(one, whole - one) for one in within]))]
