"""Write one product of a borrowed city: its points with their own noise, and the added motion."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import shapely
from numpy.typing import NDArray

from plumbline.simulate.borrowed.residual_noise import Smooth, TrackNoise
from plumbline.simulate.radar.acquisition import BANDS
from plumbline.simulate.radar.egms_writer import EgmsPoints, EgmsProduct, egms_rows
from plumbline.simulate.radar.scatterers import (
    ASTRAY,
    ASTRAY_SHARE,
    GROUND,
    STRUCTURE,
    SimulatedScatterers,
    position_errors,
)
from plumbline.simulate.radar.series import Reference, background, courses, draw_reference, true_motion
from plumbline.simulate.structure.difficulty import Evidence, gather_evidence, point_precision
from plumbline.simulate.structure.layout import CityLayout
from plumbline.simulate.structure.motion import Motion
from plumbline.sources.points.epochs import DAYS_A_YEAR
from plumbline.sources.track import Track

Array = NDArray[np.float64]
Index = NDArray[np.intp]
ROWS = 4096
"""Points whose histories are made at a time."""
MARGIN_M = 1000.0
"""Beyond the buildings, so that lines and pixels of points stay positive."""
SAMPLE = 20_000
"""Points that the law of the noise is measured on."""


@dataclass(frozen=True)
class Setting:
    """Data that all products and copies of a city share."""

    layout: CityLayout
    """In m from `origin`."""
    origin: Array
    """(2,) in the products' CRS, m."""
    moved: Array
    """(2,) where the origin is in EPSG:3035, m."""
    start: np.datetime64
    """First day of the observation."""
    length_days: float
    band: str
    buffer_m: float
    """A point so far outside of a footprint still belongs to it, m."""


@dataclass(frozen=True)
class Copy:
    """One draw of damage."""

    folder: Path
    rng: np.random.Generator
    motion: Motion
    velocity: Array
    """(3,) of the region, mm a year."""
    sign: Array
    """(B,) 1 or -1: noise is as likely the other way round, so that copies do not share one."""


@dataclass(frozen=True)
class _View:
    """A product over the buildings; N points."""

    points: Track
    days: Array
    """(T,) from the start of the observation."""
    east_north: Array
    """(N, 2) as the product says, from the origin."""
    building: Index
    """(N,) the nearest one."""
    on: NDArray[np.bool_]
    """(N,) whether the point belongs to it."""
    above: Array
    """(N,) height over the lowest point of its building, m; 0 for points on none."""
    smooth: Smooth
    law: TrackNoise


@dataclass(frozen=True)
class _Draw:
    """Random numbers that a copy draws once for all points of a product."""

    kind: Index
    true_place: Array
    """(N, 2)"""
    reference: Reference
    shared: Array
    """(B, P) what the points of a building have in common of the noise that is drawn again."""


def write_track(points: Track, file_name: str, number: int, setting: Setting, copies: list[Copy]) -> Evidence:
    """Write product `number` into the folder of each copy.

    Returns:
        What its points tell of each building's change, with the position errors of the first copy.
    """
    view = _look(points, setting)
    product = EgmsProduct(file_name, points.epochs, BANDS[setting.band].wavelength_mm)
    precision = np.zeros(len(points))
    with ExitStack() as stack:
        streams = [stack.enter_context((copy.folder / file_name).open("wb")) for copy in copies]
        drawn = [_draw(copy, view, setting) for copy in copies]
        for stream in streams:
            stream.write(product.header)
        for first in range(0, len(points), ROWS):
            rows = np.arange(first, min(first + ROWS, len(points)))
            residual = view.smooth.residual(points.displacement[rows].astype(float))
            sigma = view.smooth.sigma(residual, view.law)
            # What all points of a building share says nothing of its damage, and hides none.
            own = sigma * np.sqrt(1 - view.law.common)
            precision[rows] = point_precision(own, points.los[rows, 2], view.smooth.line_variance(view.law))
            delivered = _delivered(view, rows, number, setting)
            for copy, draw, stream in zip(copies, drawn, streams, strict=True):
                series = _series(view, rows, sigma, setting, copy, draw)
                series += copy.sign[view.building[rows], None] * residual
                stream.write(egms_rows(copy.rng, product, delivered, series))
    error = (drawn[0].true_place - view.east_north)[view.on]
    return gather_evidence(view.building[view.on], precision[view.on], error, len(setting.layout.height))


def _look(points: Track, setting: Setting) -> _View:
    days = (points.epochs - setting.start).astype(int).astype(float)
    smooth = Smooth((days - days[0]) / DAYS_A_YEAR)
    east_north = np.stack([points.easting, points.northing], axis=1) - setting.origin
    building, on = nearest_building(east_north, setting.layout, setting.buffer_m)
    sample = np.unique(np.linspace(0, len(points) - 1, min(SAMPLE, len(points))).astype(np.intp))
    if len(points) > SAMPLE and on.any():  # neighbours tell what they share: whole stretches of the file
        sample = np.flatnonzero(on)[:SAMPLE]
    law = smooth.law(smooth.residual(points.displacement[sample].astype(float)), np.where(on, building, -1)[sample])
    height = np.nan_to_num(np.asarray(points.height, float))
    lowest = np.full(len(setting.layout.height), np.inf)
    np.minimum.at(lowest, building[on], height[on])
    above = np.where(on, height - np.where(on, lowest[building], 0), 0)
    return _View(points, days, east_north, building, on, above, smooth, law)


