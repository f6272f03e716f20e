"""Keep sequences on disk, and pad them.

The network masks its padding, so its answer is the same for all of them; `docs/training.md`
explains why zeros with a mask are the default. The others are for runtimes and networks without a
mask.

Shape legend: B buildings, L places, F features.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from plumbline.core.arrays import Mask
from plumbline.core.compass import QUADRANTS
from plumbline.core.errors import InputError
from plumbline.params.plugins import PADDING
from plumbline.prepare.features.definition import DISTANCE, GEOMETRY, SLOPE

Values = NDArray[np.float32]


def zeros(values_BLF: Values, mask_BL: Mask) -> Values:
    """Return zeros."""
    return np.zeros((), dtype=values_BLF.dtype)


def mean(values_BLF: Values, mask_BL: Mask) -> Values:
    """Return the mean of the building's own scatterers, column by column."""
    total_BF = np.where(mask_BL[..., None], values_BLF, 0).sum(1, dtype=float)
    return np.asarray((total_BF / np.maximum(mask_BL.sum(1), 1)[:, None])[:, None, :])


def median(values_BLF: Values, mask_BL: Mask) -> Values:
    """Return the median of the building's own scatterers, column by column."""
    # Infinity sorts behind every value: the first places hold the building's own, in order.
    sorted_BLF = np.sort(np.where(mask_BL[..., None], values_BLF, np.inf), axis=1)
    count_B = np.maximum(mask_BL.sum(1), 1)
    low_BF, high_BF = (
        sorted_BLF[np.arange(len(count_B)), rank] for rank in ((count_B - 1) // 2, count_B // 2)
    )
    return np.asarray(((low_BF + high_BF) / 2)[:, None, :])


def last(values_BLF: Values, mask_BL: Mask) -> Values:
    """Repeat the building's last scatterer."""
    last_B = np.maximum(mask_BL.sum(1), 1) - 1
    return np.asarray(values_BLF[np.arange(len(last_B)), last_B][:, None, :])


def replicate(values_BLF: Values, mask_BL: Mask) -> Values:
    """Repeat the whole sequence from its beginning, as often as there is room."""
    place_BL = np.arange(mask_BL.shape[1]) % np.maximum(mask_BL.sum(1), 1)[:, None]
    return np.take_along_axis(values_BLF, place_BL[..., None], axis=1)


def fill(values_BLF: Values, mask_BL: Mask, strategy: str = "mask") -> Values:
    """Return a copy of `values_BLF` with the padding replaced; the building's own values
    stay unchanged.

    Args:
        values_BLF: (B, L, F); values outside of the mask are not read.
        mask_BL: (B, L), True for the first places of each row. A row without any is filled
            with zeros.
        strategy: name in `params.plugins.PADDING`.
    """
    if not values_BLF.size:
        return values_BLF.copy()
    padding = PADDING[strategy](values_BLF, mask_BL)
    has_points_B = np.asarray(mask_BL.any(1))
    padding = np.where(has_points_B[:, None, None], padding, 0)
    return np.where(mask_BL[..., None], values_BLF, padding).astype(values_BLF.dtype, copy=False)


LABELS = ("severity", "quadrant", "accepted", "mechanism", "difficulty")
"""Arrays with the labels of buildings, as far as they are known: one row for each building."""
DECIMALS = 4
"""Decimals of the columns that the stage `prepare` writes, in each column's unit. Processors differ
by 3e-14 in the mean, so that one of three billion values is rounded the other way."""
UNDEFINED = -1
"""Quadrant code below category 1, and of a building without a label."""


@dataclass(frozen=True)
class Sequences:
    """B buildings with N scatterers altogether; rows of a building run along its long axis."""

    building_id: NDArray[np.str_]
    """(B,)"""
    city: NDArray[np.str_]
    """(B,) name of the city or delivery."""
    offsets: NDArray[np.int64]
    """(B + 1,) building b owns the rows offsets[b] to offsets[b + 1]."""
    distance: NDArray[np.float32]
    """(N, len(DISTANCE)), see `definition`."""
    slope: NDArray[np.float32]
    """(N, len(SLOPE))"""
    geometry: NDArray[np.float32]
    """(B, len(GEOMETRY))"""
    severity: NDArray[np.float32]
    """(B,) permille; NaN without a label."""
    quadrant: NDArray[np.int64]
    """(B,) code in `compass.QUADRANTS`, or `UNDEFINED`."""
    accepted: NDArray[np.bool_]
    """(B, 4) quadrants that are right answers, in the order of `compass.QUADRANTS`; none
    where it is undefined."""
    mechanism: NDArray[np.int8]
    """(B,) code in `strain.MECHANISMS`; -1 without damage or without such a label."""
    difficulty: NDArray[np.int8]
    """(B,) 0 easy, 1 medium, 2 hard; -1 without such a label."""

    def __len__(self) -> int:
        return len(self.building_id)

    @property
    def length(self) -> NDArray[np.int64]:
        """(B,) number of scatterers."""
        return np.diff(self.offsets)

    def take(self, index: NDArray[np.intp]) -> Self:
        """Select the buildings `index`, in that order."""
        length = self.length[index]
        offsets = np.r_[0, np.cumsum(length)]
        rows = np.repeat(self.offsets[index] - offsets[:-1], length) + np.arange(offsets[-1])
        per_building = ("building_id", "city", "geometry", *LABELS)
        return replace(
            self,
            offsets=offsets,
            distance=self.distance[rows],
            slope=self.slope[rows],
            **{name: getattr(self, name)[index] for name in per_building},
        )

    def rounded(self) -> Self:
        """Return the same buildings with columns of `DECIMALS` decimals, alike on all
        processors."""
        columns = {name: getattr(self, name) for name in ("distance", "slope", "geometry")}
        # In 64 bits, so that only the last step rounds to 32; and no zero keeps a sign.
        return replace(
            self,
            **{
                name: (np.round(part.astype(float), DECIMALS) + 0.0).astype(np.float32)
                for name, part in columns.items()
            },
        )

    def pad(
        self, index: NDArray[np.intp], length: int | None = None, strategy: str = "mask"
    ) -> dict[str, NDArray[np.generic]]:
        """Return the network's inputs for buildings `index`, padded to `length` or to the
        longest of them.

        Args:
            index: (B,) buildings.
            length: places a sequence; as many as the longest of them has, or more.
            strategy: what fills the masked places, see `fill`.

        Returns:
            distance (B, L, C), slope (B, L, C) and geometry (B, C) float32, mask (B, L) bool.

        Raises:
            ValueError: a building has more scatterers than `length`.
        """
        n_points = self.length[index]
        longest = int(n_points.max(initial=1))
        width = longest if length is None else length
        if width < longest:
            raise ValueError(f"length: {length} found, but a building has {longest} scatterers")
        column = np.arange(width)
        mask = column < n_points[:, None]
        rows = np.where(mask, self.offsets[index][:, None] + column, 0)
        return {
            "distance": fill(self.distance[rows], mask, strategy),
            "slope": fill(self.slope[rows], mask, strategy),
            "geometry": self.geometry[index],
            "mask": mask,
        }

    def save(self, folder: Path) -> None:
        """Write one .npy file for each array; the caller makes this atomic."""
        folder.mkdir(parents=True, exist_ok=True)
        for field in fields(self):
            np.save(folder / f"{field.name}.npy", getattr(self, field.name), allow_pickle=False)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Map a saved folder into memory.

        Raises:
            InputError: a file is missing, cut, or has other columns than this version prepares.
        """
        arrays = {}
        for field in fields(cls):
            path = folder / f"{field.name}.npy"
            try:
                arrays[field.name] = _map_file(path)
            except (OSError, ValueError, EOFError) as error:
                raise InputError(
                    f"{path}: not readable ({error}). Run `plumbline prepare` again.",
                    key="shards.unreadable",
                ) from None
        for name, columns in (("distance", DISTANCE), ("slope", SLOPE), ("geometry", GEOMETRY)):
            if arrays[name].ndim != 2 or arrays[name].shape[1] != len(columns):
                raise InputError(
                    f"{folder / name}.npy: shape {arrays[name].shape} found, {len(columns)} "
                    "columns needed. Run `plumbline prepare` again.",
                    key="shards.wrong_shape",
                )
        result = cls(**arrays)
        rows = [len(result.distance), len(result.slope)]
        buildings = [len(arrays[name]) for name in ("city", "geometry", *LABELS)]
        length = result.length
        if (
            set(buildings) != {len(result)}
            or len(length) != len(result)
            or set(rows) != {int(length.sum())}
        ):
            raise InputError(
                f"{folder}: its files do not belong together. Run `plumbline prepare` again.",
                key="shards.unequal_files",
            )
        return result


def no_labels(count: int) -> dict[str, Any]:
    """Return the `LABELS` of `count` buildings without labels."""
    return {
        "severity": np.full(count, np.nan, np.float32),
        "quadrant": np.full(count, UNDEFINED, np.int64),
        "accepted": np.zeros((count, len(QUADRANTS)), bool),
        "mechanism": np.full(count, UNDEFINED, np.int8),
        "difficulty": np.full(count, UNDEFINED, np.int8),
    }


def only(quadrant: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return accepted quadrants (B, 4) from one quadrant, or UNDEFINED, of each building."""
    return np.asarray(quadrant[:, None] == np.arange(len(QUADRANTS)))


def concatenate(parts: list[Sequences]) -> Sequences:
    """Concatenate all buildings of `parts`, in order."""
    ends = np.cumsum([0, *(part.offsets[-1] for part in parts)])
    offsets = np.concatenate(
        [[0], *(part.offsets[1:] + end for part, end in zip(parts, ends[:-1], strict=True))]
    )
    merged = {
        f.name: np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(Sequences)
    }
    return Sequences(**{**merged, "offsets": offsets.astype(np.int64)})


def _map_file(path: Path) -> Any:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        if "empty" not in str(error):
            raise
        return np.load(path, allow_pickle=False)  # an array without a value cannot be mapped
