"""Footprints from one CRS to another, without taking one datum for another where it can be helped."""

from __future__ import annotations

import itertools

import geopandas
import numpy as np
import shapely
from pyproj import Transformer
from pyproj.exceptions import ProjError

from plumbline.core.console import log
from plumbline.sources.grid import GLOBE


def reprojected(source: str, frame: geopandas.GeoDataFrame, crs: str) -> geopandas.GeoDataFrame:
    """`frame` in another CRS: directly, or through WGS 84 where that is the better way.

    From ED50 to EPSG:3035, say, PROJ knows no way for all of Europe, and would take its degrees for those of ETRS89:
    footprints then lie 100 m off. To WGS 84 it knows one.

    Args:
        source: names the file in the warning that no better way is known.

    Raises:
        ProjError: there is no way at all.
    """
    roughly = frame.to_crs(crs)
    if frame.crs == roughly.crs:
        return roughly
    shown = _is_finite(roughly.geometry.to_numpy())
    for steps in ((frame.crs, crs), (frame.crs, GLOBE, crs)):
        try:
            ways = [_way(one, other) for one, other in itertools.pairwise(steps)]
        except ProjError:
            continue
        geometry = frame.geometry.to_numpy()
        for way in ways:
            geometry = shapely.transform(geometry, way.transform, interleaved=False)
        if not shown or _is_finite(geometry):
            return frame.set_geometry(geopandas.GeoSeries(geometry, index=frame.index, crs=roughly.crs))
    log.warning(
        "%s: no way is known from %s to %s but to take one datum for the other: footprints may lie up to 100 m off. "
        "Bring them into %s by a program that has that country's grids.", source, frame.crs.name, roughly.crs.name, crs,
    )  # fmt: skip
    return roughly


def _way(source: object, target: object) -> Transformer:
    return Transformer.from_crs(source, target, always_xy=True, allow_ballpark=False)


def _is_finite(geometry: object) -> bool:
    return bool(np.isfinite(shapely.get_coordinates(geometry)).all())
