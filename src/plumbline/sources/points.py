"""The points table: what every reader returns and every later step takes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from plumbline.errors import InputError
from plumbline.files import atomic_file

VERSION = 1
"""Of the table's layout."""
METADATA_KEY = b"plumbline"
ROW_GROUP = 65_536
COLUMNS = {
    "point_id": pa.string(),
    "track": pa.dictionary(pa.int32(), pa.string()),
    "easting": pa.float64(),
    "northing": pa.float64(),
    "height": pa.float64(),
    "los_east": pa.float64(),
    "los_north": pa.float64(),
    "los_up": pa.float64(),
    "displacement": pa.list_(pa.float32()),
}
WRITING: dict[str, Any] = {
    # LZ4 and series without nulls: twice as fast to write as Zstandard and nullable ones, for a file an eighth larger.
    "compression": "lz4",
    "use_dictionary": ["track", "displacement.list.element"],
    "write_statistics": False,
    "write_page_checksum": True,
}
SERIES = pa.list_(pa.field("element", pa.float32(), nullable=False))
WRITTEN = pa.schema(
    [pa.field(name, SERIES if pa.types.is_list(kind) else kind, nullable=False) for name, kind in COLUMNS.items()]
)
NO_HEIGHT = "no_height"
"""Why a point is left out: its height is not known."""
SCALARS = ("easting", "northing", "height", "los_east", "los_north", "los_up")


@dataclass(frozen=True)
class Track:
    """The N points of one satellite track with their T epochs.

    Every track has its own reference in space and time: displacements of two tracks differ by an unknown offset.
    """

    name: str
    """Name of the product, from its file."""
    crs: str
    """Projected CRS of easting and northing, for example `EPSG:3035`."""
    epochs: NDArray[np.datetime64]
    """(T,) dates, ascending."""
    point_id: NDArray[np.object_]
    """(N,) the product's own identifiers, as strings."""
    easting: NDArray[np.float64]
    """(N,) m."""
    northing: NDArray[np.float64]
    """(N,) m."""
    height: NDArray[np.float64]
    """(N,) m; only differences mean anything."""
    los: NDArray[np.float64]
    """(N, 3) unit vector from ground to satellite: east, north, up."""
    displacement: NDArray[np.float32]
    """(N, T) mm, positive towards the satellite; NaN where missing."""
    coherence: NDArray[np.float32] | None = None
    """(N,) temporal coherence, 0 to 1, where the product gives one. Used while reading; not part of the table."""
    rmse: NDArray[np.float32] | None = None
    """(N,) mm, what the product's own fit leaves of the series, where it says. As `coherence`."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Points left out by the reader, by reason. Not part of the table."""

    def __len__(self) -> int:
        return len(self.point_id)

    def take(self, rows: NDArray[np.bool_] | NDArray[np.intp]) -> Track:
        """The points `rows`, an index or a mask (N,), in that order."""
        chosen = {name: values[rows] for name in PER_POINT if (values := getattr(self, name)) is not None}
        return replace(self, **chosen)

    def at(self, epochs: NDArray[np.bool_]) -> Track:
        """The points at the epochs where the mask (T,) is true."""
        return replace(self, epochs=self.epochs[epochs], displacement=self.displacement[:, epochs])

    def keep(self, rows: NDArray[np.bool_], reason: str) -> Track:
        """The points where `rows` (N,) is true; the others are counted as dropped for `reason`."""
        bad = len(rows) - int(np.count_nonzero(rows))
        kept = self.take(rows) if bad else self  # series are not copied for nothing
        return replace(kept, dropped={**self.dropped, reason: self.dropped.get(reason, 0) + bad})


PER_POINT = ("point_id", "easting", "northing", "height", "los", "displacement", "coherence", "rmse")


def concatenate_tracks(parts: Sequence[Track]) -> Track:
    """All points of `parts`, which are blocks of one track, in order; what they dropped is added up.

    Raises:
        ValueError: there is no part, or they are not of one track.
    """
    first = parts[0]
    for part in parts[1:]:
        if (part.name, part.crs) != (first.name, first.crs) or not np.array_equal(part.epochs, first.epochs):
            raise ValueError(f"blocks of {first.name} and {part.name} cannot be one track")
    arrays = {name: [getattr(part, name) for part in parts] for name in PER_POINT}
    dropped: dict[str, int] = {}
    for part in parts:
        for reason, count in part.dropped.items():
            dropped[reason] = dropped.get(reason, 0) + count
    merged: dict[str, Any] = {
        name: np.concatenate(values) if all(v is not None for v in values) else None for name, values in arrays.items()
    }
    return replace(first, **merged, dropped=dropped)


def drop_repeated(track: Track) -> Track:
    """Of points with one identifier, the first is kept; the others are counted as `duplicate_id`."""
    repeated = repeats(identity(track.point_id))
    return track.keep(~repeated, "duplicate_id") if repeated.any() else track


