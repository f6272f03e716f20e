"""Check products against each other: points given twice, heights with different zeros."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.spatial import KDTree

from plumbline import params
from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.sources.files.file_type import product_params
from plumbline.sources.track import Track

SAME_LOS = 0.05
"""Largest difference of the mean line of sight of two copies."""
SAME_SHARE = 0.5
"""Two tracks that share so many of the days and of the places of the smaller one are of the same data."""
SAME_PLACE_M = 1.0
"""Another release of a product, or another program, places a point within decimetres."""


def check_distinct(tracks: Sequence[Track], names: Sequence[str]) -> None:
    """Refuse data given twice: as a copy, a part, or another release of a product, or by another program.

    Two bursts of one track share their epochs, but not their points; two tracks on one raster not their epochs.

    Args:
        tracks: as read. names: of their files, for the message.

    Raises:
        InputError: two tracks are the same; the message names both files.
    """
    for second in range(len(tracks)):
        for first in range(second):
            looks_alike = np.abs(tracks[first].los.mean(0) - tracks[second].los.mean(0)).max() < SAME_LOS
            days = len(np.intersect1d(tracks[first].epochs, tracks[second].epochs))
            if not looks_alike or days < SAME_SHARE * min(len(tracks[first].epochs), len(tracks[second].epochs)):
                continue
            shared = _shared(tracks[first], tracks[second])
            if shared >= SAME_SHARE * min(len(tracks[first]), len(tracks[second])):
                raise InputError(
                    f"{names[second]}: {shared} of its points lie where those of {names[first]} do, seen from the same "
                    f"side, on {days} days of both. These are the same data, and would count twice. Give one of both."
                )


def _shared(one: Track, other: Track) -> int:
    """Count the points of the smaller product that have a point of the other at their place."""
    few, many = sorted((one, other), key=len)
    near, _ = KDTree(_places(many)).query(_places(few), distance_upper_bound=SAME_PLACE_M)
    return int(np.isfinite(near).sum())


def _places(track: Track) -> NDArray[np.float64]:
    return np.column_stack([track.easting, track.northing])


def warn_of_shared_names(points: Sequence[Path], products: Mapping[str, params.Product]) -> None:
    """Warn if one line of sight is stated for several files of the same name: they may be exports of two tracks."""
    for name in sorted({path.name for path in points}):
        alike = [path for path in points if path.name == name]
        said = [product_params(path, products) for path in alike]
        if len(alike) > 1 and said[0].incidence_deg is not None and all(one is said[0] for one in said):
            log.warning(
                "%s: the same line of sight is taken for all of them, as one pattern of ingest.products fits them. "
                "Where they are of several tracks, write a pattern for each, with its folder: '%s'.",
                ", ".join(map(str, alike)),
                "/".join(alike[0].absolute().parts[-2:]),
            )


CELL_M = 50.0
"""Side of the squares in which heights are compared: ground and roofs of the same few buildings."""
FEWEST_IN_SQUARE = 3
"""Of a track in a square; fewer may all be on one roof."""
FEWEST_CELLS = 10
LEAST_RAISED_M = 5.0
"""Tracks of one producer differ by 0.1 m; the geoid is 15 to 65 m from the ellipsoid in Europe."""


def height_difference_m(one: Track, other: Track) -> float | None:
    """Return by how much heights of `one` exceed those of `other` where both have points, m; None for too few.

    The median over squares of the difference of the medians.
    """
    levels = [_levels(track) for track in (one, other)]
    both = levels[0].index.intersection(levels[1].index)
    if len(both) < FEWEST_CELLS:
        return None
    return float((levels[0][both] - levels[1][both]).median())


def warn_of_datum(tracks: Sequence[Track], names: Sequence[str], products: Mapping[str, params.Product] = {}) -> None:
    """Warn of tracks with another zero of heights than the first track.

    Differences of height within a building matter: a point that is 40 m too high is one of no such building.

    Args:
        tracks: as read. names: of their files.
        products: what is stated of them already (`ingest.products`), which has raised their heights.
    """
    for track, name in zip(tracks[1:], names[1:], strict=True):
        more_m = height_difference_m(track, tracks[0])
        if more_m is not None and abs(more_m) >= LEAST_RAISED_M:
            stated_m = product_params(Path(name), products).raised_m
            instead = "" if stated_m is None else f", and not {stated_m:g},"
            log.warning(
                "%s: its heights are %.1f m %s than those of %s where both have points. Does one count them from the "
                "ellipsoid, the other from the sea? Tilts are told apart by differences of height: state raised_m: "
                "%.1f%s in what ingest.products says of it (docs/formats.md).",
                name,
                abs(more_m),
                "larger" if more_m > 0 else "smaller",
                names[0],
                (stated_m or 0.0) - more_m,
                instead,
            )


def _levels(track: Track) -> pd.Series:
    """Return the median height in each square with enough points."""
    square = np.floor(track.easting / CELL_M), np.floor(track.northing / CELL_M)
    by_square = pd.Series(track.height).groupby([*square])
    return by_square.median()[by_square.size() >= FEWEST_IN_SQUARE]
