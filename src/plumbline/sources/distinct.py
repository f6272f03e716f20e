"""The same points must not count twice: a copy of a file would make every building look better observed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from plumbline import params
from plumbline.console import log
from plumbline.errors import InputError
from plumbline.sources.formats import describe
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


def warn_of_shared_names(points: Sequence[Path], products: Mapping[str, params.Product]) -> None:
    """Say so where one line of sight is stated for files of one name: exports of two tracks often have one name."""
    for name in sorted({path.name for path in points}):
        alike = [path for path in points if path.name == name]
        said = [describe(path, products) for path in alike]
        if len(alike) > 1 and said[0].incidence_deg is not None and all(one is said[0] for one in said):
            log.warning(
                "%s: the same line of sight is taken for all of them, as one pattern of ingest.products fits them. "
                "Where they are of several tracks, write a pattern for each, with its folder: '%s'.",
                ", ".join(map(str, alike)), "/".join(alike[0].absolute().parts[-2:]),
            )  # fmt: skip
