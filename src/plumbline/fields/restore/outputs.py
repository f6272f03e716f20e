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

from plumbline.core.console import log
from plumbline.core.extras import need
from plumbline.core.files import atomic_file
from plumbline.fields.model.slopes import gradient
from plumbline.fields.prepare.grid import Grid
from plumbline.fields.restore.field import BANDS, Blend, Field
from plumbline.reporting.colours import DIVERGING
from plumbline.serve.map.document import PAGE
from plumbline.serve.qgis.documents import MARK
from plumbline.serve.qgis.styles import field_style
from plumbline.sources.globe import TURN_DEG

GRADIENTS = ("gradient_mm_m", "gradient_low_mm_m", "gradient_high_mm_m")
"""Of the blended field: the slope, and the ends of its 90 % interval."""
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


def write_field(field: Field, blend: Blend, work: Path, staged: ExitStack, output: Path) -> None:
    """Write the bands of a blended field and its gradient with its interval, with tags; log what has a value.

    Args:
        field: what is restored. blend: its values. work: as of `write_cog`. staged: what holds all files of the run.
        output: GeoTIFF, in place once `staged` ends.
    """
    grid, found = field.grid, field.found
    both = found.directions > 1
    kept = [number for number, name in enumerate(BANDS) if both or name.startswith("los")]
    bands = [*(BANDS[number] for number in kept), *GRADIENTS]
    main = 0 if both else BANDS.index("los_mm")

    def rows(first: int, last: int) -> NDArray[np.float32]:
        start, end = max(0, first - 1), min(grid.rows, last + 1)
        values = blend.rows(start, end)
        slope = (
            gradient(values[main], grid.cell_m)
            if values.shape[1] > 1 and values.shape[2] > 1
            else values[main] * np.nan
        )
        half = values[-1]
        slopes = np.stack([slope, np.maximum(slope - half, 0), slope + half])
        whole = np.concatenate([values[kept], slopes.astype(np.float32)])
        return whole[:, first - start : first - start + last - first]

    west = found.los[found.side == 0].mean(axis=0) if (found.side == 0).any() else None
    east = found.los[found.side == 1].mean(axis=0) if (found.side == 1).any() else None
    tags = {
        "PLUMBLINE_MODEL": f"{field.package.manifest.name} {field.package.manifest.version}",
        "PLUMBLINE_ADAPTERS": ", ".join(field.package.adapters) or "none",
        "PLUMBLINE_STEPS": str(field.settings.steps),
        "PLUMBLINE_SAMPLES": str(field.settings.samples),
        "PLUMBLINE_FARTHEST_M": f"{field.settings.spread.farthest_m:g}",
        "PLUMBLINE_LOS": json.dumps(
            {k: np.round(v, 4).tolist() for k, v in (("west", west), ("east", east)) if v is not None}
        ),
        "PLUMBLINE_PERIOD": field.period,
        "PLUMBLINE_MEANING": "change from the first to the last epoch of all tracks, mm; low and high: 90 % interval",
    }
    write_cog(rows, bands, grid, field.crs, tags, work, staged.enter_context(atomic_file(output)))
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


MOST_CELLS = 1000
"""Of a side that the range is taken from; larger fields are thinned."""
RANGE = (2.0, 98.0)
"""Percentiles of the field; the colours end at the larger of both, on either side of 0."""
LEAST_MM = 0.1


def style_path(output: Path) -> Path:
    """Return the path of a field's style: the name of the raster with the suffix `.qml`."""
    return output.with_suffix(".qml")


def write_style(limit_mm: float, staged: ExitStack, output: Path) -> None:
    """Write the style, in place once `staged` ends. A style that somebody else wrote there stays.

    Args:
        limit_mm: at which the colours end. staged: what holds all files of the run. output: GeoTIFF.
    """
    path = style_path(output)
    if path.exists() and MARK not in path.read_text(encoding="utf-8", errors="replace"):
        log.info("%s: not written by Plumbline, and kept", path)
        return
    staged.enter_context(atomic_file(path)).write_text(field_style(limit_mm), encoding="utf-8")


