"""Estimate the smallest strain that a building's points can resolve, without a model."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from plumbline.prepare.features.definition import GEOMETRY, SLOPE, names
from plumbline.prepare.features.shards import SequenceSet, Shards

_ERROR = names(SLOPE).index("differential_displacement_se")
_TRACKS = names(GEOMETRY).index("tracks")
_SIDES = [names(GEOMETRY).index("side_x"), names(GEOMETRY).index("side_y")]


def strain_error(sequences: SequenceSet) -> NDArray[np.floating[Any]]:
    """Return the standard error (B,) of a quadrant's strain, permille, from the noise of the building's points alone.

    A quarter of the points against the other three quarters tells a quadrant's drop with `4 + 4/3` times the variance
    of the mean of all. The drop of a strain is that of twice as large an angular distortion (`plumbline.core.strain`,
    without horizontal strain) over half a side: strain times side. Points that are not where the product says, and
    shapes that no fit knows, come on top: so a strain has to be several such errors large to be found.
    """
    parts = sequences.parts if isinstance(sequences, Shards) else (sequences,)
    found = [
        np.sqrt((4 + 4 / 3) / _precision(part.slope[:, _ERROR], part.offsets))
        / np.sqrt(np.maximum(part.geometry[:, _SIDES].prod(axis=1), 1e-6))
        for part in parts
    ]
    return np.concatenate([np.zeros(0), *found])


def points_and_tracks(sequences: SequenceSet) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count the scatterers (B,) and the tracks (B,) of each building."""
    parts = sequences.parts if isinstance(sequences, Shards) else (sequences,)
    none = np.zeros(0, np.int64)
    tracks = [np.rint(part.geometry[:, _TRACKS]).astype(np.int64) for part in parts]
    return np.concatenate([none, *(part.length for part in parts)]), np.concatenate([none, *tracks])


def _precision(error_mm: NDArray[np.floating[Any]], offsets: NDArray[np.int64]) -> NDArray[np.floating[Any]]:
    """Return the sum (B,) of 1 / variance over each building's points, 1/mm2; NaN affects only its own building."""
    each = np.maximum(np.asarray(error_mm, float), 1e-6) ** -2.0
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return np.asarray(np.maximum(np.bincount(owner, each, len(offsets) - 1), 1e-12))
