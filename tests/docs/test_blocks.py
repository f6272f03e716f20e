"""Every shell and Python block of the tutorials and how-to pages is parsed, and a handful is run, in order.

A block that no test can run says why, in a comment right behind it: `<!-- not run: reason -->`.
"""

from __future__ import annotations

import ast
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pandas as pd
import pyproj
import pytest
import typer
import yaml

from plumbline.cli import app
from tests.docs.outputs import PAGES as PAGES_WITH_OUTPUTS
from tests.docs.outputs import Reader
from tests.ports import free_port
from tests.waiting import until

ROOT = Path(__file__).parents[2]
BASE = ROOT / "tests/fixtures/cases/base"
_NAMES = """install inspect predict answers accuracy blind-check confidence map qgis explain report restoration score
rollback formats footprints adapt tutorial tutorial-fields service pipeline faults glossary"""
PAGES = (
    "README.md",
    *(f"docs/{name}.md" for name in _NAMES.split()),
)
_BLOCK = re.compile(
    r"^```(bash|sh|console|python|yaml)\n(.*?)^```$(?:\n<!-- not run: ([^\n]+?) -->$)?", re.MULTILINE | re.DOTALL
)
_INDENTED = re.compile(r"^ {4}(?:plumbline|curl|pip|python3?|make|git) ", re.MULTILINE)

RUN: Mapping[str, str] = {
    "docs/tutorial.md 1": "simulate",
    "docs/tutorial.md 2": "inspect",
    "docs/tutorial.md 3": "predict with a map",
    "docs/tutorial.md 4": "the comparison in Python, saved as a file",
    "docs/tutorial.md 5": "the comparison",
    "docs/tutorial.md 6": "a town in X band",
    "docs/tutorial-fields.md 1": "restore, few steps",
    "docs/tutorial-fields.md 3": "serve",
    "docs/tutorial-fields.md 4": "curl: a job until its result",
    "docs/formats.md 3": "predict with --params my.yaml",
    "docs/formats.md 4": "the pivot of a long table in Python",
    "docs/explain.md 1": "explain with a plan",
    "docs/score.md 1": "score of a first delivery",
}
"""Blocks that real processes run, by page and number among the page's Bash and Python blocks, and what they show."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    number: int
    language: str
    text: str
    excuse: str | None

    @property
    def key(self) -> str:
        """Page and number."""
        return f"{self.page} {self.number}"


def _blocks(page: str) -> list[Block]:
    found, number = [], 0
    for match in _BLOCK.finditer((ROOT / page).read_text(encoding="utf-8")):
        language = "bash" if match[1] in ("sh", "console") else match[1]
        if language != "yaml":
            number += 1
        found.append(Block(page, 0 if language == "yaml" else number, language, match[2], match[3]))
    return found


BLOCKS = [block for page in PAGES for block in _blocks(page) if block.language != "yaml"]
SHELL = [block for block in BLOCKS if block.language == "bash"]


def commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each simple command of a shell block, without comments and redirections."""
    lexer = shlex.shlex(text.replace("\\\n", " "), posix=True, punctuation_chars="();&|\n<>")
    lexer.whitespace, lexer.commenters, lexer.whitespace_split = " \t", "", True
    words: list[str] = []
    comment = False
    for word in [*lexer, "\n"]:
        if "\n" in word or (set(word) <= set("();&|") and not comment):
            if words:
                yield words
            words, comment = [], comment and "\n" not in word
        elif word.startswith("#"):
            comment = True
        elif not comment:
            words.append(word)


def parse(words: list[str]) -> None:
    """Parse a command line of Plumbline as the program does, and do nothing.

    Raises:
        click.ClickException: no such command or option, a value of another kind, something missing.
    """
    command: Any = typer.main.get_command(app)
    context = command.make_context("plumbline", list(words), resilient_parsing=False)
    while hasattr(command, "commands"):
        rest = [*context._protected_args, *context.args]
        name, command, left = command.resolve_command(context, rest)
        context = command.make_context(name, left, parent=context, resilient_parsing=False)


