"""A clock that jumps: file times from another year, and the date of all processes moved while they are at work.

The date is moved for the programs (a library put before the C library's own calls), not for the kernel: times of files
that are written meanwhile, and timers of the kernel, stay.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.chaos.machines import system_of
from tests.chaos.table import Fault
from tests.flows.conftest import Project, make_project, stage_process

FLOW = ("-m", "flows.pipeline")
DAY_S = 24 * 3600
YEAR_S = 365 * DAY_S
pytestmark = pytest.mark.chaos


class Clock:
    """The date that a project's processes see."""

    def __init__(self, folder: Path) -> None:
        if (compiler := shutil.which("cc")) is None:
            pytest.skip("needs a C compiler to move the clock of programs")
        folder.mkdir(parents=True)
        self.file, self.library = folder / "shift", folder / "clock.so"
        self.jump(0)
        source = Path(__file__).with_name("clock.c")
        subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", str(self.library), str(source)], check=True)
        self.environment = {"LD_PRELOAD": str(self.library), "CHAOS_CLOCK": str(self.file)}
        self.jump(YEAR_S)
        command = [sys.executable, "-c", "import time; print(time.time())"]
        told = subprocess.run(command, env=os.environ | self.environment, capture_output=True, text=True, check=True)
        assert float(told.stdout) > time.time() + YEAR_S - DAY_S
        self.jump(0)

    def jump(self, seconds: int) -> None:
        """To so many seconds after the true date."""
        with self.file.open("r+b" if self.file.exists() else "wb") as stream:
            stream.write(struct.pack("=q", seconds))


def ran(project: Project) -> str:
    """What a run that goes well says of itself."""
    code, said = project.run(*FLOW)
    assert code == 0, said
    return said.partition("this run: ")[2].strip()


def date_files(folder: Path, seconds: int) -> None:
    """Move the times of all files of a project."""
    for path in [*folder.glob("*.py"), *folder.glob("*.yaml"), *folder.glob("dvc.lock"), *folder.glob("data/**/*")]:
        os.utime(path, (time.time() + seconds, time.time() + seconds))


@pytest.mark.usefixtures("prefect_home")
def test_file_times(project: Project, fault: Fault) -> None:
    fault.key, fault.name = "10-file-times", "file times 20 years ahead, and 20 years back"
    assert ran(project).startswith("recomputed: simulate")
    for years in (20, -20):
        date_files(project.folder, years * YEAR_S)
        assert ran(project).startswith("nothing was recomputed")
    fault.saw("DVC hashes the files again")
    fault.holds("nothing is recomputed")
    project.behave(export={"other": 1})
    date_files(project.folder, -20 * YEAR_S)
    assert ran(project).startswith("recomputed: export")
    fault.holds("a change that looks 20 years old is seen")


@pytest.mark.usefixtures("prefect_home")
def test_a_jump_in_a_run(project: Project, tmp_path: Path, fault: Fault) -> None:
    fault.key, fault.name = "10-jump-run", "clock jumps a day ahead and two back in a run of `make run`"
    clock = Clock(tmp_path / ".plumbline/clock")
    project.environment |= clock.environment
    project.behave(prepare={"sleep": 5}, train={"sleep": 5})
    run = project.start(*FLOW)
    stage_process("prepare")
    clock.jump(DAY_S)
    stage_process("train")
    clock.jump(-DAY_S)
    said, _ = run.communicate()
    assert run.returncode == 0, said
    fault.saw("the run goes on")
    fault.holds("it ends as without a jump")
    assert ran(project).startswith("nothing was recomputed")
    project.behave(prepare={"sleep": 5}, train={"other": 1})
    assert ran(project).startswith("recomputed: train")
    fault.holds("the next runs recompute what changed, and nothing else")


def test_a_jump_in_a_system(prefect_database: Path, tmp_path: Path, fault: Fault) -> None:
    fault.key, fault.name = "10-jump-system", "clock of server and workers jumps a day ahead during a run"
    (tmp_path / "project").mkdir()
    project = make_project(tmp_path / "project")
    home = project.folder / ".plumbline/system/prefect"
    home.mkdir(parents=True)
    shutil.copy(prefect_database, home)
    clock = Clock(tmp_path / "clock")
    project.environment |= clock.environment
    project.behave(train={"sleep": 30})
    project.commit()
    with system_of(project) as system:
        run = system.start("pipeline/nightly")
        stage_process("train", system.home("gpu"))
        clock.jump(DAY_S)
        fault.mended()
        found = system.ended(run)
        if found["state"]["type"] == "COMPLETED":
            fault.saw("the run goes on")
        else:
            fault.saw(f"the run is taken for dead, as {found['state']['name']}: “{found['state']['message']}”")
            system.everything_is_quiet()
            found = system.retried(run)
        assert found["state"]["type"] == "COMPLETED", system.said(run)
        fault.recovered()
        fault.holds("the run completes, or its retry does")
        system.everything_is_quiet()
        fault.holds("nothing is left running")
        found = system.ended(system.start("pipeline/nightly"))
        assert found["state"]["message"] == "nothing was recomputed"
        fault.holds("the next run finds all of it done")
