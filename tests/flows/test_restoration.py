"""The flow of restoration as a user starts it, and from clones, over stages that take no time."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from flows.orchestration import tasks
from flows.stage import stage
from flows.versioning import remote
from flows.versioning.families import RESTORATION, inside
from flows.versioning.stage_runner import STAGES as RUN
from flows.versioning.stage_runner import reproduce
from tests.flows.conftest import Project, Server, add_restoration, make_project

STAGES = (*RUN, "restore")


def test_a_stage_of_no_known_family_is_refused(project: Project) -> None:
    state = stage.fn("train", "HEAD", family="forecast")
    assert (state.name, tasks.exit_code(state)) == ("BadInput", 2)
    assert state.message.startswith("family: forecast found")


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_home")
def test_a_run_releases_in_its_folder_and_leaves_the_other_family_alone(
    project: Project, prefect_server: Server
) -> None:
    add_restoration(project)
    # The release is `python -m plumbline` in the folder, which has none of its own.
    project.environment["PYTHONPATH"] = os.pathsep.join([str(project.folder), os.environ.get("PYTHONPATH", "")])
    code, said = project.run("-m", "flows.restoration")
    assert code == 0, said
    heard = [said.index(f"{name} says hello") for name in STAGES]
    assert heard == sorted(heard)
    assert said.index("package says hello") < said.index("promoted") < said.index("restore says hello")
    for line in ("gate: pass", "champion: abc123", "field: restoration/data/restore/field.tif"):
        assert line in said
    assert Path("restoration/.plumbline/champion").exists()
    assert not Path("data").exists()
    assert not Path(".plumbline/champion").exists()

    project.environment["PREFECT_API_URL"] = prefect_server.url
    code, said = project.run("-m", "flows.restoration")
    assert code == 0, said
    assert "this run: nothing was recomputed" in said

    project.behave(gate={"fail_gate": True}, approve={"exit": 3})
    code, said = project.run("-m", "flows.restoration")
    assert code == 3, said
    assert "failed: approve refused: severity_mae of int8 on all: 0.4, at most 0.3" in said
    assert "gate: fail" in said


@pytest.mark.slow
@pytest.mark.usefixtures("harness")
def test_a_stage_is_made_of_a_commit_and_handed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a worker of another pool does: what comes before is restored, not made."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SHELL", raising=False)
    for name in ("project", "remote"):
        (tmp_path / name).mkdir()
    project = make_project(tmp_path / "project")
    add_restoration(project)
    for name in ("one", "two"):
        subprocess.run(["git", "clone", "--quiet", "project", name], check=True)
        config = f"['remote \"local\"']\n    url = {tmp_path / 'remote'}\n"
        Path(name, ".dvc/config.local").write_text(config)
    monkeypatch.chdir("one")
    with inside(RESTORATION):
        remote.check(str)
        reproduce("prepare", str, only=STAGES[:3])
        remote.push(list(STAGES[:3]), str)

    monkeypatch.chdir("../two")
    state = stage("train", "HEAD", family="restoration", return_state=True)
    assert (state.is_completed(), state.message) == (True, "train: ran")
    assert Path("restoration/data/train/file.txt").exists()
    assert not Path("data").exists()

    monkeypatch.chdir("../one")
    with inside(RESTORATION):
        assert reproduce("train", str, pull=True, only=()) == "restored"
    assert not Path("restoration/.dvc").exists()
