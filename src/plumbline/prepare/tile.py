"""Turn one tile of an ingested city into sequences of its labelled buildings: one portion of `prepare`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas
from numpy.typing import NDArray

from plumbline.core.compass import QUADRANTS
from plumbline.core.files import atomic_folder, write_json
from plumbline.core.strain import CATEGORY_BOUNDS_PERMILLE
from plumbline.params import Prepare
from plumbline.prepare.city import Tile, prepare_tile
from plumbline.prepare.features.sequences import UNDEFINED, Sequences
from plumbline.prepare.response.decompose import TrackMeans
from plumbline.prepare.track_figures import FIGURES, TrackFigures, point_figures, speeds
from plumbline.sources.footprints.origin import ground_of

CENTRE, MEANS, IDS, TILE = "centre.npy", "means.npz", "building_id.npy", "tile.json"


@dataclass(frozen=True)
class LabelledTile(Tile):
    """A tile with buildings for training."""

    params: Prepare


def write_tile(tile: LabelledTile) -> None:
    """Write a tile's labelled sequences, their centres, the motion of all its buildings, and those left out.

    `tile.json` has the CRS of the centres, which lie on the ground that the city really stands on.

    Raises:
        InputError: a file of the tile is damaged, or its buildings cannot be prepared.
    """
    prepared, buildings, _, tracks = prepare_tile(tile, tile.params)
    figures = point_figures(tracks, [tile.own_rows(track) for track in tracks])
    sequences, known = label(prepared.sequences, tile.city.labels(tile.name))
    ground = ground_of(buildings, tile.city.about["crs"], f"footprints of {tile.city.folder.name}")
    with atomic_folder(tile.folder) as out:
        sequences.take(np.flatnonzero(known)).save(out / "sequences")
        np.save(out / CENTRE, ground.centre[prepared.footprint][known])
        np.save(out / IDS, buildings["building_id"].to_numpy().astype(str))
        np.savez(out / MEANS, **prepared.means._asdict())
        np.savez_compressed(out / FIGURES, **TrackFigures(*figures, speeds(prepared.means))._asdict())
        left_out = {**prepared.left_out.counts, "without_label": int((~known).sum())}
        assigned = prepared.means.points.sum(axis=0).tolist()
        write_json(out / TILE, {"left_out": left_out, "assigned": assigned, "crs": ground.crs})


def label(sequences: Sequences, labels: pandas.DataFrame) -> tuple[Sequences, NDArray[np.bool_]]:
    """Add labels to sequences, and return (B,) whether each building has one."""
    own = labels.set_index("building_id").reindex(sequences.building_id)
    severity = own["severity_permille"].to_numpy(np.float32)
    code = pandas.Categorical(own["quadrant"], categories=list(QUADRANTS)).codes.astype(np.int64)
    code[~(severity >= CATEGORY_BOUNDS_PERMILLE[0])] = UNDEFINED
    accepted = np.stack([own["accepted"].fillna("").str.contains(name) for name in QUADRANTS], axis=1)
    accepted &= (code != UNDEFINED)[:, None]
    mechanism, difficulty = (own[name].fillna(UNDEFINED).to_numpy(np.int8) for name in ("mechanism", "difficulty"))
    labels_of = {"accepted": accepted, "mechanism": mechanism, "difficulty": difficulty}
    return replace(sequences, severity=severity, quadrant=code, **labels_of), np.isfinite(severity)


def load_means(folder: Path) -> TrackMeans:
    """Load the motion of a tile's buildings that `write_tile` wrote."""
    with np.load(folder / MEANS) as stored:
        return TrackMeans(**stored)
