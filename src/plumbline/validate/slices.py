"""The parts of the test split that must be good on their own."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from plumbline.prepare.resolution import strain_error
from plumbline.prepare.shards import SequenceSet
from plumbline.strain import DIFFICULTIES, category

POINT_BOUNDS = (10, 20, 50)


def slices(sequences: SequenceSet, max_strain_error_permille: float) -> dict[str, NDArray[np.bool_]]:
    """Name -> (B,) which buildings: `all`, each city (a city has one sensor), by points, by category, by difficulty.

    `resolved:yes` are those that `predict` judges, if they are like those of the training.
    """
    length = np.asarray(sequences.length)
    result = {"all": np.ones(len(sequences), dtype=bool)}
    for city in np.unique(sequences.city):
        result[f"city:{city}"] = np.asarray(sequences.city == city)
    edges = (0, *POINT_BOUNDS, np.inf)
    for low, high in itertools.pairwise(edges):
        name = f"points:{low:g}-{high - 1:g}" if np.isfinite(high) else f"points:{low:g}+"
        result[name] = (length >= low) & (length < high)
    categories = category(sequences.severity)
    for number in range(5):
        result[f"category:{number}"] = categories == number
    error = strain_error(sequences)
    resolved = error <= max_strain_error_permille
    result["resolved:yes"], result["resolved:no"] = resolved, ~resolved
    for code, name in enumerate(DIFFICULTIES):
        result[f"difficulty:{name}"] = np.asarray(sequences.difficulty == code)
    return result
