"""Back from the features of prepared buildings to their scatterers, and forth again with some of them changed.

Fits and gradients depend on all scatterers of a building: who leaves one out, or moves one, must fit anew. What the
first fit took off is known but for each track's offset, which the second fit takes off whatever it is.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from plumbline.core.compass import Frames
from plumbline.prepare.features.build import describe_buildings
from plumbline.prepare.features.definition import DISTANCE, GEOMETRY, SLOPE, Column, names
from plumbline.prepare.features.sequences import Sequences
from plumbline.prepare.scatterers import Scatterers
from plumbline.prepare.series.course import unknown_courses

Float = NDArray[np.float64]
SAME_TRACK = float(np.cos(np.radians(1.0)))
"""Lines of sight within a degree are of one track: over a house they differ by less, between tracks by more."""


def recover(sequences: Sequences) -> Scatterers:
    """The scatterers that `sequences` describe; tracks are told apart by their lines of sight.

    Histories are not known any more; what they told is in the changes (see `separate`). `change` lacks each track's
    offset, `height` is that above the lowest scatterer before any was changed, and the velocities, of which no feature
    is made, are 0.
    """
    building = np.repeat(np.arange(len(sequences)), sequences.length)
    position = _columns(sequences.distance, DISTANCE, "x", "y", "height")
    los = _columns(sequences.slope, SLOPE, "los_x", "los_y", "los_up")
    up, error = _columns(sequences.slope, SLOPE, "differential_displacement", "differential_displacement_se").T
    tilt = _columns(sequences.geometry, GEOMETRY, "tilt_x", "tilt_y")[building]
    steep = np.maximum(los[:, 2], 0.3)
    arm = los[:, 2:] * position[:, :2] - los[:, :2] * position[:, 2:]
    unknown = np.zeros(len(building))
    return Scatterers(
        building=building,
        track=_tracks(building, los),
        xy=position[:, :2],
        height=position[:, 2],
        los=los,
        change=up * steep + (arm * tilt).sum(1),
        change_se=error * steep,
        velocity=unknown,
        velocity_se=unknown,
        common_se=unknown,
        **unknown_courses(len(building))._asdict(),
    )


def redescribe(sequences: Sequences, scatterers: Scatterers) -> Sequences:
    """The same buildings, described by other scatterers: every column is that of a building which has only these.

    Args:
        sequences: the buildings as they were.
        scatterers: of each of them one at least, sorted by building.
    """
    side = _columns(sequences.geometry, GEOMETRY, "side_x", "side_y")
    share, before, years = _columns(sequences.geometry, GEOMETRY, "rectangularity", "tracks", "years").T
    count = len(sequences)
    # Of one year, because buildings differ in it; where it counts is put right below.
    one = describe_buildings(
        scatterers, Frames(np.zeros((count, 2)), _angle(sequences), side), share * np.maximum(side, 0.5).prod(1),
        sequences.building_id, np.arange(count), 1.0, max(1, len(scatterers)), "",
    )  # fmt: skip
    rate, up = (names(SLOPE).index(name) for name in ("differential_rate", "differential_displacement"))
    one.slope[:, rate] = one.slope[:, up] / np.repeat(years, one.length)
    one.geometry[:, names(GEOMETRY).index("years")] = years
    # Two tracks on one line of sight are one here; the count of those that were lost is right all the same.
    lost = _count_tracks(recover(sequences), count) - _count_tracks(scatterers, count)
    one.geometry[:, names(GEOMETRY).index("tracks")] = before - lost
    return replace(sequences, offsets=one.offsets, distance=one.distance, slope=one.slope, geometry=one.geometry)


def _columns(values: NDArray[np.float32], columns: tuple[Column, ...], *wanted: str) -> Float:
    return np.asarray(values[:, [names(columns).index(name) for name in wanted]], dtype=float)


def _tracks(building: NDArray[np.intp], los: Float) -> NDArray[np.intp]:
    """(N,) number of each scatterer's track within its building."""
    los = los / np.linalg.norm(los, axis=1, keepdims=True)  # products round, and to three digits that is a degree
    track = np.full(len(building), -1, dtype=np.intp)
    number = 0
    while (left := np.flatnonzero(track < 0)).size:
        _, first, owner = np.unique(building[left], return_index=True, return_inverse=True)
        alike = (los[left] * los[left][first][owner]).sum(1) > SAME_TRACK
        alike[first] = True
        track[left[alike]] = number
        number += 1
    return track


def _count_tracks(scatterers: Scatterers, buildings: int) -> NDArray[np.intp]:
    """(B,) tracks that see each building."""
    pairs = np.unique(np.stack([scatterers.building, scatterers.track]), axis=1)
    return np.bincount(pairs[0], minlength=buildings)


def _angle(sequences: Sequences) -> Float:
    """(B,) rad from east to each frame's x axis, by the direction that eastward movement has in the frame.

    Where nothing moves eastwards at all there is nothing to turn, and 0 does.
    """
    x, y = _columns(sequences.slope, SLOPE, "local_east_x", "local_east_y").T
    starts = sequences.offsets[:-1]
    along, across = np.add.reduceat(x * x, starts), np.add.reduceat(x * y, starts)
    return np.asarray(np.arctan2(-across, np.where(along > 0, along, 1)))
