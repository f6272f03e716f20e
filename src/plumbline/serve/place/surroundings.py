"""Say how each building moves as a whole, and against those around it, in the columns of the predictions.

Where ascending and descending tracks see a building, its settlement is vertical. Seen from one side only, or by too few
scatterers from the other, it has the movement along the line of sight of its best track, and is compared with its
neighbours in that track.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import geopandas
import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from scipy.special import expit, ndtr

from plumbline.core.console import log
from plumbline.prepare.assignment.owners import OFFSET_MM, footprint_middle
from plumbline.prepare.response.decompose import Decomposition, TrackMeans, grouped_medians, solve_units
from plumbline.prepare.response.whole_building import LIKELY_TILT, WholeBuildings
from plumbline.serve.columns import LINE_OF_SIGHT, VERTICAL

Float = NDArray[np.floating[Any]]
Mask = NDArray[np.bool_]
FEWEST = 3
"""Neighbours of which a median says something."""
TARGETS = 4096
"""Buildings whose neighbours are searched for at a time: bounds the memory."""
MIN_SCATTERERS = 3
"""Smallest number of scatterers that share the building's motion in a track that is believed whatever others say."""
ELSEWHERE_OF_ONE, ELSEWHERE_OF_TWO = 0.3, 0.1
"""Probability that the lone scatterer of a track is not on the building, and that two are not: on cities of the own
simulator, 21 % and 4 % with Sentinel-1 contradicted the truth by more than 4 standard errors (docs/benchmarks,
2026-11-29); others are wrong by less. The share is then estimated for each city."""
ROUNDS = 20
"""Steps of expectation and maximisation."""
LEAST_PROBABLE = 0.5
"""Smallest probability that few scatterers are on the building with which their track counts."""
SIDEWAYS_MM, COUNTS = 10.0, 5
"""Standard deviation of a building's movement to the east, before looking, and as how many buildings it counts; also as
how many tracks the shares above count."""
MEDIAN_OF_SQUARE = 0.455
"""Median of the square of a standard normal value."""
TINY = 1e-12
"""Inverse variance of a vertical movement before looking, 1/mm2: it only keeps buildings without points solvable."""
LEVEL_M = 20.0
"""Height of the lowest scatterer above the ground, times the square root of their number: lines of sight of simulated
cities (docs/benchmarks, 2026-11-29)."""
CLEAR = 2.0
"""Standard errors from which the direction of a tilt is given: it is then known to about 30 degrees."""
NODES, SHARES = np.polynomial.hermite_e.hermegauss(5)


class Comparable(NamedTuple):
    """Movements that can be compared: all vertical, or all along the lines of sight of one track."""

    value: Float
    """(F,) mm; NaN where not known."""
    variance: Float
    """(F,) mm2."""
    own: Mask
    """(F,) which buildings have these as their figures."""


def whole_columns(
    whole: WholeBuildings, footprints: geopandas.GeoDataFrame, radius_m: float
) -> dict[str, NDArray[Any]]:
    """Return the columns `WHOLE` (F,) of all buildings of a city; NaN, or None, where the points do not tell.

    Args:
        whole: of the F buildings. footprints: theirs. radius_m: others are neighbours within it, by their middles.
    """
    place = footprint_middle(footprints.geometry.to_numpy())
    settled, variance, against, against_variance = np.full((4, len(place)), np.nan)
    direction = np.full(len(place), None, object)
    vertical, *along = comparable(whole)
    for one in (vertical, *along):
        settled[one.own], variance[one.own] = one.value[one.own], one.variance[one.own]
        direction[one.own] = VERTICAL if one is vertical else LINE_OF_SIGHT
        around = medians_around(place, one, radius_m)
        against[one.own] = (one.value - around.value)[one.own]
        against_variance[one.own] = (one.variance + around.variance)[one.own]
    aside, told = sum(int(one.own.sum()) for one in along), int(np.isfinite(settled).sum())
    if aside:
        log.info(
            "%d of %d buildings with a settlement are seen well by ascending or by descending tracks alone: "
            "theirs is along the line of sight, not vertical",
            aside,
            told,
        )
    size, size_std, towards = _tilts(whole)
    return {
        "settlement_mm": settled,
        "settlement_std_mm": np.sqrt(variance),
        "settlement_rate_mm_year": settled / whole.years,
        "settlement_direction": direction,
        "tilt_mm_m": size,
        "tilt_std_mm_m": size_std,
        "tilt_towards": towards,
        "against_neighbours_mm": against,
        "against_neighbours_std_mm": np.sqrt(against_variance),
        "strain_resolution_permille": whole.resolution,
    }


