"""Draw bars and histograms as plain HTML and SVG: small, sharp on a phone, and without a script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from plumbline.reporting.page import number, say

FILLS = ("#2f6c9e", "#e0a030", "#6b9e5a", "#b0517d", "#7a7a7a", "#5ab4c4", "#8c6bb1", "#c46a3d")
OUTLINE_WIDTH, OUTLINE_HEIGHT = 240, 64
MOST_KINDS = 12
Cell = tuple[str, str, Sequence[float], Mapping[str, Sequence[int]], str]
"""Title, unit, edges, counts per series (the first filled, the others lines), text below."""


@dataclass(frozen=True)
class Group:
    """One bar of a stacked plot."""

    name: str
    counts: Mapping[str, int]


def stacked(groups: Sequence[Group]) -> str:
    """Draw bars of shares with a key; the kinds beyond `MOST_KINDS` are drawn as one."""
    kinds = list(dict.fromkeys(kind for group in groups for kind in group.counts))
    drawn = kinds if len(kinds) <= MOST_KINDS else kinds[: MOST_KINDS - 1]
    colour = {kind: FILLS[i % len(FILLS)] for i, kind in enumerate(drawn)}
    key = "".join(f'<i style="background:{colour[kind]}"></i>{say(kind)}' for kind in drawn)
    if len(drawn) < len(kinds):
        key += f'<i style="background:#ccc"></i>{len(kinds) - len(drawn)} others'
    rows = []
    for group in groups:
        total = sum(group.counts.values())
        bars = "".join(
            f'<i style="width:{100 * count / total:.2f}%;background:{colour.get(kind, "#ccc")}" '
            f'title="{say(kind)}: {count:,}"></i>'
            for kind, count in group.counts.items()
            if count > 0
        )
        said = ", ".join(f"{kind} {count}" for kind, count in group.counts.items())
        rows.append(
            f'<div class="row"><span>{say(group.name)}</span><div class="bar" role="img" aria-label="{say(said)}">'
            f'{bars}</div><span class="n">{total:,}</span></div>'
        )
    return f'<div class="key">{key}</div>' + "".join(rows)


def timeline(spans: Sequence[tuple[str, Any, Any]]) -> str:
    """Draw a bar from the first to the last epoch of each track, on one scale."""
    dated = [(name, _day(first), _day(last)) for name, first, last in spans if first and last]
    if not dated:
        return ""
    start, end = min(row[1] for row in dated), max(row[2] for row in dated)
    whole = max(end - start, 1)
    rows = []
    for name, first_day, last_day in dated:
        left, width = 100 * (first_day - start) / whole, 100 * (last_day - first_day) / whole
        bar = f'<i style="margin-left:{left:.2f}%;width:{max(width, 0.5):.2f}%;background:{FILLS[0]}"></i>'
        rows.append(f'<div class="row"><span>{say(name)}</span><div class="bar">{bar}</div><span></span></div>')
    ends = f"{date.fromordinal(start)} to {date.fromordinal(end)}"
    return f'<div class="key">{ends}</div>' + "".join(rows)


def histograms(cells: Sequence[Cell]) -> str:
    """Draw a grid of histograms, each to its own scale."""
    drawn = []
    for title, unit, edges, counts, text in cells:
        shapes = [
            _outline(own, "fill" if i == 0 else "line", FILLS[0] if i == 0 else FILLS[3])
            for i, own in enumerate(counts.values())
            if sum(own)
        ]
        ends = f"<span>{number(edges[0])}</span><span>{number(edges[-1])}</span>" if len(edges) else ""
        drawn.append(
            f'<div class="cell"><b>{say(title)}</b> {say(unit)}'
            f'<svg viewBox="0 0 {OUTLINE_WIDTH} {OUTLINE_HEIGHT}" preserveAspectRatio="none" role="img" '
            f'aria-label="{say(title)}">'
            f'{"".join(shapes)}</svg><div class="ends">{ends}</div>{say(text)}</div>'
        )
    return f'<div class="grid">{"".join(drawn)}</div>'


def _outline(counts: Sequence[int], kind: str, colour: str) -> str:
    """Draw the steps of a histogram; the highest reaches the top of the plot."""
    step, top = OUTLINE_WIDTH / len(counts), max(counts)
    path = f"M0 {OUTLINE_HEIGHT}"
    for i, count in enumerate(counts):
        path += f"V{OUTLINE_HEIGHT - (OUTLINE_HEIGHT - 2) * count / top:.1f}H{(i + 1) * step:.1f}"
    path += f"V{OUTLINE_HEIGHT}"
    look = (
        f'fill="{colour}" fill-opacity="0.45"'
        if kind == "fill"
        else f'fill="none" stroke="{colour}" stroke-width="1.5"'
    )
    return f'<path d="{path}" {look}/>'


def _day(text: Any) -> int:
    return date.fromisoformat(str(text)).toordinal()
