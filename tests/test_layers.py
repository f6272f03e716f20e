"""The layers of the design, as `pyproject.toml` states them, hold for the code that is there."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import plumbline

ROOT = Path(__file__).parents[1]
PACKAGE = Path(plumbline.__file__).parent


def contracts():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]


def test_nothing_imports_what_comes_after_it():
    """In a process of its own, because import-linter silences the loggers of this one."""
    code = "from importlinter.cli import lint_imports_command as run; run()"
    ended = subprocess.run(
        [sys.executable, "-c", code, "--no-cache", "--config", ROOT / "pyproject.toml"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(PACKAGE.parent)},
    )
    assert ended.returncode == 0, ended.stdout
    assert "0 broken" in ended.stdout


def test_every_module_has_its_layer():
    """A new folder without one could import what it liked."""
    layers = {name.strip() for layer in contracts()[0]["layers"] for name in layer.split("|")}
    found = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    assert {f"plumbline.{name}" for name in found - {"__init__", "__main__"}} == layers
