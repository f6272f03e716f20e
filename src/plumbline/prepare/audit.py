"""What a careful person would look at before training: counts, balance, and values that cannot be."""

from __future__ import annotations

from typing import Any

import numpy as np

from plumbline.compass import QUADRANTS
from plumbline.errors import InputError
from plumbline.prepare.features import DISTANCE, GEOMETRY, SLOPE, Column
from plumbline.prepare.sequences import Sequences
from plumbline.strain import category


def audit_split(sequences: Sequences) -> dict[str, Any]:
    """Counts and ranges of one split, ready for JSON.

    Raises:
        InputError: a feature is not finite, or no building is left.
    """
    if not len(sequences):
        raise InputError("prepare: no building is left in a split. Lower prepare.min_points or give more data.")
    for name, columns in (("distance", DISTANCE), ("slope", SLOPE), ("geometry", GEOMETRY)):
        _refuse_non_finite(getattr(sequences, name), columns, name)
    categories = np.bincount(category(sequences.severity), minlength=5)
    quadrants = np.bincount(sequences.quadrant[sequences.quadrant >= 0], minlength=4)
    length = sequences.length
    return {
        "buildings": len(sequences),
        "points": int(length.sum()),
        "points_per_building": {"min": int(length.min()), "median": float(np.median(length)), "max": int(length.max())},
        "categories": {str(i): int(n) for i, n in enumerate(categories)},
        "quadrants": {name: int(n) for name, n in zip(QUADRANTS, quadrants, strict=True)},
        "severity_permille": {
            "median": round(float(np.median(sequences.severity)), 4),
            "max": round(float(sequences.severity.max()), 4),
        },
        "cities": {str(c): int(n) for c, n in zip(*np.unique(sequences.city, return_counts=True), strict=True)},
    }


def _refuse_non_finite(values: np.ndarray[Any, Any], columns: tuple[Column, ...], name: str) -> None:
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        row, column = bad[0]
        raise InputError(
            f"prepare: {name}, row {row}, column {columns[column].name}: {values[row, column]} found, a finite number "
            f"needed ({len(bad)} such values)."
        )
