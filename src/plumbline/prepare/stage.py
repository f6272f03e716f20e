"""The stage `prepare`: points and footprints of every city in, one folder of sequences a split out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas

from plumbline.compass import QUADRANTS
from plumbline.console import log, track
from plumbline.errors import InputError
from plumbline.files import atomic_folder, write_json
from plumbline.params import Prepare
from plumbline.prepare.audit import audit_split
from plumbline.prepare.buildings import prepare_buildings
from plumbline.prepare.sequences import UNDEFINED, Sequences, concatenate
from plumbline.prepare.split import split_blocks
from plumbline.sources.buildings import load_buildings
from plumbline.sources.points import load_points
from plumbline.strain import CATEGORY_BOUNDS_PERMILLE


def prepare(ingested: Path, params: Prepare, out: Path) -> None:
    """Write `out/<split>/*.npy` for each split and `out/audit.json`.

    Args:
        ingested: folder of the stage `ingest`: one folder a city.
        params: section `prepare`.
        out: folder to write.

    Raises:
        InputError: there is no city, or one cannot be prepared.
    """
    cities = sorted(path for path in ingested.iterdir() if path.is_dir()) if ingested.is_dir() else []
    if not cities:
        raise InputError(f"{ingested}: no city found. Run `plumbline ingest` first.")
    parts, centres, dropped = [], [], {}
    for city in track(cities, len(cities), "prepare"):
        sequences, centre, few = _one_city(city, params)
        parts.append(sequences)
        centres.append(centre)
        dropped[city.name] = few
    everything = concatenate(parts)
    splits = split_blocks(np.concatenate(centres), everything.city, params.split, params.block_m, params.seed)
    report = {"dropped": dropped, "splits": {}}
    with atomic_folder(out) as folder:
        for name in params.split:
            part = everything.take(np.flatnonzero(splits == name))
            report["splits"][name] = audit_split(part)
            part.save(folder / name)
            log.info("%s: %d buildings, %d points", name, len(part), part.offsets[-1])
        write_json(folder / "audit.json", report)


def _one_city(
    city: Path, params: Prepare
) -> tuple[Sequences, np.ndarray[tuple[int, int], np.dtype[np.float64]], dict[str, int]]:
    """Labelled sequences of a city, the buildings' centres (B, 2), and how many footprints were left out and why."""
    buildings = load_buildings(city / "buildings.parquet")
    prepared = prepare_buildings(load_points(city / "points.parquet"), buildings, params, city.name)
    labels = pandas.read_parquet(city / "labels.parquet").set_index("building_id")
    sequences = prepared.sequences
    label = labels.reindex(sequences.building_id)
    known = np.isfinite(label["severity_permille"].to_numpy(float))
    severity = label["severity_permille"].to_numpy(np.float32)
    code = pandas.Categorical(label["quadrant"], categories=list(QUADRANTS)).codes.astype(np.int64)
    code[~(severity >= CATEGORY_BOUNDS_PERMILLE[0])] = UNDEFINED
    labelled = Sequences(**{**sequences.__dict__, "severity": severity, "quadrant": code})
    centroid = buildings.geometry.iloc[prepared.footprint].centroid
    centre = np.column_stack([centroid.x, centroid.y])
    few = {
        "insufficient_points": len(buildings) - len(sequences),
        "without_label": int((~known).sum()),
    }
    return labelled.take(np.flatnonzero(known)), centre[known], few
