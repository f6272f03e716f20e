"""Parts that run the tests marked `gpu`; without a GPU they are collected and skipped."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.common import ROOT, cores
from benchmarks.gpu.results import Found, Table, Work

APART = {"tests-training": "tests/train/test_gpu.py", "tests-tensorrt": "tests/export/tensorrt/test_tensorrt.py"}
"""Files that take long, a part each; all others are one part."""
MARK = re.compile(r"pytest\.mark\.gpu\b")
MOST_WORKERS = 4
"""They share the one GPU and its memory."""


def marked_files() -> list[str]:
    """Return the files of tests that have one marked `gpu`."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [path.relative_to(ROOT).as_posix() for path in files if MARK.search(path.read_text(encoding="utf-8"))]


def tests(name: str) -> Callable[[Work], Found]:
    """Make the part that runs one of `APART`, or all others."""

    def part(work: Work) -> Found:
        files = [APART[name]] if name in APART else [one for one in marked_files() if one not in APART.values()]
        written = work.folder / f"{name}.xml"
        workers = "0" if work.dry else str(min(MOST_WORKERS, cores()))
        options = ["-m", "gpu", "-p", "no:cacheprovider", "-n", workers, "--dist", "load", f"--junit-xml={written}"]
        os.chdir(ROOT)
        code = pytest.main([*options, *files])
        columns = ["file", "passed", "skipped", "failed", "s"]
        title = "Tests marked `gpu`" + (" (no GPU here: collected, and skipped)" if work.dry else "")
        table = Table(title, columns, _rows(written))
        return Found([table], failed="" if code in (0, 5) else f"pytest -m gpu ended with {int(code)}")

    return part


def _rows(written: Path) -> list[list[str]]:
    """Count the results of each file in pytest's report."""
    counts: dict[str, list[float]] = {}
    for case in ElementTree.parse(written).iter("testcase"):
        row = counts.setdefault(case.get("classname", "").replace(".", "/") + ".py", [0, 0, 0, 0])
        if case.find("failure") is not None or case.find("error") is not None:
            row[2] += 1
        else:
            row[case.find("skipped") is not None] += 1
        row[3] += float(case.get("time", 0))
    return [[f"`{name}`", *(f"{value:.0f}" for value in row)] for name, row in sorted(counts.items())]
