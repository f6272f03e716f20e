"""Estimate the share of damaged buildings near to each possible cause, and far from all.

The buildings within the reach of a cause have one share, those beyond all reaches another. Each
share is estimated as that of a city, and drawn towards the city's. The reach of a cause is the
likeliest of a few distances. A cause changes nothing unless significantly more is damaged near to
it than elsewhere.

Shape legend: B buildings, G shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import geopandas
import numpy as np
import shapely
from numpy.typing import NDArray

from plumbline.core.arrays import Array
from plumbline.core.console import log, warn
from plumbline.serve.base_rate import HALVINGS, LEAST_RATE, DamageRate, Prior, doubted_rate, odds_of
from plumbline.sources.city.causes import Cause

REACHES_M = (10.0, 25.0, 50.0, 75.0, 100.0, 150.0, 200.0, 300.0, 500.0)
"""Distances that are tried for a cause for which the file has no reach."""
PSEUDO_BUILDINGS = 5.0
"""Number of buildings with the city's share that are added to those of a group."""
SWAPPED_NEAR_M, MIN_KM_M = 5_000.0, 2_000.0
"""Largest distance from a building with which swapped coordinates are taken for right, and smallest
distance that is written in km."""
MIN_JUDGED = 10
"""Smallest number of judged buildings near to a cause that counts."""
MIN_GAIN = 3.0
"""Smallest gain in log likelihood, of two shares over one, of a cause that counts
(docs/decisions/0048)."""
N_SHARES = 61
"""Number of shares that are tried for a group."""


Near = tuple[NDArray[np.intp], Array]
"""Rows of the buildings near to a cause, and their distances, m."""


class CauseEstimate(NamedTuple):
    """Estimated reach of a cause, and the share of damaged buildings within it."""

    name: str
    reach_m: float
    reach_given: bool
    """True: from the file. False: the likeliest one."""
    judged_buildings: int
    """Number of judged buildings within the reach to which no other cause is nearer."""
    damage_rate: float
    """Share of its buildings; if the cause changes nothing, that of the other buildings."""
    damage_rate_low: float
    damage_rate_high: float
    """Upper end of the 90 % interval of the share."""
    counts: bool
    """False: the cause changes nothing."""
    geometry: Any


class SharesByCause(NamedTuple):
    """Shares of damaged buildings near to causes, and far from them."""

    rate: Array
    """(B,) share of damaged buildings that holds for each building."""
    cause: NDArray[np.object_]
    """(B,) name of the cause, or None."""
    causes: Sequence[CauseEstimate] = ()
    """Estimates of the causes; empty without any."""


def causes_table(causes: Sequence[CauseEstimate], crs: Any) -> geopandas.GeoDataFrame:
    """Return the estimates of the causes as a table. `crs`: of their places."""
    return geopandas.GeoDataFrame(
        causes, columns=CauseEstimate._fields, geometry="geometry", crs=crs
    )


class _Reach(NamedTuple):
    reach_m: float
    judged_buildings: int
    counts: bool


def shares_by_cause(
    causes: Sequence[Cause],
    geometry: NDArray[np.object_],
    *,
    p_damaged: NDArray[np.floating[Any]],
    able: NDArray[np.bool_],
    share: float,
    city: DamageRate,
) -> SharesByCause:
    """Estimate the share of each group of B buildings, and log a line for each group.

    Args:
        causes: in the CRS of `geometry`.
        geometry: (B,) footprints, m.
        p_damaged: (B,) probabilities at the share `share` of damaged buildings.
        able: (B,) buildings that count.
        share: share of damaged buildings that the model was calibrated on.
        city: share in the whole city. A share that the user gives stays the mean of the buildings.
    """
    near = _find_near(causes, geometry)
    if causes and not any(len(rows) for rows, _ in near):
        _warn_of_distance(causes, geometry)
    reaches = _estimate_reaches(
        causes, near, _ShareLikelihood(p_damaged, able, share, Prior(city.rate, PSEUDO_BUILDINGS))
    )
    owner = _owners(near, [r.reach_m if r.counts else -1.0 for r in reaches], len(geometry))
    groups = {} if (owner < 0).all() else _group_rates(p_damaged, able, share, owner, city)
    rate, name = np.full(len(geometry), city.rate), np.full(len(geometry), None, object)
    for i, group_rate in groups.items():
        n_judged = int((able & (owner == i)).sum())
        rate[owner == i] = group_rate.rate
        if i >= 0:
            name[owner == i], reaches[i] = (
                causes[i].name,
                reaches[i]._replace(judged_buildings=n_judged),
            )
        log.info(
            "%s: %d judged buildings, about %.2g %% of them damaged (90 %% interval %.2g to %.2g "
            "%%)",
            f"{causes[i].name}, within {reaches[i].reach_m:g} m"
            if i >= 0
            else "away from the causes",
            *(n_judged, 100 * group_rate.rate, 100 * group_rate.low, 100 * group_rate.high),
        )
    far_rate = groups.get(-1, city)
    return SharesByCause(
        rate,
        name,
        [
            _estimate_of(*pair, groups.get(i, far_rate))
            for i, pair in enumerate(zip(causes, reaches, strict=True))
        ],
    )


