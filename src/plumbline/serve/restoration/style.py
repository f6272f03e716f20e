"""Write the style of a restored field beside it, under the name that QGIS looks for."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import numpy as np

from plumbline.core.console import log
from plumbline.core.files import atomic_file
from plumbline.serve.qgis.qml import MARK
from plumbline.serve.qgis.styles import field_style
from plumbline.serve.restoration.field import BANDS, Field
from plumbline.serve.restoration.windows import Blend

MOST_CELLS = 1000
"""Of a side that the range is taken from; larger fields are thinned."""
RANGE = (2.0, 98.0)
"""Percentiles of the field; the colours end at the larger of both, on either side of 0."""
LEAST_MM = 0.1


def style_path(output: Path) -> Path:
    """Return the path of a field's style: the name of the raster with the suffix `.qml`."""
    return output.with_suffix(".qml")


def write_style(field: Field, blend: Blend, staged: ExitStack, output: Path) -> None:
    """Write the style, in place once `staged` ends. A style that somebody else wrote there stays.

    Args:
        field: what is restored. blend: its values. staged: what holds all files of the run.
        output: GeoTIFF.
    """
    path = style_path(output)
    if path.exists() and MARK not in path.read_text(encoding="utf-8", errors="replace"):
        log.info("%s: not written by Plumbline, and kept", path)
        return
    text = field_style(ends_mm(field, blend))
    staged.enter_context(atomic_file(path)).write_text(text, encoding="utf-8")


def ends_mm(field: Field, blend: Blend) -> float:
    """Return the displacement at which the colours of the first band end, mm."""
    band = BANDS.index("up_mm" if field.found.directions > 1 else "los_mm")
    thin = max(1, max(field.grid.rows, field.grid.columns) // MOST_CELLS)
    values = np.concatenate([blend.rows(row, row + 1)[band, :, ::thin] for row in range(0, field.grid.rows, thin)])
    told = values[np.isfinite(values)]
    return max(LEAST_MM, float(np.abs(np.percentile(told, RANGE)).max())) if len(told) else LEAST_MM
