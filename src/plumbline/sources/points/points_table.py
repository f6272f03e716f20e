"""Write and read the points table: tracks on disk, as one Parquet file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from plumbline.core.errors import InputError
from plumbline.core.files import atomic_file
from plumbline.sources.points.track import Track

VERSION = 1
"""Version of the table's layout."""
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
    # LZ4 and series without nulls: twice as fast to write as Zstandard and nullable ones, for
    # a file an eighth larger.
    "compression": "lz4",
    "use_dictionary": ["track", "displacement.list.element"],
    "write_statistics": False,
    "write_page_checksum": True,
}
SERIES = pa.list_(pa.field("element", pa.float32(), nullable=False))
SCHEMA = pa.schema(
    [
        pa.field(name, SERIES if pa.types.is_list(kind) else kind, nullable=False)
        for name, kind in COLUMNS.items()
    ]
)
SCALARS = ("easting", "northing", "height", "los_east", "los_north", "los_up")


def write_points(tracks: Sequence[Track], path: Path) -> None:
    """Write the points table: Parquet, one row a scatterer, atomically.

    The file's metadata holds the CRS and per track its name and epochs, as JSON under `plumbline`.

    Raises:
        InputError: there is no track, two have one name, or their CRSs differ.
    """
    write_blocks([[track] for track in tracks], path)


def write_blocks(blocks: Sequence[Sequence[Track]], path: Path) -> None:
    """Write tracks as `write_points` does, from one or more blocks of points for each
    track, without copying series.

    Raises:
        InputError: as `write_points`.
    """
    tracks = [parts[0] for parts in blocks]
    names = [track.name for track in tracks]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(
            f"{path}: two products are named {twice[0]}. Give each product once, under a name of "
            "its own.",
            key="points_table.repeated_track",
        )
    crss = sorted({track.crs for track in tracks})
    if len(crss) != 1:
        raise InputError(
            f"{path}: one CRS is needed for all tracks, {', '.join(crss) or 'no track'} found.",
            key="points_table.several_crss",
        )
    about = {
        "version": VERSION,
        "crs": crss[0],
        "tracks": [
            {"name": track.name, "epochs": [str(day) for day in track.epochs]} for track in tracks
        ],
    }
    schema = SCHEMA.with_metadata({METADATA_KEY: json.dumps(about).encode()})
    with atomic_file(path) as temporary, pq.ParquetWriter(temporary, schema, **WRITING) as writer:
        for code, parts in enumerate(blocks):
            table = pa.concat_tables([_to_table(part, code, names, schema) for part in parts])
            writer.write_table(table, ROW_GROUP)


def read_points_table(path: Path) -> list[Track]:
    """Read a points table; tracks come in the order they were written.

    Raises:
        InputError: the file is missing, is not a points table of this version, or
            contradicts itself.
    """
    try:
        table = pq.read_table(path, page_checksum_verification=True)
        about = json.loads((table.schema.metadata or {})[METADATA_KEY])
        if about["version"] != VERSION:
            raise InputError(
                f"{path}: points table of version {about['version']}, {VERSION} is needed. Make "
                "it again.",
                key="points_table.other_version",
            )
        table = table.select(list(COLUMNS)).cast(pa.schema(list(COLUMNS.items())))
        return [
            _from_table(table.filter(pc.equal(table["track"], entry["name"])), entry, about["crs"])
            for entry in about["tracks"]
        ]
    except FileNotFoundError:
        raise InputError(f"{path}: no such file.", key="file.missing") from None
    except (OSError, ValueError, LookupError, TypeError, pa.ArrowException) as error:
        detail = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(
            f"{path}: not a points table ({detail}). Make it again with `plumbline ingest`.",
            key="points_table.unreadable",
        ) from None


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
