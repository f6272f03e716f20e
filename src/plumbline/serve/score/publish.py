"""Make the result of a delivery from its tiles."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyogrio
from numpy.typing import NDArray

from plumbline.core.console import log, warn
from plumbline.core.files import atomic_folder, read_json, sha256_path, write_json
from plumbline.export.package import verify_package
from plumbline.params import Score
from plumbline.prepare.abstention import UNSURE_WHERE
from plumbline.prepare.assignment.nearest import UNASSIGNED
from plumbline.prepare.audit.distributions import ColumnValues
from plumbline.prepare.audit.reference import conditions_of, load_conditions
from plumbline.prepare.features.sequences import Sequences
from plumbline.prepare.features.shards import Shards
from plumbline.serve.judgement import CityPredictions, log_damaged, log_unjudged
from plumbline.serve.layers import judged_layers
from plumbline.serve.map.page import write_map
from plumbline.serve.predict import warn_of_unjudged
from plumbline.serve.predictions import read_predictions, write_predictions
from plumbline.serve.score.changes import DeliveryChanges, compare_predictions
from plumbline.serve.score.drift import drift_of
from plumbline.serve.score.results import (
    CHANGES,
    DRIFT,
    MANIFEST,
    MAP,
    PREDICTIONS,
    DeliveryResult,
    former,
    listed,
    now,
    results,
)
from plumbline.serve.score.tiles import (
    OWNED,
    ROWS,
    SEQUENCES,
    SHOWN,
    TILE,
    DeliveryReading,
    ScoreTile,
    code_hash,
    counts_of,
)
from plumbline.sources.city.causes import CausesFile
from plumbline.sources.city.in_memory import warn_of_short
from plumbline.sources.points.points_table import read_points_table
from plumbline.sources.points.track import Track, concatenate_tracks

TRACK_KEYS = ("name", "product", "points", "epochs", "first_epoch", "last_epoch", "los")


def publish(
    reading: DeliveryReading,
    tiles: list[ScoreTile],
    judged: CityPredictions,
    params: Score,
    causes: CausesFile | None = None,
) -> DeliveryResult:
    """Write the result of a delivery after all its tiles are judged, as one complete folder
    or not at all.

    Args:
        reading: the delivery. tiles: judged by the champion. judged: all of them, see
            `judge_delivery`.
        params: section `score`. causes: of damage at the place.

    Raises:
        InputError: a file could not be written.
    """
    delivery, city, out = reading.delivery, tiles[0].city, params.out
    table, reason, rate = judged.table, judged.reason, judged.rate
    if n_unsure_where := int((reason == UNSURE_WHERE).sum()):
        log.info(
            "%s: %d buildings may be damaged, and in no quadrant that is probable enough",
            delivery.place,
            n_unsure_where,
        )
    package = verify_package(tiles[0].package)
    warn_of_unjudged(reason, package.prepare)
    log_unjudged(judged, f"{delivery.place}: ")
    log_damaged(judged, f"{delivery.place}: ")
    tracks = _load_shown(tiles)
    warn_of_short(city.observed)
    last = max(track["last_epoch"] for track in city.about["tracks"])
    before = former(results(out, delivery.place), last)
    left_out: Counter[str] = Counter()
    for tile in tiles:
        left_out.update(read_json(tile.folder / TILE)["left_out"])
    with atomic_folder(out / delivery.place / delivery.result) as folder:
        layers = judged_layers(judged)
        # Dated by the last observation, so that the same inputs give the same bytes.
        pyogrio.set_gdal_config_options({"OGR_CURRENT_DATE": f"{last[:10]}T00:00:00.000Z"})
        try:
            write_predictions(table, folder / PREDICTIONS, layers)
        finally:
            pyogrio.set_gdal_config_options({"OGR_CURRENT_DATE": None})
        write_map(
            judged,
            tracks,
            folder / MAP,
            f"Plumbline: {delivery.place}, {delivery.name}",
            every=tiles[0].every,
            owners=_find_owners(tiles, tracks),
        )
        changes = None
        if before is not None:
            _warn_of_tracks(before, city.about["tracks"])
            changes = compare_predictions(
                read_predictions(out / before.place / before.folder_name / PREDICTIONS), table
            )
            changes.table.assign(
                seen_from_before=_list_sides(before.tracks),
                seen_from_after=_list_sides(city.about["tracks"]),
            ).to_csv(folder / CHANGES, index=False)
        counts = counts_of(table)
        drift = drift_of(
            _read_conditions(tiles), load_conditions(tiles[0].package), counts, before, params.drift
        )
        write_json(folder / DRIFT, drift)
        result = DeliveryResult(
            place=delivery.place,
            delivery=delivery.name,
            id=delivery.id,
            inputs=delivery.files,
            footprints=_file_record(reading.footprints),
            causes=None if causes is None else _file_record(causes.path),
            damage_rate_by=params.damage_rate_by,
            model={"name": package.name, "version": package.version},
            code=code_hash(),
            observed={
                "from": min(track["first_epoch"] for track in city.about["tracks"]),
                "to": last,
            },
            tracks=[{key: track[key] for key in TRACK_KEYS} for track in city.about["tracks"]],
            tiles=len(tiles),
            buildings=len(table),
            statuses=counts["statuses"],
            categories=counts["categories"],
            damage_rate={"rate": rate.rate, "low": rate.low, "high": rate.high},
            left_out={reason: count for reason, count in left_out.items() if count},
            compared_with=before.folder_name if before else None,
            changes=changes.counts if changes else {},
            drift=drift["verdict"],
            made=now(),
            files=listed(folder),
        )
        write_json(folder / MANIFEST, result.model_dump(mode="json"))
    _log_result(result, changes)
    for reason in drift["reasons"] if drift["verdict"] in ("drift", "look") else ():
        warn(
            "%s/%s: %s: %s",
            result.place,
            result.folder_name,
            drift["verdict"],
            reason,
            key="delivery.drift",
        )
    return result


def _file_record(path: Path) -> dict[str, str]:
    return {"path": str(path), "sha256": sha256_path(path)}


def _warn_of_tracks(before: DeliveryResult, tracks: list[dict[str, Any]]) -> None:
    """Warn if a place is covered by fewer or more tracks than before, or seen from another side:
    this alone changes many answers."""
    sides_before, sides = _list_sides(before.tracks), _list_sides(tracks)
    if len(before.tracks) != len(tracks) or sides_before != sides:
        names_before, names_now = (
            ", ".join(track["name"] for track in part) for part in (before.tracks, tracks)
        )
        warn(
            "%d tracks now (%s), seen from %s; %d in %s (%s), seen from %s: changes may be of what "
            "is seen, and not of the buildings. Is a file missing?",
            len(tracks),
            names_now,
            sides,
            len(before.tracks),
            before.folder_name,
            names_before,
            sides_before,
            key="delivery.other_tracks",
        )


def _list_sides(tracks: list[dict[str, Any]]) -> str:
    """Return the sides from which tracks see their points, as `east + west`."""
    names = {-1: "west", 0: "above", 1: "east"}
    return " + ".join(sorted({names[int(np.sign(track["los"][0]))] for track in tracks}))


def _read_conditions(tiles: list[ScoreTile]) -> ColumnValues:
    """Return the watched columns of all buildings of the delivery that could be prepared."""
    parts = [part for tile in tiles if len(part := Sequences.load(tile.folder / SEQUENCES))]
    if not parts:
        return ColumnValues(0, {})
    (conditions,) = conditions_of(Shards(parts)).values()
    return conditions


def _load_shown(tiles: list[ScoreTile]) -> list[Track]:
    """Return the points kept for the map."""
    parts: dict[str, list[Track]] = {}
    for tile in tiles:
        for track in read_points_table(tile.folder / SHOWN):
            parts.setdefault(track.name, []).append(track)
    return [concatenate_tracks(pieces) for pieces in parts.values()]


def _find_owners(tiles: list[ScoreTile], tracks: list[Track]) -> list[NDArray[np.intp]]:
    """Return, of each track, the row in the predictions of the building that has each
    point; `UNASSIGNED` without."""
    order = np.sort(np.concatenate([np.load(tile.folder / ROWS) for tile in tiles]))
    ids = {track.name: track.point_id.astype(str) for track in tracks}
    owners = {track.name: np.full(len(track), UNASSIGNED, np.intp) for track in tracks}
    for tile in tiles:
        for name, owned in pd.read_parquet(tile.folder / OWNED).groupby("track"):
            row = (
                owned.drop_duplicates("point_id")
                .set_index("point_id")["row"]
                .reindex(ids[str(name)])
            )
            is_owned = row.notna().to_numpy()
            owners[str(name)][is_owned] = np.searchsorted(order, row[is_owned])
    return [owners[track.name] for track in tracks]


def _log_result(result: DeliveryResult, changes: DeliveryChanges | None) -> None:
    counts = ", ".join(f"{count} {status}" for status, count in result.statuses.items())
    change_text = (
        f"{changes.counts['changed']} changed since {result.compared_with}"
        if changes
        else "the first of its place"
    )
    log.info(
        "%s/%s: %d buildings: %s; %s",
        result.place,
        result.folder_name,
        result.buildings,
        counts,
        change_text,
    )
