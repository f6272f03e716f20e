"""A real product whose residuals are a city's noise, as a table; what becomes of it is each maker's own."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pandas as pd

from plumbline.errors import InputError

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
        table = _table(path)
    except FileNotFoundError:
        raise InputError(f"--residuals: {path}: no such file. Give an {direction} EGMS L2b product.") from None
    except (OSError, ValueError, zipfile.BadZipFile, zipfile.LargeZipFile) as error:
        first = next(iter(str(error).splitlines()), "")
        raise InputError(
            f"--residuals: {path} is not readable, or damaged ({first}). Download the csv or the zip again."
        ) from error
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


def _table(path: Path) -> pd.DataFrame:
    """A csv, or the one in a zip, where it has others beside it."""
    with path.open("rb") as file:
        packed = file.read(2) == b"PK"
    if not packed:
        return pd.read_csv(path)
    with zipfile.ZipFile(path) as archive:
        found = [name for name in archive.namelist() if name.endswith(".csv")]
        if not found:
            raise ValueError("no csv in it")
        with archive.open(found[0]) as file:
            return pd.read_csv(file)
