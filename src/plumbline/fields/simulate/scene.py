"""Simulate a scene, degrade it, and write it as products with their truth.

Of the kinds, the degradation domains, `plain` has a little of each.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plumbline.core.arrays import Array
from plumbline.core.files import atomic_folder, write_json
from plumbline.fields.simulate.ground import Movement, TownBuildings, draw_buildings, draw_movements
from plumbline.simulate.radar.acquisition import (
    BANDS,
    Acquisition,
    draw_acquisitions,
    range_and_azimuth,
)
from plumbline.simulate.radar.egms_writer import EgmsPoints, EgmsProduct, egms_rows
from plumbline.simulate.radar.noise import (
    BAD_EPOCH_SHARE,
    Law,
    add_bad_epochs,
    delays,
    draw_memory,
    own_movement,
    shared_noise,
    unwrapping_patches,
)
from plumbline.simulate.random_numbers import log_uniform
from plumbline.simulate.structure.motion import Histories, draw_histories

LEVELS = ("easy", "medium", "hard")


@dataclass(frozen=True)
class Degradation:
    """Degradation of one scene."""

    density: float
    """Scatterers of a track a square kilometre."""
    noise_mm: float
    """Standard deviation of a scatterer's noise at one epoch."""
    gross: float
    """Share of the scatterers that move by themselves."""
    atmosphere_mm: float
    """Standard deviation of turbulent delay that is left in the change over the observation."""
    patches: int
    """Number of patches of each track that are off by half a wavelength from some epoch on."""
    position_m: float
    """Standard deviation of the position's error, each axis."""
    own_mm: float
    """Size of a typical scatterer's own slow movement over the observation. In products, neighbours
    differ by several times the noise of their series."""
    shared_mm: float
    """Standard deviation of the noise at an epoch that neighbours share, as after filters."""


def draw_degradation(rng: np.random.Generator, domain: str, level: str) -> Degradation:
    """Draw the degradation for a domain and a level of difficulty: each range is cut in
    thirds, easy to hard."""
    third = LEVELS.index(level)

    def between(easy: float, hard: float) -> float:
        return float(easy * (hard / easy) ** ((third + rng.random()) / 3))

    noise, gross = between(1.5, 5.0), between(0.004, 0.03)
    density, atmosphere = between(3000, 400), between(0.1, 1.2)
    own_mm, shared_mm = between(0.15, 4.0), between(0.2, 3.0)
    patches = int(rng.random() < 0.05 * (1 + third))
    if domain == "noise":
        noise, gross = between(6, 16), between(0.05, 0.2)
    elif domain == "atmosphere":
        atmosphere = between(2, 10)
    elif domain == "unwrapping":
        patches = 1 + third + int(rng.integers(0, 2))
    elif domain == "sparse":
        density = between(250, 40)
    return Degradation(
        density, noise, gross, atmosphere, patches, float(rng.uniform(0.5, 4)), own_mm, shared_mm
    )


BAND = "C"
EPOCHS = (45, 150)
REVISIT_DAYS = 12
START = np.datetime64("2019-01-02")
ON_BUILDINGS = 0.75
"""Share of the scatterers that are on buildings."""
COAST_SHARE = 0.35
"""Share of the scenes with a side without scatterers: water, a forest, the end of the product."""
HOLES = 3
"""Largest number of holes without scatterers: parks, water, new building sites."""
SHARED_M = (20.0, 80.0)
"""Range of the reach of the noise that neighbours share."""
MEMORY_DAYS = (2.0, 30.0)
"""Range of the time after which 1/e of a delay remains; products are filtered in time."""
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
    """Number of cells of a side."""
    cell_m: float

    @property
    def extent(self) -> float:
        """Side, m."""
        return self.cells * self.cell_m


