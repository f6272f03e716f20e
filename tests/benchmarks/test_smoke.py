"""Every benchmark on toy input: it runs, and prints the tables that it is for. How fast it is, nobody asks here."""

import importlib
import os
import re
from collections.abc import Iterable
from typing import Any

import pytest
import torch

from benchmarks.common import ROOT

NUMBER = re.compile(r"[-+*]*(\d[\d,]*(\.\d+)?(e[-+]\d+)?|nan)\b")
EMPTY = ("", "–")
ROWS = {
    "artifacts": [5, 5],
    "cases": [3, 6, 26],
    "curves": [1],
    "data": [2],
    "heldout.accuracy": [4, 6, 5, 5, 16, 2],
    "heldout.judge": [3],
    "heldout.mechanisms": [8, 4, 1],
    "makers.ninth": [3],
    "pipeline": [2],
    "predict": [3, 3, 3],
    "restoration": [3, 1],
    "train": [1],
    "unchanged": [4],
}
"""Number of rows of the tables of each benchmark."""
WORDS = {"who", "component", "answer", "text"}
"""Columns that hold no number."""
TRAINED = {
    "artifacts": ("--data", "data"),
    "train": ("--data", "data"),
}
"""Those that take a run of the pipeline, where there is one; what they make for themselves without, others make too."""
SLOW = {
    "artifacts",
    "cases",
    "curves",
    "data",
    "heldout.accuracy",
    "heldout.judge",
    "heldout.mechanisms",
    "pipeline",
    "predict",
    "restoration",
    "train",
    "unchanged",
}
"""Those whose smoke run takes seconds: `make test` asks the others, which end by the same helpers."""


def cases(names: Iterable[str]) -> list[Any]:
    """The names as parameters of a test, those that take long marked so."""
    return [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in names]


def tables(said: str) -> list[tuple[tuple[str, ...], list[list[str]]]]:
    """The tables of a page: columns and rows of each."""
    found: list[tuple[tuple[str, ...], list[list[str]]]] = []
    lines = [[cell.strip() for cell in line[1:-1].split("|")] if line[:1] == "|" else [] for line in said.splitlines()]
    for cells, below in zip(lines, [*lines[1:], []], strict=True):
        if below and set("".join(below)) == {"-"}:
            assert len(below) == len(cells)
            found.append((tuple(cells), []))
        elif cells and set("".join(cells)) != {"-"}:
            found[-1][1].append(cells)
    return found


def check(name: str, said: str) -> None:
    """That a page has the tables of the benchmark, each row with a number in every column that is for one."""
    found = tables(said)
    assert [len(rows) for _, rows in found] == ROWS[name]
    for columns, rows in found:
        for row in rows:
            assert len(row) == len(columns)
            numbers = [cell for column, cell in zip(columns[1:], row[1:], strict=True) if column not in WORDS]
            assert all(cell in EMPTY or NUMBER.match(cell) for cell in numbers), row
            assert any(cell not in EMPTY for cell in numbers), row


@pytest.fixture
def apart(monkeypatch, tmp_path):
    """A folder to be in, and the process's own settings as they were afterwards."""
    threads, exact = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    before = dict(os.environ)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(exact)
    os.environ.clear()
    os.environ.update(before)
    assert not list(tmp_path.iterdir()), "a smoke run leaves nothing behind"


def run(name: str, *arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    module = importlib.import_module(f"benchmarks.{name}")
    main = module.main if hasattr(module, "main") else importlib.import_module(f"benchmarks.{name}.__main__").main
    assert not main(["--smoke", *arguments])
    return capsys.readouterr().out


@pytest.mark.parametrize("name", cases(sorted(set(ROWS) - {*TRAINED})))
def test_a_benchmark_ends_with_its_tables(name, apart, capsys):
    check(name, run(name, capsys=capsys))


@pytest.mark.parametrize("name", cases(TRAINED))
def test_a_benchmark_of_a_run_ends_with_its_tables(name, apart, tiny, capsys):
    before = sorted(tiny.root.rglob("*"))
    given = [
        str(tiny.root / word) if "/" in word or word in ("data", "params.yaml") else word for word in TRAINED[name]
    ]
    check(name, run(name, *given, capsys=capsys))
    assert sorted(tiny.root.rglob("*")) == before


def test_every_benchmark_is_asked():
    folder = ROOT / "benchmarks"
    found = [path for path in folder.rglob("*.py") if 'if __name__ == "__main__":' in path.read_text(encoding="utf-8")]
    names = {path.relative_to(folder).with_suffix("").as_posix().replace("/", ".") for path in found}
    # What needs the libraries that `make load` installs, and what `test_gpu.py` asks.
    apart = {"service", "service.nonsense", "gpu"}
    assert {name.removesuffix(".__main__") for name in names} - apart == set(ROWS)
