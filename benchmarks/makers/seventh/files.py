"""The files of a city: EGMS L2b csv, GeoJSON, labels; and for people the truth."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import shapely
from pyproj import Transformer

from benchmarks.makers.seventh.observe import Product
from benchmarks.makers.seventh.settings import WAVELENGTH_MM, Array
from benchmarks.makers.seventh.strain import quadrant_of
from benchmarks.makers.seventh.structure import Structure


def names_of(city: str, structures: list[Structure]) -> list[str]:
    """Identifiers of houses."""
    return [f"{city}-{number:05d}" for number in range(len(structures))]


def write_product(path: Path, product: Product, band: str, identifier: str) -> None:
    """An EGMS L2b csv, less the columns that nothing reads; identifiers of points begin with the one given."""
    columns = {
        "pid": [f"{identifier}{number:07d}" for number in range(len(product.height))],
        "mp_type": 0,
        "easting": product.east_north[:, 0].round(2),
        "northing": product.east_north[:, 1].round(2),
        "height": product.height.round(1),
        "rmse": product.noise_mm.round(1),
        "temporal_coherence": _coherence(product.noise_mm, band).round(2),
        "incidence_angle": product.incidence_deg.round(2),
        "track_angle": round(product.track.heading_deg, 2),
        **{name: product.los[:, axis].round(3) for axis, name in enumerate(("los_east", "los_north", "los_up"))},
    }
    series = pd.DataFrame(product.displacement.round(1), columns=product.track.dates.strftime("%Y%m%d"))
    pd.concat([pd.DataFrame(columns), series], axis=1).to_csv(path, index=False)


def write_footprints(path: Path, city: str, structures: list[Structure]) -> None:
    """GeoJSON in the coordinates of its standard."""
    to_geographic = Transformer.from_crs(3035, 4326, always_xy=True)
    features = []
    for name, structure in zip(names_of(city, structures), structures, strict=True):
        corners = np.stack(to_geographic.transform(*shapely.get_coordinates(structure.outline).T), 1)
        geometry = {"type": "Polygon", "coordinates": [corners.round(9).tolist()]}
        features.append({"type": "Feature", "properties": {"building_id": name}, "geometry": geometry})
    collection = {"type": "FeatureCollection", "name": "footprints", "features": features}
    path.write_text(json.dumps(collection), encoding="utf-8")


def write_labels(path: Path, city: str, structures: list[Structure]) -> None:
    """The labels of all houses."""
    pd.DataFrame(
        {
            "building_id": names_of(city, structures),
            "severity_permille": [one.severity_permille for one in structures],
            "quadrant": [one.quadrant for one in structures],
        }
    ).to_csv(path, index=False)


def write_truth(path: Path, city: str, structures: list[Structure]) -> None:
    """How each house was made, to look at what is got wrong; no stage reads it."""
    hinges = [one.hinge for one in structures]
    pd.DataFrame(
        {
            "building_id": names_of(city, structures),
            "target_permille": [one.target_strain * 1e3 for one in structures],
            "failed": [quadrant_of(*hinge.sign) if hinge else "" for hinge in hinges],
            "drop_mm": [hinge.drop_m * 1e3 if hinge else 0.0 for hinge in hinges],
            "hinge_power": [hinge.power if hinge else np.nan for hinge in hinges],
            "troughs": [len(one.troughs) for one in structures],
            "settlement_mm": [one.settlement_m * 1e3 for one in structures],
            "tilt_x": [one.tilt[0] for one in structures],
            "tilt_y": [one.tilt[1] for one in structures],
            "height_m": [one.height_m for one in structures],
            "l_shaped": [one.building.notch is not None for one in structures],
            "position_m": [one.position_m for one in structures],
        }
    ).to_csv(path, index=False)


def _coherence(noise_mm: Array, band: str) -> Array:
    """(P,) as products say it of noise (P,)."""
    if band == "X":
        phase = 4 * np.pi / WAVELENGTH_MM[band] * noise_mm
        return np.clip(np.exp(-0.5 * phase**2), 0.2, 0.99)
    return np.clip(1 - 0.05 * noise_mm**1.35, 0.2, 0.99)
