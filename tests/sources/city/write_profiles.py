"""Profile rows of the first generation: no header, one building a line."""

from collections.abc import Sequence
from pathlib import Path


def profiles(path: Path, buildings: Sequence[tuple[Sequence[tuple[float, float]], Sequence[float]]]) -> Path:
    """Write buildings: their (distance, slope), then span, width and, where labelled, severity and location."""
    lines = [",".join(repr(float(v)) for v in [*(x for pair in pairs for x in pair), *end]) for pairs, end in buildings]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path
