"""Real trainings, killed in the middle, on a real system; its tests in this order."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.real import EPOCHS, Real, make_real
from tests.flows.system import System, checkpoint_after, heard, stage_at_work, system_of

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(2400)]
BEFORE = ("simulate", "ingest", "prepare")


@pytest.fixture(scope="module")
def system(prefect_database: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """A system that has made and released its first model."""
    project = make_real(tmp_path_factory.mktemp("real"))
    with system_of(project, prefect_database) as found:
        run = found.ended(found.start("pipeline/nightly"))
        assert run["state"]["type"] == "COMPLETED", found.said(run["id"])
        yield found


def real(system: System) -> Real:
    assert isinstance(system.project, Real)
    return system.project


def test_training_killed(system: System) -> None:
    former = real(system).champion()
    real(system).train_with(seed=2)
    run = system.start("pipeline/nightly")
    stage = stage_at_work("train", system.home("gpu"))
    checkpoint_after(system.home("gpu"), "train", 3)
    os.kill(stage, signal.SIGKILL)
    found = system.ended(run)
    assert (found["state"]["type"], found["state"]["name"]) == ("FAILED", "Failed")
    assert "train was killed by signal 9" in found["state"]["message"]
    assert real(system).champion() == former
    assert not (system.home("gpu") / "data/train").exists()

    found = system.retried(run)
    assert found["state"]["type"] == "COMPLETED", system.said(run)
    (again, *_) = system.runs_of("train")
    lines = system.said(again["id"])
    (resumed,) = [line for line in lines if "resuming from the checkpoint of an interrupted run, after epoch" in line]
    epoch = int(resumed.rpartition(" ")[2])
    assert 2 <= epoch < EPOCHS
    everything = system.said(run)
    assert [heard(everything, stage) for stage in BEFORE] == [0, 0, 0]
    assert heard(everything, "export") == 1
    new = real(system).champion()
    assert new != former
    assert [version for version, _ in real(system).releases()].count(new) == 1
    system.everything_is_quiet()
