"""Refuse data that would count twice: two copies, or a product and what was made from it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from plumbline.core.console import warn
from plumbline.core.errors import InputError
from plumbline.sources.points.track import Track

SAME_LOS = 0.05
"""Largest difference of the mean line of sight of two copies."""
SAME_SHARE = 0.5
"""Share of the days and of the places of the smaller track from which on two tracks are of the same
data."""
SAME_PLACE_M = 1.0
"""Largest distance of a point's two positions: another release or another program is within
decimetres."""
SAME_PIXEL_M = 100.0
"""Farthest from a pixel in radar coordinates to the one in geographic coordinates that was
made of it."""
AXIS = 0.999
"""Smallest up or east part of a component made from several tracks: no satellite looks so steeply
or so level."""
EGMS = re.compile(
    r"EGMS_(?:(?P<level>L2[AB])_(?P<track>\d+)_(?P<burst>\d+)_(?P<swath>IW\d)"
    r"|L3_(?P<tile>E\d+N\d+)_\d+km_(?P<component>[UE])(?![A-Z]))",
    re.IGNORECASE,
)
"""Names of downloads, with or without the years of their release."""
HDF5 = (".h5", ".he5")
GEOCODED = "X_FIRST"
"""Attribute of MintPy's files that are geocoded; without it they are in radar coordinates."""


class TrackFile(NamedTuple):
    """Track with the name of its file."""

    track: Track
    file: str

    @property
    def egms(self) -> re.Match[str] | None:
        """Match of the file's or the product's name as a download of EGMS; None for neither."""
        return EGMS.search(Path(self.file).name) or EGMS.search(self.track.name)


def check_distinct(tracks: Sequence[Track], names: Sequence[str]) -> None:
    """Refuse data given twice, or with a product made from them; warn where it is likely.

    Two bursts of one track share their epochs, but not their points; two tracks on one
    raster not their epochs.

    Args:
        tracks: as read. names: of their files, for the message.

    Raises:
        InputError: two tracks are of the same data; the message names both files.
    """
    for first, second in combinations(map(TrackFile, tracks, names), 2):
        _check_egms_names(first, second)
        _check_components(first, second)
        if np.abs(first.track.los.mean(0) - second.track.los.mean(0)).max() < SAME_LOS:
            _check_series(first, second)


def _check_egms_names(first: TrackFile, second: TrackFile) -> None:
    """Refuse two levels or releases of one EGMS product by their names: releases differ in
    days and in places."""
    matches = first.egms, second.egms
    if not all(matches) or not _overlap_in_time(first.track, second.track):
        return
    parts = [
        {key: value.upper() for key, value in m.groupdict().items() if value} for m in matches if m
    ]
    levels = [part.pop("level", "L3") for part in parts]
    if parts[0] != parts[1]:
        return
    why = (
        "two releases of the same product"
        if levels[0] == levels[1]
        else f"{levels[0]} and {levels[1]} of one track"
    )
    if levels[0] == levels[1] and Path(first.file).stem == Path(second.file).stem:
        why = "the same product twice, as an archive and unpacked, or as two copies"
    raise InputError(
        f"{second.file}: beside {first.file}, these are {why} ({' '.join(parts[0].values())}), "
        "made from the same images, and would count twice. Give one of both.",
        key="tracks.same_product",
    )


def _check_components(first: TrackFile, second: TrackFile) -> None:
    """Refuse vertical or eastward motion beside the tracks that it was made from, or warn
    if it may be."""
    components = [file for file in (first, second) if _is_component(file.track)]
    if len(components) != 1 or not (
        _overlap_in_time(first.track, second.track) and _overlap(first.track, second.track)
    ):
        return
    (derived,) = components
    source = second if derived is first else first
    motion = f"{derived.file}: vertical or eastward motion"
    if (derived.egms and source.egms) or _shared_days(first.track, second.track) >= SAME_SHARE:
        raise InputError(
            f"{motion}, made from tracks such as {source.file}, which is given, too: the same "
            "data would count twice. Give the tracks, or what was made from them.",
            key="tracks.derived",
        )
    warn(
        "%s beside the track %s: if it was made from that, or from the same images, they count "
        "twice. Leave one out.",
        motion,
        source.file,
        key="tracks.perhaps_derived",
    )


