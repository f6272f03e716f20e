"""Estimate the movement of each building as a whole and against its neighbours.

The settlement of a building with ascending and descending tracks is vertical. A building with
tracks from one side only, or with too few scatterers from the other, has the movement along the
line of sight of its best track, and is compared with its neighbours in that track.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import geopandas
import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from scipy.special import expit, ndtr

from plumbline.core.arrays import Float, Mask
from plumbline.core.console import log
from plumbline.prepare.assignment.owners import OFFSET_MM, footprint_middle
from plumbline.prepare.response.decompose import (
    Decomposition,
    TrackMeans,
    grouped_medians,
    solve_units,
)
from plumbline.prepare.response.whole_building import LIKELY_TILT, WholeBuildings
from plumbline.serve.columns import LINE_OF_SIGHT, VERTICAL

MIN_NEIGHBOURS = 3
"""Smallest number of neighbours of which a median is computed."""
BATCH_BUILDINGS = 4096
"""Number of buildings whose neighbours are searched for at a time: bounds the memory."""
MIN_SCATTERERS = 3
"""Smallest number of scatterers with the building's motion in a track that is used without a check
against other tracks."""
ELSEWHERE_OF_ONE, ELSEWHERE_OF_TWO = 0.3, 0.1
"""Prior probabilities that the only scatterer of a track is not on the building, and that two are
not. In simulated cities with Sentinel-1, 21 % and 4 % contradicted the truth by more than 4
standard errors (docs/benchmarks, 2026-11-29); others are wrong by less. The share is then estimated
for each city."""
EM_ROUNDS = 20
"""Number of steps of expectation and maximisation."""
MIN_PROBABILITY = 0.5
"""Smallest probability that few scatterers are on the building, for their track to count."""
SIDEWAYS_MM, PRIOR_COUNT = 10.0, 5
"""Prior standard deviation of a building's movement to the east, and the weight of this prior in
buildings; also the weight of the prior probabilities above in tracks."""
MEDIAN_OF_SQUARE = 0.455
"""Median of the square of a standard normal value."""
PRIOR_UP_WEIGHT = 1e-12
"""Prior inverse variance of a vertical movement, 1/mm2: it only keeps buildings without points
solvable."""
LEVEL_M = 20.0
"""Height of the lowest scatterer above the ground, m, times the square root of their number: from
simulated cities (docs/benchmarks, 2026-11-29)."""
MIN_TILT_ERRORS = 2.0
"""Smallest tilt whose direction is given, in standard errors: it is then known to about 30
degrees."""
NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(5)
"""Nodes and weights of the Gauss-Hermite quadrature over a standard normal value."""


class Comparable(NamedTuple):
    """Movements that can be compared: all vertical, or all along the lines of sight of one
    track."""

    value: Float
    """(F,) mm; NaN where not known."""
    variance: Float
    """(F,) mm2."""
    is_reported: Mask
    """(F,) buildings whose settlement these movements are."""


def whole_columns(
    whole: WholeBuildings, footprints: geopandas.GeoDataFrame, radius_m: float
) -> dict[str, NDArray[Any]]:
    """Return the columns `WHOLE` (F,) of all buildings of a city; NaN or None where not known.

    Args:
        whole: of the F buildings. footprints: of these.
        radius_m: largest distance between the middles of neighbours.
    """
    middles = footprint_middle(footprints.geometry.to_numpy())
    settlement, variance, difference, difference_variance = np.full((4, len(middles)), np.nan)
    direction = np.full(len(middles), None, object)
    vertical, *along = comparable_movements(whole)
    for movements in (vertical, *along):
        rows, median = movements.is_reported, medians_around(middles, movements, radius_m)
        settlement[rows], variance[rows] = movements.value[rows], movements.variance[rows]
        direction[rows] = VERTICAL if movements is vertical else LINE_OF_SIGHT
        difference[rows] = (movements.value - median.value)[rows]
        difference_variance[rows] = (movements.variance + median.variance)[rows]
    n_one_sided = sum(int(movements.is_reported.sum()) for movements in along)
    if n_one_sided:
        log.info(
            "%d of %d buildings with a settlement are seen well by ascending or by descending "
            "tracks alone: theirs is along the line of sight, not vertical",
            n_one_sided,
            int(np.isfinite(settlement).sum()),
        )
    tilt, tilt_std, towards = _tilts(whole)
    return {
        "settlement_mm": settlement,
        "settlement_std_mm": np.sqrt(variance),
        "settlement_rate_mm_year": settlement / whole.years,
        "settlement_direction": direction,
        "tilt_mm_m": tilt,
        "tilt_std_mm_m": tilt_std,
        "tilt_towards": towards,
        "against_neighbours_mm": difference,
        "against_neighbours_std_mm": np.sqrt(difference_variance),
        "strain_resolution_permille": whole.resolution,
    }


def comparable_movements(whole: WholeBuildings) -> list[Comparable]:
    """Return the vertical movements, then those along the lines of sight of each track.

    A track with fewer than `MIN_SCATTERERS` that share a building's motion may show something else:
    the ground beside the building, or the next one. It counts if it probably shows the building,
    see `_solve_leading_tracks`; the remaining doubt widens the error of the vertical movement.
    Otherwise it does not count, and the movement is along a line of sight of the other tracks. If
    these have as few scatterers, and both contradict each other, the movement is not known.
    """
    has_change = np.isfinite(whole.change)
    weight = np.where(has_change, 1 / np.where(has_change, whole.variance, 1), 0)
    change = np.where(has_change, whole.change, 0)

    def solve(counts: Mask) -> Decomposition:
        return solve_units(TrackMeans(change, weight * counts, whole.los, counts.astype(np.int64)))

    has_enough = has_change & (whole.agreeing >= MIN_SCATTERERS)
    leading = has_enough.copy()
    # Of tracks that all have few, the one with most scatterers leads, and of equal ones the
    # more precise.
    few_rows = np.flatnonzero(has_change.any(1) & ~has_enough.any(1))
    rank = np.where(has_change, whole.agreeing + weight / (1 + weight), -1)
    leading[few_rows, rank[few_rows].argmax(1)] = True
    by_leading = _solve_leading_tracks(whole, weight, leading, solve(has_enough))
    counts = leading | (has_change & (by_leading.on_building >= MIN_PROBABILITY))
    solution = solve(counts)
    has_both = np.isfinite(solution.east)
    # Mean and variance of a mixture: the tracks of few scatterers show the building, or they do
    # not.
    p_on_building = np.where(counts, by_leading.on_building, 1).min(1)
    difference_mm = np.where(has_both, solution.up - by_leading.up, 0)
    up = solution.up - (1 - p_on_building) * difference_mm
    variance = p_on_building * solution.up_se**2 + (1 - p_on_building) * by_leading.up_variance
    variance += p_on_building * (1 - p_on_building) * difference_mm**2
    vertical = Comparable(
        np.where(has_both, up, np.nan), np.where(has_both, variance, np.nan), has_both
    )
    is_contradicted = ~has_enough.any(1) & (has_change & ~counts).any(1)
    is_one_sided = has_change.any(1) & ~has_both & ~is_contradicted
    best_track, los_variance = (weight * leading).argmax(1), whole.variance + _level_variance(whole)
    return [
        vertical,
        *(
            Comparable(
                whole.change[:, track], los_variance[:, track], is_one_sided & (best_track == track)
            )
            for track in range(has_change.shape[1])
        ),
    ]


class _LeadingMovements(NamedTuple):
    """Movements by the leading tracks alone, and their agreement with the other tracks."""

    up: Float
    """(F,) mm."""
    up_variance: Float
    """(F,) mm2."""
    on_building: Float
    """(F, T) probability that a track's scatterers are on the building; 1 for a leading track."""