def _warn_of_distance(causes: Sequence[Cause], geometry: NDArray[np.object_]) -> None:
    """Warn how far the nearest cause is from all buildings, and if coordinates look swapped."""
    city = shapely.multipoints(shapely.centroid(geometry))
    distance_m = np.nan_to_num(
        shapely.distance(city, [cause.geometry for cause in causes]), nan=np.inf
    )
    nearest = int(distance_m.argmin())
    swapped = any(shapely.distance(city, cause.swapped) <= SWAPPED_NEAR_M for cause in causes)
    warn(
        "no cause reaches any building: the nearest, %s, is %s away. They change nothing.%s",
        causes[nearest].name,
        f"{distance_m[nearest] / 1000:,.0f} km"
        if distance_m[nearest] >= MIN_KM_M
        else f"{distance_m[nearest]:,.0f} m",
        " With both coordinates swapped they lie among the buildings: swap them in the file."
        if swapped
        else "",
        key="causes.out_of_reach",
    )


def _estimate_of(cause: Cause, reach: _Reach, rate: DamageRate) -> CauseEstimate:
    return CauseEstimate(
        cause.name,
        reach.reach_m,
        cause.reach_m is not None,
        reach.judged_buildings,
        rate.rate,
        rate.low,
        rate.high,
        reach.counts,
        cause.geometry,
    )


def _estimate_reaches(
    causes: Sequence[Cause], near: Sequence[Near], likelihood: _ShareLikelihood
) -> list[_Reach]:
    """Return the given or estimated reach of each cause, m; log the causes that change nothing."""
    widest_owner = _owners(near, [c.reach_m or REACHES_M[-1] for c in causes], len(likelihood.able))
    far_likelihood = likelihood.of_buildings(widest_owner < 0)
    reach_m = [
        c.reach_m or likelihood.likeliest_reach(near[i], widest_owner == i, far_likelihood)
        for i, c in enumerate(causes)
    ]
    owner = _owners(near, reach_m, len(likelihood.able))
    far_likelihood = likelihood.of_buildings(owner < 0)
    reaches = []
    for i, cause in enumerate(causes):
        n_judged = int((likelihood.able & (owner == i)).sum())
        gain = likelihood.gain(likelihood.of_buildings(owner == i), far_likelihood)
        if cause.reach_m is None and not gain:  # no distance gains: the widest has most buildings
            n_judged = int((likelihood.able & (widest_owner == i)).sum())
        reach = _Reach(
            reach_m[i] if cause.reach_m or gain else REACHES_M[-1],
            n_judged,
            n_judged >= MIN_JUDGED and gain >= MIN_GAIN,
        )
        reaches.append(reach)
        if not reach.counts:
            reason = (
                "are too few to tell"
                if n_judged < MIN_JUDGED
                else "show no more damage than the others"
            )
            message = (
                f"the {n_judged} judged buildings within {reach.reach_m:g} m {reason}, and "
                "share theirs"
            )
            log.info(
                "%s: %s",
                cause.name,
                message if n_judged else f"no judged building is within {reach.reach_m:g} m",
            )
    return reaches


