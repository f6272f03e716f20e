"""Draw one measurement against another, with the intervals of both, as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from plumbline.reporting.charts import COLOURS, GRID, HEIGHT, WIDTH, axes, svg_document, svg_text
from plumbline.reporting.cross_section import round_range
from plumbline.reporting.page import say

LEFT, KEY_PX = 84, 36
"""Room for labels of five digits; for the key below."""


class Pair(NamedTuple):
    """One object, measured twice; `across`, `down` and `up` are the lengths of the bars."""

    name: str
    x: float
    y: float
    across: float
    down: float
    up: float
    agrees: bool


class Panel(NamedTuple):
    """A chart of pairs."""

    title: str
    x_label: str
    y_label: str
    pairs: Sequence[Pair]
    least: float = -math.inf
    """Smallest possible value: axes and bars end there."""


def agreement_chart(title: str, panels: Sequence[Panel], note: str = "") -> str:
    """Draw panels side by side in an SVG document, with a key; on the diagonal both
    measurements are the same.

    Args:
        title: for who cannot see it. note: what the reader must know of the values, behind the key.
    """
    parts = [
        f'<g transform="translate({number * WIDTH} 0)">' + "\n".join(_panel(panel)) + "</g>"
        for number, panel in enumerate(panels)
    ]
    return svg_document(title, HEIGHT + KEY_PX, "#fff", [*parts, *_key(note)], WIDTH * len(panels))


def _key(note: str) -> list[str]:
    at, parts = LEFT, []
    for colour, words in ((COLOURS[0], "both agree"), (COLOURS[1], "they differ")):
        parts += [
            f'<circle cx="{at}" cy="{HEIGHT + 14}" r="4" fill="{colour}"/>',
            svg_text(at + 10, HEIGHT + 18, words, "start"),
        ]
        at += 100
    explanation = "Bars: 90 % intervals. Dashed: both are the same."
    return [*parts, svg_text(at, HEIGHT + 18, f"{explanation} {note}".strip(), "start")]


def _panel(panel: Panel) -> list[str]:
    bounds = [
        bound
        for pair in panel.pairs
        for bound in (
            pair.x - pair.across,
            pair.x + pair.across,
            pair.y - pair.down,
            pair.y + pair.up,
        )
    ]
    low, high = ends = round_range(
        max(min(bounds, default=0.0), panel.least), max(bounds, default=1.0)
    )
    place, parts = axes(
        panel.title, ends, ends, x_label=panel.x_label, y_label=panel.y_label, left_px=LEFT
    )
    (x1, y1), (x2, y2) = place(low, low), place(high, high)
    parts.append(
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {GRID} '
        'stroke-dasharray="5 4"/>'
    )
    for pair in panel.pairs:
        colour = COLOURS[0] if pair.agrees else COLOURS[1]
        x, y = place(pair.x, pair.y)
        start, bottom = place(max(pair.x - pair.across, low), max(pair.y - pair.down, low))
        right, top = place(pair.x + pair.across, pair.y + pair.up)
        bars = f"M{start:.1f} {y:.1f}H{right:.1f}M{x:.1f} {bottom:.1f}V{top:.1f}"
        parts.append(f'<path d="{bars}" stroke="{colour}" stroke-opacity="0.6"/>')
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" '
            f'fill="{colour}"><title>{say(pair.name)}</title></circle>'
        )
    return parts
