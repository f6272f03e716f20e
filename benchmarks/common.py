"""What the commands of this folder share: a `--smoke` size, the line of date and machine, and tables in Markdown."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from plumbline.core.errors import InputError

ROOT = Path(__file__).parents[1]


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
    rules = content["validate"]["gates"]
    content["validate"]["gates"] = [rule for rule in rules if not str(rule.get("slice", "")).startswith("city:")]
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


def maker(
    name: str, text: str | None, kinds: Iterable[str], buildings: int, option: str = "--kind"
) -> argparse.ArgumentParser:
    """Make the parser of a command that writes a city; `option` asks for its kind."""
    made = parser(name, text)
    made.add_argument("out", type=Path, nargs="?", help="city folder to write; its name is the city's")
    made.add_argument(option, dest="kind", choices=list(kinds), help="needed, but for --smoke")
    made.add_argument("--buildings", type=int, default=buildings)
    made.add_argument("--seed", type=int, default=0)
    return made


def write_city(
    made: argparse.ArgumentParser,
    argv: Sequence[str] | None,
    make: Callable[[argparse.Namespace], None],
    smoke: str = "xband",
) -> None:
    """Have `make` write the city that is asked for, and say what it holds; with `--smoke`, a few houses of a kind."""
    given = parse(made, argv, kind=smoke, buildings=12)
    with tempfile.TemporaryDirectory() as scratch, refusing():
        if given.smoke and given.out is None:
            given.out = Path(scratch) / "xband-smoke"
        if given.out is None or given.kind is None:
            made.error("OUT and the kind of city are needed; see --help")
        make(given)
        print(head("file", "rows", "epochs"))
        for path in sorted(given.out.glob("*.csv")):
            columns, *rows = path.read_text(encoding="utf-8").splitlines()
            print(line(path.name, f"{len(rows):,}", sum(name.strip('"').isdigit() for name in columns.split(","))))


@contextlib.contextmanager
def refusing() -> Iterator[None]:
    """Say what is wrong with the input as the project's own commands do, and end as they do."""
    try:
        yield
    except InputError as error:
        print(f"ERROR {error}", file=sys.stderr)
        sys.exit(error.exit_code)
