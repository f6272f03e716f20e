"""See whether points lie beside the footprints, and by how much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import geopandas
import numpy as np
import shapely
from numpy.typing import NDArray

from plumbline.core.console import log
from plumbline.params import Product
from plumbline.sources.points.track import Track

REACH_M = 24.0
"""Larger shifts are not looked for: the next building is about as far away."""
COARSE_M, FINE_M = 3.0, 1.0
MOST_POINTS, FEWEST_POINTS = 1500, 100
"""Of a viewing side: with more the answer is no other, with fewer it is chance."""
MOST_OF_ONE = 12
"""Points around one footprint: those of a building lie wrong together, so that many buildings tell more."""
AT_A_TIME = 64
"""Footprints around which points are looked for together."""
LEAST_M = 4.0
"""Less is usual: the radar sees the walls that face it, so that points of one side lie off the middle of houses."""
LEAST_GAIN = 0.05
"""Share of the points by which more must lie on footprints after the move."""
LEAST_ERRORS = 4.5
"""Standard errors of that gain, which is the largest of some hundred: by chance up to four."""
APART_M = 12.0
"""From here on another move is another answer: streets that are regular fit themselves at several."""
LEAST_LEAD = 0.25
"""Part of the gain by which the best move must be better than another answer."""
LEAST_UP = 0.05
"""Up part of a line of sight below which no satellite looks: the points are of a component, east or north."""


class Alignment(NamedTuple):
    """Shift that would place the points better on the footprints."""

    east_m: float
    """By which they would have to be moved."""
    north_m: float
    inside: float
    """Share of the points around footprints that lie on one."""
    inside_moved: float
    """The same after the move."""
    inside_else: float
    """The same after the best move that is another answer."""
    errors: float
    """The gain by its standard error."""

    @property
    def is_beside(self) -> bool:
        """Whether the points are shifted against the footprints, beyond chance and usual errors."""
        far = np.hypot(self.east_m, self.north_m) >= LEAST_M
        gain, lead = self.inside_moved - self.inside, self.inside_moved - self.inside_else
        alone = lead >= max(LEAST_GAIN, LEAST_LEAD * gain)
        return bool(far and alone and gain >= LEAST_GAIN and self.errors >= LEAST_ERRORS)

    @property
    def is_farthest(self) -> bool:
        """Whether the shift is the farthest one tried, so that the best may be farther."""
        return max(abs(self.east_m), abs(self.north_m)) >= REACH_M + COARSE_M


def alignment(tracks: Sequence[Track], footprints: NDArray[np.object_]) -> Alignment | None:
    """Find the shift of all tracks' points that puts the most of them on footprints.

    All moves up to `REACH_M` are tried on points around some buildings. Ascending and descending passes count alike
    however many points they have: each sees the walls of its own side.

    Args:
        tracks: points. footprints: (B,) polygons in their CRS.

    Returns:
        The best move, which `is_beside` judges; None where too few points are around footprints.
    """
    around = _Around(footprints)
    sides: dict[int, list[Track]] = {}
    for track in tracks:
        sides.setdefault(_side(track), []).append(track)
    looked = [found for side in sides.values() if (found := around.sample(side)) is not None]
    if not looked:
        return None
    moves = _grid(np.arange(-REACH_M, REACH_M + 1e-9, COARSE_M))
    shares = around.shares(looked, moves)
    around_it = _grid(np.arange(-COARSE_M, COARSE_M + 1e-9, FINE_M))
    near = _best(moves, shares) + around_it
    best = _best(near, around.shares(looked, near))
    apart = np.hypot(*(moves - best).T) >= APART_M
    others = _best(moves[apart], shares[apart]) + around_it
    second = around.shares(looked, others[np.hypot(*(others - best).T) >= APART_M]).max()
    inside, moved, errors = around.gain(looked, best)
    return Alignment(float(best[0]), float(best[1]), inside, moved, float(second), errors)


def warn_of_offset(
    tracks: Sequence[Track],
    buildings: geopandas.GeoDataFrame,
    points: str,
    products: Mapping[str, Product] = {},
    borrowed: str | None = None,
) -> None:
    """Warn if the points are shifted against the footprints, with the correcting shift.

    Args:
        tracks: points. buildings: the buildings table, in their CRS. points: the files, for the message.
        products: what is stated of them already (`ingest.products`).
        borrowed: name of their city, where the points are copies of a user's own, whose moves are stated elsewhere.
    """
    found = alignment(tracks, buildings.geometry.to_numpy())
    if found is None or not found.is_beside:
        return
    log.warning(
        "%s: the points seem to lie %s%s of the footprints: %.0f %% of those around are on one, moved %.0f %%. Look at "
        "both (a map shows it). If it is so, %s (docs/formats.md)",
        points,
        _words(-found.east_m, -found.north_m),
        ", or farther," if found.is_farthest else "",
        100 * found.inside,
        100 * found.inside_moved,
        _advice(found, products, borrowed),
    )


def _advice(found: Alignment, products: Mapping[str, Product], borrowed: str | None) -> str:
    """Return the setting that corrects the shift; it adds to a stated `moved_m`, which has already moved the points."""
    move = f"[{round(found.east_m)}, {round(found.north_m)}]"
    if borrowed is not None:
        section = f"simulate.borrowed.{borrowed.partition('--')[0]}.products"
        return f"state it in {section} as moved_m: {move}, or add it to what stands there, and simulate again"
    if found.is_farthest:
        return "check datum and CRS of both, or measure how far it is and state it as moved_m in ingest.products"
    if any(about.moved_m for about in products.values()):
        return f"add {move} to what moved_m in ingest.products says of these files"
    if products:
        return f"state moved_m: {move} in every pattern of ingest.products that one of these files takes"
    line = f'ingest: {{products: {{"*": {{moved_m: {move}}}}}}}'
    return f"state in a file that --params names (params.yaml, in the pipeline): {line}"


class _Sample(NamedTuple):
    """Sample of points around footprints."""

    place: NDArray[np.float64]
    """(P, 2) m."""
    building: NDArray[np.intp]
    """(P,) footprint that each is near."""
    point: NDArray[np.intp]
    """(M,) of each pair of a point and a footprint that a move may put it on: the point."""
    footprint: NDArray[np.intp]
    """(M,) and the footprint."""


class _Around:
    """Footprints, and which points fall on them after a shift."""

    def __init__(self, footprints: NDArray[np.object_]) -> None:
        self._footprints, self._tree = footprints, shapely.STRtree(footprints)
        self._box = shapely.bounds(footprints)
        self._bounds = self._box + REACH_M * np.array([-1, -1, 1, 1])
        # Always the same buildings: an answer must not depend on the day.
        self._order = np.random.default_rng(0).permutation(len(footprints))

    def sample(self, tracks: Sequence[Track]) -> _Sample | None:
        """Sample points around buildings drawn at random; None if they are too few."""
        place = np.concatenate([np.column_stack([track.easting, track.northing]) for track in tracks])
        by_east = np.argsort(place[:, 0])
        easting = place[by_east, 0]
        first, end = np.searchsorted(easting, self._bounds[:, 0]), np.searchsorted(easting, self._bounds[:, 2], "right")
        found: dict[int, int] = {}
        for start in range(0, len(self._order), AT_A_TIME):
            for number in self._order[start : start + AT_A_TIME].tolist():
                near = by_east[first[number] : end[number]]
                _, south, _, north = self._bounds[number]
                near = np.sort(near[(place[near, 1] >= south) & (place[near, 1] <= north)])
                for one in near[:: max(1, -(-len(near) // MOST_OF_ONE))].tolist():
                    found.setdefault(one, number)
            if len(found) >= MOST_POINTS:
                break
        if len(found) < FEWEST_POINTS:
            return None
        place = place[list(found)]
        farthest = REACH_M + COARSE_M + FINE_M
        point, footprint = self._tree.query(shapely.box(*(place - farthest).T, *(place + farthest).T))
        return _Sample(place, np.array(list(found.values()), np.intp), point, footprint)

    def shares(self, samples: Sequence[_Sample], moves: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the share (M,) of points on footprints after each shift (M, 2), each sample with equal weight."""
        found = [[self._on(sample, move).mean() for move in moves] for sample in samples]
        return np.asarray(np.mean(found, axis=0), float)

    def gain(self, samples: Sequence[_Sample], move: NDArray[np.float64]) -> tuple[float, float, float]:
        """Return the share of points on footprints before and after, and the difference over its standard error."""
        before, after, variance = 0.0, 0.0, 0.0
        for sample in samples:
            one, other = self._on(sample, np.zeros(2)), self._on(sample, move)
            before, after = before + one.mean() / len(samples), after + other.mean() / len(samples)
            gained = other.astype(float) - one
            together = np.bincount(sample.building, gained - gained.mean())  # of a building they lie wrong together
            variance += float((together**2).sum()) / (len(one) * len(samples)) ** 2
        return float(before), float(after), float((after - before) / max(np.sqrt(variance), 1e-12))

    def _on(self, sample: _Sample, move: NDArray[Any]) -> NDArray[np.bool_]:
        at, (west, south, east, north) = (sample.place + move)[sample.point].T, self._box[sample.footprint].T
        in_box = (at[0] >= west) & (at[0] <= east) & (at[1] >= south) & (at[1] <= north)
        hit = shapely.intersects_xy(self._footprints[sample.footprint[in_box]], *at[:, in_box])
        return np.bincount(sample.point[in_box], hit, minlength=len(sample.place)) > 0


def _side(track: Track) -> int:
    """Return the satellite's side: -1 west, 1 east; 0 for components, so that those of the same cells count once."""
    east, _, up = np.median(track.los, axis=0) if len(track) else np.zeros(3)
    return int(np.sign(east)) if up > LEAST_UP else 0


def _best(moves: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the shift with the largest share of points on footprints; the smallest of equal ones."""
    return np.asarray(moves[np.lexsort((np.hypot(*moves.T), -np.round(shares, 12)))[0]])


def _grid(steps: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.stack(np.meshgrid(steps, steps, indexing="ij"), -1).reshape(-1, 2)


def _words(east_m: float, north_m: float) -> str:
    parts = [(abs(east_m), "east" if east_m > 0 else "west"), (abs(north_m), "north" if north_m > 0 else "south")]
    return " and ".join(f"{size:.0f} m {way}" for size, way in parts if size >= 0.5)
