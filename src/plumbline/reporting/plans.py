"""Draw a building or a place as SVG: outlines, points, compass, scale bar.

Drawn in the building's frame, x to the right and y up. Shape and colour say the same, so
that either will do.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import shapely
from numpy.typing import NDArray

from plumbline.core.arrays import Float
from plumbline.core.compass import QUADRANTS
from plumbline.reporting.colours import DIVERGING
from plumbline.reporting.page import number, say

SMALLEST_PX, LARGEST_PX = 3.0, 11.0
"""Half width of a mark."""
PLAN_PX, SIDE_PX, TOP_PX = 420.0, 70.0, 44.0
"""Longer side of the plan, and the room around it."""
LEGEND_PX = 360
"""Width of each part of the legend."""
SIGNS = ((1, 1), (-1, 1), (-1, -1), (1, -1))
"""Direction of each quadrant along x and y, in the order of `QUADRANTS`."""


@dataclass(frozen=True)
class DrawnBuilding:
    """Data for the drawing of one building with N scatterers."""

    footprint: Any
    """Polygon, in m in the building's frame."""
    side: Float
    """(2,) of the frame, m."""
    angle: float
    """Angle of the x axis, rad counter-clockwise from east."""
    probability: Float
    """(4,) of the quadrants; NaN: only their names are written."""
    shares: list[str]
    """(4,) the same in words."""
    decided: str | None
    """The quadrant that is marked; none where the severity leaves it undefined."""
    xy: Float
    """(N, 2) m in the building's frame."""
    displacement: Float
    """(N,) differential displacement, mm, with its standard error `error`."""
    error: Float
    attribution: Float
    """(N,) what the marks' sizes say."""
    texts: list[str]
    """(N,) shown on pointing at a mark."""


def draw_building(plan: DrawnBuilding, limit_mm: float, title: str) -> str:
    """Draw the plan of one building.

    Args:
        plan: of the building. limit_mm: displacement that has the strongest colour. title:
            for who cannot see it.
    """
    west, south, east, north = shapely.total_bounds(
        [
            plan.footprint,
            shapely.box(*(-plan.side / 2), *(plan.side / 2)),
            shapely.multipoints(plan.xy),
        ]
    )
    scale = PLAN_PX / max(east - west, north - south, 1.0)
    width, height = PLAN_PX + 2 * SIDE_PX, (north - south) * scale + 2 * TOP_PX + 24
    left_px = (width - (east - west) * scale) / 2

    def at(x: float, y: float) -> tuple[float, float]:
        return left_px + (x - west) * scale, TOP_PX + (north - y) * scale

    body = [
        f'<path d="{outline_path(plan.footprint, at)}" fill="#f1f1ee" stroke="#333" '
        'stroke-width="2" '
        'fill-rule="evenodd"/>',
        _compass(plan, at),
        _labels(plan, at, (west, south, east, north)),
        north_arrow(plan.angle, width - SIDE_PX / 2, TOP_PX + 20),
        scale_bar(scale, SIDE_PX, height - 12, PLAN_PX / 3),
        *_marks(plan, limit_mm, at),
    ]
    return (
        f'<svg viewBox="0 0 {width:.1f} {height:.1f}" role="img" aria-label="{say(title)}">'
        f"<title>{say(title)}</title>{''.join(body)}</svg>"
    )


At = Callable[[float, float], tuple[float, float]]


def _compass(plan: DrawnBuilding, at: At) -> str:
    """Draw the frame's rectangle and its axes, with the decided quadrant darker."""
    x, y = plan.side / 2
    body = ""
    if plan.decided is not None:
        to_x, to_y = SIGNS[QUADRANTS.index(plan.decided)]
        body += (
            "<path "
            f'd="{_ring([(0, 0), (to_x * x, 0), (to_x * x, to_y * y), (0, to_y * y)], at)}" '
            'fill-opacity="0.1"/>'
        )
    lines = [[(-x, -y), (x, -y), (x, y), (-x, y)], [(-x, 0), (x, 0)], [(0, -y), (0, y)]]
    path = "".join(_ring(line, at) for line in lines)
    return body + f'<path d="{path}" fill="none" stroke="#999" stroke-dasharray="5 4"/>'


