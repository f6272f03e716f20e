"""Make the map document: everything that the page shows of one city, as plain JSON values
in WGS 84."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import geopandas
import numpy as np
import pandas as pd
import shapely
from numpy.typing import NDArray

from plumbline.core.compass import frames
from plumbline.core.strain import CATEGORY_BOUNDS_PERMILLE
from plumbline.export.interface import SURE_DAMAGE
from plumbline.prepare.assignment.nearest import UNASSIGNED
from plumbline.reporting.colours import (
    CATEGORY_NAMES,
    PROBABILITY_COLOURS,
    PROBABILITY_EDGES,
    PROBABILITY_NAMES,
)
from plumbline.serve.base_rate import DamageRate
from plumbline.serve.columns import (
    DECIMALS,
    DTYPES,
    LIST_ORDER,
    PERMILLE_DECIMALS,
    STRAINS,
    format_counts,
    has_answer,
    round_strain,
)
from plumbline.serve.judgement import CityPredictions
from plumbline.serve.layers import REASON_GROUPS, colour_limit
from plumbline.serve.map.content import (
    WGS84,
    MapPoints,
    count_from_0,
    east_angles_deg,
    map_crs,
    points_near_buildings,
)
from plumbline.serve.map.histories import histories
from plumbline.serve.map.over_time import courses, when_text
from plumbline.sources.globe import TURN_DEG, to_degrees
from plumbline.sources.points.track import Track

Document = dict[str, Any]
PAGE = {
    "format": 3,
    "flagged": SURE_DAMAGE,
    "probability_classes": {
        "edges": list(PROBABILITY_EDGES),
        "colours": list(PROBABILITY_COLOURS),
        "names": list(PROBABILITY_NAMES),
    },
    "permille": {"decimals": PERMILLE_DECIMALS, "bounds": list(CATEGORY_BOUNDS_PERMILLE)},
}
"""Constants that the page needs in every document: the document's version (a page refuses
another), the smallest probability of damage of a flagged building, the classes of
probability, and the format of a strain: its decimals, and the bounds of the categories, up
to which it is never rounded."""
MAX_POINTS = 50_000
"""Most points in a map, so that a phone can still move it."""


def make_document(
    judged: CityPredictions,
    tracks: Sequence[Track],
    title: str,
    every: int = 1,
    owners: Sequence[NDArray[np.intp]] | None = None,
) -> Document:
    """Make the map document from the predictions and their points.

    Args:
        judged: at least one building, with a CRS, and why each is not judged.
        tracks: points tables; may be empty. At most `MAX_POINTS` points are drawn, and the
            footer has their number.
        title: heading of the page.
        every: one in this many points is in `tracks`.
        owners: of each track (N,) the row in the predictions of the building to which each
            point belongs, `UNASSIGNED` without one. None: histories are of all points
            beside a building.

    Returns:
        `PAGE`, `title`, `subtitle`, `footer`, `damage_rate`, `bounds` (west, south, east,
        north; across 180 degrees, all longitudes are from 0 to 360), `columns` (their order
        in the predictions), `constants` (columns with one value for all buildings that have
        one), `categories`, `reason_groups`, `buildings` (GeoJSON, the most probably damaged
        first), `points` (of each track), `velocity_limit` (mm/yr), `histories`, `courses`,
        `areas`, `causes` and `levelling` (GeoJSON). No NaN is in it.
    """
    crs = map_crs(judged.table, tracks)
    shown = judged.table.to_crs(crs).reset_index(drop=True)
    shown["why"] = judged.explanation
    shown = shown.sort_values(list(LIST_ORDER), ascending=False, na_position="last", kind="stable")
    place = np.append(np.argsort(shown.index.to_numpy()), UNASSIGNED)
    shown = shown.reset_index(drop=True)
    points = points_near_buildings(tracks, crs, shown.total_bounds, MAX_POINTS)
    bounds = shapely.total_bounds(to_degrees(shown.geometry))
    document = {
        **PAGE,
        "title": title,
        "subtitle": _write_subtitle(shown, tracks),
        "footer": _write_footer(shown, points, every, judged.rate),
        "damage_rate": {**judged.rate._asdict(), "text": str(judged.rate)},
        "bounds": bounds.tolist(),
        "columns": list(DTYPES),
        "constants": _find_constants(shown),
        "categories": list(CATEGORY_NAMES),
        "reason_groups": {name: label for name, (label, _) in REASON_GROUPS.items()},
        "buildings": _building_features(shown),
        "points": _point_entries(points, shown.crs),
        "velocity_limit": colour_limit(
            np.concatenate([np.zeros(0), *(part.velocity for part in points)])
        ),
        "histories": histories(
            shown,
            tracks,
            points,
            None if owners is None else [place[owner] for owner in owners],
        ),
        "courses": courses(shown, judged.courses),
        "areas": _place_features(judged.areas, {"rate_mm_year": 2, "displacement_mm": 1}),
        "causes": _place_features(
            judged.causes, dict.fromkeys(("damage_rate", "damage_rate_low", "damage_rate_high"), 5)
        ),
        "levelling": _place_features(judged.levelling, {}),
    }
    return count_from_0(document) if bounds[2] - bounds[0] > TURN_DEG / 2 else document


def as_json(document: Mapping[str, Any]) -> str:
    """Write the document as JSON text, UTF-8 as it is; NaN raises ValueError."""
    return json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _find_constants(shown: geopandas.GeoDataFrame) -> dict[str, Any]:
    """Find the columns that hold one value: written once, a large city's file is a tenth
    smaller."""
    columns = {
        "damage_rate": shown["damage_rate"].dropna(),
        "model_version": shown["model_version"],
    }
    return {
        name: (values.iloc[0] if name == "model_version" else float(values.iloc[0]))
        for name, values in columns.items()
        if values.nunique() == 1
    }


def _building_features(shown: geopandas.GeoDataFrame) -> dict[str, Any]:
    """Make the footprints' FeatureCollection; a column without a value is left out of a
    building's properties."""
    group = {reason: name for name, (_, reasons) in REASON_GROUPS.items() for reason in reasons}
    constant = _find_constants(shown)
    columns = {name: _json_values(shown, name) for name in DTYPES if name not in constant}
    frame = frames(shown.geometry.to_numpy())
    angle = east_angles_deg(frame.centre, frame.angle, shown.crs).round(1)
    properties = []
    for row, building in enumerate(shown.itertuples()):
        entry = {name: values[row] for name, values in columns.items() if values[row] is not None}
        if building.reason in group:
            entry |= {"reason_group": group[building.reason], "why": building.why}
        if when := when_text(building):
            entry["when"] = when
        entry["frame_deg"] = float(angle[row])
        properties.append(entry)
    return _feature_collection(_to_wgs84(shown.geometry), range(len(shown)), properties)


