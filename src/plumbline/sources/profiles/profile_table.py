"""The table of profile rows that `ingest` has written, read back file by file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from plumbline.core.compass import QUADRANTS
from plumbline.core.errors import InputError
from plumbline.sources.profiles.city import PROFILES
from plumbline.sources.profiles.rows import Profiles

CODES = dict(enumerate(QUADRANTS))
"""What the codes of locations mean in rows that come from here."""


class ProductRows(NamedTuple):
    """The B rows of one file."""

    profiles: Profiles
    """Severities in permille, locations as in `CODES`, or -1."""
    building_id: NDArray[np.str_]
    """(B,)"""
    group: NDArray[np.int64]
    """(B,) rows of one number stand for one building, also in other files of the city."""


@dataclass(frozen=True)
class IngestedProfiles:
    """An ingested city of profile rows."""

    folder: Path
    about: dict[str, Any]
    """`city.json`."""

    @property
    def products(self) -> list[dict[str, Any]]:
        """What is said of each file: `name`, `buildings`, `labelled`, `points`, `duplicates`, `years`, and perhaps
        `first_epoch` and `last_epoch`."""
        own: list[dict[str, Any]] = self.about["products"]
        return own

    def rows(self, product: str) -> ProductRows:
        """The rows of a file, in its order.

        Raises:
            InputError: the table is missing or damaged.
        """
        path = self.folder / PROFILES
        try:
            table = pq.read_table(path, filters=[("product", "=", product)])
            distance, slope = (_flat(table[name]) for name in ("distance_m", "slope_mm_per_m"))
            span, width, severity, group = (
                table[name].to_numpy() for name in ("span_m", "width_m", "severity_permille", "group")
            )
            ids, quadrant = (table[name].to_numpy(zero_copy_only=False) for name in ("building_id", "quadrant"))
        except (OSError, KeyError, pa.ArrowException) as error:
            raise InputError(f"{path}: not readable ({error}). Run `plumbline ingest` again.") from None
        location = np.full(len(ids), -1, np.int64)
        for code, name in CODES.items():
            location[quadrant == name] = code
        line = np.array([int(name.rpartition(":")[2]) for name in ids], np.int64)
        profiles = Profiles(distance.offsets, distance.values, slope.values, span, width, severity, location, line)
        return ProductRows(profiles, ids.astype(str), group)


class _Lists(NamedTuple):
    offsets: NDArray[np.int64]
    values: NDArray[np.float64]


def _flat(column: pa.ChunkedArray) -> _Lists:
    array = column.combine_chunks()
    length = np.asarray(array.value_lengths(), np.int64)
    return _Lists(np.r_[0, np.cumsum(length)], np.asarray(array.flatten(), float))
