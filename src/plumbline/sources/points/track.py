"""Define the points of one satellite track, which every reader returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

PIECE = 4096
"""Number of series that are read in one step."""
NO_HEIGHT, NO_SIGHT = "no_height", "no_line_of_sight"
"""Reasons to leave a point out: its height, or its line of sight, is not known."""


@dataclass(frozen=True)
class Track:
    """N points of one satellite track with their T epochs.

    Every track has its own reference in space and time: displacements of two tracks differ
    by an unknown offset.
    """

    name: str
    """Name of the product, from its file."""
    crs: str
    """Projected CRS of easting and northing, for example `EPSG:3035`."""
    epochs: NDArray[np.datetime64]
    """(T,) dates, ascending."""
    point_id: NDArray[np.object_]
    """(N,) the product's own identifiers, as strings."""
    easting: NDArray[np.float64]
    """(N,) m."""
    northing: NDArray[np.float64]
    """(N,) m."""
    height: NDArray[np.float64]
    """(N,) m; only differences mean anything."""
    los: NDArray[np.float64]
    """(N, 3) unit vector from ground to satellite: east, north, up."""
    displacement: NDArray[np.float32]
    """(N, T) mm, positive towards the satellite; NaN where missing. It may be on disk: see
    `core.on_disk`."""
    coherence: NDArray[np.float32] | None = None
    """(N,) temporal coherence, 0 to 1, where the product gives one. Used while reading; not
    part of the table."""
    rmse: NDArray[np.float32] | None = None
    """(N,) mm, root mean square residual of the product's fit to the series, where it gives one. As
    `coherence`."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Points left out by the reader, by reason. Not part of the table."""

    def __len__(self) -> int:
        return len(self.point_id)

    def series(self) -> Iterator[NDArray[np.float32]]:
        """Yield the displacements of a few thousand points at a time."""
        yield from (
            self.displacement[start : start + PIECE] for start in range(0, len(self), PIECE)
        )

    def take(self, rows: NDArray[np.bool_] | NDArray[np.intp]) -> Track:
        """Select the points `rows`, an index or a mask (N,), in that order."""
        selected = {
            name: values[rows] for name in PER_POINT if (values := getattr(self, name)) is not None
        }
        return replace(self, **selected)

    def at_epochs(self, epochs: NDArray[np.bool_]) -> Track:
        """Select the epochs where the mask (T,) is true."""
        return replace(self, epochs=self.epochs[epochs], displacement=self.displacement[:, epochs])

    def keep(self, rows: NDArray[np.bool_], reason: str) -> Track:
        """Keep the points where `rows` (N,) is true; count the others as dropped for `reason`."""
        bad = len(rows) - int(np.count_nonzero(rows))
        selected = self.take(rows) if bad else self  # series are not copied for nothing
        return replace(
            selected, dropped={**self.dropped, reason: self.dropped.get(reason, 0) + bad}
        )


PER_POINT = (
    "point_id",
    "easting",
    "northing",
    "height",
    "los",
    "displacement",
    "coherence",
    "rmse",
)


def concatenate_tracks(parts: Sequence[Track]) -> Track:
    """Concatenate all points of `parts`, blocks of one track, in order; counts of dropped
    points add up.

    Raises:
        ValueError: there is no part, or they are not of one track.
    """
    first = parts[0]
    for part in parts[1:]:
        if (part.name, part.crs) != (first.name, first.crs) or not np.array_equal(
            part.epochs, first.epochs
        ):
            raise ValueError(f"blocks of {first.name} and {part.name} cannot be one track")
    arrays = {name: [getattr(part, name) for part in parts] for name in PER_POINT}
    dropped: dict[str, int] = {}
    for part in parts:
        for reason, count in part.dropped.items():
            dropped[reason] = dropped.get(reason, 0) + count
    merged: dict[str, Any] = {
        name: np.concatenate(values) if all(v is not None for v in values) else None
        for name, values in arrays.items()
    }
    return replace(first, **merged, dropped=dropped)


def drop_without_height(track: Track) -> Track:
    """Drop the points of unknown height, counted as `NO_HEIGHT`."""
    unknown = np.isnan(track.height)
    return track.keep(~unknown, NO_HEIGHT) if unknown.any() else track


def drop_repeated(track: Track) -> Track:
    """Keep the first of points with the same identifier and place; count the others as
    `duplicate_id`."""
    if not repeats(identity(track.point_id)).any():  # as nearly always
        return track
    repeated = repeats(place_identity(track))
    return track.keep(~repeated, "duplicate_id") if repeated.any() else track


def point_name(row: int) -> str:
    """Return the name of the point in row `row`, from 1, of a product without identifiers."""
    return f"P{row:07d}"


def numbered(first: int, count: int) -> NDArray[np.object_]:
    """Return the names (count,) of the points from row `first` on."""
    return np.array([point_name(row) for row in range(first, first + count)], object)


def identity(point_id: NDArray[np.object_]) -> NDArray[np.uint64]:
    """Return a 64-bit hash (N,) of each identifier, to compare those of millions of points
    in little memory."""
    return np.asarray(pd.util.hash_array(point_id, categorize=False), np.uint64)


def place_identity(track: Track) -> NDArray[np.uint64]:
    """Return a 64-bit hash (N,) of each identifier together with its place."""
    places = (pd.util.hash_array(np.round(values, 2)) for values in (track.easting, track.northing))
    hashes = identity(track.point_id)
    for place in places:  # a product of odd numbers keeps the order of the parts apart
        hashes = hashes * np.uint64(1_000_003) ^ np.asarray(place, np.uint64)
    return hashes


def repeats(values: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return (N,) whether an equal value comes earlier."""
    return np.asarray(pd.Series(values).duplicated())


def los_from_heading(incidence_deg: ArrayLike, heading_deg: ArrayLike) -> NDArray[np.float64]:
    """Return unit vectors (…, 3) of a satellite that looks to the right.

    Args:
        incidence_deg: angle t between the vertical and the line of sight, at the ground.
        heading_deg: direction of flight a, clockwise from north: `[-sin t cos a, sin t sin
            a, cos t]`.
    """
    t, a = np.radians(incidence_deg), np.radians(heading_deg)
    return np.stack(
        np.broadcast_arrays(-np.sin(t) * np.cos(a), np.sin(t) * np.sin(a), np.cos(t)), axis=-1
    )


def los_from_azimuth(incidence_deg: ArrayLike, azimuth_deg: ArrayLike) -> NDArray[np.float64]:
    """Return unit vectors (…, 3) by MintPy's angles, for any viewing direction.

    Args:
        incidence_deg: as in `los_from_heading`.
        azimuth_deg: direction b of the vector from ground to satellite, anti-clockwise from
            north: `[-sin t sin b, sin t cos b, cos t]` (MintPy,
            utils0.get_unit_vector4component_of_interest, enu2los).
    """
    t, b = np.radians(incidence_deg), np.radians(azimuth_deg)
    return np.stack(
        np.broadcast_arrays(-np.sin(t) * np.sin(b), np.sin(t) * np.cos(b), np.cos(t)), axis=-1
    )
