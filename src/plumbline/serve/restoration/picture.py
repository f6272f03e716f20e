"""Draw a restored field, its uncertainty, and the points behind it, side by side."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from plumbline.core.extras import need
from plumbline.serve.colours import DIVERGING
from plumbline.serve.restoration.field import BANDS, Field
from plumbline.serve.restoration.windows import Blend

MOST_PIXELS = 1500
"""Of a side; larger fields are thinned."""


def draw(field: Field, blend: Blend, out: Path) -> None:
    """Draw the field into a new PNG file.

    Raises:
        InputError: matplotlib is not installed.
    """
    need("picture", "--picture")
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.colors import LinearSegmentedColormap

    grid, both = field.grid, field.found.directions > 1
    found = field.found.take(grid.near(field.found.east_north, 0))
    name = "up" if both else "los"
    thin = max(1, max(grid.rows, grid.columns) // MOST_PIXELS)
    at = [BANDS.index(f"{name}_{what}") for what in ("mm", "std_mm")]
    values = np.concatenate([blend.rows(row, row + 1)[at] for row in range(0, grid.rows, thin)], axis=1)[:, :, ::thin]
    extent = (grid.left, grid.left + grid.columns * grid.cell_m, grid.top - grid.rows * grid.cell_m, grid.top)
    shown = values[0][np.isfinite(values[0])]
    most = float(np.percentile(np.abs(shown), 99)) if len(shown) else 1.0
    figure, axes = plt.subplots(1, 3, figsize=(15, 5), sharex=True, sharey=True, layout="constrained")
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
    plt.close(figure)