def comparable(whole: WholeBuildings) -> list[Comparable]:
    """Return the vertical movements, then those along the lines of sight of each track.

    A track with fewer than `MIN_SCATTERERS` that share a building's motion may show something else: the ground beside
    the building, or the next one. It counts if it probably shows the building, see `_by_leading_tracks`; what is left
    of the doubt widens the error of the vertical movement. Else it does not count, and the movement is along a line of
    sight of the other tracks. Where these have as few, and both contradict each other, nothing is known.
    """
    seen = np.isfinite(whole.change)
    weight = np.where(seen, 1 / np.where(seen, whole.variance, 1), 0)
    change = np.where(seen, whole.change, 0)

    def solve(counted: Mask) -> Decomposition:
        return solve_units(TrackMeans(change, weight * counted, whole.los, counted.astype(np.int64)))

    enough = seen & (whole.agreeing >= MIN_SCATTERERS)
    leading = enough.copy()
    # Of tracks that all have few, the one with most scatterers leads, and of equal ones the more precise.
    alone = np.flatnonzero(seen.any(1) & ~enough.any(1))
    rank = np.where(seen, whole.agreeing + weight / (1 + weight), -1)
    leading[alone, rank[alone].argmax(1)] = True
    without = _by_leading_tracks(whole, weight, leading, solve(enough))
    counted = leading | (seen & (without.on_building >= LEAST_PROBABLE))
    solved = solve(counted)
    both = np.isfinite(solved.east)
    # A mixture: the tracks of few scatterers show the building, or they do not.
    probable = np.where(counted, without.on_building, 1).min(1)
    apart = np.where(both, solved.up - without.up, 0)
    up = solved.up - (1 - probable) * apart
    variance = probable * solved.up_se**2 + (1 - probable) * without.up_variance
    variance += probable * (1 - probable) * apart**2
    vertical = Comparable(np.where(both, up, np.nan), np.where(both, variance, np.nan), both)
    contradicted = ~enough.any(1) & (seen & ~counted).any(1)
    aside = seen.any(1) & ~both & ~contradicted
    best, of_level = (weight * leading).argmax(1), _level_variance(whole)
    return [
        vertical,
        *(
            Comparable(whole.change[:, track], whole.variance[:, track] + of_level[:, track], aside & (best == track))
            for track in range(seen.shape[1])
        ),
    ]


class _Leading(NamedTuple):
    """Movements by the leading tracks alone, and how well the other tracks agree with them."""

    up: Float
    """(F,) mm."""
    up_variance: Float
    """(F,) mm2."""
    on_building: Float
    """(F, T) probability that a track's scatterers are on the building; 1 for a leading track."""


def _by_leading_tracks(whole: WholeBuildings, weight: Float, leading: Mask, firm: Decomposition) -> _Leading:
    """Return the vertical movement by the leading tracks, and the probability that another track shows the building.

    One direction cannot tell up from east. It is helped by how far the buildings of the city go sideways, where both
    directions have enough scatterers. A track that shows the building then differs from the expected value by its
    error, one that shows something else also by `OFFSET_MM`.

    Args:
        whole: of F buildings in T tracks.
        weight: (F, T) inverse variances of the changes, 1/mm2; 0 where a track does not see a building.
        leading: (F, T) tracks that are believed.
        firm: movements by the tracks of enough scatterers.
    """
    has_east = np.isfinite(firm.east)
    count, middle, beyond = int(has_east.sum()), 0.0, 0.0
    if count:
        middle = float(np.median(firm.east[has_east]))
        square, error_2 = np.median((firm.east[has_east] - middle) ** 2), np.median(firm.east_se[has_east] ** 2)
        beyond = max(float(square / MEDIAN_OF_SQUARE - error_2), 0.0)
    sideways = (count * beyond + COUNTS * SIDEWAYS_MM**2) / (count + COUNTS)

    change = np.where(weight > 0, whole.change - firm.offset, 0)
    view, believed = whole.los[..., [0, 2]], np.where(leading, weight, 0)
    normal = np.einsum("ft,fti,ftj->fij", believed, view, view) + np.diag([1 / sideways, TINY])
    right = np.einsum("ft,fti->fi", believed * change, view) + np.array([middle / sideways, 0])
    covariance = np.linalg.inv(normal)
    moved = np.einsum("fij,fj->fi", covariance, right)

    off_2 = (change - np.einsum("fti,fi->ft", view, moved)) ** 2
    error_2 = np.einsum("fti,fij,ftj->ft", view, covariance, view) + 1 / np.where(weight > 0, weight, 1)
    elsewhere_2 = error_2 + OFFSET_MM**2
    log_ratio = off_2 * (1 / error_2 - 1 / elsewhere_2) / 2 - np.log(elsewhere_2 / error_2) / 2
    on_building = np.ones(leading.shape)
    for has_as_many, share in ((whole.agreeing < 2, ELSEWHERE_OF_ONE), (whole.agreeing >= 2, ELSEWHERE_OF_TWO)):
        group = (weight > 0) & ~leading & has_as_many
        on_building[group] = _probability_on_building(log_ratio[group], share)
    return _Leading(moved[:, 1], covariance[:, 1, 1], on_building)


