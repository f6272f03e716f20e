"""Invalid polygons whose ground is beyond doubt, drawn anew; the others stay for their owner to repair.

A ring that runs to and fro along a line, touches itself, or shares an edge with its hole is invalid, and yet it is
clear which ground is the building. A ring that crosses itself is not: its lobes are run round in opposite senses, or
one of them twice. So the ground that rings enclose other than once, and all in one sense, is measured; where there is
practically none, every rule for filling a polygon (even-odd, non-zero, signed) gives the same ground.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import shapely
from numpy.typing import NDArray

MAX_DOUBT_M2 = 0.1
"""Ground that the fill rules may disagree on: far below what footprints are drawn to."""
MAX_DOUBT_SHARE = 0.01
"""The same as a share of the building's area, for small ones."""
MAX_LIKELY_SHARE = 0.1
"""Of a building's area: with up to so much in doubt, it is better drawn anew, and that said, than not judged at all."""
MIN_PART_M2 = 0.01
"""A smaller part is what a crossing or a spike leaves behind, and goes."""
Float = NDArray[np.floating[Any]]


class Repaired(NamedTuple):
    """Polygons drawn anew, and the ground that is in doubt in each, m2."""

    geometry: NDArray[np.object_]
    doubt_m2: Float

    @property
    def certain(self) -> NDArray[np.bool_]:
        """(B,) whether `geometry` is a valid polygon of the same ground, whatever the rule."""
        area = shapely.area(self.geometry)
        little = self.doubt_m2 <= np.minimum(MAX_DOUBT_M2, MAX_DOUBT_SHARE * area)
        return np.asarray(little & (area > MIN_PART_M2) & shapely.is_valid(self.geometry))

    @property
    def likely(self) -> NDArray[np.bool_]:
        """(B,) whether `geometry` is a valid polygon of the same ground, but for a small part."""
        area = shapely.area(self.geometry)
        little = self.doubt_m2 <= MAX_LIKELY_SHARE * area
        return np.asarray(little & (area > MIN_PART_M2) & shapely.is_valid(self.geometry))


def repair_polygons(geometry: NDArray[np.object_]) -> Repaired:
    """Draw invalid polygons (B,), in m and with finite coordinates, anew.

    The doubt is the area that a ring encloses more than once or against its own sense, that lies in two parts or two
    holes at once, or in a hole outside of its shell.
    """
    answers = [_draw_anew(polygon) for polygon in geometry]
    drawn = np.empty(len(answers), object)
    drawn[:] = [ground for ground, _ in answers]
    return Repaired(drawn, np.array([doubt for _, doubt in answers], float))


def _draw_anew(polygon: shapely.Geometry) -> tuple[shapely.Geometry, float]:
    parts, doubt = [], 0.0
    try:
        for part in shapely.get_parts(polygon):
            (shell, *holes), unclear = zip(*map(_fill, shapely.get_rings(part)), strict=True)
            ground = shapely.difference(shell, shapely.union_all(holes)) if holes else shell
            cut_out = float(np.sum(shapely.area(holes))) - (shapely.area(shell) - shapely.area(ground))
            doubt += sum(unclear) + cut_out
            parts.append(ground)
        whole = shapely.union_all(parts)
    except shapely.errors.GEOSException:
        return shapely.Polygon(), np.inf
    doubt += float(np.sum(shapely.area(parts))) - shapely.area(whole)
    return _without_remains(whole), doubt


def _fill(ring: shapely.Geometry) -> tuple[shapely.Geometry, float]:
    """The ground that a ring goes round once in its main sense, and the area it goes round otherwise."""
    filled = shapely.polygons(ring)
    if shapely.is_valid(filled):
        return filled, 0.0
    lines = shapely.get_parts(shapely.union_all(shapely.linestrings(shapely.get_coordinates(ring))))
    faces = shapely.get_parts(shapely.polygonize(lines))
    if not len(faces):
        return shapely.Polygon(), 0.0
    corners = shapely.get_coordinates(ring)
    area, turns = shapely.area(faces), _turns(corners, shapely.get_coordinates(shapely.point_on_surface(faces)))
    # The signed area knows nothing of faces: where the two differ, the lines were not cut up properly.
    lost = abs(float(turns @ area) - _signed_area(corners))
    sense = 1 if turns @ area >= 0 else -1
    unclear = float(area[(turns != 0) & (turns != sense)].sum())
    return shapely.union_all(faces[turns == sense]), unclear + lost


def _turns(corners: Float, points: Float) -> NDArray[np.int64]:
    """(P,) how often a ring of corners (C, 2) goes round points (P, 2), counter-clockwise positive.

    Upward crossings of the ray to the east count 1, downward ones -1 (Sunday 2001, "winding number inclusion").
    """
    start, end = corners[None, :-1], corners[None, 1:]
    at = points[:, None]
    along, to = end - start, at - start
    left = along[..., 0] * to[..., 1] - to[..., 0] * along[..., 1]
    up = (start[..., 1] <= at[..., 1]) & (end[..., 1] > at[..., 1]) & (left > 0)
    down = (start[..., 1] > at[..., 1]) & (end[..., 1] <= at[..., 1]) & (left < 0)
    return np.asarray(up.sum(1) - down.sum(1), np.int64)


def _signed_area(corners: Float) -> float:
    x, y = (corners - corners[0]).T
    return float(np.sum(x[:-1] * y[1:] - x[1:] * y[:-1]) / 2)


def _without_remains(ground: shapely.Geometry) -> shapely.Geometry:
    """Without lines, points and tiny parts; a polygon, or a multipolygon of what is left."""
    parts = shapely.get_parts(ground)
    parts = parts[(shapely.get_dimensions(parts) == 2) & (shapely.area(parts) > MIN_PART_M2)]
    return parts[0] if len(parts) == 1 else shapely.multipolygons(parts)
