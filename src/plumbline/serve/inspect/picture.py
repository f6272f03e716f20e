"""Draw points on footprints, and three histories, as small SVG pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import geopandas
import numpy as np
import shapely
from numpy.typing import NDArray

from plumbline.reporting.page import say
from plumbline.serve.colours import DIVERGING
from plumbline.sources.track import Track

WIDTH, MOST_HEIGHT = 640.0, 640.0
CHART_WIDTH, CHART_HEIGHT = 640.0, 110.0
MOST_POINTS, MOST_BUILDINGS = 3000, 3000
SHARES = (0.05, 0.5, 0.95)
"""Quantiles of mean velocity whose histories are drawn."""
DAYS_A_YEAR = 365.25
LEAST_MM_A_YEAR = 2.0
Floats = NDArray[np.floating[Any]]


def velocities(track: Track) -> Floats:
    """Return (N,) the least-squares velocity of each point, mm/yr; NaN below two values."""
    years = (track.epochs - track.epochs[0]).astype("timedelta64[D]").astype(float) / DAYS_A_YEAR
    values = track.displacement.astype(float)
    known = np.isfinite(values)
    count = known.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        middle = (known * years).sum(axis=1) / count
        offset = np.where(known, years[None, :] - middle[:, None], 0.0)
        return np.asarray(np.where(known, offset * values, 0.0).sum(axis=1) / (offset**2).sum(axis=1))


def draw_plan(tracks: Sequence[Track], buildings: geopandas.GeoDataFrame | None) -> str:
    """Draw points, coloured by velocity, on footprints; north is up in the grid of the points."""
    outlines = np.zeros(0, object)
    if buildings is not None:
        outlines = buildings.geometry.to_numpy()[:: _every(len(buildings), MOST_BUILDINGS)]
    drawn = [track.take(np.arange(0, len(track), _every(len(track), MOST_POINTS))) for track in tracks]
    nothing = [np.zeros(0)]
    x = np.concatenate([track.easting for track in drawn] or nothing)
    y = np.concatenate([track.northing for track in drawn] or nothing)
    speed = np.concatenate([velocities(track) for track in drawn] or nothing)
    corners = [np.column_stack([x, y])] if len(x) else []
    if len(outlines):
        corners.append(shapely.get_coordinates(outlines))
    if not corners:
        return ""
    west, south, east, north = _box(np.concatenate(corners), x, y)
    scale = min(WIDTH / max(east - west, 1.0), MOST_HEIGHT / max(north - south, 1.0))
    width, height = scale * (east - west), scale * (north - south)
    shapes = [
        f'<path d="{"".join(_outline(part, west, north, scale) for part in shapely.get_parts(outline))}"/>'
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


def draw_histories(track: Track) -> str:
    """Draw three histories: fast away from the satellite, typical, and fast towards it."""
    speed = velocities(track)
    known = np.flatnonzero(np.isfinite(speed))
    if not len(known):
        return ""
    ordered = known[np.argsort(speed[known])]
    chosen = dict.fromkeys(int(ordered[round(share * (len(ordered) - 1))]) for share in SHARES)
    return "".join(_history(track, row, float(speed[row])) for row in chosen)


def _history(track: Track, row: int, speed: float) -> str:
    values = track.displacement[row].astype(float)
    known = np.isfinite(values)
    days = track.epochs.astype("datetime64[D]").astype(float)
    low, high = float(values[known].min()), float(values[known].max())
    x = 4 + (CHART_WIDTH - 8) * (days - days[0]) / max(days[-1] - days[0], 1)
    y = 6 + (CHART_HEIGHT - 12) * (high - values) / max(high - low, 1e-9)
    dots = "".join(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2"/>' for a, b in zip(x[known], y[known], strict=True))
    title = f"{track.point_id[row]}: {low:.1f} to {high:.1f} mm, {speed:+.1f} mm a year"
    return (
        f'<figure><svg viewBox="0 0 {CHART_WIDTH:.0f} {CHART_HEIGHT:.0f}" width="{CHART_WIDTH:.0f}" role="img" '
        f'aria-label="{say(title)}"><rect width="100%" height="100%" fill="#f7f7f5"/><g fill="#2f6c9e">{dots}</g></svg>'
        f"<figcaption>{say(title)}, {track.epochs[0]} to {track.epochs[-1]}</figcaption></figure>"
    )


def _every(count: int, most: int) -> int:
    return max(1, -(-count // most))


def _box(corners: Floats, x: Floats, y: Floats) -> tuple[float, float, float, float]:
    """Return the bounds of the plan: the points with a margin, or the footprints where there are no points."""
    shown = np.column_stack([x, y]) if len(x) else corners
    low, high = shown.min(axis=0), shown.max(axis=0)
    margin = 0.03 * float((high - low).max()) + 5.0
    return float(low[0] - margin), float(low[1] - margin), float(high[0] + margin), float(high[1] + margin)


def _outline(polygon: Any, west: float, north: float, scale: float) -> str:
    corners = shapely.get_coordinates(shapely.get_exterior_ring(polygon))
    steps = (f"{scale * (x - west):.1f} {scale * (north - y):.1f}" for x, y in corners)
    return f"M{'L'.join(steps)}Z"


def _colour(share: float) -> str:
    """Return the diverging colour of a share from -1 to 1; grey for NaN."""
    if not np.isfinite(share):
        return "#999999"
    place = (np.clip(share, -1, 1) + 1) / 2 * (len(DIVERGING) - 1)
    return str(DIVERGING[round(float(place))])
