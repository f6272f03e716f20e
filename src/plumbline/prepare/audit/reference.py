"""Under which conditions the training cities were observed, for what a model is later asked to be compared with.

Columns of towns and of satellites, not of what moves: of the training buildings most are damaged on purpose, of a real
city's few are, so columns of motion differ from training in every city that is well.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from plumbline.core.errors import InputError
from plumbline.core.files import read_json
from plumbline.prepare.audit.distributions import Columns, columns_of
from plumbline.prepare.audit.reference_part import as_kept, describe
from plumbline.prepare.audit.summary import Summary, chunks, parts_of
from plumbline.prepare.features.shards import SequenceSet

FILE = "reference.json"
WATCHED = (
    "geometry.length", "geometry.width", "geometry.log_area", "geometry.rectangularity", "geometry.height_range",
    "geometry.log_points", "geometry.log_noise", "slope.differential_displacement_se", "slope.local_up_se",
    "slope.local_east_se", "slope.gradient_x_se", "slope.gradient_y_se", "distance.height",
)  # fmt: skip
"""Sizes and heights of buildings, how many scatterers are on them, and how noisy these are. Not the incidence: it is
almost the same all over a track, so that any two cities are as far apart as can be."""
SAMPLE = 20_000
"""Buildings and scatterers of a city that quantiles are taken from."""
_VERSION = 1


def conditions_of(sequences: SequenceSet, sample: int = SAMPLE) -> dict[str, Columns]:
    """City -> the distributions of its watched columns. A city has one sensor, so it is the slice to compare with."""
    found: dict[str, Summary] = {}
    for part in parts_of(sequences):
        city, offsets = np.asarray(part.city), np.asarray(part.offsets)
        starts = np.flatnonzero(np.r_[True, city[1:] != city[:-1]]) if len(city) else np.zeros(0, int)
        for start, stop in zip(starts, [*starts[1:], len(city)], strict=True):
            own = found.setdefault(str(city[start]), Summary(str(city[start]), sample))
            for rows in chunks(offsets[start : stop + 1]):
                own.add(part, slice(int(start) + rows.start, int(start) + rows.stop))
    return {name: _watched(columns_of(summary)) for name, summary in sorted(found.items())}


def describe_conditions(train: SequenceSet) -> dict[str, Any]:
    """The content of a package's reference file."""
    return {"version": _VERSION, "cities": {name: describe(found) for name, found in conditions_of(train).items()}}


def load_conditions(package: Path) -> dict[str, Columns] | None:
    """The training cities' conditions that a package carries; None for one from before there were any.

    Raises:
        InputError: the file is none.
    """
    path = package / FILE
    if not path.is_file():
        return None
    content = read_json(path)
    try:
        if content["version"] != _VERSION:
            raise InputError(f"{path}: version {content['version']!r} found, {_VERSION} needed.")
        return {str(name): _columns(about) for name, about in content["cities"].items()}
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise InputError(f"{path}: not the reference file of a package ({error!r}). Get the package again.") from None


def _watched(columns: Columns) -> Columns:
    return Columns(columns.buildings, {name: columns.values[name] for name in WATCHED})


def _columns(about: Mapping[str, Any]) -> Columns:
    values = {str(name): as_kept(row) for name, row in about["quantiles"].items()}
    return Columns(int(about["buildings"]), values)
