"""Cities that stand on the same ground are split as one: else a building would be trained on and tested with."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyproj
from numpy.typing import NDArray

from plumbline.console import log

Centres = NDArray[np.float64]
TOUCHING_M = 500.0
"""Cities nearer than this are one place: the widest of usual blocks."""


def one_ground(centre: Mapping[str, Centres], crs: Mapping[str, str]) -> tuple[dict[str, str], dict[str, Centres]]:
    """Name the place of each city, and give its buildings' centres in the one CRS of the place.

    Copies of a borrowed city, a city that was borrowed from and its original, and one city delivered twice share
    buildings, or at least noise. What counts is whether the boxes around their centres meet.

    Args:
        centre: city -> (B, 2) easting and northing, m.
        crs: city -> projected CRS of these.

    Returns:
        City -> name of its place, which is that of its first city; city -> (B, 2) centres in the CRS of that city.
    """
    place: dict[str, str] = {}
    moved: dict[str, Centres] = {}
    boxes: dict[str, NDArray[np.float64]] = {}
    for city, own in centre.items():
        place[city], moved[city] = city, own
        if not len(own):
            continue
        for first in dict.fromkeys(place[other] for other in boxes):
            there = _project(own, crs[city], crs[first])
            box = np.concatenate([there.min(axis=0), there.max(axis=0)])
            if any(_meet(box, boxes[other]) for other in boxes if place[other] == first):
                place[city], moved[city] = first, there
                log.info("%s stands where %s does: they are split as one place", city, first)
                break
        boxes[city] = np.concatenate([moved[city].min(axis=0), moved[city].max(axis=0)])
    return place, moved


def _project(centre: Centres, source: str, target: str) -> Centres:
    if source == target:
        return centre
    to = pyproj.Transformer.from_crs(source, target, always_xy=True)
    return np.stack(to.transform(centre[:, 0], centre[:, 1]), axis=1)


def _meet(one: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
    return bool((one[:2] <= other[2:] + TOUCHING_M).all() and (other[:2] <= one[2:] + TOUCHING_M).all())
