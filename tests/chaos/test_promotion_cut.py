"""A promotion killed before each of its steps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.flows.conftest import ROOT

KILLED = -9


def told_by(module: str, folder: Path, *options: str) -> Any:
    """What one of this folder's programs writes."""
    environment = {name: value for name, value in os.environ.items() if name != "MLFLOW_TRACKING_URI"}
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", module, str(folder), *options],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment | {"PYTHONPATH": paths},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.chaos
@pytest.mark.parametrize("options", [(), ("--again",)], ids=["new", "again"])
def test_a_promotion_cut_at_every_step(tmp_path: Path, options: tuple[str, ...]) -> None:
    found = told_by("tests.chaos.promotions", tmp_path, *options)
    steps = [one["before"] for one in found]
    # It did see the work: the files copied into the registry, the alias, and the commits between.
    assert steps.count("commit") >= (3 if options else 5)
    assert sum("registered_model_aliases" in step for step in steps) == 1
    if not options:
        assert any(step.startswith("open") and step.endswith("model.onnx") for step in steps)
    assert {one["ended"] for one in found} == {KILLED}

    served = [one["served"] for one in found]
    alias = next(n for n, step in enumerate(steps) if "registered_model_aliases" in step)
    through = next(n for n, step in enumerate(steps) if n > alias and step == "commit")
    assert served == ["old"] * (through + 1) + ["new"] * (len(found) - through - 1)
    assert {one["retried"] for one in found} == {"new"}
    # The files may lie there twice, a version of the registry never does.
    assert {one["versions"] for one in found} == {3}
    assert {one["back"] for one in found} == {"old"}
