"""Split cities on the same ground as one, so that a building is never in both training and test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations
from pathlib import Path

import numpy as np
import pyproj
from numpy.typing import NDArray
from scipy.cluster.hierarchy import DisjointSet

from plumbline.core.console import log
from plumbline.core.files import read_json
from plumbline.sources.footprints.origin import one_crs

Centres = NDArray[np.float64]
TOUCHING_M = 500.0
"""Cities nearer than this are one place: the widest of usual blocks."""


def one_ground(centre: Mapping[str, Centres], crs: Mapping[str, str]) -> tuple[dict[str, str], dict[str, Centres]]:
    """Name the place of each city, and return its buildings' centres in the CRS of the place.

    Copies of a borrowed city, a city that was borrowed from and its original, and one city delivered twice share
    buildings, or at least noise. What counts is whether the boxes around their centres meet, directly or by way of
    other cities.

    Args:
        centre: city -> (B, 2) easting and northing, m, on the ground that they stand on (`sources.ground`).
        crs: city -> projected CRS of these.

    Returns:
        City -> name of its place, which is that of its first city; city -> (B, 2) centres in the CRS of that city.
    """
    held = [city for city, own in centre.items() if len(own)]
    boxes = {
        (city, target): _box(_project(centre[city], crs[city], target))
        for city in held
        for target in {crs[other] for other in held}
    }
    joined = DisjointSet(held)
    for first, second in combinations(held, 2):
        if _meet(boxes[first, crs[first]], boxes[second, crs[first]]):
            joined.merge(first, second)
    place = {city: city for city in centre}
    for group in joined.subsets():
        named = next(city for city in held if city in group)
        place |= dict.fromkeys(group, named)
    for city in held:
        if place[city] != city:
            log.info("%s stands where %s does: they are split as one place", city, place[city])
    return place, {**centre} | {city: _project(centre[city], crs[city], crs[place[city]]) for city in held}


def ground_crs(tiles: Iterable[tuple[str, Path]]) -> dict[str, str]:
    """Return the ground CRS of each city from its tiles' files; `tiles`: city and file of each tile.

    Raises:
        InputError: the tiles of a city name different ones.
    """
    named: dict[str, set[str]] = {}
    for city, path in tiles:
        named.setdefault(city, set()).add(read_json(path)["crs"])
    return {city: one_crs(sorted(found), f"footprints of {city}") for city, found in named.items()}


def _project(centre: Centres, source: str, target: str) -> Centres:
    if source == target:
        return centre
    to = pyproj.Transformer.from_crs(source, target, always_xy=True)
    return np.stack(to.transform(centre[:, 0], centre[:, 1]), axis=1)


def _box(centre: Centres) -> NDArray[np.float64]:
    """Return west, south, east, north; infinite or NaN if the CRS cannot show the place, which then meets nothing."""
    return np.concatenate([centre.min(axis=0), centre.max(axis=0)])


def _meet(one: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
    return bool((one[:2] <= other[2:] + TOUCHING_M).all() and (other[:2] <= one[2:] + TOUCHING_M).all())
