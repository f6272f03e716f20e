"""The flow of restoration as a user starts it, over stages that take no time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flows.orchestration import tasks
from flows.stage import stage
from flows.versioning.stage_runner import STAGES as RUN
from tests.flows.conftest import Project, Server, add_restoration

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
