"""The files of a city, in the formats that users have: EGMS L2b csv, GeoJSON, labels."""

from __future__ import annotations

import json
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pacsv
import shapely
from numpy.typing import NDArray

from benchmarks.heldout.frame import QUADRANTS
from benchmarks.heldout.labels import Label
from benchmarks.heldout.observe import Product
from benchmarks.heldout.sensors import Sensor
from benchmarks.heldout.structure import Structure
from benchmarks.heldout.town import Town

Array = NDArray[np.float64]


def names_of(count: int) -> list[str]:
    """Identifiers of buildings."""
    return [f"H{number:05d}" for number in range(count)]


def write_product(path: Path, product: Product, first: date, sensor: Sensor) -> None:
    """An EGMS L2b csv with the header of the releases since 2019-2023, less what nothing here reads."""
    count = len(product.owner)
    noise = np.nanstd(np.diff(product.displacement, axis=1), axis=1) / np.sqrt(2)
    columns: dict[str, object] = {
        "pid": [f"{product.view.name}{number:07d}" for number in range(count)],
        "mp_type": np.zeros(count, int),
        "easting": product.east_north[:, 0].round(2),
        "northing": product.east_north[:, 1].round(2),
        "height_ortho": product.height.round(1),
        "rmse_ts": noise.round(1),
        "temporal_coherence": np.exp(-((4 * np.pi / sensor.wavelength_mm * noise) ** 2) / 2).round(2),
        "incidence_angle": np.degrees(product.incidence).round(2),
        "track_angle": np.full(count, round(np.degrees(product.view.heading), 2)),
        **{name: product.los[:, axis].round(3) for axis, name in enumerate(("los_east", "los_north", "los_up"))},
    }
    for number, day in enumerate(product.view.days.tolist()):
        values = product.displacement[:, number].round(1)
        columns[f"{first + timedelta(days=day):%Y%m%d}"] = pa.array(values, mask=np.isnan(values))
    pacsv.write_csv(pa.table(columns), path, pacsv.WriteOptions(quoting_style="none"))


def write_footprints(path: Path, town: Town) -> None:
    """GeoJSON; its CRS is named, unless it is that of the standard."""
    features = [
        {"type": "Feature", "properties": {"building_id": name}, "geometry": json.loads(shape)}
        for name, shape in zip(names_of(len(town.shape)), shapely.to_geojson(town.written), strict=True)
    ]
    about: dict[str, object] = {"type": "FeatureCollection"}
    if town.crs != "EPSG:4326":
        code = town.crs.replace("EPSG:", "urn:ogc:def:crs:EPSG::")
        about["crs"] = {"type": "name", "properties": {"name": code}}
    path.write_text(json.dumps({**about, "features": features}) + "\n", encoding="utf-8")


def write_labels(path: Path, labels: list[Label]) -> None:
    """The labels of all buildings."""
    table = pd.DataFrame(labels, columns=["severity_permille", "quadrant"])
    table.insert(0, "building_id", names_of(len(labels)))
    table.to_csv(path, index=False)


def write_truth(
    path: Path, town: Town, structures: list[Structure], counts: NDArray[np.int64], position: Array
) -> None:
    """How each building was made, to look at what is got wrong; no stage reads it."""
    hinges = [one.hinge for one in structures]
    pd.DataFrame(
        {
            "building_id": names_of(len(structures)),
            "shape": town.shape,
            "height_m": town.height.round(1),
            "side_x": [frame.side[0].round(2) for frame in town.frame],
            "side_y": [frame.side[1].round(2) for frame in town.frame],
            "scatterers": counts.sum(1),
            "position_m": position.round(2),
            "failed": [QUADRANTS[hinge.quadrant] if hinge else "" for hinge in hinges],
            "profile": [hinge.profile if hinge else "" for hinge in hinges],
            "trough": [one.trough is not None for one in structures],
        }
    ).to_csv(path, index=False)
