"""Share what all benchmarks need: a `--smoke` size, the line of date and machine, tables, and memory of commands."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import yaml

from plumbline.core.errors import InputError

ROOT = Path(__file__).parents[1]
LOOK_S = 0.05
"""Between two looks at the memory of a command."""


def parser(name: str, text: str | None) -> argparse.ArgumentParser:
    """Make the parser of `python -m benchmarks.NAME`, with `--smoke`; `text` is its help."""
    made = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{name}", description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--smoke", action="store_true", help="toy input, seconds: shows that it runs, measures nothing")
    return made


def parse(made: argparse.ArgumentParser, argv: Sequence[str] | None, **smoke: Any) -> argparse.Namespace:
    """Parse `argv`, or the command line; with `--smoke`, `smoke` are the defaults."""
    given = made.parse_args(argv)
    if given.smoke:
        made.set_defaults(**smoke)
        given = made.parse_args(argv)
    return given


def cores() -> int:
    """Count the CPU cores that this process may use."""
    return len(os.sched_getaffinity(0))


def commit() -> str:
    """Return the short name of the commit that is checked out."""
    done = subprocess.run(
        ["git", "rev-parse", "--short=7", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"


def stamp(*more: str) -> str:
    """Say when, on which machine and at which commit a table was made."""
    machine = f"{cores()} cores {platform.machine()}"
    return ", ".join([f"{datetime.date.today()}", machine, *more, f"commit {commit()}"])


def line(*cells: object) -> str:
    """Return one line of a table."""
    return "| " + " | ".join(map(str, cells)) + " |"


def head(*columns: str) -> str:
    """Return the two lines that a table begins with."""
    return line(*columns) + "\n" + "|---" * len(columns) + "|"


def project_settings() -> dict[str, Any]:
    """Read params.yaml without the rules about cities that a benchmark does not have: they would be refused by name."""
    content: dict[str, Any] = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    rules = content["gate"]["rules"]
    content["gate"]["rules"] = [rule for rule in rules if not str(rule.get("slice", "")).startswith("city:")]
    return content


def prepared(folder: Path, content: dict[str, Any]) -> Path:
    """Have the cities of `content` simulated and prepared in `folder`, by the commands a user would type."""
    (folder / "params.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    for stage in ("simulate", "ingest", "prepare"):
        command = [sys.executable, "-m", "plumbline", stage]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{stage} ended with {done.returncode}:\n{done.stderr}")
    return folder


def toy(folder: Path) -> Path:
    """Prepare the two little cities that the tests share: what a smoke run takes in place of those of `make run`."""
    from tests.tiny import PARAMS

    return prepared(folder, PARAMS)


def watched(command: Sequence[object], **options: Any) -> tuple[float, float, int]:
    """Run a command; return its seconds, the most memory of its processes together in MB, and its exit code.

    Args:
        command: words.
        options: of `subprocess.Popen`.
    """
    began, peak = time.perf_counter(), 0.0
    process = subprocess.Popen([str(word) for word in command], **options)
    while process.poll() is None:
        peak = max(peak, resident_mb(process.pid))
        time.sleep(LOOK_S)
    return time.perf_counter() - began, peak, process.returncode


def resident_mb(pid: int) -> float:
    """Return the resident memory of a process and all below it, MB; 0 if it has ended. Shared pages count each time."""
    try:
        whole = psutil.Process(pid)
        return float(sum(one.memory_info().rss for one in (whole, *whole.children(recursive=True)))) / 1e6
    except psutil.Error:
        return 0.0


@contextlib.contextmanager
def refusing() -> Iterator[None]:
    """Say what is wrong with the input as the project's own commands do, and end as they do."""
    try:
        yield
    except InputError as error:
        print(f"ERROR {error}", file=sys.stderr)
        sys.exit(error.exit_code)