def _solve_leading_tracks(
    whole: WholeBuildings, weight: Float, leading: Mask, reliable: Decomposition
) -> _LeadingMovements:
    """Return the movement by the leading tracks, and the probability that others show the building.

    One direction cannot separate up from east. The prior of the movement to the east comes from the
    buildings of the city with enough scatterers in both directions. A track that shows the building
    then differs from the expected value by its error, one that shows something else also by
    `OFFSET_MM`.

    Args:
        whole: of F buildings in T tracks.
        weight: (F, T) inverse variances of the changes, 1/mm2; 0 where a track does not see
            a building.
        leading: (F, T) tracks that count in any case.
        reliable: movements by the tracks of enough scatterers.
    """
    has_east = np.isfinite(reliable.east)
    n_reliable, median_east, excess = int(has_east.sum()), 0.0, 0.0
    if n_reliable:
        median_east = float(np.median(reliable.east[has_east]))
        # The variance of the movements themselves is that of the estimates less that of their
        # errors.
        east_2 = np.median((reliable.east[has_east] - median_east) ** 2) / MEDIAN_OF_SQUARE
        excess = max(float(east_2 - np.median(reliable.east_se[has_east] ** 2)), 0.0)
    east_variance = (n_reliable * excess + PRIOR_COUNT * SIDEWAYS_MM**2) / (
        n_reliable + PRIOR_COUNT
    )

    # Weighted least squares of the movement (east, up), with a normal prior of both.
    change = np.where(weight > 0, whole.change - reliable.offset, 0)
    los, leading_weight = whole.los[..., [0, 2]], np.where(leading, weight, 0)
    normal = np.einsum("ft,fti,ftj->fij", leading_weight, los, los) + np.diag(
        [1 / east_variance, PRIOR_UP_WEIGHT]
    )
    rhs = np.einsum("ft,fti->fi", leading_weight * change, los) + np.array(
        [median_east / east_variance, 0]
    )
    covariance = np.linalg.inv(normal)
    movement = np.einsum("fij,fj->fi", covariance, rhs)

    residual_2 = (change - np.einsum("fti,fi->ft", los, movement)) ** 2
    error_2 = np.einsum("fti,fij,ftj->ft", los, covariance, los) + 1 / np.where(
        weight > 0, weight, 1
    )
    elsewhere_2 = error_2 + OFFSET_MM**2
    # Logarithm of N(residual; 0, elsewhere_2) / N(residual; 0, error_2).
    log_ratio = residual_2 * (1 / error_2 - 1 / elsewhere_2) / 2 - np.log(elsewhere_2 / error_2) / 2
    on_building = np.ones(leading.shape)
    for in_group, share in (
        (whole.agreeing < 2, ELSEWHERE_OF_ONE),
        (whole.agreeing >= 2, ELSEWHERE_OF_TWO),
    ):
        rows = (weight > 0) & ~leading & in_group
        on_building[rows] = _probability_on_building(log_ratio[rows], share)
    return _LeadingMovements(movement[:, 1], covariance[:, 1, 1], on_building)


