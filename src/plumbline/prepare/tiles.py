"""Turn a tile of an ingested city into sequences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import geopandas
import numpy as np
import pandas
from numpy.typing import NDArray

from plumbline.core.compass import QUADRANTS
from plumbline.core.files import atomic_folder, read_json, write_json
from plumbline.core.strain import CATEGORY_BOUNDS_PERMILLE
from plumbline.params import Prepare
from plumbline.prepare.assignment.owners import owners_in_tile
from plumbline.prepare.audit.figures import FIGURES, TrackFigures, noise_counts, speeds
from plumbline.prepare.buildings import Prepared, prepare_buildings
from plumbline.prepare.features.sequences import UNDEFINED, Sequences
from plumbline.prepare.response.decompose import TrackMeans
from plumbline.prepare.scatterers import period_overlap
from plumbline.sources.city.ingested import Ingested
from plumbline.sources.city.tiles import cells, tile_name
from plumbline.sources.footprints.area import ground_of
from plumbline.sources.points.track import Track


@dataclass(frozen=True)
class Tile:
    """Buildings to prepare, and the folder for the result."""

    folder: Path
    city: Ingested
    name: str
    tracks: tuple[str, ...]
    """Names of the tracks to use, see `used_tracks`."""

    def own_rows(self, track: Track) -> NDArray[np.intp]:
        """Return the rows of the points in the tile itself, without its halo."""
        cell = cells(track.easting, track.northing, self.city.about["tile_m"])
        cells_of_tile = [
            number for number in np.unique(cell) if tile_name(int(number)) == self.name
        ]
        return np.flatnonzero(np.isin(cell, cells_of_tile))


class PreparedTile(NamedTuple):
    """Result of preparing a tile."""

    prepared: Prepared
    buildings: geopandas.GeoDataFrame
    """The buildings table, F rows."""
    row: NDArray[np.int64]
    """(F,) row of each in the file of the footprints."""
    tracks: list[Track]
    """Those that are used, with the points of the tile and its halo."""


def used_tracks(city: Ingested) -> tuple[str, ...]:
    """Return the names of the tracks that share enough time, and log the others once for each
    city."""
    observed = city.observed
    return tuple(observed[number].name for number in period_overlap(observed).used)


def prepare_tile(tile: Tile, params: Prepare) -> PreparedTile:
    """Prepare a tile's buildings, with the points that they own in the whole city.

    Raises:
        InputError: a file of the tile is damaged, or its buildings cannot be prepared.
    """
    buildings, neighbours = tile.city.buildings(tile.name), tile.city.neighbours(tile.name)
    tracks = [track for track in tile.city.tracks(tile.name) if track.name in tile.tracks]
    owners = owners_in_tile(tracks, np.asarray(buildings.geometry.values), neighbours, params)
    prepared = prepare_buildings(tracks, buildings, params, tile.city.folder.name, owners=owners)
    return PreparedTile(prepared, buildings, neighbours.own, tracks)


CENTRE, MEANS, IDS, TILE = "centre.npy", "means.npz", "building_id.npy", "tile.json"


@dataclass(frozen=True)
class LabelledTile(Tile):
    """A tile with buildings for training."""

    params: Prepare


def write_tile(tile: LabelledTile) -> None:
    """Write a tile's labelled sequences, their centres, the motion of all its buildings,
    and those left out.

    `tile.json` has the CRS of the centres, which are on the ground of the real city
    (`sources.ground`).

    Raises:
        InputError: a file of the tile is damaged, or its buildings cannot be prepared.
    """
    prepared, buildings, _, tracks = prepare_tile(tile, tile.params)
    noise = noise_counts(tracks, [tile.own_rows(track) for track in tracks])
    sequences, is_labelled = label(prepared.sequences, tile.city.labels(tile.name))
    ground = ground_of(buildings, tile.city.about["crs"], f"footprints of {tile.city.folder.name}")
    with atomic_folder(tile.folder) as out:
        sequences.take(np.flatnonzero(is_labelled)).save(out / "sequences")
        np.save(out / CENTRE, ground.centre[prepared.footprint][is_labelled])
        np.save(out / IDS, buildings["building_id"].to_numpy().astype(str))
        np.savez(out / MEANS, **prepared.means._asdict())
        np.savez_compressed(out / FIGURES, **TrackFigures(noise, speeds(prepared.means))._asdict())
        left_out = {**prepared.left_out.counts, "without_label": int((~is_labelled).sum())}
        assigned = prepared.means.points.sum(axis=0).tolist()
        write_json(out / TILE, {"left_out": left_out, "assigned": assigned, "crs": ground.crs})


def label(sequences: Sequences, labels: pandas.DataFrame) -> tuple[Sequences, NDArray[np.bool_]]:
    """Add labels to sequences, and return (B,) whether each building has one."""
    rows = labels.set_index("building_id").reindex(sequences.building_id)
    severity = rows["severity_permille"].to_numpy(np.float32)
    code = pandas.Categorical(rows["quadrant"], categories=list(QUADRANTS)).codes.astype(np.int64)
    code[~(severity >= CATEGORY_BOUNDS_PERMILLE[0])] = UNDEFINED
    accepted = np.stack(
        [rows["accepted"].fillna("").str.contains(name) for name in QUADRANTS], axis=1
    )
    accepted &= (code != UNDEFINED)[:, None]
    mechanism, difficulty = (
        rows[name].fillna(UNDEFINED).to_numpy(np.int8) for name in ("mechanism", "difficulty")
    )
    labels_of = {"accepted": accepted, "mechanism": mechanism, "difficulty": difficulty}
    return replace(sequences, severity=severity, quadrant=code, **labels_of), np.isfinite(severity)


def count_left_out(folders: Iterable[Path]) -> Counter[str]:
    """Count the buildings that were left out of portions, by the reason."""
    total: Counter[str] = Counter()
    for folder in folders:
        total.update(read_json(folder / TILE)["left_out"])
    return total


def load_means(folder: Path) -> TrackMeans:
    """Load the motion of a tile's buildings that `write_tile` wrote."""
    with np.load(folder / MEANS) as stored:
        return TrackMeans(**stored)
