"""The verdict of a soak, and its page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.common import head, line
from benchmarks.soak.measure import GROWS

MORE, MORE_MIB, MORE_FILES = 1.25, 20.0, 300
"""A bound: in the last quarter no more than in the second by this factor, with so much besides."""
COLUMNS = ("server MiB", "workers MiB", "server's files", "disk MiB", "disk files", "git MiB")


@dataclass(frozen=True)
class Bound:
    """One figure of the second quarter of the runs, and of the last."""

    name: str
    second: float
    last: float
    most: float

    @property
    def holds(self) -> bool:
        """Whether it does."""
        return self.last <= self.most


def figures(row: dict[str, Any]) -> dict[str, float]:
    """The columns of one sample."""
    parts = [part for name, part in row["disk"].items() if name != GROWS]
    return row["memory"] | {
        "disk MiB": round(sum(part["MiB"] for part in parts), 1),
        "disk files": sum(part["files"] for part in parts),
        "git MiB": row["disk"][GROWS]["MiB"],
    }


def bounds(rows: Sequence[dict[str, Any]], runs: int) -> list[Bound]:
    """The most of each figure right after tidying, in the last quarter of the runs beside the second."""
    found = []
    samples = [row | figures(row) for row in rows if row["tidied"]]
    for name in COLUMNS[:-1]:
        second, last = (
            max((row[name] for row in samples if low * runs < row["run"] <= high * runs), default=float("nan"))
            for low, high in ((0.25, 0.5), (0.75, 1.0))
        )
        found.append(Bound(name, second, last, second * MORE + (MORE_FILES if "files" in name else MORE_MIB)))
    return found


def page(rows: Sequence[dict[str, Any]], runs: int, about: str) -> str:
    """The page, in Markdown."""
    shown = [row for row in rows if row["tidied"]]
    step = max(1, len(shown) // 20)
    shown = [*shown[::step], *shown[-1:]] if (len(shown) - 1) % step else shown[::step]
    last = rows[-1]["disk"]
    return "\n".join(
        [
            f"# {runs} small pipelines, one after the other",
            "",
            about,
            "",
            f"All {len(rows)} completed; {median(row['seconds'] for row in rows):.0f} s each (median), tidying "
            f"{median(row['tidying_s'] for row in rows if row['tidied']):.0f} s.",
            "",
            *_table(
                ["most right after tidying", "second quarter", "last quarter", "bound", "holds"],
                [
                    [one.name, f"{one.second:g}", f"{one.last:g}", f"{one.most:.0f}", "yes" if one.holds else "**no**"]
                    for one in bounds(rows, runs)
                ],
            ),
            "",
            f"A bound is {MORE:g} times the second quarter's, and {MORE_MIB:g} MiB or {MORE_FILES} files besides; "
            "git's history has none.",
            "",
            *_table(
                ["run", "seconds", *COLUMNS],
                [
                    [str(row["run"]), f"{row['seconds']:.0f}", *(f"{figures(row).get(name, 0):g}" for name in COLUMNS)]
                    for row in shown
                ],
            ),
            "",
            "At the end:",
            "",
            *_table(
                ["part", "MiB", "files"],
                [[name, f"{part['MiB']:g}", f"{part['files']:g}"] for name, part in last.items()],
            ),
            "",
        ]
    )


def _table(heads: list[str], rows: list[list[str]]) -> list[str]:
    return [head(*heads), *(line(*row) for row in rows)]
