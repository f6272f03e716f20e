"""Real trainings, killed in the middle, on a real system; its tests in this order."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.machines import Broken, checkpoint_after, heard, stage_at_work, system_of
from tests.chaos.real import EPOCHS, Real, make_real
from tests.chaos.table import Fault
from tests.waiting import until, until_gone

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(2400)]
BEFORE = ("simulate", "ingest", "prepare")


@pytest.fixture(scope="module")
def system(prefect_database: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broken]:
    """A system that has made and released its first model."""
    project = make_real(tmp_path_factory.mktemp("real"))
    home = project.folder / ".plumbline/system/prefect"
    home.mkdir(parents=True)
    shutil.copy(prefect_database, home)
    with system_of(project) as found:
        run = found.ended(found.start("pipeline/nightly"))
        assert run["state"]["type"] == "COMPLETED", found.said(run["id"])
        yield found


def real(system: Broken) -> Real:
    assert isinstance(system.project, Real)
    return system.project


def goes_on(system: Broken, run: str, former: str, fault: Fault) -> None:
    """What must hold of a retried pipeline whose training had been interrupted."""
    assert run
    (again, *_) = system.runs_of("train")
    lines = system.said(again["id"])
    (resumed,) = [line for line in lines if "resuming from the checkpoint of an interrupted run, after epoch" in line]
    epoch = int(resumed.rpartition(" ")[2])
    assert 2 <= epoch < EPOCHS
    fault.holds(f"the retry goes on from the checkpoint (epoch {epoch} of {EPOCHS})")
    everything = system.said(run)
    assert [heard(everything, stage) for stage in BEFORE] == [0, 0, 0]
    assert heard(everything, "export") == 1
    fault.holds("finished stages are not repeated")
    new = real(system).champion()
    assert new != former
    assert [version for version, _ in real(system).releases()].count(new) == 1
    fault.holds("the new champion is registered once, through all gates")
    system.everything_is_quiet()
    fault.holds("nothing is left running")


def test_training_killed(system: Broken, fault: Fault) -> None:
    fault.key, fault.name = "01-training-killed", "training killed (-9) in the middle"
    former = real(system).champion()
    real(system).train_with(seed=2)
    run = system.start("pipeline/nightly")
    stage = stage_at_work("train", system.home("gpu"))
    checkpoint_after(system.home("gpu"), "train", 3)
    os.kill(stage, signal.SIGKILL)
    found = system.ended(run)
    assert (found["state"]["type"], found["state"]["name"]) == ("FAILED", "Failed")
    assert "train was killed by signal 9" in found["state"]["message"]
    fault.saw(f"both runs Failed: “{found['state']['message']}”")
    assert real(system).champion() == former
    assert not (system.home("gpu") / "data/train").exists()
    fault.holds("the champion stays; no half result in `data/train`")

    fault.mended()
    found = system.retried(run)
    assert found["state"]["type"] == "COMPLETED", system.said(run)
    fault.recovered()
    goes_on(system, run, former, fault)


def test_host_lost(system: Broken, fault: Fault) -> None:
    """Workers, flows and stages of both pools gone at once: nobody is left to tell the server."""
    fault.key, fault.name = "03-host-lost", "host lost: all processes killed together"
    former = real(system).champion()
    real(system).train_with(seed=3)
    run = system.start("pipeline/nightly")
    stage = stage_at_work("train", system.home("gpu"))
    checkpoint_after(system.home("gpu"), "train", 3)
    (train, *_) = system.runs_of("train")
    system.kill("cpu", "gpu")
    until_gone(stage)
    assert {system.run(one)["state"]["type"] for one in (run, train["id"])} == {"RUNNING"}
    fault.mended()
    for one in (run, train["id"]):
        until(lambda one=one: system.run(one)["state"]["type"] == "CRASHED", "the automation")
    fault.recovered()
    told = system.run(run)["state"]["message"]
    assert "No sign of life" in told
    fault.saw(f"both runs ended as Crashed after {fault.recovered_s:.0f} s: “{told}”")
    assert real(system).champion() == former
    fault.holds("the champion stays")

    fault.mended()
    system.up()
    found = system.retried(run)
    assert found["state"]["type"] == "COMPLETED", system.said(run)
    fault.recovered()
    goes_on(system, run, former, fault)
