"""Gather failures along a line, as over a tunnel."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from pyproj import Transformer

from benchmarks.makers.ninth.settings import CRS, Array
from benchmarks.makers.ninth.town import Building

BAND = 0.05
"""Share of the buildings that lie in the band along the line."""


@dataclass(frozen=True)
class Line:
    """A straight line across the town, and the share of the failures in the band along it."""

    ends: Array
    """(2, 2) eastings and northings, m."""
    share: float

    def gather(
        self, generator: Generator, kind: NDArray[np.str_], fails: NDArray[np.bool_], town: list[Building]
    ) -> NDArray[np.str_]:
        """Deal kinds (B,) to the buildings of a town: a share of those that fail to the band."""
        centre = np.array([one.centre for one in town])
        along = np.diff(self.ends, axis=0)[0]
        offset = centre - self.ends[0]
        distance = np.abs(along[0] * offset[:, 1] - along[1] * offset[:, 0]) / np.hypot(*along)
        order = np.argsort(distance)
        near, far = np.split(order, [round(BAND * len(town))])
        failing, sound = generator.permutation(kind[fails]), kind[~fails]
        inside = min(round(self.share * len(failing)), len(near))
        places = np.concatenate([generator.permutation(near)[:inside], generator.permutation(far)])[: len(failing)]
        dealt = np.full(len(town), sound[0] if len(sound) else "", kind.dtype)
        dealt[places] = failing
        return dealt

    def write(self, path: Path) -> None:
        """Write GeoJSON in the coordinates of its standard."""
        corners = np.column_stack(Transformer.from_crs(CRS, 4326, always_xy=True).transform(*self.ends.T))
        geometry = {"type": "LineString", "coordinates": corners.round(9).tolist()}
        feature = {"type": "Feature", "properties": {"name": "tunnel"}, "geometry": geometry}
        path.write_text(json.dumps({"type": "FeatureCollection", "features": [feature]}), encoding="utf-8")


def draw_line(generator: Generator, town: list[Building], share: float) -> Line:
    """Draw a line in any direction through the middle half of a town, from one side to the other."""
    centre = np.array([one.centre for one in town])
    low, high = centre.min(0), centre.max(0)
    middle, angle = generator.uniform(0.75 * low + 0.25 * high, 0.25 * low + 0.75 * high), generator.uniform(0, np.pi)
    towards = np.array([np.cos(angle), np.sin(angle)])
    with np.errstate(divide="ignore"):
        reach = np.sort([(low - middle) / towards, (high - middle) / towards], axis=0)
    return Line(np.stack([middle + reach[0].max() * towards, middle + reach[1].min() * towards]), share)
