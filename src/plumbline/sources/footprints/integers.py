"""Whole numbers that became decimals, and other ones, because one of them is missing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pyarrow as pa

MAX_WHOLE = 2.0**53
"""Up to here a decimal can be each whole number; beyond, it is that of its neighbours too."""
NULLABLE = {pa.int64(): pd.Int64Dtype(), pa.uint64(): pd.UInt64Dtype()}


def mend_integers(frame: pd.DataFrame, read: Callable[[list[str]], pa.Table]) -> None:
    """Put integers back, in place, where they are too large for the decimals that pandas makes of some with a gap.

    Args:
        frame: as read.
        read: gives some of its columns as the file has them, in the order of its rows.
    """
    if frame.columns.duplicated().any():
        return
    suspect = [str(name) for name, kind in frame.dtypes.items() if kind == np.float64 and _is_large(frame[name])]
    if not suspect:
        return
    table = read(suspect)
    for name in suspect:
        column = table[name]
        if column.type in NULLABLE:
            frame[name] = column.to_pandas(types_mapper=NULLABLE.get).array


def _is_large(values: pd.Series) -> bool:
    return bool(values.isna().any() and (values.abs() >= MAX_WHOLE).any())