def _labels(plan: DrawnBuilding, at: At, bounds: tuple[float, float, float, float]) -> str:
    """Write the names of the quadrants with their probabilities, outside the drawing."""
    west, south, east, north = bounds
    body = ""
    parts = zip(QUADRANTS, plan.probability, plan.shares, SIGNS, strict=True)
    for name, probability, share, (to_x, to_y) in parts:
        x, y = at(east if to_x > 0 else west, north if to_y > 0 else south)
        y += -18 if to_y > 0 else 28
        anchor, weight = ("start", "end")[to_x < 0], ("normal", "bold")[name == plan.decided]
        # Away from the middle, so that the labels of a narrow building do not meet.
        middle = at((east + west) / 2, 0)[0]
        x = max(x - 40, middle + 8) if to_x > 0 else min(x + 40, middle - 8)
        label = name if math.isnan(probability) else html.escape(f"{name} {share}")
        body += (
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" '
            f'font-weight="{weight}">{label}</text>'
        )
    return body


def north_arrow(angle: float, x: float, y: float) -> str:
    """Draw an arrow to the north, turned by the angle of the frame."""
    turned = math.degrees(angle)
    return (
        f'<g transform="translate({x:.1f} {y:.1f}) rotate({turned:.1f})"><title>North</title>'
        '<path d="M0 20V-8" stroke="#333" stroke-width="2"/><path d="M-6 -4L0 -18L6 -4Z" '
        'fill="#333"/>'
        f'<text transform="translate(0 -27) rotate({-turned:.1f})" text-anchor="middle" '
        'dominant-baseline="middle">N'
        "</text></g>"
    )


def scale_bar(scale: float, x: float, y: float, most_px: float) -> str:
    """Draw a scale bar: a round number of metres, at most `most_px` long."""
    most = most_px / scale
    power = 10.0 ** math.floor(math.log10(most))
    metres = power * max(step for step in (1, 2, 5) if step * power <= most)
    end = x + metres * scale
    return (
        f'<path d="M{x:.1f} {y - 4:.1f}V{y:.1f}H{end:.1f}V{y - 4:.1f}" fill="none" stroke="#333"/>'
        f'<text x="{end + 6:.1f}" y="{y:.1f}">{metres:g} m</text>'
    )


def _marks(plan: DrawnBuilding, limit_mm: float, at: At) -> list[str]:
    """Draw the scatterers, the largest first, so that they do not hide smaller ones."""
    share = np.abs(plan.attribution) / max(np.abs(plan.attribution).max(initial=0), 1e-12)
    return [
        mark(
            at(*plan.xy[i]),
            plan.displacement[i],
            plan.error[i],
            share=share[i],
            favours=plan.attribution[i] >= 0,
            limit_mm=limit_mm,
            text=plan.texts[i],
        )
        for i in np.argsort(-share, kind="stable")
    ]


def mark(
    place: tuple[float, float],
    moved: float,
    error: float,
    *,
    share: float,
    favours: bool,
    limit_mm: float,
    text: str,
) -> str:
    """Draw a scatterer: area for its weight, outline for or against the answer, shape and
    colour for its motion.

    Args:
        place: x and y in the drawing, px. moved, error: differential displacement and
            standard error, mm.
        share: of the largest size, from 0 to 1. favours: the answer that was given.
        limit_mm: see `draw_building`. text: shown on pointing at it.
    """
    x, y = place
    r = SMALLEST_PX + (LARGEST_PX - SMALLEST_PX) * math.sqrt(share)
    if abs(moved) <= error:
        moved = 0.0  # white: it does not tell from nothing
        shape = (
            f"M{x - r:.1f} {y:.1f}a{r:.1f} {r:.1f} 0 1 0 {2 * r:.1f} 0a{r:.1f} {r:.1f} 0 1 0 "
            f"{-2 * r:.1f} 0Z"
        )
    else:
        tip = -r if moved > 0 else r
        shape = f"M{x:.1f} {y + tip:.1f}L{x + r:.1f} {y - tip:.1f}H{x - r:.1f}Z"
    line = "" if favours else ' stroke-dasharray="2 2"'
    return (
        f'<path d="{shape}" fill="{colour(moved, limit_mm)}" '
        f'stroke="#000"{line}><title>{say(text)}</title></path>'
    )


