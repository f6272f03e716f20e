"""Footprints and scatterers made up for these tests, without the simulator."""

from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import shapely
from hypothesis import settings
from shapely import affinity

from plumbline.params import Prepare, Simulate
from plumbline.simulate.stage import simulate
from plumbline.sources.points.track import Track

CRS = "EPSG:3035"
ORIGIN = (4_321_000.0, 3_210_000.0)
ASCENDING, DESCENDING = (-0.55, -0.12, 0.826), (0.60, -0.11, 0.792)
EPOCHS = np.datetime64("2020-01-01") + 12 * np.arange(60)
PARAMS = Prepare()
SPLITS = {"train": 0.4, "tune": 0.2, "calibrate": 0.2, "test": 0.2}
SMALL = Prepare(block_m=40, split=SPLITS)
"""For cities of some fifty buildings."""
FEWER = settings(max_examples=settings().max_examples // 3)
"""Of a test each of whose examples is dear."""


def los_of(*vectors: tuple[float, float, float]) -> np.ndarray[Any, Any]:
    """(K, 3) unit vectors."""
    array = np.array(vectors, float)
    return array / np.linalg.norm(array, axis=1, keepdims=True)


def make_track(name, position, height, los, displacement, *, epochs=EPOCHS) -> Track:
    """A track of N points; `los` (3,) or (N, 3)."""
    count = len(position)
    return Track(
        name=name,
        crs=CRS,
        epochs=epochs,
        point_id=np.array([f"{name}{i}" for i in range(count)], object),
        easting=position[:, 0],
        northing=position[:, 1],
        height=np.asarray(height, float),
        los=np.broadcast_to(los, (count, 3)).copy(),
        displacement=np.asarray(displacement, np.float32),
    )


def make_buildings(polygons) -> geopandas.GeoDataFrame:
    """A buildings table with the identifiers b0, b1, ..."""
    return geopandas.GeoDataFrame({"building_id": [f"b{i}" for i in range(len(polygons))]}, geometry=polygons, crs=CRS)


def box(length, width, centre=(0.0, 0.0), degrees=0.0):
    """A rectangle about ORIGIN + centre."""
    turned = affinity.rotate(shapely.box(-length / 2, -width / 2, length / 2, width / 2), degrees, origin=(0, 0))
    return affinity.translate(turned, ORIGIN[0] + centre[0], ORIGIN[1] + centre[1])


def series(change, rng, noise=0.5, epochs=EPOCHS):
    """(N, T) lines that reach `change` (N,) mm at the last epoch, with noise."""
    when = (epochs - epochs[0]) / (epochs[-1] - epochs[0])
    return np.asarray(change)[:, None] * when + rng.normal(0, noise, (len(change), len(epochs)))


def make_scene(seed=0, buildings=12, most=20):
    """Buildings on a row with scatterers of two tracks inside of them: (tracks, buildings table)."""
    rng = np.random.default_rng(seed)
    polygons, positions = [], []
    for number in range(buildings):
        length, width = rng.uniform(8, 30, 2)
        degrees = rng.uniform(-44, 44)
        polygons.append(box(length, width, (60 * number, 0), degrees))
        inside = rng.uniform(-0.5, 0.5, (rng.integers(2, most + 1), 2)) * (length, width)
        cos, sin = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
        positions.append(inside @ [[cos, sin], [-sin, cos]] + ORIGIN + np.array([60 * number, 0]))
    position = np.concatenate(positions)
    track = rng.integers(0, 2, len(position))
    height = rng.uniform(0, 15, len(position))
    change = rng.normal(0, 8, len(position))
    los = los_of(ASCENDING, DESCENDING)
    tracks = [
        make_track(name, position[track == i], height[track == i], los[i], series(change[track == i], rng))
        for i, name in enumerate(("up", "down"))
    ]
    return tracks, make_buildings(polygons)


def terrace(seed=0, houses=6, points=14, off_m=1.0, settled_mm=20.0, *, broken=None):
    """Houses of 9 m by 12 m wall to wall, each settling on its own: (tracks, footprints, owner of each track's points).

    Args:
        off_m: standard deviation of the places that are told, along the row.
        settled_mm: standard deviation of how far a house goes down; that of its tilt is a fortieth, mm/m.
        broken: a house whose quarter at its far wall and far side goes down by 15 mm more.
    """
    rng = np.random.default_rng(seed)
    footprints = np.array([box(9, 12, (9 * number, 0)) for number in range(houses)], object)
    settled, tilt = rng.normal(0, settled_mm, houses), rng.normal(0, settled_mm / 40, houses)
    tracks, owners = [], []
    for name, los in zip(("up", "down"), los_of(ASCENDING, DESCENDING), strict=True):
        owner = np.repeat(np.arange(houses), points)
        own = rng.uniform(-0.5, 0.5, (len(owner), 2)) * (9, 12)
        up = settled[owner] + tilt[owner] * own[:, 0]
        up -= 15.0 * ((owner == broken) & (own > 0).all(1))
        told = own + np.column_stack([9 * owner + rng.normal(0, off_m, len(owner)), np.zeros(len(owner))]) + ORIGIN
        tracks.append(make_track(name, told, np.full(len(owner), 3.0), los, series(up * los[2], rng, noise=1.0)))
        owners.append(owner)
    return tracks, footprints, owners


def simulate_small(folder: Path, *buildings: int, **about: Any) -> list[Path]:
    """Simulate a city of C band, and one of X band if it has buildings: their folders."""
    cities = {name: {"band": name.upper(), "buildings": count} for name, count in zip("cx", buildings, strict=False)}
    seeds = {name: {**city, "seed": seed} for seed, (name, city) in enumerate(cities.items(), 1)}
    showcase = {"band": "C", "buildings": 4, "seed": 3}
    simulate(Simulate.model_validate({"cities": seeds, "showcase": showcase, "years": 1.0} | about), folder)
    return sorted((folder / "cities").iterdir())
