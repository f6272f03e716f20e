"""Refuse data that would count twice: given twice, or beside what was made from them."""

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

from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.sources.points.track import Track

SAME_LOS = 0.05
"""Largest difference of the mean line of sight of two copies."""
SAME_SHARE = 0.5
"""Two tracks that share so many of the days and of the places of the smaller one are of the same data."""
SAME_PLACE_M = 1.0
"""Another release of a product, or another program, places a point within decimetres."""
SAME_PIXEL_M = 100.0
"""Farthest from a pixel in radar coordinates to the one in geographic coordinates that was made of it."""
AXIS = 0.999
"""A line of sight that is as much up or east is none of a satellite, but of a product made from several tracks."""
EGMS = re.compile(
    r"EGMS_(?:(?P<level>L2[AB])_(?P<track>\d+)_(?P<burst>\d+)_(?P<swath>IW\d)"
    r"|L3_(?P<tile>E\d+N\d+)_\d+km_(?P<component>[UE])(?![A-Z]))",
    re.IGNORECASE,
)
"""Names of downloads, with or without the years of their release."""
HDF5 = (".h5", ".he5")
GEOCODED = "X_FIRST"
"""Attribute of MintPy's files that are geocoded; without it they are in radar coordinates."""


class Given(NamedTuple):
    """A track, with its file."""

    track: Track
    file: str

    @property
    def egms(self) -> re.Match[str] | None:
        """Return what the names of file and product say, of a download of EGMS."""
        return EGMS.search(Path(self.file).name) or EGMS.search(self.track.name)


def check_distinct(tracks: Sequence[Track], names: Sequence[str]) -> None:
    """Refuse data given twice, and data beside what was made from them; warn where it is not sure.

    Two bursts of one track share their epochs, but not their points; two tracks on one raster not their epochs.

    Args:
        tracks: as read. names: of their files, for the message.

    Raises:
        InputError: two tracks are of the same data; the message names both files.
    """
    for first, second in combinations(map(Given, tracks, names), 2):
        _check_names(first, second)
        _check_components(first, second)
        if np.abs(first.track.los.mean(0) - second.track.los.mean(0)).max() < SAME_LOS:
            _check_series(first, second)


def _check_names(first: Given, second: Given) -> None:
    """Refuse two levels or releases of one EGMS product by their names: releases differ in days and in places."""
    one, other = first.egms, second.egms
    if one is None or other is None or not _meet_in_time(first.track, second.track):
        return
    part = [{key: value.upper() for key, value in own.groupdict().items() if value} for own in (one, other)]
    levels = [own.pop("level", "L3") for own in part]
    if part[0] != part[1]:
        return
    why = "two releases of the same product" if levels[0] == levels[1] else f"{levels[0]} and {levels[1]} of one track"
    if levels[0] == levels[1] and Path(first.file).stem == Path(second.file).stem:
        why = "the same product twice, as an archive and unpacked, or as two copies"
    raise InputError(
        f"{second.file}: beside {first.file}, these are {why} ({' '.join(part[0].values())}), made from the same "
        "images, and would count twice. Give one of both."
    )


def _check_components(first: Given, second: Given) -> None:
    """Refuse vertical or eastward motion beside the tracks that it was made from, or warn if it may be."""
    made = [one for one in (first, second) if _is_component(one.track)]
    if len(made) != 1 or not _meet_in_time(first.track, second.track) or not _meet(first.track, second.track):
        return
    (derived,) = made
    source = second if derived is first else first
    said = f"{derived.file}: vertical or eastward motion"
    if (derived.egms and source.egms) or _shared_days(first.track, second.track) >= SAME_SHARE:
        raise InputError(
            f"{said}, made from tracks such as {source.file}, which is given, too: the same data would count twice. "
            "Give the tracks, or what was made from them."
        )
    log.warning(
        "%s beside the track %s: if it was made from that, or from the same images, they count twice. Leave one out.",
        said,
        source.file,
    )


