"""Several processes through torchrun: how they end, and that none is left."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import psutil
import pytest
import yaml
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from torch.distributed.run import parse_args

from plumbline.train.distributed import launch
from plumbline.train.distributed.launch import one_process_a_device
from tests.refusals import refuses
from tests.train.distributed.test_strategies import ENVIRONMENT
from tests.train.made import make_params, save_prepared, settings
from tests.waiting import until_gone

# Two processes that meet over gloo and tell what came of it; then both sleep, or one of them fails.
MEET = """
import os, sys, time
import torch, torch.distributed as dist
from plumbline.params import Train
from plumbline.train.distributed.launch import one_process_a_device
one_process_a_device(Train(devices=2, epochs=1, patience=1, learning_rate=0.1))  # started by it: goes on
dist.init_process_group("gloo")
total = torch.tensor([dist.get_rank() + 1])
dist.all_reduce(total)
print(f"{os.getpid()} of {dist.get_world_size()}: {int(total)}\\n", end="", flush=True)
dist.barrier()
if sys.argv[1] == "sleep" or (sys.argv[1] == "left" and dist.get_rank() != int(sys.argv[2])):
    time.sleep(3600)
if sys.argv[1] == "left":
    sys.exit(2)
"""
LAUNCH = "import sys; from plumbline.train.distributed.launch import run; sys.exit(run(2, sys.argv[1:]))"


def start(tmp_path: Path, *how: str) -> subprocess.Popen[str]:
    script = tmp_path / "meet.py"
    script.write_text(MEET)
    command = [sys.executable, "-c", LAUNCH, str(script), *how]
    return subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def signals() -> Iterator[None]:
    """Give this process its signal handlers and variables back, which torchrun replaces."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
    handlers = {number: signal.getsignal(number) for number in numbers}
    with mock.patch.dict(os.environ):
        yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("signals")
def test_the_exit_code_of_two_processes_is_that_of_the_one_that_failed(tmp_path: Path) -> None:
    """The other one is ended. Neither loads torch."""
    script = tmp_path / "left.py"
    script.write_text("import os, signal, sys\nsys.exit(2) if os.environ['RANK'] == '0' else signal.pause()\n")
    assert launch.run(2, [str(script)]) == 2


@pytest.mark.slow
@pytest.mark.parametrize("process", [0, pytest.param(1, marks=pytest.mark.chaos)])
def test_two_processes_meet_and_their_exit_code_is_not_that_of_the_one_that_is_ended(
    tmp_path: Path, process: int
) -> None:
    """As where one meets bad input before the other does."""
    started = start(tmp_path, "left", str(process))
    said, _ = started.communicate()
    assert started.returncode == 2, said
    assert sorted(line.split(" ", 1)[1] for line in said.splitlines()) == ["of 2: 3"] * 2


@pytest.mark.parametrize(("codes", "status"), [([-15, -15], 143), ([-15, 2], 2), ([1, -9], 137), ([3, 2], 3)])
def test_the_exit_status_of_processes_that_signals_end(codes, status, monkeypatch, tmp_path):
    failures = {rank: ProcessFailure(rank, 1, code, str(tmp_path / "none")) for rank, code in enumerate(codes)}

    def fail(*_: str) -> None:
        raise ChildFailedError("plumbline", failures)

    monkeypatch.setattr(launch, "elastic_launch", lambda *_: fail)
    assert launch.run(2, []) == status


@pytest.mark.slow
def test_a_killed_launcher_leaves_no_process_behind(tmp_path: Path) -> None:
    started = start(tmp_path, "sleep")
    assert started.stdout
    pids = [int(started.stdout.readline().split()[0]) for _ in range(2)]
    assert all(psutil.pid_exists(pid) for pid in pids)
    started.kill()
    started.wait()
    until_gone(*pids)


@pytest.mark.chaos
@pytest.mark.parametrize("process", [0, 1])
def test_a_killed_process_is_named_and_the_other_ends_without_a_traceback(tmp_path: Path, process: int) -> None:
    """As where a system is short of memory."""
    save_prepared(tmp_path / "data" / "prepare")
    params = settings(devices=2, accelerator="cpu", epochs=1000, patience=1000)
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params))
    command = [sys.executable, "-m", "plumbline", "train"]
    started = subprocess.Popen(command, env=ENVIRONMENT, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert started.stderr
    said = []
    for line in started.stderr:
        said.append(line)
        if line.startswith("INFO epoch 2 "):
            break
    else:
        pytest.fail("".join(said))
    children = {one.environ().get("RANK"): one for one in psutil.Process(started.pid).children()}
    children[str(process)].kill()
    text = "".join([*said, started.communicate()[1]])
    assert started.returncode == 128 + signal.SIGKILL, text
    assert text.count("INFO parameters") == 1  # the first process speaks for both
    *others, last = [line for line in text.splitlines() if line.startswith("ERROR")]
    assert f"Training process {process} of 2 was killed (SIGKILL;" in last == text.strip().splitlines()[-1]
    assert "Traceback" not in text
    # The other one is ended within a tenth of a second: on a busy machine before it has said so itself.
    assert all("Another process of this run ended or cannot be reached, so this one stops." in line for line in others)


def test_several_machines_need_a_torchrun_on_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["plumbline", "train"])
    with refuses("nodes.no_torchrun", "train.nodes: 2 ") as refusal:
        one_process_a_device(make_params(devices=4, nodes=2).train)
    taken = parse_args(str(refusal.value).split(": torchrun ")[1].replace("NUMBER", "1").split())
    assert (taken.nnodes, taken.node_rank, taken.nproc_per_node, taken.master_port) == ("2", 1, "4", 29400)
    assert (taken.module, taken.training_script, taken.training_script_args) == (True, "plumbline", ["train"])


def test_one_process_goes_on_by_itself() -> None:
    one_process_a_device(make_params().train)
