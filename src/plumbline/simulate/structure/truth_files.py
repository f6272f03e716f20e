"""Write footprints and labels of simulated buildings as text, part by part."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
import shapely
from numpy.typing import NDArray

from plumbline.core.compass import QUADRANTS
from plumbline.core.strain import DIFFICULTIES, category
from plumbline.simulate.structure.labels import Strains
from plumbline.sources.crs import GLOBE, transformer
from plumbline.sources.points.egms.l2 import CRS

FOOTPRINTS_BEGIN = (
    '{\n"type": "FeatureCollection",\n"name": "footprints",\n"xy_coordinate_resolution": 1e-09,\n"features": [\n'
)
FOOTPRINTS_END = "\n]\n}\n"
BETWEEN_FEATURES = ",\n"
LABELS_HEADER = "building_id,severity_permille,quadrant,scenario,difficulty\n"


def footprint_features(
    identifiers: list[str],
    polygon: NDArray[np.object_],
    height: NDArray[np.float64] | None,
    further: Sequence[Mapping[str, str | float]] | None = None,
) -> str:
    """GeoJSON features, one a line, in longitude and latitude to about a tenth of a millimetre (RFC 7946).

    Args:
        identifiers: (B,) building ids.
        polygon: (B,) polygons or multipolygons in EPSG:3035.
        height: (B,) m; NaN where unknown; None where no building has one.
        further: (B,) more properties of each.
    """
    to_degrees = transformer(CRS, GLOBE)
    degrees = shapely.transform(polygon, lambda at: np.round(np.stack(to_degrees.transform(*at.T), axis=1), 9))
    # The outer ring counter-clockwise, as the RFC has it.
    shapes = shapely.to_geojson(shapely.orient_polygons(degrees, exterior_cw=False))
    lines = []
    for row, (identifier, shape) in enumerate(zip(identifiers, shapes, strict=True)):
        properties: dict[str, str | float | None] = {"building_id": identifier}
        if height is not None:
            properties["height_m"] = None if np.isnan(height[row]) else float(height[row])
        properties |= further[row] if further is not None else {}
        lines.append(f'{{"type": "Feature", "properties": {json.dumps(properties)}, "geometry": {shape}}}')
    return BETWEEN_FEATURES.join(lines)


def label_rows(identifiers: list[str], labels: Strains, scenarios: list[str], levels: NDArray[np.intp]) -> str:
    """Rows of labels: severity, quadrant (empty below category 1), what happened to a building, and its difficulty."""
    severity = np.round(labels.severity_permille, 5)
    damaged = category(severity) > 0
    rows = []
    for i, (identifier, scenario) in enumerate(zip(identifiers, scenarios, strict=True)):
        quadrant = QUADRANTS[labels.quadrant[i]] if damaged[i] else ""
        rows.append(f"{identifier},{severity[i]:.5f},{quadrant},{scenario},{DIFFICULTIES[levels[i]]}\n")
    return "".join(rows)
