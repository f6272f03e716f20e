"""Make further layers of a GeoPackage: histories, buildings not judged."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import geopandas
import numpy as np
import pandas as pd
import shapely
from numpy.typing import NDArray

from plumbline.core.arrays import Index
from plumbline.core.console import track as track_progress
from plumbline.core.console import warn
from plumbline.prepare.abstention import LEANING, NO_MATTER, OK, UNSURE_WHERE
from plumbline.prepare.assignment.nearest import UNASSIGNED
from plumbline.prepare.assignment.owners import usable_rows
from plumbline.reporting.colours import GREY, ORANGE
from plumbline.serve.columns import has_answer
from plumbline.serve.judgement import CityPredictions, JudgedCity
from plumbline.serve.predictions import AREAS, CAUSES, COURSES, SCATTERERS, UNJUDGED
from plumbline.serve.qgis.styles import (
    Hatching,
    Layer,
    areas_style,
    causes_style,
    scatterers_style,
    unjudged_style,
)
from plumbline.sources.points.epochs import velocity_mm_per_year
from plumbline.sources.points.track import Track

PIECE_POINTS = 4096
"""Points written at a time: bounds the memory beyond the tracks."""
MAX_DISPLACEMENTS = 50_000_000
"""Most displacements that are written, of all tracks together: a file of 200 MB."""
MAX_EPOCHS = 950
"""Most epochs that are written, the last ones: a table of SQLite has 2,000 columns at most, and
a packed history takes two an epoch."""
MAX_NAME_LETTERS = 60
MIN_LIMIT_MM_YEAR, LIMIT_PERCENTILE = 2.0, 98.0
"""Smallest limit of the colours of velocities, mm/yr, and the percentile of speeds that sets it."""


def further_layers(answered: JudgedCity, tracks: Sequence[Track]) -> list[Layer]:
    """Make all layers of a GeoPackage besides the predictions: those of `judged_layers`,
    and histories."""
    judged = answered.judged
    return [
        *judged_layers(judged),
        *scatterer_layers(tracks, answered.prepared.owners, judged.table),
    ]


def judged_layers(judged: CityPredictions) -> list[Layer]:
    """Make the layers of what is not judged, courses, moving areas and causes; those that
    have nothing are left out."""
    courses, areas, causes = judged.courses, judged.areas, judged.causes
    layers = unjudged_layer(judged)
    if courses is not None and len(courses):
        layers.append(Layer(COURSES, [courses], None, None))
    if areas is not None and len(areas):
        limit = colour_limit(areas["rate_mm_year"].to_numpy(float))
        layers.append(Layer(AREAS, [areas], areas_style(AREAS, limit), None))
    if causes is not None:
        layers.append(Layer(CAUSES, [causes], causes_style(CAUSES), None))
    return layers


def scatterer_layers(
    tracks: Sequence[Track], owners: Sequence[Index], predictions: geopandas.GeoDataFrame
) -> list[Layer]:
    """Prepare the layers. Until a piece is asked for, they hold only places, owners and velocities.

    If all points have more than `MAX_DISPLACEMENTS` values, only the buildings most
    probably damaged have points, each all or none, and the log has the number of these
    buildings.

    Args:
        tracks: the points that were judged by.
        owners: of each track (N,) the row of each point's building in `predictions`,
            `UNASSIGNED` without one.
        predictions: see `make_predictions`.
    """
    answered = has_answer(predictions)
    points = [
        _select_usable(track, owner, answered) for track, owner in zip(tracks, owners, strict=True)
    ]
    points = _limit_values(points, [len(_name_epochs(track)[0]) for track in tracks], predictions)
    # One scale of colours, so that tracks can be compared.
    limit = colour_limit(np.concatenate([np.zeros(0), *(part["velocity"] for part in points)]))
    ids = predictions["building_id"].to_numpy(object)
    return [
        Layer(
            name,
            _make_pieces(track, part, ids),
            scatterers_style(name, limit, _name_epochs(track)[0]),
            epochs=_name_epochs(track)[0],
        )
        for name, track, part in zip(
            layer_names([track.name for track in tracks]), tracks, points, strict=True
        )
        if len(part)
    ]


def layer_names(tracks: Sequence[str]) -> list[str]:
    """Name the layer of each track `scatterers_TRACK`: unique, of letters, digits and `_`."""
    names: list[str] = []
    for track in tracks:
        cleaned = re.sub(r"[^A-Za-z0-9]+", "_", track).strip("_")[:MAX_NAME_LETTERS] or "track"
        name, number = f"{SCATTERERS}_{cleaned}", 1
        while name.lower() in {n.lower() for n in names}:
            number += 1
            name = f"{SCATTERERS}_{cleaned}_{number}"
        names.append(name)
    return names


def _select_usable(track: Track, owner: Index, answered: NDArray[np.bool_]) -> pd.DataFrame:
    """Choose the points used for answered buildings, piece by piece to avoid a copy of all series.

    Returns:
        A row a point: `row` in the track, ascending; `owner`, the row of the building in
            the predictions; `velocity`.
    """
    candidates = (
        np.flatnonzero((owner != UNASSIGNED) & answered[owner])
        if len(answered)
        else np.zeros(0, np.intp)
    )
    parts = [
        pd.DataFrame(
            {"row": np.zeros(0, np.intp), "owner": np.zeros(0, np.intp), "velocity": np.zeros(0)}
        )
    ]
    for start in range(0, len(candidates), PIECE_POINTS):
        row = candidates[start : start + PIECE_POINTS]
        row = row[usable_rows(track.take(row), owner[row])]
        velocity = velocity_mm_per_year(track.displacement[row], track.epochs)
        parts.append(pd.DataFrame({"row": row, "owner": owner[row], "velocity": velocity}))
    return pd.concat(parts, ignore_index=True)


def _limit_values(
    points: list[pd.DataFrame], epochs: Sequence[int], predictions: geopandas.GeoDataFrame
) -> list[pd.DataFrame]:
    """Leave out the points of the buildings least probably damaged, until at most
    `MAX_DISPLACEMENTS` are left."""
    counts = [np.bincount(part["owner"], minlength=len(predictions)) for part in points]
    values = sum(
        (count * number for number, count in zip(counts, epochs, strict=True)),
        np.zeros(len(predictions)),
    )
    if values.sum() <= MAX_DISPLACEMENTS:
        return points
    order = np.argsort(-predictions["p_damaged"].fillna(0).to_numpy(float), kind="stable")
    has_history = np.zeros(len(predictions), bool)
    has_history[order[np.cumsum(values[order]) <= MAX_DISPLACEMENTS]] = True
    warn(
        "The histories of all scatterers would take more than %d values: the layers of "
        "scatterers have those of the %d "
        "buildings that are most probably damaged, of %d",
        MAX_DISPLACEMENTS,
        int((has_history & (values > 0)).sum()),
        int((values > 0).sum()),
        key="histories.too_many",
    )
    return [part[has_history[part["owner"]]] for part in points]


def colour_limit(velocity: NDArray[np.floating[Any]]) -> float:
    """Return the velocity at which the colours end, mm/yr."""
    speed = np.abs(velocity[np.isfinite(velocity)])
    return (
        max(MIN_LIMIT_MM_YEAR, float(np.ceil(np.percentile(speed, LIMIT_PERCENTILE))))
        if len(speed)
        else MIN_LIMIT_MM_YEAR
    )


def _name_epochs(track: Track) -> tuple[list[str], Index]:
    """Name the columns of the epochs, as `D20200103`, with their places in the series; the
    first of two on one day."""
    days, place = np.unique(track.epochs.astype("datetime64[D]"), return_index=True)
    names = [f"D{str(day).replace('-', '')}" for day in days[-MAX_EPOCHS:]]
    return names, place[-MAX_EPOCHS:]


def _make_pieces(
    track: Track, points: pd.DataFrame, ids: NDArray[np.object_]
) -> Iterator[geopandas.GeoDataFrame]:
    """Yield the rows of a layer. `ids`: `building_id` of each footprint."""
    names, place = _name_epochs(track)
    starts = range(0, len(points), PIECE_POINTS)
    for start in track_progress(starts, len(starts), f"write {track.name}"):
        piece = points.iloc[start : start + PIECE_POINTS]
        row = piece["row"].to_numpy()
        point_columns: dict[str, Any] = {
            "point_id": track.point_id[row].astype(str).astype(object),
            "building_id": ids[piece["owner"]],
            "track": track.name,
            "velocity": piece["velocity"].to_numpy(),
            "height": track.height[row],
        }
        series = pd.DataFrame(track.displacement[row][:, place], columns=names)
        positions = shapely.points(track.easting[row], track.northing[row])
        yield geopandas.GeoDataFrame(
            pd.concat([pd.DataFrame(point_columns), series], axis=1),
            geometry=positions,
            crs=track.crs,
        )


REASON_GROUPS = {
    "unsure": ("damaged? unsure where", (UNSURE_WHERE,)),
    "points": (
        "points too few or noisy, or leaning",
        ("few_points", "noisy_points", "no_points", LEANING),
    ),
    "size": ("too small or large", NO_MATTER),
    "unlike": ("unlike training", ("out_of_distribution",)),
}
"""Groups that share a hatching: label in the legend, and the reasons in it, see
`abstention.reason_sentences`."""
HATCHINGS = {
    "unsure": Hatching("f_diagonal", "backslash", ORANGE),
    "points": Hatching("b_diagonal", "slash", GREY),
    "size": Hatching("horizontal", "horline", GREY),
    "unlike": Hatching("diagonal_x", "x", GREY),
}
"""Hatching of each group, as in the web map."""


def unjudged_layer(judged: CityPredictions) -> list[Layer]:
    """Make the layer `not_judged`, with a building a row: `building_id`, `n_points`,
    `reason` and `explanation`.

    Args:
        judged: all buildings.

    Returns:
        The layer; an empty list if all buildings are judged.
    """
    rows = np.flatnonzero(judged.reason != OK)
    if not len(rows):
        return []
    content = (
        judged.table[["building_id", "n_points", "reason", "geometry"]]
        .iloc[rows]
        .reset_index(drop=True)
    )
    content.insert(3, "explanation", [f"Not judged: {why}" for why in judged.explanation[rows]])
    content = content.astype({"building_id": object, "reason": object})
    hatchings = {
        label: (reasons, HATCHINGS[name]) for name, (label, reasons) in REASON_GROUPS.items()
    }
    return [Layer(UNJUDGED, [content], unjudged_style(UNJUDGED, hatchings), None)]
