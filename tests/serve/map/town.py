"""A small town to draw: judged and abstained houses, one of hostile name, and points that move."""

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import shapely

from plumbline.prepare.abstention import STATUSES
from plumbline.sources.points.track import Track
from tests.serve.made import table_of

EAST, NORTH = 337000.0, 4285000.0
HOSTILE = "</script><img src=x onerror=\"document.title='taken'\"><b>@{text}"
EPOCHS = np.arange(np.datetime64("2020-01-03"), np.datetime64("2022-01-01"), 12)


def house(x: float, y: float, turn: float = 0.0) -> shapely.Polygon:
    return shapely.affinity.rotate(shapely.box(x - 10, y - 6, x + 10, y + 6), turn)


def town(count: int = 40, crs: str = "EPSG:32633", across: int = 10) -> geopandas.GeoDataFrame:
    """Rows of houses; the first severe and of hostile name, some abstained, one with a yard, one in two parts."""
    footprints = [house(EAST + 40 * (i % across), NORTH + 40 * (i // across), 3.0 * i) for i in range(count)]
    footprints[1] = footprints[1].difference(footprints[1].centroid.buffer(2))
    footprints[2] = shapely.MultiPolygon([house(EAST + 80, NORTH), house(EAST + 80, NORTH - 25)])
    buildings = geopandas.GeoDataFrame({"building_id": [f"h{i}" for i in range(count)]}, geometry=footprints, crs=crs)
    buildings.loc[0, "building_id"] = HOSTILE
    severity = np.array([5.0, 0.2, 0.6, 1.0, 2.0] * (count // 5))
    severity[0] = 9.0
    status = ["ok"] * count
    status[5:7] = STATUSES[1:]
    probability = np.full((count, 4), 0.1)
    probability[:, 1] = 0.7
    return table_of(buildings, status, np.arange(count), probability, severity, severity / 2, severity * 2, "3")


def track(count: int, name: str = "T_044", crs: str = "EPSG:32633", seed: int = 0) -> Track:
    """Points over the town, of which point k moves by k/count mm/yr."""
    rng = np.random.default_rng(seed)
    velocity = np.arange(count) / count
    years = (EPOCHS - EPOCHS[0]).astype(float) / 365.25
    return Track(
        name,
        crs,
        EPOCHS,
        np.array([f"p{k}" for k in range(count)], object),
        rng.uniform(EAST, EAST + 360, count),
        rng.uniform(NORTH, NORTH + 120, count),
        np.zeros(count),
        np.tile([-0.5, -0.1, 0.86], (count, 1)),
        (velocity[:, None] * years).astype(np.float32),
    )


def document_in(page: Path) -> dict[str, Any]:
    """The map document of a page."""
    found = re.search(r'<script type="application/gzip" id="document">(.*?)</script>', page.read_text("utf-8"))
    assert found, "no document in the page"
    document: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(found[1])))
    return document
