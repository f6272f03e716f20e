"""Displacement histories along the line of sight, as a processor would deliver them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from plumbline.simulate.acquisition import Acquisition, Band
from plumbline.simulate.layout import Layout
from plumbline.simulate.motion import Motion
from plumbline.simulate.noise import bad_epochs, correlated, jumps
from plumbline.simulate.scatterers import ASTRAY, GROUND, STRUCTURE, Scatterers
from plumbline.simulate.thermal import DAYS_A_YEAR
from plumbline.simulate.trough import greenfield

Array = NDArray[np.float64]
COMMON_NOISE_MM = (2.0, 5.0)
BAD_EPOCH_SHARE = 0.02
JUMP_SHARE = 0.03


def true_motion(
    motion: Motion, layout: Layout, points: Scatterers, acquisition: Acquisition, start_day: float, length_days: float
) -> Array:
    """Noise-free displacement (N, T) of the points on structures and ground, mm towards the satellite.

    Args:
        motion: what the buildings do.
        layout: the buildings.
        points: the N points, all of one track.
        acquisition: that track.
        start_day: day of the year on which the observation starts.
        length_days: length of the observation.
    """
    building, los = points.building, acquisition.los(points.east_north)
    local = layout.frames.to_building(building, points.east_north)
    los_plan = layout.frames.rotate(building, los[:, :2])

    def seen(field: tuple[Array, Array, Array]) -> Array:
        up, along_x, along_y = field
        return los[:, 2] * up + los_plan[:, 0] * along_x + los_plan[:, 1] * along_y

    x, y, height = local[:, 0], local[:, 1], points.height
    up, along_x, along_y = motion.response.field(building, x, y)
    tilt = motion.response.tilt[building]
    # A building over a trough follows its plane as a rigid body, so that the tilt also moves high points sideways.
    followed = seen((up, along_x - tilt[:, 0] * height, along_y - tilt[:, 1] * height))
    in_ground = (los * greenfield(motion.tunnels, points.east_north)).sum(axis=1)
    on_structure = points.kind == STRUCTURE
    time, day = acquisition.days / length_days, start_day + acquisition.days
    return np.asarray(
        (on_structure * los[:, 2] * motion.hinges.up(building, x, y))[:, None] * motion.failing.at(time)[building]
        + (on_structure * seen(motion.rigid.field(building, x, y, height)))[:, None] * motion.sinking.at(time)[building]
        + np.select([on_structure, points.kind == GROUND], [followed, in_ground])[:, None]
        * motion.passing.at(time)[building]
        + (on_structure * seen(motion.thermal.field(building, x, y, height)))[:, None]
        * motion.thermal.season(day)[building],
        float,
    )


def background(rng: np.random.Generator, velocity: Array, points: Scatterers, acquisition: Acquisition) -> Array:
    """What every point of a track shows (N, T), mm: the region's motion and the track's own reference.

    Points that are astray move on their own besides. `velocity` (3,) is the region's: east, north, up, mm a year.
    """
    years = acquisition.days / DAYS_A_YEAR
    astray = points.kind == ASTRAY
    rate = acquisition.los(points.east_north) @ velocity + rng.normal(0, 0.5)
    rate = rate + astray * rng.normal(0, 15, len(rate))
    season = astray * rng.normal(0, 4, len(rate))
    swing = np.sin(2 * np.pi * years + rng.uniform(0, 2 * np.pi))
    return np.asarray(rng.normal(0, 3) + rate[:, None] * years + season[:, None] * swing, float)


def measurement_noise(rng: np.random.Generator, points: Scatterers, acquisition: Acquisition, band: Band) -> Array:
    """Noise (N, T), mm: each point's own, the part common to its building, bad epochs and unwrapping jumps.

    Drawn on the regular grid of epochs, so that a gap also parts what lies on its two sides.
    """
    epochs, count = len(acquisition.kept), int(points.building.max()) + 1
    own, common = rng.uniform(0.2, 0.6, 2)
    shared = correlated(rng, rng.uniform(*COMMON_NOISE_MM, count), epochs, float(common))
    noise = correlated(rng, points.noise, epochs, float(own)) + shared[points.building]
    noise += bad_epochs(rng, points.noise, epochs, BAD_EPOCH_SHARE)
    noise += jumps(rng, len(points.noise), epochs, JUMP_SHARE, band.wavelength_mm)
    return np.asarray(noise[:, acquisition.kept], float)
