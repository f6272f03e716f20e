"""params.yaml and the disks, each really broken."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from plumbline.doctor.findings import State
from plumbline.doctor.project import check_disk, check_params, last_run_bytes
from tests.doctor.conftest import faults, states


def test_no_project_is_no_fault(folder: Path) -> None:
    assert states(check_params) == [State.NOTHING]


def test_a_project_that_is_right(project: Path) -> None:
    assert states(check_params) == [State.OK]


def test_a_file_for_params_is_no_project(folder: Path) -> None:
    """What an analyst is told to write, and to give `predict`, holds section `ingest` alone."""
    path = folder / "params.yaml"
    path.write_text('ingest: {products: {"d*.csv": {incidence_deg: 39.3, heading_deg: 192.2}}}\n')
    assert states(check_params) == [State.OK]
    path.write_text("ingest: {min_coherence: 7}\n")
    assert "ingest.min_coherence: 7 found" in faults(check_params)
    path.write_text("ingest: [\n")
    assert "not readable as YAML" in faults(check_params)


def test_an_unknown_parameter(project: Path) -> None:
    with (project / "params.yaml").open("a") as stream:
        stream.write("trian: {epochs: 5}\n")
    assert "trian: unknown key" in faults(check_params)


def test_room_enough(project: Path) -> None:
    assert set(states(partial(check_disk, 0))) == {State.OK}


def test_less_free_than_there_shall_be(project: Path) -> None:
    assert "Free some" in faults(partial(check_disk, 10**18))


def test_a_run_larger_than_the_disk(project: Path) -> None:
    Path(".dvc").mkdir()
    Path("dvc.lock").write_text(
        "schema: '2.0'\nstages:\n  train:\n    cmd: a\n    outs:\n    - {path: data/train, size: 900000000000000000}\n"
        "  package:\n    cmd: a\n    outs:\n    - {path: data/package, size: 5}\n"
    )
    assert last_run_bytes() == 9 * 10**17 + 5
    assert "the last run made: 1800000000.0 GB" in faults(partial(check_disk, 0))  # in the cache and in data


@pytest.mark.parametrize("text", ["", "stages: [", "stages: {train: 3}", "nothing"])
def test_a_record_that_is_not_readable(project: Path, text: str) -> None:
    Path("dvc.lock").write_text(text)
    assert last_run_bytes() == 0


def test_a_place_that_takes_no_file(project: Path) -> None:
    Path("data").touch()
    assert "nothing can be written to data" in faults(partial(check_disk, 0))
