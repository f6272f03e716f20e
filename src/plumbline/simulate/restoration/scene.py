"""Make one scene: the ground's movement, the scatterers of its tracks, and their histories."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plumbline.simulate.radar.acquisition import BANDS, Acquisition, draw_acquisitions
from plumbline.simulate.radar.noise import Law, add_bad_epochs, draw_memory
from plumbline.simulate.random_numbers import log_uniform
from plumbline.simulate.restoration.degradation import Degradation, delays, draw_degradation, unwrapping_patches
from plumbline.simulate.restoration.ground import draw_buildings, draw_movements
from plumbline.simulate.restoration.movements import Buildings, Movement
from plumbline.simulate.structure.time_courses import Histories, draw_histories

Array = NDArray[np.float64]
BAND = "C"
EPOCHS = (45, 150)
REVISIT_DAYS = 12
START = np.datetime64("2019-01-02")
ON_BUILDINGS = 0.75
"""Share of the scatterers."""
COAST_SHARE = 0.35
"""Of the scenes, a part of which has no scatterer: water, a forest, the end of what was processed."""
HOLES = 3
"""At most: parks, water, new building sites, without a scatterer."""
BAD_EPOCH_SHARE = 0.02
THERMAL_MM = 2.0
"""Largest amplitude of a building's season."""


@dataclass(frozen=True)
class SceneAbout:
    """Settings and seed that a scene is drawn from."""

    name: str
    domain: str
    level: str
    seed: int
    tracks: int
    cells: int
    """Of a side."""
    cell_m: float

    @property
    def extent(self) -> float:
        """Side, m."""
        return self.cells * self.cell_m


@dataclass(frozen=True)
class Ground:
    """Movements of the ground, and their courses in time."""

    movements: list[Movement]
    courses: Histories
    """A row a movement."""

    def total(self, east_north: Array) -> Array:
        """Return the total movement (N, 3), mm, over the observation."""
        return np.asarray(sum(part.displacement(east_north) for part in self.movements), float)

    def along(self, east_north: Array, los: Array, time: Array) -> Array:
        """Return displacement (N, T), mm, towards the satellite at shares `time` of the observation."""
        share = self.courses.at(time)
        parts = zip(self.movements, share, strict=True)
        return np.asarray(
            sum(np.einsum("nc,nc->n", m.displacement(east_north), los)[:, None] * s for m, s in parts), float
        )


@dataclass(frozen=True)
class SceneTrack:
    """Scatterers of one track."""

    dates: NDArray[np.datetime64]
    """(T,)"""
    heading_deg: float
    """Direction of flight, clockwise from north."""
    incidence_deg: Array
    """(N,)"""
    east_north: Array
    """(N, 2) as the product has them, m from the scene's centre."""
    height: Array
    los: Array
    displacement: Array
    """(N, T) mm."""


@dataclass(frozen=True)
class Scene:
    """A scene as it is written."""

    about: SceneAbout
    degradation: Degradation | None
    """None where the noise is that of real points."""
    ground: Ground
    tracks: list[SceneTrack]


