"""A clone without any result: an experiment is compared with the figures of the commit, by the real DVC and git."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from flows.versioning.clones import refuse_changes
from tests.flows.conftest import IDENTITY, ROOT, Project

STAGES = ("train", "compress", "validate", "gate")
# Stands in for the stages that write figures. What a machine says of itself is in no two results the same.
PLUMBLINE = """#!/bin/sh
mkdir -p data/$1/summary
echo '{"score": '$(sed -n 's/ *seed: //p' params.yaml)'}' > data/$1/metrics.json
echo '{"verdict": "pass"}' > data/$1/gate.json
for name in float32 pruned fp16 int8 baseline; do cp data/$1/metrics.json data/$1/summary/$name.json; done
pwd > data/$1/record.json
"""


def dvc(folder: Path, *arguments: str) -> str:
    code, output = Project(folder).run("-m", "dvc", *arguments)
    assert code == 0, output
    return output


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *IDENTITY, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


@pytest.mark.slow
def test_an_experiment_is_compared_with_the_commit_where_no_result_of_it_is_at_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plumbline").write_text(PLUMBLINE)
    (tmp_path / "plumbline").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    origin, clone = tmp_path / "origin", tmp_path / "clone"
    for name in (".dvc/config", ".dvc/.gitignore", ".dvcignore", ".gitignore"):
        (origin / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, origin / name)
    graph = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
    stages = {name: graph[name] | {"params": ["train.seed"], "deps": ["data.txt"]} for name in STAGES}
    (origin / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}))
    (origin / "data.txt").touch()
    (origin / "params.yaml").write_text("train:\n  seed: 1\n")
    git(origin, "init", "--quiet")
    dvc(origin, "repro")
    Project(origin).commit()
    figures = git(origin, "ls-files", "metrics").split()
    assert len(figures) == 8
    assert git(origin, "ls-files", "data", "dvc.lock") == "dvc.lock\n"

    git(tmp_path, "clone", "--quiet", str(origin), str(clone))
    dvc(clone, "repro")
    # The figures are those of the commit. The results have other bytes, as on any other machine, and so has the lock.
    assert git(clone, "status", "--porcelain") == " M dvc.lock\n"
    refuse_changes(clone)
    dvc(clone, "exp", "run", "-S", "train.seed=2")
    diff = json.loads(dvc(clone, "metrics", "diff", "--json"))
    assert diff["metrics/train.json"] == {"score": {"old": 1, "new": 2, "diff": 1}}
    assert set(diff) == set(figures) - {"metrics/gate.json"}
