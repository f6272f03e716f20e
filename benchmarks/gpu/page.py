"""Write the dated page: machine and versions, bars beside figures, tables, and what was not measured."""

from __future__ import annotations

import datetime
from pathlib import Path

from benchmarks.common import ROOT, head, line
from benchmarks.gpu.bars import BARS
from benchmarks.gpu.results import DONE, Key, Result, Table
from plumbline.core.files import write_bytes

TOY = (
    "**These are toy figures of a CPU.** They show that every part runs, and measure nothing. On a machine with a GPU "
    "`make gpu` writes the page that counts."
)
MISSING = "not measured"


def write_page(found: list[Result], key: Key, machine: dict[str, str], folder: Path) -> str:
    """Write the page, and return what to say of it."""
    dry = key["size"] == "toy"
    date = max((result.at[:10] for result in found if result.at), default=f"{datetime.date.today()}")
    # Only what is run in the repository's own folder is for its documentation.
    docs = not dry and folder.resolve() == (ROOT / "build" / "gpu").resolve()
    place = ROOT / "docs" / "benchmarks" / f"{date}-gpu.md" if docs else folder / f"{date}-gpu{'-dry' * dry}.md"
    write_bytes(place, page(found, key, machine, date).encode())
    if not docs:
        return f"The page: {place}"
    return f"The page: {place}\nAdd its line to docs/benchmarks/README.md and to mkdocs.yml."


def page(found: list[Result], key: Key, machine: dict[str, str], date: str) -> str:
    """Return the page as Markdown."""
    dry = key["size"] == "toy"
    title = f"# On a GPU: {'toy figures of a CPU' if dry else key['gpu']}"
    said = ", ".join(f"{name} {value}" for name, value in ({**key, **machine}).items())
    blocks = [title, f"{date}; {said}.", *([TOY] if dry else []), _bars(found, dry), _parts(found, dry)]
    blocks += [_table(table) for table in _merged(found)]
    missing = [result for result in found if result.state != DONE]
    if missing:
        rows = [f"- `{result.part}`, {result.state}: {result.reason}" for result in missing]
        blocks.append("\n".join(["## Not measured\n", *rows]))
    return "\n\n".join(blocks) + "\n"


def _bars(found: list[Result], dry: bool) -> str:
    """Hold figures against the bars."""
    figures = {name: value for result in found for name, value in result.figures.items()}
    table = Table("Bars", ["bar", "needed", "measured", "verdict"])
    for bar in BARS:
        value = bar.value(figures)
        measured, verdict = MISSING, MISSING
        if value is not None:
            measured = bar.text(value)
            verdict = "toy, not judged" if dry else "met" if bar.met(value) else "**missed**"
        table.rows.append([bar.name, bar.needed, measured, verdict])
    return _table(table)


def _parts(found: list[Result], dry: bool) -> str:
    """Return the table of parts, with the time and memory of each."""
    memory = "peak memory of the process, MB" if dry else "peak GPU memory of torch, MB"
    table = Table("Parts", ["part", "state", "s", memory, "at"])
    for result in found:
        cells = [f"{result.seconds:.0f}", f"{result.peak_mb:,.0f}" if result.peak_mb else "–", result.at or "–"]
        table.rows.append([f"`{result.part}`", result.state, *cells])
    return _table(table)


def _merged(found: list[Result]) -> list[Table]:
    """Join tables with one title, in the order of the parts."""
    tables: dict[tuple[str, ...], Table] = {}
    for result in found:
        for table in result.tables:
            known = tables.setdefault((table.title, *table.columns), Table(table.title, table.columns))
            known.rows += table.rows
    return list(tables.values())


def _table(table: Table) -> str:
    rows = [line(*row) for row in table.rows]
    return "\n".join([f"## {table.title}\n", head(*table.columns), *rows])
