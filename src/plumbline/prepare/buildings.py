"""Turn tracks and footprints into sequences, in the same way for training and for prediction.

Buildings are prepared in blocks, on several threads: the memory does not grow with the city.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import geopandas
import numpy as np
from numpy.typing import NDArray

from plumbline.core.console import track as track_progress
from plumbline.core.errors import InputError
from plumbline.core.jobs import in_threads, one_blas_thread
from plumbline.core.on_disk import Stack, folder_of, return_freed_memory
from plumbline.params import Prepare
from plumbline.prepare.abstention import LeftOut, leave_out
from plumbline.prepare.assignment.nearest import UNASSIGNED
from plumbline.prepare.assignment.owners import (
    MIN_EPOCHS,
    Owners,
    collect_scatterers,
    find_owners,
    footprint_area,
    footprint_middle,
    observation_period,
)
from plumbline.prepare.features.build import choose_scatterers, describe_buildings
from plumbline.prepare.features.sequences import Sequences, concatenate
from plumbline.prepare.response.decompose import TrackMeans, building_means
from plumbline.prepare.response.whole_building import WholeBuildings, whole_buildings
from plumbline.prepare.scatterers import check_epochs, period_overlap
from plumbline.sources.points.track import Track

BLOCK = 1 << 15
"""Approximate number of points and footprints of a block: enough for long arrays, few enough for
little memory."""


class Prepared(NamedTuple):
    """Outcome for each footprint."""

    sequences: Sequences
    """The buildings that can be judged, without labels."""
    footprint: NDArray[np.intp]
    """(B,) row of each in the buildings table."""
    n_points: NDArray[np.int64]
    """(F,) usable scatterers of every footprint of the table."""
    left_out: LeftOut
    """Rules by which the rest of the F footprints cannot be judged."""
    means: TrackMeans
    """Mean velocity of each of the F buildings, in each track."""
    whole: WholeBuildings
    """Motion and tilt of each of the F buildings as a whole."""
    moved: int
    """Points that count for another building than the nearest; see `owners.Owners`."""
    owners: list[NDArray[np.intp]]
    """Footprint (N,) of each point of each input track; `UNASSIGNED` without one, and in a track
    that was left out."""
    track: NDArray[np.intp]
    """(R,) number of the input track of each row of `sequences`."""
    point: NDArray[np.intp]
    """(R,) row of that point in its track."""


def prepare_buildings(
    tracks: list[Track],
    buildings: geopandas.GeoDataFrame,
    params: Prepare,
    city: str = "",
    *,
    owners: Owners | None = None,
    shown: bool = False,
) -> Prepared:
    """Prepare the sequences of all buildings but those that a rule of `abstention` leaves out.

    Args:
        tracks: in one projected CRS; those that share too little time with the others are left out.
        buildings: footprints in that CRS, with `building_id`.
        params: section `prepare`.
        city: name written beside each building.
        owners: of the points of all `tracks`, if they were assigned among more footprints than
            these.
        shown: whether the progress is shown.

    Raises:
        InputError: the tracks have fewer than `MIN_EPOCHS` epochs, or differ in CRS from
            each other or the footprints.
    """
    _check(tracks, buildings)
    used = period_overlap(tracks).used
    all_owners = [np.full(len(track), UNASSIGNED, np.intp) for track in tracks]
    tracks = [tracks[number] for number in used]
    footprints = np.asarray(buildings.geometry.values, dtype=object)
    with one_blas_thread():
        owners = (
            find_owners(tracks, footprints, params)
            if owners is None
            else owners._replace(of=[owners.of[number] for number in used])
        )
        for number, owner in zip(used, owners.of, strict=True):
            all_owners[number] = owner
        return_freed_memory()  # of reading and of the search for owners
        names, years = (
            buildings["building_id"].to_numpy().astype(str),
            observation_period(tracks).years,
        )
        # The sequences are where the series are.
        distance, slope = (Stack(folder_of(tracks[0].displacement)) for _ in range(2))
        bounds = _bounds(owners.of, len(footprints))
        parts = in_threads(
            lambda block: _prepare_block(
                block,
                tracks,
                footprints[block.rows],
                names[block.rows],
                params=params,
                years=years,
                city=city,
            ),
            _blocks(owners.of, bounds),
        )
        if shown:
            parts = track_progress(parts, len(bounds), "prepare", finished=True)
        sequences, judged, n_points, left_out, means, whole, _, _, track, point = zip(
            *_store_rows(parts, distance, slope), strict=True
        )
    return Prepared(
        replace(concatenate(list(sequences)), distance=distance.array(), slope=slope.array()),
        np.concatenate(judged),
        np.concatenate(n_points),
        LeftOut(np.concatenate([rules.code for rules in left_out])),
        TrackMeans(*(np.concatenate(part) for part in zip(*means, strict=True))),
        WholeBuildings(*(np.concatenate(part) for part in zip(*whole, strict=True))),
        owners.moved,
        all_owners,
        used[np.concatenate(track)],
        np.concatenate(point),
    )


class _Block(NamedTuple):
    """Consecutive footprints, with their points."""

    rows: slice
    """Rows of the footprints."""
    point: list[NDArray[np.intp]]
    """Row of each point in its track, for each track."""
    owner: list[NDArray[np.intp]]
    """Footprint of each point, from 0 in this block, for each track."""


def _store_rows(parts: Iterable[Prepared], distance: Stack, slope: Stack) -> Iterator[Prepared]:
    """Append the scatterers' rows to `distance` and `slope`, and yield the parts without them."""
    for part in parts:
        sequences = part.sequences
        distance.add(sequences.distance)
        slope.add(sequences.slope)
        yield part._replace(
            sequences=replace(
                sequences, distance=sequences.distance[:0].copy(), slope=sequences.slope[:0].copy()
            )
        )