def _probability_on_building(log_ratio: Float, share: float) -> Float:
    """Return the probability (N,) that tracks show their building, by a mixture that is fitted to the city.

    Args:
        log_ratio: (N,) logarithm of how much more likely a change is if the track shows something else.
        share: of the tracks that show something else, before looking; it counts as `COUNTS` tracks.
    """
    probable, elsewhere = np.zeros(len(log_ratio)), share
    for _ in range(ROUNDS):
        probable = expit(np.log(1 / elsewhere - 1) - log_ratio)
        elsewhere = ((1 - probable).sum() + COUNTS * share) / (len(probable) + COUNTS)
    return np.asarray(probable, float)


def _level_variance(whole: WholeBuildings) -> Float:
    """Return the variance (F, T) of a movement along the line of sight, mm2, by the unknown level of the ground.

    Heights count from the lowest scatterer. The fewer there are, the farther it may be above the ground, and what is
    high on a leaning building goes sideways. Two directions take this for east, one cannot.
    """
    flat = whole.los[..., :2]
    along = np.einsum("fti,fi->ft", flat, whole.tilt) ** 2
    along += np.einsum("fti,fij,ftj->ft", flat, whole.tilt_covariance, flat)
    likely = (flat**2).sum(2) * (whole.lean[:, None] ** 2 + LIKELY_TILT**2) / 2
    above = LEVEL_M**2 / np.maximum(whole.agreeing.sum(1), 1)
    return np.asarray(above[:, None] * np.where(np.isfinite(along), along, likely), float)


def medians_around(place: Float, moved: Comparable, radius_m: float) -> Comparable:
    """Return the median of the other buildings within a radius, and its variance by their errors.

    NaN where they are fewer than `FEWEST`.

    Args:
        place: (F, 2) m. moved: movements. radius_m: m.
    """
    value, variance = np.full((2, len(place)), np.nan)
    known, wanted = np.flatnonzero(np.isfinite(moved.value)), np.flatnonzero(moved.own)
    if len(known) <= FEWEST or not len(wanted):
        return Comparable(value, variance, moved.own)
    tree = cKDTree(place[known])
    for start in range(0, len(wanted), TARGETS):
        part = wanted[start : start + TARGETS]
        near = cKDTree(place[part]).sparse_distance_matrix(tree, radius_m, output_type="ndarray")
        group, other = near["i"], known[near["j"]]
        apart = other != part[group]
        group, other = group[apart], other[apart]
        count = np.bincount(group, minlength=len(part))
        median = grouped_medians(group, moved.value[other], len(part))
        square = moved.variance[other]
        # How many lie below varies by p (1 - p) each; the median moves by that over how densely they lie about it.
        beside = (moved.value[other] - median[group]) / np.sqrt(square)
        below, dense = ndtr(-beside), np.exp(-(beside**2) / 2) / np.sqrt(2 * np.pi * square) + 1e-12
        density = np.maximum(np.bincount(group, dense, len(part)), 1e-100)
        spread = np.bincount(group, below * (1 - below) + 1e-12, len(part)) / density**2
        # Where it lies in a gap between two, it has their error.
        of_median = np.minimum(spread, np.bincount(group, dense * square, len(part)) / density)
        enough = count >= FEWEST
        value[part[enough]], variance[part[enough]] = median[enough], of_median[enough]
    return Comparable(value, variance, moved.own)


def _tilts(whole: WholeBuildings) -> tuple[Float, Float, Float]:
    """Return size (F,), its standard error, and the compass degrees of the side that sinks."""
    size, error, towards = np.full((3, len(whole.tilt)), np.nan)
    known = np.isfinite(whole.tilt).all(1)
    tilt = whole.tilt[known]
    size[known] = np.hypot(*tilt.T)
    # A size is no linear function of an uncertain vector: its error is the root mean square over that.
    nodes = np.stack(np.meshgrid(NODES, NODES), axis=-1).reshape(-1, 2)
    share = np.outer(SHARES, SHARES).ravel() / SHARES.sum() ** 2
    others = tilt[:, None] + nodes @ np.linalg.cholesky(whole.tilt_covariance[known]).transpose(0, 2, 1)
    error[known] = np.sqrt((np.hypot(others[..., 0], others[..., 1]) - size[known, None]) ** 2 @ share)
    clear = known & (size >= CLEAR * np.where(known, error, np.inf))
    towards[clear] = towards_of(whole.tilt[clear])
    return size, error, towards


def towards_of(tilt: Float) -> Float:
    """Return the compass degrees (N,) of the sides that sink, by the rise towards the east and the north (N, 2)."""
    return np.asarray(np.degrees(np.arctan2(-tilt[:, 0], -tilt[:, 1])) % 360, float)
