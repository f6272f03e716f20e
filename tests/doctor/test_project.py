"""params.yaml, dvc.yaml, the checkout, and the shipped package, each really broken."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from plumbline.doctor.probes import State
from plumbline.doctor.project import check_checkout, check_graph, check_package, check_params
from plumbline.pretrained import PACKAGE
from tests.doctor.conftest import faults, states, warnings


def git(*words: str) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True, capture_output=True)


def test_no_project_is_no_fault(folder: Path) -> None:
    assert states(check_params) == states(check_graph) == states(check_checkout) == [State.NOTHING]


def test_a_project_that_is_right(project: Path) -> None:
    assert states(check_params) == states(check_graph) == [State.OK]


def test_a_file_for_params_is_no_project(folder: Path) -> None:
    """What an analyst is told to write, and to give `predict`, holds section `ingest` alone."""
    path = folder / "params.yaml"
    path.write_text('ingest: {products: {"d*.csv": {incidence_deg: 39.3, heading_deg: 192.2}}}\n')
    assert states(check_params) == [State.OK]
    assert states(check_graph) == [State.NOTHING]
    path.write_text("ingest: {min_coherence: 7}\n")
    assert "ingest.min_coherence: 7 found" in faults(check_params)
    path.write_text("ingest: [\n")
    assert "not readable as YAML" in faults(check_params)
    assert states(check_graph) == [State.NOTHING]


def test_an_unknown_parameter(project: Path) -> None:
    with (project / "params.yaml").open("a") as stream:
        stream.write("trian: {epochs: 5}\n")
    assert "trian: unknown key" in faults(check_params)


def test_a_stage_without_a_command(project: Path) -> None:
    with (project / "dvc.yaml").open("a") as stream:
        stream.write("  denoise:\n    cmd: plumbline denoise\n")
    assert "no command of this version for denoise" in faults(check_graph)


def test_a_graph_that_dvc_refuses(project: Path) -> None:
    (project / "dvc.yaml").write_text("stages:\n  train:\n    cmmd: plumbline train\n")
    assert "'./dvc.yaml' validation failed" in faults(check_graph)


@pytest.mark.parametrize("text", ["stages: [", "[]", "stages:\n", ""])
def test_a_graph_that_is_none(project: Path, text: str) -> None:
    (project / "dvc.yaml").write_text(text)
    assert "no stages can be read" in faults(check_graph)


def test_a_commit_and_changes(project: Path) -> None:
    assert "no commit yet" in warnings(check_checkout)
    git("add", ".")
    git("commit", "--quiet", "--message", "Begin")
    assert states(check_checkout) == [State.OK]
    (project / "params.yaml").write_text("changed")
    assert "params.yaml" in warnings(check_checkout)


def test_a_checkout_whose_records_are_damaged(project: Path) -> None:
    (project / ".git" / "HEAD").write_text("nonsense")
    assert "git cannot read the checkout" in faults(check_checkout)


def test_another_code_than_that_of_the_checkout(project: Path) -> None:
    (project / "src" / "plumbline").mkdir(parents=True)
    assert "are not those that run" in warnings(check_checkout)
    assert f"`make install` in {project}" in warnings(check_checkout)


def test_a_package_that_was_changed(folder: Path) -> None:
    assert states(check_package) == [State.OK]
    shutil.copytree(PACKAGE, "data/package")
    assert states(check_package) == [State.OK, State.OK]
    with Path("data/package/network.json").open("a") as stream:
        stream.write(" ")
    said = faults(check_package)
    assert "data/package/network.json: changed since it was released" in said
    assert "dvc checkout data/package" in said
