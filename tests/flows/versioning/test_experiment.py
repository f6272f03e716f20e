"""A clone without any result: an experiment is compared with the figures of the commit, by the real DVC and git."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows.versioning.clones import refuse_changes
from tests.flows.conftest import IDENTITY, ROOT

STAGES = ("train", "compress", "validate", "gate")
# Stands in for the stages that write figures. What a machine says of itself is in no two results the same.
PLUMBLINE = """#!/bin/sh
mkdir -p data/$1/summary
echo '{"score": '$(sed -n 's/ *seed: //p' params.yaml)'}' > data/$1/metrics.json
echo '{"verdict": "pass"}' > data/$1/gate.json
for name in float32 pruned fp16 int8 baseline; do cp data/$1/metrics.json data/$1/summary/$name.json; done
pwd > data/$1/record.json
"""


class Checkout:
    """A folder under git and DVC."""

    def __init__(self, folder: Path, bin: Path) -> None:
        self.folder = folder
        self._environment = {**os.environ, "PATH": f"{bin}{os.pathsep}{os.environ['PATH']}"}
        self._environment.pop("SHELL", None)

    def dvc(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "dvc", *arguments]
        return self._said(command)

    def git(self, *arguments: str) -> str:
        return self._said(["git", *IDENTITY, *arguments])

    def seed(self, number: int) -> None:
        (self.folder / "params.yaml").write_text(yaml.safe_dump({stage: {"seed": number} for stage in STAGES[:1]}))

    def _said(self, command: list[str]) -> str:
        done = subprocess.run(
            command, cwd=self.folder, env=self._environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def bin(tmp_path: Path) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "plumbline").write_text(PLUMBLINE)
    (folder / "plumbline").chmod(0o755)
    return folder


@pytest.fixture
def origin(tmp_path: Path, bin: Path) -> Checkout:
    """A project with the stages of `dvc.yaml` that write figures, run, and committed with its lock."""
    made = Checkout(tmp_path / "origin", bin)
    for name in (".dvc/config", ".dvc/.gitignore", ".dvcignore", ".gitignore"):
        (made.folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, made.folder / name)
    graph: dict[str, Any] = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
    stages = {name: graph[name] | {"params": ["train.seed"], "deps": ["data.txt"]} for name in STAGES}
    (made.folder / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}))
    (made.folder / "data.txt").touch()
    made.seed(1)
    made.git("init", "--quiet")
    made.dvc("repro")
    made.git("add", "--all")
    made.git("commit", "--quiet", "--message", "first")
    return made


def test_an_experiment_is_compared_with_the_commit_where_no_result_of_it_is_at_hand(
    origin: Checkout, bin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = origin.git("ls-files", "dvc.lock", "metrics", "data").split()
    assert kept[0] == "dvc.lock"
    assert len(kept) == 9
    origin.git("clone", "--quiet", str(origin.folder), str(tmp_path / "clone"))
    clone = Checkout(tmp_path / "clone", bin)
    clone.dvc("repro")
    # The figures are those of the commit. The results have other bytes, as on any other machine, and so has the lock.
    assert clone.git("status", "--porcelain") == " M dvc.lock\n"
    monkeypatch.chdir(clone.folder)
    refuse_changes()

    clone.seed(2)
    clone.dvc("repro")
    told = json.loads(clone.dvc("metrics", "diff", "--json"))
    assert told["metrics/train.json"] == {"score": {"old": 1, "new": 2, "diff": 1}}
    assert set(told) == {path for path in kept if path.startswith("metrics/")} - {"metrics/gate.json"}
