"""What is written besides the products: footprints, labels and the truth."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyproj
import shapely
from numpy.typing import NDArray

from benchmarks.makers.eighth.courses import KINDS
from benchmarks.makers.eighth.labels import LOWEST_PERMILLE
from benchmarks.makers.eighth.structures import Rigid, Structure
from benchmarks.makers.eighth.town import Town


def names_of(count: int) -> list[str]:
    """Identifiers of buildings."""
    return [f"b{number:05d}" for number in range(count)]


def write_footprints(path: Path, town: Town) -> None:
    """GeoJSON in the CRS of its standard."""
    to = pyproj.Transformer.from_crs("EPSG:3035", "EPSG:4326", always_xy=True)
    features = []
    for name, polygon, height in zip(names_of(len(town.footprint)), town.footprint, town.height, strict=True):
        corners = np.column_stack(to.transform(*shapely.get_coordinates(polygon).T)).round(9)
        features.append(
            {
                "type": "Feature",
                "properties": {"building_id": name, "height_m": round(float(height), 1)},
                "geometry": {"type": "Polygon", "coordinates": [corners.tolist()]},
            }
        )
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}), encoding="utf-8")


def write_labels(path: Path, structures: list[Structure]) -> None:
    """The labels of all buildings."""
    # As it is written: category and quadrant agree.
    severity = np.array([structure.label.severity for structure in structures]).round(5)
    quadrant = np.where(severity >= LOWEST_PERMILLE, [structure.label.quadrant for structure in structures], "")
    columns = {"building_id": names_of(len(structures)), "severity_permille": severity, "quadrant": quadrant}
    pd.DataFrame(columns).to_csv(path, index=False)


def write_truth(path: Path, town: Town, structures: list[Structure], counts: NDArray[np.int64]) -> None:
    """How each building was made, to look at what is got wrong; no stage reads it."""
    failures = [structure.failure for structure in structures]
    side = np.array([structure.frame.side for structure in structures])
    columns = {
        "building_id": names_of(len(structures)),
        "shape": [failure.shape if failure else "none" for failure in failures],
        "outwards": [np.hypot(*failure.outwards) if failure else 0.0 for failure in failures],
        "trough": [not isinstance(structure.parts[2], Rigid) for structure in structures],
        "course": [list(KINDS)[int(structure.courses[0][0])] for structure in structures],
        "height_m": town.height,
        "length_x_m": side[:, 0],
        "length_y_m": side[:, 1],
        "points": counts.sum(1),
    }
    pd.DataFrame(columns).round(3).to_csv(path, index=False)
