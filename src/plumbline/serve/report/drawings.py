"""Draw what a report shows: the map of the list; plan, histories and strain of a building.
All are SVG documents."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import date
from typing import Any, NamedTuple

import numpy as np
import shapely
from numpy.typing import NDArray

from plumbline.core.arrays import Float
from plumbline.core.compass import Frames
from plumbline.reporting.charts import over_time, svg_document, svg_text
from plumbline.reporting.colours import GREY, PROBABILITY_COLOURS, PROBABILITY_EDGES
from plumbline.reporting.plans import (
    DrawnBuilding,
    draw_building,
    north_arrow,
    outline_path,
    scale_bar,
)
from plumbline.serve.columns import format_share

FONT = 'font-family="Libertinus Serif, serif"'
"""Font of the texts in drawings: the one that typst brings."""
CHART_PX = 400
"""Width of a chart: two stand side by side."""
MAX_MAP_PX, MIN_MAP_PX = (1000.0, 560.0), 420.0
"""Largest width and height of the map, and the smallest of either."""
SCALE_PX = 34.0
"""Height of the strip below the map, with its scale."""
MIN_FOOTPRINT_PX = 8.0
"""Smallest size of a footprint in the map: its colour is seen, also in a large city."""
MARGIN_M = 60.0
MAX_DRAWN = 6000
"""Largest number of footprints in a map, besides those of the list."""
MAX_LINES, MAX_STEPS = 10, 80
"""Largest number of points of a track that are drawn, and of values of each."""
EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
MARKED_COLOUR, OTHER_COLOUR = "#c46a3d", "#2f6c9e"
"""Colours of the points in the damaged quadrant, and of the others."""


class BuildingPoints(NamedTuple):
    """N points of a building, from all tracks."""

    track: NDArray[np.intp]
    """(N,)"""
    row: NDArray[np.intp]
    """(N,) in the track."""
    xy: Float
    """(N, 2) m in the building's frame."""
    moved: Float
    """(N,) differential displacement, mm; 0 where it is not known."""
    error: Float
    """(N,) its standard error, mm; infinite where it is not known."""


def document(svg: str, size: int = 12) -> str:
    """Make a drawing a document of its own, in the font of the report. `size`: of its texts, px."""
    stripped = re.sub(r' (xmlns|font-family|font-size)="[^"]*"', "", svg.strip())
    return stripped.replace(
        "<svg ", f'<svg xmlns="http://www.w3.org/2000/svg" {FONT} font-size="{size}" ', 1
    )


def plan(
    footprint: Any,
    frame: Frames,
    points: BuildingPoints,
    *,
    probability: Float,
    marked_quadrant: str | None,
    limit_mm: float,
    title: str,
) -> str:
    """Draw the plan of a building with its points; all marks have one size.

    Args:
        footprint: polygon, m. frame: of it. points: on it.
        probability: (4,) of the quadrants; NaN if it was not judged. marked_quadrant:
            quadrant that is drawn bold.
        limit_mm: displacement that has the strongest colour. title: text for screen readers.
    """
    local = shapely.transform(
        footprint, lambda place: frame.to_building(np.zeros(len(place), np.intp), place)
    )
    ones = np.ones(len(points.xy))
    drawn = DrawnBuilding(
        local,
        frame.side[0],
        float(frame.angle[0]),
        probability,
        [format_share(p) for p in probability],
        marked_quadrant,
        points.xy,
        points.moved,
        points.error,
        ones * 0.3,
        [""] * len(ones),
    )
    is_tall = float(np.ptp(shapely.get_coordinates(local), axis=0) @ (-1, 1)) > 0
    # A tall one is made smaller.
    return document(draw_building(drawn, limit_mm, title), 18 if is_tall else 17)


class History(NamedTuple):
    """N points of a building in one track."""

    title: str
    epochs: NDArray[np.datetime64]
    """(T,)"""
    series: Float
    """(N, T) mm, NaN where missing."""
    is_marked: NDArray[np.bool_]
    """(N,) which points are in the damaged quadrant."""


