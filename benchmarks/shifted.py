"""Cities unlike those that the pretrained model was made from, as deployments are: what adapting is measured on.

Made by the parts of `benchmarks.heldout`, each with one thing or two that training does not hold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from pathlib import Path

import numpy as np
import shapely
from numpy.typing import NDArray

from benchmarks.heldout.courses import draw_courses
from benchmarks.heldout.files import write_footprints, write_labels, write_product
from benchmarks.heldout.frame import frame_of
from benchmarks.heldout.labels import LOWEST_PERMILLE, Label
from benchmarks.heldout.noise import invented
from benchmarks.heldout.observe import Moving, Product, draw_counts, draw_positions, observe
from benchmarks.heldout.sensors import SENSORS, Sensor, draw_views
from benchmarks.heldout.structure import PARTS, draw_structures
from benchmarks.heldout.town import PROJECTED, Town, build_town
from plumbline.core.files import atomic_folder

X_BAND, C_BAND = SENSORS["xband"], SENSORS["sentinel"]


@dataclass(frozen=True)
class Domain:
    """A deployment."""

    why: str
    sensor: Sensor
    size: float = 1.0
    """All lengths of the town, times this."""
    offset_m: tuple[float, float] = (0.0, 0.0)
    """East and north, by which the points lie beside the footprints."""
    filter_m: float = 0.0
    """Radius within which each series is the mean of the series of its building."""
    label_factor: float = 1.0
    """Surveyed severity, times the strain of the design's definition."""


DOMAINS = {
    "lband": Domain(
        "L band, one track, few and noisy points, coarse positions",
        replace(
            C_BAND,
            wavelength_mm=236.0,
            revisit_days=(14,),
            years=(3.0, 4.0),
            points=12,
            points_range=(4, 30),
            noise_mm=(4.0, 9.0),
            common_mm=(4.0, 8.0),
            position_m=(3.0, 8.0),
            tracks=(1,),
        ),
    ),
    "halls": Domain(
        "X band on an industrial estate: lengths 2.5 times as large, one track", replace(X_BAND, tracks=(1,)), size=2.5
    ),
    "cottages": Domain("Sentinel-1 on small houses: lengths 0.6 times", replace(C_BAND, points=9), size=0.6),
    "offset": Domain("X band, footprints of a cadastre 6 m beside the points", X_BAND, offset_m=(5.0, -3.3)),
    "filtered": Domain("X band, a product averaged over 8 m", replace(X_BAND, tracks=(2,)), filter_m=8.0),
    "survey": Domain("Sentinel-1, strain surveyed by another rule: half as large", C_BAND, label_factor=0.5),
}


def make_domain(out: Path, name: str, buildings: int, seed: int) -> None:
    """Write the city folder of a domain: products, footprints, labels."""
    domain = DOMAINS[name]
    sensor = domain.sensor
    generator = np.random.default_rng([seed, list(DOMAINS).index(name)])
    town = _scaled(build_town(generator, buildings, PROJECTED), domain.size)
    structures, labels = draw_structures(generator, town)
    views, _ = draw_views(generator, sensor)
    first = date(2019, 3, 1)
    drawn = [draw_courses(generator, buildings) for _ in range(PARTS)]
    moving = Moving(
        town,
        structures,
        np.stack([kind for kind, _ in drawn], 1),
        np.stack([shape for _, shape in drawn], 1),
        int(max(view.days[-1] for view in views)),
        first.timetuple().tm_yday,
    )
    counts = draw_counts(generator, sensor, town, len(views))
    position = draw_positions(generator, sensor, buildings)
    noise: Callable[..., NDArray[np.float64]] = partial(invented, generator, sensor)
    with atomic_folder(out) as folder:
        for number, view in enumerate(views):
            product = observe(generator, sensor, view, moving, counts[:, number], noise, position)
            write_product(folder / f"EGMS_L2b_{view.name}_IW2_VV.csv", _altered(product, domain), first, sensor)
        write_footprints(folder / "footprints.geojson", town)
        write_labels(folder / "labels.csv", [_surveyed(one, domain.label_factor) for one in labels])


def _scaled(town: Town, size: float) -> Town:
    if size == 1.0:
        return town
    origin = shapely.get_coordinates(shapely.centroid(town.footprint)).mean(0)
    grown = shapely.transform(town.footprint, lambda xy: origin + size * (xy - origin))
    grown = shapely.set_precision(grown, 1e-3, mode="pointwise")
    return replace(
        town,
        footprint=grown,
        written=grown,
        frame=[frame_of(one) for one in grown],
        height=np.clip(town.height * size, 3.0, 40.0),
    )


def _altered(product: Product, domain: Domain) -> Product:
    moved = replace(product, east_north=product.east_north + np.array(domain.offset_m))
    if not domain.filter_m:
        return moved
    series = product.displacement.copy()
    for start, end in _runs(product.owner):
        place = product.east_north[start:end]
        near = np.hypot(*(place[:, None] - place[None]).transpose(2, 0, 1)) <= domain.filter_m
        own = product.displacement[start:end]
        there = np.isfinite(own)
        mean = near.astype(float) @ np.where(there, own, 0.0) / np.maximum(near.astype(float) @ there, 1.0)
        series[start:end] = np.where(there, mean, np.nan)
    return replace(moved, displacement=series)


def _runs(owner: NDArray[np.intp]) -> list[tuple[int, int]]:
    edge = np.flatnonzero(np.diff(owner)) + 1
    return list(zip(np.r_[0, edge].tolist(), np.r_[edge, len(owner)].tolist(), strict=True))


def _surveyed(label: Label, factor: float) -> Label:
    severity = round(label.severity * factor, 5)
    return Label(severity, label.quadrant if severity >= LOWEST_PERMILLE else "")