def _probability_on_building(log_ratio: Float, share: float) -> Float:
    """Return the probability (N,) that tracks show their building, by a mixture for the city.

    Args:
        log_ratio: (N,) log likelihood ratio of a change: something else over the building.
        share: prior share of the tracks that show something else, with the weight `PRIOR_COUNT`.
    """
    p_on_building, elsewhere_share = np.zeros(len(log_ratio)), share
    for _ in range(EM_ROUNDS):
        p_on_building = expit(np.log(1 / elsewhere_share - 1) - log_ratio)
        elsewhere_share = ((1 - p_on_building).sum() + PRIOR_COUNT * share) / (
            len(p_on_building) + PRIOR_COUNT
        )
    return np.asarray(p_on_building, float)


def _level_variance(whole: WholeBuildings) -> Float:
    """Return the variance (F, T) of a movement along LOS by the unknown ground level, mm2.

    Heights count from the lowest scatterer. With few scatterers it may be far above the ground, and
    high parts of a leaning building move sideways. Two directions resolve this as a movement to the
    east, one does not.
    """
    horizontal = whole.los[..., :2]
    along = np.einsum("fti,fi->ft", horizontal, whole.tilt) ** 2
    along += np.einsum("fti,fij,ftj->ft", horizontal, whole.tilt_covariance, horizontal)
    prior = (horizontal**2).sum(2) * (whole.lean[:, None] ** 2 + LIKELY_TILT**2) / 2
    height_2 = LEVEL_M**2 / np.maximum(whole.agreeing.sum(1), 1)
    return np.asarray(height_2[:, None] * np.where(np.isfinite(along), along, prior), float)


