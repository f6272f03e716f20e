"""The same points must not count twice: a copy of a file would make every building look better observed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from plumbline.errors import InputError
from plumbline.sources.track import Track

SAME_LOS = 0.05
"""Largest difference of the mean line of sight of two copies."""
SAME_SHARE = 0.5
"""Two tracks with the same epochs that share so many of the smaller one's points, by name and place, are one."""


def check_distinct(tracks: Sequence[Track], names: Sequence[str]) -> None:
    """Refuse a product that is given twice, as a copy or as a part of another.

    Two bursts of one track share their epochs, but not their points.

    Args:
        tracks: as read. names: of their files, for the message.

    Raises:
        InputError: two tracks are the same; the message names both files.
    """
    for second in range(len(tracks)):
        for first in range(second):
            looks_alike = np.abs(tracks[first].los.mean(0) - tracks[second].los.mean(0)).max() < SAME_LOS
            if not (looks_alike and np.array_equal(tracks[first].epochs, tracks[second].epochs)):
                continue
            named = np.isin(tracks[first].point_id, tracks[second].point_id)
            shared = (named & np.isin(_position(tracks[first]), _position(tracks[second]))).sum()
            if shared >= SAME_SHARE * min(len(tracks[first]), len(tracks[second])):
                raise InputError(
                    f"{names[second]}: {shared} of its points are those of {names[first]}, with the same epochs. "
                    "Give each product once."
                )


def _position(track: Track) -> NDArray[np.complex128]:
    return np.asarray(track.easting + 1j * track.northing)
