"""Read the truth of a simulated scene: the movement on its grid."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plumbline.core.errors import InputError

TRUTH = "truth.npz"


class Truth(NamedTuple):
    """True movement on the grid of the scene; rows from north to south."""

    up_mm: NDArray[np.float32]
    """(rows, columns)"""
    east_mm: NDArray[np.float32]
    left: float
    """Easting of the grid's western edge, m."""
    top: float
    """Northing of its northern edge, m."""
    cell_m: float


def read_truth(folder: Path) -> Truth:
    """Read the truth of a scene's folder.

    Raises:
        InputError: it is missing or damaged.
    """
    try:
        with np.load(folder / TRUTH) as stored:
            up, east = (np.asarray(stored[name], np.float32) for name in ("up_mm", "east_mm"))
            return Truth(up, east, *(float(stored[name]) for name in ("left", "top", "cell_m")))
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"{folder / TRUTH}: not readable ({error}). Simulate the scene again.") from None
