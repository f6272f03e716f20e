"""Turn tracks and footprints into sequences, in the same way for training and for prediction."""

from __future__ import annotations

from typing import NamedTuple

import geopandas
import numpy as np
from numpy.typing import NDArray

from plumbline.core.errors import InputError
from plumbline.params import Prepare
from plumbline.prepare.abstention import LeftOut, leave_out
from plumbline.prepare.assignment.nearest import UNASSIGNED
from plumbline.prepare.assignment.owners import (
    MIN_EPOCHS,
    Owners,
    collect_scatterers,
    find_owners,
    footprint_area,
    observation_period,
)
from plumbline.prepare.features.build import choose_scatterers, describe_buildings
from plumbline.prepare.features.sequences import Sequences
from plumbline.prepare.response.decompose import TrackMeans, building_means
from plumbline.prepare.scatterers import check_epochs, period_overlap
from plumbline.sources.points.track import Track


class Prepared(NamedTuple):
    """Outcome for each footprint."""

    sequences: Sequences
    """The buildings that can be judged, without labels."""
    footprint: NDArray[np.intp]
    """(B,) row in the buildings table of each of them."""
    n_points: NDArray[np.int64]
    """(F,) usable scatterers of every footprint of the table."""
    left_out: LeftOut
    """Why the others of the F footprints cannot be judged."""
    means: TrackMeans
    """How each of the F buildings moves as a whole, in each track."""
    moved: int
    """Points that count for another building than the nearest; see `owners.Owners`."""
    owners: list[NDArray[np.intp]]
    """Of each track that was given: (N,) footprint of each point; `UNASSIGNED` without one, and in a track that was
    left out."""
    track: NDArray[np.intp]
    """(R,) of each row of `sequences`: which of the tracks that were given it is from."""
    point: NDArray[np.intp]
    """(R,) and its row there."""


def prepare_buildings(
    tracks: list[Track],
    buildings: geopandas.GeoDataFrame,
    params: Prepare,
    city: str = "",
    owners: Owners | None = None,
) -> Prepared:
    """Assign, decouple and describe; a building left out by a rule of `abstention` gets no sequence.

    Args:
        tracks: in one projected CRS; those that share too little time with the others are left out.
        buildings: footprints in that CRS, with `building_id`.
        params: section `prepare`.
        city: name written beside each building.
        owners: of the points of all `tracks`, where more footprints than these have been looked at for it.

    Raises:
        InputError: the tracks have fewer than `MIN_EPOCHS` epochs, or differ in CRS from each other or the footprints.
    """
    _check(tracks, buildings)
    kept = period_overlap(tracks).kept
    whose = [np.full(len(track), UNASSIGNED, np.intp) for track in tracks]
    tracks = [tracks[number] for number in kept]
    footprints = np.asarray(buildings.geometry.values, dtype=object)
    if owners is None:
        owners = find_owners(tracks, footprints, params)
    else:
        owners = owners._replace(of=[owners.of[number] for number in kept])
    for number, own in zip(kept, owners.of, strict=True):
        whose[number] = own
    scatterers, frame = collect_scatterers(tracks, footprints, owners.of)
    left_out = leave_out(frame.side, scatterers.building, scatterers.xy, params)
    chosen = choose_scatterers(scatterers, frame, left_out.judged, params.max_points)
    return Prepared(
        describe_buildings(
            chosen,
            frame,
            footprint_area(footprints),
            buildings["building_id"].to_numpy().astype(str),
            left_out.judged,
            observation_period(tracks).years,
            city,
        ),
        left_out.judged,
        np.bincount(scatterers.building, minlength=len(footprints)).astype(np.int64),
        left_out,
        building_means(scatterers, frame, len(tracks)),
        owners.moved,
        whose,
        kept[chosen.track],
        chosen.point,
    )


def _check(tracks: list[Track], buildings: geopandas.GeoDataFrame) -> None:
    check_epochs(tracks, MIN_EPOCHS)
    for track in tracks:
        if track.crs != tracks[0].crs or buildings.crs is None or not buildings.crs.equals(track.crs):
            raise InputError(f"{track.name}: CRS {track.crs} found; all points and footprints must share one.")
