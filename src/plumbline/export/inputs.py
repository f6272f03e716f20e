"""Check a batch before a runtime gets it: a runtime's message is hard to read, or it does not notice the error.

Shape legend: B buildings, L scatterers, F features.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plumbline.core.errors import InputError

SEQUENCES = ("distance", "slope")
FLOATS = (*SEQUENCES, "geometry")
MASK = "mask"
NAMES = (*FLOATS, MASK)
"""Inputs of every released model, in their order."""


@dataclass(frozen=True)
class Signature:
    """Inputs of a model, by its own tensors and by its metadata."""

    columns: Mapping[str, int]
    """F of `FLOATS`."""
    column_names: Mapping[str, list[str]]
    """Names and units of the columns; empty where the model does not say."""
    max_length: int | None = None
    """Scatterers a building at most; None where the model does not say."""
    max_batch: int | None = None
    """Buildings at a time at most; None: as many as the memory holds."""

    def check(self, inputs: Mapping[str, NDArray[Any]], finite: bool = True) -> None:
        """Refuse inputs on which the model would fail or answer NaN; `finite`: also refuse NaN and infinity.

        Raises:
            InputError: a tensor is missing, unknown, no array, of another type or shape than the model's or than the
                others, longer than the model allows, without any scatterer in a building, with padding before one, or
                not finite.
        """
        if not isinstance(inputs, Mapping):
            raise InputError(f"model inputs: {type(inputs).__name__} found, a dict of {', '.join(NAMES)} needed.")
        if wrong := set(inputs) ^ set(NAMES):
            name = min(wrong)
            state = "unknown" if name in inputs else "missing"
            raise InputError(f"model inputs: {name!r} is {state}; {', '.join(NAMES)} are needed.")
        for name in NAMES:
            self._check_kind(name, inputs[name])
        batch, length = inputs[MASK].shape
        for name in NAMES:
            size, expected = inputs[name].shape, (batch, length) if name != "geometry" else (batch,)
            if size[: len(expected)] != expected:
                raise InputError(
                    f"model inputs: {name}: shape {size} found, but mask is {batch} buildings by {length} "
                    "scatterers. Give all of them the same buildings and padding."
                )
        self._check_size(batch, length)
        if not (real_B := inputs[MASK].any(axis=1)).all():
            raise InputError(
                f"model inputs: mask: building {int(np.argmin(real_B))} of the batch has no scatterer. "
                "Leave such buildings out."
            )
        mask_BL = inputs[MASK]
        # Neighbours in a row are neighbours on the building: a gap between them would change the answer, unnoticed.
        if (late_B := (mask_BL[:, 1:] > mask_BL[:, :-1]).any(axis=1)).any():
            raise InputError(
                f"model inputs: mask: building {int(np.argmax(late_B))} of the batch has padding before a "
                "scatterer. Scatterers take the first places of a row, in order along the longer side; "
                "padding comes behind them."
            )
        for name in FLOATS if finite else ():
            self._check_finite(name, inputs)

    def check_lengths(self, length_B: NDArray[np.integer[Any]]) -> None:
        """Refuse buildings by their number of scatterers, before the first is answered.

        Raises:
            InputError: one has none, or more than the model allows.
        """
        if len(length_B) == 0:
            return
        for b in (int(np.argmin(length_B)), int(np.argmax(length_B))):
            found = int(length_B[b])
            if found < 1 or (self.max_length is not None and found > self.max_length):
                most = "or more" if self.max_length is None else f"to {self.max_length}"
                raise InputError(
                    f"building {b} of the data: {found} scatterers found, 1 {most} needed. "
                    "`prepare.min_points` and `prepare.max_points` see to that."
                )

    def _check_kind(self, name: str, value: Any) -> None:
        if not isinstance(value, np.ndarray):
            raise InputError(f"model inputs: {name}: {type(value).__name__} found, numpy array needed.")
        wanted = np.dtype(bool if name == MASK else np.float32)
        if value.dtype != wanted:
            raise InputError(
                f"model inputs: {name}: type {value.dtype} found, {wanted} needed. Give {name}.astype({wanted.name!r})."
            )
        shape = ("batch", "length", "columns")[: 3 if name in SEQUENCES else 2]
        if name == "geometry":
            shape = ("batch", "columns")
        if value.ndim != len(shape):
            raise InputError(
                f"model inputs: {name}: shape {value.shape} found, ({', '.join(shape)}) needed; one "
                "building is a batch of 1."
            )
        if name != MASK and value.shape[-1] != self.columns[name]:
            listed = self.column_names.get(name)
            raise InputError(
                f"model inputs: {name}: {value.shape[-1]} columns found, {self.columns[name]} needed"
                f"{': ' + ', '.join(listed) if listed else ''}."
            )

    def _check_size(self, batch: int, length: int) -> None:
        if self.max_length is not None and length > self.max_length:
            raise InputError(
                f"model inputs: {length} scatterers a building found, at most {self.max_length} allowed. "
                "`prepare.max_points` leaves so many; a model for more must be trained with a larger "
                "one."
            )
        if self.max_batch is not None and batch > self.max_batch:
            raise InputError(
                f"model inputs: {batch} buildings found, this engine takes at most {self.max_batch} at a "
                "time. Give smaller batches, or build it with a larger --batch."
            )

    def _check_finite(self, name: str, inputs: Mapping[str, NDArray[Any]]) -> None:
        value = inputs[name]
        with np.errstate(over="ignore", invalid="ignore"):
            # One sum is many times faster than a look at each value; where it is finite, so are they.
            if np.isfinite(value.sum()):
                return
        if (finite := np.isfinite(value)).all():
            return
        place = tuple(int(i) for i in np.argwhere(~finite)[0])
        listed = self.column_names.get(name)
        column = listed[place[-1]] if listed else f"column {place[-1]}"
        padding = name in SEQUENCES and not inputs[MASK][place[:2]]
        where = f"building {place[0]}" + (f", scatterer {place[1]}" if name in SEQUENCES else "")
        raise InputError(
            f"model inputs: {name}: {value[place]} found at {where}, {column}; numbers are needed"
            + (", in the padding too: give zeros there." if padding else ". Leave such buildings or scatterers out.")
        )


def signature(columns: Mapping[str, int], inputs: list[dict[str, Any]], **limits: int | None) -> Signature:
    """Return a signature with the columns' names from `inputs`, as the manifest and the metadata list them."""
    named = {item["name"]: [f"{c['name']} ({c['unit']})" for c in item.get("columns", [])] for item in inputs}
    return Signature(columns, {name: listed for name, listed in named.items() if listed}, **limits)
