"""Simulate the displacement series of buildings: true motion, background, and noise that a
building shares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from plumbline.core.arrays import Array, Index
from plumbline.simulate.radar.acquisition import Acquisition, RadarBand
from plumbline.simulate.radar.noise import (
    BAD_EPOCH_SHARE,
    Law,
    add_bad_epochs,
    add_jumps,
    draw_memory,
)
from plumbline.simulate.radar.scatterers import ASTRAY, GROUND, STRUCTURE, SimulatedScatterers
from plumbline.simulate.random_numbers import log_uniform
from plumbline.simulate.structure.layout import CityLayout
from plumbline.simulate.structure.motion import Motion
from plumbline.simulate.structure.tunnels import greenfield

COMMON_NOISE_MM = (2.0, 5.0)
ASTRAY_MM_YEAR, ASTRAY_OF_TOWN_MM_YEAR = 15.0, 2.0
"""Standard deviation of the rates of points that are astray; smaller in a town, whose velocities
have the tails of EGMS."""
JUMP_SHARE = 0.03
RHO, EXPONENT, MEMORY_EPOCHS = (0.0, 0.6), (0.6, 2.0), (2.0, 60.0)
"""Ranges of the noise's short and long memory; epochs log-uniform. EGMS series show both:
correlations of 0.34, 0.33, 0.17, 0.11 and 0.06 after 1, 2, 3, 5 and 8 epochs, where an
autoregression would be down to 0.04 by the third."""


@dataclass(frozen=True)
class Reference:
    """Properties that all points of a track share."""

    level: float
    """Level of the histories, mm: they start anywhere."""
    rate: float
    """Motion of the track's reference, mm a year."""
    phase: float
    """Phase of the season of points that are astray, rad."""
    own: Law
    """Law of a point's noise."""
    common: Law
    """Law of the noise common to a building."""


def draw_reference(rng: np.random.Generator) -> Reference:
    """Draw a track's reference, and the laws of its noise."""
    own, common = (
        Law(
            rng.uniform(*RHO), rng.uniform(*EXPONENT), float(log_uniform(rng, *MEMORY_EPOCHS, 1)[0])
        )
        for _ in range(2)
    )
    return Reference(rng.normal(0, 3), rng.normal(0, 0.5), rng.uniform(0, 2 * np.pi), own, common)


@dataclass(frozen=True)
class MotionCourses:
    """Progress of the motion of buildings at T epochs."""

    building: Index
    """(b,) numbers of the buildings, ascending."""
    failing: Array
    """(b, T) share of the final displacement, 0 to 1, like the next two."""
    sinking: Array
    passing: Array
    season: Array
    """(b, T) -1 to 1."""


def courses(
    motion: Motion, building: Index, days: Array, start_day: float, length_days: float
) -> MotionCourses:
    """Return the courses of the buildings `building` (b,).

    Args:
        motion: what the buildings do.
        building: ascending.
        days: (T,) of the epochs, from the start of the observation.
        start_day: day of the year on which the observation starts.
        length_days: length of the observation.
    """
    time = days / length_days
    return MotionCourses(
        building,
        motion.failing.take(building).at(time),
        motion.sinking.take(building).at(time),
        motion.passing.take(building).at(time),
        motion.thermal.season(building, start_day + days),
    )


def true_motion(
    motion: Motion,
    layout: CityLayout,
    points: SimulatedScatterers,
    los: Array,
    course: MotionCourses,
) -> Array:
    """Return the noise-free displacement (N, T) of points on structures and ground, mm
    towards the satellite.

    Args:
        motion: what the buildings do.
        layout: the buildings.
        points: the N points, all of one track.
        los: (N, 3) unit vectors from ground to satellite.
        course: of all buildings that have one of the points, over the track's epochs.
    """
    building = points.building
    local = layout.frames.to_building(building, points.east_north)
    los_plan = layout.frames.rotate(building, los[:, :2])

    def project(field: tuple[Array, Array, Array]) -> Array:
        up, along_x, along_y = field
        return np.asarray(
            los[:, 2] * up + los_plan[:, 0] * along_x + los_plan[:, 1] * along_y, float
        )

    x, y, height = local[:, 0], local[:, 1], points.height
    up, along_x, along_y = motion.response.field(building, x, y)
    tilt = motion.response.tilt[building]
    # A building over a trough follows its plane as a rigid body, so that the tilt also moves
    # high points sideways.
    followed = project((up, along_x - tilt[:, 0] * height, along_y - tilt[:, 1] * height))
    in_ground = (los * greenfield(motion.tunnels, points.east_north)).sum(axis=1)
    on_structure = points.kind == STRUCTURE
    at = np.searchsorted(course.building, building)
    total = (on_structure * project(motion.local.field(building, x, y)))[:, None] * course.failing[
        at
    ]
    for amplitude, share in (
        (on_structure * project(motion.rigid.field(building, x, y, height)), course.sinking),
        (np.select([on_structure, points.kind == GROUND], [followed, in_ground]), course.passing),
        (on_structure * project(motion.thermal.field(building, x, y, height)), course.season),
    ):
        total += amplitude[:, None] * share[at]
    return np.asarray(total, float)


def background(
    rng: np.random.Generator,
    velocity: Array,
    points: SimulatedScatterers,
    los: Array,
    *,
    years: Array,
    reference: Reference,
    astray_mm_year: float = ASTRAY_MM_YEAR,
) -> Array:
    """Return the background (N, T) of a track's points, mm: the region's motion and the
    track's own reference.

    Points that are astray move on their own besides. `velocity` (3,) is the region's: east,
    north, up, mm a year; `years` (T,) count from the start of the observation;
    `astray_mm_year` is the standard deviation of their rates.
    """
    astray = points.kind == ASTRAY
    rate = los @ velocity + reference.rate + astray * rng.normal(0, astray_mm_year, len(los))
    season = astray * rng.normal(0, 4, len(los))
    total = reference.level + rate[:, None] * years
    total[astray] += season[astray, None] * np.sin(2 * np.pi * years + reference.phase)
    return np.asarray(total, float)


def common_noise(
    rng: np.random.Generator, buildings: int, acquisition: Acquisition, reference: Reference
) -> Array:
    """Draw the noise (B, E) that the points of a building share, on the regular grid of epochs,
    mm."""
    sigma = rng.uniform(*COMMON_NOISE_MM, buildings)
    return reference.common.draw(rng, sigma, draw_memory(rng, buildings), len(acquisition.kept))


def measurement_noise(
    rng: np.random.Generator,
    points: SimulatedScatterers,
    *,
    memory: Array,
    common: Array,
    acquisition: Acquisition,
    band: RadarBand,
    reference: Reference,
) -> Array:
    """Draw noise (N, T), mm: each point's own, the part `common` (B, E) to its building,
    bad epochs and jumps.

    `memory` (B,) is the share of the own noise's variance with a long memory. Drawn on the
    regular grid of epochs, so that a gap also separates the epochs on its two sides.
    """
    noise = reference.own.draw(rng, points.noise, memory[points.building], len(acquisition.kept))
    noise += common[points.building]
    add_bad_epochs(rng, noise, points.noise, BAD_EPOCH_SHARE)
    add_jumps(rng, noise, JUMP_SHARE, band.wavelength_mm)
    return np.asarray(noise[:, acquisition.kept], float)
