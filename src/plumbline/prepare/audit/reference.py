"""Store the conditions of each training city in a package, to measure drift of later data.

Conditions are columns of towns and of satellites, not of what moves: of the training
buildings most are damaged on purpose, of a real city's few are, so columns of motion differ
from training in every city that is well.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from plumbline.core.errors import InputError
from plumbline.core.files import read_json
from plumbline.prepare.audit.distributions import ColumnValues, columns_of, steps
from plumbline.prepare.audit.summary import SAMPLE, Summary, parts_of
from plumbline.prepare.features.shards import SequenceSet

QUANTILES = 200
"""A column is kept as its quantiles at (i + 1/2) / 200: distances are exact to about 0.25 %
of the rows."""
CONDITIONS_FILE = "reference.json"
WATCHED = (
    "geometry.length",
    "geometry.width",
    "geometry.log_area",
    "geometry.rectangularity",
    "geometry.height_range",
    "geometry.log_points",
    "geometry.log_noise",
    "slope.differential_displacement_se",
    "slope.local_up_se",
    "slope.local_east_se",
    "slope.gradient_x_se",
    "slope.gradient_y_se",
    "distance.height",
)
"""Sizes and heights of buildings, how many scatterers are on them, and how noisy these are.
Not the incidence: it is almost the same all over a track, so that any two cities are as far
apart as can be."""
_VERSION = 1


def conditions_of(sequences: SequenceSet) -> dict[str, ColumnValues]:
    """Return for each city the distributions of its watched columns: a city has one sensor,
    so it is a slice."""
    summaries: dict[str, Summary] = {}
    for part in parts_of(sequences):
        city = np.asarray(part.city)
        for name in np.unique(city).tolist():
            summary = summaries.setdefault(name, Summary(name, SAMPLE))
            summary.add(part.take(np.flatnonzero(city == name)))
    conditions = {}
    for name, summary in sorted(summaries.items()):
        columns = columns_of(summary)
        watched = {key: columns.values[key] for key in WATCHED}
        conditions[name] = ColumnValues(columns.buildings, watched)
    return conditions


def describe_conditions(train: SequenceSet) -> dict[str, Any]:
    """Return the content of a package's reference file."""
    cities = {name: describe_columns(columns) for name, columns in conditions_of(train).items()}
    return {"version": _VERSION, "cities": cities}


def describe_columns(columns: ColumnValues) -> dict[str, Any]:
    """Return the stored form of distributions."""
    at = (np.arange(QUANTILES) + 0.5) / QUANTILES
    quantiles = {
        # Nine digits: read back as 32 bits, a value that many buildings share is the same
        # again. One digit off, all of them would count as a distance.
        key: [float(f"{value:.9g}") for value in steps(values, at)]
        for key, values in columns.values.items()
        if len(values)
    }
    return {"version": _VERSION, "buildings": columns.buildings, "quantiles": quantiles}


def read_columns(stored: Mapping[str, Any]) -> ColumnValues:
    """Return the distributions that `describe_columns` stored: quantiles as 32-bit values,
    ascending."""
    quantiles = {
        name: np.sort(np.array(row, np.float32).astype(float))
        for name, row in stored["quantiles"].items()
    }
    return ColumnValues(int(stored["buildings"]), quantiles)


def load_conditions(package: Path) -> dict[str, ColumnValues] | None:
    """Load the conditions of the training cities from a package; None for one without them.

    Raises:
        InputError: the file is none.
    """
    path = package / CONDITIONS_FILE
    if not path.is_file():
        return None
    content = read_json(path)
    try:
        if content["version"] != _VERSION:
            raise InputError(
                f"{path}: version {content['version']!r} found, {_VERSION} needed.",
                key="reference.other_version",
            )
        return {name: read_columns(stored) for name, stored in content["cities"].items()}
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise InputError(
            f"{path}: not the reference file of a package ({error!r}). Get the package again.",
            key="reference.unreadable",
        ) from None