def ends_mm(field: Field, blend: Blend) -> float:
    """Return the displacement at which the colours of the first band end, mm."""
    band = BANDS.index("up_mm" if field.found.directions > 1 else "los_mm")
    values = blend.thinned([band], MOST_CELLS)
    values = values[np.isfinite(values)]
    return max(LEAST_MM, float(np.abs(np.percentile(values, RANGE)).max())) if len(values) else LEAST_MM


MOST_PIXELS = 1500
"""Of a side; larger fields are thinned."""


def _figure_class() -> Any:
    """Load matplotlib; its list of fonts goes into a temporary folder, not into the user's home."""
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
    figure = _figure_class()(figsize=(15, 5), layout="constrained")
    from matplotlib.colors import LinearSegmentedColormap

    grid, both = field.grid, field.found.directions > 1
    found = field.found.take(grid.near(field.found.east_north, 0))
    name = "up" if both else "los"
    at = [BANDS.index(f"{name}_{what}") for what in ("mm", "std_mm")]
    values = blend.thinned(at, MOST_PIXELS)
    extent = (grid.left, grid.left + grid.columns * grid.cell_m, grid.top - grid.rows * grid.cell_m, grid.top)
    shown = values[0][np.isfinite(values[0])]
    most = float(np.percentile(np.abs(shown), 99)) if len(shown) else 1.0
    axes = figure.subplots(1, 3, sharex=True, sharey=True)
    scale = {"cmap": LinearSegmentedColormap.from_list("diverging", DIVERGING), "vmin": -most, "vmax": most}
    across = found.los[:, 2] if both else np.ones(len(found))
    pictures = (
        axes[0].imshow(values[0], extent=extent, **scale),
        axes[1].imshow(values[1], extent=extent, cmap="viridis"),
        axes[2].scatter(*found.east_north.T, c=found.change / across, s=3, **scale),
    )
    said = {"up": "up", "los": "towards the satellite"}[name]
    titles = (
        f"Displacement {said}, mm",
        "Standard deviation, mm",
        f"Points ({'line of sight / up' if both else said}), mm",
    )
    for axis, picture, title in zip(axes, pictures, titles, strict=True):
        axis.set_title(title)
        axis.set_aspect("equal")
        axis.tick_params(labelsize=7)
        figure.colorbar(picture, ax=axis, shrink=0.8)
    figure.savefig(out, format="png", dpi=110)


Float = NDArray[np.floating[Any]]
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
SLOPE_UNIT, LEAST_MM_M = "mm/m", 0.001
PERCENTILE = 98.0


def field_document(field: Path, title: str) -> dict[str, Any]:
    """Return a map document that shows the bands of a GeoTIFF of `plumbline restore`, in WGS 84."""
    with rasterio.open(field) as source:
        step = max(1, math.ceil(max(source.height, source.width) / MOST_PIXELS))
        shape = (math.ceil(source.height / step), math.ceil(source.width / step))
        left, bottom, right, top = source.bounds
        east, north = transform(source.crs, "EPSG:4326", [left, right, right, left], [top, top, bottom, bottom])
        if max(east) - min(east) > TURN_DEG / 2:  # counted as the map of such a city does
            east = [x % TURN_DEG for x in east]
        corners = [[round(x, 7), round(y, 7)] for x, y in zip(east, north, strict=True)]
        overlays = []
        for band, name, about_zero in LAYERS:
            if band not in source.descriptions:
                continue
            values = source.read(source.descriptions.index(band) + 1, out_shape=shape)
            if np.isfinite(values).any():
                overlays.append({"name": name, "corners": corners, **_coloured(values, about_zero, band in GRADIENTS)})
    return {
        **PAGE,
        "title": title,
        "bounds": [min(east), min(north), max(east), max(north)],
        "overlays": overlays,
    }


def _coloured(values: Float, about_zero: bool, slope: bool) -> dict[str, Any]:
    unit, floor, digits = (SLOPE_UNIT, LEAST_MM_M, 3) if slope else ("mm", LEAST_MM, 1)
    told = np.isfinite(values)
    most = max(float(np.percentile(np.abs(values[told]), PERCENTILE)), floor)
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
    legend = {"colours": list(colours), "least": round(least, digits), "most": round(most, digits), "unit": unit}
    return {"png": f"data:image/png;base64,{png}", "legend": legend}
