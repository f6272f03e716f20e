"""Say how each building moves as a whole, and against those around it, in the columns of the predictions.

Where ascending and descending tracks see a building, its settlement is vertical. Seen from one side only it has the
movement along the line of sight of its best track, and is compared with its neighbours in that track.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import geopandas
import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from scipy.special import ndtr

from plumbline.core.console import log
from plumbline.prepare.assignment.owners import footprint_middle
from plumbline.prepare.response.decompose import TrackMeans, grouped_medians, solve_units
from plumbline.prepare.response.whole_building import WholeBuildings

Float = NDArray[np.floating[Any]]
Mask = NDArray[np.bool_]
FEWEST = 3
"""Neighbours of which a median says something."""
TARGETS = 4096
"""Buildings whose neighbours are searched for at a time: bounds the memory."""
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


def whole_columns(whole: WholeBuildings, footprints: geopandas.GeoDataFrame, radius_m: float) -> dict[str, Float]:
    """Return the columns `WHOLE` (F,) of all buildings of a city; NaN where the points do not tell.

    Args:
        whole: of the F buildings. footprints: theirs. radius_m: others are neighbours within it, by their middles.
    """
    place = footprint_middle(footprints.geometry.to_numpy())
    settled, variance, against, against_variance = np.full((4, len(place)), np.nan)
    vertical, *along = comparable(whole)
    for one in (vertical, *along):
        settled[one.own], variance[one.own] = one.value[one.own], one.variance[one.own]
        around = medians_around(place, one, radius_m)
        against[one.own] = (one.value - around.value)[one.own]
        against_variance[one.own] = (one.variance + around.variance)[one.own]
    aside, told = sum(int(one.own.sum()) for one in along), int(np.isfinite(settled).sum())
    if aside:
        log.info(
            "%d of %d buildings with a settlement are seen by ascending or by descending tracks alone: "
            "theirs is along the line of sight, not vertical",
            aside,
            told,
        )
    size, size_std, towards = _tilts(whole)
    return {
        "settlement_mm": settled,
        "settlement_std_mm": np.sqrt(variance),
        "settlement_rate_mm_year": settled / whole.years,
        "tilt_mm_m": size,
        "tilt_std_mm_m": size_std,
        "tilt_towards": towards,
        "against_neighbours_mm": against,
        "against_neighbours_std_mm": np.sqrt(against_variance),
        "strain_resolution_permille": whole.resolution,
    }


def comparable(whole: WholeBuildings) -> list[Comparable]:
    """Return the vertical movements, then those along the lines of sight of each track."""
    seen = np.isfinite(whole.change)
    weight = np.where(seen, 1 / np.where(seen, whole.variance, 1), 0)
    solved = solve_units(TrackMeans(np.where(seen, whole.change, 0), weight, whole.los, seen.astype(np.int64)))
    both = np.isfinite(solved.east)
    best = weight.argmax(1)
    vertical = Comparable(np.where(both, solved.up, np.nan), np.where(both, solved.up_se, np.nan) ** 2, both)
    aside = seen.any(1) & ~both
    return [
        vertical,
        *(
            Comparable(whole.change[:, track], whole.variance[:, track], aside & (best == track))
            for track in range(seen.shape[1])
        ),
    ]


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
