"""Two families in one checkout: each in its folder, one registry, one store."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flows import report
from flows.versioning.clones import refuse_changes
from flows.versioning.families import DIAGNOSIS, REGISTRY, RESTORATION, inside
from flows.versioning.stage_runner import STAGES, StageFailedError, reproduce, stale
from tests.flows.conftest import Project, add_restoration

pytestmark = pytest.mark.usefixtures("inside")


@pytest.fixture
def both(project: Project) -> Project:
    """A scratch project with stages of both families."""
    add_restoration(project)
    return project


def test_work_is_done_in_the_folder_and_recorded_at_the_root(both: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(REGISTRY, raising=False)
    with inside(RESTORATION):
        assert Path.cwd() == both.folder / "restoration"
        assert os.environ[REGISTRY] == f"sqlite:///{both.folder}/mlflow.db"
    assert Path.cwd() == both.folder
    assert REGISTRY not in os.environ
    monkeypatch.setenv(REGISTRY, "http://127.0.0.1:5000")
    with inside(RESTORATION):
        assert os.environ[REGISTRY] == "http://127.0.0.1:5000"
    assert os.environ[REGISTRY] == "http://127.0.0.1:5000"
    assert Path.cwd() == both.folder
    with inside(DIAGNOSIS):
        assert Path.cwd() == both.folder


def test_a_commit_without_the_family_is_named(project: Project) -> None:
    with pytest.raises(StageFailedError, match=r"restoration/dvc\.yaml: no such file"), inside(RESTORATION):
        pass


def test_a_stage_is_that_of_the_folder(both: Project) -> None:
    heard: list[str] = []
    with inside(RESTORATION):
        assert stale("restore") == {*STAGES, "restore"}
        assert reproduce("simulate", heard.append) == "ran"
        assert "simulate" not in stale("restore")
        assert reproduce("ingest", str, only=("simulate", "ingest")) == "ran"
    assert "simulate says hello" in heard
    assert Path("restoration/data/simulate/file.txt").exists()
    assert not Path("data").exists()
    assert stale() == {*STAGES, "predict"}
    refuse_changes()  # DVC's record is in a folder, too


def test_figures_are_those_that_were_measured(both: Project) -> None:
    with inside(RESTORATION):
        path = Path("data/validate/metrics.json")
        path.parent.mkdir(parents=True)
        path.write_text('{"all": {"float32": {"rmse_mm": 2.5}, "gaussian_process": {"rmse_mm": 2.75}}}')
        lines = report.markdown().splitlines()
    assert "| metric | float32 | Gaussian process |" in lines
    assert "| RMSE (mm) | 2.5 | 2.75 |" in lines
