"""Ingested profile rows -> sequences: one file is one portion of the work, as a tile is of a city of points."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plumbline.core.files import atomic_folder, read_json, write_json
from plumbline.params import Prepare
from plumbline.prepare.profiles import profile_labels, profile_sequences, rows_left_out
from plumbline.prepare.tile import TILE
from plumbline.sources.profile_table import CODES, IngestedProfiles

GROUP = "group.npy"
REPORTED = ("name", "points", "duplicates", "first_epoch", "last_epoch")
"""What the audit is told of a file as of a track."""


@dataclass(frozen=True)
class ProfilePart:
    """Rows to prepare, and where to put them."""

    folder: Path
    city: IngestedProfiles
    product: str
    """Name of the file."""
    years: float
    """In which the slopes came about."""
    params: Prepare


def plan_profiles(cities: Sequence[IngestedProfiles], work: Path, params: Prepare) -> list[ProfilePart]:
    """The portions of all cities of profile rows, in folders below `work`."""
    return [
        ProfilePart(work / city.folder.name / f"{number:04d}", city, product["name"], product["years"], params)
        for city in cities
        for number, product in enumerate(city.products)
    ]


def prepare_profiles(part: ProfilePart) -> None:
    """Write the labelled sequences of a file, the group of each, and who was left out.

    Raises:
        InputError: what `ingest` wrote is missing or damaged.
    """
    rows = part.city.rows(part.product)
    left_out = rows_left_out(rows.profiles, part.params)
    judged = left_out.judged
    sequences = profile_sequences(
        rows.profiles, rows.building_id, part.years, judged, part.params.max_points, part.city.folder.name
    )
    severity, quadrant = profile_labels(rows.profiles, 1.0, CODES)
    known = np.isfinite(severity[judged])
    sequences = replace(sequences, severity=severity[judged], quadrant=quadrant[judged])
    with atomic_folder(part.folder) as out:
        sequences.take(np.flatnonzero(known)).save(out / "sequences")
        np.save(out / GROUP, rows.group[judged][known])
        write_json(out / TILE, {"left_out": {**left_out.counts, "without_label": int((~known).sum())}})


def profile_places(parts: Sequence[ProfilePart], block_m: float) -> tuple[NDArray[np.float64], NDArray[np.str_]]:
    """A place (B, 2) for every building and the name (B,) of its city, such that each group is a block of its own.

    Rows stand nowhere; what must not be on both sides of a split is one building in several rows.
    """
    groups = [np.load(part.folder / GROUP) for part in parts]
    names = np.array([part.city.folder.name for part in parts], dtype=str)
    group = np.concatenate([np.zeros(0, np.int64), *groups])
    centre = np.column_stack([(group + 0.5) * block_m, np.full(len(group), block_m / 2)])
    return centre, np.repeat(names, np.array([len(own) for own in groups], dtype=np.intp))


def profile_reports(parts: Sequence[ProfilePart]) -> dict[str, dict[str, Any]]:
    """City -> what the audit is told of it. A file stands for a track; every place of a row is on its building."""
    reports: dict[str, dict[str, Any]] = {}
    left_out: dict[str, Counter[str]] = {}
    for part in parts:
        name, about = part.city.folder.name, part.city.about
        left_out.setdefault(name, Counter()).update(read_json(part.folder / TILE)["left_out"])
        tracks = [
            {
                **{key: product[key] for key in REPORTED if key in product},
                "assigned": product["points"],
                "points_looked_at": product["points"],
            }
            for product in part.city.products
        ]
        own = {key: about[key] for key in ("buildings", "labelled")}
        reports[name] = {**own, "area_km2": None, "left_out": dict(left_out[name]), "notes": [], "tracks": tracks}
    return reports


def about_groups(parts: Sequence[ProfilePart]) -> str:
    """What to add to the message where there are too few blocks to split; empty without profile rows."""
    if not parts:
        return ""
    groups = sum(city["groups"] for city in {part.city.folder: part.city.about for part in parts}.values())
    return (
        f" Of profile rows, what stands for one building counts as a block: {groups} of these. Rows of equal span and "
        "width do, unless profiles.same_building says otherwise in params.yaml (ingest.products)."
    )
