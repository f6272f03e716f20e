"""Describe a window of a grid to the network: its observations, and a Gaussian process
fitted to them.

All inputs are relative to the Gaussian process. The network restores the difference from its mean,
in units of its standard deviation, so that a field ten times as large is the same problem.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from plumbline.core.arrays import Float
from plumbline.core.errors import InputError
from plumbline.core.files import read_json
from plumbline.fields.prepare.covariance import Covariance
from plumbline.fields.prepare.gaussian_process import ProcessEstimate
from plumbline.fields.prepare.grid import Binned

MAPS = (
    *("mean_up", "mean_east", "deviation_up", "deviation_east"),
    *(
        f"{name}_{side}"
        for side in ("west", "east")
        for name in ("change", "error", "count", "los_east", "los_up")
    ),
)
"""Raw maps of a window, in this order; mm, but for counts and lines of sight."""
CHANNELS = (
    *(
        "residual_west",
        "precision_west",
        "count_west",
        "los_east_west",
        "near_residual_west",
        "near_precision_west",
    ),
    *(
        "residual_east",
        "precision_east",
        "count_east",
        "los_east_east",
        "near_residual_east",
        "near_precision_east",
    ),
    *(
        "shape_up",
        "shape_east",
        "deviation_up",
        "deviation_east",
        "contrast_up",
        "contrast_east",
        "distance",
    ),
)
"""Inputs of the network for each cell; no unit."""
NEAR_CELLS = 2.0
"""Standard deviation of the Gaussian window around a cell in which residuals are averaged."""
MIRRORS = 4
"""Symmetries that leave the viewing geometry what it is: north-south, east-west, both, none."""
_EAST = [MAPS.index(name) for name in ("mean_east", "los_east_west", "los_east_east")]
_SWAPPED = [
    *range(4),
    *(
        MAPS.index(f"{name}_{side}")
        for side in ("east", "west")
        for name in ("change", "error", "count", "los_east", "los_up")
    ),
]
"""Indices of the maps after an east-west mirror, which exchanges the western and eastern sides."""
LARGEST = 4.0
FAR_CELLS = 10.0


class Conditions(NamedTuple):
    """Inputs of the network for a window."""

    channels: NDArray[np.float32]
    """(C, rows, columns) `CHANNELS`."""
    mean: NDArray[np.float32]
    """(2, rows, columns) up and east by the Gaussian process, mm."""
    scale: NDArray[np.float32]
    """(2,) mm: the field is `mean + scale * r`, and `r` is what the network restores."""


def stack_maps(estimate: ProcessEstimate, binned: Binned) -> NDArray[np.float32]:
    """Stack an estimate and the observations to maps (len(MAPS), rows, columns); empty
    cells hold 0."""
    sides = [
        np.nan_to_num(part[side])
        for side in (0, 1)
        for part in (binned.change, binned.error, binned.count, binned.los_east, binned.los_up)
    ]
    return np.stack([*estimate.mean, *estimate.deviation, *sides]).astype(np.float32)


def mirrored(maps: NDArray[np.float32], mirror: int) -> NDArray[np.float32]:
    """Mirror raw maps north-south (1), east-west (2), both (3) or not (0)."""
    if mirror & 1:
        maps = maps[:, ::-1]
    if mirror & 2:
        maps = maps[_SWAPPED][:, :, ::-1].copy()
        maps[_EAST] *= -1
    return maps


def mirrored_field(field: NDArray[np.float32], mirror: int) -> NDArray[np.float32]:
    """Mirror up and east (..., 2, rows, columns) as `mirrored` mirrors maps; applied twice,
    it changes nothing."""
    if mirror & 1:
        field = field[..., ::-1, :]
    if mirror & 2:
        field = field[..., ::-1] * np.array([1, -1], field.dtype)[:, None, None]
    return field


def describe(maps: Float) -> Conditions:
    """Return the conditions of a window from its raw maps (len(MAPS), rows, columns)."""
    named = dict(zip(MAPS, np.asarray(maps, np.float32), strict=True))
    mean = np.stack([named["mean_up"], named["mean_east"]])
    deviation = np.stack([named["deviation_up"], named["deviation_east"]])
    has_points = (named["count_west"] + named["count_east"]) > 0
    distance_cells = (
        ndimage.distance_transform_edt(~has_points)
        if has_points.any()
        else np.full(has_points.shape, FAR_CELLS)
    )
    # The scale is that of cells near points: over water, the deviation is the prior's.
    is_near = distance_cells < FAR_CELLS if has_points.any() else np.ones_like(has_points)
    scale = np.sqrt((deviation[:, is_near] ** 2).mean(axis=1)).clip(0.02, None)
    channels: list[Float] = []
    for side in ("west", "east"):
        channels += _side_channels(named, side, scale)
    level = mean[:, is_near].mean(axis=1)[:, None, None]
    amplitude = (
        np.sqrt(((mean - level)[:, is_near] ** 2).mean(axis=1))[:, None, None]
        + scale[:, None, None]
    )
    channels += list((mean - level) / amplitude)
    channels += list(np.log(deviation / scale[:, None, None]).clip(-LARGEST, LARGEST))
    contrast = np.log(amplitude / scale[:, None, None])
    channels += [np.broadcast_to(part, mean.shape[1:]) for part in contrast]
    channels.append(np.log1p(np.minimum(distance_cells, FAR_CELLS)))
    return Conditions(np.stack(channels).astype(np.float32), mean, scale.astype(np.float32))


def _side_channels(named: dict[str, Float], side: str, scale: Float) -> list[Float]:
    """Return the six channels of the scatterers that are seen from one side."""
    count, up, east = (named[f"{name}_{side}"] for name in ("count", "los_up", "los_east"))
    has_points = count > 0
    unit = np.where(has_points, np.hypot(up * scale[0], east * scale[1]), 1.0)
    error = np.where(has_points, named[f"error_{side}"], 1.0)
    residual_mm = named[f"change_{side}"] - up * named["mean_up"] - east * named["mean_east"]
    residual, precision = (
        np.where(has_points, residual_mm / unit, 0),
        np.where(has_points, (unit / error) ** 2, 0),
    )
    total = ndimage.gaussian_filter(precision, NEAR_CELLS, mode="constant")
    near = ndimage.gaussian_filter(precision * residual, NEAR_CELLS, mode="constant") / (
        total + 0.02
    )
    return [
        np.arcsinh(residual),
        np.log1p(precision) / 2,
        np.log1p(count),
        np.where(has_points, east, 0),
        np.arcsinh(near),
        np.log1p(8 * np.pi * total) / 2,
    ]


SPLITS = ("train", "tune", "calibrate", "test")
MAPS_FILE, TRUTH_FILE, SCENES_FILE = "maps.npy", "truth.npy", "scenes.json"


@dataclass(frozen=True)
class SceneSet:
    """S scenes of one size; the arrays stay on disk until a scene is asked for."""

    maps: NDArray[np.float32]
    """(S, len(MAPS), rows, columns) see `conditions.MAPS`."""
    truth: NDArray[np.float32]
    """(S, 2, rows, columns) up and east, mm."""
    about: list[dict[str, Any]]
    """Record of each: `name`, `domain`, `level`, `tracks`, `density`, `covariance`."""

    def __len__(self) -> int:
        return len(self.about)

    def covariance(self, number: int) -> Covariance:
        """Return the covariance of a scene's Gaussian process."""
        return Covariance(**self.about[number]["covariance"])

    def take(self, index: Sequence[int]) -> SceneSet:
        """Read the scenes `index`, in that order, into memory."""
        rows = list(index)
        return SceneSet(
            np.asarray(self.maps[rows]), np.asarray(self.truth[rows]), [self.about[i] for i in rows]
        )

    def of_domain(self, domain: str) -> SceneSet:
        """Return the scenes of one domain."""
        return self.take([i for i, about in enumerate(self.about) if about["domain"] == domain])


def load_scenes(folder: Path) -> SceneSet:
    """Load the scenes of a split's folder.

    Raises:
        InputError: it is missing or damaged.
    """
    try:
        maps, truth = (np.load(folder / name, mmap_mode="r") for name in (MAPS_FILE, TRUTH_FILE))
    except (OSError, ValueError, EOFError) as error:
        raise InputError(
            f"{folder}: not readable as scenes ({error}). Run `plumbline prepare` again.",
            key="scenes.unreadable",
        ) from None
    about = read_json(folder / SCENES_FILE)
    if not len(maps) == len(truth) == len(about):
        raise InputError(
            f"{folder}: {len(maps)} maps, {len(truth)} truths and {len(about)} scenes found. Run "
            "`plumbline prepare` again.",
            key="scenes.unequal_counts",
        )
    return SceneSet(maps, truth, about)
