"""Whether two tracks count heights from different zeros: one from the ellipsoid, another from the sea."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from plumbline import params
from plumbline.core.console import log
from plumbline.sources.files.patterns import describe
from plumbline.sources.track import Track

CELL_M = 50.0
"""Side of the squares in which heights are compared: ground and roofs of the same few buildings."""
FEWEST_POINTS = 3
"""Of a track in a square; fewer may all be on one roof."""
FEWEST_CELLS = 10
LEAST_M = 5.0
"""Tracks of one producer differ by 0.1 m; the geoid is 15 to 65 m from the ellipsoid in Europe."""


def height_difference_m(one: Track, other: Track) -> float | None:
    """By how much the heights of `one` exceed those of `other` where both have points, m; None where too little says.

    The median over squares of the difference of the medians.
    """
    levels = [_levels(track) for track in (one, other)]
    both = levels[0].index.intersection(levels[1].index)
    if len(both) < FEWEST_CELLS:
        return None
    return float((levels[0][both] - levels[1][both]).median())


def warn_of_datum(tracks: Sequence[Track], names: Sequence[str], products: Mapping[str, params.Product] = {}) -> None:
    """Warn of tracks whose heights count from elsewhere than the first one's.

    Differences of height within a building matter: a point that is 40 m too high is one of no such building.

    Args:
        tracks: as read. names: of their files.
        products: what is stated of them already (`ingest.products`), which has raised their heights.
    """
    for track, name in zip(tracks[1:], names[1:], strict=True):
        more_m = height_difference_m(track, tracks[0])
        if more_m is not None and abs(more_m) >= LEAST_M:
            stated_m = describe(Path(name), products).raised_m
            instead = "" if stated_m is None else f", and not {stated_m:g},"
            log.warning(
                "%s: its heights are %.1f m %s than those of %s where both have points. Does one count them from the "
                "ellipsoid, the other from the sea? Tilts are told apart by differences of height: state raised_m: "
                "%.1f%s in what ingest.products says of it (docs/formats.md).",
                name, abs(more_m), "larger" if more_m > 0 else "smaller", names[0], (stated_m or 0.0) - more_m, instead,
            )  # fmt: skip


def _levels(track: Track) -> pd.Series:
    """Median height in each square that has points enough."""
    square = np.floor(track.easting / CELL_M), np.floor(track.northing / CELL_M)
    by_square = pd.Series(track.height).groupby([*square])
    return by_square.median()[by_square.size() >= FEWEST_POINTS]