def _draw(copy: Copy, view: _View, setting: Setting) -> _Draw:
    layout, rng, count = setting.layout, copy.rng, len(view.on)
    astray = rng.random(count) < ASTRAY_SHARE
    kind = np.select([~view.on, astray], [GROUND, ASTRAY], default=STRUCTURE)
    los = view.points.los
    # Heights are delivered as they are, so that what rises with an error of position (nothing: 0) does not matter.
    one, level = np.zeros(count, np.intp), np.zeros(count)
    error = position_errors(rng, view.building, one, _axes(los), level, BANDS[setting.band])[:, :2]
    place = view.east_north - view.on[:, None] * error
    # Whatever the error was, a point of a building is on it.
    local, half = layout.frames.to_building(view.building, place), layout.frames.side[view.building] / 2
    held = np.clip(local, -half, half)
    cos, sin = np.cos(layout.frames.angle[view.building]), np.sin(layout.frames.angle[view.building])
    east, north = held[:, 0] * cos - held[:, 1] * sin, held[:, 0] * sin + held[:, 1] * cos
    inside = layout.frames.centre[view.building] + np.stack([east, north], axis=1)
    return _Draw(
        kind=kind,
        true_place=np.where(view.on[:, None], inside, view.east_north),
        reference=draw_reference(rng),
        shared=rng.standard_normal((len(layout.height), view.smooth.design.shape[1])),
    )


def _series(view: _View, rows: Index, sigma: Array, setting: Setting, copy: Copy, draw: _Draw) -> Array:
    """Return the histories of points `rows`, mm, less their own residuals."""
    los, building = view.points.los[rows], view.building[rows]
    scatterers = SimulatedScatterers(
        building, draw.kind[rows], np.zeros(len(rows), np.intp), draw.true_place[rows], view.above[rows], sigma
    )
    start_day = float((setting.start - setting.start.astype("datetime64[Y]")).astype(int))
    course = courses(copy.motion, np.unique(building), view.days, start_day, setting.length_days)
    series = true_motion(copy.motion, setting.layout, scatterers, los, course)
    series += background(copy.rng, copy.velocity, scatterers, los, view.days / DAYS_A_YEAR, draw.reference)
    return series + view.smooth.lost(copy.rng, sigma, draw.shared[building], view.law)


def _axes(los: Array) -> Array:
    """Return horizontal unit vectors (N, 2, 2) of lines of sight (N, 3): ground range from the satellite, azimuth."""
    flat = np.hypot(los[:, 0], los[:, 1])
    steep = flat < 1e-6  # straight up, as in a product of vertical motion: no direction is the range's
    away = np.where(steep[:, None], (1.0, 0.0), -los[:, :2] / np.where(steep, 1, flat)[:, None])
    return np.stack([away, np.stack([-away[:, 1], away[:, 0]], axis=1)], axis=1)


def _delivered(view: _View, rows: Index, number: int, setting: Setting) -> EgmsPoints:
    los, place = view.points.los[rows], view.east_north[rows]
    in_range, in_azimuth = np.einsum("nkc,nc->kn", _axes(los), place)
    azimuth_m, slant_m = BANDS[setting.band].pixel_m
    incidence = np.degrees(np.arccos(np.clip(los[:, 2], -1, 1)))
    beyond = setting.layout.extent + MARGIN_M
    return EgmsPoints(
        number=rows.astype(np.int64) + 1 + (number + 1) * 62**6,
        position=place + setting.moved,
        height=np.nan_to_num(np.asarray(view.points.height[rows], float)),
        los=los,
        incidence=incidence,
        track_angle=np.degrees(np.arctan2(los[:, 1], -los[:, 0])),
        line=np.floor((in_azimuth + beyond) / azimuth_m),
        pixel=np.floor((in_range + beyond) * np.sin(np.radians(incidence)) / slant_m),
    )


def nearest_building(east_north: Array, layout: CityLayout, buffer_m: float) -> tuple[Index, NDArray[np.bool_]]:
    """Return the nearest building of each point (N, 2), and whether it is at most `buffer_m` away."""
    tree = shapely.STRtree(layout.polygon)
    (point, building), distance = tree.query_nearest(shapely.points(east_north), return_distance=True, all_matches=True)
    order = np.lexsort((building, point))  # of equally near ones, the first counts
    first = order[np.flatnonzero(np.diff(point[order], prepend=-1))]
    return np.asarray(building[first], np.intp), distance[first] <= buffer_m
