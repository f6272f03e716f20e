"""Check the splits, and measure their statistics.

The data are read part by part, so that their number does not matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from plumbline.core.compass import QUADRANTS
from plumbline.core.console import warn
from plumbline.core.errors import InputError
from plumbline.core.strain import INTERVAL_SHARE
from plumbline.model.diagnosis import SEVERITY_FLOOR, YEARS, Diagnosis
from plumbline.model.spec import NetworkSpec
from plumbline.prepare.features.definition import GEOMETRY, names
from plumbline.prepare.features.sequences import UNDEFINED, Sequences
from plumbline.prepare.features.shards import SequenceSet, Shards, load_shards

LEAST_BUILDINGS = 9
"""To calibrate on: with fewer no rank is as far up as `INTERVAL_SHARE` of them and the
next, so the largest error holds less."""
WHY = f" for an interval that holds {INTERVAL_SHARE:.0%}"
AGAIN = (
    "Run `plumbline prepare` again; if that does not help, leave the building out of its labels."
)


class Splits(NamedTuple):
    """Splits for training; `test` is for `validate` alone."""

    train: Shards
    tune: Shards
    calibrate: Shards


def load_splits(prepared: Path) -> Splits:
    """Map the splits of the stage `prepare` into memory, and check them.

    Raises:
        InputError: one is missing, damaged or without a building, or a building has no
            scatterer, or a feature or label that is no number.
    """
    splits = Splits(*(load_shards(prepared / name) for name in Splits._fields))
    for name, split in zip(Splits._fields, splits, strict=True):
        check_split(
            split, prepared / name, *((LEAST_BUILDINGS, WHY) if name == "calibrate" else ())
        )
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
            f"{folder}: {len(split) or 'no'} building{'s' * (len(split) > 1)} in it, {least} "
            f"needed{why}. Give more "
            f"labelled buildings, a larger prepare.split.{folder.name}, or smaller blocks "
            "(prepare.block_m).",
            key="split.too_small",
        )
    for part in split.parts:
        _refuse(part.length < 1, part, folder, "no scatterer", "split.no_scatterer")
        for name in ("distance", "slope"):
            sum_B = np.add.reduceat(getattr(part, name).sum(1, dtype=float), part.offsets[:-1])
            _refuse(
                ~np.isfinite(sum_B),
                part,
                folder,
                f"{name}: a value that is no number",
                "split.not_a_number",
            )
        is_wrong_B = np.logical_not(np.isfinite(part.geometry).all(1))
        _refuse(
            is_wrong_B, part, folder, "geometry: a value that is no number", "split.not_a_number"
        )
        is_severity_B = np.isfinite(part.severity) & (part.severity >= 0)
        _refuse(~is_severity_B, part, folder, "severity: no permille", "split.bad_severity")
        is_code_B = np.isin(part.quadrant, (UNDEFINED, *range(len(QUADRANTS))))
        _refuse(~is_code_B, part, folder, "quadrant: no code of one", "split.bad_quadrant")


def _refuse(
    wrong_B: NDArray[np.bool_], part: Sequences, folder: Path, reason: str, key: str
) -> None:
    """Raise an InputError that names the first building that is wrong, if any is."""
    if (index := np.flatnonzero(wrong_B)).size:
        name = f"{part.building_id[index[0]]} of {part.city[index[0]]}"
        raise InputError(
            f"{folder}: building {name}: {reason} found, which cannot be trained on. {AGAIN}",
            key=key,
        )


def check_lengths(
    splits: Splits, prepared: Path, spec: NetworkSpec, trained: Path | None = None
) -> None:
    """Refuse buildings that are too long for the network, and warn if all are too long for
    its attention.

    Args:
        splits: of the folder `prepared`, which is for messages.
        prepared: see `splits`.
        spec: of the network, whose `max_length` is `prepare.max_points` as it stood when it
            was made.
        trained: folder that the network was read from; without one it was made by the
            params as they are now.

    Raises:
        InputError: the data were prepared with another `prepare.max_points`.
    """
    when, cure = "found", "Run `plumbline prepare` again, or give the value it had then."
    if trained is not None:
        when, cure = (
            f"was what {trained} was trained with",
            "Run `plumbline train` again, or prepare as it was then.",
        )
    for name, split in splits._asdict().items():
        if (longest := int(split.length.max())) > spec.max_length:
            raise InputError(
                f"prepare.max_points: {spec.max_length} {when}, but {prepared / name} has "
                f"buildings of up to {longest} "
                f"scatterers: it was prepared with more. {cure}",
                key="max_points.too_small",
            )
    shortest = int(splits.train.length.min())
    if spec.attention_layers and spec.max_attention_length < shortest:
        warn(
            "model.max_attention_length: %d found, and the shortest building of %s has %d "
            "scatterers: attention is "
            "neither trained nor used. Raise it, or set model.attention_layers to 0.",
            spec.max_attention_length,
            prepared / "train",
            shortest,
            key="attention.unused",
        )


SHRINKAGE = 0.1
"""Addition to the covariance's diagonal: else nearly constant columns would rule the distances."""
FARTHEST = 1.1
"""Limit of the distance, over the 99.9 % quantile of the training buildings."""
REACH = 1.25
"""Limit of a deviation from the middle of the training range, over half of that range."""
UNBOUNDED = ("years", "tracks", "rectangularity")
"""Columns without a bound. Length of the series and number of orbits do not make a building
strange; nor do wings and courts: on held-out cities, shapes less like a rectangle than any in
training were judged as well as others (decision 36). A time that is shorter than in training does:
`least_years`."""
STANDARDISATION = tuple(
    f"{name}_{part}"
    for name in ("distance", "slope", "geometry", "severity")
    for part in ("mean", "sd")
)
"""Buffers that weights were trained with, and mean nothing without."""
VALUES_AT_A_TIME = 1 << 16
"""Number of rows that are read at a time."""
SAMPLE = 1_000_000
"""Largest number of distances for the quantile; of more, every second, third, ... counts."""