def _bounds(owners: list[NDArray[np.intp]], footprints: int) -> list[tuple[int, int]]:
    """Return first and last + 1 footprint of each block; `owners` are, of each track, the
    footprint of each point.

    Blocks are of equal size: a large one at the end would keep one core busy, and the others idle.
    """
    size = 1 + sum(
        (np.bincount(owner[owner != UNASSIGNED], minlength=footprints) for owner in owners), start=0
    )
    end = np.cumsum(size) if footprints else np.zeros(0, int)
    total = int(end.max(initial=1))
    number = (end - 1) * -(-total // BLOCK) // total
    return list(pairwise([0, *(1 + np.flatnonzero(np.diff(number))), footprints]))


def _blocks(owners: list[NDArray[np.intp]], bounds: Iterable[tuple[int, int]]) -> Iterator[_Block]:
    """Cut a city into blocks; `owners` and `bounds` as of `_bounds`."""
    # Within a footprint the points keep the order of the file.
    order = [np.argsort(owner, kind="stable") for owner in owners]
    ordered = [owner[rows] for owner, rows in zip(owners, order, strict=True)]
    for first, end in bounds:
        ends = [np.searchsorted(owner, [first, end]) for owner in ordered]
        point = [np.sort(rows[low:high]) for rows, (low, high) in zip(order, ends, strict=True)]
        yield _Block(
            slice(first, end),
            point,
            [owner[rows] - first for owner, rows in zip(owners, point, strict=True)],
        )


def _prepare_block(
    block: _Block,
    tracks: list[Track],
    footprints: NDArray[np.object_],
    names: NDArray[np.str_],
    *,
    params: Prepare,
    years: float,
    city: str,
) -> Prepared:
    """Prepare the buildings of a block with assigned scatterers; `footprints` and `names`
    are of the block."""
    block_tracks = [track.take(rows) for track, rows in zip(tracks, block.point, strict=True)]
    scatterers, frame = collect_scatterers(block_tracks, footprints, block.owner)
    left_out = leave_out(frame.side, scatterers.building, scatterers.xy, params)
    judged = left_out.judged
    chosen = choose_scatterers(scatterers, frame, judged, params.max_points)
    point = np.zeros(len(chosen), np.intp)
    for number, rows in enumerate(block.point):
        in_track = chosen.track == number
        point[in_track] = rows[chosen.point[in_track]]
    means = building_means(scatterers, frame, len(tracks))
    return Prepared(
        sequences=describe_buildings(
            chosen,
            frame,
            area=footprint_area(footprints),
            building_id=names,
            judged=judged,
            years=years,
            city=city,
        ),
        footprint=judged + block.rows.start,
        n_points=np.bincount(scatterers.building, minlength=len(footprints)).astype(np.int64),
        left_out=left_out,
        means=means,
        whole=whole_buildings(scatterers, frame, footprint_middle(footprints), means.los, years),
        moved=0,
        owners=[],
        track=chosen.track,
        point=point,
    )


def _check(tracks: list[Track], buildings: geopandas.GeoDataFrame) -> None:
    check_epochs(tracks, MIN_EPOCHS)
    for track in tracks:
        if (
            track.crs != tracks[0].crs
            or buildings.crs is None
            or not buildings.crs.equals(track.crs)
        ):
            raise InputError(
                f"{track.name}: CRS {track.crs} found; all points and footprints must share one.",
                key="points.several_crss",
            )
