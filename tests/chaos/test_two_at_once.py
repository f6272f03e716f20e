"""Two of the same at once: pipelines in one checkout, pipelines in two clones."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.flows.conftest import IDENTITY, STAGES, Project, stage_process

FLOW = ("-m", "flows.pipeline")


@pytest.mark.chaos
@pytest.mark.usefixtures("prefect_home")
def test_two_pipelines_in_one_checkout(project: Project) -> None:
    project.behave(train={"sleep": 20})
    runs = [project.start(*FLOW) for _ in range(2)]
    ended = [(run.communicate()[0], run.returncode) for run in runs]
    (won,) = [said for said, code in ended if code == 0]
    (lost,) = [said for said, code in ended if code != 0]
    assert sorted(code for _, code in ended) == [0, 2]
    assert "Another run" in lost
    assert "says hello" not in lost
    assert [won.count(f"{stage} says hello") for stage in STAGES] == [1] * len(STAGES)
    code, said = project.run(*FLOW)
    assert code == 0, said
    assert "this run: nothing was recomputed" in said


@pytest.mark.chaos
@pytest.mark.usefixtures("prefect_home")
def test_two_pipelines_in_two_clones(project: Project, tmp_path: Path) -> None:
    """They share a remote, and each takes the commit and hands its results over."""
    project.behave(train={"sleep": 5})
    project.commit()
    store = tmp_path / "store"
    store.mkdir()
    runs = []
    for name in ("one", "two"):
        clone = tmp_path / "clones" / name
        subprocess.run(["git", *IDENTITY, "clone", "--quiet", str(project.folder), str(clone)], check=True)
        (clone / ".dvc/config.local").write_text(f"['remote \"local\"']\n    url = {store}\n")
        (clone / ".git/info/exclude").write_text(".plumbline/\n.prefect/\n")
        other = Project(clone)
        runs.append(other.start("-c", "from flows.pipeline import pipeline; pipeline(commit='HEAD')"))
    stage_process("train", tmp_path / "clones/one")
    stage_process("train", tmp_path / "clones/two")
    for run in runs:
        said, _ = run.communicate()
        assert run.returncode == 0, said
    third = tmp_path / "clones/three"
    subprocess.run(["git", "clone", "--quiet", str(project.folder), str(third)], check=True)
    (third / ".dvc/config.local").write_text(f"['remote \"local\"']\n    url = {store}\n")
    code, said = Project(third).run("-m", "dvc", "repro", "--pull", "predict")
    assert code == 0, said
    assert "says hello" not in said
    assert (third / "data/train/file.txt").read_text() == "train"
