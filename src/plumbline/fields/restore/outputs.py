"""Write a field: GeoTIFF, style, picture, overlay."""

from __future__ import annotations

import base64
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import rasterio
import rasterio.shutil
from numpy.typing import NDArray
from rasterio.io import MemoryFile
from rasterio.transform import from_origin
from rasterio.warp import transform
from rasterio.windows import Window as Part

from plumbline.core.arrays import Float
from plumbline.core.console import log
from plumbline.core.extras import need
from plumbline.core.files import atomic_file
from plumbline.fields.model.slopes import gradient
from plumbline.fields.prepare.grid import EAST, WEST, Grid
from plumbline.fields.restore.field import BANDS, Blend, Field
from plumbline.reporting.colours import DIVERGING
from plumbline.serve.map.document import PAGE
from plumbline.serve.qgis.documents import MARK
from plumbline.serve.qgis.styles import field_style
from plumbline.sources.globe import TURN_DEG

GRADIENTS = ("gradient_mm_m", "gradient_low_mm_m", "gradient_high_mm_m")
"""Bands that are computed from the blended field: the slope, and the ends of its 90 % interval."""
BLOCK = 512
"""Side of a tile in the file, cells."""


def write_cog(
    rows: Callable[[int, int], NDArray[np.float32]],
    bands: Sequence[str],
    grid: Grid,
    *,
    crs: str,
    tags: Mapping[str, str],
    work: Path,
    out: Path,
) -> None:
    """Write `out`, atomically; NaN means no data.

    Args:
        rows: returns (bands, last - first, columns) of the rows from `first` to before `last`.
        bands: their descriptions. grid, crs: place of the cells. tags: of the file.
        work: folder for a temporary file; the caller removes the folder.
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
    uncompressed = work / "plain.tif"
    with rasterio.open(uncompressed, "w", **profile) as target:
        for first in range(0, grid.rows, BLOCK):
            last = min(first + BLOCK, grid.rows)
            target.write(rows(first, last), window=Part(0, first, grid.columns, last - first))
        for number, band in enumerate(bands, 1):
            target.set_band_description(number, band)
        target.update_tags(**tags)
    with atomic_file(out) as temporary:
        rasterio.shutil.copy(
            uncompressed,
            temporary,
            driver="COG",
            compress="DEFLATE",
            predictor=3,
            overview_resampling="average",
        )
    uncompressed.unlink()


def write_field(field: Field, blend: Blend, work: Path, staged: ExitStack, output: Path) -> None:
    """Write the bands of a blended field and its gradient, with tags; log how many cells
    have a value.

    Args:
        field: to write. blend: its values. work: as of `write_cog`.
        staged: puts all files of the run in place at its end. output: GeoTIFF.
    """
    grid, observations = field.grid, field.observations
    has_up = observations.directions > 1
    numbers = [number for number, name in enumerate(BANDS) if has_up or name.startswith("los")]
    bands = [*(BANDS[number] for number in numbers), *GRADIENTS]
    main = 0 if has_up else BANDS.index("los_mm")

    def rows(first: int, last: int) -> NDArray[np.float32]:
        # One row more on either side, for the slope.
        start, end = max(0, first - 1), min(grid.rows, last + 1)
        values = blend.rows(start, end)
        slope = (
            gradient(values[main], grid.cell_m)
            if values.shape[1] > 1 and values.shape[2] > 1
            else values[main] * np.nan
        )
        half = values[-1]
        slopes = np.stack([slope, np.maximum(slope - half, 0), slope + half])
        stacked = np.concatenate([values[numbers], slopes.astype(np.float32)])
        return stacked[:, first - start : first - start + last - first]

    los = {
        name: np.round(observations.los[observations.side == side].mean(axis=0), 4).tolist()
        for name, side in (("west", WEST), ("east", EAST))
        if (observations.side == side).any()
    }
    tags = {
        "PLUMBLINE_MODEL": f"{field.package.manifest.name} {field.package.manifest.version}",
        "PLUMBLINE_ADAPTERS": ", ".join(field.package.adapters) or "none",
        "PLUMBLINE_STEPS": str(field.settings.steps),
        "PLUMBLINE_SAMPLES": str(field.settings.samples),
        "PLUMBLINE_FARTHEST_M": f"{field.settings.spread.farthest_m:g}",
        "PLUMBLINE_LOS": json.dumps(los),
        "PLUMBLINE_PERIOD": field.period,
        "PLUMBLINE_MEANING": "change from the first to the last epoch of all tracks, mm; low and "
        "high: 90 % interval",
    }
    write_cog(
        rows,
        bands,
        grid,
        crs=field.crs,
        tags=tags,
        work=work,
        out=staged.enter_context(atomic_file(output)),
    )
    n_valued = sum(
        int(np.isfinite(blend.rows(r, min(r + 512, grid.rows))).any(axis=0).sum())
        for r in range(0, grid.rows, 512)
    )
    log.info(
        "%s: %d x %d cells of %g m. %.0f %% of them have a value; the others are more than %.0f "
        "m from a point",
        output,
        grid.rows,
        grid.columns,
        grid.cell_m,
        100 * n_valued / (grid.rows * grid.columns),
        field.settings.spread.farthest_m,
    )


MAX_RANGE_CELLS = 1000
"""Cells of a side, at most, from which the range of colours is computed."""
RANGE = (2.0, 98.0)
"""Percentiles of the field; the colours end at the larger of both, on either side of 0."""
MIN_LIMIT_MM = 0.1
"""Smallest displacement at which colours end, mm."""


def write_style(limit_mm: float, staged: ExitStack, output: Path) -> None:
    """Write the style of a field beside its raster, but keep one that Plumbline did not write.

    Args:
        limit_mm: displacement at which the colours end.
        staged: puts all files of the run in place at its end. output: GeoTIFF of the field.
    """
    path = output.with_suffix(".qml")
    if path.exists() and MARK not in path.read_text(encoding="utf-8", errors="replace"):
        log.info("%s: not written by Plumbline, and kept", path)
        return
    staged.enter_context(atomic_file(path)).write_text(field_style(limit_mm), encoding="utf-8")


def ends_mm(field: Field, blend: Blend) -> float:
    """Return the displacement at which the colours of the first band end, mm."""
    band = BANDS.index("up_mm" if field.observations.directions > 1 else "los_mm")
    values = blend.thinned([band], MAX_RANGE_CELLS)
    values = values[np.isfinite(values)]
    return (
        max(MIN_LIMIT_MM, float(np.abs(np.percentile(values, RANGE)).max()))
        if len(values)
        else MIN_LIMIT_MM
    )


MAX_PIXELS = 1500
"""Pixels of a side of a picture, at most; larger fields are thinned."""


def _load_figure_class() -> Any:
    """Load matplotlib and return its Figure; its list of fonts is written to a temporary folder."""
    with TemporaryDirectory() as folder:
        os.environ.setdefault("MPLCONFIGDIR", folder)
        from matplotlib import font_manager  # noqa: F401 makes the list
        from matplotlib.figure import Figure
    return Figure


def draw(field: Field, blend: Blend, out: Path) -> None:
    """Draw the field into a new PNG file.

    Raises:
        InputError: matplotlib is not installed.
    """
    need("picture", "--picture")
    figure = _load_figure_class()(figsize=(15, 5), layout="constrained")
    from matplotlib.colors import LinearSegmentedColormap

    grid, has_up = field.grid, field.observations.directions > 1
    points = field.observations.take(grid.near(field.observations.east_north, 0))
    name = "up" if has_up else "los"
    values = blend.thinned([BANDS.index(f"{name}_mm"), BANDS.index(f"{name}_std_mm")], MAX_PIXELS)
    extent = (
        grid.left,
        grid.left + grid.columns * grid.cell_m,
        grid.top - grid.rows * grid.cell_m,
        grid.top,
    )
    finite_mm = values[0][np.isfinite(values[0])]
    limit_mm = float(np.percentile(np.abs(finite_mm), 99)) if len(finite_mm) else 1.0
    axes = figure.subplots(1, 3, sharex=True, sharey=True)
    scale = {
        "cmap": LinearSegmentedColormap.from_list("diverging", DIVERGING),
        "vmin": -limit_mm,
        "vmax": limit_mm,
    }
    # Share of a vertical movement that is seen along the line of sight.
    los_up = points.los[:, 2] if has_up else np.ones(len(points))
    pictures = (
        axes[0].imshow(values[0], extent=extent, **scale),
        axes[1].imshow(values[1], extent=extent, cmap="viridis"),
        axes[2].scatter(*points.east_north.T, c=points.change / los_up, s=3, **scale),
    )
    direction = {"up": "up", "los": "towards the satellite"}[name]
    titles = (
        f"Displacement {direction}, mm",
        "Standard deviation, mm",
        f"Points ({'line of sight / up' if has_up else direction}), mm",
    )
    for axis, picture, title in zip(axes, pictures, titles, strict=True):
        axis.set_title(title)
        axis.set_aspect("equal")
        axis.tick_params(labelsize=7)
        figure.colorbar(picture, ax=axis, shrink=0.8)
    figure.savefig(out, format="png", dpi=110)


SEQUENTIAL = ("#00224e", "#35456c", "#666970", "#948e77", "#c8b866", "#fee838")
"""Cividis (Nunez, Anderton and Renslow 2018): safe for colour-blind readers."""
LAYERS = (
    ("up_mm", "Up", True),
    ("up_std_mm", "Up: uncertainty", False),
    ("east_mm", "East", True),
    ("east_std_mm", "East: uncertainty", False),
    ("los_mm", "Towards the satellite", True),
    ("los_std_mm", "Towards the satellite: uncertainty", False),
    ("gradient_mm_m", "Gradient", False),
    ("gradient_low_mm_m", "Gradient: at least (90 % interval)", False),
    ("gradient_high_mm_m", "Gradient: at most (90 % interval)", False),
)
"""Band, name, and whether it is drawn about 0."""
SLOPE_UNIT, MIN_LIMIT_MM_M = "mm/m", 0.001
PERCENTILE = 98.0


def field_document(field: Path, title: str) -> dict[str, Any]:
    """Return a map document that shows the bands of a GeoTIFF of `plumbline restore`, in WGS 84."""
    with rasterio.open(field) as source:
        step = max(1, math.ceil(max(source.height, source.width) / MAX_PIXELS))
        shape = (math.ceil(source.height / step), math.ceil(source.width / step))
        west, south, east, north = source.bounds
        lon, lat = transform(
            source.crs,
            "EPSG:4326",
            [west, east, east, west],
            [north, north, south, south],
        )
        if max(lon) - min(lon) > TURN_DEG / 2:  # as the map of a city across 180 degrees
            lon = [x % TURN_DEG for x in lon]
        corners = [[round(x, 7), round(y, 7)] for x, y in zip(lon, lat, strict=True)]
        overlays = []
        for band, name, about_zero in LAYERS:
            if band not in source.descriptions:
                continue
            values = source.read(source.descriptions.index(band) + 1, out_shape=shape)
            if np.isfinite(values).any():
                overlays.append(
                    {
                        "name": name,
                        "corners": corners,
                        **_draw_overlay(values, about_zero, band in GRADIENTS),
                    }
                )
    return {
        **PAGE,
        "title": title,
        "bounds": [min(lon), min(lat), max(lon), max(lat)],
        "overlays": overlays,
    }


def _draw_overlay(values: Float, about_zero: bool, slope: bool) -> dict[str, Any]:
    """Return a band as a PNG picture with its legend."""
    unit, floor, digits = (SLOPE_UNIT, MIN_LIMIT_MM_M, 3) if slope else ("mm", MIN_LIMIT_MM, 1)
    has_value = np.isfinite(values)
    highest = max(float(np.percentile(np.abs(values[has_value]), PERCENTILE)), floor)
    lowest = -highest if about_zero else 0.0
    colours = DIVERGING if about_zero else SEQUENTIAL
    table = np.array(
        [[int(colour[at : at + 2], 16) for at in (1, 3, 5)] for colour in colours], float
    )
    share = np.clip((np.where(has_value, values, 0) - lowest) / (highest - lowest), 0, 1)
    image = np.zeros((4, *values.shape), np.uint8)
    for channel in range(3):
        image[channel] = np.interp(
            share * (len(table) - 1), np.arange(len(table)), table[:, channel]
        ).round()
    image[3] = np.where(has_value, 255, 0)
    with MemoryFile() as memory:
        with memory.open(
            driver="PNG", height=values.shape[0], width=values.shape[1], count=4, dtype="uint8"
        ) as out:
            out.write(image)
        png = base64.b64encode(memory.read()).decode()
    legend = {
        "colours": list(colours),
        "least": round(lowest, digits),
        "most": round(highest, digits),
        "unit": unit,
    }
    return {"png": f"data:image/png;base64,{png}", "legend": legend}
