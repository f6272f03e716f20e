"""Write what held-out scenes show of restoration: scores beside those of a Gaussian process, and the bars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.common import head, line, stamp
from benchmarks.restoration.metrics import HIGHER, Scores, mean_of

DEFAULT, PROCESS = "restore", "Gaussian process"
COVERAGE = (0.87, 0.93)
MAX_SECONDS = 60.0


class Row(NamedTuple):
    """One answer for one scene."""

    scene: str
    domain: str
    who: str
    answered: float
    """Share of the scene's cells."""
    up: Scores
    east: Scores
    seconds: float
    peak_mb: float

    @property
    def both(self) -> Scores:
        """Return the mean of up and east."""
        return mean_of([self.up, self.east])


class Bar(NamedTuple):
    """What is asked, and what was found."""

    text: str
    found: str
    met: bool


def markdown(rows: Sequence[Row]) -> str:
    """Return the page."""
    parts = [
        "# Restoration on held-out scenes",
        stamp(),
        "Scores count the cells that `plumbline restore` answers, the Gaussian process's too. Slopes are central "
        "differences. CRPS takes mean and standard deviation as a normal distribution. `both` is the mean of up and "
        "east; a component that moves by less than 1 mm has no PSNR and no SSIM.",
        _score_table(rows),
    ]
    if any(row.who == DEFAULT for row in rows):
        parts += ["## Bars", _bar_table(bars(rows)), "## Cost", _cost_table(rows)]
    return "\n\n".join(parts)


def bars(rows: Sequence[Row]) -> list[Bar]:
    """Compare the default with the Gaussian process of the same scenes, by the mean of up and east."""
    own = {row.scene: row for row in rows if row.who == DEFAULT}
    other = {row.scene: row for row in rows if row.who == PROCESS}
    mine, theirs = (mean_of([side[name].both for name in own]) for side in (own, other))
    gain, similar = mine.psnr - theirs.psnr, mine.ssim - theirs.ssim
    slopes, ranked = mine.gradient / theirs.gradient - 1, mine.crps / theirs.crps - 1
    worse = [
        f"{name} {figure}"
        for name in own
        for figure, higher in HIGHER.items()
        if _worse(getattr(own[name].both, figure), getattr(other[name].both, figure), higher)
    ]
    slowest = max(row.seconds for row in own.values())
    return [
        Bar("PSNR at least 2 dB better", f"{gain:+.2f} dB", gain >= 2),
        Bar("SSIM at least 0.08 better", f"{similar:+.3f}", similar >= 0.08),
        Bar("gradient error at least 20 % less", f"{slopes:+.1%}", slopes <= -0.2),
        Bar("CRPS at least 15 % less", f"{ranked:+.1%}", ranked <= -0.15),
        Bar(f"coverage {COVERAGE[0]} to {COVERAGE[1]}", f"{mine.coverage:.3f}", _covers(mine.coverage)),
        Bar("no scene worse than the Gaussian process", ", ".join(worse) or "none", not worse),
        Bar(f"at most {MAX_SECONDS:.0f} s", f"{slowest:.1f} s", slowest <= MAX_SECONDS),
    ]


def _worse(mine: float, theirs: float, higher: bool) -> bool:
    """No figure is worse, unless neither has one."""
    if math.isnan(mine) or math.isnan(theirs):
        return math.isnan(mine) and not math.isnan(theirs)
    return mine < theirs if higher else mine > theirs


def _covers(share: float) -> bool:
    return COVERAGE[0] <= share <= COVERAGE[1]


def _score_table(rows: Sequence[Row]) -> str:
    lines = [
        head("scene", "who", "component", "RMSE, mm", "PSNR, dB", "SSIM", "gradient, mm/m", "CRPS, mm", "coverage")
    ]
    for row in rows:
        lines += [line(row.scene, row.who, name, *_cells(getattr(row, name))) for name in ("up", "east", "both")]
    whos = dict.fromkeys(row.who for row in rows)
    groups = {
        f"mean, {name}": [row for row in rows if row.domain == name] for name in dict.fromkeys(r.domain for r in rows)
    }
    groups = {name: found for name, found in groups.items() if len({row.scene for row in found}) > 1}
    if len({row.scene for row in rows}) > 1:
        groups["mean"] = list(rows)
    for name, found in groups.items():
        for who in whos:
            own = [row for row in found if row.who == who]
            for part in ("up", "east", "both"):
                lines.append(line(name, who, part, *_cells(mean_of([getattr(row, part) for row in own]))))
    return "\n".join(lines)


def _cells(scores: Scores) -> list[str]:
    digits = (2, 1, 3, 4, 3, 3)
    return ["–" if math.isnan(value) else f"{value:.{count}f}" for value, count in zip(scores, digits, strict=True)]


def _bar_table(found: Sequence[Bar]) -> str:
    return "\n".join(
        [head("bar", "found", "met"), *(line(bar.text, bar.found, "yes" if bar.met else "**no**") for bar in found)]
    )


def _cost_table(rows: Sequence[Row]) -> str:
    lines = [head("scene", "who", "answered", "s", "peak memory, MB")]
    for row in rows:
        if row.who != PROCESS:
            lines.append(line(row.scene, row.who, f"{row.answered:.1%}", f"{row.seconds:.1f}", f"{row.peak_mb:.0f}"))
    return "\n".join(lines)
