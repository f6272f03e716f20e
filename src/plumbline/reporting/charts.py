"""Draw lines, marks and intervals as SVG."""

from __future__ import annotations

import hashlib
import html
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date

COLOURS = (
    "#2f6c9e",
    "#c46a3d",
    "#4f8a3c",
    "#b0517d",
    "#7a7a7a",
    "#2a9d8f",
    "#8c6bb1",
    "#b58900",
    "#1f3b57",
    "#a0522d",
)
WIDTH, HEIGHT = 640, 400
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 40, 48
SMALL_HEIGHT = 190
"""Height of charts over time, px."""
GRID = 'stroke="#888" stroke-opacity="0.35"'
TICKS = 5
"""Parts that each axis is divided into."""
Range = tuple[float, float]
Place = Callable[[float, float], tuple[float, float]]


@dataclass(frozen=True)
class Line:
    """One curve."""

    name: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False
    """Drawn in the colour of the line before it: what that is compared with."""


@dataclass(frozen=True)
class Estimate:
    """One figure, with its interval where it has one."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None


def line_chart(
    title: str,
    x_label: str,
    y_label: str,
    lines: Sequence[Line],
    *,
    x_range: Range = (0.0, 1.0),
    y_range: Range = (0.0, 1.0),
    paper: str = "#fff",
) -> str:
    """Draw an SVG document with axes, grid, key and curves; curves are clipped to the ranges.

    `paper` is the colour behind it; `none` lets that of a page through, whose colour of
    text the words then have.
    """
    # Two charts on one page share no name.
    plot = "plot" + hashlib.sha256(title.encode()).hexdigest()[:8]

    place, parts = axes(title, x_range, y_range, x_label=x_label, y_label=y_label)
    colour = -1
    for index, line in enumerate(lines):
        colour += not (line.dashed and index)
        look = f'stroke="{COLOURS[colour % len(COLOURS)]}" stroke-width="2"' + (
            ' stroke-dasharray="5 4"' if line.dashed else ""
        )
        points = path(place, line.points)
        parts.append(f'<polyline clip-path="url(#{plot})" fill="none" {look} points="{points}"/>')
        row = HEIGHT - BOTTOM - 10 - 16 * (len(lines) - 1 - index)
        parts.append(
            f'<line x1="{LEFT + 10}" x2="{LEFT + 34}" y1="{row - 4}" y2="{row - 4}" {look}/>'
        )
        parts.append(svg_text(LEFT + 40, row, line.name, "start"))
    corner = f'x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}" height="{HEIGHT - TOP - BOTTOM}"'
    defined = f'<clipPath id="{plot}"><rect {corner}/></clipPath>'
    return svg_document(title, HEIGHT, paper, [defined, *parts])


def course_chart(
    title: str,
    days: Sequence[str],
    *,
    low: Sequence[float],
    value: Sequence[float],
    high: Sequence[float],
    width: int = WIDTH,
) -> str:
    """Draw a small SVG document of a value over time, from 0 on, with the band of its interval.

    Args:
        title: above it. days: ISO dates, two or more. low, value, high: at each of them.
            width: of the drawing, px.
    """
    numbers = [_day(day) for day in days]
    top = 1.05 * max(high) or 1.0
    place, parts = over_time(title, (days[0], days[-1]), (0.0, top / 2, top), width)
    band = [*zip(numbers, high, strict=True), *reversed(list(zip(numbers, low, strict=True)))]
    line = path(place, zip(numbers, value, strict=True))
    parts.append(f'<polygon points="{path(place, band)}" fill="{COLOURS[0]}" fill-opacity="0.2"/>')
    parts.append(f'<polyline points="{line}" fill="none" stroke="{COLOURS[0]}" stroke-width="2"/>')
    return svg_document(title, SMALL_HEIGHT, "#fff", parts, width)


def over_time(
    title: str, period: tuple[str, str], levels: Sequence[float], width: int
) -> tuple[Place, list[str]]:
    """Draw title, grid and years of a small chart over time.

    Args:
        title: above it. period: first and last ISO date. levels: of the grid, ascending.
            width: of the drawing, px.

    Returns:
        What turns days (ordinals) and values into px, and the parts of the drawing.
    """
    bottom, first, last = 24, _day(period[0]), _day(period[1])

    def place(day: float, at: float) -> tuple[float, float]:
        across = LEFT + (day - first) / (last - first) * (width - LEFT - RIGHT)
        share = (at - levels[0]) / (levels[-1] - levels[0])
        return across, SMALL_HEIGHT - bottom - share * (SMALL_HEIGHT - TOP - bottom)

    parts = [svg_text(LEFT, 24, title, "start", bold=True)]
    for at in levels:
        x, y = place(first, at)
        parts += [
            f'<line x1="{x:.1f}" x2="{width - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" {GRID}/>',
            svg_text(LEFT - 6, y + 4, f"{at:.2g}" if abs(at) < 10 else f"{at:.0f}", "end"),
        ]
    for year in range(int(period[0][:4]) + 1, int(period[1][:4]) + 1):
        x, _ = place(date(year, 1, 1).toordinal(), levels[0])
        parts += [
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{SMALL_HEIGHT - bottom}" {GRID}/>',
            svg_text(x, SMALL_HEIGHT - 8, str(year), "middle"),
        ]
    return place, parts


def interval_chart(title: str, rows: Sequence[Estimate], paper: str = "#fff") -> str:
    """Draw an SVG document with one row per figure: its value and its interval.

    The scale is that of what is drawn; a row without an interval is a place alone.
    """
    values = [
        value for row in rows for value in (row.value, row.low, row.high) if value is not None
    ]
    low, high = min(values), max(values)
    margin = 0.08 * (high - low) or 0.05 * abs(high) or 1.0
    low, high = low - margin, high + margin
    # The last figure of the scale reaches half beyond its line.
    left_px, right_px, height = 96, 32, 44 + 26 * len(rows) + 22

    def across(value: float) -> float:
        return left_px + (value - low) / (high - low) * (WIDTH - left_px - right_px)

    parts = [svg_text(8, 24, title, "start", bold=True)]
    for tick in range(TICKS + 1):
        value = low + tick / TICKS * (high - low)
        x = across(value)
        parts += [
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="36" y2="{height - 24}" {GRID}/>',
            svg_text(x, height - 8, f"{value:.3g}", "middle"),
        ]
    for index, row in enumerate(rows):
        y, colour = 54 + 26 * index, COLOURS[index % len(COLOURS)]
        parts.append(svg_text(left_px - 8, y + 4, row.name, "end"))
        if row.low is not None and row.high is not None:
            ends = f'x1="{across(row.low):.1f}" x2="{across(row.high):.1f}"'
            parts.append(f'<line {ends} y1="{y}" y2="{y}" stroke="{colour}" stroke-width="3"/>')
        parts.append(f'<circle cx="{across(row.value):.1f}" cy="{y}" r="5" fill="{colour}"/>')
    return svg_document(title, height, paper, parts)


def svg_document(
    title: str, height: int, paper: str, parts: Sequence[str], width: int = WIDTH
) -> str:
    """Return a drawing with its parts in order."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{html.escape(title)}" font-family="sans-serif" font-size="12">\n'
        f'<rect width="100%" height="100%" fill="{html.escape(paper)}"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def axes(
    title: str, x_range: Range, y_range: Range, *, x_label: str, y_label: str, left_px: int = LEFT
) -> tuple[Place, list[str]]:
    """Draw the title and both axes with grid, ticks and labels. `left_px`: where they begin, px.

    Returns:
        What turns figures into px, and the parts of the drawing.
    """

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - x_range[0]) / (x_range[1] - x_range[0])
        up = (y - y_range[0]) / (y_range[1] - y_range[0])
        return left_px + across * (WIDTH - left_px - RIGHT), HEIGHT - BOTTOM - up * (
            HEIGHT - TOP - BOTTOM
        )

    parts = [svg_text(left_px, 24, title, "start", bold=True)]
    for tick in range(TICKS + 1):
        x, y = (low + tick / TICKS * (high - low) for low, high in (x_range, y_range))
        (across, _), (_, up) = place(x, y_range[0]), place(x_range[0], y)
        parts += [
            f'<line x1="{across:.1f}" x2="{across:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" {GRID}/>',
            f'<line x1="{left_px}" x2="{WIDTH - RIGHT}" y1="{up:.1f}" y2="{up:.1f}" {GRID}/>',
            svg_text(across, HEIGHT - BOTTOM + 16, f"{x:g}", "middle"),
            svg_text(left_px - 6, up + 4, f"{y:g}" if left_px > LEFT else f"{y:.3g}", "end"),
        ]
    middle = (TOP + HEIGHT - BOTTOM) / 2
    labels = [
        svg_text((left_px + WIDTH - RIGHT) / 2, HEIGHT - 10, x_label, "middle"),
        f'<text x="14" y="{middle:g}" text-anchor="middle" fill="currentColor" '
        f'transform="rotate(-90 14 {middle:g})">{html.escape(y_label)}</text>',
    ]
    return place, [*parts, *labels]


def path(place: Place, points: Iterable[tuple[float, float]]) -> str:
    """Return the attribute `points` of a line through figures."""
    return " ".join("{:.1f},{:.1f}".format(*place(x, y)) for x, y in points)


def svg_text(x: float, y: float, words: str, anchor: str, bold: bool = False) -> str:
    """Write words at a place, px; `anchor`: `start`, `middle` or `end` of the words is there."""
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" '
        f'fill="currentColor"{weight}>{html.escape(words)}</text>'
    )


def _day(text: str) -> int:
    return date.fromisoformat(text).toordinal()
