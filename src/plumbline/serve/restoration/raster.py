"""Write a field as a Cloud Optimized GeoTIFF, piece by piece."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import rasterio
import rasterio.shutil
from numpy.typing import NDArray
from rasterio.transform import from_origin
from rasterio.windows import Window as Part

from plumbline.core.console import log
from plumbline.core.files import atomic_file
from plumbline.model.restoration.scores import gradient
from plumbline.prepare.restoration.grid import Grid
from plumbline.serve.restoration.field import BANDS, Field
from plumbline.serve.restoration.windows import Blend

GRADIENT = "gradient_mm_m"
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


def write_field(field: Field, blend: Blend, work: Path, output: Path) -> None:
    """Write the bands of a blended field and its gradient, with tags, and log what has a value."""
    grid, found = field.grid, field.found
    both = found.directions > 1
    kept = [number for number, name in enumerate(BANDS) if both or name.startswith("los")]
    bands = [*(BANDS[number] for number in kept), GRADIENT]
    main = 0 if both else BANDS.index("los_mm")

    def rows(first: int, last: int) -> NDArray[np.float32]:
        start, end = max(0, first - 1), min(grid.rows, last + 1)
        values = blend.rows(start, end)
        slope = (
            gradient(values[main], grid.cell_m)
            if values.shape[1] > 1 and values.shape[2] > 1
            else values[main] * np.nan
        )
        whole = np.concatenate([values[kept], slope[None].astype(np.float32)])
        return whole[:, first - start : first - start + last - first]

    west = found.los[found.side == 0].mean(axis=0) if (found.side == 0).any() else None
    east = found.los[found.side == 1].mean(axis=0) if (found.side == 1).any() else None
    tags = {
        "PLUMBLINE_MODEL": f"{field.package.name} {field.package.version}",
        "PLUMBLINE_ADAPTERS": ", ".join(field.package.adapters) or "none",
        "PLUMBLINE_STEPS": str(field.settings.steps),
        "PLUMBLINE_SAMPLES": str(field.settings.samples),
        "PLUMBLINE_FARTHEST_M": f"{field.settings.spread.farthest_m:g}",
        "PLUMBLINE_LOS": json.dumps(
            {k: np.round(v, 4).tolist() for k, v in (("west", west), ("east", east)) if v is not None}
        ),
        "PLUMBLINE_MEANING": "change from the first to the last epoch of all tracks, mm; low and high: 90 % interval",
    }
    write_cog(rows, bands, grid, field.crs, tags, work, output)
    told = sum(
        int(np.isfinite(blend.rows(r, min(r + 512, grid.rows))).any(axis=0).sum()) for r in range(0, grid.rows, 512)
    )
    log.info(
        "%s: %d x %d cells of %g m. %.0f %% of them have a value; the others are more than %.0f m from a point",
        output,
        grid.rows,
        grid.columns,
        grid.cell_m,
        100 * told / (grid.rows * grid.columns),
        field.settings.spread.farthest_m,
    )
