"""The layers of the design, as `pyproject.toml` states them, hold for the code that is there."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import plumbline

ROOT = Path(__file__).parents[1]
PACKAGE = Path(plumbline.__file__).parent


def contracts():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]


def lint_imports(config):
    """Run import-linter; in a process of its own, because it silences the loggers of this one."""
    return subprocess.run(
        [
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports_command as run; run()",
            "--no-cache",
            "--config",
            str(config),
        ],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(PACKAGE.parent)},
    )


def test_nothing_imports_what_comes_after_it():
    ended = lint_imports(ROOT / "pyproject.toml")
    assert ended.returncode == 0, ended.stdout
    assert "0 broken" in ended.stdout


def test_every_module_has_its_layer():
    """A new folder without one could import what it liked."""
    layers = {name.strip() for layer in contracts()[0]["layers"] for name in layer.split("|")}
    found = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    assert {f"plumbline.{name}" for name in found - {"__init__", "__main__"}} == layers


@pytest.mark.parametrize("wrong", ["layers", "forbidden"])
def test_a_contract_that_is_broken_is_found(wrong, tmp_path):
    """The same check on a contract that this code breaks: else its success would say nothing."""
    contract = {
        "layers": 'layers = ["plumbline.core.errors", "plumbline.cli"]',
        "forbidden": 'source_modules = ["plumbline"]\nforbidden_modules = ["numpy"]',
    }[wrong]
    config = tmp_path / "pyproject.toml"
    config.write_text(
        '[tool.importlinter]\nroot_package = "plumbline"\ninclude_external_packages = true\n'
        f'[[tool.importlinter.contracts]]\nname = "wrong"\ntype = "{wrong}"\n{contract}\n'
    )
    ended = lint_imports(config)
    assert ended.returncode == 1
    assert "wrong BROKEN" in ended.stdout
