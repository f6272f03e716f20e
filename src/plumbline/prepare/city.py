"""Prepare the buildings of one tile of an ingested city, in the same way for training and for prediction."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import geopandas
import numpy as np
from numpy.typing import NDArray

from plumbline.params import Prepare
from plumbline.prepare.assignment.owners import owners_in_tile
from plumbline.prepare.buildings import Prepared, prepare_buildings
from plumbline.prepare.periods import period_overlap
from plumbline.sources.city.tables import cells, tile_name
from plumbline.sources.ingest.ingested import Ingested
from plumbline.sources.track import Track


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
        own = [number for number in np.unique(cell) if tile_name(int(number)) == self.name]
        return np.flatnonzero(np.isin(cell, own))


class PreparedTile(NamedTuple):
    """Result of preparing a tile."""

    prepared: Prepared
    buildings: geopandas.GeoDataFrame
    """The buildings table, F rows."""
    row: NDArray[np.int64]
    """(F,) of each of them in the file of the footprints."""
    tracks: list[Track]
    """Those that are used, with the points of the tile and its halo."""


def used_tracks(city: Ingested) -> tuple[str, ...]:
    """Return the names of the tracks that share enough time, and log the others once for each city."""
    observed = city.observed
    return tuple(observed[number].name for number in period_overlap(observed).kept)


def prepare_tile(tile: Tile, params: Prepare) -> PreparedTile:
    """Prepare a tile's buildings, with the points that they own in the whole city.

    Raises:
        InputError: a file of the tile is damaged, or its buildings cannot be prepared.
    """
    buildings, neighbours = tile.city.buildings(tile.name), tile.city.neighbours(tile.name)
    tracks = [track for track in tile.city.tracks(tile.name) if track.name in tile.tracks]
    owners = owners_in_tile(tracks, np.asarray(buildings.geometry.values), neighbours, params)
    prepared = prepare_buildings(tracks, buildings, params, tile.city.folder.name, owners)
    return PreparedTile(prepared, buildings, neighbours.own, tracks)