def colour(moved_mm: float, limit_mm: float) -> str:
    """Return the colour of a movement, grey of none; beyond the limits, that of the limit."""
    if math.isnan(moved_mm):
        return "#999999"
    share = min(max(moved_mm / limit_mm, -1.0), 1.0)
    return str(DIVERGING[min(int((share + 1) / 2 * len(DIVERGING)), len(DIVERGING) - 1)])


def legend(limit_mm: float) -> str:
    """Draw the legend of colours, shapes, sizes and outlines, in parts as wide as a phone."""
    cell, colours = 24, ""
    for i, fill in enumerate(DIVERGING):
        colours += (
            f'<rect x="{20 + i * cell}" y="4" width="{cell}" height="14" fill="{fill}" '
            'stroke="#999"/>'
        )
    ends = (
        (f"≤ -{number(limit_mm)} mm", 20, "start"),
        ("0", 152, "middle"),
        (f"≥ {number(limit_mm)} mm", 284, "end"),
    )
    for text, x, anchor in ends:
        colours += f'<text x="{x}" y="34" text-anchor="{anchor}">{text}</text>'
    shapes = [
        (12, 14, -limit_mm, True, 0.3, "down"),
        (12, 38, limit_mm, True, 0.3, "up"),
        (92, 14, 0.0, True, 0.3, "within its standard error"),
        (92, 38, 0.0, False, 0.3, "dashed: speaks against the answer"),
    ]
    sizes = [
        (20, 14, 0.0, True, 0.0, ""),
        (44, 14, 0.0, True, 0.3, ""),
        (72, 14, 0.0, True, 1.0, "area: how much it moved the answer"),
    ]
    parts = [("Colours", 40, colours)]
    for name, height, marks in (("Shapes", 52, shapes), ("Sizes", 30, sizes)):
        body = ""
        for x, y, moved, favours, size, text in marks:
            body += mark(
                (x, y),
                moved,
                0.1 * limit_mm,
                share=size,
                favours=favours,
                limit_mm=limit_mm,
                text=text or "size",
            )
            body += f'<text x="{x + 18}" y="{y + 4}">{text}</text>'
        parts.append((name, height, body))
    drawn = "".join(
        f'<svg style="width:{LEGEND_PX}px" viewBox="0 0 {LEGEND_PX} {height}" role="img" '
        f'aria-label="{name}">'
        f"<title>{name}</title>{body}</svg>"
        for name, height, body in parts
    )
    explanation = "Colour: differential displacement, down to up, against the building as a whole."
    return f'<div class="legend"><p>{explanation}</p>{drawn}</div>'


def outline_path(footprint: Any, at: At) -> str:
    """Return the SVG path of the outer rings and holes of all parts of a polygon."""
    rings = [ring for part in shapely.get_parts(footprint) for ring in shapely.get_rings(part)]
    return "".join(_ring(shapely.get_coordinates(ring)[:-1].tolist(), at) for ring in rings)


def _ring(corners: Any, at: At) -> str:
    places = ("{:.1f} {:.1f}".format(*at(*corner)) for corner in corners)
    return f"M{'L'.join(places)}Z"


WIDTH, MOST_HEIGHT = 640.0, 640.0
CHART_WIDTH, CHART_HEIGHT = 640.0, 110.0
MOST_POINTS, MOST_BUILDINGS = 3000, 3000
SHARES = (0.05, 0.5, 0.95)
"""Quantiles of mean velocity whose histories are drawn."""
LEAST_MM_A_YEAR = 2.0
NOTHING = (np.zeros(0), np.zeros(0), np.zeros(0))


class PlanPoints(NamedTuple):
    """N points of a plan."""

    x: Float
    """(N,) easting, m."""
    y: Float
    """(N,) northing, m."""
    velocity: Float
    """(N,) along the line of sight, mm/yr."""


