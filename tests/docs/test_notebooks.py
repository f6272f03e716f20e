"""The notebooks run from the first cell to the last, as the site shows them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs/site"))

import notebooks  # noqa: E402

MADE = {"own_city": ["result.gpkg"], "field": ["field.tif", "field_buildings.csv"]}


@pytest.mark.slow
@pytest.mark.parametrize("path", notebooks.NOTEBOOKS.values(), ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path):
    """In one process, cell by cell: what a kernel does with them."""
    script = tmp_path / "cells.py"
    script.write_text("\n\n".join(notebooks.code(path)), encoding="utf-8")
    python = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": python, "MPLBACKEND": "agg"}
    ended = subprocess.run([sys.executable, script], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert "showcase_0000" in ended.stdout
    assert all((tmp_path / name).stat().st_size for name in MADE[path.stem])


def test_every_cell_that_prints_or_draws_is_saved_with_what_it_gave():
    for place in notebooks.NOTEBOOKS:
        *pictures, (_, page) = notebooks.files(place)
        source = "\n".join(notebooks.code(notebooks.NOTEBOOKS[place]))
        assert len(pictures) == source.count("plt.show()") > 0
        assert all(content.startswith(b"\x89PNG") for _, content in pictures)
        assert isinstance(page, str)
        assert "```text\n" in page
        assert "Traceback" not in page
