"""Draw points, a field and buildings along a line, as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from plumbline.reporting.charts import (
    COLOURS,
    HEIGHT,
    LEFT,
    TICKS,
    TOP,
    axes,
    path,
    svg_document,
    svg_text,
)
from plumbline.reporting.page import say

STRIP = 12
"""Height of the buildings, px, at the foot of the drawing."""


class Dots(NamedTuple):
    """Points of one track."""

    name: str
    along: Sequence[float]
    value: Sequence[float]


class Band(NamedTuple):
    """A field along the line, with its interval."""

    along: Sequence[float]
    value: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


class Bar(NamedTuple):
    """A building."""

    name: str
    start: float
    end: float
    colour: str


def section_chart(
    title: str,
    length: float,
    dots: Sequence[Dots],
    band: Band | None = None,
    bars: Sequence[Bar] = (),
) -> str:
    """Draw a cross section as an SVG document: displacement, mm, over the distance along
    the line, m.

    Args:
        title: above it. length: of the line, m. dots, band, bars: what to draw; distances
            along the line in m.
    """
    values = (
        [v for part in dots for v in part.value] + ([*band.low, *band.high] if band else []) + [0.0]
    )
    low, high = round_range(min(values), max(values))
    _, end = round_range(0.0, length)
    x_label, y_label = "distance along the line, m", "displacement, mm"
    place, parts = axes(title, (0.0, end), (low, high), x_label=x_label, y_label=y_label)
    if band:
        there, back = (
            zip(band.along, band.high, strict=True),
            zip(band.along, band.low, strict=True),
        )
        parts.append(
            f'<polygon points="{path(place, [*there, *reversed(list(back))])}" fill="#888" '
            'opacity="0.25"/>'
        )
        line = path(place, zip(band.along, band.value, strict=True))
        parts.append(f'<polyline points="{line}" fill="none" stroke="#444" stroke-width="1.5"/>')
    for number, part in enumerate(dots):
        colour = COLOURS[number % len(COLOURS)]
        for x, y in zip(part.along, part.value, strict=True):
            across, up = place(x, y)
            parts.append(
                f'<circle cx="{across:.1f}" cy="{up:.1f}" r="2.5" fill="{colour}" '
                'fill-opacity="0.8"/>'
            )
        row = TOP + 14 + 16 * number
        parts.append(f'<circle cx="{LEFT + 12}" cy="{row - 4}" r="4" fill="{colour}"/>')
        parts.append(svg_text(LEFT + 22, row, part.name, "start"))
    for bar in bars:
        x, foot = place(bar.start, low)
        width = max(place(bar.end, low)[0] - x, 1.0)
        corner = f'x="{x:.1f}" y="{foot - STRIP:.1f}" width="{width:.1f}" height="{STRIP}"'
        parts.append(
            f'<rect {corner} fill="{bar.colour}" '
            f'stroke="#6b5a3a"><title>{say(bar.name)}</title></rect>'
        )
    return svg_document(title, HEIGHT, "#fff", parts)


def round_range(least: float, most: float) -> tuple[float, float]:
    """Return a range around two values that `TICKS` parts divide into round numbers."""
    power = 10.0 ** math.floor(math.log10(max(most - least, 1e-6) / TICKS))
    for times in (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0):
        step = times * power
        low = step * math.floor(least / step)
        if low + TICKS * step >= most:
            break
    return low, low + TICKS * step
