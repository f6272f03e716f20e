"""Make further layers of a GeoPackage: histories, buildings not judged."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import geopandas
import numpy as np
import pandas as pd
import shapely
from numpy.typing import NDArray

from plumbline.core.console import log
from plumbline.core.console import track as track_progress
from plumbline.prepare.abstention import LEANING, NO_MATTER, UNSURE_WHERE
from plumbline.prepare.assignment.nearest import UNASSIGNED
from plumbline.prepare.assignment.owners import usable_rows
from plumbline.reporting.colours import GREY, ORANGE
from plumbline.serve.columns import has_answer
from plumbline.serve.judgement import Answered, Judged
from plumbline.serve.predictions import AREAS, CAUSES, COURSES, SCATTERERS, UNJUDGED
from plumbline.serve.qgis.styles import Hatching, Layer, areas_style, causes_style, scatterers_style, unjudged_style
from plumbline.sources.points.epochs import velocity_mm_per_year
from plumbline.sources.points.track import Track

Index = NDArray[np.intp]
PIECE = 4096
"""Points written at a time: bounds the memory beyond the tracks."""
MOST_VALUES = 50_000_000
"""Most displacements that are written, of all tracks together: a file of 700 MB."""
MOST_EPOCHS = 1900
"""Most epochs that are written, the last ones: a table of SQLite has 2,000 columns at most."""
LONGEST_NAME = 60
LEAST_LIMIT, SHOWN = 2.0, 98.0
"""Of the velocities' colours: least limit, mm/yr, and percentile that sets it."""


class _Chosen(NamedTuple):
    """Points of a track that are written."""

    row: Index
    """(P,) in the track, ascending."""
    owner: Index
    """(P,) row of the building in the predictions."""
    velocity: NDArray[np.floating[Any]]
    """(P,) mm/yr."""


def further_layers(answered: Answered, tracks: Sequence[Track]) -> list[Layer]:
    """Make all layers of a GeoPackage besides the predictions: not judged, courses, areas, causes, histories."""
    judged, prepared = answered.judged, answered.prepared
    return [
        *unjudged_layer(judged),
        *courses_layer(judged),
        *areas_layer(judged),
        *causes_layer(judged),
        *scatterer_layers(tracks, prepared.owners, judged.table),
    ]


def courses_layer(judged: Judged) -> list[Layer]:
    """Make the layer `courses`, a table without places; an empty list if no building has one."""
    rows = judged.courses
    return [Layer(COURSES, [rows], None, None)] if rows is not None and len(rows) else []


def areas_layer(judged: Judged) -> list[Layer]:
    """Make the layer `moving_areas`; an empty list if nothing moves."""
    areas = judged.areas
    if areas is None or not len(areas):
        return []
    return [Layer(AREAS, [areas], areas_style(AREAS, colour_limit(areas["rate_mm_year"].to_numpy(float))), None)]


def causes_layer(judged: Judged) -> list[Layer]:
    """Make the layer `causes`; an empty list without any."""
    return [] if judged.causes is None else [Layer(CAUSES, [judged.causes], causes_style(CAUSES), None)]


def scatterer_layers(
    tracks: Sequence[Track], owners: Sequence[Index], predictions: geopandas.GeoDataFrame
) -> list[Layer]:
    """Prepare the layers. Until a piece is asked for, they hold only places, owners and velocities.

    Where all points are more than `MOST_VALUES` displacements, the buildings most probably damaged have theirs, each
    building all or none, and the log says how many.

    Args:
        tracks: the points that were judged by.
        owners: of each track (N,) the row of each point's building in `predictions`, `UNASSIGNED` without one.
        predictions: see `make_predictions`.
    """
    answered = has_answer(predictions)
    chosen = [_usable(track, owner, answered) for track, owner in zip(tracks, owners, strict=True)]
    chosen = _bounded(chosen, [len(_days(track)[0]) for track in tracks], predictions)
    names = layer_names([track.name for track in tracks])
    limit = colour_limit(
        np.concatenate([np.zeros(0), *(own.velocity for own in chosen)])
    )  # one scale: tracks are compared
    ids = predictions["building_id"].to_numpy(object)
    return [
        Layer(name, _pieces(track, own, ids), scatterers_style(name, limit, _days(track)[0]))
        for name, track, own in zip(names, tracks, chosen, strict=True)
        if len(own.row)
    ]


def layer_names(tracks: Sequence[str]) -> list[str]:
    """Name the layer of each track `scatterers_TRACK`: unique, of letters, digits and `_`."""
    found: list[str] = []
    for track in tracks:
        plain = re.sub(r"[^A-Za-z0-9]+", "_", track).strip("_")[:LONGEST_NAME]
        name = "_".join([SCATTERERS, plain or "track"])
        same, number = name, 1
        while same.lower() in {other.lower() for other in found}:
            number += 1
            same = f"{name}_{number}"
        found.append(same)
    return found


