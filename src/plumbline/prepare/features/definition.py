"""Define the columns of the network's three inputs, their units and their symmetry under
the building compass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from plumbline.core.strain import FAILURES

PREPARATION = 8
"""Version of the columns: it goes up when the same points give other numbers in them. A model needs
the version that it was trained on.
2: standard errors include noise with a long memory (docs/decisions/0036).
3: changes are without what wrong positions make of a tilt (docs/decisions/0036).
4: large steady damage is not taken for that (docs/decisions/0036).
5: a point between two houses counts for the one that it moves with (docs/decisions/0036).
6: a corner may also move away from its building (docs/decisions/0036).
7: ends, steps, bowls and bending are fitted, too (docs/decisions/0037).
8: movements that begin near the end of the record have curves of their own
(docs/decisions/0047)."""
Kind = Literal["even", "x", "y", "xx", "yy", "ne", "nw", "sw", "se"]


@dataclass(frozen=True)
class Column:
    """One input column."""

    name: str
    unit: str
    kind: Kind = "even"
    """Symmetry under mirroring: `even` does not change; `x`, `y` change sign with that axis and
    swap with each other; `xx`, `yy` only swap; a quadrant's name moves with the quadrant. Columns
    that swap are neighbours in this order."""


def _quadrants(name: str, unit: str) -> tuple[Column, ...]:
    return (
        Column(f"{name}_ne", unit, "ne"),
        Column(f"{name}_nw", unit, "nw"),
        Column(f"{name}_sw", unit, "sw"),
        Column(f"{name}_se", unit, "se"),
    )


DISTANCE = (
    Column("x", "m", "x"),
    Column("y", "m", "y"),
    Column("x_relative", "half sides", "x"),
    Column("y_relative", "half sides", "y"),
    Column("radius", "m"),
    Column("height", "m"),
)
SLOPE = (
    Column("differential_displacement", "mm"),
    Column("differential_displacement_se", "mm"),
    Column("differential_rate", "mm/yr"),
    Column("robust_weight", "1"),
    Column("local_up", "mm"),
    Column("local_up_se", "mm"),
    Column("local_east_x", "mm", "x"),
    Column("local_east_y", "mm", "y"),
    Column("local_east_se", "mm"),
    Column("gradient_x", "mm/m", "x"),
    Column("gradient_y", "mm/m", "y"),
    Column("gradient_x_se", "mm/m", "xx"),
    Column("gradient_y_se", "mm/m", "yy"),
    Column("los_x", "1", "x"),
    Column("los_y", "1", "y"),
    Column("los_up", "1"),
)
GEOMETRY = (
    Column("side_x", "m", "xx"),
    Column("side_y", "m", "yy"),
    Column("length", "m"),
    Column("width", "m"),
    Column("log_area", "log m2"),
    Column("rectangularity", "1"),
    Column("height_range", "m"),
    Column("log_points", "log 1"),
    Column("tracks", "1"),
    Column("years", "yr"),
    Column("tilt_x", "mm/m", "x"),
    Column("tilt_y", "mm/m", "y"),
    Column("spread", "mm"),
    Column("log_noise", "log mm"),
    *_quadrants("points", "share"),
    *_quadrants("corner_drop", "mm"),
    *_quadrants("corner_log_odds", "log 1"),
    *_quadrants("corner_severity", "permille"),
    *_quadrants("best_gain", "log 1"),
    *_quadrants("best_severity", "permille"),
    *_quadrants("shape_log_odds", "log 1"),
    *_quadrants("wary_log_odds", "log 1"),
    *_quadrants("end_log_odds", "log 1"),
    *_quadrants("step_log_odds", "log 1"),
    *_quadrants("bowl_log_odds", "log 1"),
    *_quadrants("bending_log_odds", "log 1"),
    *_quadrants("shape_severity", "permille"),
    *(Column(f"{name}_gain", "log 1") for name in FAILURES),
    *(Column(f"{name}_severity", "permille") for name in FAILURES),
)


def names(columns: tuple[Column, ...]) -> list[str]:
    """Return the names in order."""
    return [column.name for column in columns]


_MIRROR_X = {"ne": "nw", "nw": "ne", "sw": "se", "se": "sw"}
_MIRROR_Y = {"ne": "se", "se": "ne", "nw": "sw", "sw": "nw"}
_SWAP = {"nw": "se", "se": "nw", "x": "y", "y": "x", "xx": "yy", "yy": "xx"}


def symmetry(
    columns: tuple[Column, ...], mirror_x: bool, mirror_y: bool, swap: bool
) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    """Return the source column and sign of each column after the frame is mirrored, then
    its axes swapped.

    `new[:, j] = sign[j] * old[:, source[j]]`. The eight combinations are the symmetry group
    of the square.
    """
    place: dict[tuple[str, str], int] = {
        (_stem(column), column.kind): i for i, column in enumerate(columns)
    }
    source, sign = np.zeros(len(columns), dtype=np.intp), np.ones(len(columns), dtype=np.float32)
    for j, column in enumerate(columns):
        kind: str = _SWAP.get(column.kind, column.kind) if swap else column.kind
        if (mirror_x and kind == "x") or (mirror_y and kind == "y"):
            sign[j] = -1
        mirrored = _MIRROR_Y.get(kind, kind) if mirror_y else kind
        mirrored = _MIRROR_X.get(mirrored, mirrored) if mirror_x else mirrored
        source[j] = place[(_stem(column), mirrored)] if mirrored != column.kind else j
    return source, sign


def _stem(column: Column) -> str:
    """Return the column's name without its axis or quadrant; columns that change places share
    it."""
    if column.kind == "even":
        return column.name
    return "_".join(
        part for part in column.name.split("_") if part != column.kind and part not in ("x", "y")
    )


def quadrant_symmetry(mirror_x: bool, mirror_y: bool, swap: bool) -> NDArray[np.int64]:
    """Return the new quadrant code (4,) of each old one under the same symmetry."""
    source, _ = symmetry(_quadrants("q", "1"), mirror_x, mirror_y, swap)
    new = np.empty(4, dtype=np.int64)
    new[source] = np.arange(4)
    return new