def medians_around(place: Float, movements: Comparable, radius_m: float) -> Comparable:
    """Return the median of the other buildings within a radius, and its variance by their errors.

    NaN where they are fewer than `MIN_NEIGHBOURS`.

    Args:
        place: (F, 2) m. movements: of the F buildings. radius_m: m.
    """
    value, variance = np.full((2, len(place)), np.nan)
    with_value, targets = (
        np.flatnonzero(np.isfinite(movements.value)),
        np.flatnonzero(movements.is_reported),
    )
    if len(with_value) <= MIN_NEIGHBOURS or not len(targets):
        return Comparable(value, variance, movements.is_reported)
    tree = cKDTree(place[with_value])
    for start in range(0, len(targets), BATCH_BUILDINGS):
        part = targets[start : start + BATCH_BUILDINGS]
        pairs = cKDTree(place[part]).sparse_distance_matrix(tree, radius_m, output_type="ndarray")
        target, neighbour = pairs["i"], with_value[pairs["j"]]
        is_other = neighbour != part[target]
        target, neighbour = target[is_other], neighbour[is_other]
        count = np.bincount(target, minlength=len(part))
        median = grouped_medians(target, movements.value[neighbour], len(part))
        error_2 = movements.variance[neighbour]
        # The number of values below the median has the variance p (1 - p) for each of them. Divided
        # by the square of their density at the median, it is the variance of the median.
        deviation = (movements.value[neighbour] - median[target]) / np.sqrt(error_2)
        below, densities = (
            ndtr(-deviation),
            np.exp(-(deviation**2) / 2) / np.sqrt(2 * np.pi * error_2) + 1e-12,
        )
        density = np.maximum(np.bincount(target, densities, len(part)), 1e-100)
        spread = np.bincount(target, below * (1 - below) + 1e-12, len(part)) / density**2
        # A median in a gap between two values has their error.
        median_variance = np.minimum(
            spread, np.bincount(target, densities * error_2, len(part)) / density
        )
        has_enough = count >= MIN_NEIGHBOURS
        value[part[has_enough]], variance[part[has_enough]] = (
            median[has_enough],
            median_variance[has_enough],
        )
    return Comparable(value, variance, movements.is_reported)


def _tilts(whole: WholeBuildings) -> tuple[Float, Float, Float]:
    """Return size (F,), its standard error, and the compass degrees of the side that sinks."""
    size, error, towards = np.full((3, len(whole.tilt)), np.nan)
    has_tilt = np.isfinite(whole.tilt).all(1)
    tilt = whole.tilt[has_tilt]
    size[has_tilt] = np.hypot(*tilt.T)
    # The size is no linear function of the uncertain vector: its error is the root mean square over
    # it.
    nodes = np.stack(np.meshgrid(NODES, NODES), axis=-1).reshape(-1, 2)
    weights = np.outer(NODE_WEIGHTS, NODE_WEIGHTS).ravel() / NODE_WEIGHTS.sum() ** 2
    sampled = tilt[:, None] + nodes @ np.linalg.cholesky(whole.tilt_covariance[has_tilt]).transpose(
        0, 2, 1
    )
    error[has_tilt] = np.sqrt(
        (np.hypot(sampled[..., 0], sampled[..., 1]) - size[has_tilt, None]) ** 2 @ weights
    )
    is_clear = has_tilt & (size >= MIN_TILT_ERRORS * np.where(has_tilt, error, np.inf))
    towards[is_clear] = towards_of(whole.tilt[is_clear])
    return size, error, towards


def towards_of(tilt: Float) -> Float:
    """Return the compass degrees (N,) of the sides that sink, by the rise towards the east
    and the north (N, 2)."""
    return np.asarray(np.degrees(np.arctan2(-tilt[:, 0], -tilt[:, 1])) % 360, float)
