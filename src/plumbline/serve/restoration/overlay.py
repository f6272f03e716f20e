"""Colour a restored field for the web map: images with their corners, and their legends."""

from __future__ import annotations

import base64
import math
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from numpy.typing import NDArray
from rasterio.io import MemoryFile
from rasterio.warp import transform

from plumbline.serve.colours import DIVERGING
from plumbline.serve.map.document import FORMAT

Float = NDArray[np.floating[Any]]
MOST_PIXELS = 1500
"""Of a side; larger fields are thinned."""
SEQUENTIAL = ("#00224e", "#35456c", "#666970", "#948e77", "#c8b866", "#fee838")
"""Cividis (Nunez, Anderton and Renslow 2018): safe for colour-blind readers."""
LAYERS = (
    ("up_mm", "Up", True),
    ("up_std_mm", "Up: uncertainty", False),
    ("east_mm", "East", True),
    ("east_std_mm", "East: uncertainty", False),
    ("los_mm", "Towards the satellite", True),
    ("los_std_mm", "Towards the satellite: uncertainty", False),
)
"""Band, name, and whether it is drawn about 0."""
PERCENTILE = 98.0
LEAST_MM = 0.1


def field_document(field: Path, title: str) -> dict[str, Any]:
    """Return a map document that shows the bands of a GeoTIFF of `plumbline restore`, in WGS 84."""
    with rasterio.open(field) as source:
        step = max(1, math.ceil(max(source.height, source.width) / MOST_PIXELS))
        shape = (math.ceil(source.height / step), math.ceil(source.width / step))
        left, bottom, right, top = source.bounds
        east, north = transform(source.crs, "EPSG:4326", [left, right, right, left], [top, top, bottom, bottom])
        corners = [[round(x, 7), round(y, 7)] for x, y in zip(east, north, strict=True)]
        overlays = []
        for band, name, about_zero in LAYERS:
            if band not in source.descriptions:
                continue
            values = source.read(source.descriptions.index(band) + 1, out_shape=shape)
            if np.isfinite(values).any():
                overlays.append({"name": name, "corners": corners, **_coloured(values, about_zero)})
    return {
        "format": FORMAT,
        "title": title,
        "bounds": [min(east), min(north), max(east), max(north)],
        "overlays": overlays,
    }


def _coloured(values: Float, about_zero: bool) -> dict[str, Any]:
    told = np.isfinite(values)
    most = max(float(np.percentile(np.abs(values[told]), PERCENTILE)), LEAST_MM)
    least = -most if about_zero else 0.0
    colours = DIVERGING if about_zero else SEQUENTIAL
    table = np.array([[int(colour[at : at + 2], 16) for at in (1, 3, 5)] for colour in colours], float)
    place = np.clip((np.where(told, values, 0) - least) / (most - least), 0, 1) * (len(table) - 1)
    image = np.zeros((4, *values.shape), np.uint8)
    for channel in range(3):
        image[channel] = np.interp(place, np.arange(len(table)), table[:, channel]).round()
    image[3] = np.where(told, 255, 0)
    with MemoryFile() as memory:
        with memory.open(driver="PNG", height=values.shape[0], width=values.shape[1], count=4, dtype="uint8") as out:
            out.write(image)
        png = base64.b64encode(memory.read()).decode()
    legend = {"colours": list(colours), "least": round(least, 1), "most": round(most, 1), "unit": "mm"}
    return {"png": f"data:image/png;base64,{png}", "legend": legend}