def draw_plan(tracks: Sequence[PlanPoints], outlines: NDArray[np.object_]) -> str:
    """Draw points, coloured by velocity, on footprints (polygons); north is up in the grid
    of the points."""
    outlines = outlines[:: _every(len(outlines), MOST_BUILDINGS)]
    drawn = [
        PlanPoints(*(part[:: _every(len(part), MOST_POINTS)] for part in track)) for track in tracks
    ]
    x, y, speed = (
        (np.concatenate([np.zeros(0), *part]) for part in zip(*drawn, strict=True))
        if drawn
        else NOTHING
    )
    corners = [np.column_stack([x, y])] if len(x) else []
    if len(outlines):
        corners.append(shapely.get_coordinates(outlines))
    if not corners:
        return ""
    west, south, east, north = _box(np.concatenate(corners), x, y)
    scale = min(WIDTH / max(east - west, 1.0), MOST_HEIGHT / max(north - south, 1.0))
    width, height = scale * (east - west), scale * (north - south)

    def at(x: float, y: float) -> tuple[float, float]:
        return scale * (x - west), scale * (north - y)

    shapes = [f'<path d="{outline_path(outline, at)}"/>' for outline in outlines]
    limit = max(
        LEAST_MM_A_YEAR,
        float(np.nanquantile(np.abs(speed), 0.98)) if np.isfinite(speed).any() else 0.0,
    )
    dots = [
        f'<circle cx="{px:.1f}" cy="{py:.1f}" r="2" fill="{colour(v, limit)}"/>'
        for (px, py), v in zip(map(at, x, y), speed, strict=True)
    ]
    return (
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" role="img" '
        'aria-label="Points on footprints">'
        '<g fill="#e4e1da" stroke="#8a8578" stroke-width="0.6" '
        f'fill-rule="evenodd">{"".join(shapes)}</g>'
        f"<g>{''.join(dots)}</g></svg><p>Mean velocity along the line of sight, {-limit:.0f} "
        f"(violet, away) to {limit:.0f} mm a year (green).</p>"
    )


def draw_histories(
    names: NDArray[np.object_], epochs: NDArray[np.datetime64], displacement: Float, velocity: Float
) -> str:
    """Draw three histories: fast away from the satellite, typical, and fast towards it.

    Args:
        names: of N points. epochs: (T,). displacement: (N, T) mm, NaN where missing.
            velocity: (N,) mm/yr.
    """
    finite = np.flatnonzero(np.isfinite(velocity))
    if not len(finite):
        return ""
    ordered = finite[np.argsort(velocity[finite])]
    chosen = dict.fromkeys(int(ordered[round(share * (len(ordered) - 1))]) for share in SHARES)
    return "".join(
        _history(names[row], epochs, displacement[row], float(velocity[row])) for row in chosen
    )


def _history(
    name: Any, epochs: NDArray[np.datetime64], displacement: Float, velocity: float
) -> str:
    values = displacement.astype(float)
    finite = np.isfinite(values)
    days = epochs.astype("datetime64[D]").astype(float)
    low, high = float(values[finite].min()), float(values[finite].max())
    x = 4 + (CHART_WIDTH - 8) * (days - days[0]) / max(days[-1] - days[0], 1)
    y = 6 + (CHART_HEIGHT - 12) * (high - values) / max(high - low, 1e-9)
    dots = "".join(
        f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2"/>'
        for a, b in zip(x[finite], y[finite], strict=True)
    )
    title = f"{name}: {low:.1f} to {high:.1f} mm, {velocity:+.1f} mm a year"
    return (
        f'<figure><svg viewBox="0 0 {CHART_WIDTH:.0f} {CHART_HEIGHT:.0f}" '
        f'width="{CHART_WIDTH:.0f}" role="img" '
        f'aria-label="{say(title)}"><rect width="100%" height="100%" fill="#f7f7f5"/><g '
        f'fill="#2f6c9e">{dots}</g></svg>'
        f"<figcaption>{say(title)}, {epochs[0]} to {epochs[-1]}</figcaption></figure>"
    )


def _every(count: int, most: int) -> int:
    return max(1, -(-count // most))


def _box(corners: Float, x: Float, y: Float) -> tuple[float, float, float, float]:
    """Return the bounds of the plan: the points with a margin, or the footprints where
    there are no points."""
    shown = np.column_stack([x, y]) if len(x) else corners
    low, high = shown.min(axis=0), shown.max(axis=0)
    margin = 0.03 * float((high - low).max()) + 5.0
    return (
        float(low[0] - margin),
        float(low[1] - margin),
        float(high[0] + margin),
        float(high[1] + margin),
    )
