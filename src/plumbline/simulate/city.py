"""One invented city, from its seed to its folder."""

from __future__ import annotations

import csv
import time
from pathlib import Path

import geopandas
import numpy as np
import shapely

from plumbline.compass import QUADRANTS
from plumbline.console import log
from plumbline.params import City
from plumbline.simulate.acquisition import BANDS, draw_acquisitions
from plumbline.simulate.egms import CRS, Product, write_egms
from plumbline.simulate.layout import Layout, draw_layout
from plumbline.simulate.motion import Motion, draw_labels, draw_motion
from plumbline.simulate.scatterers import draw_scatterers, position_errors
from plumbline.simulate.series import background, measurement_noise, true_motion
from plumbline.strain import Strain, category

PLACES = (
    (3973000.0, 3263000.0),
    (4321000.0, 3210000.0),
    (3761000.0, 2889000.0),
    (4530000.0, 2090000.0),
    (3665000.0, 2065000.0),
    (4641000.0, 2951000.0),
    (3161000.0, 2031000.0),
    (4437000.0, 2780000.0),
    (3923000.0, 2534000.0),
    (5070000.0, 3285000.0),
    (4483000.0, 3629000.0),
    (4792000.0, 2807000.0),
)
"""Centres of cities in EPSG:3035, m: round numbers, nobody's real buildings."""
PLACES_APART_M = 40_000.0


def write_city(folder: Path, name: str, city: City, slot: int, years: float, damaged: float, labels: str) -> None:
    """Simulate a city and write its two products, its footprints and its labels.

    Args:
        folder: an existing, empty folder.
        name: the city's name; building ids start with it, and it takes part in the seed.
        city: band, number of buildings and seed.
        slot: the city's number, which gives it a place and track numbers of its own.
        years: length of the observation.
        damaged: share of buildings with a local failure.
        labels: name of the file of labels.
    """
    began = time.monotonic()
    seeds = np.random.SeedSequence([city.seed, *name.encode()]).spawn(6)
    general, of_layout, of_motion, of_points, *of_tracks = (np.random.default_rng(seed) for seed in seeds)
    band = BANDS[city.band]
    tracks = draw_acquisitions(general, band, slot, years)
    start = np.datetime64("2018-01-01") + int(general.integers(0, 4 * 365))
    velocity = general.normal(0, (0.8, 0.8, 1.5))
    layout = draw_layout(of_layout, city.buildings)
    motion = draw_motion(of_motion, layout, damaged)
    strains = draw_labels(motion, layout.frames.side, f"{name}: labels")
    points = draw_scatterers(of_points, layout, band)
    error = position_errors(of_points, points, tracks, band)
    start_day = float((start - start.astype("datetime64[Y]")).astype(int))
    length_days = max(float(acquisition.days[-1]) for acquisition in tracks)
    for number, (acquisition, rng) in enumerate(zip(tracks, of_tracks, strict=True)):
        seen = np.flatnonzero(points.track == number)
        visible = points.subset(seen)
        displacement = true_motion(motion, layout, visible, acquisition, start_day, length_days)
        displacement += background(rng, velocity, visible, acquisition)
        displacement += measurement_noise(rng, visible, acquisition, band)
        product = Product(
            acquisition=acquisition,
            start=start,
            place=place(slot),
            east_north=visible.east_north + error[seen, :2],
            height=layout.ground[visible.building] + visible.height + error[seen, 2],
            displacement=displacement,
            gnss_velocity=float(acquisition.los(np.zeros((1, 2)))[0] @ velocity),
        )
        write_egms(rng, folder, product, band)
    identifiers = [f"{name}_{i:06d}" for i in range(city.buildings)]
    write_footprints(folder / "footprints.geojson", identifiers, layout, slot)
    write_labels(folder / labels, identifiers, motion, strains)
    log.info(
        "%s: %d buildings, %d points in %d and %d epochs, %.0f s",
        *(name, city.buildings, len(points.building), *(len(t.days) for t in tracks), time.monotonic() - began),
    )


def place(slot: int) -> tuple[float, float]:
    """Easting and northing of a city's centre, m; every slot has its own."""
    ring, number = divmod(slot, len(PLACES))
    easting, northing = PLACES[number]
    return easting + ring * PLACES_APART_M, northing


def write_footprints(path: Path, identifiers: list[str], layout: Layout, slot: int) -> None:
    """Write the footprints as GeoJSON in longitude and latitude, to about a tenth of a millimetre."""
    centre = np.array(place(slot))
    polygon = shapely.transform(layout.polygon, lambda coordinates: coordinates + centre)
    table = geopandas.GeoDataFrame(
        {"building_id": identifiers, "height_m": layout.height}, geometry=list(polygon), crs=CRS
    )
    # RFC 7946 is longitude and latitude on WGS84, to seven decimals unless told otherwise.
    table.to_file(path, driver="GeoJSON", engine="pyogrio", RFC7946="YES", COORDINATE_PRECISION=9)


def write_labels(path: Path, identifiers: list[str], motion: Motion, strains: list[Strain]) -> None:
    """Write severity, quadrant (empty below category 1) and what happened to each building."""
    severity = np.round([strain.severity_permille for strain in strains], 5)
    categories = category(severity)
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["building_id", "severity_permille", "quadrant", "scenario"])
        for i, (identifier, strain) in enumerate(zip(identifiers, strains, strict=True)):
            quadrant = QUADRANTS[strain.quadrant] if categories[i] > 0 else ""
            writer.writerow([identifier, f"{severity[i]:.5f}", quadrant, motion.scenario(i)])
