"""Load the prepared splits and check them before a run: numbers, labels, and lengths that the network accepts."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plumbline.core.compass import QUADRANTS
from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.core.strain import INTERVAL_SHARE
from plumbline.model.spec import NetworkSpec
from plumbline.prepare.features.definition import DISTANCE, GEOMETRY, SLOPE, names
from plumbline.prepare.features.sequences import UNDEFINED, Sequences
from plumbline.prepare.features.shards import Shards, load_shards

LEAST_BUILDINGS = 9
"""To calibrate on: with fewer no rank is as far up as `INTERVAL_SHARE` of them and the next, so the largest error holds
less."""
CHUNK = 1 << 18
"""Rows looked at together: bounds the memory."""
WHY = f" for an interval that holds {INTERVAL_SHARE:.0%}"
AGAIN = "Run `plumbline prepare` again; if that does not help, leave the building out of its labels."


class Splits(NamedTuple):
    """Splits for training; `test` is for `validate` alone."""

    train: Shards
    tune: Shards
    calibrate: Shards


def load_splits(prepared: Path) -> Splits:
    """Map the splits of the stage `prepare` into memory, and check them.

    Raises:
        InputError: one is missing, damaged or without a building, or a building has no scatterer, or a feature or label
            that is no number.
    """
    splits = Splits(*(load_shards(prepared / name) for name in Splits._fields))
    for name, split in zip(Splits._fields, splits, strict=True):
        check_split(split, prepared / name, *((LEAST_BUILDINGS, WHY) if name == "calibrate" else ()))
    return splits


def check_split(split: Shards, folder: Path, least: int = 1, why: str = "") -> None:
    """Refuse a split that is unfit for training, choosing or calibrating.

    Args:
        split: of the folder.
        folder: named as the split.
        least: buildings. why: so many are needed.

    Raises:
        InputError: see `load_splits`.
    """
    if len(split) < least:
        raise InputError(
            f"{folder}: {len(split) or 'no'} building{'s' * (len(split) > 1)} in it, {least} needed{why}. Give more "
            f"labelled buildings, a larger prepare.split.{folder.name}, or smaller blocks (prepare.block_m)."
        )
    for part in split.parts:
        if (empty := np.flatnonzero(np.asarray(part.length) < 1)).size:
            raise InputError(f"{folder}: building {part.building_id[empty[0]]} has no scatterer. {AGAIN}")
        _check_numbers(part, folder)
        _refuse(~(part.severity >= 0), part.severity, part, folder, "severity, permille")
        _refuse(~np.isin(part.quadrant, (UNDEFINED, *range(len(QUADRANTS)))), part.quadrant, part, folder, "quadrant")


def _check_numbers(part: Sequences, folder: Path) -> None:
    """Refuse features and severities that are NaN or infinite."""
    per_building = {"geometry": names(GEOMETRY), "severity": ["permille"]}
    for array, columns in {"distance": names(DISTANCE), "slope": names(SLOPE), **per_building}.items():
        values = getattr(part, array)
        for start in range(0, len(values), CHUNK):
            chunk = values[start : start + CHUNK].reshape(-1, len(columns))
            finite = np.isfinite(chunk)
            if finite.all():
                continue
            row, column = (int(i) for i in np.argwhere(~finite)[0])
            place = start + row
            building = place if array in per_building else int(np.searchsorted(part.offsets, place, side="right")) - 1
            raise _wrong(folder, part, building, f"{array}, {columns[column]}", chunk[row, column])


def _refuse(wrong_B: NDArray[np.bool_], values_B: NDArray[Any], part: Sequences, folder: Path, column: str) -> None:
    if (index := np.flatnonzero(wrong_B)).size:
        raise _wrong(folder, part, int(index[0]), column, values_B[index[0]])


def _wrong(folder: Path, part: Sequences, building: int, column: str, found: Any) -> InputError:
    name = f"{part.building_id[building]} of {part.city[building]}"
    return InputError(f"{folder}: building {name}: {column}: {found:g} found, which cannot be trained on. {AGAIN}")


def check_lengths(splits: Splits, prepared: Path, spec: NetworkSpec, trained: Path | None = None) -> None:
    """Refuse buildings that are too long for the network, and warn if all are too long for its attention.

    Args:
        splits: of the folder `prepared`, which is for messages.
        prepared: see `splits`.
        spec: of the network, whose `max_length` is `prepare.max_points` as it stood when it was made.
        trained: folder that the network was read from; without one it was made by the params as they are now.

    Raises:
        InputError: the data were prepared with another `prepare.max_points`.
    """
    when, cure = "found", "Run `plumbline prepare` again, or give the value it had then."
    if trained is not None:
        when, cure = f"was what {trained} was trained with", "Run `plumbline train` again, or prepare as it was then."
    for name, split in splits._asdict().items():
        if (longest := int(split.length.max())) > spec.max_length:
            raise InputError(
                f"prepare.max_points: {spec.max_length} {when}, but {prepared / name} has buildings of up to {longest} "
                f"scatterers: it was prepared with more. {cure}"
            )
    shortest = int(splits.train.length.min())
    if spec.attention_layers and spec.max_attention_length < shortest:
        log.warning(
            "model.max_attention_length: %d found, and the shortest building of %s has %d scatterers: attention is "
            "neither trained nor used. Raise it, or set model.attention_layers to 0.",
            spec.max_attention_length,
            prepared / "train",
            shortest,
        )