def _check_series(first: TrackFile, second: TrackFile) -> None:
    """Refuse two tracks of one line of sight with the same days at the same places."""
    first_track, second_track = first.track, second.track
    share, days = (
        _shared_days(first_track, second_track),
        len(np.intersect1d(first_track.epochs, second_track.epochs)),
    )
    n_smaller = min(len(first_track), len(second_track))
    if (
        share >= SAME_SHARE
        and (n_shared := _count_shared(first_track, second_track, SAME_PLACE_M))
        >= SAME_SHARE * n_smaller
    ):
        raise InputError(
            f"{second.file}: {n_shared} of its points are where those of {first.file} are, seen "
            f"from the same side, on {days} days of both. These are the same data, and would "
            "count twice. Give one of both.",
            key="tracks.same_data",
        )
    if share >= SAME_SHARE:
        is_geocoded = {_is_geocoded(first), _is_geocoded(second)} == {True, False}
        if not (is_geocoded or _program_marks(first) != _program_marks(second)):
            return
        if _count_shared(first_track, second_track, SAME_PIXEL_M) < SAME_SHARE * n_smaller:
            return
        if is_geocoded:
            raise InputError(
                f"{second.file}: beside {first.file}, one is in radar coordinates, the other is "
                "geocoded from it: the same data would count twice. Give one of both.",
                key="tracks.geocoded_copy",
            )
        warn(
            "%s and %s: the same side of the same ground on %d days of both, as by two programs: "
            "if both were made from the same images, these count twice. Leave one out.",
            first.file,
            second.file,
            days,
            key="tracks.two_programs",
        )
    elif (days > 1 or _overlap_in_time(first_track, second_track)) and _count_shared(
        first_track, second_track, SAME_PLACE_M
    ) >= SAME_SHARE * n_smaller:
        warn(
            "%s and %s: the same places from the same side, and %s.",
            first.file,
            second.file,
            f"{days} days are in both, which count twice"
            if days > 1
            else "other days of the same time: if one was resampled from the other, it counts "
            "twice. Leave one out",
            key="tracks.same_places",
        )


def _program_marks(product: TrackFile) -> tuple[bool, ...]:
    """Return the marks of a product's program: kind of file, download of EGMS, columns of a
    point's quality."""
    track = product.track
    is_hdf5 = product.file.lower().endswith(HDF5)
    return is_hdf5, product.egms is not None, track.coherence is None, track.rmse is None


def _is_component(track: Track) -> bool:
    """Return whether a track moves straight up or east."""
    return bool(len(track.los) and np.abs(track.los[:, [0, 2]].mean(0)).max() > AXIS)


def _is_geocoded(product: TrackFile) -> bool | None:
    """Return whether a file of MintPy is geocoded; None of other files."""
    if not product.file.lower().endswith(HDF5):
        return None
    with h5py.File(product.file) as file:
        return GEOCODED in file.attrs if "WIDTH" in file.attrs else None


def _shared_days(first: Track, second: Track) -> float:
    """Return the number of shared days over that of the track with fewer days."""
    return len(np.intersect1d(first.epochs, second.epochs)) / max(
        min(len(first.epochs), len(second.epochs)), 1
    )


def _overlap_in_time(first: Track, second: Track) -> bool:
    """Return whether both tracks have two days or more in the time that they share."""
    begin, end = max(first.epochs[0], second.epochs[0]), min(first.epochs[-1], second.epochs[-1])
    return all(
        ((track.epochs >= begin) & (track.epochs <= end)).sum() > 1 for track in (first, second)
    )


def _overlap(first: Track, second: Track) -> bool:
    """Return whether half of the points of one track are within the extent of the other."""
    positions = [_positions(track) for track in (first, second)]
    inside = [
        ((points >= corners.min(0)) & (points <= corners.max(0))).all(1).mean()
        if len(points) and len(corners)
        else 0.0
        for points, corners in (positions, positions[::-1])
    ]
    return max(inside) >= SAME_SHARE


def _count_shared(first: Track, second: Track, within_m: float) -> int:
    """Count the points of the smaller track with a point of the larger one within a distance."""
    smaller, larger = sorted((first, second), key=len)
    distance_m, _ = KDTree(_positions(larger)).query(
        _positions(smaller), distance_upper_bound=within_m
    )
    return int(np.isfinite(distance_m).sum())


def _positions(track: Track) -> NDArray[np.float64]:
    return np.column_stack([track.easting, track.northing])
