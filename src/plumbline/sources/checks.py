"""Check points against footprints, and products against each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import geopandas
import numpy as np
import pandas as pd
import pyproj
import shapely
from numpy.typing import NDArray

from plumbline import params
from plumbline.core.console import log, warn
from plumbline.core.errors import InputError
from plumbline.sources.crs import (
    GLOBE,
    MAX_STRETCH,
    MAX_TURN_DEG,
    length_of_a_metre,
    transformer,
    turn_of_axes,
    utm_zone,
)
from plumbline.sources.files.opened import fits, product_params
from plumbline.sources.points.track import Track

NEAR_M = 50.0
"""A place with points has some within this distance of some building; position errors are
below 20 m."""
MAX_NORTH_DEG = 5.0
"""Largest angle of grid north to true north without a warning. At 5 degrees, the quadrants of one
house in eighteen have other names than by true north."""
Place = tuple[float, float]
"""Easting and northing, m."""
BATCH_POINTS = 2_000
"""Number of points tested in one step: where points overlap footprints, the first few show it."""


def check_overlap(
    tracks: Sequence[Track],
    buildings: geopandas.GeoDataFrame,
    points: str,
    footprints: str,
    *,
    near_m: float = NEAR_M,
    asked_crs: str | None = None,
    warn_of_north: bool = True,
) -> None:
    """Refuse points and footprints of different places.

    A single track without a point near a footprint is only warned of, as long as another has one.

    Args:
        tracks: points, all in the CRS of the buildings.
        buildings: the buildings table.
        points: the file or files of the points, for the message.
        footprints: the file of the footprints, for the message.
        near_m: distance from a footprint up to which a point counts, m.
        asked_crs: the CRS, where params name it; else it is the first product's.
        warn_of_north: warn where the CRS has a north of its own.

    Raises:
        InputError: a CRS that is asked for, or chosen for a product elsewhere, stretches or
            turns the place; or no point is near any footprint: the message has both
            extents.
    """
    tree = shapely.STRtree(buildings.geometry.to_numpy())
    box = np.asarray(buildings.total_bounds, float)
    near = {
        number: rows
        for number, track in enumerate(tracks)
        if len(rows := points_near_footprints(track, tree, box, near_m))
    }
    crs = str(buildings.crs)
    if near:
        number, rows = next(iter(near.items()))
        # Where the points are: of the footprints one may be astray.
        place = float(tracks[number].easting[rows[0]]), float(tracks[number].northing[rows[0]])
        if number or asked_crs is not None:
            _check_crs(crs, place, tracks[0].name if asked_crs is None else None)
        for number in set(range(len(tracks))) - set(near):
            warn(
                "%s: no point of it is within %g m of a footprint of %s. If it should have some: "
                "are its two coordinates exchanged, or is its CRS another?",
                tracks[number].name,
                near_m,
                footprints,
                key="points.track_elsewhere",
            )
        if warn_of_north:
            _warn_of_north(crs, place, footprints)
        return
    easting = np.concatenate([track.easting for track in tracks])
    northing = np.concatenate([track.northing for track in tracks])
    source = buildings.attrs.get("source_crs", crs)
    raise InputError(
        f"No overlap: no point is within {near_m:g} m of a footprint.\n"
        f"  points     {points}: {_describe_extent(easting, northing, crs)}\n"
        f"  footprints {footprints} ({source}): "
        f"{_describe_extent(box[[0, 2]], box[[1, 3]], crs)}\n"
        "Give the points and the footprints of one place, and check the CRS the footprints' file "
        "states. Easting or longitude has to be the first coordinate of the footprints (QGIS: "
        "Swap X and Y coordinates); in the file of the points, check which column is which.",
        key="points.no_overlap",
    )


def _check_crs(crs: str, place: Place, chosen_by: str | None) -> None:
    """Refuse a CRS that stretches or turns the place; `chosen_by` is a product elsewhere
    that set it, if any."""
    parsed = pyproj.CRS(crs)
    longitude, latitude = transformer(parsed, GLOBE).transform(*place)
    scale, turn = (
        length_of_a_metre(parsed, longitude, latitude),
        turn_of_axes(parsed, longitude, latitude),
    )
    if abs(scale - 1) <= MAX_STRETCH and turn <= MAX_TURN_DEG:
        return
    drawn = (
        f"{crs} draws a metre there as {scale:.2f} m, and its axes are {turn:.0f} degrees "
        "off east and north"
    )
    if chosen_by is not None:
        raise InputError(
            f"{chosen_by}: no point of it is near a footprint, and the CRS of all is chosen for "
            f"it: {drawn}. Leave it out, or look whether its two coordinates are exchanged, or "
            "its CRS is another.",
            key="crs.chosen_elsewhere",
        )
    raise InputError(
        f"ingest.crs: {drawn}. Write one of that place, as {utm_zone(crs, longitude, latitude)}.",
        key="crs.distorted",
    )


def _warn_of_north(crs: str, place: Place, footprints: str) -> None:
    """Warn if grid north, by which quadrants are named, differs from true north."""
    longitude, latitude = transformer(crs, GLOBE).transform(*place)
    off = turn_of_axes(pyproj.CRS(crs), longitude, latitude)
    if off > MAX_NORTH_DEG:
        warn(
            "%s: north of %s, by which quadrants are named, is %.0f degrees off true north here. "
            "In UTM it is off by 3 at most: `ingest: {crs: %s}` in the file that --params names",
            footprints,
            crs,
            off,
            utm_zone(crs, longitude, latitude),
            key="crs.other_north",
        )


def points_near_footprints(
    track: Track, tree: shapely.STRtree, box: NDArray[np.float64], near_m: float = NEAR_M
) -> NDArray[np.intp]:
    """Return some points within `near_m` of a footprint, or an empty array without any.

    Args:
        track: the points.
        tree: the footprints.
        box: west, south, east and north of all footprints, m.
        near_m: distance from a footprint up to which a point counts, m.
    """
    inside = (
        (track.easting >= box[0] - near_m)
        & (track.easting <= box[2] + near_m)
        & (track.northing >= box[1] - near_m)
        & (track.northing <= box[3] + near_m)
    )
    rows = np.flatnonzero(inside)
    for start in range(0, len(rows), BATCH_POINTS):
        chunk = rows[start : start + BATCH_POINTS]
        points = shapely.points(track.easting[chunk], track.northing[chunk])
        near = tree.query(points, predicate="dwithin", distance=near_m)[0]
        if len(near):
            return np.asarray(chunk[np.unique(near)], np.intp)
    return rows[:0]


def _describe_extent(easting: NDArray[np.float64], northing: NDArray[np.float64], crs: str) -> str:
    if not len(easting):
        return "none"
    corners = np.array([[easting.min(), northing.min()], [easting.max(), northing.max()]])
    to_degrees = transformer(crs, "EPSG:4326")
    west, south, east, north = to_degrees.transform_bounds(*corners.ravel())
    return (
        f"easting {corners[0, 0]:.0f} to {corners[1, 0]:.0f} m, northing {corners[0, 1]:.0f} to "
        f"{corners[1, 1]:.0f} m in {crs}, about {west:.4f} to {east:.4f} degrees east, {south:.4f} "
        f"to {north:.4f} degrees north"
    )


def warn_of_patterns(points: Sequence[Path], products: Mapping[str, params.Product]) -> None:
    """Warn if a pattern of `ingest.products` fits too many files, and log those that fit none.

    Several files of the same name with one line of sight may be exports of two tracks. A
    pattern that fits no file may be misspelt.
    """
    for name in sorted({path.name for path in points}):
        alike = [path for path in points if path.name == name]
        settings = [product_params(path, products) for path in alike]
        if (
            len(alike) > 1
            and settings[0].incidence_deg is not None
            and all(s is settings[0] for s in settings)
        ):
            warn(
                "%s: the same line of sight is taken for all of them, as one pattern of "
                "ingest.products fits them. Where they are of several tracks, write a pattern for "
                "each, with its folder: '%s'.",
                ", ".join(map(str, alike)),
                "/".join(alike[0].absolute().parts[-2:]),
                key="products.shared_sight",
            )
    unfit = [pattern for pattern in products if not any(fits(path, pattern) for path in points)]
    if unfit:
        log.info("ingest.products: none of the files given fits %s", ", ".join(map(repr, unfit)))


CELL_M = 50.0
"""Side of the squares in which heights are compared: ground and roofs of the same few buildings."""
MIN_POINTS_IN_SQUARE = 3
"""Smallest number of points of a track in a square; fewer may all be on one roof."""
FEWEST_CELLS = 10
MIN_RAISED_M = 5.0
"""Smallest difference of heights that is reported: tracks of one producer differ by 0.1 m; the
geoid is 15 to 65 m from the ellipsoid in Europe."""


def height_difference_m(track: Track, reference: Track) -> float | None:
    """Return by how much, m, `track` is higher than `reference` where both are; None for too few.

    The median over squares of the difference of the medians.
    """
    levels, reference_levels = _median_heights(track), _median_heights(reference)
    squares = levels.index.intersection(reference_levels.index)
    if len(squares) < FEWEST_CELLS:
        return None
    return float((levels[squares] - reference_levels[squares]).median())


def warn_of_datum(
    tracks: Sequence[Track], names: Sequence[str], raised_m: Sequence[float | None]
) -> None:
    """Warn of tracks with another zero of heights than the first track.

    Differences of height within a building matter: a point that is 40 m too high is one of
    no such building.

    Args:
        tracks: as read. names: of their files.
        raised_m: by how much `ingest.products` has raised the heights of each already, m.
    """
    for track, name, stated_m in zip(tracks[1:], names[1:], raised_m[1:], strict=True):
        flat_heights_m = [
            float(t.height[0]) for t in (track, tracks[0]) if len(t) and np.ptp(t.height) == 0
        ]
        difference_m = height_difference_m(track, tracks[0])
        if (
            len(flat_heights_m) == 1
            and difference_m is not None
            and abs(difference_m) >= MIN_RAISED_M
        ):
            warn(
                "%s, %s: all heights of one are %g m, those of the other are not. Tilts are found "
                "by differences of height: export that product with its heights. raised_m does "
                "not help here.",
                names[0],
                name,
                flat_heights_m[0],
                key="heights.one_flat",
            )
            continue
        if difference_m is not None and abs(difference_m) >= MIN_RAISED_M:
            instead = "" if stated_m is None else f", and not {stated_m:g},"
            warn(
                "%s: its heights are %.1f m %s than those of %s where both have points. Does one "
                "count them from the ellipsoid, the other from the sea? Tilts are found by "
                "differences of height: state raised_m: %.1f%s for it in ingest.products "
                "(docs/formats.md).",
                name,
                abs(difference_m),
                "larger" if difference_m > 0 else "smaller",
                names[0],
                (stated_m or 0.0) - difference_m,
                instead,
                key="heights.other_datum",
            )


def _median_heights(track: Track) -> pd.Series:
    """Return the median height in each square with enough points."""
    square = np.floor(track.easting / CELL_M), np.floor(track.northing / CELL_M)
    by_square = pd.Series(track.height).groupby([*square])
    return by_square.median()[by_square.size() >= MIN_POINTS_IN_SQUARE]
