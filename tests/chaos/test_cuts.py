"""A promotion, and the tidying of a registry, killed before each of its steps."""

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


def found_after(case: str, folder: Path) -> Any:
    """What was found after each cut; see `tests.chaos.cuts`."""
    environment = {name: value for name, value in os.environ.items() if name != "MLFLOW_TRACKING_URI"}
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", "tests.chaos.cuts", str(folder), case],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment | {"PYTHONPATH": paths},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.chaos
@pytest.mark.parametrize("case", ["new", "again"])
def test_a_promotion_cut_at_every_step(tmp_path: Path, case: str) -> None:
    found = found_after(case, tmp_path)
    steps = [one["before"] for one in found]
    # It did see the work: the files copied into the registry, the alias, and the commits between.
    assert steps.count("commit") >= (3 if case == "again" else 5)
    assert sum("registered_model_aliases" in step for step in steps) == 1
    if case == "new":
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


@pytest.mark.chaos
def test_a_tidying_cut_at_every_step(tmp_path: Path) -> None:
    found = found_after("tidy", tmp_path)
    steps = [one["before"] for one in found]
    # It did see the work: the versions, the files, the runs.
    assert sum("model_versions" in step for step in steps) == 2
    assert sum(step.startswith("os.remove") for step in steps) >= 4
    assert sum(step.startswith("DELETE FROM runs") for step in steps) == 2
    assert {one["ended"] for one in found} == {KILLED}
    assert {one["served"] for one in found} == {"five"}
    assert {tuple(one["back"]) for one in found} == {("four", "three")}
    assert not any(one["returned"] for one in found)
    assert {(one["versions"], one["folders"]) for one in found} == {(3, 3)}
