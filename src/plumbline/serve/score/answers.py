"""The answers of all tiles together."""

from __future__ import annotations

import geopandas
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from plumbline.core.strain import category
from plumbline.serve.predictions import read_predictions
from plumbline.serve.score.tiles import ANSWERS, ROWS, UNSURE, Tile


def answers(tiles: list[Tile]) -> tuple[geopandas.GeoDataFrame, NDArray[np.bool_]]:
    """Predictions for all F footprints, in the order of their file, and (F,) which want a probable quadrant alone."""
    parts = [read_predictions(tile.folder / ANSWERS) for tile in tiles]
    order = np.argsort(np.concatenate([np.load(tile.folder / ROWS) for tile in tiles]))
    unsure = np.concatenate([np.load(tile.folder / UNSURE) for tile in tiles])[order]
    table = pd.concat(parts, ignore_index=True).iloc[order]
    return geopandas.GeoDataFrame(table.reset_index(drop=True), crs=parts[0].crs), unsure


def counts_of(table: geopandas.GeoDataFrame) -> dict[str, dict[str, int]]:
    """How many buildings of each status, and of those that are judged, of each category."""
    judged = table.loc[table["status"] == "ok", "severity_permille"].to_numpy(float)
    numbers = np.bincount(category(judged).astype(int), minlength=5)
    return {
        "statuses": {str(name): int(count) for name, count in table["status"].value_counts().items()},
        "categories": {str(number): int(count) for number, count in enumerate(numbers)},
    }
