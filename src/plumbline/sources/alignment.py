"""Estimate by how much the points of a city are shifted against its footprints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import geopandas
import numpy as np
import shapely
from numpy.typing import NDArray

from plumbline.core.console import warn
from plumbline.core.jobs import in_threads
from plumbline.params import Product
from plumbline.sources.points.track import Track

MAX_TRIED_M = 24.0
"""Largest shift that is tried: the next building is about as far away."""
COARSE_M, FINE_M = 3.0, 1.0
MAX_POINTS, MIN_POINTS = 1500, 100
"""Numbers of points of a viewing side: more do not change the answer, fewer give it by chance."""
MAX_POINTS_OF_FOOTPRINT = 12
"""Largest number of points around one footprint. Position errors of one building's points are
correlated: more buildings give more information, more points of one do not."""
BATCH_FOOTPRINTS = 64
"""Number of footprints around which points are selected in one step."""
MIN_SHIFT_M = 4.0
"""Smallest shift that is reported. Less is usual: the radar sees the walls that face it, so points
of one side are off the middle of houses."""
MIN_GAIN = 0.05
"""Smallest increase of the share of points on footprints for which a shift is reported."""
MIN_GAIN_ERRORS = 4.5
"""Smallest gain in its standard errors. It is the largest of some hundred gains: by chance up to
four."""
MIN_SEPARATION_M = 12.0
"""Distance between two moves from which on they are different answers: regular streets fit at
several."""
MIN_LEAD = 0.25
"""Smallest part of the gain by which the best move is better than any different answer."""
MIN_UP = 0.05
"""Up part of a line of sight below which no satellite looks: the points are of a component,
east or north."""


class Alignment(NamedTuple):
    """Shift that would place the points better on the footprints."""

    east_m: float
    """Correcting shift of the points to the east."""
    north_m: float
    inside: float
    """Share of the points around footprints that are on one."""
    inside_moved: float
    """Share of them on a footprint after the move."""
    inside_else: float
    """Largest share of them on a footprint after a move at least `MIN_SEPARATION_M` from the best
    one."""
    errors: float
    """Gain of that share, in its standard errors."""

    @property
    def is_beside(self) -> bool:
        """Whether the points are shifted against the footprints, beyond chance and usual errors."""
        is_shifted = np.hypot(self.east_m, self.north_m) >= MIN_SHIFT_M
        gain, lead = self.inside_moved - self.inside, self.inside_moved - self.inside_else
        is_unique = lead >= max(MIN_GAIN, MIN_LEAD * gain)
        return bool(
            is_shifted and is_unique and gain >= MIN_GAIN and self.errors >= MIN_GAIN_ERRORS
        )

    @property
    def is_farthest(self) -> bool:
        """Whether the shift is the largest one tried, so the best may be larger."""
        return max(abs(self.east_m), abs(self.north_m)) >= MAX_TRIED_M + COARSE_M


def alignment(tracks: Sequence[Track], footprints: NDArray[np.object_]) -> Alignment | None:
    """Find the shift of all tracks' points that puts the most of them on footprints.

    All moves up to `MAX_TRIED_M` are tried on points around some buildings. Ascending and
    descending passes have equal weight, whatever their number of points: each sees the walls of its
    side.

    Args:
        tracks: points. footprints: (B,) polygons in their CRS.

    Returns:
        The best move, which `is_beside` judges; None where too few points are around footprints.
    """
    index = _FootprintIndex(footprints)
    sides: dict[int, list[Track]] = {}
    for track in tracks:
        sides.setdefault(_viewing_side(track), []).append(track)
    samples = [sample for side in sides.values() if (sample := index.sample(side)) is not None]
    if not samples:
        return None
    moves = _grid_moves(np.arange(-MAX_TRIED_M, MAX_TRIED_M + 1e-9, COARSE_M))
    shares = index.shares(samples, moves)
    fine_steps = _grid_moves(np.arange(-COARSE_M, COARSE_M + 1e-9, FINE_M))
    fine_moves = _select_best(moves, shares) + fine_steps
    best = _select_best(fine_moves, index.shares(samples, fine_moves))
    apart = np.hypot(*(moves - best).T) >= MIN_SEPARATION_M
    other_moves = _select_best(moves[apart], shares[apart]) + fine_steps
    inside_else = index.shares(
        samples, other_moves[np.hypot(*(other_moves - best).T) >= MIN_SEPARATION_M]
    ).max()
    inside, inside_moved, errors = index.gain(samples, best)
    return Alignment(
        float(best[0]), float(best[1]), inside, inside_moved, float(inside_else), errors
    )


def warn_of_offset(
    tracks: Sequence[Track],
    buildings: geopandas.GeoDataFrame,
    points: str,
    products: Mapping[str, Product] = {},
    borrowed: str | None = None,
) -> None:
    """Warn if the points are shifted against the footprints, with the correcting shift.

    Args:
        tracks: points. buildings: the buildings table, in their CRS. points: the files, for
            the message.
        products: what is stated of them already (`ingest.products`).
        borrowed: name of their city, where the points are copies of a user's own, whose
            moves are stated elsewhere.
    """
    shift = alignment(tracks, buildings.geometry.to_numpy())
    if shift is None or not shift.is_beside:
        return
    warn(
        "%s: the points seem to be %s%s of the footprints: %.0f %% of those around are on one, "
        "after the move %.0f %%. Look at both (a map shows it). If it is so, %s (docs/formats.md)",
        points,
        _format_shift(-shift.east_m, -shift.north_m),
        ", or farther," if shift.is_farthest else "",
        100 * shift.inside,
        100 * shift.inside_moved,
        _advise_correction(shift, products, borrowed),
        key="points.shifted",
    )


def _advise_correction(
    shift: Alignment, products: Mapping[str, Product], borrowed: str | None
) -> str:
    """Return the setting that corrects the shift; it adds to a stated `moved_m`, which has
    already moved the points."""
    move = f"[{round(shift.east_m)}, {round(shift.north_m)}]"
    if borrowed is not None:
        section = f"simulate.borrowed.{borrowed.partition('--')[0]}.products"
        return (
            f"state it in {section} as moved_m: {move}, or add it to the value there, and "
            "simulate again"
        )
    if shift.is_farthest:
        return (
            "check datum and CRS of both, or measure how far it is and state it as moved_m in "
            "ingest.products"
        )
    if any(about.moved_m for about in products.values()):
        return f"add {move} to moved_m of these files in ingest.products"
    if products:
        return (
            f"state moved_m: {move} in every pattern of ingest.products that one of these "
            "files takes"
        )
    line = f'ingest: {{products: {{"*": {{moved_m: {move}}}}}}}'
    return f"state in a file that --params names (params.yaml, in the pipeline): {line}"


class _Sample(NamedTuple):
    """Sample of points around footprints."""

    place: NDArray[np.float64]
    """(P, 2) m."""
    lowest_move: NDArray[np.float64]
    """(2, M) east and north, m: smallest move that puts the point of a pair into the box of its
    footprint."""
    highest_move: NDArray[np.float64]
    """(2, M) and the largest."""
    building: NDArray[np.intp]
    """(P,) footprint that each is near."""
    point: NDArray[np.intp]
    """(M,) of each pair of a point and a footprint that a move may put it on: the point."""
    footprint: NDArray[np.intp]
    """(M,) and the footprint."""


class _FootprintIndex:
    """Index of the footprints, to count the points on them after a shift."""

    def __init__(self, footprints: NDArray[np.object_]) -> None:
        self._footprints, self._tree = footprints, shapely.STRtree(footprints)
        self._box = shapely.bounds(footprints)
        self._bounds = self._box + MAX_TRIED_M * np.array([-1, -1, 1, 1])
        # Always the same buildings: an answer must not depend on the day.
        self._order = np.random.default_rng(0).permutation(len(footprints))

    def sample(self, tracks: Sequence[Track]) -> _Sample | None:
        """Sample points around buildings drawn at random; None if they are too few."""
        place = np.concatenate(
            [np.column_stack([track.easting, track.northing]) for track in tracks]
        )
        by_east = np.argsort(place[:, 0])
        easting = place[by_east, 0]
        first, end = (
            np.searchsorted(easting, self._bounds[:, 0]),
            np.searchsorted(easting, self._bounds[:, 2], "right"),
        )
        footprint_of_row: dict[int, int] = {}
        for start in range(0, len(self._order), BATCH_FOOTPRINTS):
            for number in self._order[start : start + BATCH_FOOTPRINTS].tolist():
                near = by_east[first[number] : end[number]]
                _, south, _, north = self._bounds[number]
                near = np.sort(near[(place[near, 1] >= south) & (place[near, 1] <= north)])
                for row in near[:: max(1, -(-len(near) // MAX_POINTS_OF_FOOTPRINT))].tolist():
                    footprint_of_row.setdefault(row, number)
            if len(footprint_of_row) >= MAX_POINTS:
                break
        if len(footprint_of_row) < MIN_POINTS:
            return None
        place = place[list(footprint_of_row)]
        farthest = MAX_TRIED_M + COARSE_M + FINE_M
        point, footprint = self._tree.query(
            shapely.box(*(place - farthest).T, *(place + farthest).T)
        )
        box, at = self._box[footprint].T, place[point].T
        building = np.array(list(footprint_of_row.values()), np.intp)
        return _Sample(place, box[:2] - at, box[2:] - at, building, point, footprint)

    def shares(self, samples: Sequence[_Sample], moves: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the share (M,) of points on footprints after each shift (M, 2), each
        sample with equal weight."""
        shares = in_threads(
            lambda move: [self._is_on(sample, move).mean() for sample in samples], moves
        )
        return np.asarray(np.mean(list(shares), axis=1), float)

    def gain(
        self, samples: Sequence[_Sample], move: NDArray[np.float64]
    ) -> tuple[float, float, float]:
        """Return the share of points on footprints before and after, and the difference
        over its standard error."""
        before, after, variance = 0.0, 0.0, 0.0
        for sample in samples:
            on_before, on_after = self._is_on(sample, np.zeros(2)), self._is_on(sample, move)
            before, after = (
                before + on_before.mean() / len(samples),
                after + on_after.mean() / len(samples),
            )
            gained = on_after.astype(float) - on_before
            # Errors of one building's points are correlated: its gains are summed before they
            # are squared.
            gain_of_building = np.bincount(sample.building, gained - gained.mean())
            variance += float((gain_of_building**2).sum()) / (len(on_before) * len(samples)) ** 2
        return float(before), float(after), float((after - before) / max(np.sqrt(variance), 1e-12))

    def _is_on(self, sample: _Sample, move: NDArray[Any]) -> NDArray[np.bool_]:
        (east, north), (low_east, low_north) = move, sample.lowest_move
        high_east, high_north = sample.highest_move
        in_box = np.flatnonzero(
            (low_east <= east) & (east <= high_east) & (low_north <= north) & (north <= high_north)
        )
        point, footprint = sample.point[in_box], self._footprints[sample.footprint[in_box]]
        hit = shapely.intersects_xy(footprint, *(sample.place[point] + move).T)
        return np.bincount(point, hit, minlength=len(sample.place)) > 0


def _viewing_side(track: Track) -> int:
    """Return the satellite's side: -1 west, 1 east; 0 for components, which count as one side."""
    east, _, up = np.median(track.los, axis=0) if len(track) else np.zeros(3)
    return int(np.sign(east)) if up > MIN_UP else 0


def _select_best(moves: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the shift with the largest share of points on footprints; the smallest of equal
    ones."""
    return np.asarray(moves[np.lexsort((np.hypot(*moves.T), -np.round(shares, 12)))[0]])


def _grid_moves(steps: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.stack(np.meshgrid(steps, steps, indexing="ij"), -1).reshape(-1, 2)


def _format_shift(east_m: float, north_m: float) -> str:
    parts = [
        (abs(east_m), "east" if east_m > 0 else "west"),
        (abs(north_m), "north" if north_m > 0 else "south"),
    ]
    return " and ".join(f"{size:.0f} m {direction}" for size, direction in parts if size >= 0.5)