@dataclass(frozen=True)
class MovingGround:
    """Movements of the ground, and their courses in time."""

    movements: list[Movement]
    courses: Histories
    """A row a movement."""

    def displacement(self, east_north: Array) -> Array:
        """Return the total movement (N, 3), mm, over the observation."""
        return np.asarray(sum(movement(east_north) for movement in self.movements), float)

    def along(self, east_north: Array, los: Array, time: Array) -> Array:
        """Return displacement (N, T), mm, towards the satellite at shares `time` of the
        observation."""
        share = self.courses.at(time)
        parts = zip(self.movements, share, strict=True)
        return np.asarray(
            sum(
                np.einsum("nc,nc->n", movement(east_north), los)[:, None] * course
                for movement, course in parts
            ),
            float,
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
    """(N, 2) positions in the product, m from the scene's centre."""
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
    ground: MovingGround
    tracks: list[SceneTrack]


def make_scene(about: SceneAbout) -> Scene:
    """Draw everything; the same `about` gives the same scene."""
    rng = np.random.default_rng([about.seed, *about.name.encode()])
    town, ground = draw_ground(rng, about.extent)
    degradation = draw_degradation(rng, about.domain, about.level)
    years = float(log_uniform(rng, *EPOCHS, 1)[0]) * REVISIT_DAYS / 365.25
    pairs = [draw_acquisitions(rng, BANDS[BAND], slot, years, REVISIT_DAYS) for slot in (0, 1)]
    # An ascending and a descending one, then another of either; a scene of one track has either.
    order = [pairs[0][0], pairs[0][1], pairs[1][int(rng.integers(0, 2))]]
    chosen = order[: about.tracks] if about.tracks > 1 else [order[int(rng.integers(0, 2))]]
    holes = [
        (rng.uniform(-0.5, 0.5, 2) * about.extent, rng.uniform(40, 160))
        for _ in range(rng.integers(0, HOLES + 1))
    ]
    if rng.random() < COAST_SHARE:  # a circle so large that its rim is a coast
        azimuth, radius = (
            rng.uniform(-np.pi, np.pi),
            float(log_uniform(rng, 1, 20, 1)[0]) * about.extent,
        )
        distance = radius + rng.uniform(-0.05, 0.4) * about.extent
        holes.append((distance * np.array([np.cos(azimuth), np.sin(azimuth)]), radius))
    length = max(float(a.days[-1]) for a in chosen)
    start = min(float(a.days[0]) for a in chosen)
    tracks = []
    for acquisition in chosen:
        true = _draw_positions(rng, town, about.extent, degradation.density, holes)
        time = (acquisition.days - start) / max(length - start, 1)
        tracks.append(
            _simulate_track(
                rng, acquisition, true, time, about=about, degradation=degradation, ground=ground
            )
        )
    return Scene(about, degradation, ground, tracks)


def draw_ground(rng: np.random.Generator, extent: float) -> tuple[TownBuildings, MovingGround]:
    """Draw the buildings and the moving ground of a scene of `extent` m."""
    town = draw_buildings(rng, extent)
    movements = draw_movements(rng, extent, town)
    return town, MovingGround(movements, draw_histories(rng, len(movements)))


def _draw_positions(
    rng: np.random.Generator,
    town: TownBuildings,
    extent: float,
    density: float,
    holes: list[tuple[Array, float]],
) -> Array:
    """Draw scatterers' positions (N, 2): most on buildings, some between them, and holes
    without any."""
    count = max(6, int(rng.poisson(density * (extent / 1000) ** 2)))
    number = rng.integers(0, len(town.angle), count)
    local = rng.uniform(-1, 1, (count, 2)) * town.half[number]
    cos, sin = np.cos(town.angle[number]), np.sin(town.angle[number])
    turned = np.column_stack(
        [local[:, 0] * cos - local[:, 1] * sin, local[:, 0] * sin + local[:, 1] * cos]
    )
    on = town.centre[number] + turned
    free = rng.uniform(-0.5, 0.5, (count, 2)) * extent
    place = np.where((rng.random(count) < ON_BUILDINGS)[:, None], on, free)
    inside = (np.abs(place) <= extent / 2).all(axis=1)
    for centre, radius in holes:
        inside &= np.hypot(*(place - centre).T) > radius
    return place[inside] if inside.sum() >= 6 else place[:6]


def _simulate_track(
    rng: np.random.Generator,
    acquisition: Acquisition,
    true: Array,
    time: Array,
    *,
    about: SceneAbout,
    degradation: Degradation,
    ground: MovingGround,
) -> SceneTrack:
    count, epochs = len(true), len(time)
    los = acquisition.los(true)
    law = Law(rng.uniform(0, 0.5), rng.uniform(0.6, 1.6), float(log_uniform(rng, 2, 30, 1)[0]))
    sigma = degradation.noise_mm * np.exp(rng.normal(0, 0.35, count))
    series = law.draw(rng, sigma, draw_memory(rng, count), epochs)
    add_bad_epochs(rng, series, sigma, BAD_EPOCH_SHARE)
    series += ground.along(true, los, time)
    gross_rows = np.flatnonzero(rng.random(count) < degradation.gross)
    series[gross_rows] += rng.normal(0, 15, (len(gross_rows), 1)) * time
    series += own_movement(rng, count, degradation.own_mm, time)
    reach = float(log_uniform(rng, *SHARED_M, 1)[0])
    series += shared_noise(
        rng, true, about.extent, sigma=degradation.shared_mm, reach_m=reach, epochs=epochs
    )
    correlation = float(np.exp(-REVISIT_DAYS / log_uniform(rng, *MEMORY_DAYS, 1)[0]))
    # A straight line over T epochs keeps sqrt(12 / T) of what is independent from one to the next.
    turbulent = degradation.atmosphere_mm * np.sqrt(
        epochs / 12 * (1 - correlation) / (1 + correlation)
    )
    series += delays(rng, true, about.extent, sigma=turbulent, epochs=epochs, rho=correlation)
    series += unwrapping_patches(
        rng,
        true,
        about.extent,
        count=degradation.patches,
        time=time,
        wavelength_mm=BANDS[BAND].wavelength_mm,
    )
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


TRUTH = "truth.npz"
DECIMALS = 4
"""Decimals of maps in files, mm: far below any noise, far above the last bits of a processor."""


def round_map(values: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
    """Return a map as it is written: `DECIMALS` decimals, and no zero with a sign."""
    return np.asarray(np.round(np.asarray(values, float), DECIMALS) + 0.0, np.float32)


ABOUT = "scene.json"
PLACE = (4321000.0, 3210000.0)
"""Easting and northing of a scene's centre in EPSG:3035, m; the place is arbitrary."""


def write_scene(scene: Scene, out: Path) -> None:
    """Write the csv files of the tracks, `truth.npz` and `scene.json` into the folder `out`."""
    about = scene.about
    with atomic_folder(out) as folder:
        for number, track in enumerate(scene.tracks):
            _write_track(track, number, about.seed, folder)
        row = (np.arange(about.cells) + 0.5) * about.cell_m - about.extent / 2
        east, north = np.meshgrid(row, row[::-1])
        displacement = scene.ground.displacement(
            np.column_stack([east.ravel(), north.ravel()])
        ).reshape(about.cells, about.cells, 3)
        west_m, north_m = PLACE[0] - about.extent / 2, PLACE[1] + about.extent / 2
        np.savez_compressed(
            folder / TRUTH,
            up_mm=round_map(displacement[..., 2]),
            east_mm=round_map(displacement[..., 0]),
            left=west_m,
            top=north_m,
            cell_m=about.cell_m,
        )
        settings = vars(scene.degradation) if scene.degradation else {}
        degradation = {name: round(value, 6) for name, value in settings.items()}
        write_json(folder / ABOUT, {**vars(about), "degradation": degradation or None})


def _write_track(track: SceneTrack, number: int, seed: int, folder: Path) -> None:
    years = track.dates[[0, -1]].astype("datetime64[Y]").astype(str)
    name = f"EGMS_L2b_{number + 1:03d}_{100 + number:04d}_IW2_VV_{years[0]}_{years[1]}_1.csv"
    product = EgmsProduct(name, track.dates, BANDS[BAND].wavelength_mm)
    count = len(track.east_north)
    in_range, in_azimuth = range_and_azimuth(track.heading_deg) @ (track.east_north + 1e4).T
    azimuth_m, slant_m = BANDS[BAND].pixel_m
    points = EgmsPoints(
        number=np.arange(count, dtype=np.int64) + 1 + (number + 1) * 62**6,
        position=track.east_north + np.array(PLACE),
        height=track.height,
        los=track.los,
        incidence=track.incidence_deg,
        track_angle=np.full(count, track.heading_deg),
        line=np.floor(np.abs(in_azimuth) / azimuth_m),
        pixel=np.floor(np.abs(in_range) / slant_m),
    )
    rng = np.random.default_rng([seed, number])
    (folder / name).write_bytes(
        product.header + egms_rows(rng, product, points, track.displacement)
    )
