"""Draw points on footprints, and three histories, as small SVG pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import shapely
from numpy.typing import NDArray

from plumbline.reporting.page import say
from plumbline.serve.colours import DIVERGING

WIDTH, MOST_HEIGHT = 640.0, 640.0
CHART_WIDTH, CHART_HEIGHT = 640.0, 110.0
MOST_POINTS, MOST_BUILDINGS = 3000, 3000
SHARES = (0.05, 0.5, 0.95)
"""Quantiles of mean velocity whose histories are drawn."""
LEAST_MM_A_YEAR = 2.0
Floats = NDArray[np.floating[Any]]
NOTHING = (np.zeros(0), np.zeros(0), np.zeros(0))


class PlanPoints(NamedTuple):
    """N points of a plan."""

    x: Floats
    """(N,) easting, m."""
    y: Floats
    """(N,) northing, m."""
    velocity: Floats
    """(N,) along the line of sight, mm/yr."""


def draw_plan(tracks: Sequence[PlanPoints], outlines: NDArray[np.object_]) -> str:
    """Draw points, coloured by velocity, on footprints (polygons); north is up in the grid of the points."""
    outlines = outlines[:: _every(len(outlines), MOST_BUILDINGS)]
    drawn = [PlanPoints(*(part[:: _every(len(part), MOST_POINTS)] for part in track)) for track in tracks]
    x, y, speed = (np.concatenate([np.zeros(0), *part]) for part in zip(*drawn, strict=True)) if drawn else NOTHING
    corners = [np.column_stack([x, y])] if len(x) else []
    if len(outlines):
        corners.append(shapely.get_coordinates(outlines))
    if not corners:
        return ""
    west, south, east, north = _box(np.concatenate(corners), x, y)
    scale = min(WIDTH / max(east - west, 1.0), MOST_HEIGHT / max(north - south, 1.0))
    width, height = scale * (east - west), scale * (north - south)
    shapes = [
        f'<path d="{"".join(_polygon_path(part, west, north, scale) for part in shapely.get_parts(outline))}"/>'
        for outline in outlines
    ]
    limit = max(LEAST_MM_A_YEAR, float(np.nanquantile(np.abs(speed), 0.98)) if np.isfinite(speed).any() else 0.0)
    dots = [
        f'<circle cx="{scale * (px - west):.1f}" cy="{scale * (north - py):.1f}" r="2" fill="{_colour(v / limit)}"/>'
        for px, py, v in zip(x, y, speed, strict=True)
    ]
    return (
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" role="img" aria-label="Points on footprints">'
        f'<g fill="#e4e1da" stroke="#8a8578" stroke-width="0.6">{"".join(shapes)}</g><g>{"".join(dots)}</g></svg>'
        f"<p>Mean velocity along the line of sight, {-limit:.0f} (violet, away) to {limit:.0f} mm a year (green).</p>"
    )


def draw_histories(
    names: NDArray[np.object_], epochs: NDArray[np.datetime64], displacement: Floats, velocity: Floats
) -> str:
    """Draw three histories: fast away from the satellite, typical, and fast towards it.

    Args:
        names: of N points. epochs: (T,). displacement: (N, T) mm, NaN where missing. velocity: (N,) mm/yr.
    """
    known = np.flatnonzero(np.isfinite(velocity))
    if not len(known):
        return ""
    ordered = known[np.argsort(velocity[known])]
    chosen = dict.fromkeys(int(ordered[round(share * (len(ordered) - 1))]) for share in SHARES)
    return "".join(_history(names[row], epochs, displacement[row], float(velocity[row])) for row in chosen)


def _history(name: Any, epochs: NDArray[np.datetime64], displacement: Floats, velocity: float) -> str:
    values = displacement.astype(float)
    known = np.isfinite(values)
    days = epochs.astype("datetime64[D]").astype(float)
    low, high = float(values[known].min()), float(values[known].max())
    x = 4 + (CHART_WIDTH - 8) * (days - days[0]) / max(days[-1] - days[0], 1)
    y = 6 + (CHART_HEIGHT - 12) * (high - values) / max(high - low, 1e-9)
    dots = "".join(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2"/>' for a, b in zip(x[known], y[known], strict=True))
    title = f"{name}: {low:.1f} to {high:.1f} mm, {velocity:+.1f} mm a year"
    return (
        f'<figure><svg viewBox="0 0 {CHART_WIDTH:.0f} {CHART_HEIGHT:.0f}" width="{CHART_WIDTH:.0f}" role="img" '
        f'aria-label="{say(title)}"><rect width="100%" height="100%" fill="#f7f7f5"/><g fill="#2f6c9e">{dots}</g></svg>'
        f"<figcaption>{say(title)}, {epochs[0]} to {epochs[-1]}</figcaption></figure>"
    )


def _every(count: int, most: int) -> int:
    return max(1, -(-count // most))


def _box(corners: Floats, x: Floats, y: Floats) -> tuple[float, float, float, float]:
    """Return the bounds of the plan: the points with a margin, or the footprints where there are no points."""
    shown = np.column_stack([x, y]) if len(x) else corners
    low, high = shown.min(axis=0), shown.max(axis=0)
    margin = 0.03 * float((high - low).max()) + 5.0
    return float(low[0] - margin), float(low[1] - margin), float(high[0] + margin), float(high[1] + margin)


def _polygon_path(polygon: Any, west: float, north: float, scale: float) -> str:
    corners = shapely.get_coordinates(shapely.get_exterior_ring(polygon))
    steps = (f"{scale * (x - west):.1f} {scale * (north - y):.1f}" for x, y in corners)
    return f"M{'L'.join(steps)}Z"


def _colour(share: float) -> str:
    """Return the diverging colour of a share from -1 to 1; grey for NaN."""
    if not np.isfinite(share):
        return "#999999"
    place = (np.clip(share, -1, 1) + 1) / 2 * (len(DIVERGING) - 1)
    return str(DIVERGING[round(float(place))])
