"""Make scenes over a user's own points: their places, lines of sight and noise, with a
known movement put in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from plumbline.core.arrays import Array
from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.fields.simulate.scene import (
    LEVELS,
    MovingGround,
    Scene,
    SceneAbout,
    SceneTrack,
    draw_ground,
    write_scene,
)
from plumbline.params.fields import BorrowedScenes, SimulateFields
from plumbline.simulate.borrowed.track import LEAST_EPOCHS, Smooth
from plumbline.sources.city.in_memory import read_tracks
from plumbline.sources.points.epochs import DAYS_A_YEAR
from plumbline.sources.points.track import Track

LEAST_POINTS = 50
"""Smallest number of points of each track in a window that is borrowed."""
TRIES = 200
GROUP_M = 60.0
"""Side of the squares whose points share the common part of their noise."""
DOMAIN = "plain"


def write_borrowed(scenes: Path, name: str, about: BorrowedScenes, params: SimulateFields) -> None:
    """Write `about.scenes` scenes over drawn windows of the products into `scenes`; they
    are trained on as plain ones.

    Raises:
        InputError: the products are refused, have too few epochs, or no window has enough points.
    """
    tracks = read_tracks(about.points)
    short = [track.name for track in tracks if len(track.epochs) < LEAST_EPOCHS]
    if short:
        raise InputError(
            f"simulate.borrowed.{name}: {short[0]} has fewer than {LEAST_EPOCHS} epochs. Leave "
            "it out.",
            key="epochs.too_few",
        )
    for number in range(about.scenes):
        label = f"{DOMAIN}-{name}-{number:05d}"
        rng = np.random.default_rng([params.seed, *label.encode()])
        size = params.cells * params.cell_m
        centre = _draw_centre(rng, tracks, size, name)
        inside = [_cut_track(track, centre, size) for track in tracks]
        level = LEVELS[number % len(LEVELS)]
        scene_about = SceneAbout(
            label, DOMAIN, level, params.seed, len(inside), params.cells, params.cell_m
        )
        write_scene(_make_scene(rng, scene_about, inside, centre), scenes / label)
    log.info("%s: %d scenes over %d tracks", name, about.scenes, len(tracks))


def _draw_centre(
    rng: np.random.Generator, tracks: Sequence[Track], size: float, name: str
) -> Array:
    """Draw the centre of a window in which every track has points."""
    first = tracks[0]
    for _ in range(TRIES):
        row = int(rng.integers(0, len(first)))
        centre = (
            np.array([first.easting[row], first.northing[row]]) + rng.uniform(-0.3, 0.3, 2) * size
        )
        if all(len(_cut_track(track, centre, size)) >= LEAST_POINTS for track in tracks):
            return centre
    raise InputError(
        f"simulate.borrowed.{name}: no place of {size:.0f} m with {LEAST_POINTS} points of every "
        "track found. Give "
        "products of one place, or leave the sparse one out.",
        key="borrowed.too_few_points",
    )


def _cut_track(track: Track, centre: Array, size: float) -> Track:
    distance = np.maximum(np.abs(track.easting - centre[0]), np.abs(track.northing - centre[1]))
    return track.take(distance <= size / 2)


def _make_scene(
    rng: np.random.Generator, about: SceneAbout, tracks: Sequence[Track], centre: Array
) -> Scene:
    _, ground = draw_ground(rng, about.extent)
    start = min(track.epochs[0] for track in tracks)
    days = float((max(track.epochs[-1] for track in tracks) - start) / np.timedelta64(1, "D"))
    return Scene(
        about,
        None,
        ground,
        [_borrow_track(rng, track, centre, ground, start=start, days=days) for track in tracks],
    )


def _borrow_track(
    rng: np.random.Generator,
    track: Track,
    centre: Array,
    ground: MovingGround,
    *,
    start: np.datetime64,
    days: float,
) -> SceneTrack:
    """Return a track's real points with their own noise; the part that the fit absorbs is
    drawn again."""
    place = np.column_stack([track.easting, track.northing]) - centre
    elapsed = (track.epochs - start) / np.timedelta64(1, "D")
    smooth = Smooth((elapsed - elapsed[0]) / DAYS_A_YEAR)
    residual = smooth.residual(track.displacement.astype(float))
    cell = np.floor(place / GROUP_M).astype(np.int64)
    group: NDArray[np.intp] = np.unique(cell, axis=0, return_inverse=True)[1].ravel()
    law = smooth.law(residual, group)
    shared = rng.standard_normal((int(group.max()) + 1, smooth.design.shape[1]))[group]
    # As likely the other way round: scenes do not share it.
    series = float(rng.choice([-1.0, 1.0])) * residual
    series = series + smooth.lost(rng, smooth.sigma(residual, law), shared, law)
    series = series + ground.along(place, track.los.astype(float), elapsed / max(days, 1.0))
    up = np.clip(track.los[:, 2], -1, 1)
    heading = float(np.degrees(np.arctan2(track.los[:, 1].mean(), -track.los[:, 0].mean())))
    incidence = np.degrees(np.arccos(up))
    height = np.nan_to_num(track.height.astype(float))
    return SceneTrack(
        track.epochs, heading, incidence, place, height, track.los.astype(float), series
    )
