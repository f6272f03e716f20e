"""Draw curves and intervals as plain SVG, without a library, for every browser and any paper colour."""

from __future__ import annotations

import hashlib
import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass

COLOURS = ("#2f6c9e", "#c46a3d", "#4f8a3c", "#b0517d", "#7a7a7a", "#2a9d8f", "#8c6bb1", "#b58900", "#1f3b57", "#a0522d")
WIDTH, HEIGHT = 640, 400
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 40, 48
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
class Mark:
    """A named point of the chart, such as a threshold."""

    name: str
    x: float
    y: float


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
    marks: Sequence[Mark] = (),
    x_range: Range = (0.0, 1.0),
    y_range: Range = (0.0, 1.0),
    paper: str = "#fff",
) -> str:
    """Draw an SVG document with axes, grid, key and curves; curves are clipped to the ranges.

    `paper` is the colour behind it; `none` lets that of a page through, whose colour of text the words then have.
    """
    plot = "plot" + hashlib.sha256(title.encode()).hexdigest()[:8]  # two charts on one page share no name

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - x_range[0]) / (x_range[1] - x_range[0])
        up = (y - y_range[0]) / (y_range[1] - y_range[0])
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)

    parts = [_text(LEFT, 24, title, "start", bold=True), *_axes(place, x_range, y_range, x_label, y_label)]
    colour = -1
    for index, line in enumerate(lines):
        colour += not (line.dashed and index)
        look = f'stroke="{COLOURS[colour % len(COLOURS)]}" stroke-width="2"' + (
            ' stroke-dasharray="5 4"' if line.dashed else ""
        )
        path = " ".join("{:.1f},{:.1f}".format(*place(x, y)) for x, y in line.points)
        parts.append(f'<polyline clip-path="url(#{plot})" fill="none" {look} points="{path}"/>')
        row = HEIGHT - BOTTOM - 10 - 16 * (len(lines) - 1 - index)
        parts.append(f'<line x1="{LEFT + 10}" x2="{LEFT + 34}" y1="{row - 4}" y2="{row - 4}" {look}/>')
        parts.append(_text(LEFT + 40, row, line.name, "start"))
    for mark in marks:
        x, y = place(mark.x, mark.y)
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="none" stroke="currentColor"/>')
        parts.append(_text(x + 8, y - 6, mark.name, "start"))
    corner = f'x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}" height="{HEIGHT - TOP - BOTTOM}"'
    defined = f'<clipPath id="{plot}"><rect {corner}/></clipPath>'
    return _document(title, HEIGHT, paper, [defined, *parts])


def interval_chart(title: str, rows: Sequence[Estimate], paper: str = "#fff") -> str:
    """Draw an SVG document with one row per figure: its value and its interval.

    The scale is that of what is drawn; a row without an interval is a place alone.
    """
    values = [value for row in rows for value in (row.value, row.low, row.high) if value is not None]
    low, high = min(values), max(values)
    margin = 0.08 * (high - low) or 0.05 * abs(high) or 1.0
    low, high = low - margin, high + margin
    left, right, height = 96, 32, 44 + 26 * len(rows) + 22  # the last figure of the scale stands half beyond its line

    def across(value: float) -> float:
        return left + (value - low) / (high - low) * (WIDTH - left - right)

    parts = [_text(8, 24, title, "start", bold=True)]
    for tick in range(TICKS + 1):
        value = low + tick / TICKS * (high - low)
        x = across(value)
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="36" y2="{height - 24}" {GRID}/>')
        parts.append(_text(x, height - 8, f"{value:.3g}", "middle"))
    for index, row in enumerate(rows):
        y, colour = 54 + 26 * index, COLOURS[index % len(COLOURS)]
        parts.append(_text(left - 8, y + 4, row.name, "end"))
        if row.low is not None and row.high is not None:
            ends = f'x1="{across(row.low):.1f}" x2="{across(row.high):.1f}"'
            parts.append(f'<line {ends} y1="{y}" y2="{y}" stroke="{colour}" stroke-width="3"/>')
        parts.append(f'<circle cx="{across(row.value):.1f}" cy="{y}" r="5" fill="{colour}"/>')
    return _document(title, height, paper, parts)


def _document(title: str, height: int, paper: str, parts: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="{html.escape(title)}" font-family="sans-serif" font-size="12">\n'
        f'<rect width="100%" height="100%" fill="{html.escape(paper)}"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _axes(place: Place, x_range: Range, y_range: Range, x_label: str, y_label: str) -> list[str]:
    parts = []
    for tick in range(TICKS + 1):
        x, y = (low + tick / TICKS * (high - low) for low, high in (x_range, y_range))
        (across, _), (_, up) = place(x, y_range[0]), place(x_range[0], y)
        parts.append(f'<line x1="{across:.1f}" x2="{across:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" {GRID}/>')
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{up:.1f}" y2="{up:.1f}" {GRID}/>')
        parts.append(_text(across, HEIGHT - BOTTOM + 16, f"{x:g}", "middle"))
        parts.append(_text(LEFT - 6, up + 4, f"{y:.3g}", "end"))
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, x_label, "middle"))
    parts.append(
        f'<text x="14" y="{middle:g}" text-anchor="middle" fill="currentColor" transform="rotate(-90 14 {middle:g})">'
        f"{html.escape(y_label)}</text>"
    )
    return parts


def _text(x: float, y: float, words: str, anchor: str, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="currentColor"{weight}>{html.escape(words)}</text>'
    )
