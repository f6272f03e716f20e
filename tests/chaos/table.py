"""What a fault did and what held after it, kept from one run to the next, and written into a page."""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from plumbline.train.monitor.record import WRITTEN

ROOT = Path(__file__).parents[2]
ROWS = ROOT / ".plumbline/chaos"
PAGE = ROOT / "docs/faults.md"
BEGIN, END = "<!-- made by `make chaos` from here -->", "<!-- to here -->"


@dataclass
class Fault:
    """One fault. A test says what it did and, once it has seen it, what held; only a test that passed makes a row."""

    key: str
    """Decides the place in the table."""
    name: str = ""
    happened: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    recovered_s: float | None = None
    """From the moment the cause was gone to the completed run; None where nothing has to recover."""
    measured: str = ""
    _since: float = 0.0

    def saw(self, what: str) -> None:
        """Note what happened."""
        self.happened.append(what)

    def holds(self, what: str) -> None:
        """Note what was asserted in the lines before."""
        self.held.append(what)

    def mended(self) -> None:
        """From here on the time to recover counts."""
        self._since = time.monotonic()

    def recovered(self) -> None:
        """Here it ends."""
        self.recovered_s = round(time.monotonic() - self._since, 1)

    def write(self) -> None:
        """Keep it for the table."""
        self.measured = f"{datetime.now(UTC):%Y-%m-%d}, {_commit()}"
        ROWS.mkdir(parents=True, exist_ok=True)
        content = {name: value for name, value in asdict(self).items() if not name.startswith("_")}
        (ROWS / f"{self.key}.json").write_text(json.dumps(content, indent=2))


def write_page() -> None:
    """Put the rows into the page; of faults that were not tried here, those that are there stay."""
    text = PAGE.read_text(encoding="utf-8")
    before, after = text[: text.index(BEGIN)], text[text.index(END) :]
    found = [json.loads(path.read_text()) for path in sorted(ROWS.glob("*.json"))]
    rows = merged(text[len(before) : -len(after)].splitlines(), found)
    lines = [
        BEGIN,
        "",
        f"Machine: {_machine()}.",
        "",
        "| fault | what happened | what held | time to recover | measured (date, commit) |",
        "|---|---|---|---|---|",
        *rows,
        "",
    ]
    PAGE.write_text(before + "\n".join(lines) + after, encoding="utf-8")


def merged(lines: list[str], found: list[dict[str, Any]]) -> list[str]:
    """Lines of the table: those of `lines`, each replaced where its fault was found anew, and then what is new."""
    new = {row["name"]: _line(row) for row in found}
    kept = {line.split(" | ")[0].removeprefix("| "): line for line in lines if line.startswith("| ")}
    kept.pop("fault", None)
    return list((kept | new).values())


def _line(row: dict[str, Any]) -> str:
    seconds = row["recovered_s"]
    recovered = "nothing to do" if seconds is None else f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    happened, held = ("; ".join(map(str, row[name])) for name in ("happened", "held"))
    return f"| {row['name']} | {happened} | {held} | {recovered} | {row['measured']} |"


def _machine() -> str:
    memory = psutil.virtual_memory().total / 2**30
    load = os.getloadavg()[2]
    return f"{psutil.cpu_count()} CPU cores, {memory:.0f} GiB; load average over the last 15 minutes: {load:.0f}"


def _commit() -> str:
    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    # The page itself changes with every run, and what the pipeline writes with every run of that.
    written = [f":!{path}" for path in (PAGE.relative_to(ROOT), *WRITTEN)]
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", *written)
    return git("rev-parse", "--short=7", "HEAD") + ("-dirty" if changed else "")