def _usable(track: Track, owner: Index, answered: NDArray[np.bool_]) -> _Chosen:
    """Choose the points used for answered buildings, piece by piece to avoid a copy of all series."""
    mine = np.flatnonzero((owner != UNASSIGNED) & answered[owner]) if len(answered) else np.zeros(0, np.intp)
    rows: list[Index] = [np.zeros(0, np.intp)]
    velocities: list[NDArray[np.floating[Any]]] = [np.zeros(0)]
    for start in range(0, len(mine), PIECE):
        row = mine[start : start + PIECE]
        row = row[usable_rows(track.take(row), owner[row])]
        rows.append(row)
        velocities.append(velocity_mm_per_year(track.displacement[row], track.epochs))
    row = np.concatenate(rows)
    return _Chosen(row, owner[row], np.concatenate(velocities))


def _bounded(chosen: list[_Chosen], epochs: list[int], predictions: geopandas.GeoDataFrame) -> list[_Chosen]:
    """Leave out the points of the buildings least probably damaged, until at most `MOST_VALUES` are left."""
    values = np.zeros(len(predictions), np.int64)
    for own, count in zip(chosen, epochs, strict=True):
        values += count * np.bincount(own.owner, minlength=len(predictions))
    if values.sum() <= MOST_VALUES:
        return chosen
    order = np.argsort(-predictions["p_damaged"].fillna(0).to_numpy(float), kind="stable")
    has = np.zeros(len(predictions), bool)
    has[order[np.cumsum(values[order]) <= MOST_VALUES]] = True
    log.warning(
        "The histories of all scatterers would take more than %d values: the layers of scatterers have those of the %d "
        "buildings that are most probably damaged, of %d",
        MOST_VALUES,
        int((has & (values > 0)).sum()),
        int((values > 0).sum()),
    )
    kept = [has[own.owner] for own in chosen]
    return [_Chosen(own.row[some], own.owner[some], own.velocity[some]) for own, some in zip(chosen, kept, strict=True)]


def colour_limit(velocity: NDArray[np.floating[Any]]) -> float:
    """Return the velocity at which the colours end, mm/yr."""
    speed = np.abs(velocity[np.isfinite(velocity)])
    return max(LEAST_LIMIT, float(np.ceil(np.percentile(speed, SHOWN)))) if len(speed) else LEAST_LIMIT


def _days(track: Track) -> tuple[list[str], Index]:
    """Name the columns of the epochs, as `D20200103`, with their places in the series; the first of two on one day."""
    days, place = np.unique(track.epochs.astype("datetime64[D]"), return_index=True)
    names = [f"D{str(day).replace('-', '')}" for day in days[-MOST_EPOCHS:]]
    return names, place[-MOST_EPOCHS:]


def _pieces(track: Track, chosen: _Chosen, ids: NDArray[np.object_]) -> Iterator[geopandas.GeoDataFrame]:
    """Yield the rows of a layer. `ids`: `building_id` of each footprint."""
    names, place = _days(track)
    starts = range(0, len(chosen.row), PIECE)
    for start in track_progress(starts, len(starts), f"write {track.name}"):
        row, owner, velocity = (part[start : start + PIECE] for part in chosen)
        about: dict[str, Any] = {
            "point_id": track.point_id[row].astype(str).astype(object),
            "building_id": ids[owner],
            "track": track.name,
            "velocity": velocity,
            "height": track.height[row],
        }
        series = pd.DataFrame(track.displacement[row][:, place], columns=names)
        where = shapely.points(track.easting[row], track.northing[row])
        yield geopandas.GeoDataFrame(pd.concat([pd.DataFrame(about), series], axis=1), geometry=where, crs=track.crs)


REASON_GROUPS = {
    "unsure": ("damaged? unsure where", (UNSURE_WHERE,)),
    "points": ("points too few or noisy, or leaning", ("few_points", "noisy_points", "no_points", LEANING)),
    "size": ("too small or large", NO_MATTER),
    "unlike": ("unlike training", ("out_of_distribution",)),
}
"""Groups that share a hatching: label in the legend, and the reasons in it, see `abstention.reason_sentences`."""
HATCHINGS = {
    "unsure": Hatching("f_diagonal", "backslash", ORANGE),
    "points": Hatching("b_diagonal", "slash", GREY),
    "size": Hatching("horizontal", "horline", GREY),
    "unlike": Hatching("diagonal_x", "x", GREY),
}
"""As the web map has them."""


def unjudged_layer(judged: Judged) -> list[Layer]:
    """Make the layer `not_judged`, with a building a row: `building_id`, `n_points`, `reason` and `explanation`.

    Args:
        judged: all buildings.

    Returns:
        The layer; an empty list if all buildings are judged.
    """
    left = judged.reason != "ok"
    if not left.any():
        return []
    table = judged.table[left]
    content = geopandas.GeoDataFrame(
        {
            "building_id": table["building_id"].to_numpy(object),
            "n_points": table["n_points"].to_numpy(),
            "reason": judged.reason[left].astype(object),
            "explanation": [f"Not judged: {said}" for said in judged.explanation[left]],
        },
        geometry=table.geometry.to_numpy(),
        crs=table.crs,
    )
    shown = {label: (reasons, HATCHINGS[name]) for name, (label, reasons) in REASON_GROUPS.items()}
    return [Layer(UNJUDGED, [content], unjudged_style(UNJUDGED, shown), None)]
