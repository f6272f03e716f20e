"""Read back the output of `ingest`: a city, or one of its tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import geopandas
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import shapely
from numpy.typing import NDArray

from plumbline.core.errors import InputError
from plumbline.core.files import read_json
from plumbline.sources.city.ingest import CITY
from plumbline.sources.city.parts import HALO, POINTS
from plumbline.sources.city.profile_city import KIND, IngestedProfiles
from plumbline.sources.city.tiles import NEIGHBOURS
from plumbline.sources.footprints.buildings import load_buildings
from plumbline.sources.points.points_table import read_points_table
from plumbline.sources.points.track import Track, concatenate_tracks


class Neighbours(NamedTuple):
    """Footprints around a tile's own: the owner of a point depends on all buildings near it."""

    own: NDArray[np.int64]
    """(B,) rows of the tile's buildings in the file of the footprints."""
    row: NDArray[np.int64]
    """(K,) rows of the others."""
    geometry: NDArray[np.object_]
    """(K,) the others."""


@dataclass(frozen=True)
class Ingested:
    """An ingested city of points."""

    folder: Path
    about: dict[str, Any]
    """`city.json`."""

    @property
    def tiles(self) -> list[str]:
        """Names of the tiles that hold buildings."""
        return sorted(path.stem for path in (self.folder / "buildings").glob("*.parquet"))

    @property
    def observed(self) -> list[Track]:
        """The city's tracks with their epochs, without points."""
        return [_empty_track(about, self.about["crs"]) for about in self.about["tracks"]]

    def tracks(self, tile: str | None = None) -> list[Track]:
        """Read the points of a tile and its halo, or of the whole city: all tracks, also
        those without points there.

        Raises:
            InputError: a file is missing or damaged.
        """
        if tile is None:
            files = sorted(
                (self.folder / POINTS).glob("*/*.parquet"),
                key=lambda path: (path.stem, path.parent.name),
            )
        else:
            files = [
                path
                for kind in (POINTS, HALO)
                for path in sorted((self.folder / kind / tile).glob("*.parquet"))
            ]
        parts: dict[str, list[Track]] = {}
        for path in files:
            for track in read_points_table(path):
                parts.setdefault(track.name, []).append(track)
        crs = self.about["crs"]
        return [
            _select_observed_epochs(concatenate_tracks(parts[about["name"]]), about)
            if about["name"] in parts
            else _empty_track(about, crs)
            for about in self.about["tracks"]
        ]

    def buildings(self, tile: str | None = None) -> geopandas.GeoDataFrame:
        """Read the buildings table of a tile, or of the city.

        Raises:
            InputError: a file is missing or damaged.
        """
        if tile is not None:
            return load_buildings(self.folder / "buildings" / f"{tile}.parquet")
        parts = [self.buildings(tile) for tile in self.tiles]
        return geopandas.GeoDataFrame(pd.concat(parts, ignore_index=True), crs=parts[0].crs)

    def neighbours(self, tile: str) -> Neighbours:
        """Read the footprints around a tile's own."""
        table = pq.read_table(self.folder / NEIGHBOURS / f"{tile}.parquet")
        row, wkb = table["row"].to_numpy(), table["wkb"].to_numpy(zero_copy_only=False)
        is_neighbour = np.array([shape is not None for shape in wkb], bool)
        return Neighbours(
            row[~is_neighbour], row[is_neighbour], shapely.from_wkb(wkb[is_neighbour])
        )

    def labels(self, tile: str | None = None) -> pd.DataFrame:
        """Read the labels of a tile's buildings, or of the city's."""
        if tile is not None:
            return pd.read_parquet(self.folder / "labels" / f"{tile}.parquet")
        return pd.concat([self.labels(tile) for tile in self.tiles], ignore_index=True)


def open_ingested(folder: Path) -> list[Ingested]:
    """Open the cities of points in the folder of the stage `ingest`; for profile rows, see
    `open_profiles`.

    Raises:
        InputError: there is no city of either kind.
    """
    return [city for city in _open_cities(folder) if city.about.get("kind") != KIND]


def open_profiles(folder: Path) -> list[IngestedProfiles]:
    """Open the cities of profile rows in the folder of the stage `ingest`.

    Raises:
        InputError: there is no city of either kind.
    """
    return [
        IngestedProfiles(city.folder, city.about)
        for city in _open_cities(folder)
        if city.about.get("kind") == KIND
    ]


def _open_cities(folder: Path) -> list[Ingested]:
    cities = sorted(path.parent for path in folder.glob(f"*/{CITY}"))
    if not cities:
        raise InputError(
            f"{folder}: no city found. Run `plumbline ingest` first.", key="cities.none"
        )
    return [Ingested(city, read_json(city / CITY)) for city in cities]


def _select_observed_epochs(track: Track, about: dict[str, Any]) -> Track:
    """Keep the epochs at which any point of the city has a value."""
    is_observed = np.isin(track.epochs, np.array(about["days"], "datetime64[D]"))
    return track if is_observed.all() else track.at_epochs(is_observed)


def _empty_track(about: dict[str, Any], crs: str) -> Track:
    days: Sequence[str] = about["days"]
    return Track(
        name=about["name"],
        crs=crs,
        epochs=np.array(days, "datetime64[D]"),
        point_id=np.zeros(0, object),
        easting=np.zeros(0),
        northing=np.zeros(0),
        height=np.zeros(0),
        los=np.zeros((0, 3)),
        displacement=np.zeros((0, len(days)), np.float32),
    )