class Scatter:
    """Count, mean, scatter and range of columns, from chunks of their rows (Chan, Golub and
    LeVeque 1983)."""

    def __init__(self, columns: int) -> None:
        self.count = 0
        self.mean = np.zeros(columns)
        self.scatter = np.zeros((columns, columns))
        self.lowest, self.highest = np.full(columns, np.inf), np.full(columns, -np.inf)

    def add(self, values: NDArray[np.float64]) -> None:
        """Add rows (n, columns), at least one."""
        mean, count = values.mean(0), len(values)
        apart, centred = mean - self.mean, values - mean
        total = self.count + count
        self.scatter += centred.T @ centred + np.outer(apart, apart) * (self.count * count / total)
        self.mean += apart * (count / total)
        self.count = total
        self.lowest = np.minimum(self.lowest, values.min(0))
        self.highest = np.maximum(self.highest, values.max(0))

    @property
    def sd(self) -> NDArray[np.float64]:
        """Return (columns,) standard deviation of the rows."""
        return np.asarray(np.sqrt(np.diag(self.scatter) / self.count))


def fit_statistics(model: Diagnosis, train: SequenceSet, standardisation: bool = True) -> None:
    """Set the model's standardisation and novelty buffers from the training split alone.

    Without `standardisation`, that of the present weights stays.
    """
    former = (
        {}
        if standardisation
        else {name: model.get_buffer(name).clone() for name in STANDARDISATION}
    )
    parts = (train,) if isinstance(train, Sequences) else train.parts
    for name in ("distance", "slope", "geometry"):
        moments = Scatter(len(model.get_buffer(f"{name}_mean")))
        for values in _chunks(parts, name):
            moments.add(values)
        # A constant column is only centred: dividing by nothing would turn the first other
        # value into infinity.
        _set(model, f"{name}_mean", moments.mean)
        _set(model, f"{name}_sd", np.where(moments.sd > 1e-6, moments.sd, 1.0))
    _bound(model, moments.lowest, moments.highest)  # the last is geometry

    severity = Scatter(1)
    for values in _chunks(parts, "severity"):
        severity.add(np.log(values + SEVERITY_FLOOR))
    # An exponential reaches far: a strain that no training building had is nothing the model
    # can know of.
    _set(model, "severity_limit", max(float(part.severity.max()) for part in parts if len(part)))
    _set(model, "severity_mean", severity.mean[0])
    _set(model, "severity_sd", max(severity.sd[0], 1e-3))

    for name, value in former.items():
        model.get_buffer(name).copy_(value)
    # Covariance and distances are of standardised geometry: two more passes, over the
    # buildings only.
    spread = Scatter(len(GEOMETRY))
    for values in _chunks(parts, "geometry"):
        spread.add(
            model.standardise("geometry", torch.from_numpy(values).float()).numpy().astype(float)
        )
    covariance = spread.scatter / max(spread.count - 1, 1) + SHRINKAGE * np.eye(len(GEOMETRY))
    whitening = np.linalg.inv(np.linalg.cholesky(covariance)).T
    whitening[_unbounded()] = 0
    _set(model, "novelty_whitening", whitening)
    _set(
        model,
        "novelty_limit",
        FARTHEST * float(np.quantile(_distances(model, parts, spread.count), 0.999)),
    )


def _bound(model: Diagnosis, lowest: NDArray[np.float64], highest: NDArray[np.float64]) -> None:
    """Set the limit for each geometry column: its distance from the middle of its range."""
    reach = np.maximum(REACH * (highest - lowest) / 2, 1e-3)
    reach[_unbounded()] = np.inf
    _set(model, "least_years", lowest[YEARS] / REACH)
    _set(model, "geometry_middle", (lowest + highest) / 2)
    _set(model, "geometry_reach", reach)


def _unbounded() -> list[int]:
    return [names(GEOMETRY).index(name) for name in UNBOUNDED]


def _distances(model: Diagnosis, parts: Sequence[Sequences], count: int) -> NDArray[np.float32]:
    """Return novelty distances of all buildings, or of every n-th if there are more than
    `SAMPLE`."""
    step = -(-count // SAMPLE)
    distances, start = [], 0
    for values in _chunks(parts, "geometry"):
        sample = values[-start % step :: step]
        distances.append(model.novelty_distance(torch.from_numpy(sample).float()).numpy())
        start += len(values)
    return np.concatenate(distances)


def _chunks(parts: Sequence[Sequences], name: str) -> Iterator[NDArray[np.float64]]:
    """Yield rows of one array of all parts, (n, columns), in memory."""
    for part in parts:
        values = getattr(part, name)
        for start in range(0, len(values), VALUES_AT_A_TIME):
            chunk = np.array(values[start : start + VALUES_AT_A_TIME], dtype=float)
            yield chunk.reshape(len(chunk), -1)


def _set(model: Diagnosis, name: str, value: NDArray[np.float64] | np.float64 | float) -> None:
    model.get_buffer(name).copy_(torch.from_numpy(np.asarray(value, dtype=float)))