def _check_series(first: Given, second: Given) -> None:
    """Refuse two tracks of one line of sight with the same days at the same places."""
    one, other = first.track, second.track
    share, days = _shared_days(one, other), len(np.intersect1d(one.epochs, other.epochs))
    fewest = min(len(one), len(other))
    if share >= SAME_SHARE and (shared := _shared(one, other, SAME_PLACE_M)) >= SAME_SHARE * fewest:
        raise InputError(
            f"{second.file}: {shared} of its points lie where those of {first.file} do, seen from the same side, on "
            f"{days} days of both. These are the same data, and would count twice. Give one of both."
        )
    if share >= SAME_SHARE:
        is_geocoded = {_is_geocoded(first), _is_geocoded(second)} == {True, False}
        if not (is_geocoded or _origin(first) != _origin(second)):
            return
        if _shared(one, other, SAME_PIXEL_M) < SAME_SHARE * fewest:
            return
        if is_geocoded:
            raise InputError(
                f"{second.file}: beside {first.file}, one is in radar coordinates, the other is geocoded from it: the "
                "same data would count twice. Give one of both."
            )
        log.warning(
            "%s and %s: the same side of the same ground on %d days of both, as by two programs: if both were made "
            "from the same images, these count twice. Leave one out.",
            first.file,
            second.file,
            days,
        )
    elif (days > 1 or _meet_in_time(one, other)) and _shared(one, other, SAME_PLACE_M) >= SAME_SHARE * fewest:
        log.warning(
            "%s and %s: the same places from the same side, and %s.",
            first.file,
            second.file,
            f"{days} days are in both, which count twice"
            if days > 1
            else "other days of the same time: if one was resampled from the other, it counts twice. Leave one out",
        )


def _origin(given: Given) -> tuple[bool, ...]:
    """Return the marks of a product's program: kind of file, download of EGMS, columns of a point's quality."""
    track = given.track
    is_hdf5 = given.file.lower().endswith(HDF5)
    return is_hdf5, given.egms is not None, track.coherence is None, track.rmse is None


def _is_component(track: Track) -> bool:
    """Return whether a track moves straight up or east."""
    return bool(len(track.los) and np.abs(track.los[:, [0, 2]].mean(0)).max() > AXIS)


def _is_geocoded(given: Given) -> bool | None:
    """Return whether a file of MintPy is geocoded; None of other files."""
    if not given.file.lower().endswith(HDF5):
        return None
    with h5py.File(given.file) as file:
        return GEOCODED in file.attrs if "WIDTH" in file.attrs else None


def _shared_days(one: Track, other: Track) -> float:
    """Return the share of the days of the track with fewer that both have."""
    return len(np.intersect1d(one.epochs, other.epochs)) / max(min(len(one.epochs), len(other.epochs)), 1)


def _meet_in_time(one: Track, other: Track) -> bool:
    """Return whether both have two days or more from the begin of the later one to the end of the earlier one."""
    begin, end = max(one.epochs[0], other.epochs[0]), min(one.epochs[-1], other.epochs[-1])
    return all(((track.epochs >= begin) & (track.epochs <= end)).sum() > 1 for track in (one, other))


def _meet(one: Track, other: Track) -> bool:
    """Return whether half of the points of one lie in the extent of the other."""
    places = [_places(track) for track in (one, other)]
    inside = [
        ((own >= extent.min(0)) & (own <= extent.max(0))).all(1).mean() if len(own) and len(extent) else 0.0
        for own, extent in (places, places[::-1])
    ]
    return max(inside) >= SAME_SHARE


def _shared(one: Track, other: Track, within_m: float) -> int:
    """Count the points of the smaller product that have a point of the other at their place."""
    few, many = sorted((one, other), key=len)
    near, _ = KDTree(_places(many)).query(_places(few), distance_upper_bound=within_m)
    return int(np.isfinite(near).sum())


def _places(track: Track) -> NDArray[np.float64]:
    return np.column_stack([track.easting, track.northing])