def identity(point_id: NDArray[np.object_]) -> NDArray[np.uint64]:
    """(N,) a 64-bit hash of each identifier: so that those of millions of points can be compared in little memory."""
    return np.asarray(pd.util.hash_array(point_id, categorize=False), np.uint64)


def repeats(values: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """(N,) whether an equal value stands before."""
    return np.asarray(pd.Series(values).duplicated())


def write_points(tracks: Sequence[Track], path: Path) -> None:
    """Write the points table: Parquet, one row a scatterer, atomically.

    The file's metadata holds the CRS and per track its name and epochs, as JSON under `plumbline`.

    Raises:
        InputError: there is no track, two have one name, or their CRSs differ.
    """
    write_blocks([[track] for track in tracks], path)


def write_blocks(blocks: Sequence[Sequence[Track]], path: Path) -> None:
    """As `write_points`, of tracks whose points come in blocks, one or more a track; series are not copied.

    Raises:
        InputError: as `write_points`.
    """
    tracks = [parts[0] for parts in blocks]
    names = [track.name for track in tracks]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"{path}: two products are named {twice[0]}. Give each product once, under a name of its own.")
    crss = sorted({track.crs for track in tracks})
    if len(crss) != 1:
        raise InputError(f"{path}: one CRS is needed for all tracks, {', '.join(crss) or 'no track'} found.")
    about = {
        "version": VERSION,
        "crs": crss[0],
        "tracks": [{"name": track.name, "epochs": [str(day) for day in track.epochs]} for track in tracks],
    }
    schema = WRITTEN.with_metadata({METADATA_KEY: json.dumps(about).encode()})
    with atomic_file(path) as temporary, pq.ParquetWriter(temporary, schema, **WRITING) as writer:
        for code, parts in enumerate(blocks):
            table = pa.concat_tables([_to_table(part, code, names, schema) for part in parts])
            writer.write_table(table, ROW_GROUP)


def load_points(path: Path) -> list[Track]:
    """Read a points table; tracks come in the order they were written.

    Raises:
        InputError: the file is missing, is not a points table of this version, or contradicts itself.
    """
    try:
        table = pq.read_table(path, page_checksum_verification=True)
        about = json.loads((table.schema.metadata or {})[METADATA_KEY])
        if about["version"] != VERSION:
            raise InputError(f"{path}: points table of version {about['version']}, {VERSION} is needed. Make it again.")
        table = table.select(list(COLUMNS)).cast(pa.schema(list(COLUMNS.items())))
        codes = table["track"].combine_chunks().dictionary_encode()
        named = np.asarray(codes.dictionary.to_pylist(), object)[np.asarray(codes.indices)] if len(table) else []
        return [
            _from_table(table.filter(pa.array(np.asarray(named) == item["name"])), item, about["crs"])
            for item in about["tracks"]
        ]
    except FileNotFoundError:
        raise InputError(f"{path}: no such file.") from None
    except (OSError, ValueError, LookupError, TypeError, pa.ArrowException) as error:
        detail = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{path}: not a points table ({detail}). Make it again with `plumbline ingest`.") from None


def _to_table(track: Track, code: int, names: list[str], schema: pa.Schema) -> pa.Table:
    displacement = np.ascontiguousarray(track.displacement, np.float32)
    count, length = displacement.shape
    ends = np.arange(count + 1, dtype=np.int32) * length
    series = pa.ListArray.from_arrays(ends, displacement.ravel(), type=SERIES)
    los = np.asarray(track.los, float)
    columns = {
        "point_id": pa.array(track.point_id, pa.string()),
        "track": pa.DictionaryArray.from_arrays(np.full(count, code, np.int32), names),
        "easting": track.easting,
        "northing": track.northing,
        "height": track.height,
        "los_east": los[:, 0],
        "los_north": los[:, 1],
        "los_up": los[:, 2],
        "displacement": series,
    }
    return pa.table(columns, schema=schema)


def _from_table(table: pa.Table, about: dict[str, Any], crs: str) -> Track:
    epochs = np.array(about["epochs"], "datetime64[D]")
    series = table["displacement"].combine_chunks()
    values = series.flatten().to_numpy(zero_copy_only=False)
    if np.any(np.diff(series.offsets.to_numpy()) != len(epochs)):
        raise ValueError(f"track {about['name']}: a series does not have {len(epochs)} epochs")
    scalars = {name: table[name].to_numpy() for name in SCALARS}
    return Track(
        name=about["name"],
        crs=crs,
        epochs=epochs,
        point_id=np.asarray(table["point_id"].to_pylist(), object),
        easting=scalars["easting"],
        northing=scalars["northing"],
        height=scalars["height"],
        los=np.stack([scalars["los_east"], scalars["los_north"], scalars["los_up"]], axis=1),
        displacement=np.asarray(values, np.float32).reshape(len(table), len(epochs)),
    )
