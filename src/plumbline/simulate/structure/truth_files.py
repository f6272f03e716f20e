"""Write footprints and labels of simulated buildings as text, part by part."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
import shapely
from numpy.typing import NDArray

from plumbline.core.compass import QUADRANTS, join_quadrants
from plumbline.core.strain import DIFFICULTIES, MECHANISMS, category
from plumbline.simulate.structure.motion import Labels
from plumbline.sources.crs import GLOBE, transformer
from plumbline.sources.points.egms.l2 import CRS

FOOTPRINTS_BEGIN = (
    '{\n"type": "FeatureCollection",\n"name": "footprints",\n"xy_coordinate_resolution": 1e-09,\n"features": [\n'
)
FOOTPRINTS_END = "\n]\n}\n"
BETWEEN_FEATURES = ",\n"
LABELS_HEADER = "building_id,severity_permille,quadrant,accepted,mechanism,scenario,difficulty\n"


def footprint_features(
    identifiers: list[str],
    polygon: NDArray[np.object_],
    height: NDArray[np.float64] | None,
    further: Sequence[Mapping[str, str | float]] | None = None,
) -> str:
    """Return GeoJSON features, one a line, in longitude and latitude to about a tenth of a millimetre (RFC 7946).

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


def label_rows(identifiers: list[str], labels: Labels, scenarios: list[str], levels: NDArray[np.intp]) -> str:
    """Return rows of labels: severity, quadrants, mechanism, scenario and difficulty.

    Quadrant, the accepted ones (`NE|NW`) and the mechanism are empty below category 1.
    """
    severity = np.round(labels.strains.severity_permille, 5)
    damaged, accepted = category(severity) > 0, labels.strains.accepted
    rows = []
    for i, (identifier, scenario) in enumerate(zip(identifiers, scenarios, strict=True)):
        where = f"{QUADRANTS[labels.strains.quadrant[i]]},{join_quadrants(accepted[i])}" if damaged[i] else ","
        how = MECHANISMS[labels.mechanism[i]] if damaged[i] else ""
        rows.append(f"{identifier},{severity[i]:.5f},{where},{how},{scenario},{DIFFICULTIES[levels[i]]}\n")
    return "".join(rows)
