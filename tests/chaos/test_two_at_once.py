"""Two of the same at once: pipelines in one checkout, pipelines in two clones."""

from __future__ import annotations

import pytest

from tests.flows.conftest import STAGES, Project

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
