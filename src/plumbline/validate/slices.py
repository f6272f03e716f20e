"""Divide the test split into slices that each must be good."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from plumbline.core.strain import DIFFICULTIES, MECHANISMS, category
from plumbline.prepare.features.definition import GEOMETRY, names
from plumbline.prepare.features.shards import SequenceSet
from plumbline.prepare.features.strain_resolution import strain_error

POINT_BOUNDS = (10, 20, 50)
AREA_BOUNDS_M2 = (100, 250, 600)
"""Bounds between slices, by scatterers and by area of the footprint: what says most about a sensor."""
_LOG_AREA = names(GEOMETRY).index("log_area")


def slices(sequences: SequenceSet, max_strain_error_permille: float) -> dict[str, NDArray[np.bool_]]:
    """Return name -> (B,) buildings: `all`, each city (it has one sensor), by points, by size in m2, by category, by
    difficulty, by mechanism, and by the number of right quadrants.

    `resolved:yes` are those whose points are not too noisy to be judged; `predict` asks for more
    (`prepare.abstention`).
    """
    length = np.asarray(sequences.length)
    result = {"all": np.ones(len(sequences), dtype=bool)}
    for city in np.unique(sequences.city):
        result[f"city:{city}"] = np.asarray(sequences.city == city)
    for low, high in itertools.pairwise((0, *POINT_BOUNDS, np.inf)):
        name = f"points:{low:g}-{high - 1:g}" if np.isfinite(high) else f"points:{low:g}+"
        result[name] = (length >= low) & (length < high)
    area = np.exp(np.asarray(sequences.geometry[:, _LOG_AREA], float))
    for low, high in itertools.pairwise((0, *AREA_BOUNDS_M2, np.inf)):
        name = f"area:{low:g}-{high:g}" if np.isfinite(high) else f"area:{low:g}+"
        result[name] = (area >= low) & (area < high)
    categories = category(sequences.severity)
    for number in range(5):
        result[f"category:{number}"] = categories == number
    error = strain_error(sequences)
    resolved = error <= max_strain_error_permille
    result["resolved:yes"], result["resolved:no"] = resolved, ~resolved
    for code, name in enumerate(DIFFICULTIES):
        result[f"difficulty:{name}"] = np.asarray(sequences.difficulty == code)
    for code, name in enumerate(MECHANISMS):
        result[f"mechanism:{name}"] = np.asarray(sequences.mechanism == code)
    right = np.asarray(sequences.accepted).sum(1)
    result["accepted:1"], result["accepted:2+"] = right == 1, right > 1
    return result