def histories(shown: Sequence[History]) -> list[str]:
    """Draw histories with the means of two groups, all over the same days and on the same scale."""
    moved = [
        history.series - np.array([_start_level(series) for series in history.series])[:, None]
        for history in shown
    ]
    lowest, highest = _scale_ends(
        np.concatenate([np.zeros(0), *(values[np.isfinite(values)] for values in moved)])
    )
    days = np.concatenate(
        [np.zeros(0, "M8[D]"), *(history.epochs.astype("datetime64[D]") for history in shown)]
    )
    levels = (lowest, (lowest + highest) / 2, highest)
    return [
        _draw_history(history, values, (str(days.min()), str(days.max())), levels)
        for history, values in zip(shown, moved, strict=True)
    ]


def _draw_history(
    history: History, values: Float, period: tuple[str, str], levels: Sequence[float]
) -> str:
    days, is_marked = history.epochs.astype("datetime64[D]"), history.is_marked
    to_px, parts = over_time(history.title, period, levels, CHART_PX)
    steps = np.array_split(np.arange(len(days)), min(len(days), MAX_STEPS))
    step_days = np.array([days[step].astype(int).mean() + EPOCH_ORDINAL for step in steps])
    groups = [(values[~is_marked], OTHER_COLOUR), (values[is_marked], MARKED_COLOUR)]
    for series, colour in groups:
        parts += [
            _draw_line(to_px, step_days, _mean_by_step(line[None], steps), colour)
            for line in series[:: max(1, -(-len(series) // MAX_LINES))]
        ]
    for series, colour in groups:
        if len(series):
            parts.append(
                _draw_line(
                    to_px, step_days, _mean_by_step(series, steps), colour, width=2.0, opacity=1.0
                )
            )
    return document(svg_document(history.title, 190, "none", parts, CHART_PX), 13)


def probability_colour(p_damaged: float) -> str:
    """Return the colour of a probability of damage; grey where there is none."""
    if math.isnan(p_damaged):
        return GREY
    return PROBABILITY_COLOURS[int(np.searchsorted(PROBABILITY_EDGES, p_damaged, side="right"))]


def city(outlines: NDArray[np.object_], p_damaged: Float, listed: Sequence[int]) -> tuple[str, int]:
    """Draw the map of the list: footprints coloured by probability of damage, those of the
    list with their numbers.

    Args:
        outlines: (F,) polygons, m. p_damaged: (F,) NaN where there is none.
        listed: rows of the F, in the order of the list.

    Returns:
        The map, and how many buildings are drawn: those of the list, and others around them.
    """
    rows = list(listed)
    west, south, east, top = _map_extent(outlines[rows])
    scale = min(MAX_MAP_PX[0] / (east - west), MAX_MAP_PX[1] / (top - south))
    width, height = max(scale * (east - west), MIN_MAP_PX), max(scale * (top - south), MIN_MAP_PX)
    left_px, top_px = (width - scale * (east - west)) / 2, (height - scale * (top - south)) / 2

    def to_px(x: float, y: float) -> tuple[float, float]:
        return left_px + scale * (x - west), top_px + scale * (top - y)

    in_view = shapely.STRtree(outlines).query(
        shapely.box(west - left_px / scale, south, east + left_px / scale, top)
    )
    unlisted = np.setdiff1d(in_view, rows)
    thinned = unlisted[:: max(1, -(-len(unlisted) // MAX_DRAWN))]
    # The most probable damage last: where enlarged footprints overlap, it is seen.
    drawn = [
        *thinned[np.argsort(np.nan_to_num(p_damaged[thinned], nan=-1.0), kind="stable")].tolist(),
        *rows[::-1],
    ]
    listed_rows = set(rows)
    # Small ones are as large as a square of the smallest size.
    missing_m = np.maximum(MIN_FOOTPRINT_PX / scale - np.sqrt(shapely.area(outlines[drawn])), 0)
    shapes = np.where(
        missing_m > 0,
        shapely.buffer(outlines[drawn], missing_m / 2, join_style="mitre"),
        outlines[drawn],
    )
    parts = [
        f'<path d="{outline_path(shape, to_px)}" fill="{probability_colour(p_damaged[row])}" '
        f'fill-rule="evenodd" stroke="{"#000" if row in listed_rows else "#6b5a3a"}" '
        f'stroke-width="{1.2 if row in listed_rows else 0.4}"/>'
        for row, shape in zip(drawn, shapes, strict=True)
    ]
    middles = [to_px(*shapely.get_coordinates(shapely.centroid(outlines[row]))[0]) for row in rows]
    parts += _write_numbers(middles, width, height)
    frame = (
        f'<rect x="1" y="1" width="{width - 2:.0f}" height="{height - 2:.0f}" fill="none" '
        'stroke="#888"/>'
    )
    parts += [north_arrow(0.0, width - 26, 46), frame]
    clip = f'<clipPath id="map"><rect width="{width}" height="{height}"/></clipPath>'
    below = scale_bar(scale, 12, height + SCALE_PX - 10, 160)  # not over the buildings
    body = f'{clip}<g clip-path="url(#map)">{"".join(parts)}</g>{below}'
    svg = (
        f'<svg viewBox="0 0 {width:.0f} {height + SCALE_PX:.0f}" role="img" '
        f'aria-label="Map">{body}</svg>'
    )
    return document(svg, 17), len(drawn)


def _map_extent(outlines: NDArray[np.object_]) -> tuple[float, float, float, float]:
    west, south, east, north = shapely.total_bounds(outlines)
    margin = MARGIN_M + 0.05 * max(east - west, north - south)
    return west - margin, south - margin, east + margin, north + margin


def _write_numbers(
    middles: Sequence[tuple[float, float]], width: float, height: float
) -> list[str]:
    """Write 1, 2, ... beside places, px, none over another, with a line from each to its place."""
    label_places: list[tuple[float, float]] = []
    lines, boxes = [], []
    for number, (x, y) in enumerate(middles, 1):
        spots = [
            (x + distance * math.cos(turn), y + distance * math.sin(turn))
            for distance in range(20, 400, 14)
            for turn in np.linspace(-math.pi / 4, 7 * math.pi / 4, 12, endpoint=False)
        ]
        inside = [(a, b) for a, b in spots if 18 < a < width - 18 and 12 < b < height - 12]
        free = (
            (a, b)
            for a, b in inside
            if all(abs(a - c) > 30 or abs(b - d) > 20 for c, d in label_places)
        )
        a, b = next(free, (x, y))
        label_places.append((a, b))
        lines.append(
            f'<path d="M{x:.1f} {y:.1f}L{a:.1f} {b:.1f}" stroke="#000" stroke-width="0.7"/>'
        )
        boxes.append(
            f'<rect x="{a - 13:.1f}" y="{b - 9:.1f}" width="26" height="18" rx="3" fill="#fff" '
            'stroke="#000" '
            f'stroke-width="0.7"/>{svg_text(a, b + 5.5, str(number), "middle")}'
        )
    return [*lines, *boxes]


def _start_level(series: Float) -> float:
    """Return the median of the first tenth of the values of a series (T,)."""
    values = series[np.isfinite(series)]
    return float(np.median(values[: max(3, len(values) // 10)])) if len(values) else 0.0


def _scale_ends(values: Float) -> tuple[float, float]:
    """Return the ends of the scale, whole multiples of 10 mm, around nearly all values."""
    low, high = np.quantile(values, (0.005, 0.995)) if len(values) else (0.0, 0.0)
    return 10.0 * math.floor(min(float(low), -1.0) / 10), 10.0 * math.ceil(
        max(float(high), 1.0) / 10
    )


def _mean_by_step(series: Float, steps: Sequence[NDArray[np.intp]]) -> Float:
    """Return the means of (N, T) over the N, and over the epochs of each step; NaN where
    all are missing."""
    parts = [series[:, step] for step in steps]
    return np.array([np.nanmean(part) if np.isfinite(part).any() else np.nan for part in parts])


def _draw_line(
    to_px: Any,
    days: Float,
    values: Float,
    colour: str,
    *,
    width: float = 0.5,
    opacity: float = 0.45,
) -> str:
    is_finite = np.isfinite(values)
    points = " ".join(
        "{:.1f},{:.1f}".format(*to_px(x, y))
        for x, y in zip(days[is_finite], values[is_finite], strict=True)
    )
    stroke = f'stroke="{colour}" stroke-width="{width:g}" stroke-opacity="{opacity:g}"'
    return f'<polyline points="{points}" fill="none" {stroke}/>'
