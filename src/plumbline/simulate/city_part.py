"""Simulate one part of an invented city: whole districts with their own seeds, so that parts are independent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import shapely
from numpy.typing import NDArray

from plumbline.simulate.radar.acquisition import BANDS, range_and_azimuth
from plumbline.simulate.radar.egms_writer import EgmsPoints, egms_rows
from plumbline.simulate.radar.noise import draw_memory
from plumbline.simulate.radar.scatterers import STRUCTURE, SimulatedScatterers, draw_scatterers, position_errors
from plumbline.simulate.radar.series import background, common_noise, courses, measurement_noise, true_motion
from plumbline.simulate.random_numbers import generators
from plumbline.simulate.site import PART_BUILDINGS, PART_DISTRICTS, Site
from plumbline.simulate.structure.difficulty import Evidence, difficulty, gather_evidence, no_evidence, point_precision
from plumbline.simulate.structure.layout import CityLayout, draw_layout, draw_plan
from plumbline.simulate.structure.motion import Motion, draw_labels, draw_motion
from plumbline.simulate.structure.truth_files import footprint_features, label_rows
from plumbline.simulate.structure.tunnels import tunnels_near
from plumbline.sources.points.epochs import DAYS_A_YEAR

Array = NDArray[np.float64]
ROWS = 4096
"""Points whose histories are made at a time."""
REACH_OF_A_BUILDING_M = 60.0
NUMBERS_A_PART = 2**24
"""Identifiers that a part may use; they go up by 1 to 29 a point."""
MARGIN_M = 1000.0
"""Beyond the city, so that lines and pixels of points stay positive."""


def write_part(site: Site, number: int, files: list[Path]) -> int:
    """Simulate part `number` and write its files: of both tracks, of the footprints and of the labels.

    The files hold lines of the city's files, without a header.

    Returns:
        The number of points.
    """
    band = BANDS[site.band]
    of_plan, of_layout, of_motion, of_points, *of_tracks = generators(site.entropy, number)
    first = number * PART_BUILDINGS
    plan = draw_plan(of_plan, min(PART_BUILDINGS, site.town.buildings - first))
    layout = draw_layout(of_layout, plan, site.town, number * PART_DISTRICTS)
    tunnels = tunnels_near(list(site.tunnels), layout.frames.centre, REACH_OF_A_BUILDING_M)
    motion = draw_motion(of_motion, layout, tunnels, site.damaged, site.mechanisms)
    axes = np.stack([range_and_azimuth(acquisition.heading_deg) for acquisition in site.tracks])
    points = draw_scatterers(of_points, layout, band, axes[:, 0])
    axes = axes[points.track]
    rise = np.tan(np.radians([acquisition.incidence_deg for acquisition in site.tracks]))[points.track]
    error = position_errors(of_points, points.building, points.track, axes, rise, band)
    evidence = no_evidence(len(layout.height))
    for track, rng in enumerate(of_tracks):
        seen = np.flatnonzero(points.track == track)
        delivered = _delivered(rng, site, number, track, layout, points.subset(seen), error[seen])
        order = np.lexsort((delivered.pixel, delivered.line))  # as the service sorts, within a part
        visible, delivered = points.subset(seen[order]), delivered.take(order)
        delivered = replace(delivered, number=np.sort(delivered.number))
        memory = draw_memory(rng, len(layout.height))
        evidence = evidence.plus(_evidence(site, track, visible, error[seen[order]], delivered.los, memory))
        with files[track].open("wb") as stream:
            for rows, series in _series(rng, site, track, layout, motion, visible, delivered.los, memory):
                stream.write(egms_rows(rng, site.product(track), delivered.take(rows), series))

    identifiers = [f"{site.name}_{i:06d}" for i in range(first, first + len(layout.height))]
    labels = draw_labels(motion, layout)
    level = difficulty(labels.strains.severity_permille, layout.frames.side, evidence)
    scenarios = [motion.scenario(i) for i in range(len(identifiers))]
    polygon = shapely.transform(layout.polygon, lambda at: at + np.array(site.place))
    files[2].write_text(footprint_features(identifiers, polygon, layout.height), encoding="utf-8")
    files[3].write_text(label_rows(identifiers, labels, scenarios, level), encoding="utf-8")
    return len(points.building)


def _delivered(
    rng: np.random.Generator,
    site: Site,
    number: int,
    track: int,
    layout: CityLayout,
    points: SimulatedScatterers,
    error: Array,
) -> EgmsPoints:
    """Return the points as a product delivers them, with position errors `error` (N, 3): east, north, up."""
    a, band = site.tracks[track], BANDS[site.band]
    east_north = points.east_north + error[:, :2]
    in_range, in_azimuth = range_and_azimuth(a.heading_deg) @ east_north.T
    azimuth_m, slant_m = band.pixel_m
    beyond = site.town.extent + MARGIN_M
    steps = np.cumsum(rng.integers(1, 30, len(east_north)))
    return EgmsPoints(
        # Two tracks share no identifier, nor do two parts.
        number=steps + number * NUMBERS_A_PART + (a.track * 1000 + a.burst) * 62**6,
        position=east_north + np.array(site.place),
        height=layout.ground[points.building] + points.height + error[:, 2],
        los=a.los(east_north),
        incidence=a.incidence(east_north),
        track_angle=np.full(len(east_north), a.track_angle),
        line=np.floor((in_azimuth + beyond) / azimuth_m),
        pixel=np.floor((in_range + beyond) * np.sin(np.deg2rad(a.incidence_deg)) / slant_m),
    )


def _series(
    rng: np.random.Generator,
    site: Site,
    track: int,
    layout: CityLayout,
    motion: Motion,
    points: SimulatedScatterers,
    los: Array,
    memory: Array,
) -> Iterator[tuple[NDArray[np.intp], Array]]:
    """Yield histories of the points (rows, displacement in mm), `ROWS` at a time."""
    a, reference, band = site.tracks[track], site.references[track], BANDS[site.band]
    course = courses(motion, np.arange(len(layout.height)), a.days, site.start_day, site.length_days)
    common = common_noise(rng, len(layout.height), a, reference)
    for start in range(0, len(los), ROWS):
        rows = np.arange(start, min(start + ROWS, len(los)))
        part, part_los = points.subset(rows), los[rows]
        displacement = true_motion(motion, layout, part, a.los(part.east_north), course)
        displacement += background(rng, np.array(site.velocity), part, part_los, a.days / DAYS_A_YEAR, reference)
        displacement += measurement_noise(rng, part, memory, common, a, band, reference)
        yield rows, displacement


def _evidence(site: Site, track: int, points: SimulatedScatterers, error: Array, los: Array, memory: Array) -> Evidence:
    """Gather the evidence of a track's points for each building, with noise of memory `memory` (B,)."""
    on = points.kind == STRUCTURE
    building, epochs = points.building[on], int(site.tracks[track].kept.sum())
    variance = site.references[track].own.line_variance(memory, epochs)
    precision = point_precision(points.noise[on], los[on, 2], variance[building])
    return gather_evidence(building, precision, error[on, :2], len(memory))