def _targets() -> set[str]:
    """Return targets of the Makefile, and variables for its command line."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z][a-z-]*(?=:)|[A-Z_]+(?= \?=))", text, re.MULTILINE))


def test_commands_stand_in_fences():
    """An indented block would escape the tests below."""
    assert [page for page in PAGES if _INDENTED.search((ROOT / page).read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize("block", SHELL, ids=lambda block: block.key)
def test_a_shell_block_is_understood_by_the_real_parsers(block: Block):
    assert "…" not in block.text, "cannot be pasted"
    subprocess.run(["bash", "-n"], input=block.text, text=True, check=True)
    for words in commands(block.text):
        if words[0] == "plumbline":
            parse(words[1:])
        if words[0] == "make":
            assert {word.partition("=")[0] for word in words[1:]} <= _targets(), words


@pytest.mark.parametrize("page", PAGES)
def test_python_and_yaml_blocks_are_understood(page: str):
    for block in _blocks(page):
        if block.language == "yaml":
            assert isinstance(yaml.safe_load(block.text), dict)
        if block.language == "python":
            ast.parse(block.text)


def test_blocks_that_are_run_are_there_and_not_excused():
    assert RUN.keys() <= {block.key for block in BLOCKS if not block.excuse}


def test_wrong_commands_are_found():
    for wrong in ("predict --no-such-option", "predict --points a.csv", "no-such-command", "release rollback 2"):
        with pytest.raises((click.ClickException, typer._click.exceptions.ClickException)):
            parse(wrong.split())
    assert list(commands("a b \\\n  c # d; e\nf 'g h' && i|j\n")) == [["a", "b", "c"], ["f", "g h"], ["i"], ["j"]]


@dataclass(frozen=True)
class Place:
    """A folder with what a reader of a page has in it."""

    folder: Path
    port: int

    def run(self, key: str, cwd: str = ".", **change: str) -> str:
        """Run a block; its output.

        Args:
            key: of `RUN`. cwd: below the folder. change: words of it that are another here.
        """
        (block,) = (block for block in BLOCKS if block.key == key)
        text = self.here(block.text, change)
        words = ["bash", "-e", "-u", "-c", text] if block.language == "bash" else [sys.executable, "-c", text]
        ended = subprocess.run(
            words, cwd=self.folder / cwd, env=Reader(self.folder).environment(), capture_output=True, text=True
        )
        assert ended.returncode == 0, (key, ended.stdout[-2000:], ended.stderr[-2000:])
        return ended.stdout + ended.stderr

    def here(self, text: str, change: Mapping[str, str] | None = None) -> str:
        """Return a block as it can run here: a free port, and what a test changes."""
        for was, now in {":8000": f":{self.port}", **(change or {})}.items():
            text = text.replace(was, now)
        return text


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """One folder for all pages, so that the second tutorial finds what the first has made."""
    return Place(tmp_path_factory.mktemp("reader"), free_port())


def _yaml(page: str, number: int) -> str:
    return [block.text for block in _blocks(page) if block.language == "yaml"][number]


def _zipped(source: Path, target: Path) -> None:
    with zipfile.ZipFile(target, "w") as packed:
        packed.write(source, source.name)


def _psi(folder: Path) -> None:
    """Write the csv that docs/formats.md describes, of the points of the fixture."""
    given = pd.read_csv(BASE / "asc.csv")
    days = [name for name in given if re.fullmatch(r"\d{8}", name)]
    east, north = pyproj.Transformer.from_crs(4326, 25831, always_xy=True).transform(given.longitude, given.latitude)
    told = {"CODE": given.pid, "X": east, "Y": north, "H": given.height_ellipse, "INC": given.incidence_angle}
    series = {f"D{day}": (-given[day] / 10).round(3) for day in days}  # cm, positive away
    pd.DataFrame(told | {"AZ": given.track_angle % 360} | series).to_csv(folder / "psi.csv", index=False)


def test_a_how_to_block_runs(place: Place):
    """One that needs no model, in the way in which the slow tests below run all."""
    days = [f"2023-01-{day:02}" for day in range(1, 11)]
    rows = [(name, 41.9, 12.4, day, 0.5) for name in "AB" for day in days]
    columns = ["id", "lat", "lon", "date", "displacement"]
    pd.DataFrame(rows, columns=columns).to_csv(place.folder / "long.csv", index=False)
    place.run("docs/formats.md 4")
    assert list(pd.read_csv(place.folder / "wide.csv"))[:4] == ["id", "lat", "lon", "D20230101"]


# One test, since each block needs what the one before has made.
@pytest.mark.slow
def test_the_tutorials_run(place: Place):
    reader = Reader(place.folder)
    for page in PAGES_WITH_OUTPUTS:
        shown, printed = reader.follow(page)
        assert shown == printed, f"{page}: run `python -m tests.docs.outputs --write`"
    city = "data/simulate/showcase"
    assert "<html" in (place.folder / city / "result.html").read_text(encoding="utf-8")[:2000].lower()
    serve = place.here(next(b.text for b in BLOCKS if b.key == "docs/tutorial-fields.md 3")).strip()
    service = subprocess.Popen(
        [*shlex.split(serve), "--port", str(place.port)],
        cwd=place.folder / city,
        env=reader.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until(lambda: _listens(place.port), "the service", needs=service, pause_s=0.1)
        place.run("docs/tutorial-fields.md 4", city)
    finally:
        service.send_signal(signal.SIGINT)
        service.wait()
    assert '"FeatureCollection"' in (place.folder / city / "result.geojson").read_text(encoding="utf-8")


@pytest.mark.slow
def test_how_to_pages_run(place: Place):
    folder = place.folder
    shutil.copy(BASE / "fp.gpkg", folder / "footprints.gpkg")
    _psi(folder)
    (folder / "my.yaml").write_text(_yaml("docs/formats.md", 0))
    assert "36 buildings" in place.run("docs/formats.md 3")
    _zipped(BASE / "asc.csv", folder / "A.zip")
    _zipped(BASE / "des.csv", folder / "B.zip")
    place.run("docs/explain.md 1", YOUR_ID="H000", **{"F.geojson": "footprints.gpkg"})
    assert (folder / "PLAN.html").exists()
    scored = folder / "project"
    scored.mkdir()
    shutil.copy(folder / "A.zip", scored / "EGMS_L2b_001_A.zip")
    shutil.copy(folder / "footprints.gpkg", scored)
    (scored / "my.yaml").write_text("score: {settle_s: 0}\n")
    change = {"footprints.geojson": "footprints.gpkg", "--params my.yaml": "--params my.yaml --workers 1"}
    place.run("docs/score.md 1", "project", **change)
    assert list(scored.glob("data/score/athens/2026-08-*/predictions.gpkg"))


def _listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0
