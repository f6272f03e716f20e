"""Draw what a report shows: the map of the list; plan, histories and strain of a building. All are SVG documents."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import date
from typing import Any, NamedTuple

import numpy as np
import shapely
from numpy.typing import NDArray

from plumbline.core.compass import Frames
from plumbline.reporting.charts import over_time, svg_document, svg_text
from plumbline.reporting.colours import GREY, PROBABILITY_COLOURS, PROBABILITY_EDGES
from plumbline.reporting.plans import DrawnBuilding, draw_building, north_arrow, outline_path, scale_bar
from plumbline.serve.columns import format_share

Float = NDArray[np.floating[Any]]
FONT = 'font-family="Libertinus Serif, serif"'
"""Of the texts in drawings: the font that typst brings."""
CHART_PX = 400
"""Width of a chart: two stand side by side."""
MAP_PX, LEAST_PX = (1000.0, 560.0), 420.0
"""Most width and height of the map, and the least of either."""
SCALE_PX = 34.0
"""Height of the strip below the map, with its scale."""
MIN_FOOTPRINT_PX = 8.0
"""Smallest size of a footprint in the map: its colour is seen, also in a large city."""
MARGIN_M = 60.0
MOST_DRAWN = 6000
"""Footprints of a map, besides those of the list."""
MOST_LINES, MOST_STEPS = 10, 80
"""Points of a track that are drawn, and values of each."""
EPOCH = date(1970, 1, 1).toordinal()
BESIDE, OTHERS = "#c46a3d", "#2f6c9e"
"""Of the points in the damaged quadrant, and of the rest."""


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
    bare = re.sub(r' (xmlns|font-family|font-size)="[^"]*"', "", svg.strip())
    return bare.replace("<svg ", f'<svg xmlns="http://www.w3.org/2000/svg" {FONT} font-size="{size}" ', 1)


def plan(
    footprint: Any,
    frame: Frames,
    seen: BuildingPoints,
    probability: Float,
    decided: str | None,
    limit_mm: float,
    title: str,
) -> str:
    """Draw the plan of a building with its points; all marks have one size.

    Args:
        footprint: polygon, m. frame: of it. seen: its points.
        probability: (4,) of the quadrants; NaN if it was not judged. decided: quadrant that is marked.
        limit_mm: displacement that has the strongest colour. title: for who cannot see it.
    """
    local = shapely.transform(footprint, lambda place: frame.to_building(np.zeros(len(place), np.intp), place))
    same = np.ones(len(seen.xy))
    drawn = DrawnBuilding(
        local,
        frame.side[0],
        float(frame.angle[0]),
        probability,
        [format_share(p) for p in probability],
        decided,
        seen.xy,
        seen.moved,
        seen.error,
        same * 0.3,
        [""] * len(same),
    )
    tall = float(np.ptp(shapely.get_coordinates(local), axis=0) @ (-1, 1)) > 0
    return document(draw_building(drawn, limit_mm, title), 18 if tall else 17)  # a tall one is made smaller


class History(NamedTuple):
    """N points of a building in one track."""

    title: str
    epochs: NDArray[np.datetime64]
    """(T,)"""
    series: Float
    """(N, T) mm, NaN where missing."""
    beside: NDArray[np.bool_]
    """(N,) which points lie in the damaged quadrant."""


def histories(shown: Sequence[History]) -> list[str]:
    """Draw histories with the means of two groups, all over the same days and on the same scale."""
    moved = [one.series - np.array([_start(own) for own in one.series])[:, None] for one in shown]
    least, most = _levels(np.concatenate([np.zeros(0), *(values[np.isfinite(values)] for values in moved)]))
    days = np.concatenate([np.zeros(0, "M8[D]"), *(one.epochs.astype("datetime64[D]") for one in shown)])
    levels = (least, (least + most) / 2, most)
    return [
        _history(one, values, (str(days.min()), str(days.max())), levels)
        for one, values in zip(shown, moved, strict=True)
    ]


def _history(one: History, values: Float, period: tuple[str, str], levels: Sequence[float]) -> str:
    days, beside = one.epochs.astype("datetime64[D]"), one.beside
    place, parts = over_time(one.title, period, levels, CHART_PX)
    steps = np.array_split(np.arange(len(days)), min(len(days), MOST_STEPS))
    at = np.array([days[step].astype(int).mean() + EPOCH for step in steps])
    groups = [(values[~beside], OTHERS), (values[beside], BESIDE)]
    for own, colour in groups:
        for line in own[:: max(1, -(-len(own) // MOST_LINES))]:
            parts.append(_line(place, at, _thinned(line[None], steps), colour, 0.5, 0.45))
    for own, colour in groups:
        parts += [_line(place, at, _thinned(own, steps), colour, 2.0, 1.0)] if len(own) else []
    return document(svg_document(one.title, 190, "none", parts, CHART_PX), 13)


def probability_colour(p_damaged: float) -> str:
    """Return the colour of a probability of damage; grey where there is none."""
    if math.isnan(p_damaged):
        return GREY
    return PROBABILITY_COLOURS[int(np.searchsorted(PROBABILITY_EDGES, p_damaged, side="right"))]


def city(outlines: NDArray[np.object_], p_damaged: Float, listed: Sequence[int]) -> tuple[str, int]:
    """Draw the map of the list: footprints coloured by probability of damage, those of the list with their numbers.

    Args:
        outlines: (F,) polygons, m. p_damaged: (F,) NaN where there is none.
        listed: rows of the F, in the order of the list.

    Returns:
        The map, and how many buildings are drawn: those of the list, and others around them.
    """
    rows = list(listed)
    west, south, east, top = _extent(outlines[rows])
    scale = min(MAP_PX[0] / (east - west), MAP_PX[1] / (top - south))
    width, height = max(scale * (east - west), LEAST_PX), max(scale * (top - south), LEAST_PX)
    left, above = (width - scale * (east - west)) / 2, (height - scale * (top - south)) / 2

    def at(x: float, y: float) -> tuple[float, float]:
        return left + scale * (x - west), above + scale * (top - y)

    there = shapely.STRtree(outlines).query(shapely.box(west - left / scale, south, east + left / scale, top))
    others = np.setdiff1d(there, rows)
    thinned = others[:: max(1, -(-len(others) // MOST_DRAWN))]
    # The most probable damage last: where enlarged footprints overlap, it is seen.
    drawn = [*thinned[np.argsort(np.nan_to_num(p_damaged[thinned], nan=-1.0), kind="stable")].tolist(), *rows[::-1]]
    named = set(rows)
    # Small ones are as large as a square of the smallest size.
    missing = np.maximum(MIN_FOOTPRINT_PX / scale - np.sqrt(shapely.area(outlines[drawn])), 0)
    shapes = np.where(missing > 0, shapely.buffer(outlines[drawn], missing / 2, join_style="mitre"), outlines[drawn])
    parts = [
        f'<path d="{outline_path(shape, at)}" fill="{probability_colour(p_damaged[row])}" '
        f'fill-rule="evenodd" stroke="{"#000" if row in named else "#6b5a3a"}" '
        f'stroke-width="{1.2 if row in named else 0.4}"/>'
        for row, shape in zip(drawn, shapes, strict=True)
    ]
    middles = [at(*shapely.get_coordinates(shapely.centroid(outlines[row]))[0]) for row in rows]
    parts += _numbers(middles, width, height)
    frame = f'<rect x="1" y="1" width="{width - 2:.0f}" height="{height - 2:.0f}" fill="none" stroke="#888"/>'
    parts += [north_arrow(0.0, width - 26, 46), frame]
    clip = f'<clipPath id="map"><rect width="{width}" height="{height}"/></clipPath>'
    below = scale_bar(scale, 12, height + SCALE_PX - 10, 160)  # not over the buildings
    body = f'{clip}<g clip-path="url(#map)">{"".join(parts)}</g>{below}'
    svg = f'<svg viewBox="0 0 {width:.0f} {height + SCALE_PX:.0f}" role="img" aria-label="Map">{body}</svg>'
    return document(svg, 17), len(drawn)


def _extent(outlines: NDArray[np.object_]) -> tuple[float, float, float, float]:
    west, south, east, north = shapely.total_bounds(outlines)
    margin = MARGIN_M + 0.05 * max(east - west, north - south)
    return west - margin, south - margin, east + margin, north + margin


def _numbers(middles: Sequence[tuple[float, float]], width: float, height: float) -> list[str]:
    """Write 1, 2, ... beside places, px, none over another, with a line from each to its place."""
    taken: list[tuple[float, float]] = []
    lines, boxes = [], []
    for number, (x, y) in enumerate(middles, 1):
        spots = [
            (x + far * math.cos(turn), y + far * math.sin(turn))
            for far in range(20, 400, 14)
            for turn in np.linspace(-math.pi / 4, 7 * math.pi / 4, 12, endpoint=False)
        ]
        inside = [(a, b) for a, b in spots if 18 < a < width - 18 and 12 < b < height - 12]
        free = ((a, b) for a, b in inside if all(abs(a - c) > 30 or abs(b - d) > 20 for c, d in taken))
        a, b = next(free, (x, y))
        taken.append((a, b))
        lines.append(f'<path d="M{x:.1f} {y:.1f}L{a:.1f} {b:.1f}" stroke="#000" stroke-width="0.7"/>')
        boxes.append(
            f'<rect x="{a - 13:.1f}" y="{b - 9:.1f}" width="26" height="18" rx="3" fill="#fff" stroke="#000" '
            f'stroke-width="0.7"/>{svg_text(a, b + 5.5, str(number), "middle")}'
        )
    return [*lines, *boxes]


def _start(one: Float) -> float:
    """Return the median of the first tenth of the values of a series (T,)."""
    known = one[np.isfinite(one)]
    return float(np.median(known[: max(3, len(known) // 10)])) if len(known) else 0.0


def _levels(known: Float) -> tuple[float, float]:
    """Return the ends of the scale, whole multiples of 10 mm, around nearly all values."""
    low, high = np.quantile(known, (0.005, 0.995)) if len(known) else (0.0, 0.0)
    return 10.0 * math.floor(min(float(low), -1.0) / 10), 10.0 * math.ceil(max(float(high), 1.0) / 10)


def _thinned(series: Float, steps: Sequence[NDArray[np.intp]]) -> Float:
    """Return the means of (N, T) over the N, and over the epochs of each step; NaN where all are missing."""
    parts = [series[:, step] for step in steps]
    return np.array([np.nanmean(part) if np.isfinite(part).any() else np.nan for part in parts])


def _line(place: Any, at: Float, values: Float, colour: str, width: float, opacity: float) -> str:
    known = np.isfinite(values)
    points = " ".join("{:.1f},{:.1f}".format(*place(x, y)) for x, y in zip(at[known], values[known], strict=True))
    look = f'stroke="{colour}" stroke-width="{width:g}" stroke-opacity="{opacity:g}"'
    return f'<polyline points="{points}" fill="none" {look}/>'