def _group_rates(
    p_damaged: NDArray[np.floating[Any]],
    able: NDArray[np.bool_],
    share: float,
    owner: NDArray[np.intp],
    city: DamageRate,
) -> dict[int, DamageRate]:
    """Return the share of each group. A given share of the city stays the mean of all."""
    p_by_group = {int(i): p_damaged[able & (owner == i)] for i in np.unique(owner)}
    rates = {
        i: doubted_rate(p, share, Prior(city.rate, PSEUDO_BUILDINGS)) for i, p in p_by_group.items()
    }
    if city.estimated:
        return rates
    low_shift, high_shift = -20.0, 20.0
    for _ in range(HALVINGS):
        shift = (low_shift + high_shift) / 2
        mean = np.average(
            [_shift_log_odds(r.rate, shift) for r in rates.values()],
            weights=list(map(len, p_by_group.values())),
        )
        low_shift, high_shift = (shift, high_shift) if mean < city.rate else (low_shift, shift)
    return {
        i: DamageRate(
            _shift_log_odds(r.rate, low_shift),
            _shift_log_odds(r.low, low_shift),
            _shift_log_odds(r.high, low_shift),
            True,
        )
        for i, r in rates.items()
    }


def _shift_log_odds(rate: float, shift: float) -> float:
    """Return the share at log odds that are larger by `shift`."""
    odds = rate / max(1 - rate, 1e-12) * np.exp(shift)
    return float(odds / (1 + odds))


def _find_near(causes: Sequence[Cause], geometry: NDArray[np.object_]) -> list[Near]:
    """Return the buildings within the reach of each cause, or within the widest that is tried."""
    tree = shapely.STRtree(geometry)
    rows = [
        tree.query(cause.geometry, "dwithin", cause.reach_m or REACHES_M[-1]) for cause in causes
    ]
    return [
        (near, shapely.distance(geometry[near], cause.geometry))
        for near, cause in zip(rows, causes, strict=True)
    ]


def _owners(near: Sequence[Near], reach_m: Sequence[float], count: int) -> NDArray[np.intp]:
    """Return (B,) the number of the nearest cause that reaches each building; -1 if none does."""
    owner, nearest_m = np.full(count, -1), np.full(count, np.inf)
    for i, ((rows, distance), reach) in enumerate(zip(near, reach_m, strict=True)):
        nearer = (distance <= reach) & (distance < nearest_m[rows])
        owner[rows[nearer]], nearest_m[rows[nearer]] = i, distance[nearer]
    return owner


class _ShareLikelihood:
    """Log likelihood of each building's points under each of G shares; 0 for those that do
    not count."""

    def __init__(
        self,
        p_damaged: NDArray[np.floating[Any]],
        able: NDArray[np.bool_],
        share: float,
        prior: Prior,
    ):
        """Tabulate the log likelihood: arguments of `shares_by_cause`, and the prior of a share."""
        self.able = able
        shares = np.geomspace(LEAST_RATE, share, N_SHARES)
        prior_likelihood = prior.rate * np.log(shares) + (1 - prior.rate) * np.log1p(-shares)
        self._prior_likelihood = prior.buildings * (prior_likelihood - prior_likelihood.max())
        odds = np.where(able, odds_of(p_damaged, share), 1.0)
        self._log_likelihood = np.log1p(shares * (odds[:, None] - 1))

    def of_buildings(self, rows: NDArray[Any]) -> Array:
        """Return the log likelihood (G,) of the buildings `rows` together."""
        return np.asarray(self._log_likelihood[rows].sum(axis=0))

    def gain(self, near_likelihood: Array, far_likelihood: Array) -> float:
        """Return the log likelihood gained by two shares over one, 0 unless the near is larger."""
        near_posterior = near_likelihood + self._prior_likelihood
        if near_posterior.argmax() <= far_likelihood.argmax():
            return 0.0
        return float(
            near_posterior.max() + far_likelihood.max() - (near_likelihood + far_likelihood).max()
        )

    def likeliest_reach(
        self, near: Near, is_nearest: NDArray[np.bool_], far_likelihood: Array
    ) -> float:
        """Return the distance at which two shares gain most over one.

        Args:
            near: rows and distances of the buildings near to the cause.
            is_nearest: (B,) buildings to which no other cause is nearer.
            far_likelihood: (G,) log likelihood of the other buildings.
        """
        rows, distance = (values[is_nearest[near[0]]] for values in near)
        total = far_likelihood + self.of_buildings(rows)
        within = [self.of_buildings(rows[distance <= reach]) for reach in REACHES_M]
        return REACHES_M[int(np.argmax([self.gain(w, total - w) for w in within]))]