def _place_features(
    places: geopandas.GeoDataFrame | None, decimals: Mapping[str, int]
) -> dict[str, Any]:
    """Make the FeatureCollection of moving areas, causes or levelled points. `decimals`: of
    columns; 5 without."""
    if places is None:
        return _feature_collection(np.zeros(0, object), [], [])
    columns = pd.DataFrame(places.drop(columns="geometry")).round(dict(decimals)).round(5)
    properties = [
        {name: value for name, value in row.items() if pd.notna(value)}
        for row in columns.to_dict("records")
    ]
    return _feature_collection(_to_wgs84(places.geometry), range(len(places)), properties)


def _to_wgs84(geometry: geopandas.GeoSeries) -> NDArray[np.object_]:
    """Convert to WGS 84, rounded, with outer rings counter-clockwise as RFC 7946 wants them."""
    return np.asarray(shapely.orient_polygons(to_degrees(geometry)))


def _feature_collection(
    geometry: NDArray[np.object_],
    identifiers: Sequence[int],
    properties: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    features = [
        {"type": "Feature", "id": number, "geometry": json.loads(text), "properties": entry}
        for number, text, entry in zip(
            identifiers, shapely.to_geojson(geometry), properties, strict=True
        )
    ]
    return {"type": "FeatureCollection", "features": features}


def _json_values(shown: geopandas.GeoDataFrame, name: str) -> list[Any]:
    """Return a column's values rounded for JSON; None for missing ones."""
    column = shown[name]
    if DTYPES[name] == "str":
        return [value if isinstance(value, str) else None for value in column]
    if DTYPES[name] in ("int64", "Int64"):
        return [
            None if value is None else int(value)
            for value in column.astype(object).where(column.notna(), None)
        ]
    digits, rounded = DECIMALS[name], round_strain if name in STRAINS else round
    return [
        rounded(value, digits) if math.isfinite(value) else None
        for value in column.to_numpy(float).tolist()
    ]


def _point_entries(points: list[MapPoints], crs: Any) -> list[dict[str, Any]]:
    """Make an entry for each track: its name, its number of points near buildings, and the
    points that are drawn."""
    entries = []
    for part in points:
        place = geopandas.points_from_xy(*part.east_north.T, crs=crs).to_crs(WGS84)
        velocity = part.velocity.round(1).tolist()
        entries.append(
            {
                "track": part.name,
                "near": part.near,
                "lon": place.x.round(6).tolist(),
                "lat": place.y.round(6).tolist(),
                "velocity": [value if math.isfinite(value) else None for value in velocity],
            }
        )
    return entries


def _write_subtitle(shown: geopandas.GeoDataFrame, tracks: Sequence[Track]) -> str:
    text = f"Model version {', '.join(sorted(shown['model_version'].unique()))}"
    epochs = [track.epochs.astype("datetime64[D]") for track in tracks if len(track.epochs)]
    if epochs:
        text += (
            f" · points from {min(part.min() for part in epochs)} to "
            f"{max(part.max() for part in epochs)}"
        )
    return text


def _write_footer(
    shown: geopandas.GeoDataFrame, points: list[MapPoints], every: int, rate: DamageRate
) -> str:
    *bounds, last = (f"{bound:g}" for bound in CATEGORY_BOUNDS_PERMILLE)
    text = (
        f"{format_counts(shown)}. Categories 1 to 4 begin at a strain of {', '.join(bounds)} "
        f"and {last} permille."
    )
    if has_answer(shown).any():
        text += f" Severities and probabilities are for a city like this: {rate}."
    near, drawn = sum(part.near for part in points), sum(len(part.velocity) for part in points)
    if every > 1:
        text += (
            f" Of about {near * every:,} points near the buildings, {drawn:,} can be shown, "
            "evenly thinned."
        )
    elif drawn < near:
        text += f" Of {near:,} points near the buildings, {drawn:,} can be shown, evenly thinned."
    elif near:
        text += f" All {near:,} points near the buildings can be shown."
    return text
