"""Two of the same at once: pipelines in one checkout, pipelines in two clones, promotions to one registry."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.chaos.table import Fault
from tests.chaos.test_promotion_cut import told_by
from tests.flows.conftest import IDENTITY, STAGES, Project, stage_process

FLOW = ("-m", "flows.pipeline")


@pytest.mark.chaos
def test_two_promotions(tmp_path: Path, fault: Fault) -> None:
    fault.key, fault.name = "08-two-promotions", "two promotions to one registry at once"
    rounds = 4
    assert told_by("tests.chaos.rivals", tmp_path, str(rounds)) == ["3"] * rounds
    fault.saw("the second waits, and is compared with the first's champion")
    fault.holds("the best of three is the champion, whoever comes first")


@pytest.mark.chaos
@pytest.mark.usefixtures("prefect_home")
def test_two_pipelines_in_one_checkout(project: Project, fault: Fault) -> None:
    fault.key, fault.name = "08-two-in-one", "two pipelines at once in one clone"
    project.behave(train={"sleep": 20})
    runs = [project.start(*FLOW) for _ in range(2)]
    ended = [(run.communicate()[0], run.returncode) for run in runs]
    (won,) = [said for said, code in ended if code == 0]
    (lost,) = [said for said, code in ended if code != 0]
    assert sorted(code for _, code in ended) == [0, 2]
    assert "Another run" in lost
    assert "says hello" not in lost
    fault.saw("one works, the other ends with exit code 2 and names the process")
    assert [won.count(f"{stage} says hello") for stage in STAGES] == [1] * len(STAGES)
    fault.holds("each stage is made once")
    fault.mended()
    code, said = project.run(*FLOW)
    assert code == 0, said
    fault.recovered()
    assert "this run: nothing was recomputed" in said
    fault.holds("the next run finds all of it done")


@pytest.mark.chaos
@pytest.mark.usefixtures("prefect_home")
def test_two_pipelines_in_two_clones(project: Project, tmp_path: Path, fault: Fault) -> None:
    """They share a remote, and each takes the commit and hands its results over."""
    fault.key, fault.name = "08-two-clones", "two pipelines at once in two clones that share a remote"
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
    fault.saw("both make every stage, and push the same results")
    third = tmp_path / "clones/three"
    subprocess.run(["git", "clone", "--quiet", str(project.folder), str(third)], check=True)
    (third / ".dvc/config.local").write_text(f"['remote \"local\"']\n    url = {store}\n")
    code, said = Project(third).run("-m", "dvc", "repro", "--pull", "predict")
    assert code == 0, said
    assert "says hello" not in said
    assert (third / "data/train/file.txt").read_text() == "train"
    fault.holds("a third clone restores every stage")
