"""Draw one measurement against another, with the intervals of both, as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from plumbline.reporting.charts import (
    BOTTOM,
    COLOURS,
    GRID,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    axes,
    svg_document,
    svg_text,
)
from plumbline.reporting.cross_section import round_range
from plumbline.reporting.page import say


class Pair(NamedTuple):
    """One object, measured twice; `across` and `up` are half the lengths of the bars."""

    name: str
    x: float
    y: float
    across: float
    up: float
    agrees: bool


class Panel(NamedTuple):
    """A chart of pairs."""

    title: str
    x_label: str
    y_label: str
    pairs: Sequence[Pair]


def agreement_chart(title: str, panels: Sequence[Panel]) -> str:
    """Draw panels side by side in an SVG document; on the diagonal both measurements are the same."""
    parts = [
        f'<g transform="translate({number * WIDTH} 0)">' + "\n".join(_panel(panel)) + "</g>"
        for number, panel in enumerate(panels)
    ]
    return svg_document(title, HEIGHT, "#fff", parts, WIDTH * len(panels))


def _panel(panel: Panel) -> list[str]:
    ends = [
        end for one in panel.pairs for end in (one.x - one.across, one.x + one.across, one.y - one.up, one.y + one.up)
    ]
    low, high = round_range(min(ends, default=0.0), max(ends, default=1.0))

    def place(x: float, y: float) -> tuple[float, float]:
        across, up = (x - low) / (high - low), (y - low) / (high - low)
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)

    parts = [svg_text(LEFT, 24, panel.title, "start", bold=True)]
    parts += axes(place, (low, high), (low, high), panel.x_label, panel.y_label)
    (x1, y1), (x2, y2) = place(low, low), place(high, high)
    parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {GRID} stroke-dasharray="5 4"/>')
    for one in panel.pairs:
        colour = COLOURS[0] if one.agrees else COLOURS[1]
        (x, y), (right, top) = place(one.x, one.y), place(one.x + one.across, one.y + one.up)
        bars = f"M{2 * x - right:.1f} {y:.1f}H{right:.1f}M{x:.1f} {2 * y - top:.1f}V{top:.1f}"
        parts.append(f'<path d="{bars}" stroke="{colour}" stroke-opacity="0.6"/>')
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"><title>{say(one.name)}</title></circle>')
    return parts
