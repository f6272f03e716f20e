"""Write a field as a Cloud Optimized GeoTIFF, piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import rasterio
import rasterio.shutil
from numpy.typing import NDArray
from rasterio.transform import from_origin
from rasterio.windows import Window as Part

from plumbline.core.files import atomic_file
from plumbline.prepare.restoration.grid import Grid

BLOCK = 512
"""Cells of a side of a tile in the file."""


def write_cog(
    rows: Callable[[int, int], NDArray[np.float32]],
    bands: Sequence[str],
    grid: Grid,
    crs: str,
    tags: Mapping[str, str],
    work: Path,
    out: Path,
) -> None:
    """Write `out`, atomically; NaN means no data.

    Args:
        rows: gives (bands, last - first, columns) of the rows from `first` to before `last`.
        bands: their descriptions. grid, crs: where the cells lie. tags: of the file.
        work: folder for what is written first, the caller's to remove.
    """
    profile = {
        "driver": "GTiff",
        "height": grid.rows,
        "width": grid.columns,
        "count": len(bands),
        "dtype": "float32",
        "crs": crs,
        "transform": from_origin(grid.left, grid.top, grid.cell_m, grid.cell_m),
        "nodata": float("nan"),
        "tiled": True,
        "blockxsize": BLOCK,
        "blockysize": BLOCK,
        "BIGTIFF": "IF_SAFER",
    }
    plain = work / "plain.tif"
    with rasterio.open(plain, "w", **profile) as target:
        for first in range(0, grid.rows, BLOCK):
            last = min(first + BLOCK, grid.rows)
            target.write(rows(first, last), window=Part(0, first, grid.columns, last - first))
        for number, band in enumerate(bands, 1):
            target.set_band_description(number, band)
        target.update_tags(**tags)
    with atomic_file(out) as temporary:
        rasterio.shutil.copy(
            plain, temporary, driver="COG", compress="DEFLATE", predictor=3, overview_resampling="average"
        )
    plain.unlink()
