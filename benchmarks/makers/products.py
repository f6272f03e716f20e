"""A real product whose residuals are a city's noise, as a table; what becomes of it is each maker's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from plumbline.core.errors import InputError
from plumbline.sources.files.opened import find_csv

NEEDED = ("easting", "northing", "incidence_angle", "track_angle")
DIRECTIONS = ("ascending", "descending")
"""In the order in which products are given."""


def read_product(path: Path, direction: str) -> tuple[pd.DataFrame, list[str]]:
    """The table of an EGMS L2b product, csv or zip, and the names of its columns of displacement.

    Args:
        path: of the file.
        direction: one of `DIRECTIONS`, in which the satellite is to fly.

    Raises:
        InputError: it is not there or damaged, no such product, or of the other direction.
    """
    try:
        with find_csv(path).open() as stream:
            table = pd.read_csv(stream)
    except InputError as error:
        raise InputError(f"--residuals: {error}") from None
    except ValueError:
        raise InputError(f"--residuals: {path} is no table. Give an EGMS L2b product, csv or zip.") from None
    days = [str(name) for name in table if str(name).isdigit()]
    missing = [name for name in NEEDED if name not in table] or ([] if days else ["column of a day"])
    if missing:
        raise InputError(f"--residuals: {path} has no {', '.join(missing)}. Give an EGMS L2b product.")
    heading = float(table["track_angle"].mean())
    if not np.cos(np.radians(heading)) * (1 if direction == DIRECTIONS[0] else -1) > 0:
        raise InputError(
            f"--residuals: {path} has a track angle of {heading:.0f} degrees, and is not {direction}. Give the "
            "ascending product first, then the descending one."
        )
    return table, days