def make_scene(about: SceneAbout) -> Scene:
    """Draw everything; the same `about` gives the same scene."""
    rng = np.random.default_rng([about.seed, *about.name.encode()])
    town = draw_buildings(rng, about.extent)
    movements = draw_movements(rng, about.extent, town)
    ground = Ground(movements, draw_histories(rng, len(movements)))
    degradation = draw_degradation(rng, about.domain, about.level)
    years = float(log_uniform(rng, *EPOCHS, 1)[0]) * REVISIT_DAYS / 365.25
    pairs = [draw_acquisitions(rng, BANDS[BAND], slot, years, REVISIT_DAYS) for slot in (0, 1)]
    # An ascending and a descending one, then another of either; a scene of one track has either.
    order = [pairs[0][0], pairs[0][1], pairs[1][int(rng.integers(0, 2))]]
    chosen = order[: about.tracks] if about.tracks > 1 else [order[int(rng.integers(0, 2))]]
    holes = [
        (rng.uniform(-0.5, 0.5, 2) * about.extent, rng.uniform(40, 160)) for _ in range(rng.integers(0, HOLES + 1))
    ]
    if rng.random() < COAST_SHARE:  # a circle so large that its rim is a coast
        where, radius = rng.uniform(-np.pi, np.pi), float(log_uniform(rng, 1, 20, 1)[0]) * about.extent
        away = radius + rng.uniform(-0.05, 0.4) * about.extent
        holes.append((away * np.array([np.cos(where), np.sin(where)]), radius))
    length = max(float(a.days[-1]) for a in chosen)
    start = min(float(a.days[0]) for a in chosen)
    tracks = []
    for acquisition in chosen:
        true = _places(rng, town, about.extent, degradation.density, holes)
        time = (acquisition.days - start) / max(length - start, 1)
        tracks.append(_track(rng, acquisition, true, time, about, degradation, ground))
    return Scene(about, degradation, ground, tracks)


def _places(
    rng: np.random.Generator, town: Buildings, extent: float, density: float, holes: list[tuple[Array, float]]
) -> Array:
    """Draw scatterers' positions (N, 2): most on buildings, some between them, and holes without any."""
    count = max(6, int(rng.poisson(density * (extent / 1000) ** 2)))
    number = rng.integers(0, len(town.angle), count)
    local = rng.uniform(-1, 1, (count, 2)) * town.half[number]
    cos, sin = np.cos(town.angle[number]), np.sin(town.angle[number])
    turned = np.column_stack([local[:, 0] * cos - local[:, 1] * sin, local[:, 0] * sin + local[:, 1] * cos])
    on = town.centre[number] + turned
    free = rng.uniform(-0.5, 0.5, (count, 2)) * extent
    place = np.where((rng.random(count) < ON_BUILDINGS)[:, None], on, free)
    kept = (np.abs(place) <= extent / 2).all(axis=1)
    for centre, radius in holes:
        kept &= np.hypot(*(place - centre).T) > radius
    return place[kept] if kept.sum() >= 6 else place[:6]


def _track(
    rng: np.random.Generator,
    acquisition: Acquisition,
    true: Array,
    time: Array,
    about: SceneAbout,
    degradation: Degradation,
    ground: Ground,
) -> SceneTrack:
    count, epochs = len(true), len(time)
    los = acquisition.los(true)
    law = Law(rng.uniform(0, 0.5), rng.uniform(0.6, 1.6), float(log_uniform(rng, 2, 30, 1)[0]))
    sigma = degradation.noise_mm * np.exp(rng.normal(0, 0.35, count))
    series = law.draw(rng, sigma, draw_memory(rng, count), epochs)
    add_bad_epochs(rng, series, sigma, BAD_EPOCH_SHARE)
    series += ground.along(true, los, time)
    own = np.flatnonzero(rng.random(count) < degradation.gross)
    series[own] += rng.normal(0, 15, (len(own), 1)) * time
    # A straight line over T epochs keeps sqrt(12 / T) of what is independent from one to the next.
    turbulent = degradation.atmosphere_mm * np.sqrt(epochs / 12)
    series += delays(rng, true, about.extent, turbulent, epochs)
    series += unwrapping_patches(rng, true, about.extent, degradation.patches, time, BANDS[BAND].wavelength_mm)
    season = np.cos(2 * np.pi * acquisition.days / 365.25 + rng.uniform(-np.pi, np.pi))
    series += rng.uniform(0, THERMAL_MM) * rng.random(count)[:, None] * season
    series += rng.normal(0, 3)  # histories start anywhere
    place = true + rng.normal(0, degradation.position_m, (count, 2))
    return SceneTrack(
        np.asarray(START + acquisition.days.astype(int)),
        acquisition.heading_deg,
        acquisition.incidence(place),
        place,
        50 + rng.normal(0, 1, count),
        los,
        series,
    )
