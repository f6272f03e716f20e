"""Assemble the parts of a city's products: check, describe, and move them to their places."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import pyarrow.parquet as pq
import shapely
from numpy.typing import NDArray

from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.core.files import read_json, write_json
from plumbline.sources.checks.alignment import warn_of_offset
from plumbline.sources.checks.consistency import check_distinct, warn_of_datum
from plumbline.sources.checks.overlap import check_overlap
from plumbline.sources.checks.values import Sizes, warn_of_unit
from plumbline.sources.city.files import is_simulated
from plumbline.sources.city.tables import ABOUT, FOOTPRINTS, NEIGHBOURS, CityPlan
from plumbline.sources.ingest.parts import HALO, PART, POINTS, IngestPlan, Part, load_sample
from plumbline.sources.points.epochs import observed
from plumbline.sources.points.read import can_state_units
from plumbline.sources.track import Track, concatenate_tracks

CITY = "city.json"


def assemble(planned: CityPlan, plan: IngestPlan, out: Path) -> None:
    """Run the checks that need all points together, and put the city's files in their places."""
    folder, city, params = planned.folder, planned.files, planned.params
    about = read_json(folder / ABOUT)
    polygons = shapely.from_wkb(pq.read_table(folder / FOOTPRINTS)["wkb"].to_numpy(zero_copy_only=False))
    buildings = geopandas.GeoDataFrame(geometry=polygons, crs=about["crs"])
    buildings.attrs["source_crs"] = about["footprints_crs"]
    own = {path: [part for part in plan.parts if part.file.path == path] for path in city.products}
    samples = [_sample_of(path, own[path]) for path in city.products]
    names = [str(path) for path in city.products]
    twice = sorted({own.name for own in samples if [one.name for one in samples].count(own.name) > 1})
    if twice:
        raise InputError(f"{city.folder}: two products are named {twice[0]}. Give each a name of its own.")
    check_distinct(samples, names)
    warn_of_datum(samples, names, params.products)
    simulated = is_simulated(city.folder)
    # Simulated labels name quadrants by the grid, wherever it is.
    check_overlap(
        samples, buildings, ", ".join(names), str(city.footprints), asked_crs=params.crs, tell_north=not simulated
    )
    borrowed = city.name if simulated else None
    warn_of_offset(samples, buildings, ", ".join(names), params.products, borrowed)
    tiles: dict[str, Counter[str]] = {}
    tracks = []
    for file, sample in zip(planned.products, samples, strict=True):
        path = file.path
        told = [read_json(part.folder / PART) for part in own[path]]
        sizes = reduce(Sizes.plus, (Sizes(*one["sizes"]) for one in told))
        warn_of_unit(path, sizes, can_state_units(file))
        tracks.append(_describe_track(path, sample, told))
        for one in told:
            for kind in (POINTS, HALO):
                for tile, count in one[kind].items():
                    tiles.setdefault(tile, Counter())[kind] += count
        for part in own[path]:
            for kind in (POINTS, HALO):
                _link(part.folder / kind, out / kind)
    for kind in ("buildings", "labels", NEIGHBOURS):
        _link(folder / kind, out / kind)
    for path in sorted((out / "buildings").iterdir()):
        tiles.setdefault(path.stem, Counter())
    write_json(
        out / CITY,
        {
            **about,
            "tile_m": params.tile_m,
            "footprints": city.footprints.name,
            "labels": city.labels.name if city.labels else None,
            "tracks": tracks,
            "tiles": {tile: {kind: tiles[tile][kind] for kind in (POINTS, HALO)} for tile in sorted(tiles)},
        },
    )
    kept = sum(track["points"] for track in tracks)
    log.info("%s: %d points, %d buildings, %d labelled", city.name, kept, about["buildings"], about["labelled"])


def _sample_of(path: Path, own: Sequence[Part]) -> Track:
    """Return the sample of a product's points that its parts kept for comparisons, without series.

    Raises:
        InputError: it has none, or none that the quality filter let through.
    """
    told = [read_json(part.folder / PART) for part in own]
    epochs = np.array(told[0]["epochs"], "datetime64[D]")
    samples = [track for part in own if (track := load_sample(part.folder, epochs)) is not None]
    if not any(count for one in told for count in one[POINTS].values()):
        dropped = _total(told)
        raise InputError(
            f"{path}: no point is left, {', '.join(f'{n} dropped by {rule}' for rule, n in dropped.items()) or 'none'}"
            " there. Change the bounds of section ingest in params.yaml, or leave the file out."
        )
    return concatenate_tracks(samples)


def _total(told: Sequence[dict[str, Any]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for one in told:
        total.update(one["dropped"])
    return total


def _describe_track(path: Path, sample: Track, told: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Describe a track for `city.json` and the audit."""
    dropped = _total(told)
    points = sum(count for one in told for count in one[POINTS].values())
    values_T = np.array([one["values"] for one in told], np.int64).sum(axis=0)
    kept_T = observed(str(path), sample.epochs, values_T)
    epochs: NDArray[np.datetime64] = sample.epochs[kept_T]
    steps = np.diff(epochs).astype(int)
    return {
        "name": sample.name,
        "product": path.name,
        "points_read": points + sum(dropped.values()),
        "dropped": dict(dropped),
        "points": points,
        "epochs": len(epochs),
        "days": [str(day) for day in epochs],
        "first_epoch": str(epochs[0]),
        "last_epoch": str(epochs[-1]),
        "revisit_days": int(np.median(steps)) if len(steps) else 0,
        "longest_gap_days": int(steps.max(initial=0)),
        "notes": told[0]["notes"],
        "missing_share": round(1 - float(values_T.sum()) / max(points * len(epochs), 1), 6),
        "los": [round(float(value), 5) for value in sample.los.mean(0)],
    }


def _link(source: Path, target: Path) -> None:
    """Link all files of a folder below another, or copy them if the file system lacks hard links."""
    for path in sorted(source.rglob("*.parquet")):
        place = target / path.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(path, place)
        except OSError:
            shutil.copyfile(path, place)
